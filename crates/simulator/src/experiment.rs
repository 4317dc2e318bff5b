//! Several policies over one log: at every setting, for every seed, on all processors of this host.
//!
//! Invariant: what comes out depends on what is asked for and not on the number of threads. Each
//! run is on its own, and results stand in the order settings, seeds, policies.

use super::groups::Groups;
use super::measures::{MeasureObserver, Measures};
use super::outcomes::Outcomes;
use super::schedulers::Known;
use super::series::Series;
use super::setting::Setting;
use super::summary::Summary;
use super::{Observer, Outcome};
use libra_workload::Job;
use libra_workload::read::Leniency;
use libra_workload::sla::{Sla, SlaError};
use libra_workload::swf::SwfRecord;
use libra_workload::terms::{self, Made, Unfit};
use std::io::Write;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is to be run.
#[derive(Clone, Copy)]
pub struct Experiment<'a> {
    /// The whole log.
    pub log: &'a [SwfRecord],
    /// The part of it that is simulated.
    pub records: &'a [SwfRecord],
    /// Terms that the site gives.
    pub sla: Option<&'a Sla>,
    /// What becomes of jobs that are larger than the machine.
    pub leniency: Leniency,
    /// At least one.
    pub settings: &'a [Setting],
    /// At least one.
    pub seeds: &'a [u64],
    /// At least one.
    pub policies: &'a [&'static Known],
    /// Second of the day in which the first job was submitted.
    pub time_of_day: f64,
}

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum NoJobs {
    /// No jobs can be made of the log.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The site's terms are not of this log.
    #[error(transparent)]
    Sla(#[from] SlaError),
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its measures.
    pub measures: Measures,
    /// What the plots need; only of the first seed of an experiment with a single setting.
    pub series: Option<Series>,
    /// Who met their deadlines, by sorts of jobs; only of an experiment with a single setting.
    pub groups: Option<Groups>,
}

/// How far an experiment is.
#[derive(Debug, Default)]
pub struct Progress {
    jobs: AtomicU64,
}

impl Progress {
    /// Jobs of which it is known what became of them, over all runs.
    pub fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }
}

impl Observer for &Progress {
    fn outcome(&mut self, _: &Outcome<'_>) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
    }
}

