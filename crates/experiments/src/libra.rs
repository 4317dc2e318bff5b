//! The experiment of the Libra paper (Sherwani et al. 2004, section 5): how many jobs end by their
//! deadlines under PBS's FIFO and under Libra; Table I and figures 4 to 7.
//!
//! The jobs are random in the paper and here (see [`libra_workload::uniform`]), with many seeds
//! instead of one. The paper does not print the rating of a processor: [`RATING`] is the one with
//! which FIFO comes nearest to the paper's FIFO column; Libra has no part in its choice.
//! The paper names two ways to choose a node, and does not say what becomes of time that no job
//! needs: four readings.

use super::parallel::{self, Progress};
use super::picture::{Bar, Picture, Row};
use super::statement::{Statement, Tested};
use super::sweep::{Run, run, spread};
use super::{Options, Reading, Reproduction};
use libra_core::decision::admission::Admission;
use libra_core::decision::allotment::Spare;
use libra_core::decision::policy::{Libra, NodeChoice};
use libra_core::decision::pricing::AnyPricing;
use libra_plots::figure::Table;
use libra_simulator::queue::Fifo;
use libra_simulator::shares::{Shares, Waiting};
use libra_simulator::sums::Spread;
use libra_simulator::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_workload::Job;
use libra_workload::uniform::Uniform;

/// MIPS of a processor: see the table of ratings, which is computed with every run.
pub const RATING: f64 = 90.0;

/// Ratings that are compared.
const RATINGS: [f64; 9] = [60.0, 70.0, 80.0, 85.0, 90.0, 95.0, 100.0, 110.0, 120.0];

/// One line of Table I.
struct Case {
    jobs: u32,
    last_arrival: f64,
    nodes: usize,
    /// Jobs completed in time, as printed: FIFO and Libra.
    printed: [f64; 2],
    /// Its figure.
    figure: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        jobs: 100,
        last_arrival: 102.0,
        nodes: 10,
        printed: [77.0, 86.0],
        figure: "4",
    },
    Case {
        jobs: 100,
        last_arrival: 102.0,
        nodes: 20,
        printed: [86.0, 90.0],
        figure: "5",
    },
    Case {
        jobs: 200,
        last_arrival: 208.0,
        nodes: 10,
        printed: [95.0, 102.0],
        figure: "6",
    },
    Case {
        jobs: 200,
        last_arrival: 208.0,
        nodes: 20,
        printed: [165.0, 177.0],
        figure: "7",
    },
];

impl Case {
    fn workload(&self, rating: f64, seed: u64) -> Vec<Job> {
        Uniform::libra(self.jobs, self.last_arrival, rating).jobs(seed)
    }

    fn machine(&self) -> Machine {
        Machine::uniform(self.nodes, 1)
    }

    fn words(&self) -> String {
        format!("{} jobs, {} nodes", self.jobs, self.nodes)
    }
}

const READINGS: [Reading; 4] = [
    Reading {
        name: "least loaded, idle",
        meaning: "Of the nodes that accept a job it goes to the least loaded (section 3.1); a share \
                  is a cap.",
    },
    Reading {
        name: "best fit, idle",
        meaning: "It goes to the node with the least free share left (section 4.1, and both later \
                  papers); a share is a cap.",
    },
    Reading {
        name: "least loaded, shared",
        meaning: "Least loaded; time that no job of a node needs is shared by its jobs.",
    },
    Reading {
        name: "best fit, shared",
        meaning: "Best fit; time that no job of a node needs is shared by its jobs.",
    },
];

const RULES: [(NodeChoice, Spare); 4] = [
    (NodeChoice::LeastLoaded, Spare::Idle),
    (NodeChoice::BestFit, Spare::Idle),
    (NodeChoice::LeastLoaded, Spare::Shared),
    (NodeChoice::BestFit, Spare::Shared),
];

