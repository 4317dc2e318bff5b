//! What a batch system's users are told: accepted on these terms, refused and why, ended in time or not.
//!
//! The same words everywhere; how something is asked for differs, so each batch system writes counter-offers in its
//! own way.

use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::refusal::Refusal;
use libra_core::sold::Sold;
use libra_units::{credits, duration, percent};
use std::fmt::Write;

/// How a counter-offer is written to be submitted; none where it cannot be asked for.
pub type WriteOffer<'a> = &'a dyn Fn(&CounterOffer) -> Option<String>;

/// What was sold. `price`: for all jobs of an array. `pinned`: will it run on just these nodes?
pub fn accepted(sold: &Sold, price: f64, pinned: bool) -> String {
    let terms = &sold.request.terms;
    let slots = sold.request.shape.slots();
    let each = match slots {
        1 => "a processor".to_string(),
        slots => format!("each of {slots} processors"),
    };
    let jobs = match sold.count {
        1 => String::new(),
        count => format!("{count} jobs, each "),
    };
    let mut nodes: Vec<&str> = (sold.places.iter())
        .map(|place| place.node.as_str())
        .collect();
    nodes.dedup();
    let shown = match nodes.len() {
        0..=4 => nodes.join(" and "),
        more => format!("{} and {} other nodes", nodes[0], more - 1),
    };
    let on = if pinned { "on" } else { "on nodes such as" };
    format!(
        "accepted: {jobs}{} of {each} {on} {shown}, finished in {} at the latest, for {} of {} credits",
        percent(sold.share_on("")),
        duration::show(terms.deadline),
        credits(price),
        credits(terms.budget),
    )
}

/// Why a job was refused, and on a line each what would be accepted. `count`: jobs of an array.
pub fn refused(
    refusal: &Refusal,
    count: u32,
    node_name: &dyn Fn(usize) -> String,
    write_offer: WriteOffer<'_>,
) -> String {
    let mut text = format!(
        "libra: refused ({}): {}",
        refusal.reason.category(),
        refusal.reason.text(node_name)
    );
    if count > 1 {
        let _ = write!(text, " (all {count} jobs of the array together)");
    }
    let offers: Vec<String> = (refusal.counter_offers.iter())
        .filter_map(write_offer)
        .collect();
    if offers.is_empty() {
        text.push_str(
            "\nlibra: no other deadline, budget or number of processors by itself would be accepted now",
        );
    }
    for (index, offer) in offers.iter().enumerate() {
        let before = match index {
            0 => "\nlibra: accepted now would be",
            _ => "\nlibra:                   or",
        };
        let _ = write!(text, "{before}: {offer}");
    }
    text
}

/// Was the deadline met? `took`: seconds from submission to end.
pub fn kept(sold: &Sold, took: f64) -> String {
    let delay = took - sold.request.terms.deadline;
    if delay <= 0.0 {
        "met its deadline".to_string()
    } else if delay < 1.0 {
        format!("missed its deadline by {:.0} ms", (delay * 1000.0).max(1.0))
    } else {
        format!("missed its deadline by {}", duration::show(delay))
    }
}

/// The same of a job that failed by itself: in time, but no deadline was met by it.
pub fn failed(sold: &Sold, took: f64) -> String {
    match took <= sold.request.terms.deadline {
        true => "failed, in time".to_string(),
        false => format!("failed, and {}", kept(sold, took)),
    }
}

/// What of the price is paid back for a delay, to be put behind it; empty where nothing is.
pub fn paid_back(sold: &Sold, took: f64) -> String {
    let terms = &sold.request.terms;
    match (took - terms.deadline).max(0.0) * terms.penalty_rate {
        paid if paid > 0.0 => format!(", of which {} are paid back", credits(paid)),
        _ => String::new(),
    }
}
