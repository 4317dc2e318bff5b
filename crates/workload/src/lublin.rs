//! The workload model of Lublin and Feitelson (The workload on parallel supercomputers: modeling
//! the characteristics of rigid jobs, J. Parallel and Distributed Computing 63(11), 2003), with the
//! constants that the authors published with it.
//!
//! Two types of jobs, interactive and batch, each with constants of its own.
//! - Size: one processor with some probability, otherwise 2 to a power that is uniform in two
//!   stages; that power is rounded with some probability, which makes sizes that are powers of two.
//! - Run time: its natural logarithm is one of two gamma variables; the larger the job, the more
//!   often it is the one for long jobs.
//! - Arrivals: the logarithm of the time between two submissions in busy hours is a gamma
//!   variable. That time is stretched by the daily cycle: each half hour of the day takes its
//!   part of a day's submissions, as the density of another gamma variable says.
//!
//! The second parameter of every gamma variable is a scale: its mean is the product of the two.
//! The constants are those of machines of 128 processors; for others the powers move with the
//! logarithm of the machine's size, as the authors advise.
//!
//! Invariants: every size is from 1 to the machine's, every run time at least a second; what is
//! drawn depends on the stream alone.

use rand::RngExt;
use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64Mcg;

/// Logarithm of the longest run time, about 45 hours.
pub const LONGEST_RUN_TIME: f64 = 12.0;
/// Logarithm of the longest time between two submissions in busy hours, about 5 days.
const LONGEST_GAP: f64 = 13.0;
/// The model's day has half hours.
const SLICES: usize = 48;
/// Seconds in one of them.
const SLICE: f64 = 1800.0;
/// The half hour in which the model's day starts and ends: 5 o'clock, when least is submitted.
const FIRST_SLICE: usize = 11;
/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// The two types of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody waits for it.
    Interactive,
    /// Nobody does.
    Batch,
}

/// A gamma variable: its shape, and its scale.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shape(f64, f64);

/// The constants of one type.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Constants {
    /// Probability of a job of one processor.
    serial: f64,
    /// Probability of a parallel job whose size is made a power of two.
    power_of_two: f64,
    /// Least logarithm (to base 2) of the size of a parallel job.
    low: f64,
    /// Where the first stage ends: below the largest logarithm.
    middle_below_high: f64,
    /// The largest logarithm: below that of the machine.
    high_below_machine: f64,
    /// Probability of the first stage.
    first_stage: f64,
    /// Short run times.
    short: Shape,
    /// Long run times.
    long: Shape,
    /// Probability of a short run time: this times the size, and so much.
    short_by_size: (f64, f64),
    /// Time between submissions in busy hours.
    gap: Shape,
    /// Submissions over the half hours of the day.
    day: Shape,
}

impl Kind {
    fn constants(self) -> Constants {
        match self {
            Kind::Interactive => Constants {
                serial: 0.1541,
                power_of_two: 0.625,
                low: 1.0,
                middle_below_high: 2.5,
                high_below_machine: 1.5,
                first_stage: 0.705,
                short: Shape(3.8351, 0.6605),
                long: Shape(7.073, 0.6856),
                short_by_size: (-0.0118, 0.9156),
                // The authors' correction from busy hours to all: a factor on the shape.
                gap: Shape(6.5510 * 0.9797, 0.6621),
                day: Shape(8.9186, 3.6680),
            },
            Kind::Batch => Constants {
                serial: 0.2927,
                power_of_two: 0.6686,
                low: 1.2,
                middle_below_high: 2.0,
                high_below_machine: 0.0,
                first_stage: 0.875,
                short: Shape(6.57, 0.823),
                long: Shape(639.1, 0.0156),
                short_by_size: (-0.003, 0.6986),
                gap: Shape(6.0415 * 1.0519, 0.8531),
                day: Shape(6.1271, 5.2740),
            },
        }
    }
}

/// A gamma variable, drawn anew until it is at most `most`.
#[derive(Debug, Clone, Copy)]
struct Bounded {
    gamma: Option<Gamma<f64>>,
    most: f64,
}

impl Bounded {
    fn new(Shape(shape, scale): Shape, most: f64) -> Bounded {
        Bounded {
            // The constants above are positive: there is always one.
            gamma: Gamma::new(shape, scale).ok(),
            most,
        }
    }

    fn draw(&self, random: &mut Pcg64Mcg) -> f64 {
        let Some(gamma) = self.gamma else { return 0.0 };
        loop {
            let value = gamma.sample(random);
            if value <= self.most {
                return value;
            }
        }
    }
}

/// How many processors jobs ask for.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    constants: Constants,
    machine: u32,
    low: f64,
    middle: f64,
    high: f64,
}

