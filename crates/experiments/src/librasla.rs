//! The experiments of the LibraSLA paper (Yeo and Buyya 2005, section 5): what LibraSLA improves on
//! Libra, over load, deadline type, deadlines, budgets and penalty rates; figures 2 to 5.
//!
//! The paper gives ratios of budgets and penalty rates and no amounts. One number is missing: how
//! long a delay uses up a budget. Four powers of ten are run and judged; see [`READINGS`]. (A
//! budget k times as high is the same to every decision as a penalty rate of 1 / k, and so are the
//! improvements in percent.)

mod statements;

use super::panel::{Curve, Panel};
use super::parallel::Progress;
use super::statement::{Verdict, mean};
use super::sweep::{Contender, LastJobs, Run, free_of_charge};
use super::{Options, Reading, Reproduction};
use libra_core::decision::allotment::Spare;
use libra_core::decision::policy::{Libra, LibraSla};
use libra_plots::figure::Table;
use libra_simulator::sums::Spread;
use libra_workload::read::Log;
use libra_workload::terms::{Amounts, TermsModel, Unfit};

/// Jobs of the log that the paper takes: its last ones.
const JOBS: usize = 1000;

/// As the paper has it: LibraSLA gives time that nobody needs to the job with the highest return,
/// of Libra nothing is said.
const CONTENDERS: [Contender; 2] = [
    Contender {
        name: "Libra",
        style: 0,
        scheduler: || free_of_charge(Libra::default(), Spare::Idle),
    },
    Contender {
        name: "LibraSLA",
        style: 1,
        scheduler: || free_of_charge(LibraSla, Spare::HighestReturn),
    },
];

/// A low budget is a credit for each second of run time; a low penalty rate is so much for each
/// second of run time, in the order of [`READINGS`].
const PENALTIES: [f64; 4] = [1e-5, 1e-4, 1e-6, 1e-7];

/// The first is the one whose curves are drawn: the highest of the penalties at which LibraSLA gains
/// utility at every load with the paper's defaults, as it does in the paper.
const READINGS: [Reading; 4] = [
    Reading {
        name: "budget lasts 10^5 s",
        meaning: "A low penalty rate uses a low budget up over 100,000 s of delay (28 hours).",
    },
    Reading {
        name: "10^4 s",
        meaning: "A low penalty rate uses a low budget up over 10,000 s of delay (3 hours, about \
                  the mean run time).",
    },
    Reading {
        name: "10^6 s",
        meaning: "A low penalty rate uses a low budget up over 1,000,000 s of delay (12 days).",
    },
    Reading {
        name: "10^7 s",
        meaning: "A low penalty rate uses a low budget up over 10,000,000 s of delay (4 months).",
    },
];

