//! Statements of the papers, and the tests that they are put to.
//!
//! One rule for all: a statement is tested at a number of points (a comparison of two means at one
//! value of a parameter, or one step of a curve). It holds where it is true at 19 of 20 of them, in
//! part where at more than half, and otherwise not. What the words of a statement are taken to
//! mean as numbers is said beside each test.

use std::fmt;

/// What a test came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// True at 19 of 20 points or more; of fewer than 20, at all.
    Holds,
    /// True at more than half of the points.
    InPart,
    /// True at half of them or less.
    Fails,
}

impl Verdict {
    /// The best first.
    pub const ALL: [Verdict; 3] = [Verdict::Holds, Verdict::InPart, Verdict::Fails];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "in part",
            Verdict::Fails => "does not hold",
        })
    }
}

/// A statement of a paper under one reading of what the paper leaves open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What the test came to.
    pub verdict: Verdict,
    /// The numbers behind it.
    pub evidence: String,
}

/// A statement of a paper and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Where it stands: section and figures.
    pub place: &'static str,
    /// What it says, in short.
    pub text: &'static str,
    /// One for each reading, in their order.
    pub findings: Vec<Finding>,
}

/// Points at which something was tested, and the numbers to be told of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tested {
    held: usize,
    of: usize,
    words: Vec<String>,
}

impl Tested {
    /// One point.
    pub fn point(holds: bool, words: String) -> Tested {
        Tested {
            held: usize::from(holds),
            of: 1,
            words: vec![words],
        }
    }

    /// Returns true if the first is more than the second by an amount that is `wanted`. A point for each pair.
    pub fn differences(
        what: &str,
        pairs: impl IntoIterator<Item = (f64, f64)>,
        wanted: impl Fn(f64) -> bool,
    ) -> Tested {
        let differences: Vec<f64> = pairs.into_iter().map(|(a, b)| a - b).collect();
        let held = differences.iter().filter(|&&d| wanted(d)).count();
        let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
        let most = differences
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let mean = mean(&differences);
        Tested {
            held,
            of: differences.len(),
            words: vec![match differences.len() {
                0 => format!("{what}: nothing to compare"),
                1 => format!("{what} {mean:+.1}"),
                _ => format!("{what} {least:+.1} to {most:+.1}, mean {mean:+.1}"),
            }],
        }
    }

    /// Tells whether a curve rises (or falls). A point for each step: it may go the other way by no more than
    /// `noise`, in the unit of the values. No step counts where the whole curve does not go that
    /// way.
    pub fn trend(what: &str, values: &[f64], direction: Direction, noise: f64) -> Tested {
        let sign = match direction {
            Direction::Rises => 1.0,
            Direction::Falls => -1.0,
        };
        let steps = || values.windows(2).map(|pair| (pair[1] - pair[0]) * sign);
        let whole = match values {
            [first, .., last] => (last - first) * sign,
            _ => 0.0,
        };
        let held = steps().filter(|step| *step >= -noise).count();
        Tested {
            held: if whole > 0.0 { held } else { 0 },
            of: steps().count(),
            words: vec![match values {
                [first, .., last] => format!("{what} {} → {}", short(*first), short(*last)),
                _ => format!("{what}: nothing to compare"),
            }],
        }
    }

    /// Both: their points together.
    pub fn and(mut self, other: Tested) -> Tested {
        self.held += other.held;
        self.of += other.of;
        self.words.extend(other.words);
        self
    }

    /// What it came to.
    pub fn finding(self) -> Finding {
        let verdict = match self {
            Tested { held, of, .. } if of > 0 && held * 20 >= of * 19 => Verdict::Holds,
            Tested { held, of, .. } if held * 2 > of => Verdict::InPart,
            _ => Verdict::Fails,
        };
        let Tested { held, of, words } = self;
        let words = words.join("; ");
        let evidence = match of {
            1 => words,
            _ => format!("{held} of {of} points: {words}"),
        };
        Finding { verdict, evidence }
    }
}

impl FromIterator<Tested> for Tested {
    fn from_iter<T: IntoIterator<Item = Tested>>(all: T) -> Tested {
        all.into_iter().fold(Tested::default(), Tested::and)
    }
}

/// Which way a curve goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Upwards.
    Rises,
    /// Downwards.
    Falls,
}

/// The mean; no number where there is nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A number with as many digits as it takes.
fn short(value: f64) -> String {
    if value.abs() < 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_count_points() {
        let tested = |held, of| {
            let point = |index| Tested::point(index < held, String::new());
            (0..of).map(point).collect::<Tested>().finding().verdict
        };
        assert_eq!(tested(3, 3), Verdict::Holds);
        assert_eq!(tested(19, 20), Verdict::Holds);
        assert_eq!(tested(18, 19), Verdict::InPart);
        assert_eq!(tested(2, 3), Verdict::InPart);
        assert_eq!(tested(2, 4), Verdict::Fails);
        assert_eq!(
            tested(0, 0),
            Verdict::Fails,
            "nothing tested, nothing shown"
        );
    }

    #[test]
    fn differences_and_their_numbers() {
        let pairs = [(3.0, 1.0), (5.0, 1.0), (1.0, 1.0)];
        let finding = Tested::differences("A − B", pairs, |d| d > 0.0).finding();
        assert_eq!(finding.verdict, Verdict::InPart);
        assert_eq!(
            finding.evidence,
            "2 of 3 points: A − B +0.0 to +4.0, mean +2.0"
        );
    }

    #[test]
    fn a_trend_may_waver_a_little() {
        let rises = |values: &[f64], noise| {
            Tested::trend("x", values, Direction::Rises, noise)
                .finding()
                .verdict
        };
        assert_eq!(rises(&[1.0, 2.0, 1.9, 3.0], 0.2), Verdict::Holds);
        assert_eq!(rises(&[1.0, 2.0, 1.9, 3.0], 0.0), Verdict::InPart);
        // Two of three steps rise, but the whole does not.
        assert_eq!(rises(&[1.0, 2.0, 3.0, 0.9], 0.2), Verdict::Fails);
        let falls = Tested::trend("x", &[3.0, 11.0, 2.0], Direction::Falls, 0.0).finding();
        assert_eq!(falls.verdict, Verdict::Fails, "one step of two");
        assert_eq!(falls.evidence, "1 of 2 points: x 3.00 → 2.00");
    }
}
