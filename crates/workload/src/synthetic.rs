//! A synthetic log: jobs of the model in [`super::lublin`], with users and estimates, as a log in
//! the Standard Workload Format.
//!
//! Invariants: a seed and options give the same bytes; jobs stand in order of submission and are
//! numbered from 1; sizes, run times, arrivals, users and estimates are drawn from streams of
//! their own, so that changing one option leaves the others' draws.

use super::lublin::{Arrivals, Day, Kind, RunTimes, Sizes};
use super::random;
use super::swf::SwfRecord;
use libra_core::decision::job::OutOfRange;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// What users say of their run times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Requests {
    /// A round value: the run time is a part of what the user thinks of, uniform from 0 to 1, and
    /// that goes up to the next of the values in [`ROUND`]. Two things that are known of real
    /// estimates are so: run time / estimate is about uniform (Mu'alem and Feitelson 2001), and
    /// about twenty round values are nearly all there are (Tsafrir, Etsion and Feitelson 2005).
    /// No job outlives such an estimate.
    #[default]
    Round,
    /// The run time itself.
    Exact,
}

/// The estimates that there are with [`Requests::Round`], in minutes. The last is the model's
/// longest run time, about 45 hours, rounded.
pub const ROUND: [u32; 20] = [
    5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 360, 480, 600, 720, 1080, 1440, 2160, 2880,
];

/// What log to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Synthetic {
    /// Jobs, 1 to 100,000,000.
    pub jobs: u32,
    /// Nodes of the machine, of one processor each, 1 to 1,048,576.
    pub nodes: u32,
    /// Offered load: processor seconds of the jobs / (processors × time from the first to the last
    /// submission), more than 0 and at most 100. None: the model's own rate of submissions.
    pub load: Option<f64>,
    /// What is drawn.
    pub seed: u64,
    /// Users, 1 to 1,000,000. The n-th most active submits 1/n of what the most active does.
    pub users: u32,
    /// What they say of their run times.
    pub requests: Requests,
}

impl Default for Synthetic {
    fn default() -> Synthetic {
        Synthetic {
            jobs: 10_000,
            nodes: 128,
            load: None,
            seed: 1,
            users: 100,
            requests: Requests::Round,
        }
    }
}

/// The streams of a seed. The numbers are part of what a seed means.
#[derive(Debug, Clone, Copy)]
enum Stream {
    InteractiveArrivals = 1,
    BatchArrivals = 2,
    Sizes = 3,
    RunTimes = 4,
    Users = 5,
    Requests = 6,
}

fn stream(seed: u64, stream: Stream) -> Pcg64Mcg {
    random::stream(seed, 0, stream as u32)
}

/// A job before it has its time.
#[derive(Debug, Clone, Copy)]
struct Draft {
    /// Submission, in seconds of mean activity of its type.
    activity: f64,
    submit: u64,
    kind: Kind,
    size: u32,
    run_time: u32,
}

impl Synthetic {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        for (field, value, most, expected) in [
            ("jobs", self.jobs, 100_000_000, "1 to 100000000"),
            ("nodes", self.nodes, 1 << 20, "1 to 1048576"),
            ("users", self.users, 1_000_000, "1 to 1000000"),
        ] {
            if !(1..=most).contains(&value) {
                return Err(OutOfRange {
                    field,
                    value: f64::from(value),
                    expected,
                });
            }
        }
        match self.load {
            Some(load) if !(1e-6..=100.0).contains(&load) => Err(OutOfRange {
                field: "load",
                value: load,
                expected: "a part of the machine, from 0.000001 to 100",
            }),
            _ => Ok(()),
        }
    }

    /// Makes the log.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn make(&self) -> Result<SyntheticLog, OutOfRange> {
        self.check()?;
        let mut drafts = self.drafts();
        self.set_times(&mut drafts);
        Ok(SyntheticLog {
            model: *self,
            drafts,
        })
    }

    /// The first jobs of both types, in order of submission at the model's own rate.
    fn drafts(&self) -> Vec<Draft> {
        let mut types = [
            (Kind::Interactive, Stream::InteractiveArrivals),
            (Kind::Batch, Stream::BatchArrivals),
        ]
        .map(|(kind, number)| {
            let mut random = stream(self.seed, number);
            let mut arrivals = Arrivals::new(kind);
            let day = Day::new(kind);
            let next = move || {
                let activity = arrivals.draw(&mut random);
                (activity, day.time(activity))
            };
            (
                kind,
                next,
                Sizes::new(kind, self.nodes),
                RunTimes::new(kind),
            )
        });
        let (mut sizes, mut run_times) = (
            stream(self.seed, Stream::Sizes),
            stream(self.seed, Stream::RunTimes),
        );
        let mut next = [(types[0].1)(), (types[1].1)()];
        let mut drafts = Vec::with_capacity(self.jobs as usize);
        for _ in 0..self.jobs {
            let first = usize::from(next[1].1 < next[0].1);
            let (kind, arrive, size, run_time) = &mut types[first];
            let size = size.draw(&mut sizes);
            drafts.push(Draft {
                activity: next[first].0,
                submit: 0,
                kind: *kind,
                size,
                run_time: run_time.draw(size, &mut run_times),
            });
            next[first] = arrive();
        }
        drafts
    }

    /// Gives every job its submit time, so that the load is what was asked for: busy hours get
    /// longer or shorter times between submissions, the daily cycle stays.
    fn set_times(&self, drafts: &mut [Draft]) {
        let days = [Day::new(Kind::Interactive), Day::new(Kind::Batch)];
        let day = |kind: Kind| &days[usize::from(kind == Kind::Batch)];
        let at = |draft: &Draft, factor: f64| day(draft.kind).time(draft.activity * factor);
        let span = |factor: f64| {
            // The first and the last of each type are the only ones that can be it.
            let of = |kind: Kind| drafts.iter().filter(move |draft| draft.kind == kind);
            let ends = [Kind::Interactive, Kind::Batch]
                .into_iter()
                .flat_map(|kind| [of(kind).next(), of(kind).next_back()])
                .flatten()
                .map(|draft| at(draft, factor));
            let (least, most) = ends.fold((f64::INFINITY, 0.0f64), |(least, most), time| {
                (least.min(time), most.max(time))
            });
            most - least
        };
        let mut factor = 1.0;
        if let Some(load) = self.load.filter(|_| drafts.len() > 1) {
            let wanted = work(drafts) / (f64::from(self.nodes) * load);
            // The span grows with the factor from 0 without end, so some factor gives it.
            let (mut below, mut above) = (0.0, 1.0);
            while span(above) < wanted {
                below = above;
                above *= 2.0;
            }
            for _ in 0..60 {
                factor = (below + above) / 2.0;
                match span(factor) < wanted {
                    true => below = factor,
                    false => above = factor,
                }
            }
        }
        for draft in drafts.iter_mut() {
            draft.submit = at(draft, factor).floor() as u64;
        }
        drafts.sort_by_key(|draft| draft.submit);
    }
}

