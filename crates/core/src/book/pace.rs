//! Jobs with whole processors on several nodes: a batch system takes all of them back when the last part of the job is done, and where its processes wait for
//! each other they go at the pace of the slowest. So such a job has all its nodes for as long as the slowest takes.
//!
//! On nodes of one rating nothing is looked at for that.

use super::judge::Nodes;
use super::{Allocation, Book, BookedJob};
use crate::decision::admission::Acceptance;
use crate::decision::job::Request;
use crate::decision::placement::Placement;

/// Ratings that are tried for the slowest node of one job; of more, so many, evenly: for each, it is asked whether there is room.
const MOST_RATINGS: usize = 8;

/// Of a job that is to come, the rating of its slowest node: slower ones are closed to it, and it has the others as long as that one. None if each
/// node counts for itself.
pub(super) type Slowest = Option<f64>;

impl Book {
    /// What is to be tried for a request, one after the other; the first closes no node.
    pub(super) fn paces(&self, request: &Request, nodes: &Nodes<'_>) -> Vec<Slowest> {
        let is_spread = request.shape.chunks > 1 && request.terms.class.is_whole();
        // Where nobody begins later it does not matter how long a job takes.
        let somebody_later = !self.planned.is_empty() || !self.suspended.is_empty();
        if !is_spread || !somebody_later {
            return vec![None];
        }
        let mut ratings: Vec<f64> = Vec::new();
        for rating in (0..self.nodes.len()).filter_map(|index| nodes.rating(index)) {
            if let Err(at) = ratings.binary_search_by(|other| other.total_cmp(&rating)) {
                ratings.insert(at, rating);
            }
        }
        let last = ratings.len().saturating_sub(1);
        match ratings.len().min(MOST_RATINGS) {
            0 | 1 => vec![None],
            // The slowest and the fastest among them.
            tried => (0..tried)
                .map(|step| Some(ratings[step * last / (tried - 1)]))
                .collect(),
        }
    }

    /// What a request is accepted for, at the first of these paces at which it is.
    pub(super) fn accepts_at(
        &self,
        paces: &[Slowest],
        nodes: Nodes<'_>,
        request: &Request,
        scratch: &mut [Placement],
    ) -> Option<Acceptance> {
        (paces.iter()).find_map(|pace| {
            let nodes = nodes.no_slower_than(*pace);
            self.admission.accepts(&nodes, request, scratch)
        })
    }

    /// The nodes as a request is to be judged on them: at a pace at which it is accepted, if there is one.
    pub(super) fn at_its_pace<'a>(
        &self,
        nodes: Nodes<'a>,
        request: &Request,
        scratch: &mut [Placement],
    ) -> Nodes<'a> {
        let paces = self.paces(request, &nodes);
        // Where there is one nothing is asked twice.
        let found = (paces.len() > 1).then(|| {
            let accepts = |pace: &&Slowest| {
                let nodes = nodes.no_slower_than(**pace);
                self.admission.accepts(&nodes, request, scratch).is_some()
            };
            paces.iter().find(accepts)
        });
        nodes.no_slower_than(*found.flatten().unwrap_or(&paces[0]))
    }

    /// Notes which node of a job is its slowest.
    pub(super) fn rate(&mut self, key: usize) {
        let rating = |place: &Allocation| self.nodes[place.node as usize].spec.rating;
        let places = self.job(key).places.iter().map(rating);
        let mut slowest: Option<(usize, f64)> = None;
        let mut uneven = false;
        for (at, rating) in places.enumerate() {
            uneven |= slowest.is_some_and(|(_, least)| least != rating);
            if slowest.is_none_or(|(_, least)| rating < least) {
                slowest = Some((at, rating));
            }
        }
        self.job_mut(key).slowest = slowest.filter(|_| uneven).map(|(at, _)| at as u32);
    }

    /// The least rating of nodes.
    pub(super) fn slowest_of(&self, nodes: impl Iterator<Item = usize>) -> f64 {
        (nodes.map(|node| self.nodes[node].spec.rating)).fold(f64::INFINITY, f64::min)
    }
}

impl BookedJob {
    /// A time of one of its places, of a job with whole processors: that of its slowest node if that is longer.
    pub(super) fn longest(&self, place: &Allocation, time: impl Fn(&Allocation) -> f64) -> f64 {
        match self.slowest {
            None => time(place),
            Some(slowest) => time(place).max(time(&self.places[slowest as usize])),
        }
    }
}
