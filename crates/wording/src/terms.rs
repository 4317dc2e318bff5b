//! The list of terms that users give with `-W`: `deadline=20,budget=15,estimate=10`.
//!
//! The same list on qsub's and on Libra's own command line, so it is read in one place.

use libra_core::decision::class::Class;
use libra_core::decision::class_defaults::{
    Basis, ClassDefaults, ClassLine, Disagreement, GivenClass,
};
use libra_core::decision::job::{DeadlineType, OutOfRange, Terms};
use libra_core::decision::service::{self, ClassError};
use libra_units::{cut, duration};

/// The keys that every batch system knows, as users write them.
pub const KEYS: [&str; 5] = [
    "estimate",
    "deadline",
    "budget",
    "deadline_type",
    "penalty_rate",
];

/// The key of the class of service.
pub const CLASS: &str = "class";

/// All keys of a batch system that has classes of service.
pub const KEYS_WITH_CLASS: [&str; 6] = [KEYS[0], KEYS[1], KEYS[2], KEYS[3], KEYS[4], CLASS];

/// Keys of a start that is planned, which cannot be asked for yet; they are known to be refused by name.
const STARTS: [&str; 3] = ["start", "begin", "start_time"];

/// The key that a text names: in any case, with `-` for `_` if one likes.
pub fn key(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase().replace('-', "_");
    KEYS.into_iter().find(|known| *known == lower)
}

/// The same with that of the class of service.
pub fn key_with_class(text: &str) -> Option<&'static str> {
    key(text).or_else(|| text.eq_ignore_ascii_case(CLASS).then_some(CLASS))
}

/// Terms of which some may not have been given yet.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PartialTerms {
    /// Seconds.
    pub estimate: Option<f64>,
    /// Seconds after submission.
    pub deadline: Option<f64>,
    /// Credits; infinite for `unlimited`.
    pub budget: Option<f64>,
    /// Hard or soft.
    pub deadline_type: Option<DeadlineType>,
    /// Credits per second of delay.
    pub penalty_rate: Option<f64>,
    /// The class of service.
    pub class: Option<Class>,
}

/// Terms of which none is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// They.
    pub terms: Terms,
    /// What gave them their class; None if they named it, or nobody did.
    pub class_line: Option<ClassLine>,
}

/// What is wrong with a list of terms.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TermsError {
    /// Not of the form key=value.
    #[error(
        "'{0}' is not of the form key=value; the keys are estimate, deadline, budget, deadline_type, penalty_rate, class"
    )]
    Form(String),
    /// Not one of the keys.
    #[error(
        "there is no '{0}'; the keys are estimate, deadline, budget, deadline_type, penalty_rate, class"
    )]
    UnknownKey(String),
    /// Given twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// A value that cannot be read.
    #[error("{key}: {problem}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// A value is needed and was not given.
    #[error("{0} is missing; give it as {0}=…")]
    Missing(&'static str),
    /// A start at a later time, of whatever class.
    #[error(
        "{0}: a start at a later time cannot be planned yet: an immediate or dedicated job starts now or is refused, and one with a deadline has its share from now on; leave it out, or submit the job when it is to start"
    )]
    PlannedStart(&'static str),
    /// A class of service, where there are deadlines alone.
    #[error(
        "class={}: there are deadlines alone here; leave it out, and the job is judged by its deadline",
        .0.word()
    )]
    ClassElsewhere(Class),
    /// Best effort, of a batch system's job.
    #[error(
        "class=best-effort: in a batch system a job without terms is promised nothing and gets what the others leave; leave out the class and all other terms"
    )]
    WithoutTerms,
    /// The class cannot be had.
    #[error("{}", super::errors::class(.0))]
    Class(ClassError),
    /// It names no class, and the site says two.
    #[error("{}", super::errors::disagreement(.0, &|term| format!("{term}=…")))]
    Disagreement(Disagreement),
    /// What is wrong with terms of a class that they did not name.
    #[error("{error} ({})", super::errors::class_by(*.class, .line))]
    InGivenClass {
        /// What is wrong.
        error: Box<TermsError>,
        /// The class.
        class: Class,
        /// What gave it.
        line: ClassLine,
    },
    /// A value is out of range.
    #[error("{}", super::refusal::out_of_range(.0))]
    OutOfRange(OutOfRange),
}

