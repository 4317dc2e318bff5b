//! What the plots need of one run, in memory that does not grow with the number of jobs: the load
//! over time, each promise against its outcome, the distribution of slowdowns, the hours of the day.

use super::measures::{capacity, work};
use super::{Fate, Machine, Observer, Outcome};

/// Bins of a [`Timeline`] at most.
pub const MOST_BINS: usize = 400;
/// Cells of a [`PromiseGrid`] for each power of ten.
pub const CELLS_PER_DECADE: usize = 8;
/// Powers of ten in a [`PromiseGrid`]: from 1 s to 100,000,000 s (three years).
pub const DECADES: usize = 8;
/// Steps of a [`Slowdowns`] for each power of ten.
pub const STEPS_PER_DECADE: usize = 40;

const CELLS: usize = CELLS_PER_DECADE * DECADES;
/// Up to a slowdown of a million.
const STEPS: usize = STEPS_PER_DECADE * 6;

/// An amount spread over time, in bins of equal width that doubles when time outgrows them.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    width: f64,
    bins: Vec<f64>,
    end: f64,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            width: 1.0,
            bins: Vec::new(),
            end: 0.0,
        }
    }
}

impl Timeline {
    /// Spreads `amount` evenly from `start` to `finish`, seconds ≥ 0. What is no such time is
    /// left out.
    pub fn spread(&mut self, start: f64, finish: f64, amount: f64) {
        if !(start >= 0.0 && finish >= start && finish.is_finite()) {
            return;
        }
        self.reach(finish);
        let (first, last) = (self.bin(start), self.bin(finish));
        let rate = amount / (finish - start);
        if first == last || !rate.is_finite() {
            self.bins[first] += amount;
            return;
        }
        self.bins[first] += rate * ((first + 1) as f64 * self.width - start);
        for bin in &mut self.bins[first + 1..last] {
            *bin += rate * self.width;
        }
        self.bins[last] += rate * (finish - last as f64 * self.width);
    }

    /// Width of a bin in seconds.
    pub fn width(&self) -> f64 {
        self.width
    }

    /// Start, end and amount of each bin; the last one ends where the last amount did.
    pub fn bins(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let bins = self.bins.iter().enumerate();
        bins.map(|(index, &amount)| {
            let start = index as f64 * self.width;
            (start, (start + self.width).min(self.end), amount)
        })
    }

    fn bin(&self, time: f64) -> usize {
        // The very end of the last bin belongs to it.
        ((time / self.width) as usize).min(self.bins.len().saturating_sub(1))
    }

    /// Makes bins up to this time.
    fn reach(&mut self, time: f64) {
        self.end = self.end.max(time);
        while time > self.width * MOST_BINS as f64 {
            self.width *= 2.0;
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let needed = ((time / self.width).ceil() as usize).clamp(1, MOST_BINS);
        if self.bins.len() < needed {
            self.bins.resize(needed, 0.0);
        }
    }
}

/// How many jobs were promised an end within so long, and ended after so long: both counted from
/// submission, in cells of equal ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct PromiseGrid {
    met: Vec<u32>,
    late: Vec<u32>,
}

impl Default for PromiseGrid {
    fn default() -> PromiseGrid {
        PromiseGrid {
            met: vec![0; CELLS * CELLS],
            late: vec![0; CELLS * CELLS],
        }
    }
}

/// One cell of a [`PromiseGrid`] that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Column: the deadline is from 10^(promise / [`CELLS_PER_DECADE`]) seconds up to the next.
    pub promise: usize,
    /// Row: the same of the response time.
    pub outcome: usize,
    /// Jobs that met their deadline.
    pub met: u32,
    /// Jobs that did not.
    pub late: u32,
}

impl PromiseGrid {
    /// Counts a job with this deadline and response time, in seconds. Times outside the grid are
    /// counted at its edge.
    pub fn add(&mut self, deadline: f64, response: f64, met: bool) {
        let counts = if met { &mut self.met } else { &mut self.late };
        let count = &mut counts[cell(deadline) * CELLS + cell(response)];
        *count = count.saturating_add(1);
    }

    /// The cells that are not empty, column by column.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let counts = self.met.iter().zip(&self.late).enumerate();
        let filled = counts.filter(|(_, (met, late))| **met + **late > 0);
        filled.map(|(index, (&met, &late))| Cell {
            promise: index / CELLS,
            outcome: index % CELLS,
            met,
            late,
        })
    }
}

fn cell(seconds: f64) -> usize {
    // A conversion of a negative number or of none gives 0.
    ((seconds.log10() * CELLS_PER_DECADE as f64) as usize).min(CELLS - 1)
}

