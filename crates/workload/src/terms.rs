//! The workload model: jobs of a log with terms that are drawn. It is the papers' (Yeo and Buyya 2006,
//! section 4; 2005, section 5.1), and theirs with deadlines of another kind ([`DeadlineModel`]).
//!
//! Two classes of jobs: those of high urgency have a short deadline, measured against their run
//! time, and a high budget and penalty rate; those of low urgency the other way round. Within a
//! class the values are normally distributed. The papers give no standard deviation; here it is a
//! quarter of the mean.
//!
//! Invariants: every random property of a job is drawn from a stream of its own, which depends on
//! the seed, the job's number and the property and on nothing else. So changing one value of the
//! model, or taking another part of the log, leaves all other draws as they were: two points of a
//! sweep differ by what was changed. Every job that is made has terms that pass [`Terms::check`].

use super::Job;
use super::coupled::Coupled;
use super::deadlines::{self, Basis, DeadlineModel};
use super::random;
use super::read::Leniency;
use super::swf::SwfRecord;
use libra_core::decision::class::Class;
use libra_core::decision::job::{DeadlineType, LONGEST, OutOfRange, SHORTEST, Terms};
use libra_wording::refusal::out_of_range;
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;
use std::str::FromStr;

/// No deadline that is a multiple is shorter than this: a job alone on its processors can keep it.
pub const SHORTEST_DEADLINE: f64 = 1.05;

/// What the user says of the run time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Estimates {
    /// What the log has (field 9).
    #[default]
    Trace,
    /// The run time itself.
    Exact,
    /// run time + p × (the log's estimate − run time): 0 is exact, 1 is the log's (the 2006
    /// paper's inaccuracy, there in percent). 0 or more.
    Inaccuracy(f64),
}

impl FromStr for Estimates {
    type Err = String;

    /// Reads `trace`, `exact`, or an inaccuracy as a number (0.4) or in percent (40%).
    fn from_str(text: &str) -> Result<Estimates, String> {
        let inaccuracy = |text: &str| -> Option<f64> {
            let (digits, unit) = match text.strip_suffix('%') {
                Some(digits) => (digits, 100.0),
                None => (text, 1.0),
            };
            let value: f64 = digits.trim().parse().ok()?;
            (0.0..=1000.0)
                .contains(&(value / unit))
                .then(|| value / unit)
        };
        match text.trim().to_ascii_lowercase().as_str() {
            "trace" => Ok(Estimates::Trace),
            "exact" => Ok(Estimates::Exact),
            other => inaccuracy(other).map(Estimates::Inaccuracy).ok_or_else(|| {
                format!(
                    "'{}' is none of 'trace', 'exact' and an inaccuracy from 0 to 1000 (0.4, 40%)",
                    text.chars().take(32).collect::<String>()
                )
            }),
        }
    }
}

/// How an amount of credits grows with the run time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amounts {
    /// Mean of low amount / run time, in credits per second, ≥ 0. Jobs of low urgency have low
    /// amounts.
    pub factor: f64,
    /// Ratio of the means of high and low amount / run time, > 0.
    pub ratio: f64,
    /// Standard deviation as a part of the mean, ≥ 0.
    pub spread: f64,
}

/// The model. [`TermsModel::default`] has the values of the 2006 paper, [`TermsModel::libra_sla`]
/// those of the 2005 paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TermsModel {
    /// Fraction of the jobs that are of high urgency, 0 to 1.
    pub high_urgency: f64,
    /// What deadlines are drawn from.
    pub deadlines: DeadlineModel,
    /// Of deadlines that are multiples of the run time or of the estimate: mean of low ones / that, > 0. Jobs
    /// of high urgency have low ones.
    pub deadline_factor: f64,
    /// Ratio of the means of high and low such multiples, > 0.
    pub deadline_ratio: f64,
    /// Standard deviation of the multiple as a part of its mean, ≥ 0.
    pub deadline_spread: f64,
    /// Part of the jobs whose deadline is shorter than their run time, 0 to 1: nothing can keep it.
    pub infeasible: f64,
    /// Second of the week, from Monday 0:00, in which the first job is submitted: for deadlines by the clock.
    pub second_of_week: f64,
    /// Multiplies the times between submissions, ≥ 0: less than 1 is more load.
    pub arrival_delay_factor: f64,
    /// What users say of their run times.
    pub estimates: Estimates,
    /// Budgets; none: unlimited.
    pub budget: Option<Amounts>,
    /// Penalty rates, in credits per second of delay; none: no penalty.
    pub penalty: Option<Amounts>,
    /// Jobs of low urgency have soft deadlines; otherwise all are hard.
    pub soft_deadlines: bool,
    /// Take the memory that a job asked for (field 10); otherwise memory is not counted.
    pub memory: bool,
    /// Which jobs are coupled.
    pub coupled: Coupled,
}