impl Experiment<'_> {
    /// The jobs of one setting and seed.
    ///
    /// # Errors
    /// When the setting is out of range, no job is left, or the site's terms are not of this log;
    /// unless lenient, when a job is larger than the machine.
    pub fn jobs(&self, setting: &Setting, seed: u64) -> Result<Made, NoJobs> {
        setting.check().map_err(Unfit::Model)?;
        let machine = Some(setting.processors());
        let mut made = terms::jobs(self.records, &setting.model, seed, machine, self.leniency)?;
        if let Some(sla) = self.sla {
            sla.apply(self.log, &mut made.jobs)?;
        }
        Ok(made)
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.settings.len() * self.seeds.len() * self.policies.len()
    }

    /// Runs everything on so many threads (at least one).
    ///
    /// # Errors
    /// As [`Experiment::jobs`].
    pub fn run(&self, threads: usize, progress: &Progress) -> Result<Vec<Run>, NoJobs> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<(usize, Result<Run, NoJobs>)>> = Mutex::default();
        let keep = |task, result| {
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((task, result));
        };
        std::thread::scope(|scope| {
            for _ in 0..threads.clamp(1, self.runs().max(1)) {
                scope.spawn(|| {
                    loop {
                        let task = next.fetch_add(1, Ordering::Relaxed);
                        if task >= self.runs() {
                            break;
                        }
                        keep(
                            task,
                            self.task(task, progress, None::<&mut Outcomes<Vec<u8>>>),
                        );
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(task, _)| *task);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Runs everything, one run after the other, and writes down what became of every job.
    ///
    /// # Errors
    /// As [`Experiment::jobs`]. Whether writing failed, [`Outcomes::finish`] says.
    pub fn run_with_outcomes<W: Write>(
        &self,
        outcomes: &mut Outcomes<W>,
        progress: &Progress,
    ) -> Result<Vec<Run>, NoJobs> {
        (0..self.runs())
            .map(|task| self.task(task, progress, Some(outcomes)))
            .collect()
    }

    /// One run.
    fn task<W: Write>(
        &self,
        task: usize,
        progress: &Progress,
        outcomes: Option<&mut Outcomes<W>>,
    ) -> Result<Run, NoJobs> {
        let policy = self.policies[task % self.policies.len()];
        let seed = task / self.policies.len() % self.seeds.len();
        let setting = &self.settings[task / self.policies.len() / self.seeds.len()];
        let jobs: Vec<Job> = self.jobs(setting, self.seeds[seed])?.jobs;
        let machine = setting.machine();
        let mut measured = MeasureObserver::new(&machine);
        let single = self.settings.len() == 1;
        let plotted = single && seed == 0;
        let mut groups = single.then(|| Groups::of(&jobs));
        let mut scheduler = policy.scheduler(&setting.options);
        let tells_work = scheduler.tells_work();
        let mut series = plotted.then(|| Series::new(&machine, self.time_of_day, tells_work));
        let outcomes = outcomes.map(|outcomes| outcomes.of(policy.name));
        let mut observer = (
            (&mut measured, (&mut series, &mut groups)),
            (outcomes, progress),
        );
        scheduler.run(&jobs, &machine, &mut observer);
        Ok(Run {
            measures: measured.measures(),
            series,
            groups,
        })
    }

    /// The runs of one setting, a summary for each policy. `runs` is what [`Experiment::run`] gave.
    pub fn summaries(&self, runs: &[Run], setting: usize) -> Vec<Summary> {
        let (policies, seeds) = (self.policies.len(), self.seeds.len());
        let first = setting * seeds * policies;
        let of_setting = runs.get(first..first + seeds * policies).unwrap_or(&[]);
        (0..policies)
            .map(|policy| {
                let of_policy = of_setting.iter().skip(policy).step_by(policies);
                Summary::new(of_policy.map(|run| run.measures.clone()).collect())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedulers::{self, Options};
    use super::*;
    use libra_workload::terms::TermsModel;

    fn setting(arrival_delay_factor: f64, nodes: u32) -> Setting {
        Setting {
            model: TermsModel {
                arrival_delay_factor,
                ..TermsModel::default()
            },
            options: Options::default(),
            nodes,
            processors_per_node: 1,
            larger_nodes: 0,
        }
    }

    fn records() -> Vec<SwfRecord> {
        (1..=40)
            .map(|number| SwfRecord {
                run_time: f64::from(100 + number % 7 * 50),
                requested: 1 + number as i32 % 3,
                requested_time: 400.0,
                ..SwfRecord::unknown(number, f64::from(number * 60))
            })
            .collect()
    }

    fn experiment<'a>(
        records: &'a [SwfRecord],
        settings: &'a [Setting],
        policies: &'a [&'static Known],
    ) -> Experiment<'a> {
        Experiment {
            log: records,
            records,
            sla: None,
            leniency: Leniency::Strict,
            settings,
            seeds: &[1, 2],
            policies,
            time_of_day: 0.0,
        }
    }

    #[test]
    fn order_and_results_do_not_depend_on_threads() {
        let records = records();
        let settings = [setting(0.5, 4), setting(1.0, 4), setting(1.0, 8)];
        let policies: Vec<&Known> = schedulers::ALL.iter().collect();
        let experiment = experiment(&records, &settings, &policies);
        let one = experiment.run(1, &Progress::default()).expect("jobs");
        let progress = Progress::default();
        let four = experiment.run(4, &progress).expect("jobs");
        assert_eq!(one, four);
        assert_eq!(one.len(), experiment.runs());
        assert_eq!(progress.jobs(), 40 * experiment.runs() as u64);
        // The third setting, the second policy: runs 2 × 2 × 3 + 1 and 3 later.
        let summaries = experiment.summaries(&one, 2);
        let count = policies.len();
        let expected = [4 * count + 1, 5 * count + 1].map(|run| one[run].measures.clone());
        assert_eq!(summaries[1].runs(), expected);
        assert!(one.iter().all(|run| run.series.is_none()));
    }

    #[test]
    fn one_setting_has_series_and_the_same_measures_with_outcomes() {
        let records = records();
        let settings = [setting(1.0, 4)];
        let policies: Vec<&Known> = schedulers::ALL.iter().take(2).collect();
        let experiment = experiment(&records, &settings, &policies);
        let runs = experiment.run(2, &Progress::default()).expect("jobs");
        let with_series: Vec<bool> = runs.iter().map(|run| run.series.is_some()).collect();
        assert_eq!(with_series, [true, true, false, false]);
        let mut outcomes = Outcomes::new(Vec::new()).expect("memory");
        let written = experiment.run_with_outcomes(&mut outcomes, &Progress::default());
        assert_eq!(written.expect("jobs"), runs);
        let text = String::from_utf8(outcomes.finish().expect("memory")).expect("text");
        assert_eq!(text.lines().count(), 1 + 4 * 40);
    }

    #[test]
    fn what_cannot_run_is_said() {
        let records = records();
        let settings = [setting(1.0, 2)];
        let policies: Vec<&Known> = schedulers::ALL.iter().take(1).collect();
        let mut experiment = experiment(&records, &settings, &policies);
        let error = experiment
            .run(2, &Progress::default())
            .expect_err("three of two");
        assert!(
            error.to_string().contains("asks for 3 processors"),
            "{error}"
        );
        experiment.leniency = Leniency::Lenient;
        assert!(experiment.run(2, &Progress::default()).is_ok());
        let settings = [setting(-1.0, 4)];
        experiment.settings = &settings;
        let error = experiment
            .jobs(&settings[0], 1)
            .expect_err("before its time");
        assert!(
            error.to_string().contains("arrival_delay_factor"),
            "{error}"
        );
    }
}
