//! The page of a simulation: what [`libra_plots`] is told.

use super::print::Results;
use libra_core::decision::allotment::Spare;
use libra_core::decision::pricing::AnyPricing;
use libra_core::gang::Suspend;
use libra_plots::scale::count;
use libra_simulator::experiment::Run;
use libra_simulator::recorded;
use libra_simulator::report::page::Results as Figures;
use libra_simulator::report::{Clock, PolicyRun, Report, SiteRules, Sweep};
use libra_simulator::setting::{Parameter, Setting};
use libra_simulator::shares::Waiting;
use libra_units::duration;
use libra_workload::Job;
use libra_workload::coupled::Coupled;
use libra_workload::deadlines::DeadlineModel;
use libra_workload::terms::{Amounts, Estimates, TermsModel};

/// The page, as HTML.
pub fn page(results: &Results<'_>, runs: &[Run]) -> String {
    let plan = results.plan;
    let part = results.part;
    let setting = &results.settings[0];
    let words = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight",
    ];
    // What the log did is no policy.
    let all: Vec<_> = (plan.policies.iter())
        .filter(|policy| policy.name != recorded::NAME)
        .collect();
    let who = match &all[..] {
        [only] => only.name.to_string(),
        all => match words.get(all.len()) {
            Some(word) => format!("{word} policies"),
            None => format!("{} policies", all.len()),
        },
    };
    let log = part.name.trim_end_matches(".gz").trim_end_matches(".swf");
    let jobs = count(results.made.jobs.len() as u64);
    let machine = machine(setting);
    let title = match &plan.sweep {
        Some(range) => format!(
            "What {who} would have done to the jobs of {log}, over the {}",
            range.parameter.words()
        ),
        None => format!("What {who} would have done to the jobs of {log}"),
    };
    let swept_nodes = plan
        .sweep
        .as_ref()
        .is_some_and(|range| range.parameter == Parameter::Nodes);
    let subtitle = match swept_nodes {
        true => format!("{jobs} jobs, submitted in {}", part.span()),
        false => format!("{jobs} jobs, submitted in {}, on {machine}", part.span()),
    };
    let several = |coupled: bool| {
        let is_one = |job: &&Job| job.processors > 1 && job.coupled == coupled;
        results.made.jobs.iter().filter(is_one).count() as u64
    };
    Report {
        title,
        subtitle,
        results: figures(results, runs),
        clock: match part.time_of_day() {
            _ if setting.model.arrival_delay_factor != 1.0 => Clock::Moved,
            Some(_) => Clock::Log,
            None => Clock::FirstJob,
        },
        facts: facts(results, &machine),
        notes: notes(results),
        rules: SiteRules {
            margin: setting.options.admission.estimate_margin,
            suspends: setting.options.gang.suspend == Suspend::Memory,
            coupled: several(true),
            on_their_own: several(false),
        },
    }
    .html()
}

fn figures(results: &Results<'_>, runs: &[Run]) -> Figures {
    let plan = results.plan;
    let names = plan.policies.iter().map(|policy| policy.name.to_string());
    let summaries = results.summaries.iter();
    if let Some(range) = &plan.sweep {
        return Figures::Sweep(Sweep {
            parameter: range.parameter.words().to_string(),
            policies: names.collect(),
            points: range
                .values
                .iter()
                .copied()
                .zip(summaries.cloned())
                .collect(),
        });
    }
    // The runs of the first seed stand first, in the order of the policies; then those of the next.
    let count = plan.policies.len();
    let each = names.zip(summaries.flatten().cloned()).enumerate();
    let of_policies = each.filter_map(|(place, (name, summary))| {
        let mut of_policy = runs.iter().skip(place).step_by(count);
        Some(PolicyRun {
            name,
            summary,
            series: runs.get(place)?.series.clone()?,
            groups: (of_policy.by_ref())
                .filter_map(|run| run.groups.clone())
                .collect(),
        })
    });
    Figures::Runs(of_policies.collect())
}

fn machine(setting: &Setting) -> String {
    let Setting {
        nodes,
        processors_per_node: each,
        larger_nodes,
        ..
    } = *setting;
    let nodes = match nodes {
        1 => "1 node".to_string(),
        nodes => format!("{} nodes", count(u64::from(nodes))),
    };
    match (each, larger_nodes) {
        (1, 0) => format!("{nodes} of 1 processor"),
        (each, 0) => format!("{nodes} of {each} processors"),
        (each, larger) => format!(
            "{nodes} of {each} processors, {} of them of one more",
            count(u64::from(larger))
        ),
    }
}

