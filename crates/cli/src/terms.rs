//! From arguments to a request.

use super::Failure;
use super::args::TermsArgs;
use jiff::civil::{DateTime, Time};
use jiff::{ToSpan, Zoned};
use libra_core::decision::class_defaults::{Basis, ClassDefaults, ClassLine};
use libra_core::decision::job::{Request, Shape};
use libra_units::memory;
use libra_wording::refusal::out_of_range;
use libra_wording::terms::{self, Completed, PartialTerms};

/// A request, and what gave it its class; None if it named it, or nobody did.
pub type Classed = (Request, Option<ClassLine>);

/// The request that these arguments make, submitted now. `site`: its classes of jobs that name none.
pub fn request(args: &TermsArgs, site: &ClassDefaults) -> Result<Classed, Failure> {
    let (none, one) = (PartialTerms::default(), Shape::default());
    request_beside(args, none, one, site)
}

/// The same, where what they do not say is said elsewhere.
pub fn request_beside(
    args: &TermsArgs,
    beside: PartialTerms,
    shape: Shape,
    site: &ClassDefaults,
) -> Result<Classed, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let shape = self::shape(args, shape)?;
    let completed = (given(args)?.or(beside)).complete_by(site, basis(&shape));
    let Completed { terms, class_line } = completed.map_err(|e| usage(&e))?;
    let request = Request { terms, shape };
    request.check().map_err(|e| usage(&out_of_range(&e)))?;
    Ok((request, class_line))
}

/// What the class of a job of this shape goes by that names none. A host has no queues.
pub fn basis(shape: &Shape) -> Basis<'static> {
    Basis {
        queues: &[],
        several: shape.slots() > 1,
    }
}

/// The shape that these arguments give, where they do not say it this one.
pub fn shape(args: &TermsArgs, mut shape: Shape) -> Result<Shape, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    if let Some(processors) = processors(args)? {
        shape = Shape {
            processors_per_chunk: processors,
            memory_per_chunk: shape.memory_per_chunk,
            ..Shape::default()
        };
    }
    if let Some(text) = &args.memory {
        shape.memory_per_chunk =
            memory::parse(text).map_err(|e| usage(&format!("--memory: {e}")))?;
    }
    Ok(shape)
}

/// The terms that these arguments give.
pub fn given(args: &TermsArgs) -> Result<PartialTerms, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let mut listed = PartialTerms::default();
    for list in args.list.iter().map(|list| without_processors(list)) {
        // One of nothing else.
        let Some(list) = &list else {
            continue;
        };
        let more = terms::parse(list, &deadline).map_err(|e| usage(&format!("-W: {e}")))?;
        listed = more.or(listed);
    }
    let mut given = PartialTerms::default();
    for (key, value) in [
        ("estimate", &args.estimate),
        ("deadline", &args.deadline),
        ("budget", &args.budget),
        ("deadline_type", &args.deadline_type),
        ("penalty_rate", &args.penalty_rate),
        ("class", &args.class),
    ] {
        if let Some(value) = value {
            given.set(key, value, &deadline).map_err(|e| usage(&e))?;
        }
    }
    Ok(given.or(listed))
}

/// The number of processors, as an option or in a list, where an offer has it: `processors=2,estimate=15`.
pub fn processors(args: &TermsArgs) -> Result<Option<u32>, Failure> {
    let mut listed = None;
    for entry in args.list.iter().flat_map(|list| list.split(',')) {
        let Some(value) = processors_in(entry) else {
            continue;
        };
        listed = Some(value.parse().map_err(|_| {
            Failure::Usage(format!(
                "-W: processors: '{}' is not a whole number, 1 or more",
                value.chars().take(64).collect::<String>()
            ))
        })?);
    }
    Ok(args.processors.or(listed))
}

fn processors_in(entry: &str) -> Option<&str> {
    let (key, value) = entry.split_once('=')?;
    (key.trim().eq_ignore_ascii_case("processors")).then(|| value.trim())
}

/// The rest of a list; None if there was nothing else in it.
fn without_processors(list: &str) -> Option<String> {
    let rest = list
        .split(',')
        .filter(|entry| processors_in(entry).is_none());
    let rest: Vec<&str> = rest.collect();
    (!rest.is_empty()).then(|| rest.join(","))
}

