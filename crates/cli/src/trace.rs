//! `libra trace`: makes logs of a site's own records, and says what they tell of estimates.

use super::args::{Args, From, ImportArgs, MarginArgs, TraceCommand};
use super::{Done, Failure};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use libra_config::{EstimateMargin, last, learned, site};
use libra_terminal::{answer, say};
use libra_workload::import::{self, Format, Imported, LocalTime, Options};
use libra_workload::margin::{self, Proposal};
use libra_workload::read::{Leniency, read};
use libra_workload::write::{Target, write};
use serde_json::json;
use std::path::{Path, PathBuf};

pub fn trace(command: &TraceCommand, args: &Args) -> Done {
    match command {
        TraceCommand::Import(import) => self::import(import, args),
        TraceCommand::Margin(margin) => self::margin(margin, args),
    }
}

fn import(arguments: &ImportArgs, args: &Args) -> Done {
    let zone = zone(arguments.timezone.as_deref())?;
    let options = Options {
        format: arguments.from.map(|from| match from {
            From::Sacct => Format::Sacct,
            From::Pbs => Format::Pbs,
            From::Gridengine => Format::GridEngine,
        }),
        leniency: leniency(arguments.lenient),
        anonymous: arguments.anonymous,
        processors: arguments.processors,
        promised: arguments.promised,
    };
    let to_unix = |time: LocalTime| unix(time, &zone);
    let mut imported = import::import(&arguments.files, &options, &to_unix)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(name) = zone.iana_name() {
        imported.header.push(format!("TimeZoneString: {name}"));
    }
    let target = Target::named(arguments.output.as_deref());
    let records = imported.records.iter().copied();
    write(&target, &imported.header, records).map_err(|error| Failure::log(&target, error))?;
    summary(&imported, args.json, &target)
}

/// On standard error, because the log may be on standard output.
fn summary(imported: &Imported, as_json: bool, target: &Target) -> Done {
    let left = &imported.left_out;
    let jobs = imported.records.len();
    let never_ran = imported.records.iter().filter(|r| !r.ran()).count();
    if as_json {
        let json = json!({
            "jobs": jobs,
            "never_ran": never_ran,
            "users": imported.names[0],
            "groups": imported.names[1],
            "queues": imported.names[2],
            "processors": imported.processors,
            "not_ended": left.not_ended,
            "parts": left.parts,
            "repeated": left.repeated,
            "bad_lines": left.bad_lines,
            "without_promise": left.without_promise,
            "inconclusive": left.inconclusive,
        });
        return match target {
            Target::File(_) => answer(&format!("{json}\n"), 0),
            Target::Output => {
                say(json);
                answer("", 0)
            }
        };
    }
    for line in &imported.first_bad_lines {
        say(format_args!("left out: {line}"));
    }
    say(format_args!(
        "{jobs} jobs, {never_ran} of which never ran; {} users, {} groups, {} queues",
        imported.names[0], imported.names[1], imported.names[2]
    ));
    for (count, what) in [
        (left.not_ended, "jobs that were waiting or running"),
        (left.parts, "lines of steps, or of arrays as a whole"),
        (left.repeated, "lines of jobs that other lines tell of"),
        (left.bad_lines, "lines that could not be read"),
        (left.without_promise, "jobs that Libra promised nothing"),
        (
            left.inconclusive,
            "jobs that do not show what they needed: failed, cancelled, or not measured",
        ),
    ] {
        if count > 0 {
            say(format_args!("left out: {count} {what}"));
        }
    }
    answer("", 0)
}

fn margin(arguments: &MarginArgs, args: &Args) -> Done {
    let log = read(&arguments.log, leniency(arguments.lenient))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    for skipped in &log.first_skipped {
        say(format_args!("left out: {skipped}"));
    }
    if log.skipped > 0 {
        say(format_args!("left out: {} lines", log.skipped));
    }
    let last = (arguments.last).map_or(usize::MAX, |jobs| jobs as usize);
    let records = &log.records[log.records.len().saturating_sub(last)..];
    let proposal = margin::propose(records)
        .map_err(|error| Failure::Usage(format!("{}: {error}", arguments.log.display())))?;
    let kept = match arguments.keep {
        true if !log
            .header
            .comments
            .iter()
            .any(|line| line == import::PROMISED) =>
        {
            return Err(Failure::Usage(format!(
                "{}: --keep wants a log that was made with 'libra trace import --promised': estimates of others may be time limits, at which jobs were ended",
                arguments.log.display()
            )));
        }
        true => Some(keep(&proposal, arguments, args)?),
        false => None,
    };
    if args.json {
        let mut json = proposal_as_json(&proposal);
        if let Some(kept) = &kept {
            json["kept"] = kept.file.display().to_string().into();
            json["margin_that_counts"] = kept.counts.into();
        }
        return answer(&format!("{json}\n"), 0);
    }
    let mut text = proposal_as_text(&proposal);
    if let Some(kept) = &kept {
        text.push_str(&kept.as_text());
    }
    answer(&text, 0)
}

/// So many links are followed, as by the kernel.
const MOST_LINKS: usize = 40;