fn libra((node_choice, spare): (NodeChoice, Spare)) -> Shares<Libra> {
    let policy = Libra {
        node_choice,
        ..Libra::default()
    };
    let admission = Admission {
        policy,
        // Cost = E + E / D, with times in seconds: far below every budget but of the most hurried.
        pricing: AnyPricing::default(),
        estimate_margin: 0.0,
    };
    Shares {
        admission,
        spare,
        waiting: Waiting::Block,
    }
}

/// Runs the experiment.
pub fn reproduce(options: &Options, progress: Progress<'_>) -> Reproduction {
    let seeds: Vec<u64> = options.seeds().collect();
    let by_seed = parallel::map(&seeds, options.threads, progress, |seed| {
        OneSeed::run(*seed)
    });
    let results: Vec<Result> = (0..CASES.len())
        .map(|case| Result {
            fifo: by_seed
                .iter()
                .map(|one| one.runs[case][0].clone())
                .collect(),
            libra: (0..RULES.len())
                .map(|rule| {
                    by_seed
                        .iter()
                        .map(|one| one.runs[case][rule + 1].clone())
                        .collect()
                })
                .collect(),
        })
        .collect();
    let fact = |name: &str, value: String| (name.to_string(), value);
    Reproduction {
        name: "libra",
        paper: "J. Sherwani, N. Ali, N. Lotia, Z. Hayat, R. Buyya: Libra: a computational \
                economy-based job scheduling system for clusters. Software: Practice and Experience \
                34(6), 2004",
        facts: vec![
            fact(
                "jobs",
                "arrivals uniform over 1 to 102 s (200 jobs: 208), lengths over 1000 to 10,900 MI, \
                 deadlines over 1 to 1200 s; budgets 1000, of one job in five up to 12,000"
                    .to_string(),
            ),
            fact("rating", format!("{RATING} MIPS a processor; not printed in the paper")),
            fact("price", "E + E / D (α = β = 1), E and D in seconds".to_string()),
        ],
        readings: READINGS.to_vec(),
        statements: statements(&results),
        tables: vec![
            ("table-1", table_one(&results)),
            ("rating", ratings(&by_seed)),
        ],
        panels: Vec::new(),
        pictures: CASES.iter().map(picture).collect(),
        notes: vec![
            "The figures 4 to 7 show the jobs of the first seed; Libra takes the least loaded node."
                .to_string(),
        ],
    }
}

/// All runs with one seed.
struct OneSeed {
    /// Of each case: FIFO, then Libra in each reading.
    runs: Vec<Vec<Run>>,
    /// Jobs that FIFO completes at each rating, of each case.
    fifo_by_rating: Vec<Vec<f64>>,
}

impl OneSeed {
    fn run(seed: u64) -> OneSeed {
        let runs = |case: &Case| {
            let (jobs, machine) = (case.workload(RATING, seed), case.machine());
            let mut runs = vec![run(&mut Fifo, &jobs, &machine)];
            runs.extend(RULES.map(|rule| run(&mut libra(rule), &jobs, &machine)));
            runs
        };
        let fifo = |rating: f64| {
            let of = |case: &Case| {
                let jobs = case.workload(rating, seed);
                run(&mut Fifo, &jobs, &case.machine()).measures.fulfilled as f64
            };
            CASES.iter().map(of).collect()
        };
        OneSeed {
            runs: CASES.iter().map(runs).collect(),
            fifo_by_rating: RATINGS.iter().map(|rating| fifo(*rating)).collect(),
        }
    }
}

/// One case over all seeds.
struct Result {
    fifo: Vec<Run>,
    libra: Vec<Vec<Run>>,
}

fn in_time(runs: &[Run]) -> Spread {
    let none = Spread {
        mean: 0.0,
        deviation: 0.0,
    };
    spread(runs, |run| Some(run.measures.fulfilled as f64)).unwrap_or(none)
}

