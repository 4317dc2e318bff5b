//! A refusal in the words of Slurm's users.

use super::controller::Controller;
use super::submission::Submission;
use super::words::write_offer;
use libra_batch::admit::NotTaken;
use libra_batch::verdict;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::refusal::Reason;

impl Controller {
    pub(super) fn refusal_text(
        &self,
        not: &NotTaken,
        submission: &Submission,
        count: u32,
    ) -> String {
        let refusal = match not {
            NotTaken::Refused(refusal) => refusal,
            NotTaken::Denied(denied) => return denied.text(),
            // It says itself what kind it is of.
            NotTaken::Other { text, .. } if text.starts_with("refused (") => return text.clone(),
            NotTaken::Other { category, text } => return format!("refused ({category}): {text}"),
        };
        let write = |offer: &CounterOffer| write_offer(offer, submission);
        let name = |index: usize| self.book.node_name(index).to_string();
        let text = verdict::refused(refusal, count, &name, &write);
        // Slurm's users know nodes and jobs; chunks are PBS's word.
        let Reason::Chunks { asked, fit } = refusal.reason else {
            return text;
        };
        let what = if count > 1 { "jobs" } else { "nodes" };
        text.replacen(
            &format!(
                "refused ({}): {}",
                refusal.reason.category(),
                refusal.reason.text(name)
            ),
            &format!(
                "refused ({what}): it asks for {asked} {what} and there is room for {fit} now"
            ),
            1,
        )
    }
}
