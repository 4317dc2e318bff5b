//! Jobs with whole processors on several nodes: a batch system takes all of them back when the last part of the job is done, and where its processes wait for
//! each other they go at the pace of the slowest. So such a job has all its nodes for as long as the slowest takes.
//!
//! On nodes of one rating nothing is looked at for that.

use super::judge::Nodes;
use super::{Allocation, Book, BookedJob};
use crate::decision::job::Request;

/// Ratings that are tried for the slowest node of one job; of more, so many, evenly: for each, all nodes are asked.
const MOST_RATINGS: usize = 8;

/// Of a job that is to come, the rating of its slowest node: slower ones are closed to it, and it has the others as long as that one. None where each
/// node counts for itself.
type Slowest = Option<f64>;

impl Book {
    /// What `judge` says of a request where it accepts it, with one or another node as its slowest; else what it says with all nodes open.
    ///
    /// # Errors
    /// As `judge`.
    pub(super) fn at_some_pace<'a, T, E>(
        &self,
        request: &Request,
        nodes: Nodes<'a>,
        mut judge: impl FnMut(&Nodes<'a>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tried = self.slowest_for(request, &nodes).into_iter();
        let mut judge = |slowest| judge(&nodes.no_slower_than(slowest));
        judge(tried.next().flatten())
            .or_else(|refused| tried.find_map(|slowest| judge(slowest).ok()).ok_or(refused))
    }

    /// What is to be tried, one after the other; the first closes no node.
    fn slowest_for(&self, request: &Request, nodes: &Nodes<'_>) -> Vec<Slowest> {
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
        let tried = ratings.len().min(MOST_RATINGS);
        match tried {
            0 | 1 => vec![None],
            _ => (0..tried)
                .map(|step| Some(ratings[step * ratings.len() / tried]))
                .collect(),
        }
    }

    /// Notes whether the nodes of a job have different ratings.
    pub(super) fn rate(&mut self, key: usize) {
        let rating = |place: &Allocation| self.nodes[place.node as usize].spec.rating;
        let mut ratings = self.job(key).places.iter().map(rating);
        let first = ratings.next();
        let uneven = ratings.any(|other| Some(other) != first);
        self.job_mut(key).uneven = uneven;
    }

    /// The least rating of nodes.
    pub(super) fn slowest_of(&self, nodes: impl Iterator<Item = usize>) -> f64 {
        (nodes.map(|node| self.nodes[node].spec.rating)).fold(f64::INFINITY, f64::min)
    }

    /// A time of one of its places, of a job with whole processors: where its nodes have different ratings, the longest of all.
    pub(super) fn longest(
        &self,
        job: &BookedJob,
        place: &Allocation,
        time: impl Fn(&Allocation) -> f64,
    ) -> f64 {
        match job.uneven {
            false => time(place),
            true => job
                .places
                .iter()
                .map(time)
                .fold(f64::NEG_INFINITY, f64::max),
        }
    }
}