/// A margin that is in the file beside the configuration.
struct LearnedMargin {
    file: PathBuf,
    /// That of the configuration, which may have one of its own, and bounds.
    counts: f64,
    is_followed: bool,
}

impl LearnedMargin {
    fn as_text(&self) -> String {
        let file = self.file.display();
        let counts = self.counts * 100.0;
        match self.is_followed {
            true => format!(
                "\n{file} has it now; within the configuration's bounds, {counts:.0} % counts.\n"
            ),
            false => format!(
                "\n{file} has it now; the configuration has a margin of its own, {counts:.0} %, and follows it with estimate-margin = \"learned\".\n"
            ),
        }
    }
}

/// Writes what is proposed beside the configuration.
fn keep(
    proposal: &Proposal,
    arguments: &MarginArgs,
    args: &Args,
) -> Result<LearnedMargin, Failure> {
    let configuration = site::named(args.config.as_deref()).unwrap_or_else(|| site::FILE.into());
    let mut file = learned::beside(&configuration);
    // A link, to a place that several hosts share, stays one.
    for _ in 0..MOST_LINKS {
        let Ok(target) = std::fs::read_link(&file) else {
            break;
        };
        file = file.parent().unwrap_or(Path::new("/")).join(target);
    }
    let from = format!(
        "{}, of {} jobs of {}: {:.2} % of them need more",
        jiff::Zoned::now().strftime("%F %T %:z"),
        proposal.jobs,
        libra_units::in_one_line(&arguments.log.display().to_string()),
        proposal.margin.exceeded * 100.0
    );
    let text = learned::written(proposal.margin.margin, &from);
    libra_system::file::replace(&file, &text, 0o644, libra_system::file::Kept::OverPowerLoss)
        .map_err(Failure::Keep)?;
    // Who reads it later without being allowed to keep a copy has this one.
    let config = last::read(&configuration)?.config;
    Ok(LearnedMargin {
        file,
        counts: config.admission.margin(),
        is_followed: config.admission.estimate_margin == EstimateMargin::Learned,
    })
}

fn proposal_as_json(proposal: &Proposal) -> serde_json::Value {
    let steps = margin::STEPS.iter().zip(&proposal.exceeding);
    let exceeding: Vec<_> = steps
        .map(|(margin, part)| json!({ "margin": margin, "exceeded": part }))
        .collect();
    let (earlier, later) = proposal.earlier;
    json!({
        "jobs": proposal.jobs,
        "never_ran": proposal.never_ran,
        "without_estimate": proposal.without_estimate,
        "exceeding": exceeding,
        "margin": proposal.margin.margin,
        "exceeded": proposal.margin.exceeded,
        "margin_of_first_two_thirds": earlier.margin,
        "exceeded_in_last_third": later,
    })
}

fn proposal_as_text(proposal: &Proposal) -> String {
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let mut text = format!(
        "{} jobs ran and had an estimate ({} never ran, {} had none)\n",
        proposal.jobs, proposal.never_ran, proposal.without_estimate
    );
    text.push_str("\nlonger than the estimate by more than\n");
    for (margin, part) in margin::STEPS.iter().zip(&proposal.exceeding) {
        text.push_str(&format!(
            "{:>7.0} %  {:>8}\n",
            margin * 100.0,
            percent(*part)
        ));
    }
    let proposed = proposal.margin;
    let (earlier, later) = proposal.earlier;
    text.push_str(&format!(
        "\n{} of the jobs need more than their estimate and {:.0} %:\n\n    [admission]\n    estimate-margin = \"{:.0}%\"\n",
        percent(proposed.exceeded),
        proposed.margin * 100.0,
        proposed.margin * 100.0
    ));
    if proposed.exceeded > margin::EXCEEDED {
        text.push_str(&format!(
            "\nThat is the largest that is proposed, and more than {} exceed it: a larger one would refuse many for the sake of few.\n",
            percent(margin::EXCEEDED)
        ));
    }
    text.push_str(&format!(
        "\nThe first two thirds of the log propose {:.0} %; {} of the last third need more.\n",
        earlier.margin * 100.0,
        percent(later)
    ));
    if later > 2.0 * margin::EXCEEDED {
        text.push_str(
            "So estimates are not exceeded evenly over time, and what is proposed may not hold.\n",
        );
    }
    text
}

fn leniency(lenient: bool) -> Leniency {
    match lenient {
        true => Leniency::Lenient,
        false => Leniency::Strict,
    }
}

fn zone(name: Option<&str>) -> Result<TimeZone, Failure> {
    match name {
        None => Ok(TimeZone::system()),
        Some(name) => TimeZone::get(name).map_err(|_| {
            Failure::Usage(format!(
                "--timezone: there is no time zone '{name}'; write one such as Europe/Berlin or UTC"
            ))
        }),
    }
}

/// Of a time that a change of the clocks makes occur twice the first one; of one that it leaves
/// out, as much after the change as it was after the last hour before.
fn unix(time: LocalTime, zone: &TimeZone) -> Option<i64> {
    let LocalTime {
        year,
        month,
        day,
        hour,
        minute,
        second,
    } = time;
    let time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    Some(zone.to_timestamp(time).ok()?.as_second())
}
