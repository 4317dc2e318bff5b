//! Values with units, as they stand in the configuration. Each refuses what is out of its range
//! while it is read, so that the error has the line.

use libra_units::{cut, duration, memory};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// What TOML may hold where we expect a number or a text.
enum Written {
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = Written;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text in quotes")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Written, E> {
                Ok(Written::Number(number as f64))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Written, E> {
                Ok(Written::Number(number as f64))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Written, E> {
                Ok(Written::Number(number))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Written, E> {
                Ok(Written::Text(text.to_string()))
            }
        }
        from.deserialize_any(Scalar)
    }
}

impl Written {
    fn number(&self) -> Option<f64> {
        match self {
            Written::Number(n) => Some(*n),
            Written::Text(_) => None,
        }
    }

    /// Percent, within what a margin may be.
    fn margin(&self) -> Option<Margin> {
        let Written::Text(text) = self else {
            return None;
        };
        let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
        (0.0..=1000.0)
            .contains(&percent)
            .then_some(Margin(percent / 100.0))
    }

    fn shown(&self) -> String {
        match self {
            Written::Number(n) => n.to_string(),
            Written::Text(text) => format!("'{}'", cut(text)),
        }
    }
}

/// A duration in seconds, ≥ 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Duration(pub f64);

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Written::deserialize(from)? {
            Written::Text(text) => duration::parse(&text)
                .map(Duration)
                .map_err(D::Error::custom),
            other => Err(D::Error::custom(format!(
                "{} has no unit; write a duration in quotes, such as \"30s\" (or \"00:00:30\", HH:MM:SS)",
                other.shown()
            ))),
        }
    }
}

/// Credits, finite and ≥ 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount(pub f64);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        match written.number() {
            Some(n) if (0.0..=1e9).contains(&n) => Ok(Amount(n)),
            _ => Err(D::Error::custom(format!(
                "{} is not a number of credits from 0 to 1e9",
                written.shown()
            ))),
        }
    }
}

/// What a price is multiplied by: 0 to 1e6.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factor(pub f64);

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        match written.number() {
            Some(n) if (0.0..=1e6).contains(&n) => Ok(Factor(n)),
            _ => Err(D::Error::custom(format!(
                "{} is not a factor; write a number from 0 to 1e6, such as 1.5",
                written.shown()
            ))),
        }
    }
}

/// A part added to every estimate: 0 to 10 (1000 %).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin(pub f64);

impl<'de> Deserialize<'de> for Margin {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        written.margin().ok_or_else(|| {
            D::Error::custom(format!(
                "{} is not a margin; write percent in quotes, \"0%\" to \"1000%\"",
                written.shown()
            ))
        })
    }
}

/// By how much estimates are stretched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EstimateMargin {
    /// By so much.
    Fixed(Margin),
    /// By what the site's own records propose, see [`super::learned`].
    Learned,
}

impl<'de> Deserialize<'de> for EstimateMargin {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        match &written {
            Written::Text(word) if word == "learned" => Ok(EstimateMargin::Learned),
            other => other.margin().map(EstimateMargin::Fixed).ok_or_else(|| {
                D::Error::custom(format!(
                    "{} is not a margin; write percent in quotes, \"0%\" to \"1000%\", or \"learned\"",
                    written.shown()
                ))
            }),
        }
    }
}

/// The least and the most that is followed of a margin that was learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MarginBounds {
    /// Also where none was learned.
    pub least: Margin,
    /// Not below the least.
    pub most: Margin,
}

impl Default for MarginBounds {
    fn default() -> Self {
        MarginBounds {
            least: Margin(0.05),
            most: Margin(0.5),
        }
    }
}

impl<'de> Deserialize<'de> for MarginBounds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (least, most) = <(Margin, Margin)>::deserialize(from)?;
        if least.0 > most.0 {
            return Err(D::Error::custom(format!(
                "the least margin, {:.0} %, is above the most, {:.0} %; write the least first",
                least.0 * 100.0,
                most.0 * 100.0
            )));
        }
        Ok(MarginBounds { least, most })
    }
}

/// What becomes of a job that has used its estimate and passed its deadline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PastDeadline {
    /// It keeps the share committed to it.
    KeepsShare,
    /// It gets what all others leave.
    WhatIsLeft,
    /// The same, and it is ended when it has used so many times its estimate, 1 or more.
    EndedAfter(f64),
}

