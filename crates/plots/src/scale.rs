//! Axes: from values to places, and the round values that are marked on them.

/// How values are laid out along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Equal ratios are equally long; values > 0 only.
    Log,
    /// As [`Scale::Log`], of seconds, marked at 1 min, 1 h, 1 d …
    Duration,
}

/// One axis of a plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: String,
    /// How it is laid out.
    pub scale: Scale,
    /// From where to where; taken from the values where there is none.
    pub range: Option<(f64, f64)>,
    /// From one mark to the next on a linear axis, > 0; found where there is none.
    pub step: Option<f64>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_string(),
            ..Axis::default()
        }
    }

    /// A linear axis from 0 to 100.
    pub fn percent(label: &str) -> Axis {
        Axis {
            range: Some((0.0, 100.0)),
            ..Axis::linear(label)
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis {
            scale: Scale::Log,
            ..Axis::linear(label)
        }
    }

    /// A value that can be drawn on this axis.
    pub fn takes(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    fn step_of(&self, span: f64, most: f64) -> f64 {
        let given = self.step.filter(|step| step.is_finite() && *step > 0.0);
        given.unwrap_or_else(|| step(span, most))
    }

    /// Lays the axis out from pixel `from` to pixel `to`. Without a range of its own it spans
    /// `values`; a [`Ends::Round`] one to the next mark, and from 0 where no value is negative.
    pub fn lay_out(
        &self,
        values: impl Iterator<Item = f64>,
        ends: Ends,
        (from, to): (f64, f64),
    ) -> Layout {
        let rounded = ends == Ends::Round;
        let horizontal = from < to;
        let marks = ((to - from).abs() / if horizontal { 78.0 } else { 40.0 }).max(2.0);
        let found = values.filter(|&value| self.takes(value)).fold(
            None,
            |range: Option<(f64, f64)>, value| {
                let (low, high) = range.unwrap_or((value, value));
                Some((low.min(value), high.max(value)))
            },
        );
        let given = self
            .range
            .filter(|(low, high)| self.takes(*low) && self.takes(*high) && low < high);
        let (mut low, mut high) = given.or(found).unwrap_or((1.0, 10.0));
        let log = self.scale != Scale::Linear;
        if given.is_none() {
            if rounded && !log && low > 0.0 {
                low = 0.0;
            }
            if low == high {
                // A single value stands in the middle.
                let apart = if low == 0.0 { 1.0 } else { low.abs() * 0.5 };
                (low, high) = if log {
                    // Not to zero or infinity, between which marks have no end.
                    (
                        (low / 2.0).max(f64::from_bits(1)),
                        (high * 2.0).min(f64::MAX),
                    )
                } else {
                    ((low - apart).max(f64::MIN), (high + apart).min(f64::MAX))
                };
            }
            if rounded && !log {
                let step = self.step_of(high - low, marks);
                low = ((low / step).floor() * step).max(f64::MIN);
                high = ((high / step).ceil() * step).min(f64::MAX);
            }
        }
        let layout = Layout {
            log,
            low,
            high,
            from,
            to,
            marks: Vec::new(),
        };
        let marks = match self.scale {
            Scale::Linear => linear_marks(low, high, self.step_of(high - low, marks)),
            Scale::Log => log_marks(low, high, marks),
            Scale::Duration => duration_marks(low, high),
        };
        Layout { marks, ..layout }
    }
}

/// Where an axis without a range of its own ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// At the least and the greatest value.
    Exact,
    /// At marks around them.
    Round,
}

/// An axis laid out on a drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// The marked values and their labels, in order.
    pub marks: Vec<(f64, String)>,
}

