//! What each class of service promises, needs of a job's terms, and holds of a host's processors.
//!
//! They are those of AROMA (2004, section 3.1), in its order of importance but for the last two, which nobody has to choose between
//! where nothing is planned:
//!
//! | class | promised | holds |
//! | --- | --- | --- |
//! | deadline | it ends by its deadline | the share that it needs |
//! | immediate | it starts at once, at full speed | a whole processor for each of its slots |
//! | dedicated | it is the only one on its processors, and ends by its deadline | a whole processor for each of its slots |
//! | best effort | nothing | nothing: it gets what the others leave, and stands still where they leave none |
//!
//! A class that needs no deadline or no estimate is given the longest there is for it, see [`Terms::has_deadline`]: no formula meets
//! an infinity, and no promise hangs on it.

mod judge;

use super::class::Class;
use super::job::{DeadlineType, LONGEST, Request, Terms};
use super::node::JobOnNode;
use super::overrun::PastDeadline;
use super::share::{DeadlineStatus, Need};
pub use judge::{ClassAdmission, Granted};

/// Why a class cannot be had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClassError {
    /// It needs a term that was not given.
    Needs {
        /// The class.
        class: Class,
        /// The term, as users write it.
        term: &'static str,
    },
    /// It costs by use on this site, and nobody knows how long it is.
    NeedsEstimateForPrice,
    /// It promises no deadline, so there is no penalty for one.
    NoPenalty(Class),
    /// This site does not offer it.
    NotOffered(Class),
    /// It starts now or not at all, and the job may not start yet.
    Waits(Class),
    /// A quote of it cannot be held: it starts now or not at all, or nothing is promised that could be held.
    NotHeld(Class),
}

/// A site's rules for classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassRules {
    /// Dedicated jobs are taken.
    pub dedicated: bool,
    /// Immediate jobs are taken.
    pub immediate: bool,
    /// Jobs of best effort are taken.
    pub best_effort: bool,
    /// What a dedicated job costs, as a multiple of what the site's pricing says of its terms, ≥ 0.
    pub dedicated_factor: f64,
    /// The same of an immediate one, priced as if its deadline were the end at full speed.
    pub immediate_factor: f64,
    /// Credits for a processor second that a job of best effort uses, ≥ 0.
    pub best_effort_rate: f64,
    /// Dedicated jobs stand still for others with earlier deadlines, in their nodes' memory, where that makes nobody late.
    pub suspends: bool,
}

impl Default for ClassRules {
    /// All are taken; a whole processor costs what its terms cost, best effort nothing.
    fn default() -> ClassRules {
        ClassRules {
            dedicated: true,
            immediate: true,
            best_effort: true,
            dedicated_factor: 1.0,
            immediate_factor: 1.0,
            best_effort_rate: 0.0,
            suspends: false,
        }
    }
}

impl ClassRules {
    /// The same in a batch system: best effort is a job without terms there.
    pub fn in_batch(self) -> ClassRules {
        ClassRules {
            best_effort: false,
            ..self
        }
    }

    /// Returns true if jobs of this class are taken. Those with a deadline always are.
    pub fn offers(&self, class: Class) -> bool {
        match class {
            Class::Deadline => true,
            Class::Dedicated => self.dedicated,
            Class::Immediate => self.immediate,
            Class::BestEffort => self.best_effort,
        }
    }

    /// Checks that a request is one that its class can take here.
    ///
    /// # Errors
    /// Why its class cannot be had.
    pub fn check(&self, request: &Request) -> Result<(), ClassError> {
        let terms = &request.terms;
        let class = terms.class;
        if !self.offers(class) {
            return Err(ClassError::NotOffered(class));
        }
        check_terms(terms)?;
        let by_use = class == Class::BestEffort && self.best_effort_rate > 0.0;
        if by_use && !terms.has_estimate() {
            return Err(ClassError::NeedsEstimateForPrice);
        }
        Ok(())
    }
}

