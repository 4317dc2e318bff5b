//! Words for Slurm's users: short texts, and offers as options of sbatch.

use super::submission::Submission;
use libra_core::decision::counter_offer::CounterOffer;
use libra_units::{credits, duration};

/// Longest text that a user is told, in bytes: what was asked for may be in it.
const LONGEST_TEXT: usize = 2000;

pub(super) fn in_few_words(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rfind(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

/// A counter-offer as options of sbatch.
pub(super) fn write_offer(offer: &CounterOffer, submission: &Submission) -> Option<String> {
    match *offer {
        CounterOffer::Deadline { deadline, price } => Some(format!(
            "--sla-deadline={} (costs {})",
            duration::exact(deadline),
            credits(price)
        )),
        CounterOffer::Budget { budget } => Some(format!("--budget={}", credits(budget))),
        CounterOffer::Jobs { .. } => Some(offer.to_string()),
        CounterOffer::Processors {
            chunks,
            processors_per_chunk,
            estimate,
            price,
        } => {
            let each = submission.processors_per_task.unwrap_or(1).max(1);
            // Fewer nodes than --nodelist names are not accepted.
            if submission.required_nodes.len() > chunks as usize {
                return None;
            }
            let on_one = chunks == 1 && submission.least_nodes.unwrap_or(1) <= 1;
            let nodes = match on_one {
                true => String::new(),
                false => format!("-N {chunks} "),
            };
            let what = if processors_per_chunk % each == 0 {
                format!("-n {}", chunks.checked_mul(processors_per_chunk / each)?)
            } else if on_one && submission.tasks.unwrap_or(1) <= 1 {
                // A task that is smaller.
                format!("-c {processors_per_chunk}")
            } else {
                return None;
            };
            Some(format!(
                "{nodes}{what} --estimate={} (costs {})",
                duration::exact(estimate),
                credits(price)
            ))
        }
    }
}
