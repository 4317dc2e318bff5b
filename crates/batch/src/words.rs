//! What a batch system's users are told: accepted on these terms, refused and why, ended in time or not. Sentences are made here, of
//! [`super::verdict`], and never read.
//!
//! The same words everywhere; how something is asked for differs, so each batch system writes counter-offers in its
//! own way.

use super::verdict::{Fault, Problem, Refused, Verdict};
use libra_core::commitment::Commitment;
use libra_core::decision::class::Class;
use libra_core::decision::class_defaults::ClassLine;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::job::Terms;
use libra_core::decision::refusal::{Category, Reason};
use libra_units::{credits, duration, percent};
use libra_wording::{errors, refusal as wording};
use std::fmt::Write;

/// A counter-offer as it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// To be typed, with what it costs.
    pub text: String,
    /// It changes nothing that a list of terms has no word for: a deadline, a budget, or processors of one process on one node and their
    /// estimate. Whoever knows no more of jobs than that can take it.
    pub as_terms: bool,
}

impl Written {
    /// As [`wording::offer`] has it, for who asks for jobs by a list of terms.
    pub fn as_list(offer: &CounterOffer) -> Written {
        Written {
            text: wording::offer(offer),
            as_terms: match offer {
                CounterOffer::Deadline { .. } | CounterOffer::Budget { .. } => true,
                CounterOffer::Processors { chunks, .. } => *chunks == 1,
                // Not everybody who knows deadlines knows classes.
                CounterOffer::Jobs { .. } | CounterOffer::Class { .. } => false,
            },
        }
    }

    /// Puts what it costs behind it.
    pub fn add_price(&mut self, price: f64) {
        let _ = write!(self.text, " (costs {})", credits(price));
    }
}

/// How a counter-offer is written to be submitted; None if it cannot be asked for.
pub type WriteOffer<'a> = &'a dyn Fn(&CounterOffer) -> Option<Written>;

/// What is committed. `price`: for all jobs of an array. `pinned`: will it run on just these nodes?
pub fn accepted(commitment: &Commitment, price: f64, pinned: bool) -> String {
    let terms = &commitment.request.terms;
    let slots = commitment.request.shape.slots();
    let each = match slots {
        1 => "a processor".to_string(),
        slots => format!("each of {slots} processors"),
    };
    let jobs = match commitment.count {
        1 => String::new(),
        count => format!("{count} jobs, each "),
    };
    let shown = nodes(commitment);
    let on = if pinned { "on" } else { "on nodes such as" };
    if terms.class.is_whole() {
        let whole = whole_processors(commitment);
        let until = match terms.has_deadline() {
            true => format!(
                ", finished in {} at the latest",
                duration::show(terms.deadline)
            ),
            false => String::new(),
        };
        return format!(
            "accepted: {jobs}{whole} {on} {shown} from now on{until}, for {} of {} credits",
            credits(price),
            credits(terms.budget),
        );
    }
    let (verdict, condition) = match commitment.conditional {
        true => ("conditional", condition(terms.estimate)),
        false => ("accepted", String::new()),
    };
    format!(
        "{verdict}: {jobs}{} of {each} {on} {shown}, finished in {} at the latest{condition}, for {} of {} credits",
        percent(commitment.share_on("")),
        duration::show(terms.deadline),
        credits(price),
        credits(terms.budget),
    )
}

/// What is promised to a job that may not start yet. `price`: for all jobs of an array.
pub fn deferred(commitment: &Commitment, price: f64) -> String {
    let terms = &commitment.request.terms;
    let jobs = match commitment.count {
        1 => String::new(),
        count => format!("{count} jobs, each "),
    };
    let condition = match commitment.conditional {
        true => condition(terms.estimate),
        false => String::new(),
    };
    format!(
        "deferred: {jobs}finished in {}{} at the latest{condition}, for {} of {} credits at today's reckoning, if there is room when it may start: \
         it holds no share before, and is asked for anew then",
        duration::show(terms.deadline),
        match commitment.from_start {
            true => " from when it may start",
            false => "",
        },
        credits(price),
        credits(terms.budget),
    )
}

