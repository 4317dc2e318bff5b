//! What would change for the site: against what the log really did, for whom, and what to write into the configuration.

use super::parts::section;
use super::run::{self, PolicyRun, words};
use crate::groups::{GROUPS, Groups};
use crate::recorded;
use crate::schedulers::{self, Installed};
use crate::summary::Measure;
use crate::sums::Spread;
use libra_plots::figure::Table;
use libra_plots::markup::Escaped;
use libra_plots::scale::count;
use maud::{Markup, html};

/// Differences below so many points of a percent are not told as a gain or a loss.
const NOTABLE: f64 = 0.5;
/// Nor are those of a group with less than this part of the jobs.
const FEW: f64 = 0.01;

/// Jobs that met their deadline, in percent.
fn met(run: &PolicyRun) -> Option<Spread> {
    run.summary.get(Measure::FulfilledPercent)
}

fn is_libra(run: &PolicyRun) -> bool {
    run.name.starts_with("libra")
}

/// Of these the one that keeps most deadlines; of equals the first.
fn best<'a>(runs: impl IntoIterator<Item = &'a PolicyRun>) -> Option<&'a PolicyRun> {
    let known = runs
        .into_iter()
        .filter_map(|run| Some((run, met(run)?.mean)));
    known
        .reduce(|best, other| if other.1 > best.1 { other } else { best })
        .map(|(run, _)| run)
}

/// What is proposed, and what it is compared with.
struct Proposal<'a> {
    /// Libra's policy that keeps most deadlines.
    proposed: &'a PolicyRun,
    /// What the log did.
    recorded: Option<&'a PolicyRun>,
    /// The one that is not Libra's and keeps most deadlines.
    baseline: Option<&'a PolicyRun>,
}

impl Proposal<'_> {
    fn of(runs: &[PolicyRun]) -> Option<Proposal<'_>> {
        let recorded = runs.iter().find(|run| run.name == recorded::NAME);
        let others = runs
            .iter()
            .filter(|run| !is_libra(run) && run.name != recorded::NAME);
        Some(Proposal {
            proposed: best(runs.iter().filter(|run| is_libra(run)))?,
            recorded,
            baseline: best(others),
        })
    }
}

/// `87.1 % ± 0.3`; of one run without what it varies by.
fn spread(run: &PolicyRun) -> String {
    match met(run) {
        None => "–".to_string(),
        Some(spread) if run.summary.runs().len() < 2 => run::percent(spread.mean),
        Some(spread) => format!("{} ± {:.1}", run::percent(spread.mean), spread.deviation),
    }
}

/// What would change, in a few sentences; None if none of Libra's policies was run.
pub(super) fn lead(runs: &[PolicyRun]) -> Option<String> {
    let Proposal {
        proposed,
        recorded,
        baseline,
    } = Proposal::of(runs)?;
    let name = &proposed.name;
    let mut text = match recorded {
        Some(recorded) => format!(
            "With {name} {} of these jobs would have met their deadlines; as the log says it was, {} did",
            spread(proposed),
            spread(recorded)
        ),
        None => format!(
            "With {name} {} of these jobs would have met their deadlines",
            spread(proposed)
        ),
    };
    if let Some(other) = baseline {
        let (own, best) = (met(proposed)?.mean, met(other)?.mean);
        text += &match own - best {
            more if more >= 0.0 => format!(
                ", and with {}, the best of the other policies, {} would have",
                other.name,
                spread(other)
            ),
            _ => format!(
                ". That is less than {} keeps: {}",
                other.name,
                spread(other)
            ),
        };
    }
    let mean = |measure| proposed.summary.mean(measure).unwrap_or(0.0);
    let (submitted, accepted) = (mean(Measure::Submitted), mean(Measure::Accepted));
    let conditional = mean(Measure::Conditional);
    let refused = mean(Measure::Rejected) / submitted.max(1.0) * 100.0;
    text += &match refused {
        0.0 => format!(". {name} refuses none of the jobs"),
        part => format!(
            ". {name} refuses {} of the jobs when they are submitted",
            run::percent(part)
        ),
    };
    let promised = accepted - conditional;
    text += &match mean(Measure::Late) / promised.max(1.0) * 100.0 {
        0.0 => " and ends none of the others late".to_string(),
        part => format!(" and ends {} of the others late", run::percent(part)),
    };
    if conditional > 0.0 {
        text += &format!(
            ", not counting {} whose deadline was shorter than their estimate",
            run::jobs(conditional)
        );
    }
    Some(text + ".")
}

/// Jobs of one group that met their deadline, in percent, over the seeds.
fn of_group(run: &PolicyRun, place: usize) -> Option<Spread> {
    Spread::of(
        run.groups
            .iter()
            .filter_map(|groups| groups.counts[place].percent()),
    )
}

