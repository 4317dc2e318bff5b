//! What a request would cost at other deadlines, and which of these would be accepted.
//!
//! Invariant: each point is what a submission with that deadline would be answered now, by the same code. Nothing is reserved.
//! The search knows nothing about policies, nodes and batch systems: it asks the same question with other values.

use super::admission::Admission;
use super::job::{LONGEST, Request, SHORTEST};
use super::node::Cluster;
use super::placement::{self, Placement};
use super::policy::Policy;
use super::pricing::Pricing;
use super::refusal::Category;

/// So many deadlines are judged, about: two that round to the same are one.
pub const POINTS: usize = 32;

/// The longest deadline that is judged, as a multiple of the one that was asked.
const LONGER: f64 = 10.0;

/// How near the least feasible deadline is found, as a ratio.
const NEAR: f64 = 1.005;

/// What would become of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// What it costs, credits; of a refused one, what it would cost if the budget were no matter.
    pub price: f64,
    /// The largest share of a processor that a slot of it gets; None if it is refused.
    pub share: Option<f64>,
    /// Category of the refusal; None if it is accepted.
    pub refused: Option<Category>,
}

/// A deadline, judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Seconds after submission.
    pub deadline: f64,
    /// What would become of the request.
    pub judged: Judged,
}

/// What would become of a request now.
pub type Judge<'a> = &'a dyn Fn(&Request) -> Judged;

impl<P: Policy, Q: Pricing> Admission<P, Q> {
    /// What would become of a request, without evidence and counter-offers.
    pub fn appraise<C: Cluster + ?Sized>(&self, cluster: &C, request: &Request) -> Judged {
        if request.check().is_ok() {
            let mut scratch =
                vec![Placement::EMPTY; placement::room(&self.policy, request, cluster.len())];
            if let Some(accepted) = self.accepts(cluster, request, &mut scratch) {
                let places = &scratch[..accepted.nodes];
                return Judged {
                    price: accepted.price,
                    share: Some(places.iter().fold(0.0, |most, p| p.share.max(most))),
                    refused: None,
                };
            }
        }
        Judged {
            price: self.price_now(cluster, request),
            share: None,
            refused: Some(self.reason(cluster, request).category()),
        }
    }
}

/// The request with another deadline.
pub fn with_deadline(request: &Request, deadline: f64) -> Request {
    let mut changed = *request;
    changed.terms.deadline = deadline;
    changed
}

/// Deadlines from just below the least that the nodes can keep, whatever the budget, to ten times the one that was asked, and that
/// one itself; each judged. In order, none twice. Nothing for a request that is out of range, or is promised no deadline: there are no others
/// to compare it with.
pub fn curve(request: &Request, judge: Judge<'_>) -> Vec<Point> {
    if request.check().is_err() || !request.terms.promises_end() {
        return Vec::new();
    }
    (deadlines(request, judge).into_iter())
        .map(|deadline| Point {
            deadline,
            judged: judge(&with_deadline(request, deadline)),
        })
        .collect()
}

