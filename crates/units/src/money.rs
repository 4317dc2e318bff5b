//! Money: whole micro-credits, so that sums are exact.

use crate::{credits, cut};
use std::fmt;

/// Micro-credits in a credit.
pub const MICRO: i64 = 1_000_000;

/// Most that can be named, in micro-credits: 10^12 credits. An account can have four times that.
const MOST: i64 = 1_000_000_000_000 * MICRO;

/// Micro-credits; negative for what is owed.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Money(pub i64);

/// A value that is no money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an amount; expected credits, such as 12 or 0.25, at most 10^12, with at most 6 digits after the point"
)]
pub struct NoMoney(pub String);

impl Money {
    /// None.
    pub const ZERO: Money = Money(0);

    /// Of credits, rounded up: what is held is never less than the price. Saturates.
    pub fn up(credits: f64) -> Money {
        Money::of((credits * MICRO as f64 - 1e-3).ceil())
    }

    /// Of credits, rounded to the nearest. Saturates.
    pub fn near(credits: f64) -> Money {
        Money::of((credits * MICRO as f64).round())
    }

    fn of(micro: f64) -> Money {
        let most = MOST as f64;
        // A NaN becomes 0.
        Money(micro.clamp(-most, most) as i64)
    }

    /// Of micro-credits that were added up. Saturates.
    pub fn clamped(micro: i128) -> Money {
        Money(micro.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// In credits.
    pub fn credits(self) -> f64 {
        self.0 as f64 / MICRO as f64
    }

    /// Reads an amount that a person typed: digits with at most six after the point.
    ///
    /// # Errors
    /// When it is no such amount, or negative.
    pub fn parse(text: &str) -> Result<Money, NoMoney> {
        let bad = || NoMoney(cut(text));
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + part.len() == 0 || part.len() > 6 || !digits(whole) || !digits(part) {
            return Err(bad());
        }
        let whole: i64 = format!("0{whole}").parse().map_err(|_| bad())?;
        let part: i64 = format!("{part:0<6}").parse().map_err(|_| bad())?;
        match whole
            .checked_mul(MICRO)
            .and_then(|whole| whole.checked_add(part))
        {
            Some(micro) if micro <= MOST => Ok(Money(micro)),
            _ => Err(bad()),
        }
    }

    /// Exactly, in credits: `-12.250001`, without needless zeros.
    pub fn exact(self) -> String {
        let (sign, micro) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let (whole, part) = (micro / MICRO as u64, micro % MICRO as u64);
        match part {
            0 => format!("{sign}{whole}"),
            part => format!(
                "{sign}{whole}.{}",
                format!("{part:06}").trim_end_matches('0')
            ),
        }
    }
}

/// As prices are shown.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&credits(self.credits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_amounts() {
        for (text, micro) in [
            ("0", 0),
            ("12", 12_000_000),
            ("0.25", 250_000),
            (".5", 500_000),
            ("3.", 3_000_000),
            ("1.000001", 1_000_001),
            ("1000000000000", MOST),
        ] {
            assert_eq!(Money::parse(text), Ok(Money(micro)), "{text}");
        }
        for text in [
            "",
            ".",
            "-1",
            "1e3",
            "0.0000001",
            "1 2",
            "inf",
            "9999999999999",
            "1000000000000.000001",
            "unlimited",
            "+1",
        ] {
            assert!(Money::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_price_is_held_in_full() {
        assert_eq!(Money::up(10.5), Money(10_500_000));
        assert_eq!(Money::up(0.1 + 0.2), Money(300_000));
        assert_eq!(Money::up(1.000_000_4), Money(1_000_001));
        assert_eq!(Money::up(f64::NAN), Money::ZERO);
        assert!(Money::up(1e300) > Money::ZERO);
    }

    #[test]
    fn exactly_shown() {
        for (micro, text) in [
            (0, "0"),
            (-1, "-0.000001"),
            (12_250_000, "12.25"),
            (i64::MIN, "-9223372036854.775808"),
        ] {
            assert_eq!(Money(micro).exact(), text);
        }
    }
}