/// What is promised to a job that begins later: at the latest at `latest`, Unix time.
pub fn planned(commitment: &Commitment, latest: f64) -> String {
    let terms = &commitment.request.terms;
    format!(
        "planned: {} on {}, or elsewhere sooner: begins in {} at the latest, finished in {} at the latest, for {} of {} credits",
        whole_processors(commitment),
        nodes(commitment),
        duration::show((latest - commitment.submitted).max(0.0)),
        duration::show(terms.deadline),
        credits(commitment.price),
        credits(terms.budget),
    )
}

/// What the owner of a job is told that stands still for one with an earlier deadline. `goes_on_by`: Unix time; `late`: seconds by which it will be late if
/// its estimate holds.
pub fn stands_still(
    commitment: &Commitment,
    goes_on_by: f64,
    late: Option<f64>,
    now: f64,
) -> String {
    format!(
        "suspended for a job with an earlier deadline: it goes on in {} at the latest, and {}",
        duration::show((goes_on_by - now).max(0.0).ceil()),
        own_deadline(commitment, late)
    )
}

/// What it is told when it may go on. `late` as of [`stands_still`].
pub fn goes_on(commitment: &Commitment, late: Option<f64>) -> String {
    format!(
        "it was suspended for a job with an earlier deadline and goes on; {}",
        own_deadline(commitment, late)
    )
}

fn own_deadline(commitment: &Commitment, late: Option<f64>) -> String {
    let deadline = duration::show(commitment.request.terms.deadline);
    match late {
        None => format!("its own deadline holds, {deadline} after its submission"),
        Some(late) => format!(
            "IT WILL BE LATE, by {} or more, for its own deadline, {deadline} after its submission",
            duration::show(late.ceil())
        ),
    }
}

/// `a whole processor`, `4 whole processors`.
fn whole_processors(commitment: &Commitment) -> String {
    match commitment.request.shape.slots() {
        1 => "a whole processor".to_string(),
        slots => format!("{slots} whole processors"),
    }
}

/// Its nodes, a few of them by name.
fn nodes(commitment: &Commitment) -> String {
    let mut nodes: Vec<&str> = (commitment.places.iter())
        .map(|place| place.node.as_str())
        .collect();
    nodes.dedup();
    match nodes.len() {
        0..=4 => nodes.join(" and "),
        more => format!("{} and {} other nodes", nodes[0], more - 1),
    }
}

/// What a promise under a condition rests on, to be put behind its deadline. `estimate`: in seconds.
pub fn condition(estimate: f64) -> String {
    format!(
        " if it needs less than its estimate of {}",
        duration::show(estimate)
    )
}

/// How a batch system speaks of what is asked of it.
#[derive(Clone, Copy)]
pub struct Manner<'a> {
    /// Jobs of the array that it is about; 1 where it is none.
    pub jobs: u32,
    /// What its users call what does not fit in whole, where that is no chunk.
    pub pieces: Option<&'a str>,
    /// The class that it did not name, and what gave it.
    pub class_line: Option<(Class, &'a ClassLine)>,
    /// How an offer is asked for.
    pub write_offer: WriteOffer<'a>,
}