impl<'de> Deserialize<'de> for PastDeadline {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        let rule = match &written {
            Written::Text(text) => match text.as_str() {
                "keeps-share" => Some(PastDeadline::KeepsShare),
                "what-is-left" => Some(PastDeadline::WhatIsLeft),
                text => (text.strip_prefix("ended-after "))
                    .and_then(|times| times.trim().strip_suffix('x')?.parse::<f64>().ok())
                    .filter(|times| (1.0..=1e6).contains(times))
                    .map(PastDeadline::EndedAfter),
            },
            Written::Number(_) => None,
        };
        rule.ok_or_else(|| {
            D::Error::custom(format!(
                "{} is not known; write \"keeps-share\", \"what-is-left\", or \"ended-after 3x\" with 1 or more times the estimate",
                written.shown()
            ))
        })
    }
}

/// Processors of a host.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Processors {
    /// As many as the system has online.
    #[default]
    All,
    /// So many; may be fractional.
    Count(f64),
}

impl<'de> Deserialize<'de> for Processors {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        match (&written, written.number()) {
            (Written::Text(word), _) if word == "all" => Ok(Processors::All),
            (_, Some(n)) if n > 0.0 && n <= 1e6 => Ok(Processors::Count(n)),
            _ => Err(D::Error::custom(format!(
                "{} is not a number of processors; write \"all\" or a number above 0, such as 3.5",
                written.shown()
            ))),
        }
    }
}

/// The part of a host's processors that is not committed: 0 to 0.5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reserve(pub f64);

impl Default for Reserve {
    fn default() -> Self {
        Reserve(0.05)
    }
}

impl Reserve {
    /// What of so many processors is left to commit.
    pub fn leaves(self, processors: f64) -> f64 {
        // To the fourth digit, which is what batch systems write: 0.95 and not 0.9499999999999999.
        (processors * (1.0 - self.0) * 1e4).round() / 1e4
    }
}

impl<'de> Deserialize<'de> for Reserve {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        let percent = match &written {
            Written::Text(text) => text
                .strip_suffix('%')
                .and_then(|digits| digits.trim().parse::<f64>().ok()),
            Written::Number(_) => None,
        };
        match percent {
            Some(percent) if (0.0..=50.0).contains(&percent) => Ok(Reserve(percent / 100.0)),
            _ => Err(D::Error::custom(format!(
                "{} is not a reserve; write percent of the host's processors in quotes, \"0%\" to \"50%\"",
                written.shown()
            ))),
        }
    }
}

/// Speed against a reference node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rating(pub f64);

impl Default for Rating {
    fn default() -> Self {
        Rating(1.0)
    }
}

impl<'de> Deserialize<'de> for Rating {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        match written.number() {
            Some(n) if (1e-6..=1e6).contains(&n) => Ok(Rating(n)),
            _ => Err(D::Error::custom(format!(
                "{} is not a rating; write a number from 0.000001 to 1000000 (1.0 is a reference node)",
                written.shown()
            ))),
        }
    }
}

/// Memory of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// As much as the system has.
    #[default]
    All,
    /// Not counted.
    Unlimited,
    /// So many bytes.
    Bytes(u64),
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        match &written {
            Written::Text(word) if word == "all" => Ok(Memory::All),
            Written::Text(word) if word == "unlimited" => Ok(Memory::Unlimited),
            Written::Text(text) => memory::parse(text)
                .map(Memory::Bytes)
                .map_err(D::Error::custom),
            _ => Err(D::Error::custom(format!(
                "{} has no unit; write memory in quotes: \"all\", \"unlimited\", or an amount such as \"64GiB\"",
                written.shown()
            ))),
        }
    }
}

/// What a hook of the batch system does with a job with terms when it cannot ask the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFault {
    /// Refuse it: nothing is promised that nobody judged.
    #[default]
    Refuse,
    /// Let it pass as a job without terms.
    Admit,
}

impl OnFault {
    /// The word for it in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            OnFault::Refuse => "refuse",
            OnFault::Admit => "admit",
        }
    }
}

/// What becomes of jobs without an estimate, a deadline and a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithoutTerms {
    /// They run beside the jobs with terms, with what those leave.
    #[default]
    BestEffort,
    /// They are refused.
    Refuse,
    /// They run on the nodes that Libra does not have.
    OtherNodes,
    /// They are not touched.
    LeaveAlone,
}