fn table_one(results: &[Result]) -> Table {
    let mut head = vec![
        "jobs, nodes".to_string(),
        "FIFO, paper".to_string(),
        "FIFO".to_string(),
        "Libra, paper".to_string(),
    ];
    head.extend(
        READINGS
            .iter()
            .map(|reading| format!("Libra, {}", reading.name)),
    );
    let show = |runs: &[Run]| {
        let Spread { mean, deviation } = in_time(runs);
        format!("{mean:.1} ± {deviation:.1}")
    };
    let row = |(case, result): (&Case, &Result)| {
        let mut row = vec![
            case.words(),
            case.printed[0].to_string(),
            show(&result.fifo),
            case.printed[1].to_string(),
        ];
        row.extend(result.libra.iter().map(|runs| show(runs)));
        row
    };
    Table {
        caption:
            "Table I: jobs completed in time (mean and standard deviation over the seeds); all \
                  others were late or rejected"
                .to_string(),
        head,
        rows: CASES.iter().zip(results).map(row).collect(),
    }
}

/// How far FIFO is from the paper's column at each rating.
fn ratings(by_seed: &[OneSeed]) -> Table {
    let mut head = vec!["MIPS".to_string()];
    head.extend(CASES.iter().map(Case::words));
    head.push("root mean square difference".to_string());
    let row = |(place, rating): (usize, &f64)| {
        let mean = |case: usize| {
            let counts = by_seed.iter().map(|one| one.fifo_by_rating[place][case]);
            counts.sum::<f64>() / by_seed.len().max(1) as f64
        };
        let means: Vec<f64> = (0..CASES.len()).map(mean).collect();
        let printed = CASES.iter().map(|case| case.printed[0]);
        let squares: f64 = means
            .iter()
            .zip(printed)
            .map(|(m, p)| (m - p).powi(2))
            .sum();
        let mut row = vec![rating.to_string()];
        row.extend(means.iter().map(|mean| format!("{mean:.1}")));
        row.push(format!("{:.1}", (squares / CASES.len() as f64).sqrt()));
        row
    };
    let printed = CASES.iter().map(|case| case.printed[0].to_string());
    let mut rows = vec![
        ["paper".to_string()]
            .into_iter()
            .chain(printed)
            .chain([String::new()])
            .collect(),
    ];
    rows.extend(RATINGS.iter().enumerate().map(row));
    Table {
        caption: "Jobs that FIFO completes in time, by the rating of a processor".to_string(),
        head,
        rows,
    }
}

fn statements(results: &[Result]) -> Vec<Statement> {
    // Libra − FIFO of a case in a reading, jobs.
    let more = |case: usize, reading: usize| {
        in_time(&results[case].libra[reading]).mean - in_time(&results[case].fifo).mean
    };
    let statement = |place, text, test: &dyn Fn(usize) -> Tested| Statement {
        place,
        text,
        findings: (0..READINGS.len())
            .map(|reading| test(reading).finding())
            .collect(),
    };
    vec![
        statement(
            "5, Table I",
            "Libra completes more jobs within their deadlines than FIFO in all four cases.",
            &|reading| {
                let point = |(case, words): (usize, &Case)| {
                    let more = more(case, reading);
                    Tested::point(more > 0.0, format!("{} {more:+.1}", words.words()))
                };
                CASES.iter().enumerate().map(point).collect()
            },
        ),
        statement(
            "5, Table I",
            "There is not much of a difference where the cluster is large and the load small (within a tenth of FIFO's count; the paper's is 4 of 86).",
            &|reading| {
                let (more, fifo) = (more(1, reading), in_time(&results[1].fifo).mean);
                let words = format!("{} {more:+.1} of {fifo:.1}", CASES[1].words());
                Tested::point(more.abs() <= fifo * 0.1, words)
            },
        ),
        statement(
            "5, Table I",
            "The difference grows with the load (the paper's own: 4 to 12 on 20 nodes, but 9 to 7 on 10).",
            &|reading| {
                let point = |(few, many): (usize, usize)| {
                    let (before, after) = (more(few, reading), more(many, reading));
                    let nodes = CASES[few].nodes;
                    Tested::point(
                        after > before,
                        format!("{nodes} nodes {before:+.1} → {after:+.1}"),
                    )
                };
                [(0, 2), (1, 3)].map(point).into_iter().collect()
            },
        ),
        statement(
            "5, Table I",
            "The counts: Libra's column within a tenth of the paper's.",
            &|reading| {
                let point = |(case, result): (&Case, &Result)| {
                    let (mean, printed) = (in_time(&result.libra[reading]).mean, case.printed[1]);
                    let near = (mean - printed).abs() <= printed * 0.1;
                    Tested::point(near, format!("{mean:.0} for {printed}"))
                };
                CASES.iter().zip(results).map(point).collect()
            },
        ),
        statement(
            "3.1",
            "Jobs that Libra accepts end within their deadlines.",
            &|reading| {
                let point = |(case, result): (&Case, &Result)| {
                    let late: u64 = (result.libra[reading].iter())
                        .map(|run| run.measures.late)
                        .sum();
                    Tested::point(late == 0, format!("{} {late} late", case.words()))
                };
                CASES.iter().zip(results).map(point).collect()
            },
        ),
    ]
}

