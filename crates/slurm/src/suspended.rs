//! Dedicated jobs that stand still for others with earlier deadlines (see [`libra_batch::server::suspended`]), by Slurm's own suspension: all
//! processes of all steps of a job, on all its nodes; its time limit stands still as well.
//!
//! The mark is in the job's admin comment ([`super::array::going_on_by`]), and three polls bring it about that another one begins. Slurm holds a suspended job
//! that it takes back into its queue; one with a mark is released.

use super::array::{going_on, going_on_by, gone_on, has_gone_on};
use super::controller::Controller;
use super::heard::{CERTAIN, Heard};
use super::orders::{Order, is_settled};
use super::poll::Poll;
use super::records::{Node, Records, Rewrite, SlurmJob, State, told};
use libra_batch::server::suspended::{self, GoingOn, OnRecord, RunState};
use std::collections::{HashMap, HashSet};

/// Seconds: slurmctld has done what it was told, or has not, by the next poll.
const ANSWERS_WITHIN: f64 = 1.0;

impl Controller {
    /// Lets those go on that fit again, and brings about what the book says of all by their records. `marked`: those of which [`super::orders::is_marked`] says so.
    pub(super) fn let_stand_still(
        &mut self,
        records: &Records,
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
            self.last_orders.keep(|_| false);
            return;
        }
        let rewritten: HashSet<u32> = poll.rewrites.iter().map(|rewrite| rewrite.job).collect();
        let nodes: HashMap<&str, &Node> = (records.nodes.iter())
            .map(|node| (node.name.as_str(), node))
            .collect();
        let (mut ids, mut names) = (HashSet::new(), HashSet::new());
        for job in (records.jobs.iter()).filter(|job| job.state != State::Ended) {
            let name = job.name();
            let is_wanted = wanted.contains(&name);
            if !(marked.contains(&job.id) || is_wanted) {
                continue;
            }
            let heard = self.last_orders.heard(job, &nodes, records.taken);
            let is_settled = is_settled(job, records.taken);
            ids.insert(job.id);
            names.insert(name.clone());
            // Then the next poll sees what it is.
            if rewritten.contains(&job.id) {
                continue;
            }
            if heard == Heard::No && self.say_again(job, (is_wanted, is_settled), now, poll) {
                self.last_orders.tried(job.id, records.taken);
                continue;
            }
            self.follow_record(job, (&name, is_settled), now, poll);
            let is_over = matches!(heard, Heard::Yes | Heard::GivenUp);
            if is_over && has_gone_on(&job.admin_comment) {
                self.forget_going_on(job, heard, records.taken, poll);
            }
        }
        self.admission.keep_told(|name| names.contains(name));
        self.last_orders.keep(|id| ids.contains(&id));
    }

    /// What is to become of one.
    fn follow_record(
        &mut self,
        job: &SlurmJob,
        (name, may_be_told): (&str, bool),
        now: f64,
        poll: &mut Poll,
    ) {
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
            may_be_told,
        };
        let followed = self.admission.follow_suspension(&record, now);
        poll.again |= !followed.orders.is_empty();
        poll.log.extend(followed.log);
        for order in followed.orders {
            match order {
                suspended::Order::Mark { mark, text } => poll.rewrites.push(Rewrite {
                    job: job.id,
                    admin_comment: match (mark, state) {
                        (None, RunState::Runs) if now < job.changed + CERTAIN => {
                            gone_on(&job.admin_comment)
                        }
                        _ => going_on(&job.admin_comment, mark),
                    },
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

    /// Says once more to a job what one of its nodes may not have heard. Slurm says nothing twice, so one that is to run is suspended and resumed: with a mark on record first, by which
    /// whoever finds it lets it go on. Returns false where there is nothing to be said, or not by this.
    fn say_again(
        &mut self,
        job: &SlurmJob,
        (is_wanted, is_settled): (bool, bool),
        now: f64,
        poll: &mut Poll,
    ) -> bool {
        let mark = going_on_by(&job.admin_comment);
        match (job.suspended, mark) {
            _ if job.state != State::Running || !is_settled => return false,
            // It is suspended again then, as one that somebody has let go on.
            (true, Some(_)) if is_wanted => poll.orders.push(Order::Resume(job.id)),
            (false, None) if !is_wanted => {
                let mark = GoingOn {
                    by: now,
                    late: false,
                };
                poll.again = true;
                poll.rewrites.push(Rewrite {
                    job: job.id,
                    admin_comment: going_on(&job.admin_comment, Some(mark)),
                    comment: job.comment.clone(),
                    runs: true,
                    ..Rewrite::default()
                });
            }
            (false, Some(_)) if !is_wanted => {
                poll.orders.push(Order::Suspend(job.id));
            }
            // What is told next says it as well; and what somebody else has suspended is his.
            _ => return false,
        }
        if !job.suspended {
            (self.admission).note_to_be_suspended(&job.name(), ANSWERS_WITHIN, now);
        }
        if mark.is_some() {
            poll.log.push(format!(
                "job {}: a slurmd may not have heard that it is to {}, and is told again",
                job.name(),
                if job.suspended {
                    "stand still"
                } else {
                    "go on"
                },
            ));
        }
        true
    }

    /// Its nodes know that it goes on, or nothing can be done about it: its record says nothing of that any more.
    fn forget_going_on(&mut self, job: &SlurmJob, heard: Heard, taken: f64, poll: &mut Poll) {
        let is_said = poll.rewrites.iter().any(|rewrite| rewrite.job == job.id);
        if is_said || !self.last_orders.is_to_be_forgotten(job.id, taken) {
            return;
        }
        if heard == Heard::GivenUp {
            poll.log.push(format!(
                "job {}: a slurmd may not have heard that it is to go on, and could not be told again. Where its processes stand still: scontrol suspend {}, and five seconds later \
                 scontrol resume {}",
                job.name(),
                job.id,
                job.id
            ));
        }
        poll.rewrites.push(Rewrite {
            job: job.id,
            admin_comment: going_on(&job.admin_comment, None),
            comment: job.comment.clone(),
            // In its queue once more it keeps its place there.
            runs: true,
            ..Rewrite::default()
        });
    }
}
