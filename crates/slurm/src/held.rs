//! Jobs that wait longer than their commitments allow: their shares go back, and are asked for anew. As `libra-pbs` does it.
//!
//! An accepted job starts at once, unless an administrator lets it wait (`scontrol hold`, `StartTime`, `Dependency`; users cannot), or Slurm
//! does not start it. Meanwhile its share would lie idle.
//!
//! - A held job gives its share back, and what was set aside of its account's money. Its admin comment says so, so that it is known after a
//!   restart, and no node takes for a promise what was one. When it is released, or runs, admission is asked anew: by the time that is
//!   left until its deadline, at today's price. One that gets no share is held again; one that runs already goes on without a promise.
//! - One that Slurm keeps waiting keeps its share until its deadline. From then on it holds nothing until it runs.
//! - A job that was requeued is not asked anew: it was paid for in part. While it is held it holds nothing, whoever holds it, and released it begins with
//!   what others were not promised meanwhile. Its money stays set aside.
//! - An array is not asked anew: it keeps what it has while it is held, which users cannot do, until its deadline.

use super::array::{HELD, JobCommitment, NOTHING, first_token, going_on, going_on_by};
use super::controller::Controller;
use super::poll::Poll;
use super::problem::NotTaken;
use super::records::{Rest, Rewrite, SlurmJob, State, told};
use libra_batch::{server, words};
use libra_core::commitment::Commitment;
use libra_units::{credits, percent};
use std::collections::HashSet;

impl Controller {
    /// Takes back what waiting jobs do not hold any more, by records of `taken`.
    pub(super) fn let_rest(
        &mut self,
        resting: &[(&SlurmJob, &JobCommitment, Rest)],
        taken: f64,
        now: f64,
        poll: &mut Poll,
    ) {
        for (job, job_commitment, rest) in resting {
            let (commitment, name) = (&job_commitment.commitment, job.name());
            let mut released = 0;
            for (part, _) in job.parts(job_commitment) {
                released += usize::from(self.admission.book.release_waiting(&part, taken, now));
            }
            match rest {
                Rest::Lapsed if released > 0 => poll.log.push(format!(
                    "job {name} waits past its deadline: its share is free until it runs"
                )),
                Rest::Lapsed => {}
                Rest::HeldAgain => {
                    let text = "held after it was requeued: its share is free until it is released, and it has then what others were not promised meanwhile";
                    let comment = told(&job.comment, text);
                    if comment != job.comment {
                        poll.log.push(format!("job {name} is {text}"));
                        poll.rewrites.push(Rewrite {
                            job: job.id,
                            admin_comment: job.admin_comment.to_string(),
                            comment,
                            stays_held: true,
                            ..Rewrite::default()
                        });
                    }
                }
                // What happened to it after the records were taken stands.
                Rest::Held if self.admission.book.contains(&name) => {}
                Rest::Held => {
                    // It may have been held before it had a name here.
                    if self.unnamed.remove(&commitment.token).is_some() {
                        self.admission.book.drop_token(commitment.token);
                    }
                    let text =
                        "held: its share is given back, and is asked for anew when it is released";
                    poll.log.push(format!(
                        "job {name} is held: its share is free, and is asked for anew when it is released"
                    ));
                    poll.dropped.push(commitment.clone());
                    poll.rewrites.push(Rewrite {
                        job: job.id,
                        admin_comment: match first_token(&job.admin_comment) {
                            None => format!("{HELD}{}", commitment.line()),
                            Some(was) => format!("{HELD}{}:was={was}", commitment.line()),
                        },
                        comment: told(&job.comment, text),
                        ..Rewrite::default()
                    });
                }
            }
        }
    }

