//! Days and months as they are typed, in the time zone of this host.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};

/// First second of a day, or a time of day, Unix time.
pub fn from(text: &str, zone: &TimeZone) -> Result<i64, String> {
    second(text, zone, 0)
}

/// First second after a day, or a time of day, Unix time.
pub fn until(text: &str, zone: &TimeZone) -> Result<i64, String> {
    second(text, zone, 1)
}

fn second(text: &str, zone: &TimeZone, days: i64) -> Result<i64, String> {
    let bad = || {
        format!("'{text}' is not a date; expected 2026-12-31 or a time such as 2026-12-31T18:00")
    };
    let at: DateTime = match text.contains(['T', ' ']) {
        true => text.parse().map_err(|_| bad())?,
        false => {
            let day: Date = text.parse().map_err(|_| bad())?;
            day.checked_add(days.days())
                .map_err(|_| bad())?
                .at(0, 0, 0, 0)
        }
    };
    at.to_zoned(zone.clone())
        .map(|at| at.timestamp().as_second())
        .map_err(|_| bad())
}

/// A month: first millisecond, and first after it, Unix time. None: the one that `now` is in.
pub fn month(text: Option<&str>, now: &Zoned) -> Result<(i64, i64), String> {
    let first = match text {
        None => now.date().first_of_month(),
        Some(text) => {
            let month = text
                .split_once('-')
                .filter(|(year, month)| year.len() == 4 && month.len() == 2)
                .and_then(|(year, month)| {
                    Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()
                });
            month.ok_or_else(|| {
                format!("--month: '{text}' is not a month; expected one such as 2026-11")
            })?
        }
    };
    let next = first
        .checked_add(1.month())
        .map_err(|error| format!("--month: {error}"))?;
    let begin = |day: Date| {
        day.to_zoned(now.time_zone().clone())
            .map(|at| at.timestamp().as_millisecond())
            .map_err(|error| format!("--month: {error}"))
    };
    Ok((begin(first)?, begin(next)?))
}

/// A time in the log of an account.
pub fn shown(millis: i64, zone: &TimeZone) -> String {
    format(millis, zone, "%Y-%m-%d %H:%M")
}

/// A time for programs.
pub fn exact(millis: i64, zone: &TimeZone) -> String {
    format(millis, zone, "%Y-%m-%dT%H:%M:%S%:z")
}

fn format(millis: i64, zone: &TimeZone, form: &str) -> String {
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(at) => at.to_zoned(zone.clone()).strftime(form).to_string(),
        Err(_) => millis.to_string(),
    }
}

/// The end of a validity: the last day of it where it ends at midnight.
pub fn end(seconds: i64, zone: &TimeZone) -> String {
    let Ok(at) = jiff::Timestamp::from_second(seconds) else {
        return seconds.to_string();
    };
    let at = at.to_zoned(zone.clone());
    match (
        at.time() == jiff::civil::Time::midnight(),
        at.date().yesterday(),
    ) {
        (true, Ok(day)) => day.strftime("%Y-%m-%d").to_string(),
        _ => at.strftime("%Y-%m-%d %H:%M").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Berlin's rules, without a database of time zones.
    fn zone() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("rules")
    }

    #[test]
    fn days_begin_and_end_at_midnight_here() {
        let zone = zone();
        // Summer time begins on 2026-03-29: that day has 23 hours.
        let (begin, end_) = (
            from("2026-03-29", &zone).expect("a day"),
            until("2026-03-29", &zone).expect("a day"),
        );
        assert_eq!(end_ - begin, 23 * 3600);
        assert_eq!(end(end_, &zone), "2026-03-29");
        assert_eq!(
            from("2026-03-29T12:00", &zone),
            until("2026-03-29T12:00", &zone)
        );
        for text in ["", "tomorrow", "2026-13-01", "2026-02-30", "29.3.2026"] {
            assert!(from(text, &zone).is_err(), "{text}");
        }
    }

    #[test]
    fn months_begin_and_end_at_midnight_here() {
        let now = "2026-11-21T18:00:00".parse::<DateTime>().expect("a time");
        let now = now.to_zoned(zone()).expect("a time");
        let october = month(Some("2026-10"), &now).expect("a month");
        // An hour more, at the end of summer time.
        assert_eq!(october.1 - october.0, (31 * 24 + 1) * 3_600_000);
        let this = month(None, &now).expect("a month");
        assert_eq!(this, month(Some("2026-11"), &now).expect("a month"));
        assert_eq!(this.0, october.1);
        for text in ["2026", "2026-13", "26-11", "2026-1", "2026-11-01", "-"] {
            assert!(month(Some(text), &now).is_err(), "{text}");
        }
    }
}