/// Who gains and who loses; None if nobody could be told apart.
pub(super) fn gains(runs: &[PolicyRun]) -> Option<Markup> {
    let Proposal {
        proposed,
        recorded,
        baseline,
    } = Proposal::of(runs)?;
    let before = recorded.or(baseline)?;
    let compared: Vec<&PolicyRun> = [recorded, baseline, Some(proposed)]
        .into_iter()
        .flatten()
        .collect();
    let several = proposed.groups.len() > 1;
    let cell = |spread: Spread| match several {
        true => format!("{}\n± {:.1}", run::percent(spread.mean), spread.deviation),
        false => run::percent(spread.mean),
    };
    let (mut rows, mut changes) = (Vec::new(), Vec::new());
    let submitted = proposed.summary.mean(Measure::Submitted)?;
    for (place, group) in GROUPS.iter().enumerate() {
        let (Some(now), Some(then)) = (of_group(proposed, place), of_group(before, place)) else {
            continue;
        };
        let jobs = Spread::of(
            proposed
                .groups
                .iter()
                .map(|groups| groups.counts[place].submitted as f64),
        )?;
        let mut row = vec![group.to_string(), count(jobs.mean.round() as u64)];
        row.extend(
            compared
                .iter()
                .map(|run| of_group(run, place).map_or("–".to_string(), cell)),
        );
        row.push(format!("{:+.1}", now.mean - then.mean));
        rows.push(row);
        if jobs.mean >= FEW * submitted {
            changes.push((now.mean - then.mean, *group));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut head = words(&["jobs", "submitted"]);
    head.extend(compared.iter().map(|run| run.name.clone()));
    head.push("gain".to_string());
    let table = Table {
        caption: "Jobs that met their deadline, in percent of those submitted".to_string(),
        head,
        rows,
    };
    Some(section(
        "Who gains and who loses",
        &html! {
            p { (Escaped(&said(&changes, &before.name))) }
            (table.html())
            @if let Some(users) = large_users(proposed) {
                p { "Half of the work is that of " (users) "." }
            }
        },
    ))
}

fn large_users(run: &PolicyRun) -> Option<String> {
    match run.groups.first().map_or(0, Groups::large_users) {
        0 => None,
        1 => Some("one user".to_string()),
        users => Some(format!("{} users", count(users as u64))),
    }
}

/// The largest gain and the largest loss.
fn said(changes: &[(f64, &str)], before: &str) -> String {
    let most = changes.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let least = changes.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let gain = most.filter(|(change, _)| *change >= NOTABLE);
    let loss = least.filter(|(change, _)| *change <= -NOTABLE);
    let points = |(change, group): &(f64, &str)| format!("{group} ({change:+.1} points)");
    let gains = gain.map_or("no sort of jobs gains".to_string(), |gain| {
        format!("most is gained by: {}", points(gain))
    });
    let losses = loss.map_or("no sort of jobs loses".to_string(), |loss| {
        format!("most is lost by: {}", points(loss))
    });
    format!(
        "Against {before}, {gains}; {losses}. Only sorts with at least 1 % of the jobs are named here."
    )
}

/// What the lines for the configuration say besides the policy: as it was run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SiteRules {
    /// Part by which estimates were stretched.
    pub margin: f64,
    /// Dedicated jobs stand still for earlier deadlines.
    pub suspends: bool,
    /// Jobs of several processors whose processes wait for each other.
    pub coupled: u64,
    /// Those whose processes do not.
    pub on_their_own: u64,
}

/// What to write into the configuration for the policy that keeps most deadlines.
pub(super) fn configuration(runs: &[PolicyRun], rules: &SiteRules) -> Option<Markup> {
    let proposed = Proposal::of(runs)?.proposed;
    let best = best(runs.iter().filter(|run| installed(run).is_some()));
    let lines = best.and_then(|run| Some((run, lines(installed(run)?, rules))));
    Some(section(
        "To have it",
        &html! {
            @if installed(proposed).is_none() {
                p { (Escaped(&format!(
                    "{} is simulated so far; no batch system can be told to use it yet.{}",
                    proposed.name,
                    best.map_or(String::new(), |run| format!(" Of those that can be installed {} keeps most: {}.", run.name, spread(run)))
                ))) }
            }
            @if let Some((run, lines)) = lines {
                p { (Escaped(&format!("For {}, in libra.toml, on the side that admits jobs and on its hosts:", run.name))) }
                pre { (Escaped(&lines)) }
                @if rules.is_mixed(run) {
                    p { "Jobs of several processors whose processes do not wait for each other had shares here; with these lines they have them where they name their class, " code { "deadline" } "." }
                }
            }
        },
    ))
}

impl SiteRules {
    /// Whether `several` makes jobs dedicated that were not.
    fn is_mixed(&self, run: &PolicyRun) -> bool {
        let dedicated = installed(run).and_then(|installed| installed.dedicated);
        dedicated == Some(SEVERAL) && self.coupled > 0 && self.on_their_own > 0
    }
}

/// The key of `[class]` for jobs of several processors.
const SEVERAL: &str = "several";

/// How a batch system is told to use the policy of a run.
fn installed(run: &PolicyRun) -> Option<Installed> {
    schedulers::find(&run.name).ok()?.installed
}

fn lines(installed: Installed, rules: &SiteRules) -> String {
    let Installed { policy, dedicated } = installed;
    let percent = rules.margin * 100.0;
    let mut text = format!("[admission]\npolicy = \"{policy}\"\nestimate-margin = \"{percent}%\"");
    if matches!(policy, "libra-risk" | "libra-adaptive") {
        // As it was simulated.
        text += "\nestimate-above-deadline = \"conditional\"";
    }
    // Of jobs that wait for nobody none was dedicated for having several processors.
    let dedicated = dedicated.filter(|key| rules.coupled > 0 || *key != SEVERAL);
    if let Some(key) = dedicated {
        text += &format!("\n\n[class]\n{key} = \"dedicated\"");
        text += if rules.suspends {
            "\nsuspend = \"memory\""
        } else {
            ""
        };
    }
    text
}
