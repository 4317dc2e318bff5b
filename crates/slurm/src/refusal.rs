//! A submission that is not taken, and the words of Slurm's users for it.

use super::problem::NotTaken;
use super::submission::Submission;
use super::words::{in_few_words, write_offer};
use libra_batch::words::{self, Manner};
use libra_core::decision::counter_offer::CounterOffer;

/// A submission that is not taken.
#[derive(Debug, Clone, PartialEq)]
pub struct NotAdmitted {
    /// Why.
    pub verdict: NotTaken,
    /// Jobs of the array that it is; 1 where it is none.
    pub jobs: u32,
}

impl From<NotTaken> for NotAdmitted {
    fn from(verdict: NotTaken) -> NotAdmitted {
        NotAdmitted { verdict, jobs: 1 }
    }
}

impl NotAdmitted {
    /// As the user is told; `submission` is what was refused.
    pub fn text(&self, submission: &Submission) -> String {
        let write = |offer: &CounterOffer| write_offer(offer, submission);
        let lines = words::not_taken(&self.verdict, &manner(self.jobs, &write));
        in_few_words(words::signed(&lines))
    }
}

/// Slurm's users know nodes and jobs; chunks are PBS's word.
pub(super) fn manner<'a>(jobs: u32, write_offer: words::WriteOffer<'a>) -> Manner<'a> {
    Manner {
        jobs,
        pieces: Some(if jobs > 1 { "jobs" } else { "nodes" }),
        write_offer,
    }
}
