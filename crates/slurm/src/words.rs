//! Words for Slurm's users: short texts, and offers as options of sbatch.

use super::OPTIONS;
use super::submission::Submission;
use libra_batch::front_end::Fewer;
use libra_batch::words::Written;
use libra_wording::terms::CLASS;

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

/// A term as an option of sbatch.
pub(super) fn option(key: &str, value: &str) -> String {
    let known = OPTIONS.iter().find(|(_, known)| *known == key);
    format!("--{}={value}", known.map_or(key, |(option, _)| *option))
}

/// Fewer nodes or processors, as options of sbatch.
pub(super) fn write_processors(submission: &Submission, fewer: &Fewer) -> Option<Written> {
    let Fewer {
        chunks,
        processors_per_chunk,
        ref estimate,
        class,
    } = *fewer;
    let each = submission.processors_per_task.unwrap_or(1).max(1);
    // With fewer nodes each has another part of what it asks for in all, and with fewer tasks less is asked for.
    let in_all = submission.gres.per_job.is_some() || submission.gres.per_task.is_some();
    if in_all && submission.tasks.max(submission.least_nodes) > Some(1) {
        return None;
    }
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
    let class = class.map_or_else(String::new, |class| {
        format!(" {}", option(CLASS, class.word()))
    });
    Some(Written {
        text: format!("{nodes}{what} {}{class}", option("estimate", estimate)),
        as_terms: one_task && !by_tasks && class.is_empty(),
    })
}