/// Reads a deadline: a duration from now, or `@` and a clock time.
pub fn deadline(text: &str) -> Result<f64, String> {
    match text.strip_prefix('@') {
        Some(time) => until(time, &Zoned::now()),
        None => terms::deadline_as_duration(text)
            .map_err(|error| format!("{error}; a clock time is written @17:30")),
    }
}

/// Seconds from `now` until a clock time: the next time it is so late, or a date and time.
fn until(text: &str, now: &Zoned) -> Result<f64, String> {
    let expected = || {
        format!(
            "'@{}' is not a clock time; write @17:30, @17:30:15 or @2027-01-31T08:00",
            text.chars().take(64).collect::<String>()
        )
    };
    let zone = now.time_zone().clone();
    let at = if text.contains(['T', ' ', '-']) {
        let when: DateTime = text.parse().map_err(|_| expected())?;
        when.to_zoned(zone).map_err(|_| expected())?
    } else {
        let time: Time = text.parse().map_err(|_| expected())?;
        let today = now.date().to_datetime(time);
        let at = today.to_zoned(zone.clone()).map_err(|_| expected())?;
        if at > *now {
            at
        } else {
            let tomorrow = now.date().checked_add(1.day()).map_err(|_| expected())?;
            tomorrow
                .to_datetime(time)
                .to_zoned(zone)
                .map_err(|_| expected())?
        }
    };
    let seconds = now.duration_until(&at).as_secs_f64();
    if seconds <= 0.0 {
        return Err(format!("@{text} has passed"));
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_times() {
        let now: Zoned = "2026-11-21T16:00:00[UTC]".parse().expect("a time");
        for (text, seconds) in [
            ("17:30", 5400.0),
            ("17:30:15", 5415.0),
            ("08:00", 57_600.0),
            ("16:00", 86_400.0),
            ("2026-11-22T16:00", 86_400.0),
            ("2026-11-22 16:00:01", 86_401.0),
        ] {
            assert_eq!(until(text, &now), Ok(seconds), "{text}");
        }
        for text in ["", "25:00", "noon", "2020-01-01T00:00", "17:30:15:01"] {
            assert!(until(text, &now).is_err(), "{text}");
        }
    }

    #[test]
    fn the_night_when_an_hour_is_missing() {
        let now: Zoned = "2026-03-28T22:00:00[Europe/Berlin]"
            .parse()
            .expect("a time");
        assert_eq!(until("06:00", &now), Ok(7.0 * 3600.0));
    }

    #[test]
    fn an_offer_of_processors_can_be_typed_as_a_list() {
        let args = |list: &[&str], processors| TermsArgs {
            list: list.iter().map(|list| (*list).to_string()).collect(),
            processors,
            ..TermsArgs::default()
        };
        let terms = "deadline=20,budget=15,estimate=10";
        let site = ClassDefaults::default();
        let request = |args: &TermsArgs| super::request(args, &site).map(|(request, _)| request);
        let two = args(&[terms, "processors=2,estimate=12.5 s"], None);
        let two = request(&two).expect("complete");
        assert_eq!(two.shape.processors_per_chunk, 2);
        assert_eq!(two.terms.estimate, 12.5);
        let one = request(&args(&[terms, "Processors = 2"], Some(1))).expect("complete");
        assert_eq!(one.shape.processors_per_chunk, 1, "an option wins");
        for bad in ["processors=", "processors=-1", "processors=many"] {
            assert!(request(&args(&[terms, bad], None)).is_err(), "{bad}");
        }
        // An empty list is as wrong as ever.
        assert!(request(&args(&[terms, ""], None)).is_err());
    }

    #[test]
    fn long_options_win_over_lists_and_later_lists_over_earlier_ones() {
        let args = TermsArgs {
            list: vec![
                "deadline=20,budget=15,estimate=10".to_string(),
                "budget=16".to_string(),
            ],
            deadline: Some("30".to_string()),
            processors: Some(2),
            ..TermsArgs::default()
        };
        let (request, line) = request(&args, &ClassDefaults::default()).expect("complete");
        assert_eq!(line, None);
        assert_eq!(request.terms.deadline, 30.0);
        assert_eq!(request.terms.budget, 16.0);
        assert_eq!(request.shape.processors_per_chunk, 2);
    }
}