fn deadlines(request: &Request, judge: Judge<'_>) -> Vec<f64> {
    let asked = request.terms.deadline;
    let (from, least) = match least(request, judge) {
        Some((below, least)) => (figures(below, f64::floor), Some(figures(least, f64::ceil))),
        // No deadline is kept now.
        None => (figures(asked / 3.0, f64::floor), None),
    };
    let first = least.unwrap_or(from);
    let to = (asked * LONGER).max(first * 2.0).min(LONGEST);
    let steps = POINTS - 3;
    let ratio = (to / first).powf(1.0 / steps as f64);
    let mut all: Vec<f64> = (0..=steps)
        .map(|step| figures(first * ratio.powi(step as i32), f64::round))
        .chain([from, first, asked])
        .map(|deadline| deadline.clamp(SHORTEST, LONGEST))
        .collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// A deadline that no budget makes feasible, and one just above it that some budget does.
fn least(request: &Request, judge: Judge<'_>) -> Option<(f64, f64)> {
    let feasible = |deadline: f64| {
        let mut changed = with_deadline(request, deadline);
        changed.terms.budget = f64::INFINITY;
        judge(&changed).refused.is_none()
    };
    let asked = request.terms.deadline;
    let doubled = |exponent: i32| asked * 2f64.powi(exponent);
    // Longer ones first: shorter ones help only where there is a longest.
    let longer = (0..)
        .map(doubled)
        .take_while(|deadline| *deadline <= LONGEST);
    let shorter = (1..).map(|exponent| doubled(-exponent));
    let mut accepted = longer
        .chain([LONGEST])
        .chain(shorter.take_while(|deadline| *deadline >= SHORTEST))
        .find(|deadline| feasible(*deadline))?;
    let mut refused = accepted;
    while refused == accepted {
        let half = (accepted / 2.0).max(SHORTEST);
        match feasible(half) {
            true if half == SHORTEST => return Some((half, half)),
            true => (accepted, refused) = (half, half),
            false => refused = half,
        }
    }
    while accepted / refused > NEAR {
        let middle = (accepted * refused).sqrt();
        match feasible(middle) {
            true => accepted = middle,
            false => refused = middle,
        }
    }
    Some((refused, accepted))
}

/// To three figures, such as a person would type.
fn figures(value: f64, round: fn(f64) -> f64) -> f64 {
    let exponent = value.log10().floor() as i32 - 2;
    // A power of ten with a negative exponent is no exact number, its reciprocal is.
    match exponent {
        0.. => round(value / 10f64.powi(exponent)) * 10f64.powi(exponent),
        _ => round(value * 10f64.powi(-exponent)) / 10f64.powi(-exponent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::Terms;
    use crate::decision::node::{NodeSpec, PlainNode};
    use crate::decision::share::ShareRule;

    fn node(processors: f64) -> PlainNode {
        let spec = NodeSpec {
            processors,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        PlainNode::new(spec, Vec::new(), ShareRule::Exact)
    }

    fn of(nodes: &[PlainNode], request: &Request) -> Vec<Point> {
        let admission = <Admission>::default();
        curve(request, &|request| admission.appraise(nodes, request))
    }

    #[test]
    fn from_just_below_the_least_deadline_to_ten_times_the_asked_one() {
        let request = Request::single(Terms::hard(10.0, 20.0, 10.7));
        let points = of(&[node(1.0)], &request);
        assert!((24..=40).contains(&points.len()), "{}", points.len());
        let first = points[0];
        let dear = of(
            &[node(1.0)],
            &Request::single(Terms::hard(10.0, 20.0, 11.1)),
        );
        assert_eq!(dear[0].judged.refused, Some(Category::Deadline));
        assert!((9.8..10.0).contains(&first.deadline), "{first:?}");
        // Feasible, and too dear: 10 + 10 / 10.1 is more than 10.7.
        assert_eq!(points[1].judged.refused, Some(Category::Budget));
        assert!((10.0..10.2).contains(&points[1].deadline), "{points:?}");
        let asked = points.iter().find(|point| point.deadline == 20.0);
        let judged = asked.expect("the asked one").judged;
        assert_eq!((judged.price, judged.refused), (10.5, None));
        assert_eq!(judged.share, Some(0.5));
        assert_eq!(points[points.len() - 1].deadline, 200.0);
        assert!(points.is_sorted_by(|a, b| a.deadline < b.deadline));
    }

    #[test]
    fn where_no_deadline_helps_all_are_refused() {
        let mut request = Request::single(Terms::hard(10.0, 20.0, 100.0));
        request.shape.scatter = true;
        request.shape.chunks = 2;
        let points = of(&[node(1.0)], &request);
        assert!((24..=40).contains(&points.len()), "{}", points.len());
        assert!(points.iter().all(|point| point.judged.refused.is_some()));
        assert!(of(&[], &request)[0].judged.refused == Some(Category::NoNode));
        request.terms.deadline = -1.0;
        assert_eq!(of(&[node(1.0)], &request), []);
    }

    #[test]
    fn a_longest_deadline_is_found_from_below() {
        let admission = <Admission>::default();
        let request = Request::single(Terms::hard(10.0, 1000.0, 100.0));
        let points = curve(&request, &|request| match request.terms.deadline > 60.0 {
            true => Judged {
                price: 0.0,
                share: None,
                refused: Some(Category::Partition),
            },
            false => admission.appraise(&[node(1.0)][..], request),
        });
        assert!(points.iter().any(|point| point.judged.refused.is_none()));
        assert!(points[0].deadline < 10.0, "{points:?}");
    }

    #[test]
    fn deadlines_are_such_as_one_would_type() {
        for (value, down, up) in [
            (10.049, 10.0, 10.1),
            (1234.5, 1230.0, 1240.0),
            (0.001_234_5, 0.001_23, 0.001_24),
            (20.0, 20.0, 20.0),
        ] {
            assert_eq!(figures(value, f64::floor), down);
            assert_eq!(figures(value, f64::ceil), up);
        }
    }
}