/// Checks that terms are complete for their class.
///
/// # Errors
/// The term that its class needs or has no use for.
pub fn check_terms(terms: &Terms) -> Result<(), ClassError> {
    let class = terms.class;
    for &term in class.needs() {
        let given = match term {
            "estimate" => terms.has_estimate(),
            "deadline" => terms.has_deadline(),
            _ => true,
        };
        // A deadline of 317 years is one, of a job that is promised it.
        if !given && class != Class::Deadline {
            return Err(ClassError::Needs { class, term });
        }
    }
    let penalised = terms.deadline_type == DeadlineType::Soft || terms.penalty_rate > 0.0;
    let promised = match class {
        Class::Deadline | Class::Dedicated => true,
        Class::Immediate => terms.has_deadline(),
        Class::BestEffort => false,
    };
    if penalised && !promised {
        return Err(ClassError::NoPenalty(class));
    }
    Ok(())
}

/// Checks that a quote of this request can be held: only shares can. The other classes start now, or nothing is promised.
///
/// # Errors
/// That it cannot.
pub fn check_held(request: &Request) -> Result<(), ClassError> {
    match request.terms.class {
        Class::Deadline => Ok(()),
        class => Err(ClassError::NotHeld(class)),
    }
}

/// The time that stands for none, of a deadline and of an estimate, in seconds.
pub const NONE: f64 = LONGEST;

/// How a live job holds processors from now on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entitlement {
    /// What each of its slots needs; the share is 0 where it gets what is left.
    pub need: Need,
    /// What it is entitled to.
    pub hold: Hold,
}

/// What a job is entitled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The share that it needs.
    Share,
    /// Whole processors.
    Whole,
    /// Nothing but what all others leave.
    WhatIsLeft,
}

/// How a live job stands. `need`: what the site's policy says that it needs; `past`: the site's rule for jobs that are past all that was
/// promised; `rating`: the node's.
pub fn entitlement(job: &JobOnNode, need: Need, past: PastDeadline, rating: f64) -> Entitlement {
    let left = |deadline_status| Entitlement {
        need: Need {
            share: 0.0,
            deadline_status,
        },
        hold: Hold::WhatIsLeft,
    };
    let class = job.terms.class;
    if class == Class::BestEffort {
        // It is never late for a promise that there is not.
        return left(DeadlineStatus::OnTrack);
    }
    if past.yields(job, need, rating) {
        return left(need.deadline_status);
    }
    Entitlement {
        need: need_in_class(class, need),
        hold: match class.is_whole() {
            true => Hold::Whole,
            false => Hold::Share,
        },
    }
}

/// Whether a job of this class has had whole processors for as long as it asked for: `ran` seconds, of an estimate as planned, on a node of this
/// rating. It may have them on, and others may be promised them from then on.
pub fn has_outlived(class: Class, ran: f64, estimate: f64, rating: f64) -> bool {
    class.is_whole() && ran >= estimate / rating
}

