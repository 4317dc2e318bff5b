//! AROMA 2004, section 4: Table 1, waiting times against those that the log has (there under NQS),
//! all jobs dedicated; and Table 2, the four classes of service against best effort alone.
//!
//! The log is SDSC SP2 on 128 hosts of one processor. The paper takes the first 10,000 and 35,000
//! jobs, 112 and 249 days of it. The archive's log was cleaned since: flurries of small jobs of a
//! few users are gone from it, and its first 35,000 jobs span 353 days. So both readings are run,
//! the same number of jobs and the same number of days; the second has the load of the paper.
//!
//! Jobs are planned with the processor time that they used (SWF field 6) and run for as long, as
//! in the paper. Jobs that never ran count in the number of jobs and are left out. Where the log
//! does not know the processor time (5 % of those that ran) the run time stands in.

mod reproduction;
mod statements;

pub use statements::{Figure, Statement, Verdict};

use libra_core::decision::job::{LONGEST, SHORTEST, Terms};
use libra_simulator::aroma::{Aroma, Class, MappingObserver};
use libra_simulator::{Fate, Machine, Observer, Outcome};
use libra_workload::Job;
use libra_workload::swf::SwfRecord;

/// Hosts of SDSC SP2, of one processor each.
pub const HOSTS: u32 = 128;
/// The classes of section 4.2 by queue: express, high, normal; low and the others are best effort.
pub const QUEUES: [(i32, Class); 3] = [
    (1, Class::HighPriority { within: 5.0 }),
    (2, Class::Dedicated),
    (3, Class::Deadline),
];
/// Deadlines in processor times, section 4.2.
pub const DEADLINE_FACTOR: f64 = 5.0;

/// A part of the log, from its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Excerpt {
    /// So many jobs.
    Jobs(usize),
    /// The jobs of so many days.
    Days(f64),
}

impl Excerpt {
    /// The records of this part. `records` stand in order of submission.
    pub fn of(self, records: &[SwfRecord]) -> &[SwfRecord] {
        let end = match (self, records.first()) {
            (Excerpt::Jobs(count), _) => count.min(records.len()),
            (Excerpt::Days(days), Some(first)) => {
                records.partition_point(|record| record.submit - first.submit <= days * 86_400.0)
            }
            (Excerpt::Days(_), None) => 0,
        };
        &records[..end]
    }
}

impl std::fmt::Display for Excerpt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Excerpt::Jobs(count) => write!(f, "first {count} jobs"),
            Excerpt::Days(days) => write!(f, "first {days} days"),
        }
    }
}

/// The parts that stand for the paper's 10,000 events.
pub const SHORT: [Excerpt; 2] = [Excerpt::Jobs(10_000), Excerpt::Days(112.0)];
/// The parts that stand for the paper's 35,000 events.
pub const LONG: [Excerpt; 2] = [Excerpt::Jobs(35_000), Excerpt::Days(249.0)];

/// What is planned with and run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Processor times (SWF field 6), as in the paper.
    Processor,
    /// Run times by the clock (SWF field 4), which waiting for data and for each other makes longer.
    Run,
}

/// One column of Table 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Waits {
    /// Which jobs.
    pub part: Excerpt,
    /// Jobs of it that ran.
    pub jobs: usize,
    /// Days from the first submission to the last.
    pub days: f64,
    /// Mean wait in the log, in seconds.
    pub logged: f64,
    /// Mean wait with all jobs dedicated, by processor times, in seconds.
    pub dedicated: f64,
    /// As `dedicated`, by run times.
    pub dedicated_run_times: f64,
}

/// The jobs of one class in one case of Table 2; means over none are 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassFigures {
    /// Jobs that ran in the log.
    pub jobs: usize,
    /// Of these refused.
    pub refused: usize,
    /// Accepted jobs whose promise was broken: ended late, or started late.
    pub broken: usize,
    /// Mean wait of accepted jobs until they first ran, in seconds.
    pub wait: f64,
    /// Mean time that the search for a mapping took, in seconds of the clock.
    pub mapping_time: f64,
}

/// One column of Table 2.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Which jobs.
    pub part: Excerpt,
    /// The four classes, or best effort alone?
    pub four_classes: bool,
    /// By class, 1 to 4.
    pub classes: [ClassFigures; 4],
    /// All classes together.
    pub all: ClassFigures,
    /// Planned jobs that were moved for others.
    pub moved: usize,
    /// Running jobs that were stopped for others.
    pub stopped: usize,
}

