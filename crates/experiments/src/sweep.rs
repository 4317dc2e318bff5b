//! The same part of a log under several schedulers, over a range of settings and seeds.
//!
//! Invariant: a setting and a seed are one set of jobs for all schedulers, and two settings differ
//! in their jobs by what was changed alone (common random numbers, see [`libra_workload::terms`]).

use super::Options;
use super::parallel::{self, Progress};
use libra_core::decision::admission::Admission;
use libra_core::decision::allotment::Spare;
use libra_core::decision::job::DeadlineType;
use libra_core::decision::policy::Policy;
use libra_core::decision::pricing::{AnyPricing, Linear};
use libra_simulator::measures::{MeasureObserver, Measures};
use libra_simulator::shares::{Shares, Waiting};
use libra_simulator::sums::Spread;
use libra_simulator::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_workload::read::{Leniency, Log, Subset};
use libra_workload::swf::SwfRecord;
use libra_workload::terms::{self, TermsModel, Unfit};

/// A scheduler that takes part.
#[derive(Debug, Clone, Copy)]
pub struct Contender {
    /// Its name in figures and tables.
    pub name: &'static str,
    /// Its style in figures.
    pub style: usize,
    /// A new one.
    pub scheduler: fn() -> Box<dyn Scheduler>,
}

/// A policy of shares that asks for no money: in the papers of 2005 and 2006 no job is refused for
/// its budget.
pub fn free_of_charge<P: Policy + Copy + 'static>(policy: P, spare: Spare) -> Box<dyn Scheduler> {
    let pricing = AnyPricing::Linear(Linear {
        alpha: 0.0,
        beta: 0.0,
    });
    let admission = Admission {
        policy,
        pricing,
        estimate_margin: 0.0,
    };
    Box::new(Shares {
        admission,
        spare,
        waiting: Waiting::Block,
    })
}

/// What is measured of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// The measures of every simulation.
    pub measures: Measures,
    /// Jobs that ran and were of use: those that ended in time, and the late ones whose deadline was
    /// soft.
    pub completed: u64,
}

/// Runs a scheduler.
pub fn run(scheduler: &mut dyn Scheduler, jobs: &[libra_workload::Job], machine: &Machine) -> Run {
    let mut counts = (MeasureObserver::new(machine), Completed(0));
    scheduler.run(jobs, machine, &mut counts);
    Run {
        measures: counts.0.measures(),
        completed: counts.1.0,
    }
}

struct Completed(u64);

impl Observer for Completed {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        let ran = matches!(outcome.fate, Fate::Ended { .. });
        let soft = outcome.job.terms.deadline_type == DeadlineType::Soft;
        self.0 += u64::from(outcome.met() || (ran && soft));
    }
}

/// The part of a log that a paper takes: its last jobs.
#[derive(Debug, Clone, Copy)]
pub struct LastJobs<'a> {
    log: &'a Log,
    jobs: usize,
}

/// Processors of the papers' machine.
const PROCESSORS: u32 = 128;

impl<'a> LastJobs<'a> {
    /// The last `jobs` of a log.
    pub fn last(log: &'a Log, jobs: usize) -> LastJobs<'a> {
        LastJobs { log, jobs }
    }

    fn records(&self) -> &'a [SwfRecord] {
        Subset::Last(self.jobs).of(&self.log.records)
    }

    fn processors(&self) -> u32 {
        self.log.header.max_processors().unwrap_or(PROCESSORS)
    }

    /// What it is, and whether it has the means that the paper prints for its own: seconds between
    /// submissions, run time in seconds.
    pub fn facts(&self, arrival: f64, run_time: f64) -> Vec<(String, String)> {
        let records = self.records();
        let count = records.len() as f64;
        let span = match records {
            [first, .., last] => last.submit - first.submit,
            _ => 0.0,
        };
        let here = (
            span / (count - 1.0).max(1.0),
            records.iter().map(|r| r.run_time).sum::<f64>() / count,
        );
        let same = (here.0 - arrival).abs() < 1.0 && (here.1 - run_time).abs() < 1.0;
        let ran = records.iter().filter(|record| record.ran()).count();
        let row = |name: &str, value: String| (name.to_string(), value);
        vec![
            row(
                "jobs",
                format!(
                    "the last {} of {} in the log; {ran} ran and are simulated",
                    records.len(),
                    self.log.records.len()
                ),
            ),
            row(
                "log",
                format!(
                    "{:.0} s between submissions and {:.0} s run time in the mean; the paper's: \
                     {arrival} s and {run_time} s: {}",
                    here.0,
                    here.1,
                    if same {
                        "the same jobs"
                    } else {
                        "NOT the paper's jobs, so its figures need not come out"
                    }
                ),
            ),
            row(
                "machine",
                format!("{} nodes of one processor", self.processors()),
            ),
        ]
    }

