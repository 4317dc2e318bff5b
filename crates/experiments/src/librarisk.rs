//! The experiments of the LibraRisk paper (Yeo and Buyya 2006, section 5): EDF, Libra and LibraRisk
//! over load, deadlines, urgency and inaccuracy of the estimates; figures 1 to 4.
//!
//! The paper does not say what happens to time that no job of a node needs. Both answers are run:
//! it stays idle, so that a share is a cap and an accepted job ends at its deadline if its estimate
//! is exact; or the jobs of the node have it, in proportion to their shares.

mod statements;

use super::panel::{Curve, Panel};
use super::parallel::Progress;
use super::sweep::{Contender, LastJobs, Run, free_of_charge, spread};
use super::{Options, Reading, Reproduction};
use libra_core::decision::allotment::Spare;
use libra_core::decision::policy::{Libra, LibraRisk};
use libra_simulator::queue::Edf;
use libra_workload::read::Log;
use libra_workload::terms::{Estimates, TermsModel, Unfit};

/// Jobs of the log that the paper takes: its last ones.
const JOBS: usize = 3000;

const CONTENDERS: [Contender; 5] = [
    Contender {
        name: "EDF",
        style: 4,
        scheduler: || Box::new(Edf),
    },
    Contender {
        name: "Libra",
        style: 0,
        scheduler: || free_of_charge(Libra::default(), Spare::Idle),
    },
    Contender {
        name: "LibraRisk",
        style: 1,
        scheduler: || free_of_charge(LibraRisk::default(), Spare::Idle),
    },
    Contender {
        name: "Libra, spare shared",
        style: 6,
        scheduler: || free_of_charge(Libra::default(), Spare::Shared),
    },
    Contender {
        name: "LibraRisk, spare shared",
        style: 5,
        scheduler: || {
            let spare_is_shared = true;
            free_of_charge(
                LibraRisk {
                    spare_is_shared,
                    ..LibraRisk::default()
                },
                Spare::Shared,
            )
        },
    },
];

/// Names of EDF, Libra and LibraRisk in each reading, in the order of [`READINGS`].
const NAMES: [[&str; 3]; 2] = [
    [CONTENDERS[0].name, CONTENDERS[1].name, CONTENDERS[2].name],
    [CONTENDERS[0].name, CONTENDERS[3].name, CONTENDERS[4].name],
];

const READINGS: [Reading; 2] = [
    Reading {
        name: "spare time idle",
        meaning: "A share is a cap: what no job of a node needs is not used.",
    },
    Reading {
        name: "spare time shared",
        meaning: "A share is a guarantee: what no job of a node needs is shared by its jobs in \
                  proportion to their shares, and LibraRisk's projection knows it.",
    },
];

/// The jobs at a value of the parameter.
type Model = fn(f64) -> TermsModel;

