//! The mapping search (AROMA 2004, section 3.2, "The Mapping Algorithm"): the first date among now
//! and the ends of what is mapped at which all tasks of a job can start together with every
//! constraint kept, and at that date the best hosts.
//!
//! A list algorithm: the tasks take one after the other the host whose last task would then end
//! first, that time counted from now and weighted with the memory used, formula (1):
//! finish × (1 + Mf × memory used / memory).
//!
//! Invariant: a search changes nothing.

use super::host::{Host, Obstacle, Scratch};
use super::round_robin::{Process, slack};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Demand {
    /// Tasks.
    pub(super) slots: u32,
    /// Processor time of each on a reference node, in seconds.
    pub(super) work: f64,
    /// Each alone on its processor.
    pub(super) dedicated: bool,
    /// By when they must have ended; may be infinite.
    pub(super) due: f64,
    /// Latest start; may be infinite.
    pub(super) latest: f64,
    /// Memory of each, in bytes.
    pub(super) memory: u64,
    /// Where it must be, and what is left there: a stopped job goes on where it was.
    pub(super) fixed: Vec<Fixed>,
}

/// The tasks of a stopped job on one host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fixed {
    pub(super) host: usize,
    pub(super) slots: u32,
    /// Processor time that each still needs there, in seconds.
    pub(super) left: f64,
}

/// A date and hosts, each with a number of tasks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mapping {
    pub(super) start: f64,
    /// Ascending by host.
    pub(super) places: Vec<(usize, u32)>,
}

/// A host that could take its tasks so far and one more.
#[derive(Debug, PartialEq)]
struct Offer {
    criterion: f64,
    host: usize,
    slots: u32,
    /// False where the criterion is only known to be at least this.
    exact: bool,
}

impl Eq for Offer {}

impl Ord for Offer {
    fn cmp(&self, other: &Offer) -> Ordering {
        let key = |offer: &Offer| (offer.host, offer.slots, offer.exact);
        self.criterion
            .total_cmp(&other.criterion)
            .then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Offer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Searches, and keeps the room that they need.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) scratch: Scratch,
    offers: BinaryHeap<Reverse<Offer>>,
    /// Before this date a host is of no use.
    not_before: Vec<f64>,
    dates: Vec<f64>,
    sorted: Vec<f64>,
    taken: Vec<(usize, u32)>,
}

impl Search {
    /// The first mapping that keeps every constraint and starts before `before`. `memory_weight`
    /// is the paper's Mf.
    pub(super) fn first(
        &mut self,
        hosts: &[Host],
        now: f64,
        demand: &Demand,
        before: f64,
        memory_weight: f64,
    ) -> Option<Mapping> {
        self.not_before.clear();
        self.not_before.resize(hosts.len(), f64::NEG_INFINITY);
        let latest = demand.latest + slack(demand.latest);
        if now > latest || now >= before {
            return None;
        }
        if let Some(mapping) = self.at(hosts, now, now, demand, memory_weight) {
            return Some(mapping);
        }
        self.collect_dates(hosts, now, latest, before);
        let mut next = 0;
        while next < self.dates.len() {
            let date = self.dates[next];
            if let Some(mapping) = self.at(hosts, now, date, demand, memory_weight) {
                return Some(mapping);
            }
            let useful = self.enough_not_before(hosts, demand);
            next += 1;
            next += self.dates[next..].partition_point(|date| *date < useful - slack(*date));
        }
        None
    }

    /// The ends of all that is mapped, after now, ascending, each once.
    fn collect_dates(&mut self, hosts: &[Host], now: f64, latest: f64, before: f64) {
        self.dates.clear();
        let ends = hosts
            .iter()
            .flat_map(|host| host.tasks.iter().map(|task| task.finish));
        let wanted = |date: &f64| *date > now + slack(now) && *date <= latest && *date < before;
        self.dates.extend(ends.filter(wanted));
        self.dates.sort_unstable_by(f64::total_cmp);
        // Of several dates that are one the last stays: by then all of them have ended.
        self.dates.reverse();
        self.dates
            .dedup_by(|next, kept| *kept - *next < slack(*kept));
        self.dates.reverse();
    }

