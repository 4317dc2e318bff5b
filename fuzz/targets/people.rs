//! What people type: terms, values, the page's form.

use super::{amount, refused, taken, text, words};
use libra_accounts::names::AccountName;
use libra_core::book::held_quote::{self, Order};
use libra_core::decision::class::Class;
use libra_page::form::{self, FieldError, Fields};
use libra_page::pages::submit::Said;
use libra_page::pages::{self, View};
use libra_page::system::submission::Submission;
use libra_page::system::{KINDS, Kind};
use libra_units::money::Money;
use libra_units::{duration, indices, memory};
use libra_wording::errors::no_order;
use libra_wording::terms::{self, PartialTerms, deadline_as_duration};

/// The list that users give with `-W`.
pub fn terms_list(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let partial = match terms::parse(text, &deadline_as_duration) {
        Ok(partial) => partial,
        Err(error) => return refused(&error),
    };
    for value in [partial.estimate, partial.deadline, partial.penalty_rate] {
        value.into_iter().for_each(amount);
    }
    assert!(partial.budget.is_none_or(|budget| budget >= 0.0));
    // Given later, in whatever case and order, it says nothing else.
    let pairs: Vec<&str> = text.split(',').collect();
    let backwards: Vec<String> = pairs.iter().rev().map(|pair| upper(pair)).collect();
    let again = terms::parse(&backwards.join(","), &deadline_as_duration);
    assert_eq!(again, Ok(partial));
    assert_eq!(partial.or(PartialTerms::default()), partial);
    assert_eq!(PartialTerms::default().or(partial), partial);
    match partial.complete() {
        Ok(terms) => taken(&terms),
        Err(error) => refused(&error),
    }
}

/// The key in capitals.
fn upper(pair: &str) -> String {
    match pair.split_once('=') {
        Some((key, value)) => format!("{}={value}", key.to_ascii_uppercase()),
        None => pair.to_string(),
    }
}

/// Durations, memory, lists of indices, amounts of money, names of accounts, words about quotes.
pub fn values(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match duration::parse(text) {
        Ok(seconds) => {
            amount(seconds);
            assert_eq!(duration::parse(&duration::exact(seconds)), Ok(seconds));
            let shown =
                duration::parse(&duration::show(seconds)).expect("what is shown can be typed");
            // To three figures or two units.
            assert!(
                (shown - seconds).abs() <= (seconds / 20.0).max(0.0501),
                "{seconds} as {shown}"
            );
        }
        Err(error) => refused(&error),
    }
    match memory::parse(text) {
        Ok(bytes) => {
            assert_eq!(memory::parse(&format!("{bytes}b")), Ok(bytes));
            words(&memory::show(bytes), 20, "");
        }
        Err(error) => refused(&error),
    }
    match indices::parse(text) {
        Ok(list) => {
            assert!((1..=65_536).contains(&list.len()));
            assert_eq!(
                indices::parse(&indices::show(&list)).as_ref(),
                Ok(&list),
                "{text}"
            );
        }
        Err(error) => refused(&error),
    }
    match Money::parse(text) {
        Ok(money) => {
            assert!((0..=1_000_000_000_000_000_000).contains(&money.0));
            assert_eq!(Money::parse(&money.exact()), Ok(money), "{}", money.exact());
        }
        Err(error) => refused(&error),
    }
    match AccountName::parse(text) {
        Ok(name) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
            assert!(name.to_string().chars().all(plain));
            assert_eq!(AccountName::parse(&name.to_string()).ok(), Some(name));
        }
        Err(error) => refused(&error),
    }
    match Order::parse(text) {
        Ok(Order::Question { hold, .. }) => {
            assert!(hold.is_none_or(|seconds| seconds > 0.0 && seconds.is_finite()));
        }
        Ok(Order::Use(number) | Order::Drop(number) | Order::Part { key: number, .. }) => {
            amount(held_quote::expiry(&number).expect("a number"))
        }
        Err(error) => refused(&no_order(&error)),
    }
}