fn facts(results: &Results<'_>, machine: &str) -> Vec<(String, String)> {
    let (plan, part, setting) = (results.plan, results.part, &results.settings[0]);
    let header = &part.log.header;
    let mut facts: Vec<(&str, String)> =
        vec![("command", command_line()), ("log", part.name.clone())];
    for key in ["Computer", "Installation", "Note"] {
        if let Some(value) = header.value(key) {
            facts.push((key, value.to_string()));
        }
    }
    let (records, all) = (part.records(), part.log.records.len());
    let mut jobs = match (records.first(), records.last()) {
        (Some(first), Some(last)) => format!(
            "numbers {} to {}, {} of {} in the log",
            first.number,
            last.number,
            count(records.len() as u64),
            count(all as u64)
        ),
        _ => String::new(),
    };
    let made = results.made;
    for (left_out, why) in [
        (made.never_ran, "never ran"),
        (made.too_large, "larger than the machine"),
        (made.no_processors, "of unknown size"),
        (
            part.log.not_submitted as usize,
            "submitted at an unknown time",
        ),
        (part.log.skipped as usize, "not readable"),
    ] {
        if left_out > 0 {
            jobs += &format!("; {} left out: {why}", count(left_out as u64));
        }
    }
    facts.push(("jobs", jobs));
    let swept = plan.sweep.as_ref().map(|range| range.parameter);
    if swept != Some(Parameter::Nodes) {
        facts.push(("machine", machine.to_string()));
    }
    let model = &setting.model;
    facts.push(("estimates", estimates(model.estimates)));
    facts.push(("deadlines", deadlines(model)));
    facts.push(("coupled jobs", coupled(setting)));
    facts.push((
        "budgets",
        amounts(model.budget, "unlimited", "credits a second"),
    ));
    facts.push((
        "penalties",
        amounts(model.penalty, "none", "credits a second of delay"),
    ));
    if model.arrival_delay_factor != 1.0 {
        let arrivals = format!("times between submissions × {}", model.arrival_delay_factor);
        facts.push(("arrivals", arrivals));
    }
    if let Some(sla) = &plan.sla {
        facts.push((
            "terms given by the site",
            format!("{} jobs", count(sla.len() as u64)),
        ));
    }
    facts.push(("rules", rules(setting)));
    if let Some(range) = &plan.sweep {
        let values: Vec<String> = range.values.iter().map(f64::to_string).collect();
        let varied = format!("{} = {}", range.parameter.name(), values.join(", "));
        facts.push(("varied", varied));
    }
    facts.push((
        "seed",
        match &plan.seeds[..] {
            [first, .., last] => format!("{first} to {last}"),
            seeds => seeds.iter().map(u64::to_string).collect(),
        },
    ));
    facts.push(("libra", env!("CARGO_PKG_VERSION").to_string()));
    let owned = facts.into_iter();
    owned
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}

fn estimates(estimates: Estimates) -> String {
    match estimates {
        Estimates::Trace => "the log's".to_string(),
        Estimates::Exact => "exact".to_string(),
        Estimates::Inaccuracy(part) => {
            format!("run time + {part} × (the log's − run time)")
        }
    }
}

fn deadlines(model: &TermsModel) -> String {
    let TermsModel {
        high_urgency,
        deadline_factor: factor,
        deadline_ratio: ratio,
        deadline_spread: spread,
        infeasible,
        ..
    } = model;
    let soft = match model.soft_deadlines {
        true => "; hard for high urgency, soft for the others",
        false => "; all hard",
    };
    let multiple_of = |what: &str| {
        format!(
            "{:.0} % of the jobs of high urgency: deadline / {what} has mean {factor}, of the others \
             {}; standard deviation {spread} × mean, never below 1.05",
            high_urgency * 100.0,
            factor * ratio
        )
    };
    let mut text = match model.deadlines {
        DeadlineModel::Run => multiple_of("run time"),
        DeadlineModel::Estimate => multiple_of("estimate"),
        DeadlineModel::Slack(mean) => format!(
            "the estimate and a time of exponential length, mean {}",
            duration::show(mean)
        ),
        DeadlineModel::Clock(times) => format!(
            "by one of the clock times {times}, drawn for each job: the next that leaves time for the \
             estimate"
        ),
    };
    if *infeasible > 0.0 {
        text += &format!(
            "; {:.0} % of the jobs: half of the run time or more, but less than it",
            infeasible * 100.0
        );
    }
    text + soft
}

