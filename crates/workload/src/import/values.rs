//! Times, durations and amounts of memory as batch systems write them.

use super::{LocalTime, ToUnix};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A text as it may stand in an error.
pub(super) fn shown(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(64).map(printable).collect()
}

/// A local time, or seconds since 1970.
pub(super) fn time(text: &str, to_unix: ToUnix<'_>) -> Option<i64> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return unix(text);
    }
    let (date, clock) = text.split_once('T')?;
    let date = three(date, '-')?;
    local(date, three(clock, ':')?, to_unix)
}

/// Times of the world end here, in the year 2286: a log cannot be longer.
const LAST: i64 = 10_000_000_000;

/// Seconds since 1970.
pub(super) fn unix(text: &str) -> Option<i64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|time| plain && *time < LAST)
}

/// Three numbers between two separators.
pub(super) fn three(text: &str, separator: char) -> Option<[i16; 3]> {
    let mut parts = text.split(separator).map(|part| {
        let plain = part.bytes().all(|b| b.is_ascii_digit());
        part.parse::<i16>().ok().filter(|_| plain)
    });
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

/// Year, month, day and hour, minute, second.
pub(super) fn local(date: [i16; 3], clock: [i16; 3], to_unix: ToUnix<'_>) -> Option<i64> {
    let small = |number: i16| i8::try_from(number).ok();
    let time = to_unix(LocalTime {
        year: date[0],
        month: small(date[1])?,
        day: small(date[2])?,
        hour: small(clock[0])?,
        minute: small(clock[1])?,
        second: small(clock[2])?,
    })?;
    (0..LAST).contains(&time).then_some(time)
}

/// `days-hours:minutes:seconds`, without what is 0 at its start; seconds may have decimals.
pub(super) fn duration(text: &str) -> Option<f64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (whole(days)?, clock),
        None => (0.0, text),
    };
    let mut parts: Vec<&str> = clock.split(':').collect();
    let seconds: f64 = {
        let last = parts.pop()?;
        let plain = last.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        last.parse().ok().filter(|_| plain)?
    };
    let (hours, minutes) = match parts[..] {
        [hours, minutes] => (whole(hours)?, whole(minutes)?),
        [minutes] => (0.0, whole(minutes)?),
        _ => return None,
    };
    Some(days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds)
}

/// A whole number of at most nine digits.
pub(super) fn whole(text: &str) -> Option<f64> {
    let plain = text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    text.parse::<u32>().ok().filter(|_| plain).map(f64::from)
}

/// Words that stand for no limit.
fn no_limit(text: &str) -> bool {
    text.eq_ignore_ascii_case("UNLIMITED") || text.eq_ignore_ascii_case("Partition_Limit")
}

/// Minutes as seconds; None for no limit.
pub(super) fn minutes(text: &str) -> Option<Option<f64>> {
    match no_limit(text) {
        true => Some(None),
        false => whole(text).map(|minutes| Some(minutes * 60.0)),
    }
}

/// A duration; None for no limit.
pub(super) fn limit(text: &str) -> Option<Option<f64>> {
    match no_limit(text) {
        true => Some(None),
        false => duration(text).map(Some),
    }
}

/// What an amount of memory is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Each {
    Job,
    Node,
    Processor,
}

/// An amount of memory in KB, and what it is for: `c` or `n` at its end, as older versions write.
pub(super) fn memory(text: &str, unit: &str) -> Option<(f64, Each)> {
    let (text, each) = match text.as_bytes().last()? {
        b'c' => (&text[..text.len() - 1], Each::Processor),
        b'n' => (&text[..text.len() - 1], Each::Node),
        _ => (text, Each::Job),
    };
    let end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = match end {
        Some(end) => (&text[..end], &text[end..]),
        None => (text, unit),
    };
    let factor = match unit {
        "K" => 1.0,
        "M" => 1024.0,
        "G" => 1_048_576.0,
        "T" => 1_073_741_824.0,
        _ => return None,
    };
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = number.parse().ok().filter(|_| plain)?;
    (number <= 1e12).then_some((number * factor, each))
}

/// Names, each kept once: a million jobs have some hundred users.
#[derive(Default)]
pub(super) struct Words(BTreeSet<Rc<str>>);

impl Words {
    pub(super) fn keep(&mut self, word: &str) -> Rc<str> {
        if let Some(kept) = self.0.get(word) {
            return Rc::clone(kept);
        }
        let kept: Rc<str> = word.into();
        self.0.insert(Rc::clone(&kept));
        kept
    }
}