/// Processor seconds of all jobs.
fn work(drafts: &[Draft]) -> f64 {
    drafts
        .iter()
        .map(|draft| f64::from(draft.size) * f64::from(draft.run_time))
        .sum()
}

/// A log that was made.
#[derive(Debug, Clone)]
pub struct SyntheticLog {
    model: Synthetic,
    drafts: Vec<Draft>,
}

impl SyntheticLog {
    /// Its offered load, see [`Synthetic::load`]; None if all jobs come at once.
    pub fn load(&self) -> Option<f64> {
        let (first, last) = (self.drafts.first()?, self.drafts.last()?);
        let span = last.submit - first.submit;
        let processors = f64::from(self.model.nodes);
        (span > 0).then(|| work(&self.drafts) / (processors * span as f64))
    }

    /// The header, one comment line each, without semicolons. `command` is what made the log.
    pub fn header(&self, command: &str) -> Vec<String> {
        let model = &self.model;
        let load = match self.load() {
            Some(load) => format!("{load:.3}"),
            None => "all jobs are submitted at once".to_string(),
        };
        let requests = match model.requests {
            Requests::Round => "round values, uniform run time / estimate, no job outlives its own",
            Requests::Exact => "the run times",
        };
        vec![
            "Version: 2.2".to_string(),
            "Computer: none: this log is synthetic".to_string(),
            format!("Note: Made by: {command}"),
            "Note: Model: Lublin and Feitelson, The workload on parallel supercomputers, JPDC 63(11), 2003".to_string(),
            format!("Note: Offered load: {load}"),
            format!("Note: Users: {}, the n-th most active submits 1/n of what the first does", model.users),
            format!("Note: Estimates: {requests}"),
            format!("MaxJobs: {}", model.jobs),
            format!("MaxRecords: {}", model.jobs),
            "Preemption: No".to_string(),
            "UnixStartTime: 0".to_string(),
            "TimeZoneString: UTC".to_string(),
            format!("MaxNodes: {}", model.nodes),
            format!("MaxProcs: {}", model.nodes),
            "MaxQueues: 2".to_string(),
            "Queue: 0 interactive".to_string(),
            "Queue: 1 batch".to_string(),
        ]
    }

    /// Its jobs.
    pub fn records(&self) -> impl Iterator<Item = SwfRecord> + '_ {
        let mut users = stream(self.model.seed, Stream::Users);
        let mut requests = stream(self.model.seed, Stream::Requests);
        let activity = activity(self.model.users);
        self.drafts.iter().zip(1..).map(move |(draft, number)| {
            let user: f64 = users.random();
            let accuracy: f64 = requests.random();
            let run_time = f64::from(draft.run_time);
            SwfRecord {
                run_time,
                allocated: draft.size as i32,
                requested: draft.size as i32,
                requested_time: match self.model.requests {
                    Requests::Round => round_estimate(run_time, accuracy),
                    Requests::Exact => run_time,
                },
                status: 1,
                user: 1 + activity.partition_point(|sum| *sum <= user) as i32,
                queue: i32::from(draft.kind == Kind::Batch),
                ..SwfRecord::unknown(number, draft.submit as f64)
            }
        })
    }
}

/// The part of all submissions of the first so many users, for all but the last.
fn activity(users: u32) -> Vec<f64> {
    let all: f64 = (1..=users).map(|n| 1.0 / f64::from(n)).sum();
    let mut sum = 0.0;
    (1..users)
        .map(|n| {
            sum += 1.0 / f64::from(n) / all;
            sum
        })
        .collect()
}

/// The round value for a job of which the run time is this part.
fn round_estimate(run_time: f64, accuracy: f64) -> f64 {
    let thought = run_time / accuracy.max(1e-6);
    let longest = ROUND[ROUND.len() - 1];
    let minutes = ROUND
        .into_iter()
        .find(|minutes| f64::from(minutes * 60) >= thought)
        .unwrap_or(longest);
    f64::from(minutes * 60).max(run_time)
}

#[cfg(test)]
#[path = "synthetic_tests.rs"]
mod tests;
