//! What `run` and `quote` say, for people and as JSON.

use jiff::{Span, Zoned};
use libra_batch::front_end::Fewer;
use libra_batch::quote::OtherOffer;
use libra_batch::verdict::Verdict;
use libra_batch::words::{self, Manner, Written};
use libra_core::decision::class::Class;
use libra_core::decision::class_defaults::ClassLine;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::job::Request;
use libra_host::Host;
use libra_host::entry::{Conclusion, Entry};
use libra_host::submit::Terms;
use libra_units::{credits, duration, fine_percent, processors};
use libra_wording::errors::class_key;
use serde_json::{Value, json};
use std::convert::Infallible;

/// What an accepted job gets, in words.
pub fn terms(host: &Host, request: &Request, terms: &Terms) -> String {
    let shape = &request.shape;
    let name = &host.machine().name;
    let price = format!(
        "for {} of {} credits",
        credits(terms.price),
        credits(request.terms.budget)
    );
    match request.terms.class {
        Class::Deadline => {}
        Class::Dedicated | Class::Immediate => {
            let each = match shape.slots() {
                1 => "a whole processor".to_string(),
                slots => format!("{slots} whole processors"),
            };
            let until = match request.terms.has_deadline() {
                true => format!(", finished {}", by(request.terms.deadline)),
                false => String::new(),
            };
            return format!("{each} on {name} from now on{until}, {price}");
        }
        Class::BestEffort => {
            let price = match terms.price {
                0.0 => "for nothing".to_string(),
                most => format!(
                    "for at most {} of {} credits",
                    credits(most),
                    credits(request.terms.budget)
                ),
            };
            return format!(
                "what the others leave on {name} (now {} processors), promised nothing, {price}",
                processors(terms.loadfree)
            );
        }
    }
    let each = match shape.slots() {
        1 => "a processor".to_string(),
        slots => format!("each of {slots} processors"),
    };
    let condition = match is_conditional(host, request) {
        true => words::condition(request.terms.estimate),
        false => String::new(),
    };
    format!(
        "{} of {each} on {name}, finished {}{condition}, {price}",
        fine_percent(terms.share),
        by(request.terms.deadline),
    )
}

/// Returns true if its deadline is shorter than its estimate on this host.
pub fn is_conditional(host: &Host, request: &Request) -> bool {
    (request.terms).are_conditional(host.machine().spec.rating)
}

/// What is answered to a job that is taken.
pub fn verdict(host: &Host, request: &Request) -> &'static str {
    match is_conditional(host, request) {
        true => "conditional",
        false => "accepted",
    }
}

/// A deadline from now, as a clock time where that says more.
fn by(deadline: f64) -> String {
    let left = duration::show(deadline);
    let at = Span::new()
        .try_milliseconds((deadline * 1000.0) as i64)
        .ok()
        .and_then(|span| Zoned::now().checked_add(span).ok());
    match at {
        Some(at) if deadline < 12.0 * 3600.0 => {
            format!("by {} (in {left})", at.strftime("%H:%M:%S"))
        }
        Some(at) => format!("by {} (in {left})", at.strftime("%Y-%m-%d %H:%M")),
        None => format!("in {left}"),
    }
}

/// How `libra run` asks for things: for a job of this class, and what gave it.
pub struct OnHost<'a> {
    class: Class,
    class_line: Option<&'a ClassLine>,
}