/// Why it is not taken, in a sentence; empty where it is taken.
pub fn reason<T, P: Problem>(verdict: &Verdict<T, P>) -> String {
    match verdict {
        Verdict::Accepted(_) | Verdict::WithBudget { .. } => String::new(),
        Verdict::Refused(refused) => match refused {
            Refused::Decided(refusal) => wording::reason(&refusal.reason),
            Refused::Uncovered(reason) => wording::reason(reason),
            Refused::Account(problem) => problem.clone(),
            Refused::Quote(error) => errors::quote(error),
            Refused::Class(error) => errors::class(error),
            Refused::DeferredTooLong => "its deadline passed before it could start".to_string(),
            Refused::HeldTooLong => "it was held past its deadline".to_string(),
            Refused::Book(error) => errors::book(error),
            Refused::Own(problem) => problem.to_string(),
        },
        Verdict::NotJudged(fault) => match fault {
            Fault::Accounts {
                problem,
                let_in: false,
            } => {
                format!("accounting unavailable; job rejected: {problem}; tell the administrators")
            }
            Fault::Accounts {
                problem,
                let_in: true,
            } => format!(
                "accounting unavailable; job accepted without a promise and without a charge: {problem}; tell the administrators"
            ),
            Fault::Own(problem) => problem.to_string(),
        },
    }
}

/// The same with its category in front, where that says more than the sentence.
pub fn headed_reason<T, P: Problem>(verdict: &Verdict<T, P>) -> String {
    let reason = reason(verdict);
    let speaks_for_itself = match verdict {
        Verdict::NotJudged(fault) => !matches!(fault, Fault::Accounts { let_in: false, .. }),
        _ => matches!(
            verdict.category(),
            None | Some(Category::Request | Category::NoTerms)
        ),
    };
    match verdict.category().filter(|_| !speaks_for_itself) {
        Some(category) => format!("refused ({}): {reason}", category.word()),
        None => reason,
    }
}

/// A line on why it is of its class, if it did not name it.
pub fn class_line(manner: &Manner<'_>) -> Option<String> {
    let (class, line) = manner.class_line?;
    Some(errors::class_by(class, line))
}

/// Why it is not taken, and where a decision has refused it on a line each what would be accepted.
pub fn not_taken<T, P: Problem>(verdict: &Verdict<T, P>, manner: &Manner<'_>) -> Vec<String> {
    let Some(refusal) = verdict.refusal() else {
        // Of money and faults the class is not the cause.
        let is_for_class = matches!(
            verdict,
            Verdict::Refused(Refused::Class(_) | Refused::Own(_))
        );
        let why = class_line(manner).filter(|_| is_for_class);
        return std::iter::once(headed_reason(verdict)).chain(why).collect();
    };
    let mut first = match (refusal.reason.clone(), manner.pieces) {
        (Reason::Chunks { asked, fit }, Some(pieces)) => {
            format!("refused ({pieces}): only {fit} of {asked} {pieces} would fit now")
        }
        _ => headed_reason(verdict),
    };
    if manner.jobs > 1 {
        let _ = write!(first, " (all {} jobs of the array together)", manner.jobs);
    }
    let offers: Vec<Written> = (refusal.counter_offers.iter())
        .filter_map(manner.write_offer)
        .collect();
    let mut lines = vec![first];
    lines.extend(class_line(manner));
    if offers.is_empty() {
        lines.push(
            "changing the deadline, the budget or the number of processors alone would not be enough now"
                .to_string(),
        );
    }
    lines.extend(offers.iter().enumerate().map(|(index, offer)| {
        let before = match index {
            0 => "accepted now would be",
            _ => "                   or",
        };
        format!("{before}: {}", offer.text)
    }));
    lines
}

/// As a batch system shows it, where others speak as well: with the name of who says it before each line.
pub fn signed(lines: &[String]) -> String {
    let lines: Vec<String> = (lines.iter())
        .map(|line| format!("libra: {line}"))
        .collect();
    lines.join("\n")
}

/// A text in at most so many bytes: its first lines, each whole or shortened, and `rest` as the last line where something is left out.
pub fn within(text: &str, longest: usize, rest: &str) -> String {
    if text.len() <= longest {
        return text.to_string();
    }
    let mut kept = String::new();
    let room = longest.saturating_sub(rest.len() + 1);
    for line in text.lines() {
        // One that would leave no room for others.
        let shown = match line.len() > room / 2 {
            true => format!(
                "{}…",
                &line[..whole_characters(line, (room / 2).saturating_sub(3))]
            ),
            false => line.to_string(),
        };
        if kept.len() + shown.len() + 1 > room {
            break;
        }
        kept.push_str(&shown);
        kept.push('\n');
    }
    kept.push_str(rest);
    kept
}