    /// Runs every contender at every setting with every seed: setting by setting, contender by
    /// contender, the runs of all seeds.
    ///
    /// # Errors
    /// When no job can be made of the log at some setting.
    pub fn run_all(
        &self,
        settings: &[TermsModel],
        contenders: &[Contender],
        options: &Options,
        progress: Progress<'_>,
    ) -> Result<Vec<Vec<Vec<Run>>>, Unfit> {
        let machine = Machine::uniform(self.processors() as usize, 1);
        let seeds: Vec<u64> = options.seeds().collect();
        let tasks: Vec<(&TermsModel, u64)> = (settings.iter())
            .flat_map(|model| seeds.iter().map(move |seed| (model, *seed)))
            .collect();
        let runs = parallel::map(
            &tasks,
            options.threads,
            progress,
            |(model, seed)| -> Result<Vec<Run>, Unfit> {
                let processors = Some(self.processors());
                let made =
                    terms::jobs(self.records(), model, *seed, processors, Leniency::Lenient)?;
                let of = |contender: &Contender| {
                    run(&mut *(contender.scheduler)(), &made.jobs, &machine)
                };
                Ok(contenders.iter().map(of).collect())
            },
        );
        let mut runs = runs.into_iter();
        let mut all = Vec::with_capacity(settings.len());
        for _ in settings {
            let mut by_contender = vec![Vec::with_capacity(seeds.len()); contenders.len()];
            for _ in &seeds {
                let of_seed = runs.next().unwrap_or(Ok(Vec::new()))?;
                for (runs, run) in by_contender.iter_mut().zip(of_seed) {
                    runs.push(run);
                }
            }
            all.push(by_contender);
        }
        Ok(all)
    }
}

/// A measure over the seeds; None if no run has it.
pub fn spread(runs: &[Run], measure: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
    Spread::of(runs.iter().filter_map(measure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_core::decision::policy::Libra;
    use libra_simulator::queue::Fifo;
    use libra_workload::terms::Estimates;

    const CONTENDERS: [Contender; 2] = [
        Contender {
            name: "FIFO",
            style: 0,
            scheduler: || Box::new(Fifo),
        },
        Contender {
            name: "Libra",
            style: 1,
            scheduler: || free_of_charge(Libra::default(), Spare::Idle),
        },
    ];

    fn log() -> Log {
        let record = |number: u32| SwfRecord {
            run_time: f64::from(50 + number % 5 * 100),
            requested: 1 + (number % 3) as i32,
            requested_time: 600.0,
            ..SwfRecord::unknown(number, f64::from(number * 30))
        };
        let mut records: Vec<SwfRecord> = (1..=60).map(record).collect();
        records[58].run_time = -1.0;
        Log {
            records,
            ..Log::default()
        }
    }

    #[test]
    fn the_part_is_described_and_compared_with_the_papers() {
        let log = log();
        let part = LastJobs::last(&log, 40);
        // Jobs 21 to 60: 30 s apart; run times of 8 rounds of 50 … 450, less job 59's 450 + 1.
        let facts = part.facts(30.0, (250.0 * 40.0 - 451.0) / 40.0);
        assert!(
            facts[0]
                .1
                .starts_with("the last 40 of 60 in the log; 39 ran"),
            "{facts:?}"
        );
        assert!(facts[1].1.ends_with("the same jobs"), "{facts:?}");
        assert!(
            part.facts(31.5, 238.7)[1]
                .1
                .contains("NOT the paper's jobs")
        );
    }

    #[test]
    fn runs_stand_in_order_whatever_the_threads() {
        let log = log();
        let part = LastJobs::last(&log, 40);
        let exact = TermsModel {
            estimates: Estimates::Exact,
            ..TermsModel::default()
        };
        let settings = [exact, TermsModel::default()];
        let run = |threads| {
            let options = Options {
                seeds: 3,
                quick: false,
                threads,
            };
            part.run_all(&settings, &CONTENDERS, &options, &|_, _| ())
                .expect("jobs")
        };
        let one = run(1);
        assert_eq!(one, run(5));
        assert_eq!((one.len(), one[0].len(), one[0][0].len()), (2, 2, 3));
        // FIFO does not look at estimates: the same draws, the same outcomes. Libra does.
        let outcomes = |runs: &[Run]| -> Vec<_> {
            let measures = runs.iter().map(|run| &run.measures);
            measures
                .map(|m| (m.fulfilled, m.mean_slowdown, m.mean_wait, m.utilisation))
                .collect()
        };
        assert_eq!(outcomes(&one[0][0]), outcomes(&one[1][0]));
        assert_ne!(one[0][1], one[1][1]);
        assert!(
            one.iter()
                .flatten()
                .flatten()
                .all(|run| run.measures.submitted == 39)
        );
        let model = TermsModel {
            high_urgency: 2.0,
            ..exact
        };
        let options = Options {
            seeds: 1,
            quick: false,
            threads: 1,
        };
        assert!(
            part.run_all(&[model], &CONTENDERS, &options, &|_, _| ())
                .is_err()
        );
    }
}
