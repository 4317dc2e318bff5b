//! Dedicated jobs that stand still for others with earlier deadlines (see [`libra_batch::server::suspended`]), by Slurm's own suspension: all
//! processes of all steps of a job, on all its nodes; its time limit stands still as well.
//!
//! The mark is in the job's admin comment ([`super::array::going_on_by`]), and three polls bring it about that another one begins. Slurm holds a suspended job
//! that it takes back into its queue; one with a mark is released.

use super::array::{going_on, going_on_by};
use super::controller::Controller;
use super::orders::Order;
use super::poll::Poll;
use super::records::{Rewrite, SlurmJob, State, told};
use libra_batch::server::suspended::{self, OnRecord, RunState};
use std::collections::HashSet;

/// Seconds: slurmctld has done what it was told, or has not, by the next poll.
const ANSWERS_WITHIN: f64 = 1.0;

impl Controller {
    /// Lets those go on that fit again, and brings about what the book says of all by their records. `marked`: those of which [`super::orders::is_marked`] says so.
    pub(super) fn let_stand_still(
        &mut self,
        jobs: &[SlurmJob],
        marked: &HashSet<u32>,
        now: f64,
        poll: &mut Poll,
    ) {
        self.admission.book.let_go_on(now);
        let wanted: HashSet<String> = (self.admission.book.suspended())
            .map(str::to_string)
            .collect();
        if wanted.is_empty() && marked.is_empty() {
            self.admission.keep_told(|_| false);
            return;
        }
        let rewritten: HashSet<u32> = poll.rewrites.iter().map(|rewrite| rewrite.job).collect();
        let mut names = HashSet::new();
        for job in jobs.iter().filter(|job| job.state != State::Ended) {
            let name = job.name();
            if !(marked.contains(&job.id) || wanted.contains(&name)) {
                continue;
            }
            if !rewritten.contains(&job.id) {
                self.follow_record(job, &name, now, poll);
            }
            names.insert(name);
        }
        self.admission.keep_told(|name| names.contains(name));
    }

    /// What is to become of one.
    fn follow_record(&mut self, job: &SlurmJob, name: &str, now: f64, poll: &mut Poll) {
        let state = match job.state {
            State::Pending => RunState::Waits,
            _ if job.suspended => RunState::StandsStill,
            _ => RunState::Runs,
        };
        let commitment = match job.admin_comment.commitment() {
            Some(Ok(known)) => Some(&known.commitment),
            _ => None,
        };
        let record = OnRecord {
            id: name,
            state,
            mark: going_on_by(&job.admin_comment),
            commitment,
            answers_within: ANSWERS_WITHIN,
        };
        let followed = self.admission.follow_suspension(&record, now);
        poll.again |= !followed.orders.is_empty();
        poll.log.extend(followed.log);
        for order in followed.orders {
            match order {
                suspended::Order::Mark { mark, text } => poll.rewrites.push(Rewrite {
                    job: job.id,
                    admin_comment: going_on(&job.admin_comment, mark),
                    comment: text
                        .map_or_else(|| job.comment.clone(), |text| told(&job.comment, &text)),
                    runs: state != RunState::Waits,
                    release: state == RunState::Waits && job.held,
                    ..Rewrite::default()
                }),
                suspended::Order::Suspend => poll.orders.push(Order::Suspend(job.id)),
                suspended::Order::Resume => poll.orders.push(Order::Resume(job.id)),
            }
        }
    }
}