impl From<OutOfRange> for TermsError {
    fn from(error: OutOfRange) -> TermsError {
        TermsError::OutOfRange(error)
    }
}

/// Reads the part of a value that only the caller can: a deadline given as a clock time.
pub type ReadDeadline<'a> = &'a dyn Fn(&str) -> Result<f64, String>;

/// What stands behind a deadline that counts from when its job may start, and not from its submission.
pub const FROM_START: &str = "/start";

/// A deadline without what says from when it counts, and whether it counts from when its job may start.
pub fn from_start(text: &str) -> (&str, bool) {
    let text = text.trim();
    let at = text.len().checked_sub(FROM_START.len());
    match at.and_then(|at| text.split_at_checked(at)) {
        Some((deadline, end)) if end.eq_ignore_ascii_case(FROM_START) => (deadline, true),
        _ => (text, false),
    }
}

/// Reads a deadline that is a duration.
///
/// # Errors
/// When it is not one.
pub fn deadline_as_duration(text: &str) -> Result<f64, String> {
    if let (deadline, true) = from_start(text) {
        return Err(format!(
            "'{}' counts from when a job may start, which jobs of OpenPBS's qsub alone can ask for; give '{}', which counts from the submission",
            cut(text),
            cut(deadline)
        ));
    }
    duration::parse(text).map_err(|error| error.to_string())
}

/// Reads a list of terms. Nothing is required here, see [`PartialTerms::complete`].
///
/// # Errors
/// The first entry that cannot be taken.
pub fn parse(text: &str, deadline: ReadDeadline<'_>) -> Result<PartialTerms, TermsError> {
    let mut terms = PartialTerms::default();
    for entry in text.split(',') {
        let entry = entry.trim();
        let (key, value) = entry
            .split_once('=')
            .ok_or_else(|| TermsError::Form(cut(entry)))?;
        terms.set(key.trim(), value.trim(), deadline)?;
    }
    Ok(terms)
}

impl PartialTerms {
    /// Takes one key and its value.
    ///
    /// # Errors
    /// When the key is unknown, already given, or the value cannot be read.
    pub fn set(
        &mut self,
        key: &str,
        value: &str,
        deadline: ReadDeadline<'_>,
    ) -> Result<(), TermsError> {
        let Some(key) = self::key(key) else {
            return self.set_other(key, value);
        };
        let problem = |problem: String| TermsError::Value { key, problem };
        match key {
            "estimate" => {
                let seconds = duration::parse(value).map_err(|e| problem(e.to_string()))?;
                once(key, &mut self.estimate, seconds)
            }
            "deadline" => once(key, &mut self.deadline, deadline(value).map_err(problem)?),
            "budget" => {
                let amount = if value.eq_ignore_ascii_case("unlimited") {
                    f64::INFINITY
                } else {
                    amount(value).map_err(problem)?
                };
                once(key, &mut self.budget, amount)
            }
            "deadline_type" => {
                let kind = match value.to_ascii_lowercase().as_str() {
                    "hard" => DeadlineType::Hard,
                    "soft" => DeadlineType::Soft,
                    _ => {
                        let given = cut(value);
                        return Err(problem(format!("'{given}' is neither 'hard' nor 'soft'")));
                    }
                };
                once(key, &mut self.deadline_type, kind)
            }
            _ => once(key, &mut self.penalty_rate, amount(value).map_err(problem)?),
        }
    }