impl Default for TermsModel {
    fn default() -> TermsModel {
        TermsModel {
            high_urgency: 0.2,
            deadlines: DeadlineModel::Run,
            deadline_factor: 4.0,
            deadline_ratio: 4.0,
            deadline_spread: 0.25,
            infeasible: 0.0,
            second_of_week: 0.0,
            arrival_delay_factor: 1.0,
            estimates: Estimates::Trace,
            budget: None,
            penalty: None,
            soft_deadlines: false,
            memory: false,
            coupled: Coupled::Never,
        }
    }
}

impl TermsModel {
    /// The 2005 paper's: soft deadlines for jobs of low urgency, high:low ratios of 7 for deadlines
    /// and budgets and 4 for penalty rates, exact estimates.
    ///
    /// The paper does not say what a low budget and a low penalty rate are. Here a low budget is
    /// one credit for each second of the run time, and a low penalty rate would use that up over
    /// 10,000 s of delay, about the mean run time of the log.
    pub fn libra_sla() -> TermsModel {
        TermsModel {
            deadline_ratio: 7.0,
            estimates: Estimates::Exact,
            budget: Some(Amounts {
                factor: 1.0,
                ratio: 7.0,
                spread: 0.25,
            }),
            penalty: Some(Amounts {
                factor: 1e-4,
                ratio: 4.0,
                spread: 0.25,
            }),
            soft_deadlines: true,
            ..TermsModel::default()
        }
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let inaccuracy = match self.estimates {
            Estimates::Inaccuracy(p) => p,
            Estimates::Trace | Estimates::Exact => 0.0,
        };
        let none = Amounts {
            factor: 0.0,
            ratio: 1.0,
            spread: 0.0,
        };
        let (budget, penalty) = (self.budget.unwrap_or(none), self.penalty.unwrap_or(none));
        let more = f64::MIN_POSITIVE;
        self.deadlines.check()?;
        for (field, value, least, most, expected) in [
            (
                "high_urgency",
                self.high_urgency,
                0.0,
                1.0,
                "a fraction from 0 to 1",
            ),
            ("deadline_factor", self.deadline_factor, more, 1e6, FACTOR),
            ("deadline_ratio", self.deadline_ratio, more, 1e6, FACTOR),
            ("deadline_spread", self.deadline_spread, 0.0, 10.0, SPREAD),
            (
                "infeasible",
                self.infeasible,
                0.0,
                1.0,
                "a part of the jobs from 0 to 1, such as 0.1",
            ),
            (
                "second_of_week",
                self.second_of_week,
                0.0,
                604_800.0,
                "seconds from Monday 0:00, from 0 to 604800",
            ),
            (
                "arrival_delay_factor",
                self.arrival_delay_factor,
                0.0,
                1e6,
                "0 to 1000000",
            ),
            (
                "inaccuracy",
                inaccuracy,
                0.0,
                1000.0,
                "0 to 1000; 1 is the log's",
            ),
            (
                "budget_factor",
                budget.factor,
                0.0,
                1e6,
                "credits per second, 0 to 1000000",
            ),
            ("budget_ratio", budget.ratio, more, 1e6, FACTOR),
            ("budget_spread", budget.spread, 0.0, 10.0, SPREAD),
            ("penalty_factor", penalty.factor, 0.0, 1e6, "0 to 1000000"),
            ("penalty_ratio", penalty.ratio, more, 1e6, FACTOR),
            ("penalty_spread", penalty.spread, 0.0, 10.0, SPREAD),
        ] {
            if !(least..=most).contains(&value) {
                return Err(OutOfRange {
                    field,
                    value,
                    expected,
                });
            }
        }
        Ok(())
    }
}

const FACTOR: &str = "more than 0 and at most 1000000";
const SPREAD: &str = "a part of the mean, from 0 to 10";

/// A random property of a job. The numbers are part of what a seed means.
#[derive(Debug, Clone, Copy)]
enum Property {
    Urgency = 1,
    Deadline = 2,
    Budget = 3,
    Penalty = 4,
    Infeasible = 5,
    InfeasibleDeadline = 6,
}

/// The stream of one property of one job.
fn stream(seed: u64, number: u32, property: Property) -> Pcg64Mcg {
    random::stream(seed, number, property as u32)
}

/// Why no jobs can be made of a log.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// The model.
    #[error("{}", out_of_range(.0))]
    Model(OutOfRange),
    /// A job that cannot ever run here.
    #[error(
        "job {number} asks for {processors} processors and the machine has {machine}; simulate a larger machine, or leave such jobs out with --lenient"
    )]
    TooLarge {
        /// The job's number.
        number: u32,
        /// What it asks for.
        processors: u32,
        /// What there is.
        machine: u32,
    },
    /// No job is left.
    #[error("none of the {0} jobs can be simulated: each one never ran, or was left out")]
    None(usize),
}

/// Jobs, and how many jobs of the log are not among them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Made {
    /// The jobs, in order of submission; the first is submitted at 0.
    pub jobs: Vec<Job>,
    /// Jobs that never ran.
    pub never_ran: usize,
    /// Jobs larger than the machine, with [`Leniency::Lenient`].
    pub too_large: usize,
    /// Jobs that ran, nobody knows on how many processors (fields 5 and 8). The archive's cleaned
    /// logs have one.
    pub no_processors: usize,
}