/// One of the paper's figures: a parameter over its values, on two sides (left and right).
struct Figure {
    /// Parts a and b (fulfilled), c and d (slowdown).
    ids: [&'static str; 4],
    parameter: &'static str,
    /// In the unit of the parameter.
    values: &'static [f64],
    /// Values of a quick run, besides first and last.
    quick: &'static [f64],
    sides: [(&'static str, Model); 2],
}

fn exact() -> TermsModel {
    TermsModel {
        estimates: Estimates::Exact,
        ..TermsModel::default()
    }
}

fn inaccurate(percent: f64, high_urgency: f64) -> TermsModel {
    TermsModel {
        estimates: Estimates::Inaccuracy(percent / 100.0),
        high_urgency,
        ..TermsModel::default()
    }
}

const EXACT: &str = "exact estimates";
const LOGGED: &str = "the log's estimates";
const TENTHS: [f64; 11] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0,
];

const FIGURES: [Figure; 4] = [
    Figure {
        ids: ["1a", "1b", "1c", "1d"],
        parameter: "arrival delay factor",
        values: &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
        quick: &[0.2, 0.5],
        sides: [
            (EXACT, |arrival_delay_factor| TermsModel {
                arrival_delay_factor,
                ..exact()
            }),
            (LOGGED, |arrival_delay_factor| TermsModel {
                arrival_delay_factor,
                ..TermsModel::default()
            }),
        ],
    },
    Figure {
        ids: ["2a", "2b", "2c", "2d"],
        parameter: "deadline high:low ratio",
        values: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
        quick: &[4.0],
        sides: [
            (EXACT, |deadline_ratio| TermsModel {
                deadline_ratio,
                ..exact()
            }),
            (LOGGED, |deadline_ratio| TermsModel {
                deadline_ratio,
                ..TermsModel::default()
            }),
        ],
    },
    Figure {
        ids: ["3a", "3b", "3c", "3d"],
        parameter: "high-urgency jobs, %",
        values: &TENTHS,
        quick: &[50.0],
        sides: [
            (EXACT, |percent| TermsModel {
                high_urgency: percent / 100.0,
                ..exact()
            }),
            (LOGGED, |percent| TermsModel {
                high_urgency: percent / 100.0,
                ..TermsModel::default()
            }),
        ],
    },
    Figure {
        ids: ["4a", "4b", "4c", "4d"],
        parameter: "inaccuracy of estimates, %",
        values: &TENTHS,
        quick: &[50.0],
        sides: [
            ("20 % of high urgency", |percent| inaccurate(percent, 0.2)),
            ("80 % of high urgency", |percent| inaccurate(percent, 0.8)),
        ],
    },
];

const FULFILLED: &str = "deadlines fulfilled, % of submitted jobs";
const SLOWDOWN: &str = "mean slowdown of the fulfilled jobs";

fn fulfilled(run: &Run) -> Option<f64> {
    run.measures.fulfilled_percent
}

fn slowdown(run: &Run) -> Option<f64> {
    run.measures.mean_slowdown
}

/// Runs the experiments on the last 3000 jobs of a log.
///
/// # Errors
/// When no job can be made of the log.
pub fn reproduce(
    log: &Log,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Reproduction, Unfit> {
    let part = LastJobs::last(log, JOBS);
    let values = FIGURES.map(|figure| options.values(figure.values, figure.quick));
    let settings: Vec<TermsModel> = (FIGURES.iter().zip(&values))
        .flat_map(|(figure, values)| {
            let side =
                |(_, model): &(_, Model)| values.iter().map(|v| model(*v)).collect::<Vec<_>>();
            figure.sides.iter().flat_map(side).collect::<Vec<_>>()
        })
        .collect();
    let runs = part.run_all(&settings, &CONTENDERS, options, progress)?;
    let mut runs = &runs[..];
    let mut panels = Vec::new();
    for (figure, values) in FIGURES.iter().zip(&values) {
        let mut slowdowns = Vec::new();
        for (side, (words, _)) in figure.sides.iter().enumerate() {
            let (of_side, rest) = runs.split_at(values.len());
            runs = rest;
            let panel = |id, measure: &'static str, of: fn(&Run) -> Option<f64>| Panel {
                id,
                title: words.to_string(),
                parameter: figure.parameter,
                values: values.clone(),
                measure,
                curves: curves(of_side, of),
            };
            panels.push(panel(figure.ids[side], FULFILLED, fulfilled));
            slowdowns.push(panel(figure.ids[side + 2], SLOWDOWN, slowdown));
        }
        panels.extend(slowdowns);
    }
    let mut facts = part.facts(2131.0, 8880.0);
    facts.push((
        "defaults".to_string(),
        "20 % of high urgency with deadline / run time of mean 4, the others 4 times as much; \
         standard deviation a quarter of the mean (the paper gives none); deadlines never below \
         1.05 run times"
            .to_string(),
    ));
    Ok(Reproduction {
        name: "librarisk",
        paper: "C. S. Yeo, R. Buyya: Managing Risk of Inaccurate Runtime Estimates for Deadline \
                Constrained Job Admission Control in Clusters. ICPP 2006",
        facts,
        readings: READINGS.to_vec(),
        statements: statements::all(&panels),
        tables: Vec::new(),
        panels,
        pictures: Vec::new(),
        notes: vec![
            "Percentages are of the jobs that ran in the log; a job without a run time cannot be \
             simulated."
                .to_string(),
        ],
    })
}

fn curves(runs: &[Vec<Vec<Run>>], measure: fn(&Run) -> Option<f64>) -> Vec<Curve> {
    let curve = |(place, contender): (usize, &Contender)| Curve {
        name: contender.name,
        style: contender.style,
        points: (runs.iter())
            .map(|by_contender| spread(&by_contender[place], measure))
            .collect(),
    };
    CONTENDERS.iter().enumerate().map(curve).collect()
}
