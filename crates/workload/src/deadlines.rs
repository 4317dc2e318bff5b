//! What deadlines are drawn from: no log has any, and what users would ask for nobody knows.
//!
//! The papers take a multiple of the true run time, which no user knows: such a deadline tells a policy
//! something about the run time that its estimate does not. The other models go by what a user does
//! know: the estimate, and the clock.

use super::random;
use libra_core::decision::job::{LONGEST, OutOfRange};
use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use std::fmt;
use std::str::FromStr;

/// A model of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum DeadlineModel {
    /// A multiple of the true run time, as in the papers.
    #[default]
    Run,
    /// A multiple of the estimate.
    Estimate,
    /// The estimate and a time of exponential length with this mean, in seconds ≥ 0.
    Slack(f64),
    /// The next of one of these clock times that leaves time for the estimate; which of them, each job
    /// draws.
    Clock(ClockTimes),
}

impl DeadlineModel {
    /// All names.
    pub const NAMES: &str = "run, estimate, slack, clock";

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DeadlineModel::Run => "run",
            DeadlineModel::Estimate => "estimate",
            DeadlineModel::Slack(_) => "slack",
            DeadlineModel::Clock(_) => "clock",
        }
    }

    /// Returns true if deadlines are multiples, which have a factor, a ratio and a spread.
    pub fn is_multiple(self) -> bool {
        matches!(self, DeadlineModel::Run | DeadlineModel::Estimate)
    }

    /// Checks its values.
    ///
    /// # Errors
    /// A slack that is no time.
    pub fn check(&self) -> Result<(), OutOfRange> {
        match *self {
            DeadlineModel::Slack(mean) if !(0.0..=LONGEST).contains(&mean) => Err(OutOfRange {
                field: "slack",
                value: mean,
                expected: "seconds from 0 to 10000000000, such as 28800",
            }),
            _ => Ok(()),
        }
    }
}

/// What a deadline is drawn for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Basis {
    /// True run time, seconds.
    pub run_time: f64,
    /// Seconds.
    pub estimate: f64,
    /// Deadline / run time or estimate, for those that are multiples.
    pub factor: f64,
    /// Second of the week, from Monday 0:00, in which the job is submitted.
    pub second_of_week: f64,
}

/// Seconds from the submission to the deadline, by a stream of the job's own.
pub(crate) fn draw(model: DeadlineModel, basis: &Basis, stream: &mut Pcg64Mcg) -> f64 {
    let Basis {
        run_time,
        estimate,
        factor,
        second_of_week,
    } = *basis;
    match model {
        DeadlineModel::Run => run_time * factor,
        DeadlineModel::Estimate => estimate * factor,
        DeadlineModel::Slack(mean) => {
            let length: f64 = Exp1.sample(stream);
            estimate + mean * length
        }
        DeadlineModel::Clock(times) => {
            let times = times.list();
            let time = times[stream.random_range(0..times.len())];
            let left = time.seconds_from(second_of_week + estimate);
            estimate + left
        }
    }
}

/// The deadline of an infeasible job: from half of its run time up to all of it, and never that.
pub(crate) fn draw_infeasible(run_time: f64, seed: u64, number: u32, property: u32) -> f64 {
    let part: f64 = random::stream(seed, number, property).random();
    run_time * (0.5 + 0.5 * part)
}

const DAY: f64 = 86_400.0;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A time of each day, or of one day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockTime {
    /// From 0, which is Monday; None: each day.
    day: Option<u8>,
    /// Minute of the day, 0 to 1439.
    minute: u16,
}

impl ClockTime {
    /// Seconds from a second of the week (any number of weeks later as well) to its next occurrence.
    fn seconds_from(self, second_of_week: f64) -> f64 {
        let at = f64::from(self.minute) * 60.0;
        match self.day {
            None => (at - second_of_week).rem_euclid(DAY),
            Some(day) => (f64::from(day) * DAY + at - second_of_week).rem_euclid(7.0 * DAY),
        }
    }
}

impl fmt::Display for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(day) = self.day {
            write!(f, "{}-", DAYS[usize::from(day) % DAYS.len()])?;
        }
        write!(f, "{}:{:02}", self.minute / 60, self.minute % 60)
    }
}

impl FromStr for ClockTime {
    type Err = String;

    /// Reads `18:00` or `mon-8:00`.
    fn from_str(text: &str) -> Result<ClockTime, String> {
        let text = text.trim();
        let wrong = || {
            format!(
                "'{}' is no clock time, expected H:MM from 0:00 to 23:59, of one day of the week as {}-H:MM (18:00, mon-8:00)",
                text.chars().take(32).collect::<String>(),
                DAYS.join("|")
            )
        };
        let (day, time) = match text.split_once('-') {
            Some((day, time)) => {
                let day = day.trim().to_ascii_lowercase();
                let place = DAYS.iter().position(|name| *name == day);
                (Some(place.ok_or_else(wrong)? as u8), time)
            }
            None => (None, text),
        };
        let (hour, minute) = time.trim().split_once(':').ok_or_else(wrong)?;
        let number = |text: &str, digits: std::ops::RangeInclusive<usize>, most: u16| {
            let plain = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            let value = text.parse::<u16>().ok();
            value.filter(|value| plain && *value <= most)
        };
        let hour = number(hour, 1..=2, 23).ok_or_else(wrong)?;
        let minute = number(minute, 2..=2, 59).ok_or_else(wrong)?;
        Ok(ClockTime {
            day,
            minute: hour * 60 + minute,
        })
    }
}

