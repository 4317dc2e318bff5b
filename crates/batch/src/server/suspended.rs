//! Dedicated jobs that stand still for others with earlier deadlines (see [`libra_core::book::Book::plan_in_front`]): what their batch system is told of them, by what it has
//! on record.
//!
//! The one that comes is planned to begin some seconds later, when the other stands still. Three steps bring that about, each from what is on record:
//! the one that is to stand still gets a mark, which says when it goes on at the latest; one that has it is suspended; and once its batch system says
//! that it is, the other one begins. So whoever reads the records after a restart knows who stands still for others, and lets it go on: what an
//! administrator suspends has no mark, and stays as it is. To go on it is resumed first, and loses its mark then, whatever has become of its promise.
//!
//! One that an administrator lets go on before its time is suspended again. What a batch system does not obey it is told again, more and more rarely; one
//! that it does not suspend keeps its processors in the end. A batch system may obey late, so a mark stays for as long as that can be: what is suspended and
//! is not to be goes on. One that is taken back into its queue has no mark from then on.

use super::AdmissionServer;
use crate::words;
use libra_core::commitment::Commitment;

/// What a batch system does not obey it is told again after as long as it may take to answer, then after twice as long, and so on up to so many seconds.
const TOLD_AGAIN_AT_MOST: f64 = 60.0;

/// A job that was to be suspended so long in vain is not, in seconds, or so many times as long as an answer may take.
const GIVEN_UP: f64 = 30.0;
const GIVEN_UP_AFTER: f64 = 6.0;

/// An order that was given so many times as long ago as an answer may take is not obeyed any more.
const OBEYED_WITHIN: f64 = 60.0;

/// Marks are the same that are less than so many seconds apart: some records have whole ones.
const SAME: f64 = 1.0;

/// What the record of a job says that stands still for others, or is to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoingOn {
    /// When it goes on at the latest, Unix time.
    pub by: f64,
    /// It will be late, if its estimate holds, and its owner has been told so.
    pub late: bool,
}

impl GoingOn {
    /// Whether it says the same: some records have whole seconds.
    pub fn is(self, other: GoingOn) -> bool {
        self.late == other.late && (self.by - other.by).abs() < SAME
    }
}

/// What a job does that is to stand still, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It is in its queue, once more.
    Waits,
    /// It runs.
    Runs,
    /// Its batch system has suspended it.
    StandsStill,
    /// It is suspended, and its batch system is about to let it go on.
    GoesOn,
}

/// A job that is to stand still for others or has such a mark, as its batch system has it. It has not ended.
#[derive(Debug, Clone, Copy)]
pub struct OnRecord<'a> {
    /// As the book knows it.
    pub id: &'a str,
    /// What it does.
    pub state: RunState,
    /// Its mark; None if there is none.
    pub mark: Option<GoingOn>,
    /// What is committed to it; None if that cannot be read.
    pub commitment: Option<&'a Commitment>,
    /// Seconds that its batch system may take to do what it is told.
    pub answers_within: f64,
    /// It may be told to stand still or to go on now: what it was told last is done.
    pub may_be_told: bool,
}

/// What a batch system is told of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Another mark in its record, or none.
    Mark {
        /// The mark.
        mark: Option<GoingOn>,
        /// What its owner is told; None for nothing else than before.
        text: Option<String>,
    },
    /// All its processes are to stand still, on all its nodes.
    Suspend,
    /// They are to go on.
    Resume,
}

/// What an order is about: what is told again is the same order, another mark is another one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Mark(Option<GoingOn>),
    Suspend,
    Resume,
}

impl Kind {
    fn is(self, other: Kind) -> bool {
        match (self, other) {
            (Kind::Mark(Some(mark)), Kind::Mark(Some(other))) => mark.is(other),
            _ => self == other,
        }
    }
}

impl Order {
    fn kind(&self) -> Kind {
        match self {
            Order::Mark { mark, .. } => Kind::Mark(*mark),
            Order::Suspend => Kind::Suspend,
            Order::Resume => Kind::Resume,
        }
    }
}

/// An order, and whether it was obeyed is still to be seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Given {
    kind: Kind,
    /// When it was given first, Unix time.
    since: f64,
    /// When it is to be given again, Unix time, and how long that is.
    again: f64,
    wait: f64,
}

/// What is to become of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Followed {
    /// In this order.
    pub orders: Vec<Order>,
    /// Lines for the log.
    pub log: Vec<String>,
}

