//! What the book, its quotes and the line of the commitment could not do, in sentences.

use super::refusal::{amounts, out_of_range, reason};
use libra_core::book::held_quote::{Difference, NoOrder, QuoteError, Value};
use libra_core::book::{BookError, Named, OLDEST_RECORDS, SNAPSHOT_VERSION, Unsound, Untaken};
use libra_core::commitment::CommitmentError;
use libra_core::decision::class::Class;
use libra_core::decision::class_defaults::{ClassLine, Disagreement};
use libra_core::decision::job::DeadlineType;
use libra_core::decision::service::ClassError;
use libra_units::{credits, cut, duration, memory, toml_key};

/// Why a class of service cannot be had, for who writes terms as a list.
pub fn class(error: &ClassError) -> String {
    class_as(error, &|term| format!("{term}=…"))
}

/// The same for who writes them otherwise. `write`: a term as it is given.
pub fn class_as(error: &ClassError, write: &dyn Fn(&str) -> String) -> String {
    match *error {
        ClassError::Needs { class, term } => {
            let why = match (class, term) {
                (Class::Dedicated, "estimate") => {
                    ": whether it ends by its deadline cannot be told without"
                }
                (Class::Dedicated, "deadline") => ": that is what it is promised",
                (Class::Immediate, "estimate") => {
                    ": so long it has its processors, and so much it costs"
                }
                _ => "",
            };
            format!(
                "{term} is missing; class={} needs it{why}; give it as {}",
                class.word(),
                write(term)
            )
        }
        ClassError::NeedsEstimateForPrice => "estimate is missing; a job of class=best-effort costs by what it uses on this site (class.best-effort-price), at most what its estimate would; give it as estimate=…".to_string(),
        ClassError::NoPenalty(class) => format!(
            "class={} promises no deadline here, so there is no penalty for missing one; leave deadline_type and penalty_rate out",
            class.word()
        ),
        ClassError::NotOffered(class) => format!(
            "class={} is not offered here (section [class] of the site's configuration); leave it out, or ask for another one",
            class.word()
        ),
        ClassError::Waits(class) => format!(
            "class={} starts at once or is refused, and this job may not start yet (it is held, has a start time, or waits for other jobs); leave that out, or the class",
            class.word()
        ),
        ClassError::NotHeld(class) => format!(
            "a quote cannot be held for class={}: {}; ask without --hold",
            class.word(),
            match class {
                Class::BestEffort => "nothing is promised that could be held",
                _ => "it starts now or is refused, and never later",
            }
        ),
    }
}

/// The line of the site's configuration that gave a job its class: `class.several`.
pub fn class_key(line: &ClassLine) -> String {
    match line {
        ClassLine::Default => "class.default".to_string(),
        ClassLine::Several => "class.several".to_string(),
        ClassLine::Queue(queue) => format!("class.queues.{}", toml_key(queue)),
    }
}

/// Why a job is of a class that it did not name.
pub fn class_by(class: Class, line: &ClassLine) -> String {
    format!(
        "class={} by {} of the site's configuration, as it names none",
        class.word(),
        class_key(line)
    )
}

/// Why a job that names no class has none. `write`: a term as it is given.
pub fn disagreement(between: &Disagreement, write: &dyn Fn(&str) -> String) -> String {
    let Disagreement { first, other } = between;
    format!(
        "it may go to {} or to {} and names no class: in {} it has class={}, in {} class={} ([class] of the site's configuration); name a class as {}, or one of them alone",
        cut(&first.0),
        cut(&other.0),
        cut(&first.0),
        first.1.word(),
        cut(&other.0),
        other.1.word(),
        write("class")
    )
}