/// Makes jobs of records, which stand in order of submission: those that ran, with terms drawn
/// from the model. `machine` is the processors there are, where that is known.
///
/// Processors are those asked for, see [`SwfRecord::processors`]. Where the log has no estimate
/// (field 9 ≤ 0) the run time stands in for it.
///
/// # Errors
/// When the model is out of range or no job is left; with [`Leniency::Strict`] also the first job
/// that is larger than the machine.
pub fn jobs(
    records: &[SwfRecord],
    model: &TermsModel,
    seed: u64,
    machine: Option<u32>,
    leniency: Leniency,
) -> Result<Made, Unfit> {
    model.check().map_err(Unfit::Model)?;
    let mut made = Made::default();
    let mut first = None;
    for record in records {
        if !record.ran() {
            made.never_ran += 1;
            continue;
        }
        let number = record.number;
        let processors = match (record.processors(), machine) {
            (Some(processors), Some(machine)) if processors > machine => {
                if leniency == Leniency::Strict {
                    return Err(Unfit::TooLarge {
                        number,
                        processors,
                        machine,
                    });
                }
                made.too_large += 1;
                continue;
            }
            (Some(processors), _) => processors,
            (None, _) => {
                made.no_processors += 1;
                continue;
            }
        };
        let first = *first.get_or_insert(record.submit);
        let submit = (record.submit - first) * model.arrival_delay_factor;
        made.jobs.push(Job {
            number: u64::from(number),
            submit,
            run_time: record.run_time,
            terms: terms(record, submit, model, seed),
            processors,
            memory: if model.memory { memory(record) } else { 0 },
            user: record.user.max(0).unsigned_abs(),
            queue: record.queue,
            logged_wait: record.wait,
            coupled: model.coupled.of(processors),
        });
    }
    if made.jobs.is_empty() {
        return Err(Unfit::None(records.len()));
    }
    Ok(made)
}

/// Bytes for each slot.
fn memory(record: &SwfRecord) -> u64 {
    (record.requested_memory.max(0.0) * 1024.0) as u64
}

/// The terms of one job that ran, which is submitted so many seconds after the first.
fn terms(record: &SwfRecord, submit: f64, model: &TermsModel, seed: u64) -> Terms {
    let run_time = record.run_time;
    let normal =
        |property| -> f64 { StandardNormal.sample(&mut stream(seed, record.number, property)) };
    let urgent = {
        let draw: f64 = stream(seed, record.number, Property::Urgency).random();
        draw < model.high_urgency
    };
    let deadline_mean = model.deadline_factor * if urgent { 1.0 } else { model.deadline_ratio };
    let factor = deadline_mean * (1.0 + model.deadline_spread * normal(Property::Deadline));
    let amount = |amounts: Amounts, property| {
        let mean = amounts.factor * if urgent { amounts.ratio } else { 1.0 };
        (run_time * mean * (1.0 + amounts.spread * normal(property))).clamp(0.0, LARGEST)
    };
    let estimate = estimate(record, model.estimates);
    let infeasible = {
        let draw: f64 = stream(seed, record.number, Property::Infeasible).random();
        draw < model.infeasible
    };
    let deadline = if infeasible {
        let property = Property::InfeasibleDeadline as u32;
        deadlines::draw_infeasible(run_time, seed, record.number, property)
    } else {
        let basis = Basis {
            run_time,
            estimate,
            factor: factor.max(SHORTEST_DEADLINE),
            second_of_week: model.second_of_week + submit,
        };
        let mut stream = stream(seed, record.number, Property::Deadline);
        deadlines::draw(model.deadlines, &basis, &mut stream)
    };
    Terms {
        estimate,
        deadline: deadline.clamp(SHORTEST, LONGEST),
        budget: model
            .budget
            .map_or(f64::INFINITY, |budget| amount(budget, Property::Budget)),
        deadline_type: match model.soft_deadlines && !urgent {
            true => DeadlineType::Soft,
            false => DeadlineType::Hard,
        },
        penalty_rate: model
            .penalty
            .map_or(0.0, |penalty| amount(penalty, Property::Penalty)),
        class: Class::Deadline,
    }
}

const LARGEST: f64 = libra_core::decision::job::LARGEST_AMOUNT;

fn estimate(record: &SwfRecord, estimates: Estimates) -> f64 {
    let run_time = record.run_time;
    let logged = match record.requested_time {
        logged if logged > 0.0 => logged,
        _ => run_time,
    };
    let estimate = match estimates {
        Estimates::Trace => logged,
        Estimates::Exact => run_time,
        Estimates::Inaccuracy(p) => run_time + p * (logged - run_time),
    };
    // More than the log's inaccuracy may take an underestimate below 0.
    estimate.clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
#[path = "terms_tests.rs"]
mod tests;
