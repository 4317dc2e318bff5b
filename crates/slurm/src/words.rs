//! Words for Slurm's users: short texts, and offers as options of sbatch.

use super::submission::Submission;
use libra_batch::words::Written;
use libra_core::decision::counter_offer::CounterOffer;
use libra_units::{credits, duration};
use libra_wording::refusal;

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
pub(super) fn write_offer(offer: &CounterOffer, submission: &Submission) -> Option<Written> {
    let written = |text, as_terms| Some(Written { text, as_terms });
    match *offer {
        CounterOffer::Deadline { deadline, price } => written(
            format!(
                "--sla-deadline={} (costs {})",
                duration::exact(deadline),
                credits(price)
            ),
            true,
        ),
        CounterOffer::Budget { budget } => written(format!("--budget={}", credits(budget)), true),
        CounterOffer::Jobs { .. } => written(refusal::offer(offer), false),
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
            // A task that is smaller.
            let one_task = on_one && submission.tasks.unwrap_or(1) <= 1;
            let by_tasks = processors_per_chunk % each == 0;
            let what = match (by_tasks, one_task) {
                (true, _) => format!("-n {}", chunks.checked_mul(processors_per_chunk / each)?),
                (false, true) => format!("-c {processors_per_chunk}"),
                (false, false) => return None,
            };
            let text = format!(
                "{nodes}{what} --estimate={} (costs {})",
                duration::exact(estimate),
                credits(price)
            );
            written(text, one_task && !by_tasks)
        }
    }
}
