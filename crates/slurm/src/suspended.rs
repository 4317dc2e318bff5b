//! Dedicated jobs that stand still for others with earlier deadlines (see [`libra_core::book::Book::plan_in_front`]), by Slurm's own suspension: all
//! processes of all steps of a job, on all its nodes; its time limit stands still as well.
//!
//! The one that comes is planned to begin some seconds later, when the other stands still. Three polls bring that about, each from what it finds on record:
//! the one that is to stand still gets a mark into its admin comment ([`super::array::going_on_by`]), which says when it goes on at the latest;
//! one that has it is suspended; and once Slurm says that it is, the other one begins. So whoever reads the records after a restart knows who stands still
//! for others, and lets it go on: what an administrator suspends has no mark, and stays as it is. To go on it is resumed first, and loses its mark then,
//! whatever has become of its promise.
//!
//! One that an administrator lets go on before its time is suspended again. What Slurm does not obey it is told again, more and more rarely; one that it does not
//! suspend keeps its processors in the end. Slurm holds a suspended job that it takes back into its queue; one with a mark is released.

use super::array::{GoingOn, going_on, going_on_by};
use super::controller::Controller;
use super::orders::{Given, Order, Told};
use super::poll::Poll;
use super::records::{Rewrite, SlurmJob, State, told};
use libra_batch::words;
use libra_core::commitment::Commitment;
use std::collections::HashSet;

/// A job that was to be suspended so long in vain is not.
const GIVEN_UP: f64 = 30.0;

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
        let mut given = std::mem::take(&mut self.given);
        let wanted: HashSet<String> = (self.admission.book.suspended())
            .map(str::to_string)
            .collect();
        if wanted.is_empty() && marked.is_empty() {
            return;
        }
        let rewritten: HashSet<u32> = poll.rewrites.iter().map(|rewrite| rewrite.job).collect();
        let concerned = |job: &&SlurmJob| {
            let known = marked.contains(&job.id) || wanted.contains(&job.name());
            known && job.state != State::Ended && !rewritten.contains(&job.id)
        };
        for job in jobs.iter().filter(concerned) {
            match job.state {
                State::Pending => self.let_wait(job, &mut given, now, poll),
                _ => self.follow_record(job, &mut given, now, poll),
            }
        }
    }

    /// One that stood still and was taken back into its queue begins anew: Slurm holds it, as it holds what is suspended.
    fn let_wait(&mut self, job: &SlurmJob, given: &mut Vec<Given>, now: f64, poll: &mut Poll) {
        if self.tells(job.id, Told::Mark, given, now, poll) {
            poll.log.push(format!(
                "job {} was taken back into its queue while it stood still, and begins anew",
                job.name()
            ));
            poll.rewrites.push(Rewrite {
                job: job.id,
                admin_comment: going_on(&job.admin_comment, None),
                comment: job.comment.clone(),
                release: job.held,
                ..Rewrite::default()
            });
        }
    }

    /// What is to become of a running one, or one that stands still.
    fn follow_record(&mut self, job: &SlurmJob, given: &mut Vec<Given>, now: f64, poll: &mut Poll) {
        let name = job.name();
        let book = &self.admission.book;
        let late = book.would_be_late(&name);
        let wanted = book.stands_still_until(&name).map(|by| GoingOn {
            by,
            late: late.is_some(),
        });
        let commitment = match job.admin_comment.commitment() {
            Some(Ok(known)) => Some(&known.commitment),
            _ => None,
        };
        match (wanted, going_on_by(&job.admin_comment)) {
            (None, None) => {}
            // Nobody of ours may let it go on, so nobody gets its processors.
            (Some(_), None) if job.suspended => {
                let _ = self.admission.book.keeps_processors(&name, now);
                poll.log.push(format!(
                    "job {name} was suspended by somebody else, and keeps its processors"
                ));
            }
            (Some(mark), known) if known != Some(mark) => {
                let text = |known: &Commitment| words::stands_still(known, mark.by, late, now);
                self.mark(job, Some(mark), commitment.map(text), given, now, poll);
            }
            (Some(_), _) if !job.suspended => {
                let vain = |one: &Given| {
                    one.job == job.id && one.told == Told::Suspend && one.wait >= GIVEN_UP
                };
                if given.iter().any(vain) {
                    let _ = self.admission.book.keeps_processors(&name, now);
                    poll.log.push(format!(
                        "job {name} is not suspended by Slurm, and keeps its processors"
                    ));
                } else if self.tells(job.id, Told::Suspend, given, now, poll) {
                    poll.orders.push(Order::Suspend(job.id));
                }
            }
            (Some(_), _) => {}
            (None, Some(mark)) if job.suspended => {
                if late.is_some() && !mark.late {
                    let mark = GoingOn { late: true, ..mark };
                    let text = |known: &Commitment| words::goes_on(known, late);
                    self.mark(job, Some(mark), commitment.map(text), given, now, poll);
                }
                if self.tells(job.id, Told::Resume, given, now, poll) {
                    poll.orders.push(Order::Resume(job.id));
                }
            }
            (None, Some(_)) => {
                let text = |known: &Commitment| words::goes_on(known, late);
                self.mark(job, None, commitment.map(text), given, now, poll);
            }
        }
    }

    /// Another mark on record, or none. `text`: what its owner is told; None for nothing else than before.
    fn mark(
        &mut self,
        job: &SlurmJob,
        mark: Option<GoingOn>,
        text: Option<String>,
        given: &mut Vec<Given>,
        now: f64,
        poll: &mut Poll,
    ) {
        if !self.tells(job.id, Told::Mark, given, now, poll) {
            return;
        }
        if let Some(text) = &text {
            poll.log.push(format!("job {}: {text}", job.name()));
        }
        poll.rewrites.push(Rewrite {
            job: job.id,
            admin_comment: going_on(&job.admin_comment, mark),
            comment: text.map_or_else(|| job.comment.clone(), |text| told(&job.comment, &text)),
            runs: true,
            ..Rewrite::default()
        });
    }

    /// Whether Slurm is to be told now. `before`: what it was told before and has not obeyed, as far as this was not looked at yet.
    fn tells(
        &mut self,
        job: u32,
        told: Told,
        before: &mut Vec<Given>,
        now: f64,
        poll: &mut Poll,
    ) -> bool {
        let (given, is_now) = Given::again(job, told, before, now);
        self.given.push(given);
        poll.again |= is_now;
        is_now
    }
}