/// So many bytes of a text at most, of whole characters.
pub(crate) fn whole_characters(text: &str, longest: usize) -> usize {
    let end = (0..=longest.min(text.len())).rfind(|end| text.is_char_boundary(*end));
    end.unwrap_or(0)
}

/// When a job is due, so many seconds after its submission.
pub fn due(terms: &Terms, elapsed: f64) -> String {
    match terms.has_deadline() {
        true => format!("due in {}", duration::show(terms.deadline_after(elapsed))),
        false => "without a deadline".to_string(),
    }
}

/// Tells whether the deadline was met. `took`: seconds from submission to end.
pub fn met_or_missed(commitment: &Commitment, took: f64) -> String {
    if !commitment.request.terms.promises_end() {
        return "is done".to_string();
    }
    let delay = took - commitment.request.terms.deadline;
    let conditional = match commitment.conditional {
        true => ", which was shorter than its estimate,",
        false => "",
    };
    if delay <= 0.0 {
        "met its deadline".to_string()
    } else if delay < 1.0 {
        let delay = (delay * 1000.0).max(1.0);
        format!("missed its deadline{conditional} by {delay:.0} ms")
    } else {
        format!(
            "missed its deadline{conditional} by {}",
            duration::show(delay)
        )
    }
}

/// The same of a job that failed by itself: in time, but no deadline was met by it.
pub fn failed(commitment: &Commitment, took: f64) -> String {
    let terms = &commitment.request.terms;
    match took <= terms.deadline {
        true if !terms.promises_end() => "failed".to_string(),
        true => "failed, in time".to_string(),
        false => format!("failed, and {}", met_or_missed(commitment, took)),
    }
}

