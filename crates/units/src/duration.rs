//! Durations as people write them: `90`, `90.5`, `1h30m`, `2d`, `12.5 s`, `00:01:30`.

/// Longest duration that is read, in seconds.
const LONGEST: f64 = 1e12;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a duration: {problem}; write seconds (90), HH:MM:SS (00:01:30) or units (1h30m, 2d)"
)]
pub struct NotADuration {
    /// What was given, cut to 64 characters.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Reads a duration, in seconds ≥ 0.
///
/// Seconds (`90`, `1.5`), `HH:MM:SS` (hours may exceed 23; seconds may have decimals), or numbers
/// with units, largest first: `w d h m s ms`, with or without blanks before them. `MM:SS` is refused: PBS reads `1:30` as a minute and a
/// half, people as half past one.
///
/// # Errors
/// What is wrong, and the three ways to write it.
pub fn parse(text: &str) -> Result<f64, NotADuration> {
    let trimmed = text.trim();
    let within = |seconds| match seconds > LONGEST {
        true => Err("too long"),
        false => Ok(seconds),
    };
    (read(trimmed).and_then(within)).map_err(|problem| NotADuration {
        text: super::cut(trimmed),
        problem,
    })
}

fn read(text: &str) -> Result<f64, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.contains(':') {
        return clock(text);
    }
    if text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
        && !text.contains(char::is_alphabetic)
    {
        return number(text);
    }
    units(text)
}

fn number(text: &str) -> Result<f64, &'static str> {
    // f64's own parser would also take "inf", "nan", "1e9" and a sign.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if !plain || !text.bytes().any(|b| b.is_ascii_digit()) {
        return Err("not a number");
    }
    text.parse().map_err(|_| "not a number")
}

fn clock(text: &str) -> Result<f64, &'static str> {
    let fields: Vec<&str> = text.split(':').collect();
    let [hours, minutes, seconds] = fields[..] else {
        return Err("two or four fields where HH:MM:SS has three");
    };
    let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
    if hours.fract() != 0.0 || minutes.fract() != 0.0 {
        return Err("only the seconds may have decimals");
    }
    if minutes >= 60.0 || seconds >= 60.0 {
        return Err("minutes and seconds end at 59");
    }
    Ok(hours * 3600.0 + minutes * 60.0 + seconds)
}

fn units(text: &str) -> Result<f64, &'static str> {
    let mut rest = text;
    let mut total = 0.0;
    let mut largest = f64::INFINITY;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or("a number without a unit")?;
        let value = number(&rest[..digits])?;
        // As it is printed: `12.5 s`.
        rest = rest[digits..].trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "w" => 604_800.0,
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" | "min" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return Err("the units are w, d, h, m, s, ms"),
        };
        if unit >= largest {
            return Err("units go from large to small, each once");
        }
        largest = unit;
        total += value * unit;
        rest = rest[end..].trim_start();
    }
    Ok(total)
}

/// A duration for reading: three figures at the most (`12.5 s`, `4m30s`, `2h05m`, `3d04h`).
pub fn show(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "forever".to_string();
    }
    if seconds < 0.0 {
        return format!("-{}", show(-seconds));
    }
    // The limits lie where rounding would print 60 of a unit.
    if seconds < 99.95 {
        let text = format!("{seconds:.1}");
        return format!("{} s", text.strip_suffix(".0").unwrap_or(&text));
    }
    let whole = seconds.round();
    let (days, hours) = ((whole / 86_400.0).floor(), (whole / 3600.0).floor());
    if hours < 1.0 {
        format!("{}m{:02}s", (whole / 60.0).floor(), whole % 60.0)
    } else if days < 1.0 {
        format!("{hours}h{:02}m", ((whole % 3600.0) / 60.0).floor())
    } else {
        format!("{days}d{:02}h", ((whole % 86_400.0) / 3600.0).floor())
    }
}

/// A duration in seconds that reads back as the same number.
pub fn exact(seconds: f64) -> String {
    format!("{seconds}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_however_it_is_written() {
        for text in [
            "1000000000001",
            "1000000000:00:00",
            "9999999999999w",
            "999999999999h",
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.problem, "too long", "{text}");
        }
    }

    #[test]
    fn the_ways_to_write_a_duration() {
        for (text, seconds) in [
            ("90", 90.0),
            ("1.5", 1.5),
            ("00:01:30", 90.0),
            ("100:00:00", 360_000.0),
            ("0:00:00.5", 0.5),
            ("1h30m", 5400.0),
            ("1h 30m", 5400.0),
            ("2d", 172_800.0),
            ("1w1d1h1m1s1ms", 694_861.001),
            (" 20 ", 20.0),
            ("100ms", 0.1),
            ("12.5 s", 12.5),
            ("1 h 30 m", 5400.0),
        ] {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_says_why() {
        for text in [
            "",
            "abc",
            "-5",
            "+5",
            "nan",
            "inf",
            "1e9",
            "1:30",
            "1:2:3:4",
            "00:60:00",
            "00:00:60",
            "1.5:00:00",
            "5m1h",
            "5m5m",
            "h",
            "5x",
            ".",
            "1..2",
            "1 2",
            "1 2 s",
            "5 m 5",
            "99999999999999",
            "５",
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains("HH:MM:SS"), "{error}");
        }
    }

    /// What is printed can be typed, and is what was printed then, to the figures that it has.
    #[test]
    fn a_shown_duration_is_read_back() {
        let mut seconds = 0.04;
        while seconds < 1e9 {
            let shown = show(seconds);
            let read = parse(&shown).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(show(read), shown);
            assert!(
                (read - seconds).abs() <= (seconds / 20.0).max(0.05),
                "{shown}"
            );
            seconds *= 1.037;
        }
    }

    #[test]
    fn shown_durations() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (12.5, "12.5 s"),
            (99.94, "99.9 s"),
            (99.99, "1m40s"),
            (270.0, "4m30s"),
            (3599.6, "1h00m"),
            (7500.0, "2h05m"),
            (273_600.0, "3d04h"),
            (-3.0, "-3 s"),
        ] {
            assert_eq!(show(seconds), text);
        }
    }
}
