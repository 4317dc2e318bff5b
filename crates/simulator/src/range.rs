//! Ranges of values of one parameter of a [`Setting`](super::setting::Setting).

use super::setting::Parameter;
use libra_wording::words::nearest;
use std::str::FromStr;

/// A parameter and the values that it is to have, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// The parameter.
    pub parameter: Parameter,
    /// At least one value, at most [`Range::MOST`], no two alike.
    pub values: Vec<f64>,
}

impl Range {
    /// Most values of a range.
    pub const MOST: usize = 1000;
}

impl FromStr for Range {
    type Err = String;

    /// Reads `NAME=0.1,0.2,0.5`, `NAME=0.1,0.2,...,1` or `NAME=0.1..1..0.1` (from, to, step).
    fn from_str(text: &str) -> Result<Range, String> {
        let (name, values) = text
            .split_once('=')
            .ok_or_else(|| format!("'{}' has no '='; write {FORM}", cut(text)))?;
        let name = name.trim();
        let parameter = Parameter::ALL
            .into_iter()
            .find(|parameter| parameter.name() == name)
            .ok_or_else(|| unknown(name))?;
        let values = match values.contains("..") && !values.contains("...") {
            true => steps(values)?,
            false => list(values)?,
        };
        for (place, value) in values.iter().enumerate() {
            if values[..place].contains(value) {
                return Err(format!("the value {value} is there twice"));
            }
        }
        Ok(Range { parameter, values })
    }
}

const FORM: &str = "NAME=FROM..TO..STEP or NAME=VALUE,VALUE,...";

fn unknown(name: &str) -> String {
    let names = Parameter::ALL.map(Parameter::name);
    let near = nearest(name, names.into_iter());
    let near = near.map_or(String::new(), |near| format!(" (nearest: '{near}')"));
    format!(
        "there is no parameter '{}'{near}; there are {}",
        cut(name),
        names.join(", ")
    )
}

fn cut(text: &str) -> String {
    text.chars().take(32).collect()
}

fn value(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.trim().parse().ok();
    // The parser also takes 'inf' and 'nan'.
    let value = parsed.filter(|value| value.is_finite());
    value.ok_or_else(|| format!("'{}' is not a number; write {FORM}", cut(text)))
}

/// `from..to..step`
fn steps(text: &str) -> Result<Vec<f64>, String> {
    let parts: Vec<&str> = text.split("..").collect();
    let [from, to, step] = parts[..] else {
        return Err(format!("'{}' is not FROM..TO..STEP", cut(text)));
    };
    progression(value(from)?, value(to)?, value(step)?)
}

/// `a,b,c`, in which `...` goes on as before to what follows it.
fn list(text: &str) -> Result<Vec<f64>, String> {
    let mut values: Vec<f64> = Vec::new();
    let mut parts = text.split(',').map(str::trim);
    while let Some(part) = parts.next() {
        if part != "..." {
            values.push(value(part)?);
            continue;
        }
        let (&[.., from, next], Some(to)) = (&values[..], parts.next()) else {
            return Err(
                "'...' must stand between two values and a last one: 0.1,0.2,...,1".to_string(),
            );
        };
        values.truncate(values.len() - 2);
        values.extend(progression(from, value(to)?, next - from)?);
    }
    match values.len() {
        count if count > Range::MOST => Err(too_many()),
        _ => Ok(values),
    }
}

fn too_many() -> String {
    format!("more than {} values", Range::MOST)
}

fn progression(from: f64, to: f64, step: f64) -> Result<Vec<f64>, String> {
    let count = (to - from) / step;
    if !(count.is_finite() && count >= 0.0 && step != 0.0) {
        return Err(format!("from {from} no steps of {step} lead to {to}"));
    }
    if count > Range::MOST as f64 {
        return Err(too_many());
    }
    // A value within a millionth of a step is meant to be reached.
    let last = (count + 1e-6).floor() as usize;
    let values = (0..=last).map(|index| tidy(from + index as f64 * step));
    Ok(values.collect())
}

/// 0.1 + 2 × 0.1 is meant to be 0.3: twelve digits count.
fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_write_a_range() {
        for (text, expected) in [
            ("nodes=1,2,4", &[1.0, 2.0, 4.0][..]),
            ("high-urgency=0..1..0.25", &[0.0, 0.25, 0.5, 0.75, 1.0]),
            (
                "high-urgency = 0.1, 0.2, ..., 0.5",
                &[0.1, 0.2, 0.3, 0.4, 0.5],
            ),
            (
                "deadline-ratio=1,2,...,4,8,10",
                &[1.0, 2.0, 3.0, 4.0, 8.0, 10.0],
            ),
            ("deadline-ratio=10..1..-3", &[10.0, 7.0, 4.0, 1.0]),
            ("deadline-ratio=5", &[5.0]),
        ] {
            let range: Range = text.parse().expect(text);
            assert_eq!(range.values, expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_range_says_why() {
        for (text, part) in [
            ("", "has no '='"),
            ("nodes", "has no '='"),
            (
                "node=1",
                "there is no parameter 'node' (nearest: 'nodes'); there are arrival-",
            ),
            (
                "colour=1",
                "there is no parameter 'colour'; there are arrival-",
            ),
            ("nodes=", "'' is not a number"),
            ("nodes=1,x", "'x' is not a number"),
            ("high-urgency=nan", "'nan' is not a number"),
            ("nodes=1,2,1", "1 is there twice"),
            ("nodes=1,...,4", "between two values"),
            ("nodes=1,2,...", "between two values"),
            ("nodes=1..4", "is not FROM..TO..STEP"),
            ("nodes=1..4..0", "no steps of 0"),
            ("nodes=4..1..1", "no steps of 1"),
            ("nodes=1..1000000..1", "more than 1000"),
        ] {
            let error = text.parse::<Range>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
