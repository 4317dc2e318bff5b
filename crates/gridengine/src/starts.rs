//! Which jobs with deferred promises may start on which host: a value of each execution host that only managers can change.
//!
//! Such a job requests [`START`], a complex: `libra_start=*+17:*` of job 17. No host has a value that this fits, so qmaster starts it
//! nowhere, whoever releases it and whatever it waits for. When its promise is confirmed, each of its hosts gets one: `libra_start=+17:…+`, with
//! what is committed to the job there. So qmaster's own records say where it may start and at which share, and nothing of a job has to be
//! changed, which `jsv_allowed_mod` forbids. The value goes with the job.

use libra_core::commitment::{Commitment, NodeCommitment};
use libra_core::decision::curve::with_deadline;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Name of the complex.
pub const START: &str = "libra_start";

/// Marks a promise that rests on a condition.
const CONDITIONAL: &str = "c";

/// What is committed to each slot of a job on one host since its promise was confirmed. Numbers are those of [`Commitment`].
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// Number of the job.
    pub job: u32,
    /// Of its first task, of an array.
    pub token: u64,
    /// When it was confirmed, Unix time.
    pub submitted: f64,
    /// Credits.
    pub price: f64,
    /// Share of each slot, in processors.
    pub share: f64,
    /// See [`Commitment::conditional`].
    pub conditional: bool,
}

/// Jobs that may start, by host.
pub type Starts = BTreeMap<String, Vec<Start>>;

/// What a job requests whose promise is deferred.
pub fn request(job: u32) -> String {
    format!("{START}=*+{job}:*")
}

/// A host's value; None if nothing may start on it.
pub fn write(starts: &[Start]) -> Option<String> {
    let mut text = String::from("+");
    for start in starts {
        let condition = if start.conditional { CONDITIONAL } else { "" };
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "{}:{}:{}:{}:{}:{condition}+",
            start.job, start.token, start.submitted, start.price, start.share
        );
    }
    (!starts.is_empty()).then_some(text)
}

/// Reads a host's value. What is none of ours is passed over: it lets no job start that is known.
pub fn read(text: &str) -> Vec<Start> {
    text.split('+').filter_map(one).collect()
}

fn one(text: &str) -> Option<Start> {
    let fields: Vec<&str> = text.split(':').collect();
    let [job, token, submitted, price, share, condition] = fields[..] else {
        return None;
    };
    let start = Start {
        job: job.parse().ok()?,
        token: token.parse().ok()?,
        submitted: submitted.parse().ok()?,
        price: price.parse().ok()?,
        share: share.parse().ok()?,
        conditional: condition == CONDITIONAL,
    };
    let is_amount = |value: f64| value.is_finite() && value >= 0.0;
    let is_sound = is_amount(start.submitted) && is_amount(start.price);
    (is_sound && (0.0..=1.0).contains(&start.share)).then_some(start)
}

/// The starts of a job on its hosts, by what is committed to it.
pub fn of(job: u32, commitment: &Commitment) -> Starts {
    let mut starts = Starts::new();
    for place in &commitment.places {
        let start = Start {
            job,
            token: commitment.token,
            submitted: commitment.submitted,
            price: commitment.price,
            share: place.share,
            conditional: commitment.conditional,
        };
        starts.insert(place.node.clone(), vec![start]);
    }
    starts
}

/// What is committed to a job since its promise was confirmed, by what was deferred and the values of the hosts; None if it is not confirmed.
pub fn committed(job: u32, deferred: &Commitment, starts: &Starts) -> Option<Commitment> {
    let here = starts.iter().filter_map(|(host, starts)| {
        let own = starts.iter().find(|start| start.job == job)?;
        Some((host, own))
    });
    let here: Vec<(&String, &Start)> = here.collect();
    let (_, first) = here.first()?;
    let chunks = u64::from(deferred.count) * u64::from(deferred.request.shape.chunks);
    // An array is on one host, and a job of several chunks has one on each.
    let each = match here.len() {
        1 => u32::try_from(chunks).ok()?,
        hosts if hosts as u64 == chunks => 1,
        _ => return None,
    };
    let left = (deferred.request.terms).deadline_after(first.submitted - deferred.submitted);
    let request = with_deadline(&deferred.request, left);
    request.check().ok()?;
    Some(Commitment {
        token: first.token,
        submitted: first.submitted,
        request,
        price: first.price,
        conditional: first.conditional,
        deferred: false,
        begin_within: None,
        places: (here.iter())
            .map(|(host, start)| NodeCommitment {
                node: (*host).clone(),
                chunks: each,
                share: start.share,
            })
            .collect(),
        ..deferred.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "v=1:token=17:submitted=1700000000:estimate=10:deadline=200:budget=15:type=hard:penalty=0:price=10.5:\
         chunks=1:processors=1:memory=0:scatter=0:count=3:deferred=1:payer=user/ann:at=n1*3*0.125";

    #[test]
    fn what_was_confirmed_is_read_from_the_hosts() {
        let deferred = Commitment::parse(LINE).expect("ours");
        let confirmed = Commitment::parse(
            &LINE
                .replace("token=17", "token=99")
                .replace("submitted=1700000000", "submitted=1700000050.5")
                .replace("deadline=200", "deadline=149.5")
                .replace("price=10.5", "price=11")
                .replace(":deferred=1", "")
                .replace("n1*3*0.125", "n2*3*0.25"),
        )
        .expect("ours");
        let starts = of(13, &confirmed);
        let value = write(&starts["n2"]).expect("a value");
        assert_eq!(value, "+13:99:1700000050.5:11:0.25:+");
        let read = Starts::from([("n2".to_string(), read(&value))]);
        assert_eq!(read, starts);
        assert_eq!(committed(13, &deferred, &read), Some(confirmed));
        assert_eq!(committed(14, &deferred, &read), None);
        assert_eq!(request(13), "libra_start=*+13:*");
    }

    #[test]
    fn a_value_that_others_wrote_starts_nothing() {
        for text in [
            "",
            "+",
            "13",
            "+13:1:2:3+",
            "+13:1:2:3:7:+",
            "+13:1:-2:3:0.5:+",
            "+x:1:2:3:0.5:+",
        ] {
            assert_eq!(read(text), [], "{text}");
        }
        assert_eq!(write(&[]), None);
        let deferred = Commitment::parse(LINE).expect("ours");
        let late = Start {
            job: 13,
            token: 1,
            submitted: 1_700_001_000.0,
            price: 0.0,
            share: 0.5,
            conditional: false,
        };
        let late = Starts::from([("n1".to_string(), vec![late])]);
        assert_eq!(committed(13, &deferred, &late), None, "past its deadline");
    }
}