impl Sizes {
    /// The sizes of one type of jobs on a machine of so many processors, ≥ 1.
    pub fn new(kind: Kind, machine: u32) -> Sizes {
        let constants = kind.constants();
        // The smallest parallel job has two processors; on a small machine the stages close up.
        let high = (f64::from(machine).log2() - constants.high_below_machine).max(1.0);
        let low = constants.low.min(high);
        Sizes {
            constants,
            machine,
            low,
            middle: (high - constants.middle_below_high).max(low),
            high,
        }
    }

    /// Draws one, from 1 to the machine's size.
    pub fn draw(&self, random: &mut Pcg64Mcg) -> u32 {
        let class: f64 = random.random();
        let stage: f64 = random.random();
        let place: f64 = random.random();
        if self.machine < 2 || class < self.constants.serial {
            return 1;
        }
        let (from, to) = match stage < self.constants.first_stage {
            true => (self.low, self.middle),
            false => (self.middle, self.high),
        };
        let power = from + place * (to - from);
        if class < self.constants.serial + self.constants.power_of_two {
            return 1 << (power.round() as u32).min(self.machine.ilog2());
        }
        (power.exp2().round() as u32).clamp(1, self.machine)
    }
}

/// How long jobs run.
#[derive(Debug, Clone, Copy)]
pub struct RunTimes {
    constants: Constants,
    short: Bounded,
    long: Bounded,
}

impl RunTimes {
    /// The run times of one type of jobs.
    pub fn new(kind: Kind) -> RunTimes {
        let constants = kind.constants();
        RunTimes {
            constants,
            short: Bounded::new(constants.short, f64::INFINITY),
            long: Bounded::new(constants.long, f64::INFINITY),
        }
    }

    /// The probability that a job of this size has a short run time.
    pub fn short_probability(&self, size: u32) -> f64 {
        let (slope, start) = self.constants.short_by_size;
        (slope * f64::from(size) + start).clamp(0.0, 1.0)
    }

    /// Draws one for a job of this size: whole seconds, from 1 to about 45 hours.
    pub fn draw(&self, size: u32, random: &mut Pcg64Mcg) -> u32 {
        let short = self.short_probability(size);
        loop {
            // What is too long is drawn anew as a whole, as the authors do it.
            let which: f64 = random.random();
            let logarithm = match which < short {
                true => self.short.draw(random),
                false => self.long.draw(random),
            };
            if logarithm <= LONGEST_RUN_TIME {
                return logarithm.exp() as u32;
            }
        }
    }
}

/// The daily cycle: how many submissions, in parts of a half hour's mean, there are between
/// midnight and each half hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Day {
    sums: [f64; SLICES + 1],
}

impl Day {
    /// The cycle of one type of jobs.
    pub fn new(kind: Kind) -> Day {
        let Shape(shape, scale) = kind.constants().day;
        // Up to a factor, which goes away with the mean.
        let density = |x: f64| ((shape - 1.0) * x.ln() - x / scale).exp();
        let mut parts = [0.0; SLICES];
        for place in FIRST_SLICE..FIRST_SLICE + SLICES {
            // The authors count half hours from 1. Simpson's rule, with steps of 1/16.
            let from = place as f64 - 0.5;
            let sum: f64 = (0..16)
                .map(|step| {
                    let x = from + f64::from(step) / 16.0;
                    density(x) + 4.0 * density(x + 1.0 / 32.0) + density(x + 1.0 / 16.0)
                })
                .sum();
            parts[(place - 1) % SLICES] = sum;
        }
        let mean = parts.iter().sum::<f64>() / SLICES as f64;
        let mut sums = [0.0; SLICES + 1];
        for (index, part) in parts.iter().enumerate() {
            sums[index + 1] = sums[index] + part / mean;
        }
        sums[SLICES] = SLICES as f64;
        Day { sums }
    }

    /// When, in seconds after the first midnight, so many seconds of mean activity have passed.
    pub fn time(&self, activity: f64) -> f64 {
        let days = (activity / DAY).floor();
        let points = ((activity - days * DAY) / SLICE).clamp(0.0, SLICES as f64);
        let slice = self.sums[1..SLICES].partition_point(|sum| *sum <= points);
        let part = self.sums[slice + 1] - self.sums[slice];
        let within = ((points - self.sums[slice]) / part).clamp(0.0, 1.0);
        days * DAY + (slice as f64 + within) * SLICE
    }
}

/// The submissions of one type of jobs, in seconds of mean activity: [`Day::time`] says when that
/// is.
#[derive(Debug, Clone)]
pub struct Arrivals {
    gap: Bounded,
    activity: f64,
}

impl Arrivals {
    /// From midnight on.
    pub fn new(kind: Kind) -> Arrivals {
        Arrivals {
            gap: Bounded::new(kind.constants().gap, LONGEST_GAP),
            activity: 0.0,
        }
    }

    /// Draws the next one.
    pub fn draw(&mut self, random: &mut Pcg64Mcg) -> f64 {
        self.activity += self.gap.draw(random).exp();
        self.activity
    }
}

#[cfg(test)]
#[path = "lublin_tests.rs"]
mod tests;
