//! Why a job was refused and what would be accepted instead, in sentences.

use libra_core::decision::consumable::{Amounts, Consumable, Unit};
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::job::OutOfRange;
use libra_core::decision::refusal::Reason;
use libra_units::{credits, duration, memory, processors_apart};
use std::fmt::Display;

/// A value that is out of range.
pub fn out_of_range(error: &OutOfRange) -> String {
    let OutOfRange {
        field,
        value,
        expected,
    } = error;
    format!("{field} is {value}, expected {expected}")
}

/// A reason, for the user. Its node is shown as it names itself.
pub fn reason<N: Display>(reason: &Reason<N>) -> String {
    match reason {
        Reason::Invalid(error) => out_of_range(error),
        Reason::Budget { price, budget } => format!(
            "the job costs {} credits; the budget is {}",
            credits(*price),
            credits(*budget)
        ),
        Reason::Funds { budget, available } => format!(
            "the budget is {} credits; the account has {} available",
            credits(*budget),
            credits(*available)
        ),
        Reason::Cover { price, available } => format!(
            "the job costs {} credits; the account has {} available",
            credits(*price),
            credits(*available)
        ),
        Reason::Deadline { fastest, deadline } => format!(
            "even a whole CPU would need {}; the deadline is {}",
            duration::show(*fastest),
            duration::show(*deadline)
        ),
        Reason::Share { needed, free, node } => {
            let (needed, free) = processors_apart(*needed, *free);
            format!("needs {needed} CPU until its deadline; the best node, {node}, has {free} free")
        }
        Reason::Memory { needed, free, node } => format!(
            "needs {} of memory; the best node, {node}, has {} free",
            memory::show(*needed),
            memory::show(*free)
        ),
        Reason::Consumable {
            what,
            needed,
            free,
            node,
        } => {
            let (name, needed, free) = (what.name(), amount(*what, *needed), amount(*what, *free));
            match node {
                Some(node) => {
                    format!("needs {needed} {name}; the best node, {node}, has {free} free")
                }
                None => format!("needs {needed} {name}; the cluster has {free} free"),
            }
        }
        Reason::Time { needed, free, node } => format!(
            "needs {} of CPU time before its deadline; the best node, {node}, has {} that others do not need",
            duration::show(*needed),
            duration::show(*free)
        ),
        Reason::Risk { delay, node } => format!(
            "on every node some job would miss its deadline; on the best node, {node}, by at least {}",
            duration::show(*delay)
        ),
        Reason::Return { node, .. } => format!(
            "on every node the penalties paid to other jobs would exceed its budget; the best node is {node}"
        ),
        Reason::Chunks { asked, fit } => {
            format!("only {fit} of its {asked} chunks would fit now")
        }
        Reason::NoNode => "no node takes new jobs now".to_string(),
    }
}

/// An amount of a consumable.
pub fn amount(what: Consumable, amount: u64) -> String {
    match what.unit() {
        Unit::Whole => amount.to_string(),
        Unit::Bytes => memory::show(amount),
        Unit::Millionths => {
            let (whole, parts) = (amount / 1_000_000, amount % 1_000_000);
            let text = format!("{whole}.{parts:06}");
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
    }
}

/// Amounts of consumables, as a batch system takes them.
pub fn amounts(all: &Amounts) -> String {
    let one = |(what, some): (Consumable, u64)| format!("{}={}", what.name(), amount(what, some));
    match all.is_empty() {
        true => "none".to_string(),
        false => all.iter().map(one).collect::<Vec<_>>().join(","),
    }
}

/// A counter-offer as the list of terms that asks for it, and what the job costs then.
pub fn offer(offer: &CounterOffer) -> String {
    match *offer {
        CounterOffer::Deadline { deadline, price } => format!(
            "deadline={} (costs {})",
            duration::exact(deadline),
            credits(price)
        ),
        CounterOffer::Budget { budget } => format!("budget={}", credits(budget)),
        CounterOffer::Processors {
            chunks,
            processors_per_chunk,
            estimate,
            price,
        } => format!(
            "{} (costs {})",
            processors(chunks, processors_per_chunk, &duration::exact(estimate)),
            credits(price)
        ),
        CounterOffer::Jobs { jobs, price, .. } => {
            let what = if jobs == 1 { "job" } else { "jobs" };
            format!("an array of {jobs} {what} (costs {})", credits(price))
        }
        CounterOffer::Class { class, price } => {
            format!("class={} (costs {})", class.word(), credits(price))
        }
    }
}

/// Chunks of processors, with what a job needs on each of them, as a list of terms.
pub fn processors(chunks: u32, processors_per_chunk: u32, estimate: &str) -> String {
    let chunks = match chunks {
        0 | 1 => String::new(),
        chunks => format!("chunks={chunks},"),
    };
    format!("{chunks}processors={processors_per_chunk},estimate={estimate}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_written_as_they_are_asked_for() {
        for (made, text) in [
            (
                CounterOffer::Deadline {
                    deadline: 8.0,
                    price: 9.0,
                },
                "deadline=8 (costs 9)",
            ),
            (CounterOffer::Budget { budget: 10.5 }, "budget=10.5"),
            (
                CounterOffer::Processors {
                    chunks: 3,
                    processors_per_chunk: 2,
                    estimate: 23.34,
                    price: 142.84,
                },
                "chunks=3,processors=2,estimate=23.34 (costs 142.84)",
            ),
            (
                CounterOffer::Jobs {
                    jobs: 4,
                    chunks: 4,
                    price: 42.0,
                },
                "an array of 4 jobs (costs 42)",
            ),
        ] {
            assert_eq!(offer(&made), text);
        }
    }

    #[test]
    fn a_reason_names_its_node() {
        let why = Reason::Share {
            needed: 0.5,
            free: 0.25,
            node: 7,
        };
        let text = reason(&why.named(|node| format!("n{node}")));
        assert_eq!(
            text,
            "needs 0.5 CPU until its deadline; the best node, n7, has 0.25 free"
        );
    }
}
