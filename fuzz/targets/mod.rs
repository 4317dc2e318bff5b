//! Every text that crosses a border of trust, and what has to hold for whatever somebody sends.
//!
//! One function per border. It may return when the input is refused, in words that [`refused`] would let a user see; it panics
//! when an input is taken that does not mean the same once it is written down again, that leaves a value out of its range, that
//! commits more than there is, or that costs more than [`MOST_SECONDS`]. `fuzz/run` drives them with AFL++; `tests/fuzz.rs`
//! replays `fuzz/corpus`, in every `make test`.

mod admission;
mod commitment;
mod files;
mod money;
mod output;
mod people;
mod select;

use serde_json::Value;
use std::fmt::Display;

/// A border: its name, which is also its directory in `fuzz/corpus`, and what is done with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All borders, the most exposed first.
pub const TARGETS: &[Target] = &[
    ("commitment", commitment::commitment),
    ("accounts-request", money::accounts_request),
    ("pbs-events", admission::pbs_events),
    ("slurm-submission", admission::slurm_submission),
    ("terms", people::terms_list),
    ("web-form", people::web_form),
    ("web-output", output::web_output),
    ("registry-entry", commitment::registry_entry),
    ("configuration", files::configuration),
    ("pbs-select", select::pbs_select),
    ("swf", files::swf_log),
    ("values", people::values),
];

/// Runs a target on an input, which may cost so many seconds of a processor, and as many more for each megabyte of it. What takes quadratic
/// time takes far more.
///
/// # Panics
/// When the border does not hold, or took too long.
pub fn run(target: fn(&[u8]), input: &[u8], most_seconds: f64) {
    let before = processor_seconds();
    target(input);
    let took = processor_seconds() - before;
    let most = most_seconds * (1.0 + input.len() as f64 / 1e6);
    assert!(took < most, "it took {took} s of a processor");
}

/// Of this thread: others do not count, nor who else is on the machine.
fn processor_seconds() -> f64 {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    let time = nix::time::clock_gettime(clock).expect("a clock");
    std::time::Duration::from(time).as_secs_f64()
}

/// The time that inputs are judged at.
const NOW: f64 = 1_700_000_000.0;

fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// A refusal says something that may stand on a terminal and in a log: it is short whatever was sent, and nothing in it ends a line
/// or moves a cursor.
fn refused(error: &dyn Display) {
    words(error, 1000, "");
}

/// The same, of `most` bytes, with these control characters allowed.
fn words(text: &dyn Display, most: usize, also: &str) {
    let text = text.to_string();
    assert!(!text.trim().is_empty(), "it says nothing");
    assert!(text.len() <= most, "{} bytes: {text:.200}", text.len());
    let bad = text.chars().find(|c| c.is_control() && !also.contains(*c));
    assert_eq!(bad, None, "{text:?}");
}

/// The same JSON, but for the last digits of its numbers: serde_json reads them to 15 digits or so.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one != other => {
            let (one, other) = (one.as_f64().unwrap_or(0.0), other.as_f64().unwrap_or(1.0));
            (one - other).abs() <= 1e-14 * one.abs()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let known = |(key, value)| other.get(key).is_some_and(|other| alike(value, other));
            one.len() == other.len() && one.iter().all(known)
        }
        _ => one == other,
    }
}

/// Seconds or credits that were taken.
fn amount(value: f64) {
    assert!(value.is_finite() && value >= 0.0, "{value}");
}

/// Terms that were taken: finite and in range but for a budget without a limit, and the same once they are written as a user would.
fn taken(terms: &libra_core::decision::job::Terms) {
    terms.check().expect("terms that were taken are in range");
    amount(terms.estimate);
    amount(terms.deadline);
    amount(terms.penalty_rate);
    assert!(terms.budget >= 0.0);
    // Adding 0 turns -0, which nobody types, into 0.
    let written = format!(
        "estimate={},deadline={},budget={},deadline_type={},penalty_rate={}",
        terms.estimate,
        terms.deadline,
        match terms.budget {
            f64::INFINITY => "unlimited".to_string(),
            budget => (budget + 0.0).to_string(),
        },
        match terms.deadline_type {
            libra_core::decision::job::DeadlineType::Hard => "hard",
            libra_core::decision::job::DeadlineType::Soft => "soft",
        },
        terms.penalty_rate + 0.0,
    );
    let again = libra_wording::terms::parse(&written, &libra_wording::terms::deadline_as_duration)
        .and_then(libra_wording::terms::PartialTerms::complete);
    // Classes are read by who may have them.
    let expected = libra_core::decision::job::Terms {
        class: libra_core::decision::class::Class::Deadline,
        ..*terms
    };
    assert_eq!(again, Ok(expected), "{written}");
}