/// Both tables, and what becomes of the paper's statements.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Table 1: [`SHORT`], then [`LONG`].
    pub table_1: Vec<Waits>,
    /// Table 2: cases 1 to 4 by number of jobs, then by days.
    pub table_2: Vec<Case>,
    /// What the paper states.
    pub statements: Vec<Statement>,
}

/// The log does not have the jobs that the experiment needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is too short.
    #[error(
        "the log has {0} jobs and the experiment takes its first 35000; it is made for the log SDSC-SP2-1998"
    )]
    Short(usize),
    /// It has a job that is larger than the machine.
    #[error(
        "job {number} has {processors} processors and the experiment's machine has 128; it is made for the log SDSC-SP2-1998"
    )]
    TooLarge {
        /// The job's number.
        number: u32,
        /// Its processors.
        processors: u32,
    },
    /// It has a job that ran, and nobody knows on how many processors.
    #[error(
        "job {0} ran, and neither field 8 nor field 5 says on how many processors; the experiment is made for the log SDSC-SP2-1998"
    )]
    NoProcessors(u32),
}

/// The jobs of a part that ran, each with a deadline of [`DEADLINE_FACTOR`].
///
/// # Errors
/// The first job that does not fit.
pub fn jobs(records: &[SwfRecord], times: Times) -> Result<Vec<Job>, Unfit> {
    let first = records.first().map_or(0.0, |record| record.submit);
    let ran = records.iter().filter(|record| record.ran());
    ran.map(|record| {
        let number = record.number;
        let processors = record.processors().ok_or(Unfit::NoProcessors(number))?;
        if processors > HOSTS {
            return Err(Unfit::TooLarge { number, processors });
        }
        let time = match times {
            Times::Processor if record.cpu_time > 0.0 => record.cpu_time,
            _ => record.run_time,
        };
        let time = time.clamp(SHORTEST, LONGEST);
        Ok(Job {
            number: u64::from(number),
            submit: record.submit - first,
            run_time: time,
            terms: Terms::hard(time, DEADLINE_FACTOR * time, f64::INFINITY),
            processors,
            memory: 0,
            user: record.user.max(0).unsigned_abs(),
            queue: record.queue,
            logged_wait: record.wait,
            coupled: false,
        })
    })
    .collect()
}

/// Runs the experiment. `clock` says the time in seconds, from whenever; it is asked before and
/// after each search for a mapping.
///
/// # Errors
/// When the log is another one than the paper's.
pub fn run(records: &[SwfRecord], clock: &mut dyn FnMut() -> f64) -> Result<Experiment, Unfit> {
    let Excerpt::Jobs(needed) = LONG[0] else {
        return Err(Unfit::Short(records.len()));
    };
    if records.len() < needed {
        return Err(Unfit::Short(records.len()));
    }
    let mut table_1 = Vec::new();
    for part in SHORT.into_iter().chain(LONG) {
        table_1.push(waits(records, part)?);
    }
    let mut table_2 = Vec::new();
    for (short, long) in SHORT.into_iter().zip(LONG) {
        for part in [short, long] {
            for four_classes in [true, false] {
                table_2.push(case(records, part, four_classes, clock)?);
            }
        }
    }
    let statements = statements::all(&table_1, &table_2);
    Ok(Experiment {
        table_1,
        table_2,
        statements,
    })
}

fn waits(records: &[SwfRecord], part: Excerpt) -> Result<Waits, Unfit> {
    let records = part.of(records);
    let dedicated = |times| -> Result<(Vec<Job>, f64), Unfit> {
        let jobs = jobs(records, times)?;
        let mut fates = Fates::new(&jobs, |_| Class::Dedicated);
        let aroma = Aroma::all(Class::Dedicated);
        aroma.run_observed(&jobs, &machine(), &mut fates, &mut ());
        let (_, all) = fates.figures();
        Ok((jobs, all.wait))
    };
    let (jobs, wait) = dedicated(Times::Processor)?;
    let (_, wait_run_times) = dedicated(Times::Run)?;
    let logged: f64 = jobs.iter().map(|job| job.logged_wait.max(0.0)).sum();
    let span = records.first().zip(records.last());
    Ok(Waits {
        part,
        jobs: jobs.len(),
        days: span.map_or(0.0, |(first, last)| (last.submit - first.submit) / 86_400.0),
        logged: mean(logged, jobs.len()),
        dedicated: wait,
        dedicated_run_times: wait_run_times,
    })
}