impl AdmissionServer {
    /// What the batch system of a job is told now, by its record of it.
    pub fn follow_suspension(&mut self, job: &OnRecord<'_>, now: f64) -> Followed {
        let mut followed = Followed::default();
        let id = job.id;
        let before = self.told.remove(id).unwrap_or_default();
        let late = self.book.would_be_late(id);
        let wanted = self.book.stands_still_until(id).map(|by| GoingOn {
            by,
            late: late.is_some(),
        });
        let marked = |mark, text: &dyn Fn(&Commitment) -> String| Order::Mark {
            mark,
            text: job.commitment.map(text),
        };
        let (mut orders, mut given) = (Vec::new(), Vec::new());
        let suspends = before.iter().find(|one| one.kind == Kind::Suspend);
        match (job.state, wanted, job.mark) {
            (_, None, None) | (RunState::Waits, Some(_), None) => {}
            // It begins anew.
            (RunState::Waits, _, Some(_)) => orders.push(Order::Mark {
                mark: None,
                text: None,
            }),
            // Nobody of ours may let it go on, so nobody gets its processors.
            (RunState::StandsStill | RunState::GoesOn, Some(_), None) => {
                let _ = self.book.keeps_processors(id, now);
                followed.log.push(format!(
                    "job {id} was suspended by somebody else, and keeps its processors"
                ));
            }
            (_, Some(mark), known) if !known.is_some_and(|known| known.is(mark)) => {
                let text = |known: &Commitment| words::stands_still(known, mark.by, late, now);
                orders.push(marked(Some(mark), &text));
            }
            (RunState::Runs, Some(_), _) => {
                let patience = GIVEN_UP.max(GIVEN_UP_AFTER * job.answers_within);
                if let Some(vain) = suspends.filter(|one| now >= one.since + patience) {
                    let _ = self.book.keeps_processors(id, now);
                    given.push(*vain);
                    // A part of it may have been stopped.
                    orders.push(Order::Resume);
                    followed.log.push(format!(
                        "job {id} is not suspended by its batch system, and keeps its processors"
                    ));
                } else {
                    orders.push(Order::Suspend);
                }
            }
            // What is to go on cannot be stopped before it does.
            (RunState::StandsStill | RunState::GoesOn, Some(_), _) => {}
            (RunState::StandsStill | RunState::GoesOn, None, Some(mark)) => {
                if late.is_some() && !mark.late {
                    let mark = GoingOn { late: true, ..mark };
                    orders.push(marked(Some(mark), &|known| words::goes_on(known, late)));
                }
                orders.push(Order::Resume);
            }
            (RunState::Runs, None, Some(_)) => match suspends {
                Some(late) if now < late.since + OBEYED_WITHIN * job.answers_within => {
                    given.push(*late);
                }
                _ => orders.push(marked(None, &|known| words::goes_on(known, late))),
            },
        }
        let may_be_told = |order: &Order| job.may_be_told || matches!(order, Order::Mark { .. });
        for order in orders.into_iter().filter(may_be_told) {
            let (one, is_now) = again(order.kind(), &before, job.answers_within, now);
            given.push(one);
            if !is_now {
                continue;
            }
            match &order {
                Order::Mark {
                    text: Some(text), ..
                } => {
                    followed.log.push(format!("job {id}: {text}"));
                }
                Order::Mark { mark: None, .. } if job.state == RunState::Waits => {
                    followed.log.push(format!(
                        "job {id} was taken back into its queue while it stood still, and begins anew"
                    ));
                }
                _ => {}
            }
            followed.orders.push(order);
        }
        if !given.is_empty() {
            self.told.insert(id.to_string(), given);
        }
        followed
    }

    /// Whether a job is to be looked at: something is to become of it, by what was seen of it last, that its batch system was not told just now. `mark`: None of one
    /// that had none, or was not seen.
    pub fn is_to_be_followed(
        &self,
        id: &str,
        mark: Option<GoingOn>,
        stands_still: bool,
        now: f64,
    ) -> bool {
        let late = self.book.would_be_late(id).is_some();
        let wanted = self.book.stands_still_until(id);
        let wanted = wanted.map(|by| GoingOn { by, late });
        let needed = match (wanted, mark) {
            (None, None) => return false,
            (Some(wanted), mark) if !mark.is_some_and(|mark| mark.is(wanted)) => {
                Kind::Mark(Some(wanted))
            }
            (Some(_), _) if stands_still => return false,
            (Some(_), _) => Kind::Suspend,
            (None, _) if stands_still => Kind::Resume,
            (None, _) => Kind::Mark(None),
        };
        let is_told = |one: &Given| one.kind.is(needed) && now < one.again;
        !(self.told.get(id)).is_some_and(|given| given.iter().any(is_told))
    }

    /// A job that is to go on is suspended once more before, by its batch system's own rules, which may take so many seconds to do that: it keeps its mark for as long as that may
    /// be obeyed.
    pub fn note_to_be_suspended(&mut self, id: &str, answers_within: f64, now: f64) {
        let given = Given {
            kind: Kind::Suspend,
            since: now,
            again: now + answers_within,
            wait: answers_within,
        };
        self.told.entry(id.to_string()).or_default().push(given);
    }

    /// What was told of other jobs than these is not kept.
    pub fn keep_told(&mut self, is_known: impl Fn(&str) -> bool) {
        self.told.retain(|id, _| is_known(id));
    }
}

/// What is to be told, and whether now. What was told `before` and was not obeyed is told again, more and more rarely.
fn again(kind: Kind, before: &[Given], within: f64, now: f64) -> (Given, bool) {
    let (since, wait) = match before.iter().find(|given| given.kind.is(kind)) {
        Some(given) if now < given.again => return (*given, false),
        Some(given) => (given.since, (given.wait * 2.0).min(TOLD_AGAIN_AT_MOST)),
        None => (now, within),
    };
    let given = Given {
        kind,
        since,
        again: now + wait,
        wait,
    };
    (given, true)
}