/// What each slot of a job of this class needs that a policy says to need this: whole processors from its start to its end, however far it has
/// come.
#[inline(always)]
pub fn need_in_class(class: Class, need: Need) -> Need {
    match class.is_whole() {
        true => Need { share: 1.0, ..need },
        false => need,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(class: Class, estimate: f64, deadline: f64, cput: f64, walltime: f64) -> JobOnNode {
        JobOnNode {
            terms: Terms {
                class,
                ..Terms::hard(estimate, deadline, 100.0)
            },
            slots: 1,
            cput,
            walltime,
            held_share: 1.0,
            memory: 0,
            delay: 0.0,
        }
    }

    fn stands(job: &JobOnNode) -> Entitlement {
        entitlement(job, job.need(1.0), PastDeadline::WhatIsLeft, 1.0)
    }

    #[test]
    fn what_is_whole_stays_whole_until_it_is_past_all_that_was_promised() {
        // 10 s within 100 s: by share that is a tenth.
        for class in [Class::Dedicated, Class::Immediate] {
            let stand = stands(&job(class, 10.0, 100.0, 2.0, 2.0));
            assert_eq!((stand.need.share, stand.hold), (1.0, Hold::Whole));
            let over = stands(&job(class, 10.0, 100.0, 12.0, 12.0));
            assert_eq!(over.need.deadline_status, DeadlineStatus::Overrun);
            assert_eq!(over.hold, Hold::Whole);
            let past = stands(&job(class, 10.0, 100.0, 102.0, 102.0));
            assert_eq!((past.need.share, past.hold), (0.0, Hold::WhatIsLeft));
        }
        assert_eq!(
            stands(&job(Class::Deadline, 10.0, 100.0, 0.0, 0.0)),
            Entitlement {
                need: Need {
                    share: 0.1,
                    deadline_status: DeadlineStatus::OnTrack
                },
                hold: Hold::Share
            }
        );
    }

    #[test]
    fn an_immediate_job_without_a_deadline_has_its_processors_for_its_estimate() {
        let within = stands(&job(Class::Immediate, 10.0, NONE, 9.9, 50.0));
        assert_eq!((within.need.share, within.hold), (1.0, Hold::Whole));
        assert_eq!(within.need.deadline_status, DeadlineStatus::OnTrack);
        let past = stands(&job(Class::Immediate, 10.0, NONE, 10.0, 50.0));
        assert_eq!(past.hold, Hold::WhatIsLeft);
    }

    #[test]
    fn best_effort_holds_nothing_and_is_never_late() {
        for (estimate, deadline) in [(NONE, NONE), (10.0, 20.0)] {
            let stand = stands(&job(Class::BestEffort, estimate, deadline, 50.0, 1e6));
            assert_eq!(stand.need.deadline_status, DeadlineStatus::OnTrack);
            assert_eq!((stand.need.share, stand.hold), (0.0, Hold::WhatIsLeft));
        }
    }

    #[test]
    fn what_a_class_needs_and_cannot_have() {
        let terms = |class, estimate, deadline| Terms {
            class,
            ..Terms::hard(estimate, deadline, 100.0)
        };
        let needs = |class, term| Err(ClassError::Needs { class, term });
        use Class::*;
        for (terms, answer) in [
            (terms(Dedicated, NONE, 10.0), needs(Dedicated, "estimate")),
            (terms(Dedicated, 10.0, NONE), needs(Dedicated, "deadline")),
            (terms(Dedicated, 10.0, 20.0), Ok(())),
            (terms(Immediate, NONE, NONE), needs(Immediate, "estimate")),
            (terms(Immediate, 10.0, NONE), Ok(())),
            (terms(BestEffort, NONE, NONE), Ok(())),
            (terms(Deadline, 10.0, LONGEST), Ok(())),
        ] {
            assert_eq!(check_terms(&terms), answer, "{terms:?}");
        }
        let soft = |class, deadline| Terms {
            deadline_type: DeadlineType::Soft,
            ..terms(class, 10.0, deadline)
        };
        for (class, deadline, fine) in [
            (BestEffort, 20.0, false),
            (Immediate, NONE, false),
            (Immediate, 20.0, true),
            (Dedicated, 20.0, true),
        ] {
            let answer = check_terms(&soft(class, deadline));
            assert_eq!(answer.is_ok(), fine, "{class:?} {deadline}: {answer:?}");
        }
    }

    #[test]
    fn a_site_offers_what_it_says() {
        let rules = ClassRules {
            immediate: false,
            best_effort_rate: 0.5,
            ..ClassRules::default()
        };
        let request = |class, estimate| {
            Request::single(Terms {
                class,
                ..Terms::hard(estimate, 20.0, 100.0)
            })
        };
        let check = |class, estimate| rules.check(&request(class, estimate));
        assert_eq!(
            check(Class::Immediate, 1.0),
            Err(ClassError::NotOffered(Class::Immediate))
        );
        assert_eq!(
            check(Class::BestEffort, NONE),
            Err(ClassError::NeedsEstimateForPrice)
        );
        assert_eq!(check(Class::BestEffort, 1.0), Ok(()));
        assert_eq!(check(Class::Deadline, 1.0), Ok(()));
    }
}