    /// Jobs that were held are released, or run: judged as if they were submitted now. So is one that runs although its promise was deferred, which
    /// an administrator alone can bring about.
    pub(super) fn ask_anew(
        &mut self,
        returned: &[(&SlurmJob, Commitment)],
        now: f64,
        poll: &mut Poll,
    ) {
        for (job, commitment) in returned {
            let name = job.name();
            if self.admission.book.contains(&name) {
                continue;
            }
            let runs = job.state == State::Running;
            let after = match commitment.deferred {
                true => "its promise was deferred",
                false => "asked anew after a hold",
            };
            if commitment.deferred {
                self.admission.gate.never_began(commitment, now);
            }
            let rewrite = |prefix: &str, line: String, text: &str, hold| Rewrite {
                job: job.id,
                admin_comment: format!("{prefix}{line}"),
                comment: told(&job.comment, text),
                hold,
                begin: job.kept.then_some(now as u64),
                ..Rewrite::default()
            };
            poll.rewrites.push(match self.commit_anew(job, &name, commitment, now) {
                Ok(None) => continue,
                Ok(Some(anew)) => {
                    let info = words::accepted(&anew, anew.price, true);
                    poll.log.push(format!(
                        "job {name}: {} of a processor for {} credits, {} ({after})",
                        percent(anew.share_on("")),
                        credits(anew.price),
                        words::due(&anew.request.terms, 0.0),
                    ));
                    let was = first_token(&job.admin_comment).unwrap_or(commitment.token);
                    let line = format!("{}:was={was}", anew.line());
                    let text = format!("{info} ({after})");
                    rewrite(super::array::PREFIX, line, &text, false)
                }
                Err(not) if runs => {
                    let why = words::headed_reason(&not);
                    let text = format!("runs without a promise: {why}");
                    poll.log.push(format!("job {name} {text}"));
                    rewrite(NOTHING, commitment.line(), &text, false)
                }
                Err(not) => {
                    let why = words::headed_reason(&not);
                    let text = format!("{why} (asked anew after a hold; held again: release it for another try, or cancel it and submit it anew)");
                    poll.log.push(format!("job {name}: {text}"));
                    rewrite(HELD, commitment.line(), &text, true)
                }
            });
        }
    }

    /// Jobs that were paid for and that their owners had requeued, where their accounts do not cover another run, by their numbers in Slurm.
    pub fn take_unpaid(&mut self, jobs: HashSet<u32>) {
        self.unpaid = jobs;
    }

    /// Nobody gets a promise that nobody pays for: such a job goes on without one.
    pub(super) fn give_up_unpaid(&mut self, jobs: &[SlurmJob], now: f64, poll: &mut Poll) {
        let unpaid = std::mem::take(&mut self.unpaid);
        for job in jobs.iter().filter(|job| unpaid.contains(&job.id)) {
            let (State::Pending | State::Running) = job.state else {
                continue;
            };
            let Some(Ok(known)) = job.admin_comment.commitment() else {
                continue;
            };
            for (part, _) in job.parts(known) {
                let _ = self.admission.book.cancel(&part, now);
                let _ = self.admission.book.ended(&part, now);
            }
            let text = "runs once more without a promise: its account does not cover another run";
            poll.log.push(format!("job {} {text}", job.name()));
            poll.rewrites.push(Rewrite {
                job: job.id,
                // Who stands still for others is let go on, whatever becomes of its promise.
                admin_comment: going_on(
                    &format!("{NOTHING}{}", known.line()),
                    going_on_by(&job.admin_comment),
                ),
                comment: told(&job.comment, text),
                ..Rewrite::default()
            });
        }
    }

    /// None: not yet, somebody's name is to be looked up.
    fn commit_anew(
        &mut self,
        job: &SlurmJob,
        name: &str,
        commitment: &Commitment,
        now: f64,
    ) -> Result<Option<Commitment>, NotTaken> {
        let Some(owner) = self.owner(commitment, job.user) else {
            return Ok(None);
        };
        let payer = self.admission.payer_anew(commitment, &owner, now);
        let nodes: Vec<&str> = match job.state {
            State::Running => job.nodes.iter().map(String::as_str).collect(),
            // It is pinned to them.
            _ => (commitment.places.iter().map(|place| place.node.as_str())).collect(),
        };
        let anew = (self.admission.admit_anew(commitment, &nodes, payer, now)?).commitment;
        // Its token was given just now, and its name is not in the book.
        let mut bound = self.admission.book.bind(anew.token, name, now);
        if job.state == State::Running {
            bound = bound.and_then(|()| self.admission.book.started(name, now));
        }
        let name_of = |node| self.admission.book.node_name(node).to_string();
        bound.map_err(|error| NotTaken::of_book(error, name_of))?;
        Ok(Some(anew))
    }

    /// The name of a job's user, where it is asked for; None: somebody is to look it up.
    pub(super) fn owner(&mut self, commitment: &Commitment, user: u32) -> Option<String> {
        match server::paid_by(commitment) {
            _ if !self.admission.gate.is_on() => Some(String::new()),
            Some(("user", _)) => Some(String::new()),
            _ => match self.front.users.get(&user) {
                Some(name) => Some(name.clone().unwrap_or_default()),
                None => {
                    self.unknown_users.push(user);
                    None
                }
            },
        }
    }
}