/// A view whose words are its own.
fn view(kind: &'static Kind) -> View<'static> {
    View {
        kind,
        classes: [Class::Deadline, Class::Dedicated],
        host: "host",
        user: "alice",
        word: "word",
        now: super::NOW,
        news: 0,
        time: |_| "12:00".to_string(),
    }
}

/// How many elements and attributes a page has: what somebody typed adds none.
fn marks(page: &str) -> [usize; 4] {
    ['<', '>', '"', '\''].map(|mark| page.matches(mark).count())
}

/// Fields of the page's form, with \u{1} between two, each as `name=value`; an offer that is taken; and the page that shows it again.
pub fn web_form(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let fields: Fields = (text.split('\u{1}'))
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let mut typed = form::typed(&fields);
    if let Some(offer) = fields.get("offer") {
        let before = typed.clone();
        match form::take(&mut typed, offer) {
            Ok(()) => assert_eq!(
                (&typed.script, &typed.name, &typed.queue, &typed.directory),
                (
                    &before.script,
                    &before.name,
                    &before.queue,
                    &before.directory
                )
            ),
            Err(error) => refused(&error),
        }
    }
    for kind in KINDS {
        let said = match form::checked(&typed, kind) {
            Ok(wanted) => {
                submittable(&wanted);
                // What is right is right when it comes once more.
                assert_eq!(form::checked(&wanted, kind).as_ref(), Ok(&wanted));
                assert!(form::checked_terms(&typed, kind).is_ok());
                Vec::new()
            }
            Err(errors) => {
                assert!(!errors.is_empty());
                errors.iter().for_each(|error| refused(error));
                errors
            }
        };
        shown(&typed, kind, said);
    }
}

/// Every value is one argument, and no option.
fn submittable(wanted: &Submission) {
    for value in [
        &wanted.name,
        &wanted.estimate,
        &wanted.deadline,
        &wanted.budget,
        &wanted.penalty,
        &wanted.processors,
        &wanted.queue,
        &wanted.directory,
    ] {
        assert!(!value.starts_with('-'), "{value:?} is an option");
        assert!(
            !value.chars().any(char::is_control),
            "{value:?} ends a line"
        );
    }
    assert!(
        wanted
            .libra_options()
            .iter()
            .all(|option| option.starts_with("--") && option.contains('='))
    );
    assert!(wanted.directory.starts_with('/') && !wanted.script.contains('\0'));
    assert!(wanted.script.starts_with("#!") && wanted.script.ends_with('\n'));
    assert!(wanted.script.len() <= form::LARGEST_SCRIPT + 16);
}

/// The page, with these problems or none, has the elements and attributes of one with nothing typed, and the script in it is the one that was
/// typed.
fn shown(typed: &Submission, kind: &'static Kind, wrong: Vec<FieldError>) {
    let view = view(kind);
    let plain = |error: &FieldError| FieldError {
        text: "x".to_string(),
        ..error.clone()
    };
    let (said, bare) = match wrong.is_empty() {
        true => (Said::Nothing, Said::Nothing),
        false => {
            let bare = wrong.iter().map(plain).collect();
            (Said::Wrong(wrong), Said::Wrong(bare))
        }
    };
    let body = pages::submit::body(&view, typed, "once", &said, true, &[]);
    let empty = Submission {
        soft: typed.soft,
        ..Submission::default()
    };
    let bare = pages::submit::body(&view, &empty, "once", &bare, true, &[]);
    // A problem of several lines has a break between two.
    let breaks = (body.0).matches("<br>").count();
    let [less, greater, quotes, single] = marks(&bare.0);
    // Within the script an apostrophe is one: no attribute here stands between two.
    let single = single + typed.script.matches('\'').count();
    assert_eq!(
        marks(&body.0),
        [less + breaks, greater + breaks, quotes, single]
    );
    let script = (body.0)
        .split_once("<textarea")
        .and_then(|(_, rest)| rest.split_once(">\n"))
        .and_then(|(_, rest)| rest.split_once("</textarea>"))
        .map(|(script, _)| {
            script
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#13;", "\r")
                .replace("&amp;", "&")
        });
    assert_eq!(
        script.as_deref(),
        Some(typed.script.as_str()),
        "what was typed is shown again"
    );
    assert!(
        (pages::page(&view, pages::PageKind::Submit, "Submit", None, &body).0).len()
            < 20_000 + 12 * typed.script.len() + 60 * 4096
    );
}