impl Layout {
    /// The pixel of a value; values beyond the ends are put at the ends.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high, value) = if self.log {
            (self.low.ln(), self.high.ln(), value.ln())
        } else {
            (self.low, self.high, value)
        };
        let part = ((value - low) / (high - low)).clamp(0.0, 1.0);
        self.from + part * (self.to - self.from)
    }

    /// Leaves labels out until those that are left have room, each as wide as `width` says.
    pub fn thin(&mut self, width: impl Fn(&str) -> f64) {
        let mut every = 1;
        while every < self.marks.len() {
            let kept: Vec<(f64, f64)> = self
                .marks
                .iter()
                .step_by(every)
                .map(|(value, label)| (self.place(*value), width(label)))
                .collect();
            let room = kept
                .windows(2)
                .all(|pair| (pair[1].0 - pair[0].0).abs() >= (pair[0].1 + pair[1].1) / 2.0 + 6.0);
            if room {
                break;
            }
            every += 1;
        }
        let mut place = 0;
        self.marks.retain(|_| {
            place += 1;
            (place - 1) % every == 0
        });
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that needs at most so many steps.
fn step(span: f64, most: f64) -> f64 {
    let least = (span / most).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|f| f * power >= least * 0.999);
    factor.unwrap_or(10.0) * power
}

fn linear_marks(low: f64, high: f64, step: f64) -> Vec<(f64, String)> {
    let first = (low / step - 1e-6).ceil();
    let count = (high / step + 1e-6 - first).floor();
    // One unit for all of them.
    let (unit, name) = match low.abs().max(high.abs()) {
        size if size >= 1e12 => (1e12, " T"),
        size if size >= 1e9 => (1e9, " G"),
        size if size >= 1e6 => (1e6, " M"),
        _ => (1.0, ""),
    };
    let decimals = (-(step / unit).log10().floor()).clamp(0.0, 9.0) as usize;
    // At most a few tens, whatever the numbers are.
    (0..=count.clamp(0.0, 100.0) as u32)
        .map(|index| {
            let value = (first + f64::from(index)) * step;
            match grouped(&format!("{:.decimals$}", value / unit)) {
                zero if value == 0.0 => (value, zero),
                digits => (value, digits + name),
            }
        })
        .collect()
}

fn log_marks(low: f64, high: f64, most: f64) -> Vec<(f64, String)> {
    let decades = high.log10() - low.log10();
    let factors: &[f64] = match decades {
        d if d * 3.0 <= most * 1.6 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let every = (decades / most).ceil().max(1.0) as i32;
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let mut marks = Vec::new();
    for power in (first..=last).filter(|power| power.rem_euclid(every) == 0) {
        for factor in factors {
            let value = factor * 10f64.powi(power);
            if value >= low * (1.0 - 1e-9) && value / high <= 1.0 + 1e-9 {
                marks.push((value, number(value)));
            }
        }
    }
    // Less than a power of ten, between two such values.
    if marks.len() < 2 {
        return linear_marks(low, high, step(high - low, most));
    }
    marks
}

fn duration_marks(low: f64, high: f64) -> Vec<(f64, String)> {
    const MARKS: [(f64, &str); 13] = [
        (1.0, "1 s"),
        (10.0, "10 s"),
        (60.0, "1 min"),
        (600.0, "10 min"),
        (3600.0, "1 h"),
        (6.0 * 3600.0, "6 h"),
        (86_400.0, "1 d"),
        (7.0 * 86_400.0, "1 wk"),
        (30.0 * 86_400.0, "30 d"),
        (182.0 * 86_400.0, "½ y"),
        (365.0 * 86_400.0, "1 y"),
        (1825.0 * 86_400.0, "5 y"),
        (3650.0 * 86_400.0, "10 y"),
    ];
    let within = MARKS.iter().filter(|mark| mark.0 >= low && mark.0 <= high);
    within
        .map(|(value, label)| (*value, label.to_string()))
        .collect()
}

/// A number as people read it: about three digits, with thousands apart and `k`, `M`, `G` behind
/// what is large.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_string();
    }
    for (unit, name) in [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")] {
        if size >= unit * 0.9995 {
            let unit = if name == " k" { 1e3 } else { unit };
            return format!("{}{name}", three_digits(value / unit));
        }
    }
    three_digits(value)
}

fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_string();
    }
    if !(1e-4..1e6).contains(&size) {
        return format!("{value:.1e}");
    }
    let digits = size.log10().floor();
    let decimals = (2.0 - digits).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    grouped(text)
}

/// A whole number with its thousands apart: `12,345`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// Digits with their thousands apart, whatever follows the point, with a true minus sign.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) if digits.trim_matches(['0', '.']).is_empty() => ("", digits),
        Some(digits) => ("\u{2212}", digits),
        None => ("", text),
    };
    let whole = digits.split('.').next().unwrap_or(digits);
    let mut grouped = String::from(sign);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && place < whole.len() && (whole.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(axis: &Axis, values: &[f64], ends: Ends, length: f64) -> Vec<String> {
        // Upright as a vertical axis has it, or lying.
        let pixels = match ends {
            Ends::Round => (length, 0.0),
            Ends::Exact => (0.0, length),
        };
        let layout = axis.lay_out(values.iter().copied(), ends, pixels);
        layout.marks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn marks_are_round_and_few() {
        let axis = Axis::linear("");
        assert_eq!(
            marked(&axis, &[3.0, 97.0], Ends::Round, 300.0),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            marked(&axis, &[0.1, 0.42], Ends::Exact, 400.0),
            ["0.1", "0.2", "0.3", "0.4"]
        );
        assert_eq!(
            marked(&axis, &[-5.0, 12_000.0], Ends::Round, 200.0),
            ["−5,000", "0", "5,000", "10,000", "15,000"]
        );
        assert_eq!(
            marked(&Axis::log(""), &[1.0, 1e5], Ends::Round, 300.0),
            ["1", "10", "100", "1,000", "10 k", "100 k"]
        );
        let duration = Axis {
            scale: Scale::Duration,
            ..Axis::default()
        };
        assert_eq!(
            marked(&duration, &[30.0, 4000.0], Ends::Round, 300.0),
            ["1 min", "10 min", "1 h"]
        );
    }

    #[test]
    fn no_values_odd_values_and_one_value_have_an_axis() {
        for axis in [Axis::linear(""), Axis::log("")] {
            for values in [
                &[][..],
                &[f64::NAN, f64::INFINITY],
                &[7.0],
                &[0.0],
                &[-3.0],
                // The greatest and the least that there are, twice and half of which are infinite and nothing.
                &[f64::MAX],
                &[f64::from_bits(1)],
                &[f64::from_bits(1), f64::MAX],
            ] {
                for ends in [Ends::Round, Ends::Exact] {
                    let layout = axis.lay_out(values.iter().copied(), ends, (0.0, 300.0));
                    assert!(!layout.marks.is_empty(), "{axis:?} {values:?}");
                    let marks: Vec<f64> = layout.marks.iter().map(|mark| mark.0).collect();
                    assert!(
                        marks.len() < 20 && marks.iter().all(|mark| mark.is_finite()),
                        "{axis:?} {values:?}: {marks:?}"
                    );
                    for value in values {
                        let place = layout.place(*value);
                        assert!(place.is_nan() || (0.0..=300.0).contains(&place));
                    }
                }
            }
        }
    }

    #[test]
    fn places() {
        let layout = Axis::log("").lay_out([1.0, 100.0].into_iter(), Ends::Round, (0.0, 200.0));
        assert_eq!(layout.place(1.0), 0.0);
        assert!((layout.place(10.0) - 100.0).abs() < 1e-9);
        // From the bottom up, as on a screen.
        let layout = Axis::percent("").lay_out([].into_iter(), Ends::Round, (200.0, 0.0));
        assert_eq!(layout.place(25.0), 150.0);
        assert_eq!(layout.place(120.0), 0.0);
    }

    #[test]
    fn numbers() {
        for (value, text) in [
            (0.0, "0"),
            (0.012345, "0.0123"),
            (59.26, "59.3"),
            (100.0, "100"),
            (1234.4, "1,234"),
            (12_345.0, "12.3 k"),
            (-2_500_000.0, "−2.5 M"),
            (999_999.9, "1 M"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
    }
}