/// Why the book cannot do it. A node is named by its index.
pub fn book(error: &BookError) -> String {
    match error {
        BookError::Refused(refusal) => {
            let why = refusal.reason.named(|node| format!("node {node}"));
            format!("refused: {}", reason(&why))
        }
        BookError::UnknownJob(id) => no_job(id),
        BookError::UnknownToken(token) => no_job(&format!("with token {token}")),
        BookError::UnknownNode(node) => format!("there is no node '{node}'"),
        BookError::NotOnNode { id, node } => format!("job '{id}' has no part on node '{node}'"),
        BookError::Unsound(unsound) => match unsound {
            Unsound::OnNoNode => "it is on no node",
            Unsound::NoId => "it has no id, and only a reservation has none",
            Unsound::Chunks => "the chunks of its places are not as many as it asked for",
            Unsound::LargeArray => "the array has too many processors",
            Unsound::ScatteredArray => {
                "an array whose jobs are scattered over nodes cannot have a deadline; submit its jobs one by one"
            }
        }
        .to_string(),
        BookError::IdTaken(id) => taken(id),
        BookError::TokenTaken(token) => taken(&format!("token {token}")),
        BookError::Name { what, bytes } => {
            let what = match what {
                Named::Node => "node name",
                Named::Job => "job id",
            };
            format!(
                "a {what} has 1 to 255 bytes and no control characters, this one has {bytes} bytes"
            )
        }
        BookError::OutOfRange(error) => out_of_range(error),
        BookError::Time { what, value } => {
            format!("{what} is {value}, expected seconds, 0 or more")
        }
        BookError::SnapshotVersion(version) => {
            no_snapshot(&format!("it has version {version}, expected {SNAPSHOT_VERSION}"))
        }
        BookError::TooOld(age) => no_snapshot(&format!(
            "it is {age:.0} s old, expected at most {OLDEST_RECORDS:.0} s"
        )),
    }
}

fn no_job(what: &str) -> String {
    format!("there is no job {what}; it has ended, was cancelled, or its reservation expired")
}

fn taken(what: &str) -> String {
    format!("the id '{what}' is taken by another job")
}

/// Why a snapshot of a book cannot be read.
pub fn no_snapshot(problem: &str) -> String {
    format!("the snapshot cannot be read: {problem}")
}

/// A record that was not taken, and why.
pub fn untaken(record: &Untaken) -> String {
    let error = book(&record.error);
    match (record.of, &record.name) {
        (Named::Node, name) => format!("node '{}': {error}", name.as_deref().unwrap_or_default()),
        (Named::Job, Some(id)) => format!("job {id}: {error}"),
        (Named::Job, None) => format!("job without id: {error}"),
    }
}

/// Why a quote cannot be had or used.
pub fn quote(error: &QuoteError) -> String {
    match error {
        QuoteError::Unknown(number) => format!(
            "there is no quote {number} of yours: it was used or given back, or the server was restarted; ask for a new one"
        ),
        QuoteError::Expired { number, ago } => format!(
            "quote {number} expired {} ago; ask for a new one",
            duration::show(*ago)
        ),
        QuoteError::Differs {
            number,
            differences,
        } => {
            let differences: Vec<String> = differences.iter().map(difference).collect();
            format!(
                "quote {number} is for another job: {}; it is still held",
                differences.join(", ")
            )
        }
        QuoteError::NodeGone { number, node } => format!(
            "quote {number} is for node {node}, which takes no jobs now; try again, or ask for a new one"
        ),
        QuoteError::TooLong(longest) => format!(
            "a quote is held for at most {} here; ask for that or less",
            duration::show(*longest)
        ),
        QuoteError::NoSecret(problem) => format!(
            "the quote cannot be held: no random number from /dev/urandom ({problem}); tell the administrators"
        ),
        QuoteError::Never => "no quotes are held here (admission.longest-quote is 0)".to_string(),
        QuoteError::TooMany(most) => format!(
            "{most} quotes of yours are held already, the most that one user may have; use one, or give one back"
        ),
        QuoteError::Deferred => {
            "a quote is held for a job that starts at once, and this one may not start yet; ask without holding, or submit it when it can start".to_string()
        }
        QuoteError::NoPart(number) => format!(
            "there is no part {number} of an answer of yours by that key: what is too long for one message is kept for a minute, for who asked; ask again"
        ),
        QuoteError::Book(error) => book(error),
    }
}

fn difference(Difference { asked, quoted }: &Difference) -> String {
    if let (Value::Array(asked), Value::Array(quoted)) = (asked, quoted) {
        let jobs = |array: &Option<u32>| match array {
            None => "not an array".to_string(),
            Some(count) => format!("an array of {count}"),
        };
        return format!(
            "it is {} and the quote is for {}",
            jobs(asked),
            jobs(quoted)
        );
    }
    format!(
        "its {} is {} and the quote's {}",
        name(asked),
        shown(asked),
        shown(quoted)
    )
}