impl<'a> OnHost<'a> {
    /// For this request.
    pub fn of(request: &Request, class_line: Option<&'a ClassLine>) -> OnHost<'a> {
        OnHost {
            class: request.terms.class,
            class_line,
        }
    }

    fn write(&self, offer: &CounterOffer) -> Written {
        let Some(fewer) = Fewer::of(offer, self.class, self.class_line) else {
            return Written::as_list(offer);
        };
        let mut written = fewer.as_list();
        if let Some(price) = offer.price() {
            written.add_price(price);
        }
        written
    }

    /// Says something so.
    pub fn say<T>(&self, what: impl FnOnce(&Manner<'_>) -> T) -> T {
        what(&Manner {
            jobs: 1,
            pieces: None,
            class_line: self.class_line.map(|line| (self.class, line)),
            write_offer: &|offer| Some(self.write(offer)),
        })
    }

    /// A refusal in words, a line for the reason and one for each counter-offer.
    pub fn refusal<T>(&self, not: &Verdict<T, Infallible>) -> Vec<String> {
        self.say(|manner| words::not_taken(not, manner))
    }

    /// A refusal for machines.
    pub fn refusal_json<T>(&self, not: &Verdict<T, Infallible>) -> Value {
        let offers = not.refusal().map_or(&[][..], |r| &r.counter_offers);
        let offers: Vec<Value> = (offers.iter())
            .map(|offer| {
                let offer = OtherOffer::new(offer, self.write(offer));
                let mut values = offer.values;
                values.insert("text".to_string(), offer.text.into());
                values.into()
            })
            .collect();
        json!({
            "verdict": "refused",
            "class": self.class.word(),
            "class_line": self.class_line.map(class_key),
            "category": not.category(),
            "reason": words::reason(not),
            "evidence": not.evidence(),
            "counter_offers": offers,
        })
    }
}

/// What an accepted job gets, for machines. Seconds, processors, credits; null is unlimited.
pub fn terms_json(host: &Host, request: &Request, terms: &Terms) -> Value {
    json!({
        "verdict": verdict(host, request),
        "class": request.terms.class.word(),
        "node": host.machine().name,
        "share": terms.share,
        "slots": request.shape.slots(),
        "price": terms.price,
        "budget": limited(request.terms.budget),
        "estimate_seconds": request.terms.has_estimate().then_some(request.terms.estimate),
        "deadline_seconds": request.terms.has_deadline().then_some(request.terms.deadline),
        "loadfree": terms.loadfree,
    })
}

/// How a job ended, in words.
pub fn ending(entry: &Entry) -> String {
    let Some(ending) = &entry.ending else {
        return format!("job {} has not ended", entry.id);
    };
    let took = ending.at - entry.submitted;
    let terms = &entry.request.terms;
    let late = duration::show((took - terms.deadline).max(0.0));
    let in_time = took <= terms.deadline;
    let promised = entry.has_promised_end();
    let when = match in_time {
        _ if !promised => format!("after {}", duration::show(took)),
        true => "in time".to_string(),
        false => format!("{late} after its deadline"),
    };
    let verdict = match (entry.conclusion(), entry.stopped) {
        (Some(Conclusion::Finished), _) if !promised => "finished".to_string(),
        (Some(Conclusion::Finished), _) if in_time => "met its deadline".to_string(),
        (Some(Conclusion::Finished), _) => format!("missed its deadline by {late}"),
        (Some(Conclusion::Cancelled), _) => format!("was cancelled {when}"),
        (Some(Conclusion::Stopped), Some(why)) => {
            format!("was ended {when}, because {}", why.in_words())
        }
        (Some(Conclusion::Failed), _) => match (ending.exit_code, ending.signal) {
            (Some(code), _) => format!("failed {when} (exit code {code})"),
            (_, Some(signal)) => format!("failed {when} (signal {signal})"),
            _ => format!("failed {when}, it never started"),
        },
        _ => format!("ended {when}, nobody saw how"),
    };
    let of = |part: &str, has: bool, seconds: f64| match has {
        true => format!(" of {part}{}", duration::show(seconds)),
        false => String::new(),
    };
    format!(
        "job {} {verdict}: ended after {}{}, used {}{}",
        entry.id,
        duration::show(took),
        of("", promised, terms.deadline),
        duration::show(ending.used / f64::from(entry.slots.max(1))),
        of("the estimated ", terms.has_estimate(), terms.estimate),
    )
}

/// When a job is to be finished, Unix time; None if it has no deadline.
pub fn deadline(entry: &Entry) -> Option<f64> {
    let terms = &entry.request.terms;
    (terms.has_deadline()).then_some(entry.submitted_unix + terms.deadline)
}

/// How a job ended, for machines.
pub fn ending_json(entry: &Entry) -> Value {
    let ending = entry.ending.as_ref();
    let terms = &entry.request.terms;
    json!({
        "event": "ended",
        "job": entry.id,
        "name": entry.name,
        "class": entry.class().word(),
        "state": entry.conclusion().map(|how| how.state(entry.in_time())),
        "submitted": entry.submitted_unix,
        "deadline": deadline(entry),
        "ended": ending.map(|e| entry.submitted_unix + e.at - entry.submitted),
        "conclusion": entry.conclusion(),
        "in_time": entry.in_time(),
        "reason": entry.stopped,
        "met": entry.has_promised_end() && ending.is_some_and(|e| e.met),
        "cancelled": ending.is_some_and(|e| e.cancelled),
        "elapsed_seconds": ending.map(|e| e.at - entry.submitted),
        "deadline_seconds": terms.has_deadline().then_some(terms.deadline),
        "used_seconds": ending.map(|e| e.used),
        "estimate_seconds": terms.has_estimate().then_some(terms.estimate),
        "slots": entry.slots,
        "exit_code": ending.and_then(|e| e.exit_code),
        "signal": ending.and_then(|e| e.signal),
    })
}

fn limited(amount: f64) -> Option<f64> {
    amount.is_finite().then_some(amount)
}