/// What of the price is paid back for a delay, to be put behind it; empty where nothing is.
pub fn paid_back(commitment: &Commitment, took: f64) -> String {
    let terms = &commitment.request.terms;
    match (took - terms.deadline).max(0.0) * terms.penalty_rate {
        paid if paid > 0.0 => format!(", of which {} are paid back", credits(paid)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::NotTaken;
    use libra_core::decision::refusal::Refusal;
    use libra_core::decision::service::ClassError;
    use std::convert::Infallible;

    #[test]
    fn a_text_that_is_too_long_ends_after_a_line() {
        let rest = "... (and so on)";
        assert_eq!(within("one\ntwo", 7, rest), "one\ntwo");
        assert_eq!(within("one\ntwo\nthree\nfour", 16, rest), rest);
        let offers = format!("why\n{}\nlast", vec!["an offer"; 200].join("\n"));
        let shown = within(&offers, 1000, rest);
        assert!(shown.len() <= 1000 && shown.len() > 980, "{}", shown.len());
        assert!(shown.starts_with("why\nan offer\n"), "{shown}");
        assert!(shown.ends_with(&format!("an offer\n{rest}")), "{shown}");
        for letter in ["x", "é", "€", "\u{1f40e}"] {
            let long = format!("{}\nan offer\nanother", letter.repeat(999));
            let shown = within(&long, 1000, rest);
            assert!(shown.len() <= 1000, "{}", shown.len());
            // Of a long first line the offers are still seen.
            let expected = format!("{letter}…\nan offer\nanother\n{rest}");
            assert!(shown.ends_with(&expected), "{shown}");
        }
    }

    fn decided(counter_offers: Vec<CounterOffer>) -> NotTaken<Infallible> {
        let reason = Reason::Chunks { asked: 4, fit: 3 };
        Verdict::Refused(Refused::Decided(Box::new(Refusal {
            reason,
            counter_offers,
        })))
    }

    #[test]
    fn a_promise_under_a_condition_says_so_from_the_first_word_on() {
        let line = "v=1:token=17:submitted=0:estimate=20:deadline=10:budget=50:type=hard:penalty=0:price=22:\
             chunks=1:processors=1:memory=0:scatter=0:count=1:conditional=1:at=n1*1*1";
        let commitment = Commitment::parse(line).expect("ours");
        assert_eq!(
            accepted(&commitment, 22.0, true),
            "conditional: 100 % of a processor on n1, finished in 10 s at the latest if it needs less than its estimate of 20 s, \
             for 22 of 50 credits"
        );
        assert_eq!(met_or_missed(&commitment, 10.0), "met its deadline");
        assert_eq!(
            met_or_missed(&commitment, 12.0),
            "missed its deadline, which was shorter than its estimate, by 2 s"
        );
    }

    #[test]
    fn each_line_of_a_refusal_is_signed_where_others_speak_as_well() {
        let offers = vec![
            CounterOffer::Budget { budget: 10.5 },
            CounterOffer::Deadline {
                deadline: 30.0,
                price: 9.0,
            },
        ];
        let manner = Manner {
            jobs: 2,
            pieces: None,
            class_line: None,
            write_offer: &|offer| Some(Written::as_list(offer)),
        };
        assert_eq!(
            signed(&not_taken(&decided(offers), &manner)),
            "libra: refused (chunks): only 3 of its 4 chunks would fit now (all 2 jobs of the array together)\n\
             libra: accepted now would be: budget=10.5\n\
             libra:                    or: deadline=30 (costs 9)"
        );
        let in_nodes = Manner {
            jobs: 1,
            pieces: Some("nodes"),
            class_line: None,
            write_offer: &|_| None,
        };
        assert_eq!(
            not_taken(&decided(Vec::new()), &in_nodes),
            [
                "refused (nodes): only 3 of 4 nodes would fit now",
                "changing the deadline, the budget or the number of processors alone would not be enough now"
            ]
        );
    }

    #[test]
    fn a_class_that_a_job_did_not_name_is_said_where_it_may_be_the_cause() {
        let line = ClassLine::Queue("long".to_string());
        let manner = Manner {
            jobs: 1,
            pieces: None,
            class_line: Some((Class::Dedicated, &line)),
            write_offer: &|offer| Some(Written::as_list(offer)),
        };
        let by =
            "class=dedicated by class.queues.long of the site's configuration, as it names none";
        let offers = vec![CounterOffer::Budget { budget: 10.5 }];
        assert_eq!(
            not_taken(&decided(offers), &manner),
            [
                "refused (chunks): only 3 of its 4 chunks would fit now",
                by,
                "accepted now would be: budget=10.5"
            ]
        );
        let held: NotTaken<Infallible> = ClassError::NotHeld(Class::Dedicated).into();
        let lines = not_taken(&held, &manner);
        assert!(lines[0].contains("cannot be held for class=dedicated"));
        assert_eq!(lines[1..], [by]);
        let account: NotTaken<Infallible> =
            Verdict::Refused(Refused::Account("there is none".to_string()));
        assert_eq!(not_taken(&account, &manner).len(), 1);
    }

    #[test]
    fn a_fault_is_no_refusal() {
        let fault = |let_in| -> NotTaken<Infallible> {
            let problem = "no disk".to_string();
            Verdict::NotJudged(Fault::Accounts { problem, let_in })
        };
        assert_eq!(fault(true).category(), Some(Category::Fault));
        assert_eq!(
            headed_reason(&fault(false)),
            "refused (fault): accounting unavailable; job rejected: no disk; tell the administrators"
        );
        let without_promise = headed_reason(&fault(true));
        assert_eq!(without_promise, reason(&fault(true)));
        let uncovered: NotTaken<Infallible> = Verdict::Refused(Refused::Uncovered(Reason::Cover {
            price: 5.0,
            available: 3.0,
        }));
        assert_eq!(
            headed_reason(&uncovered),
            "refused (funds): the job costs 5 credits; the account has 3 available"
        );
    }
}