    /// What no batch system knows.
    fn set_other(&mut self, key: &str, value: &str) -> Result<(), TermsError> {
        let lower = key.to_ascii_lowercase().replace('-', "_");
        if let Some(start) = STARTS.into_iter().find(|known| *known == lower) {
            return Err(TermsError::PlannedStart(start));
        }
        if lower != CLASS {
            return Err(TermsError::UnknownKey(cut(key)));
        }
        let class = Class::of_word(value).ok_or_else(|| TermsError::Value {
            key: CLASS,
            problem: format!(
                "'{}' is no class of service; there are {}",
                cut(value),
                Class::ALL.map(Class::word).join(", ")
            ),
        })?;
        once(CLASS, &mut self.class, class)
    }

    /// These terms, with those of `other` where these say nothing.
    pub fn or(self, other: PartialTerms) -> PartialTerms {
        PartialTerms {
            estimate: self.estimate.or(other.estimate),
            deadline: self.deadline.or(other.deadline),
            budget: self.budget.or(other.budget),
            deadline_type: self.deadline_type.or(other.deadline_type),
            penalty_rate: self.penalty_rate.or(other.penalty_rate),
            class: self.class.or(other.class),
        }
    }

    /// Terms that a batch system can judge; a job of best effort has none there. `site`: see [`ClassDefaults::in_batch`].
    ///
    /// # Errors
    /// As [`PartialTerms::complete_by`].
    pub fn complete_in_batch(
        self,
        site: &ClassDefaults,
        basis: Basis<'_>,
    ) -> Result<Completed, TermsError> {
        match self.class {
            Some(Class::BestEffort) => Err(TermsError::WithoutTerms),
            _ => self.complete_by(site, basis),
        }
    }

    /// Terms where there is no other class than that of deadlines.
    ///
    /// # Errors
    /// What is missing or out of range; a class of service other than that of deadlines.
    pub fn complete(self) -> Result<Terms, TermsError> {
        if let Some(class) = self.class.filter(|class| !class.is_default()) {
            return Err(TermsError::ClassElsewhere(class));
        }
        self.complete_in_class(Class::Deadline)
    }

    /// Terms that can be judged where there are all classes. `site`: its classes of jobs that name none.
    ///
    /// # Errors
    /// What is missing for its class, out of range, or of no use in it; and what made it of that class.
    pub fn complete_by(
        self,
        site: &ClassDefaults,
        basis: Basis<'_>,
    ) -> Result<Completed, TermsError> {
        let given = (site.class_of(self.class, basis)).map_err(TermsError::Disagreement)?;
        let GivenClass { class, line } = given;
        match (self.complete_in_class(class), line) {
            (Ok(terms), class_line) => Ok(Completed { terms, class_line }),
            (Err(error @ (TermsError::Missing(_) | TermsError::Class(_))), Some(line)) => {
                let error = Box::new(error);
                Err(TermsError::InGivenClass { error, class, line })
            }
            (Err(error), _) => Err(error),
        }
    }

    fn complete_in_class(self, class: Class) -> Result<Terms, TermsError> {
        let given = |key: &'static str, value: Option<f64>, none: f64| match value {
            Some(value) => Ok(value),
            None if !class.needs().contains(&key) => Ok(none),
            None if class.is_default() => Err(TermsError::Missing(key)),
            None => Err(TermsError::Class(ClassError::Needs { class, term: key })),
        };
        let terms = Terms {
            estimate: given("estimate", self.estimate, service::NONE)?,
            deadline: given("deadline", self.deadline, service::NONE)?,
            budget: given("budget", self.budget, f64::INFINITY)?,
            deadline_type: self.deadline_type.unwrap_or_default(),
            penalty_rate: self.penalty_rate.unwrap_or(0.0),
            class,
        };
        terms.check()?;
        service::check_terms(&terms).map_err(TermsError::Class)?;
        Ok(terms)
    }
}