/// How many of the fulfilled jobs had which slowdown.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowdowns {
    none: u64,
    steps: Vec<u64>,
}

impl Default for Slowdowns {
    fn default() -> Slowdowns {
        Slowdowns {
            none: 0,
            steps: vec![0; STEPS],
        }
    }
}

impl Slowdowns {
    /// Counts a job. A slowdown of 1 or less is none at all.
    pub fn add(&mut self, slowdown: f64) {
        if slowdown <= 1.0 + 1e-6 {
            self.none += 1;
            return;
        }
        let step = (slowdown.log10() * STEPS_PER_DECADE as f64) as usize;
        self.steps[step.min(STEPS - 1)] += 1;
    }

    /// Slowdowns, from 1 up, and how many jobs had at most that; it ends where all jobs are counted.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let used = self.steps.iter().rposition(|&jobs| jobs > 0);
        let used = used.map_or(0, |last| last + 1);
        let steps = self.steps[..used].iter().enumerate();
        let sums = steps.scan(self.none, |jobs, (step, more)| {
            *jobs += more;
            let upper = 10f64.powf((step + 1) as f64 / STEPS_PER_DECADE as f64);
            Some((upper, *jobs))
        });
        std::iter::once((1.0, self.none)).chain(sums)
    }
}

/// The jobs submitted in one hour of the day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hour {
    /// All of them.
    pub submitted: u64,
    /// Those that ran.
    pub accepted: u64,
    /// Those that ended by their deadline.
    pub fulfilled: u64,
}

/// Collects what the plots need of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Processor seconds as they were worked; where that is not told, those of each job spread evenly from its
    /// start to its end.
    pub work: Timeline,
    /// Deadlines against response times of the jobs that ran.
    pub promises: PromiseGrid,
    /// Slowdowns of the fulfilled jobs.
    pub slowdowns: Slowdowns,
    /// By hour of the day of submission, from midnight.
    pub hours: [Hour; 24],
    /// What the machine does in a second, in processor seconds of reference nodes.
    pub capacity: f64,
    midnight: f64,
    work_is_told: bool,
}

impl Series {
    /// Of a run on this machine. `time_of_day` is that of the simulation's second 0, in seconds
    /// since midnight where the log was written. `work_is_told`: see [`crate::Scheduler::tells_work`].
    pub fn new(machine: &Machine, time_of_day: f64, work_is_told: bool) -> Series {
        Series {
            work: Timeline::default(),
            promises: PromiseGrid::default(),
            slowdowns: Slowdowns::default(),
            hours: [Hour::default(); 24],
            capacity: capacity(machine),
            midnight: time_of_day,
            work_is_told,
        }
    }

    /// Start, end (seconds of the simulation) and utilisation (0 to 1) of each bin of time.
    pub fn utilisation(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        self.work.bins().map(|(start, end, work)| {
            let could_do = self.capacity * (end - start);
            let part = if could_do > 0.0 { work / could_do } else { 0.0 };
            (start, end, part)
        })
    }
}