    /// Before this date there are fewer hosts of use than are needed.
    fn enough_not_before(&mut self, hosts: &[Host], demand: &Demand) -> f64 {
        let needed = match demand.fixed.len() {
            // Only a dedicated task says how many of it one host takes.
            0 if demand.dedicated && hosts.iter().all(|host| host.dedicated_slots() <= 1) => {
                demand.slots as usize
            }
            0 => 1,
            _ => {
                let bounds = demand.fixed.iter().map(|fixed| self.not_before[fixed.host]);
                return bounds.fold(f64::NEG_INFINITY, f64::max);
            }
        };
        if needed > hosts.len() {
            return f64::INFINITY;
        }
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.not_before);
        let (_, bound, _) = self
            .sorted
            .select_nth_unstable_by(needed.saturating_sub(1), f64::total_cmp);
        *bound
    }

    /// The best hosts for a start at this date.
    fn at(
        &mut self,
        hosts: &[Host],
        now: f64,
        date: f64,
        demand: &Demand,
        memory_weight: f64,
    ) -> Option<Mapping> {
        if !demand.fixed.is_empty() {
            return self.at_fixed(hosts, date, demand);
        }
        let criterion = |release: f64, host: &Host, slots: u32| {
            let memory = demand.memory.saturating_mul(u64::from(slots));
            (release - now) * (1.0 + memory_weight * host.memory_ratio(memory))
        };
        let mut offers = std::mem::take(&mut self.offers).into_vec();
        offers.clear();
        for (index, host) in hosts.iter().enumerate() {
            if self.not_before[index] > date + slack(date) {
                continue;
            }
            if let Some(release) = self.ask(hosts, index, date, demand, 1) {
                offers.push(Reverse(Offer {
                    criterion: criterion(release, host, 1),
                    host: index,
                    slots: 1,
                    exact: true,
                }));
            }
        }
        let enough = !demand.dedicated || {
            let slots = |offer: &Reverse<Offer>| hosts[offer.0.host].dedicated_slots();
            offers.iter().map(slots).sum::<u64>() >= u64::from(demand.slots)
        };
        if !enough {
            self.offers = offers.into();
            return None;
        }
        let mut offers = BinaryHeap::from(offers);
        self.taken.clear();
        let mut missing = demand.slots;
        while missing > 0 {
            let Some(Reverse(mut offer)) = offers.pop() else {
                break;
            };
            let host = &hosts[offer.host];
            if !offer.exact {
                if let Some(release) = self.ask(hosts, offer.host, date, demand, offer.slots) {
                    offer.criterion = criterion(release, host, offer.slots);
                    offer.exact = true;
                    offers.push(Reverse(offer));
                }
                continue;
            }
            self.taken.push((offer.host, offer.slots));
            missing -= 1;
            // One task more never ends the host earlier; how much later is only worked out if it
            // is this host's turn again.
            offer.slots += 1;
            offer.exact = false;
            offers.push(Reverse(offer));
        }
        self.offers = offers;
        if missing > 0 {
            return None;
        }
        self.taken.sort_unstable();
        let mut places: Vec<(usize, u32)> = Vec::with_capacity(self.taken.len());
        for &(host, slots) in &self.taken {
            match places.last_mut() {
                Some(last) if last.0 == host => last.1 = slots,
                _ => places.push((host, slots)),
            }
        }
        Some(Mapping {
            start: date,
            places,
        })
    }

    fn at_fixed(&mut self, hosts: &[Host], date: f64, demand: &Demand) -> Option<Mapping> {
        for fixed in &demand.fixed {
            let process = Process {
                start: date,
                left: fixed.left,
                slots: fixed.slots,
                dedicated: demand.dedicated,
                running: false,
            };
            let answer = hosts[fixed.host].with(&process, demand.due, &mut self.scratch);
            if let Err(obstacle) = answer {
                self.note(fixed.host, obstacle);
                return None;
            }
        }
        Some(Mapping {
            start: date,
            places: demand.fixed.iter().map(|f| (f.host, f.slots)).collect(),
        })
    }

    /// When the host's last task would end with so many tasks of the job on it.
    fn ask(
        &mut self,
        hosts: &[Host],
        index: usize,
        date: f64,
        demand: &Demand,
        slots: u32,
    ) -> Option<f64> {
        let process = Process {
            start: date,
            left: demand.work / hosts[index].rating,
            slots,
            dedicated: demand.dedicated,
            running: false,
        };
        match hosts[index].with(&process, demand.due, &mut self.scratch) {
            Ok(release) => Some(release),
            Err(obstacle) => {
                if slots == 1 {
                    self.note(index, obstacle);
                }
                None
            }
        }
    }

    fn note(&mut self, host: usize, obstacle: Obstacle) {
        match obstacle {
            Obstacle::Date => {}
            Obstacle::Until(date) => self.not_before[host] = date,
            Obstacle::Never => self.not_before[host] = f64::INFINITY,
        }
    }
}