fn once<T>(key: &'static str, place: &mut Option<T>, value: T) -> Result<(), TermsError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(TermsError::Twice(key)),
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    // Of 400 digits a budget without a limit would be made.
    text.parse()
        .ok()
        .filter(|credits: &f64| plain && credits.is_finite())
        .ok_or_else(|| format!("'{}' is not a number of credits", cut(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PartialTerms, TermsError> {
        parse(text, &deadline_as_duration)
    }

    #[test]
    fn no_number_of_digits_is_a_budget_without_a_limit() {
        for key in ["budget", "penalty_rate"] {
            let error = read(&format!("{key}={}", "1".repeat(310))).expect_err("too large");
            assert!(
                error.to_string().contains("is not a number of credits"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_papers_own_line() {
        let terms = read("deadline=20,budget=15,estimate=10")
            .and_then(PartialTerms::complete)
            .expect("the line of section 4.2");
        assert_eq!(terms, Terms::hard(10.0, 20.0, 15.0));
    }

    #[test]
    fn a_deadline_says_from_when_it_counts() {
        for (text, expected) in [
            ("2h", ("2h", false)),
            (" 2h/START ", ("2h", true)),
            ("/start", ("", true)),
            ("2h/started", ("2h/started", false)),
            ("start", ("start", false)),
            ("\u{fc}start", ("\u{fc}start", false)),
            ("", ("", false)),
        ] {
            assert_eq!(from_start(text), expected, "{text:?}");
        }
        let error = read("deadline=2h/start,estimate=1").expect_err("not here");
        let error = error.to_string();
        assert!(
            error.starts_with("deadline: '2h/start' counts from "),
            "{error}"
        );
    }

    #[test]
    fn every_key_and_every_form() {
        let terms = read("Deadline = 1h30m , budget=unlimited,estimate=00:10:00,deadline-type=SOFT,penalty_rate=0.5")
            .and_then(PartialTerms::complete)
            .expect("all keys");
        assert_eq!(terms.deadline, 5400.0);
        assert_eq!(terms.budget, f64::INFINITY);
        assert_eq!(terms.estimate, 600.0);
        assert_eq!(terms.deadline_type, DeadlineType::Soft);
        assert_eq!(terms.penalty_rate, 0.5);
    }

    #[test]
    fn a_class_needs_what_it_needs() {
        let complete = |text: &str| {
            let given = read(text)?.complete_by(&ClassDefaults::default(), Basis::default());
            given.map(|given| given.terms)
        };
        let left = complete("class=best-effort").expect("it needs nothing");
        assert_eq!(left.class, Class::BestEffort);
        assert!(!left.has_deadline() && !left.has_estimate() && left.budget == f64::INFINITY);
        let now = complete("Class=IMMEDIATE,estimate=10,budget=15").expect("without a deadline");
        assert_eq!((now.class, now.has_deadline()), (Class::Immediate, false));
        let own = complete("class=dedicated,estimate=10,deadline=20,budget=15").expect("all");
        assert_eq!((own.class, own.deadline), (Class::Dedicated, 20.0));
        let left_over = ClassDefaults {
            default: Class::BestEffort,
            ..ClassDefaults::default()
        };
        let default = read("estimate=10").and_then(|t| t.complete_by(&left_over, Basis::default()));
        assert_eq!(
            default.map(|given| (given.terms.class, given.class_line)),
            Ok((Class::BestEffort, Some(ClassLine::Default)))
        );
        for (text, part) in [
            (
                "class=urgent",
                "there are deadline, dedicated, immediate, best-effort",
            ),
            ("class=dedicated,deadline=20,budget=15", "estimate"),
            ("class=dedicated,estimate=20,budget=15", "deadline"),
            ("class=immediate,budget=15", "estimate"),
            ("class=immediate,estimate=10", "budget"),
            (
                "class=immediate,estimate=10,budget=1,start=@17:30",
                "cannot be planned yet",
            ),
            ("class=best-effort,penalty-rate=1", "penalty"),
            ("class=immediate,class=deadline", "twice"),
            (
                "class=deadline,budget=15,estimate=10",
                "deadline is missing",
            ),
        ] {
            let error = complete(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn in_a_batch_system_all_but_best_effort_is_a_term() {
        let in_batch = |text: &str| {
            let given =
                read(text)?.complete_in_batch(&ClassDefaults::default(), Basis::default())?;
            assert_eq!(given.class_line, None, "{text}");
            Ok(given.terms)
        };
        let line = "deadline=20,budget=15,estimate=10";
        let with = |class: &str| -> Result<Terms, TermsError> {
            in_batch(&format!("{line},class={class}"))
        };
        for class in [Class::Deadline, Class::Dedicated, Class::Immediate] {
            let terms = Terms {
                class,
                ..Terms::hard(10.0, 20.0, 15.0)
            };
            assert_eq!(with(class.word()), Ok(terms));
        }
        assert_eq!(with("best-effort"), Err(TermsError::WithoutTerms));
        let now = in_batch("class=immediate,estimate=5,budget=9").expect("it needs no deadline");
        assert!(!now.has_deadline());
    }

    #[test]
    fn a_class_that_the_site_gave_is_said_with_its_line() {
        let site = ClassDefaults {
            several: Some(Class::Dedicated),
            queues: [
                ("now.q".to_string(), Class::Immediate),
                ("long".to_string(), Class::Dedicated),
            ]
            .into(),
            ..ClassDefaults::default()
        };
        let complete = |text: &str, queues: &[&str], several| {
            read(text)?.complete_in_batch(&site, Basis { queues, several })
        };
        let all = "deadline=20,budget=15,estimate=10";
        let given = complete(all, &["long"], false).expect("complete");
        assert_eq!(given.terms.class, Class::Dedicated);
        assert_eq!(given.class_line, Some(ClassLine::Queue("long".to_string())));
        for (text, queues, several, said) in [
            (
                "budget=15,estimate=10",
                &["long"][..],
                false,
                "deadline is missing; class=dedicated needs it: that is what it is promised; give it as deadline=… \
                 (class=dedicated by class.queues.long of the site's configuration, as it names none)",
            ),
            (
                "budget=15",
                &["now.q"],
                false,
                "estimate is missing; class=immediate needs it: so long it has its processors, and so much it costs; give it as estimate=… \
                 (class=immediate by class.queues.\"now.q\" of the site's configuration, as it names none)",
            ),
            (
                "budget=15,deadline=10",
                &[],
                true,
                "estimate is missing; class=dedicated needs it: whether it ends by its deadline cannot be told without; give it as estimate=… \
                 (class=dedicated by class.several of the site's configuration, as it names none)",
            ),
            // What it named itself needs no line.
            (
                "budget=15,deadline=10,class=deadline",
                &["long"],
                true,
                "estimate is missing; give it as estimate=…",
            ),
            (
                all,
                &["work", "long"],
                false,
                "it may go to work or to long and names no class: in work it has class=deadline, in long class=dedicated \
                 ([class] of the site's configuration); name a class as class=…, or one of them alone",
            ),
        ] {
            let error = complete(text, queues, several).expect_err(text).to_string();
            assert_eq!(error, said, "{text}");
        }
        assert!(complete(all, &["work", "long"], true).is_ok());
    }

    #[test]
    fn where_there_are_deadlines_alone_a_class_is_refused_by_name() {
        let line = "deadline=20,budget=15,estimate=10";
        let with =
            |class: &str| read(&format!("{line},class={class}")).and_then(PartialTerms::complete);
        for class in ["dedicated", "immediate", "best-effort"] {
            let error = with(class).expect_err(class).to_string();
            assert!(
                error.contains(class) && error.contains("deadlines alone"),
                "{error}"
            );
        }
        assert_eq!(with("deadline"), Ok(Terms::hard(10.0, 20.0, 15.0)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("", "key=value"),
            ("deadline", "key=value"),
            ("deadline=20,", "key=value"),
            ("colour=blue", "there is no 'colour'"),
            ("budget=1,budget=2", "twice"),
            ("budget=-1", "number of credits"),
            ("budget=nan", "number of credits"),
            ("deadline=soon", "HH:MM:SS"),
            ("deadline_type=maybe", "neither"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, part) in [
            ("deadline=20,budget=15", "estimate is missing"),
            ("deadline=20,budget=15,estimate=0", "estimate is 0"),
        ] {
            let error = read(text)
                .and_then(PartialTerms::complete)
                .expect_err(text)
                .to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