/// Notes the time that each job took.
struct Times(Vec<Bar>);

impl Observer for Times {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        if let (Fate::Ended { finish, .. }, true) = (outcome.fate, outcome.met()) {
            self.0[outcome.index].took = Some(finish - outcome.job.submit);
        }
    }
}

fn picture(case: &Case) -> Picture {
    let jobs = case.workload(RATING, 1);
    let row = |name: &str, scheduler: &mut dyn Scheduler| {
        let bar = |job: &Job| Bar {
            deadline: job.terms.deadline,
            took: None,
        };
        let mut times = Times(jobs.iter().map(bar).collect());
        scheduler.run(&jobs, &case.machine(), &mut times);
        let done = times.0.iter().filter(|bar| bar.took.is_some()).count();
        Row {
            title: format!("{name}: {done} of {} jobs completed in time", jobs.len()),
            bars: times.0,
        }
    };
    Picture {
        id: case.figure,
        title: format!("Figure {}: {}", case.figure, case.words()),
        lost: "late (FIFO) or rejected (Libra)",
        rows: vec![
            row("FIFO", &mut Fifo),
            row("Libra, spare time idle", &mut libra(RULES[0])),
            row("Libra, spare time shared", &mut libra(RULES[2])),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rating_is_the_one_that_comes_nearest() {
        let options = Options {
            seeds: 200,
            quick: false,
            threads: 2,
        };
        let result = reproduce(&options, &|_, _| ());
        let (_, ratings) = &result.tables[1];
        let distance = |row: &&Vec<String>| row[5].parse::<f64>().unwrap_or(f64::INFINITY);
        let nearest = ratings
            .rows
            .iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)));
        assert_eq!(nearest.map(|row| row[0].as_str()), Some("90"));
        assert_eq!(RATING, 90.0);
        let verdict = |statement: usize, reading: usize| {
            result.statements[statement].findings[reading].verdict
        };
        // More than FIFO in all four cases on the least loaded node, and not by best fit.
        use crate::statement::Verdict::{Fails, Holds};
        assert_eq!(
            [0, 1, 2, 3].map(|r| verdict(0, r)),
            [Holds, Fails, Holds, Fails]
        );
        // Nobody is late: estimates are exact.
        assert_eq!([0, 1, 2, 3].map(|r| verdict(4, r)), [Holds; 4]);
    }

    #[test]
    fn pictures_show_what_the_counts_say() {
        for case in &CASES {
            let picture = picture(case);
            assert_eq!(picture.rows.len(), 3);
            let fifo = run(&mut Fifo, &case.workload(RATING, 1), &case.machine());
            let shown = picture.rows[0].bars.iter().filter(|bar| bar.took.is_some());
            assert_eq!(shown.count() as u64, fifo.measures.fulfilled);
            // A share that is a cap ends its job at the deadline.
            for bar in &picture.rows[1].bars {
                let took = bar.took.unwrap_or(bar.deadline);
                assert!((took - bar.deadline).abs() < 1e-6, "{bar:?}");
            }
        }
    }
}