impl Observer for Series {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        let job = outcome.job;
        let hour = (self.midnight + job.submit).div_euclid(3600.0) as i64;
        let hour = &mut self.hours[hour.rem_euclid(24) as usize];
        hour.submitted += 1;
        let Fate::Ended { start, finish, .. } = outcome.fate else {
            return;
        };
        hour.accepted += 1;
        if !self.work_is_told {
            self.work.spread(start, finish, work(outcome));
        }
        let (response, met) = (finish - job.submit, outcome.met());
        self.promises.add(job.terms.deadline, response, met);
        if met {
            hour.fulfilled += 1;
            self.slowdowns.add(response / job.run_time);
        }
    }

    fn worked(&mut self, from: f64, to: f64, work: f64) {
        if self.work_is_told {
            self.work.spread(from, to, work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, job, refused};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_amount_is_spread_evenly_and_survives_wider_bins() {
        let mut timeline = Timeline::default();
        // 3 a second for 2.5 s: from the middle of the first bin to the end of the third.
        timeline.spread(0.5, 3.0, 7.5);
        let bins: Vec<_> = timeline.bins().collect();
        assert_eq!(bins, [(0.0, 1.0, 1.5), (1.0, 2.0, 3.0), (2.0, 3.0, 3.0)]);
        // 1000 s need bins of 4 s: the first holds everything so far.
        timeline.spread(999.0, 1000.0, 1.0);
        assert_eq!(timeline.width(), 4.0);
        let bins: Vec<_> = timeline.bins().collect();
        assert_eq!(bins.len(), 250);
        assert_eq!(bins[0], (0.0, 4.0, 7.5));
        assert_eq!(bins[249], (996.0, 1000.0, 1.0));
    }

    #[test]
    fn odd_times_are_left_out_and_instants_counted() {
        let mut timeline = Timeline::default();
        for (start, finish) in [(-1.0, 1.0), (2.0, 1.0), (0.0, f64::INFINITY)] {
            timeline.spread(start, finish, 1.0);
        }
        timeline.spread(f64::NAN, 1.0, 1.0);
        assert_eq!(timeline.bins().count(), 0);
        timeline.spread(2.0, 2.0, 5.0);
        assert_eq!(timeline.bins().map(|bin| bin.2).sum::<f64>(), 5.0);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_whatever_comes(
            jobs in prop::collection::vec((0.0..1e8f64, 0.0..1e7f64, 0.0..1e6f64), 1..60)
        ) {
            let mut timeline = Timeline::default();
            for &(start, length, amount) in &jobs {
                timeline.spread(start, start + length, amount);
            }
            let spread: f64 = timeline.bins().map(|bin| bin.2).sum();
            let given: f64 = jobs.iter().map(|job| job.2).sum();
            prop_assert!((spread - given).abs() <= 1e-9 * given, "{} of {}", spread, given);
            prop_assert!(timeline.bins().count() <= MOST_BINS);
            let end = timeline.bins().last().map_or(0.0, |bin| bin.1);
            let last = jobs.iter().map(|job| job.0 + job.1).fold(0.0, f64::max);
            prop_assert!((end - last).abs() <= 1e-9 * last.max(1.0));
        }
    }

    #[test]
    fn promises_fall_into_cells_of_equal_ratio() {
        let mut grid = PromiseGrid::default();
        // 10^(16/8) = 100 s and 10^(8/8) = 10 s begin their cells; the rest is beyond the edges.
        grid.add(100.0, 10.0, true);
        grid.add(101.0, 11.0, true);
        grid.add(0.0, 1e300, false);
        let cells: Vec<Cell> = grid.cells().collect();
        let cell = |promise, outcome, met, late| Cell {
            promise,
            outcome,
            met,
            late,
        };
        assert_eq!(cells, [cell(0, 63, 0, 1), cell(16, 8, 2, 0)]);
    }

    #[test]
    fn slowdowns_add_up() {
        let mut slowdowns = Slowdowns::default();
        for slowdown in [1.0, 1.0 + 1e-9, 1.05, 1.07, 1e9] {
            slowdowns.add(slowdown);
        }
        let all: Vec<(f64, u64)> = slowdowns.cumulative().collect();
        assert_eq!(all[0], (1.0, 2));
        // 1.05 and 1.07 are below 10^(1/40) = 1.059 and 10^(2/40) = 1.122.
        assert_eq!((all[1].1, all[2].1), (3, 4));
        let last = all[all.len() - 1];
        assert_eq!(last.1, 5);
        assert!((last.0 / 1e6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn work_that_is_told_counts_as_it_was_done() {
        // The job runs for 100 s, and works in the first 10 of them.
        let mut series = Series::new(&Machine::uniform(1, 1), 0.0, true);
        series.worked(0.0, 10.0, 10.0);
        series.outcome(&ended(&job(0.0, 10.0, 100.0), 0.0, 100.0));
        let bins: Vec<_> = series.utilisation().collect();
        assert_eq!((bins.len(), bins[0]), (10, (0.0, 1.0, 1.0)));
    }

    #[test]
    fn hours_are_those_of_the_log() {
        // Second 0 is at 23:30, so second 1800 at midnight.
        let mut series = Series::new(&Machine::uniform(1, 2), 23.5 * 3600.0, false);
        let jobs = [
            job(0.0, 10.0, 20.0),
            job(1800.0, 10.0, 20.0),
            job(1801.0, 10.0, 20.0),
        ];
        series.outcome(&ended(&jobs[0], 0.0, 10.0));
        series.outcome(&ended(&jobs[1], 1800.0, 1900.0));
        series.outcome(&refused(&jobs[2], "share"));
        let hour = |submitted, accepted, fulfilled| Hour {
            submitted,
            accepted,
            fulfilled,
        };
        assert_eq!(series.hours[23], hour(1, 1, 1));
        assert_eq!(series.hours[0], hour(2, 1, 0));
        // 20 processor seconds of two processors.
        let parts: f64 = series.utilisation().map(|(a, b, u)| u * (b - a)).sum();
        assert!((parts - 20.0 / 2.0).abs() < 1e-9, "{parts}");
    }
}