fn name(value: &Value) -> &str {
    match value {
        Value::Estimate(_) => "estimate",
        Value::Deadline(_) => "deadline from submission",
        Value::Budget(_) => "budget",
        Value::PenaltyRate(_) => "penalty rate",
        Value::Chunks(_) => "number of chunks or nodes",
        Value::Processors(_) => "number of processors in each",
        Value::Memory(_) => "memory",
        Value::DeadlineType(_) => "deadline type",
        Value::Class(_) => "class of service",
        Value::Scatter(_) => "placement",
        Value::Consumables(_) => "consumables",
        Value::Array(_) => "number of jobs",
        Value::Other(name, _) => name,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Estimate(seconds) | Value::Deadline(seconds) => duration::exact(*seconds),
        Value::Budget(amount) | Value::PenaltyRate(amount) => credits(*amount),
        Value::Chunks(count) | Value::Processors(count) => count.to_string(),
        Value::Memory(bytes) => memory::show(*bytes),
        Value::DeadlineType(DeadlineType::Hard) => "hard".to_string(),
        Value::DeadlineType(DeadlineType::Soft) => "soft".to_string(),
        Value::Class(class) => class.word().to_string(),
        Value::Consumables(all) => amounts(all),
        Value::Scatter(true) => "scattered".to_string(),
        Value::Scatter(false) => "free".to_string(),
        Value::Array(count) => count.map_or_else(|| "none".to_string(), |count| count.to_string()),
        Value::Other(_, value) if value.is_empty() => "none".to_string(),
        Value::Other(_, value) => cut(value),
    }
}

/// What is no order about a quote, and what would be one.
pub fn no_order(error: &NoOrder) -> String {
    match error {
        NoOrder::Time(error) => error.to_string(),
        NoOrder::NoTime => "a quote is held for more than 0 s".to_string(),
        NoOrder::Number(given) => {
            format!("'{given}' is not the number of a quote; 'libra quote --hold 5m' gives one")
        }
        NoOrder::Part(given) => {
            format!("'{given}' is not a part of an answer; 'libra quote' asks for these by itself")
        }
    }
}

/// Why a line does not say what is committed.
pub fn not_committed(error: &CommitmentError) -> String {
    let problem = match error {
        CommitmentError::Missing(key) => format!("it has no '{key}'"),
        CommitmentError::OtherVersion => "it is of another version of Libra".to_string(),
        CommitmentError::NoType(given) => format!("there is no type '{given}'"),
        CommitmentError::NoClass(given) => {
            format!("'{given}' is no class of service that anything is committed to")
        }
        CommitmentError::OutOfRange(error) => out_of_range(error),
        CommitmentError::Token(token) => format!("its token is {token}"),
        CommitmentError::NoJob => "it is for no job".to_string(),
        CommitmentError::NoPayer => "its payer is not an account".to_string(),
        CommitmentError::Value { key, value } => format!("its '{key}' is {value}"),
        CommitmentError::Chunks { planned, asked } => {
            format!("it places {planned} chunks of {asked}")
        }
        CommitmentError::NoConsumable(given) => {
            format!("'{given}' is not an amount of a consumable")
        }
        CommitmentError::NoPlace(given) => format!("'{given}' is not a place"),
        CommitmentError::NoNumber(given) => format!("'{given}' is not a number"),
    };
    unreadable(&problem)
}

/// The same of what a batch system's own part of the line has wrong.
pub fn unreadable(problem: &str) -> String {
    format!("its commitment cannot be read: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_a_quote_is_told() {
        let other = |name: &str| Value::Other("partition".into(), name.to_string());
        let differences = [
            (Value::Deadline(25.0), Value::Deadline(20.0)),
            (Value::Chunks(2), Value::Chunks(1)),
            (other("other"), other("")),
            (Value::Array(None), Value::Array(Some(3))),
        ];
        let error = QuoteError::Differs {
            number: "a-b".to_string(),
            differences: (differences.into_iter())
                .map(|(asked, quoted)| Difference { asked, quoted })
                .collect(),
        };
        assert_eq!(
            quote(&error),
            "quote a-b is for another job: its deadline from submission is 25 and the quote's 20, \
             its number of chunks or nodes is 2 and the quote's 1, its partition is other and the quote's none, \
             it is not an array and the quote is for an array of 3; it is still held"
        );
    }

    #[test]
    fn a_record_is_named_with_what_is_wrong_with_it() {
        let record = Untaken::job(Some("1.s"), BookError::Unsound(Unsound::OnNoNode));
        assert_eq!(untaken(&record), "job 1.s: it is on no node");
        let record = Untaken::job(None, BookError::TokenTaken(7));
        assert_eq!(
            untaken(&record),
            "job without id: the id 'token 7' is taken by another job"
        );
    }
}