/// One of the paper's figures: three levels of one property.
struct Figure {
    /// Parts a (jobs) and b (utility).
    ids: [&'static str; 2],
    title: &'static str,
    levels: [&'static str; 3],
    change: fn(TermsModel, usize) -> TermsModel,
}

fn times(amounts: Option<Amounts>, factor: usize) -> Option<Amounts> {
    amounts.map(|amounts| Amounts {
        factor: amounts.factor * factor as f64,
        ..amounts
    })
}

const FIGURES: [Figure; 4] = [
    Figure {
        ids: ["2a", "2b"],
        title: "jobs with hard deadlines",
        levels: ["20 % hard", "50 % hard", "80 % hard"],
        change: |model, level| TermsModel {
            high_urgency: [0.2, 0.5, 0.8][level],
            ..model
        },
    },
    Figure {
        ids: ["3a", "3b"],
        title: "deadline mean factor",
        levels: ["deadlines × 1", "deadlines × 2", "deadlines × 3"],
        change: |model, level| TermsModel {
            deadline_factor: model.deadline_factor * (level + 1) as f64,
            ..model
        },
    },
    Figure {
        ids: ["4a", "4b"],
        title: "budget mean factor",
        levels: ["budgets × 1", "budgets × 2", "budgets × 3"],
        change: |model, level| TermsModel {
            budget: times(model.budget, level + 1),
            ..model
        },
    },
    Figure {
        ids: ["5a", "5b"],
        title: "penalty rate mean factor",
        levels: ["penalties × 1", "penalties × 2", "penalties × 3"],
        change: |model, level| TermsModel {
            penalty: times(model.penalty, level + 1),
            ..model
        },
    },
];

const LOADS: [f64; 8] = [0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04];
const COMPLETED: &str = "more jobs completed than by Libra, %";
const UTILITY: &str = "more utility than by Libra, %";

fn model(penalty: f64, arrival_delay_factor: f64) -> TermsModel {
    let model = TermsModel::libra_sla();
    TermsModel {
        arrival_delay_factor,
        penalty: model.penalty.map(|amounts| Amounts {
            factor: penalty,
            ..amounts
        }),
        ..model
    }
}

/// Runs the experiments on the last 1000 jobs of a log.
///
/// # Errors
/// When no job can be made of the log.
pub fn reproduce(
    log: &Log,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Reproduction, Unfit> {
    let part = LastJobs::last(log, JOBS);
    let loads = options.values(&LOADS, &[0.02]);
    // The first level of the deadlines, budgets and penalties is that of 20 % hard deadlines.
    let distinct: Vec<(usize, usize)> = (0..FIGURES.len())
        .flat_map(|figure| (usize::from(figure > 0)..3).map(move |level| (figure, level)))
        .collect();
    let penalties = match options.quick {
        true => &PENALTIES[..1],
        false => &PENALTIES[..],
    };
    let settings: Vec<TermsModel> = (penalties.iter())
        .flat_map(|&penalty| distinct.iter().map(move |&place| (penalty, place)))
        .flat_map(|(penalty, (figure, level))| {
            let at = move |&load: &f64| (FIGURES[figure].change)(model(penalty, load), level);
            loads.iter().map(at)
        })
        .collect();
    let runs = part.run_all(&settings, &CONTENDERS, options, progress)?;
    // By penalty, then by distinct level, then by load.
    let by_level: Vec<&[Vec<Vec<Run>>]> = runs.chunks(loads.len()).collect();
    let by_penalty: Vec<Vec<Panel>> = (by_level.chunks(distinct.len()))
        .map(|levels| panels(levels, &distinct, &loads))
        .collect();
    let statements = statements::all(&by_penalty);
    let mut facts = part.facts(2276.0, 10_610.0);
    facts.push((
        "defaults".to_string(),
        "20 % of high urgency (hard deadlines); deadline / run time of mean 4, the others (soft) 7 \
         times as much; budgets of 1 credit for each second of run time, those of high urgency 7 \
         times as much; penalty rates of the readings, those of high urgency 4 times as much; \
         standard deviations a quarter of the mean; exact estimates"
            .to_string(),
    ));
    let sensitivity = sensitivity(&by_penalty, &statements);
    Ok(Reproduction {
        name: "librasla",
        paper: "C. S. Yeo, R. Buyya: Service Level Agreement based Allocation of Cluster Resources: \
                Handling Penalty to Enhance Utility. Cluster 2005",
        facts,
        readings: READINGS[..penalties.len()].to_vec(),
        statements,
        tables: vec![("sensitivity", sensitivity)],
        panels: by_penalty.into_iter().next().unwrap_or_default(),
        pictures: Vec::new(),
        notes: vec![
            "Completed are the jobs that ended in time and the late ones with soft deadlines. A \
             late soft job brings its budget less the penalty, which may be less than nothing."
                .to_string(),
        ],
    })
}

/// The panels at one penalty: runs by distinct level and load.
fn panels(levels: &[&[Vec<Vec<Run>>]], distinct: &[(usize, usize)], loads: &[f64]) -> Vec<Panel> {
    let runs_of = |figure: usize, level: usize| {
        let wanted = if level == 0 { (0, 0) } else { (figure, level) };
        let place = distinct.iter().position(|place| *place == wanted);
        place
            .and_then(|place| levels.get(place).copied())
            .unwrap_or(&[])
    };
    let mut panels = Vec::new();
    for (place, figure) in FIGURES.iter().enumerate() {
        for (id, measure) in figure.ids.into_iter().zip([COMPLETED, UTILITY]) {
            let curve = |(level, name): (usize, &&'static str)| Curve {
                name,
                style: level,
                points: (runs_of(place, level).iter())
                    .map(|contenders| improvement(contenders, measure))
                    .collect(),
            };
            panels.push(Panel {
                id,
                title: figure.title.to_string(),
                parameter: "arrival delay factor",
                values: loads.to_vec(),
                measure,
                curves: figure.levels.iter().enumerate().map(curve).collect(),
            });
        }
    }
    panels
}

/// What LibraSLA has more than Libra, in percent, over the seeds.
fn improvement(contenders: &[Vec<Run>], measure: &str) -> Option<Spread> {
    let [libra, sla] = contenders else {
        return None;
    };
    let value = |run: &Run| match measure {
        COMPLETED => Some(run.completed as f64),
        _ => run.measures.utility,
    };
    let percent = |(libra, sla): (&Run, &Run)| {
        let (libra, sla) = (value(libra)?, value(sla)?);
        (libra > 0.0).then(|| (sla / libra - 1.0) * 100.0)
    };
    Spread::of(libra.iter().zip(sla).filter_map(percent))
}

/// What becomes of the improvements and of the verdicts with the penalty that the paper leaves open.
fn sensitivity(by_penalty: &[Vec<Panel>], statements: &[super::statement::Statement]) -> Table {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    let mut order: Vec<usize> = (0..by_penalty.len()).collect();
    order.sort_by(|a, b| PENALTIES[*b].total_cmp(&PENALTIES[*a]));
    let row = |place: usize| {
        let panels = &by_penalty[place];
        let part = |id: &str, level: usize| {
            let panel = panels.iter().find(|panel| panel.id == id);
            let means = panel.map_or(Vec::new(), |panel| panel.means(FIGURES[0].levels[level]));
            format!("{:.0}", mean(&means))
        };
        let of_utility = panels.iter().filter(|panel| panel.measure == UTILITY);
        let least = of_utility
            .flat_map(|panel| {
                panel
                    .curves
                    .iter()
                    .flat_map(|curve| panel.means(curve.name))
            })
            .fold(f64::INFINITY, f64::min);
        let count = |verdict| {
            let findings = statements.iter().filter_map(|s| s.findings.get(place));
            findings
                .filter(|finding| finding.verdict == verdict)
                .count()
                .to_string()
        };
        vec![
            READINGS[place].name.replace("budget lasts ", ""),
            part("2a", 0),
            part("2a", 2),
            part("2b", 0),
            part("2b", 2),
            format!("{least:.0}"),
            count(Verdict::Holds),
            count(Verdict::InPart),
            count(Verdict::Fails),
        ]
    };
    Table {
        caption:
            "What the amount of the penalties changes: mean improvement on Libra in %, and the \
                  verdicts"
                .to_string(),
        head: words(&[
            "a low budget lasts",
            "jobs, 20 % hard",
            "jobs, 80 % hard",
            "utility, 20 % hard",
            "utility, 80 % hard",
            "least utility anywhere",
            "holds",
            "in part",
            "does not hold",
        ]),
        rows: order.into_iter().map(row).collect(),
    }
}