/// From one to [`ClockTimes::MOST`] clock times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockTimes {
    times: [ClockTime; ClockTimes::MOST],
    count: u8,
}

impl ClockTimes {
    /// Most of them.
    pub const MOST: usize = 8;

    /// The times, at least one.
    pub fn list(&self) -> &[ClockTime] {
        &self.times[..usize::from(self.count).clamp(1, ClockTimes::MOST)]
    }
}

impl Default for ClockTimes {
    /// By the evening, by the morning, by Monday morning.
    fn default() -> ClockTimes {
        let at = |day, hour: u16| ClockTime {
            day,
            minute: hour * 60,
        };
        let mut times = [at(None, 18); ClockTimes::MOST];
        times[1] = at(None, 8);
        times[2] = at(Some(0), 8);
        ClockTimes { times, count: 3 }
    }
}

impl fmt::Display for ClockTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, time) in self.list().iter().enumerate() {
            let separator = if place == 0 { "" } else { "," };
            write!(f, "{separator}{time}")?;
        }
        Ok(())
    }
}

impl FromStr for ClockTimes {
    type Err = String;

    /// Reads `18:00,8:00,mon-8:00`.
    fn from_str(text: &str) -> Result<ClockTimes, String> {
        let mut all = ClockTimes::default();
        let mut count = 0;
        for part in text.split(',') {
            if count == ClockTimes::MOST {
                return Err(format!("more than {} clock times", ClockTimes::MOST));
            }
            all.times[count] = part.parse()?;
            count += 1;
        }
        all.count = count as u8;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: f64 = 3600.0;

    #[test]
    fn the_next_clock_time_leaves_time_for_the_estimate() {
        let time = |text: &str| -> ClockTime { text.parse().expect(text) };
        // Tuesday 15:00; with 2 h it is 17:00, with 4 h 19:00.
        let tuesday = DAY + 15.0 * HOUR;
        for (text, estimate, hours) in [
            ("18:00", 2.0, 3.0),
            ("18:00", 3.0, 3.0),
            ("18:00", 4.0, 27.0),
            ("8:00", 2.0, 17.0),
            ("mon-8:00", 2.0, 6.0 * 24.0 - 7.0),
            ("tue-15:00", 0.0, 0.0),
            ("tue-15:00", 1.0, 7.0 * 24.0),
            ("SUN-23:59", 0.0, 5.0 * 24.0 + 9.0 - 1.0 / 60.0),
        ] {
            let mut times = ClockTimes::default();
            times.times[0] = time(text);
            times.count = 1;
            let basis = Basis {
                run_time: 1.0,
                estimate: estimate * HOUR,
                factor: 2.0,
                second_of_week: tuesday,
            };
            let mut stream = random::stream(1, 1, 1);
            let deadline = draw(DeadlineModel::Clock(times), &basis, &mut stream);
            assert!((deadline - hours * HOUR).abs() < 1e-6, "{text}: {deadline}");
            // Weeks later, the same.
            let later = time(text).seconds_from(tuesday + 70.0 * DAY + estimate * HOUR);
            assert!((estimate * HOUR + later - hours * HOUR).abs() < 1e-6);
        }
    }

    #[test]
    fn the_ways_to_write_clock_times() {
        for (text, shown) in [
            ("18:00", "18:00"),
            (" 8:05 , Mon-08:00", "8:05,mon-8:00"),
            ("0:00,23:59", "0:00,23:59"),
        ] {
            let times: ClockTimes = text.parse().expect(text);
            assert_eq!(times.to_string(), shown);
        }
        assert_eq!(ClockTimes::default().to_string(), "18:00,8:00,mon-8:00");
        for text in [
            "", "18", "24:00", "8:60", "8:5", "x-8:00", "-8:00", "8:00,", "+8:00", "8:00 pm",
            "monday",
        ] {
            let error = text.parse::<ClockTimes>().expect_err(text);
            assert!(error.contains("expected H:MM from 0:00"), "{text}: {error}");
        }
        let error = "1:00,".repeat(9);
        let error = error.trim_end_matches(',').parse::<ClockTimes>();
        assert_eq!(error, Err("more than 8 clock times".to_string()));
    }

    #[test]
    fn a_slack_that_is_no_time_is_refused() {
        for (slack, fine) in [
            (0.0, true),
            (28_800.0, true),
            (-1.0, false),
            (f64::NAN, false),
        ] {
            assert_eq!(DeadlineModel::Slack(slack).check().is_ok(), fine, "{slack}");
        }
    }
}
