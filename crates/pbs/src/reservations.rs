//! Reservations (`pbs_rsub`): at their time PBS keeps their nodes for the jobs of their queues, and those to their nodes.
//!
//! A job with terms is promised nothing of a node that is reserved before PBS would let it run no longer; one in a reservation's queue is
//! judged on that reservation's nodes. A reservation of some of a node's processors is taken for one of the node.

use super::exec_vnode;
use super::{list, number, text};
use libra_units::{cut, duration};
use serde_json::Value;
use std::collections::HashSet;

/// One that PBS has confirmed; times are Unix times.
struct Reservation<'a> {
    name: &'a str,
    queue: &'a str,
    start: f64,
    end: f64,
    vnodes: HashSet<&'a str>,
}

/// All that could concern one job.
pub(super) struct Reservations<'a> {
    own: Option<Reservation<'a>>,
    /// Of others, before it has ended.
    others: Vec<Reservation<'a>>,
    now: f64,
}

impl<'a> Reservation<'a> {
    fn read(event: &'a Value) -> Option<Reservation<'a>> {
        Some(Reservation {
            name: text(event, "name")?,
            queue: text(event, "queue")?,
            start: number(event, "start").ok()?,
            end: number(event, "end").ok()?,
            vnodes: exec_vnode::vnodes(text(event, "nodes")?).collect(),
        })
    }
}

impl<'a> Reservations<'a> {
    /// Of a submission as the hook shows it, to a queue; PBS would let it run for so many seconds.
    ///
    /// # Errors
    /// Why its own reservation is none for it, for the user.
    pub(super) fn of(
        job: &'a Value,
        queue: &str,
        now: f64,
        longest: f64,
    ) -> Result<Reservations<'a>, String> {
        let all = list(job, "reservations").iter();
        let (own, mut others): (Vec<_>, Vec<_>) = all
            .filter_map(Reservation::read)
            .partition(|one| one.queue == queue);
        others.retain(|one| one.end > now && one.start < now + longest);
        let own = own.into_iter().next();
        if let Some(own) = &own {
            let name = cut(own.name);
            if own.start > now {
                return Err(format!(
                    "reservation {name} begins in {}, and a job with a deadline starts at once; submit it then",
                    duration::show(own.start - now)
                ));
            }
            if own.end < now + longest {
                return Err(format!(
                    "reservation {name} ends in {}, and PBS would have to let this job run for {}, its deadline and its estimate together",
                    duration::show((own.end - now).max(0.0)),
                    duration::show(longest)
                ));
            }
        }
        Ok(Reservations { own, others, now })
    }

    /// The same of a job that may not start yet: what others have reserved may be over then.
    pub(super) fn without_others(self) -> Reservations<'a> {
        Reservations {
            others: Vec::new(),
            ..self
        }
    }

    /// Returns true if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_none() && self.others.is_empty()
    }

    /// Returns true if the job may be on this vnode as long as it lasts.
    pub(super) fn open(&self, vnode: &str) -> bool {
        match &self.own {
            Some(own) => own.vnodes.contains(vnode),
            None => !(self.others.iter()).any(|one| one.vnodes.contains(vnode)),
        }
    }

    /// What stands in the way where no node is left, for the user.
    pub(super) fn in_the_way(&self) -> String {
        if let Some(own) = &self.own {
            return format!(
                "reservation {} has no node that a job with a deadline could have there",
                cut(own.name)
            );
        }
        let shown = |one: &Reservation<'_>| match one.start > self.now {
            true => format!("{} in {}", one.name, duration::show(one.start - self.now)),
            false => format!("{} now", one.name),
        };
        let all: Vec<String> = self.others.iter().map(shown).collect();
        format!(
            "the nodes that it could have are reserved before it would end: {}",
            cut(&all.join(", "))
        )
    }
}
