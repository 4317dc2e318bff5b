//! Dedicated jobs that stand still for others with earlier deadlines (see [`libra_batch::server::suspended`]), by Slurm's own suspension: all
//! processes of all steps of a job, on all its nodes; its time limit stands still as well.
//!
//! The mark is in the job's admin comment ([`super::array::going_on_by`]), and three polls bring it about that another one begins. Slurm holds a suspended job
//! that it takes back into its queue; one with a mark is released.

use super::array::{going_on, going_on_by};
use super::controller::Controller;
use super::orders::{Order, is_settled};
use super::poll::Poll;
use super::records::{Records, Rewrite, SlurmJob, State, told};
use libra_batch::server::suspended::{self, GoingOn, OnRecord, RunState};
use std::collections::{HashMap, HashSet};

/// Seconds: slurmctld has done what it was told, or has not, by the next poll.
const ANSWERS_WITHIN: f64 = 1.0;

impl Controller {
    /// Lets those go on that fit again, and brings about what the book says of all by their records. `marked`: those of which [`super::orders::is_marked`] says so; `missed`:
    /// those that [`super::orders::missed`] names.
    pub(super) fn let_stand_still(
        &mut self,
        records: &Records,
        (marked, missed): (&HashSet<u32>, &HashMap<u32, f64>),
        now: f64,
        poll: &mut Poll,
    ) {
        self.admission.book.let_go_on(now);
        let wanted: HashSet<String> = (self.admission.book.suspended())
            .map(str::to_string)
            .collect();
        (self.said_again).retain(|id, _| missed.contains_key(id));
        if wanted.is_empty() && marked.is_empty() && missed.is_empty() {
            self.admission.keep_told(|_| false);
            return;
        }
        let rewritten: HashSet<u32> = poll.rewrites.iter().map(|rewrite| rewrite.job).collect();
        let mut names = HashSet::new();
        for job in (records.jobs.iter()).filter(|job| job.state != State::Ended) {
            let name = job.name();
            let missed = missed.get(&job.id).copied();
            if !(marked.contains(&job.id) || missed.is_some() || wanted.contains(&name)) {
                continue;
            }
            let is_open = !rewritten.contains(&job.id) && is_settled(job, records.taken);
            if is_open && !self.say_again(job, missed, now, poll) {
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

    /// Says once more to a job what its nodes may have `missed`. Slurm says nothing twice, so one that is to run is suspended and resumed: with a mark, by which whoever reads the
    /// records meanwhile lets it go on. Returns true if something was said to it just now.
    pub(super) fn say_again(
        &mut self,
        job: &SlurmJob,
        missed: Option<f64>,
        now: f64,
        poll: &mut Poll,
    ) -> bool {
        let before = self.said_again.get(&job.id);
        let Some(up_since) = missed.filter(|up| before.is_none_or(|before| before < up)) else {
            return false;
        };
        let mark = going_on_by(&job.admin_comment);
        match (job.suspended, mark) {
            // Somebody else's.
            (true, None) => return false,
            // Who is to stand still is suspended again then, as one that somebody has let go on.
            (true, Some(_)) => poll.orders.push(Order::Resume(job.id)),
            (false, known) => {
                if known.is_none() {
                    let mark = GoingOn {
                        by: now,
                        late: false,
                    };
                    poll.rewrites.push(Rewrite {
                        job: job.id,
                        admin_comment: going_on(&job.admin_comment, Some(mark)),
                        comment: job.comment.clone(),
                        runs: true,
                        ..Rewrite::default()
                    });
                }
                poll.orders.push(Order::Suspend(job.id));
            }
        }
        poll.log.push(format!(
            "job {}: a slurmd was started after it was told last to {}, and is told again",
            job.name(),
            if job.suspended {
                "stand still"
            } else {
                "go on"
            },
        ));
        self.said_again.insert(job.id, up_since);
        true
    }
}