fn case(
    records: &[SwfRecord],
    part: Excerpt,
    four_classes: bool,
    clock: &mut dyn FnMut() -> f64,
) -> Result<Case, Unfit> {
    let jobs = jobs(part.of(records), Times::Processor)?;
    let aroma = match four_classes {
        true => Aroma::by_queue(QUEUES.to_vec()),
        false => Aroma::all(Class::BestEffort),
    };
    let mut fates = Fates::new(&jobs, |index| (aroma.class_of)(index, &jobs[index]));
    let mut searches = Searches {
        clock,
        begun: 0.0,
        times: vec![0.0; jobs.len()],
        moved: 0,
        stopped: 0,
    };
    aroma.run_observed(&jobs, &machine(), &mut fates, &mut searches);
    let Searches {
        times,
        moved,
        stopped,
        ..
    } = searches;
    fates.mapping_times(&times);
    let (classes, all) = fates.figures();
    Ok(Case {
        part,
        four_classes,
        classes,
        all,
        moved,
        stopped,
    })
}

fn machine() -> Machine {
    Machine::uniform(HOSTS as usize, 1)
}

fn mean(sum: f64, count: usize) -> f64 {
    match count {
        0 => 0.0,
        _ => sum / count as f64,
    }
}

/// Adds up what becomes of jobs by class. Waits and mapping times are sums until
/// [`Fates::figures`].
struct Fates {
    classes: Vec<Class>,
    sums: [ClassFigures; 4],
}

impl Fates {
    fn new(jobs: &[Job], class_of: impl Fn(usize) -> Class) -> Fates {
        let classes: Vec<Class> = (0..jobs.len()).map(class_of).collect();
        let mut sums = [ClassFigures::default(); 4];
        for class in &classes {
            sums[rank(*class)].jobs += 1;
        }
        Fates { classes, sums }
    }

    fn mapping_times(&mut self, times: &[f64]) {
        for (class, time) in self.classes.iter().zip(times) {
            self.sums[rank(*class)].mapping_time += time;
        }
    }

    /// By class and of all.
    fn figures(&self) -> ([ClassFigures; 4], ClassFigures) {
        let mut all = ClassFigures::default();
        for sum in &self.sums {
            all.jobs += sum.jobs;
            all.refused += sum.refused;
            all.broken += sum.broken;
            all.wait += sum.wait;
            all.mapping_time += sum.mapping_time;
        }
        let means = |sum: ClassFigures| ClassFigures {
            wait: mean(sum.wait, sum.jobs - sum.refused),
            mapping_time: mean(sum.mapping_time, sum.jobs),
            ..sum
        };
        (self.sums.map(means), means(all))
    }
}

/// A class's place in a table, from 0.
fn rank(class: Class) -> usize {
    usize::from(class.rank()) - 1
}

impl Observer for Fates {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        let class = self.classes[outcome.index];
        let sum = &mut self.sums[rank(class)];
        match outcome.fate {
            Fate::Refused { .. } => sum.refused += 1,
            Fate::Ended { start, .. } => {
                let wait = start - outcome.job.submit;
                sum.wait += wait;
                let kept = match class {
                    Class::Deadline => outcome.met(),
                    // A millisecond for rounding in sums of times.
                    Class::HighPriority { within } => wait <= within + 1e-3,
                    Class::Dedicated | Class::BestEffort => true,
                };
                sum.broken += usize::from(!kept);
            }
        }
    }
}

/// Takes the time of each search.
struct Searches<'a> {
    clock: &'a mut dyn FnMut() -> f64,
    begun: f64,
    times: Vec<f64>,
    moved: usize,
    stopped: usize,
}

impl MappingObserver for Searches<'_> {
    fn searching(&mut self, _index: usize, _class: Class) {
        self.begun = (self.clock)();
    }
    fn searched(&mut self, index: usize, _class: Class, _start: Option<f64>) {
        self.times[index] = (self.clock)() - self.begun;
    }
    fn moved(&mut self, _index: usize, _at: f64, _start: f64) {
        self.moved += 1;
    }
    fn stopped(&mut self, _index: usize, _at: f64, _goes_on: f64) {
        self.stopped += 1;
    }
}

#[cfg(test)]
mod tests;