fn coupled(setting: &Setting) -> String {
    let who = match setting.model.coupled {
        Coupled::Never => return "none: each slot makes its own way".to_string(),
        Coupled::MultiProcessor => "those of more than one processor",
        Coupled::Always => "all",
    };
    let waiting = match setting.options.waiting {
        Waiting::Block => {
            "a slot that waits leaves its time to others, where a policy gives spare time out"
        }
        Waiting::Spin => "a slot that waits uses up its time",
    };
    format!("{who}: their slots go on at the pace of the slowest; {waiting}")
}

fn amounts(amounts: Option<Amounts>, none: &str, unit: &str) -> String {
    amounts.map_or(none.to_string(), |amounts| {
        let Amounts {
            factor,
            ratio,
            spread,
        } = amounts;
        format!(
            "{factor} {unit} of run time, {} for high urgency; standard deviation {spread} × mean",
            factor * ratio
        )
    })
}

fn rules(setting: &Setting) -> String {
    let admission = &setting.options.admission;
    let price = match admission.pricing {
        AnyPricing::Linear(linear) => format!(
            "price {} × estimate + {} × estimate / deadline for each processor",
            linear.alpha, linear.beta
        ),
        AnyPricing::ByShare(price) => format!(
            "price ({} + {} × estimate / deadline) × estimate for each processor",
            price.alpha, price.beta
        ),
        AnyPricing::Utilisation(price) => format!(
            "price ({} + {} × processors / those free) × {} × estimate for each processor",
            price.alpha, price.beta, price.base
        ),
    };
    let spare = match setting.options.spare {
        Spare::Idle => "idle",
        Spare::Shared => "shared",
        Spare::HighestReturn => "to the highest return",
    };
    let margin = admission.estimate_margin * 100.0;
    let mut text = format!("{price}; margin on estimates {margin} %; spare time {spare}");
    let gang = &setting.options.gang;
    if gang.suspend == Suspend::Never {
        text += "; no job suspended";
    }
    if let Some(jobs) = gang.jobs_per_processor {
        text += &format!("; at most {jobs} begun jobs on a processor");
    }
    if gang.wait_for_promise {
        text += "; refused jobs wait for a promise";
    }
    text
}

fn notes(results: &Results<'_>) -> Vec<String> {
    let plan = results.plan;
    let listed = plan.sla.as_ref().map_or(0, |sla| sla.len());
    let drawn = match listed {
        0 => "Deadlines and budgets were drawn at random: no log has them. Their users might have \
              wanted others."
            .to_string(),
        listed => format!(
            "The site gave terms for {listed} jobs; the others' deadlines and budgets were drawn at \
             random."
        ),
    };
    let setting = &results.settings[0];
    let model = &setting.model;
    let mut notes = vec![
        drawn,
        format!("Deadlines: {}.", deadlines(model)),
        format!("Estimates: {}.", estimates(model.estimates)),
        format!("Coupled jobs: {}.", coupled(setting)),
    ];
    if model.deadlines == DeadlineModel::Run {
        notes.push(
            "Deadlines are multiples of the true run time, as in the papers: they tell policies \
             something about it that no user knows."
                .to_string(),
        );
    }
    if model.coupled == Coupled::Never {
        notes.push(
            "Each slot of a job makes its own way, as in the papers. The processes of most parallel \
             programs wait for each other; then policies of shares keep fewer deadlines than here."
                .to_string(),
        );
    }
    if plan.seeds.len() > 1 && plan.sweep.is_none() {
        notes.push(format!(
            "Figures of single jobs and of times (slowdowns, promises, utilisation, hours) show the \
             run with seed {}.",
            plan.seeds[0]
        ));
    }
    notes
}

/// The command as a shell takes it, without what changes no result.
fn command_line() -> String {
    let mut words = vec!["libra".to_string()];
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let argument = argument.to_string_lossy().into_owned();
        if argument == "--threads" {
            arguments.next();
        } else if !argument.starts_with("--threads=") {
            words.push(quoted(argument));
        }
    }
    words.join(" ")
}

fn quoted(word: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        for (word, shown) in [
            ("--sweep=nodes=1,2", "--sweep=nodes=1,2"),
            ("my log.swf", "'my log.swf'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word.to_string()), shown);
        }
    }
}
