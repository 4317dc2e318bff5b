//! Judging a job of any class, on one host and by the book of a batch system, and what would be accepted in another class instead.
//!
//! A job with a share is judged by the site's own policy and price. Of the others a policy of their own is asked, [`FixedShare`], and their class
//! says what becomes of the price ([`InClass`]); all else, placement, evidence and counter-offers, is the same for all.

use super::{ClassRules, need_in_class};
use crate::decision::admission::{Acceptance, Admission};
use crate::decision::class::Class;
use crate::decision::counter_offer::CounterOffer;
use crate::decision::curve::Judged;
use crate::decision::job::Request;
use crate::decision::node::{Cluster, JobOnNode, NodeView, PlainNode};
use crate::decision::placement::Placement;
use crate::decision::policy::{FixedShare, Obstacle, Offer, Policy};
use crate::decision::pricing::{AnyPricing, InClass, PricedNode, Pricing};
use crate::decision::refusal::{Reason, Refusal};
use crate::decision::share::Need;

/// What a job gets on one host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Granted {
    /// Credits; of best effort that costs by use the most, for its whole estimate.
    pub price: f64,
    /// Share per slot, in processors.
    pub share: f64,
    /// Processors left over on the host.
    pub loadfree: f64,
}

/// The admission of a site, for jobs of every class.
///
/// A policy that looks at every job is shown a node as it is left to jobs with shares: without the processors that others hold whole
/// ([`NodeView::whole`]), and without those others. So jobs with a deadline are judged by the site's policy as ever. Whole processors are given
/// where the shares of those jobs leave them free, whatever the policy: shares that fit are deadlines that can be kept under each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassAdmission {
    /// The rules for jobs with a deadline.
    pub admission: Admission,
    /// The rules for the others.
    pub rules: ClassRules,
}

/// For jobs with a deadline alone.
impl From<Admission> for ClassAdmission {
    fn from(admission: Admission) -> ClassAdmission {
        ClassAdmission {
            admission,
            rules: ClassRules {
                dedicated: false,
                immediate: false,
                best_effort: false,
                ..ClassRules::default()
            },
        }
    }
}

/// Asks the admission that is for a class.
macro_rules! ask {
    ($all:expr, $class:expr, $admission:ident => $question:expr) => {
        match $all.without_shares($class) {
            None => {
                let $admission = &$all.admission;
                $question
            }
            Some($admission) => {
                let $admission = &$admission;
                $question
            }
        }
    };
}

impl ClassAdmission {
    /// Judges a request that [`ClassRules::check`] has passed, on one host. Changes nothing.
    ///
    /// # Errors
    /// A refusal with its reason, the evidence, and what would be accepted now: in its class, then in others.
    pub fn judge(&self, node: &PlainNode, request: &Request) -> Result<Granted, Box<Refusal>> {
        let nodes = std::slice::from_ref(node);
        let mut scratch = [Placement::EMPTY; 1];
        let accepted = self.judge_jobs(nodes, request, 1, &mut scratch)?;
        Ok(Granted {
            price: accepted.price,
            share: scratch[0].share,
            loadfree: scratch[0].loadfree,
        })
    }

    /// As [`Admission::judge_jobs`], of a request that [`ClassRules::check`] has passed.
    ///
    /// # Errors
    /// As [`ClassAdmission::judge`].
    pub fn judge_jobs<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
        jobs: u32,
        scratch: &mut [Placement],
    ) -> Result<Acceptance, Box<Refusal>> {
        let class = request.terms.class;
        let judged = ask!(self, class, own => own.judge_jobs(cluster, request, jobs, scratch));
        judged.map_err(|mut refusal| {
            let others = self.other_classes(cluster, request, &refusal.reason);
            refusal.counter_offers.extend(others);
            refusal
        })
    }

    /// What would become of a request, without evidence and counter-offers.
    pub fn appraise<C: Cluster + ?Sized>(&self, cluster: &C, request: &Request) -> Judged {
        ask!(self, request.terms.class, own => own.appraise(cluster, request))
    }

    /// As [`Admission::accepts`].
    pub fn accepts<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
        scratch: &mut [Placement],
    ) -> Option<Acceptance> {
        ask!(self, request.terms.class, own => own.accepts(cluster, request, scratch))
    }

    /// As [`Admission::price_now`].
    pub fn price_now<C: Cluster + ?Sized>(&self, cluster: &C, request: &Request) -> f64 {
        ask!(self, request.terms.class, own => own.price_now(cluster, request))
    }

    /// What a job costs at these places, credits.
    pub fn price_at(&self, request: &Request, places: impl Iterator<Item = PricedNode>) -> f64 {
        ask!(self, request.terms.class, own => own.pricing.price(request, places))
    }

    /// What a node says to a request, its estimate as planned.
    ///
    /// # Errors
    /// As [`Policy::offer`].
    pub fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        ask!(self, request.terms.class, own => own.policy.offer(node, request))
    }

    /// What each slot of a job needs from now on, on a node of this rating.
    #[inline(always)]
    pub fn need(&self, job: &JobOnNode, rating: f64) -> Need {
        need_in_class(job.terms.class, self.admission.policy.need(job, rating))
    }

    /// Whether a job may be taken for a larger budget than it costs that is refused for less.
    pub fn weighs_budgets(&self, request: &Request) -> bool {
        ask!(self, request.terms.class, own => own.policy.weighs_budgets())
    }

    /// The admission of a class that divides no processors; None for deadlines.
    fn without_shares(&self, class: Class) -> Option<Admission<FixedShare, InClass<AnyPricing>>> {
        let Admission {
            policy,
            pricing,
            estimate_margin,
        } = self.admission;
        let pricing = match class {
            Class::Deadline => return None,
            Class::Dedicated => InClass::Times(pricing, self.rules.dedicated_factor),
            Class::Immediate => InClass::AtFullSpeed(pricing, self.rules.immediate_factor),
            Class::BestEffort => InClass::ByUse(self.rules.best_effort_rate),
        };
        Some(Admission {
            policy: FixedShare {
                share: if class.is_whole() { 1.0 } else { 0.0 },
                node_choice: policy.goes_by_sums(),
            },
            pricing,
            estimate_margin,
        })
    }

    /// The same job in each other class in which it would be accepted now, as it is. `reason`: why it is not in its own.
    fn other_classes<'a, C: Cluster + ?Sized>(
        &'a self,
        cluster: &'a C,
        request: &'a Request,
        reason: &Reason,
    ) -> impl Iterator<Item = CounterOffer> + 'a {
        let own = request.terms.class;
        let invalid = matches!(reason, Reason::Invalid(_));
        // Where shares are counted by their sums, whole processors are never free that a share is not.
        let by_sums = own == Class::Deadline && self.admission.policy.goes_by_sums().is_some();
        let no_whole = by_sums && !matches!(reason, Reason::Budget { .. });
        let others = (Class::ALL.into_iter())
            .filter(move |class| !invalid && *class != own && !(no_whole && class.is_whole()));
        others.filter_map(move |class| {
            let mut changed = *request;
            changed.terms.class = class;
            if class == Class::Deadline && !(changed.terms.has_deadline()) {
                return None;
            }
            self.rules.check(&changed).ok()?;
            let judged = self.appraise(cluster, &changed);
            judged.refused.is_none().then_some(CounterOffer::Class {
                class,
                price: judged.price,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::Terms;
    use crate::decision::node::{JobOnNode, NodeSpec};
    use crate::decision::policy::{AnyPolicy, LibraAdaptive, LibraRisk, LibraSla};
    use crate::decision::refusal::Category;
    use crate::decision::service::NONE;
    use crate::decision::share::ShareRule;

    /// Two processors, half of one committed.
    fn node() -> PlainNode {
        let spec = NodeSpec {
            processors: 2.0,
            rating: 1.0,
            memory: 1000,
        };
        let job = JobOnNode {
            terms: Terms::hard(50.0, 100.0, 1e6),
            slots: 1,
            cput: 0.0,
            walltime: 0.0,
            held_share: 0.5,
            memory: 600,
            delay: 0.0,
        };
        PlainNode::new(spec, vec![job], ShareRule::Exact)
    }

    fn request(class: Class, estimate: f64, deadline: f64, processors: u32) -> Request {
        let mut request = Request::single(Terms {
            class,
            ..Terms::hard(estimate, deadline, 1e6)
        });
        request.shape.processors_per_chunk = processors;
        request
    }

    fn admission() -> ClassAdmission {
        ClassAdmission {
            admission: Admission::default(),
            rules: ClassRules {
                dedicated_factor: 2.0,
                immediate_factor: 3.0,
                best_effort_rate: 0.1,
                ..ClassRules::default()
            },
        }
    }

    fn classes(refusal: &Refusal) -> Vec<(Class, f64)> {
        let of = |offer: &CounterOffer| match offer {
            CounterOffer::Class { class, price } => Some((*class, *price)),
            _ => None,
        };
        refusal.counter_offers.iter().filter_map(of).collect()
    }

    #[test]
    fn each_class_gets_what_it_is_promised_and_costs_what_it_says() {
        let judge = |request: &Request| admission().judge(&node(), request).expect("accepted");
        // 20 + 20/80 credits by the paper's formula.
        let by_share = judge(&request(Class::Deadline, 20.0, 80.0, 1));
        assert_eq!((by_share.share, by_share.price), (0.25, 20.25));
        let dedicated = judge(&request(Class::Dedicated, 20.0, 80.0, 1));
        assert_eq!(
            dedicated,
            Granted {
                price: 40.5,
                share: 1.0,
                loadfree: 0.5
            }
        );
        // At full speed: 20 + 20/20, three times.
        let immediate = judge(&request(Class::Immediate, 20.0, NONE, 1));
        assert_eq!((immediate.share, immediate.price), (1.0, 63.0));
        let left = judge(&request(Class::BestEffort, 20.0, NONE, 2));
        assert_eq!(
            left,
            Granted {
                price: 4.0,
                share: 0.0,
                loadfree: 1.5
            }
        );
    }

    #[test]
    fn whole_processors_are_given_now_or_not_at_all_under_every_policy() {
        for policy in [
            AnyPolicy::default(),
            AnyPolicy::LibraSla(LibraSla),
            AnyPolicy::LibraRisk(LibraRisk::default()),
            AnyPolicy::LibraAdaptive(LibraAdaptive::default()),
        ] {
            let mut rules = admission();
            rules.admission.policy = policy;
            for class in [Class::Dedicated, Class::Immediate] {
                let asked = request(class, 20.0, 80.0, 2);
                let refusal = rules.judge(&node(), &asked).expect_err("1.5 are free");
                assert_eq!(
                    refusal.reason,
                    Reason::Share {
                        needed: 2.0,
                        free: 1.5,
                        node: 0
                    }
                );
                for offer in &refusal.counter_offers {
                    let taken = rules.judge(&node(), &offer.apply(&asked));
                    assert_eq!(taken.map(|granted| granted.price).ok(), offer.price());
                }
            }
        }
    }

    #[test]
    fn where_all_processors_are_held_whole_nobody_has_a_share() {
        let spec = NodeSpec {
            processors: 0.0,
            rating: 1.0,
            memory: 1000,
        };
        let nothing = PlainNode::new(spec, Vec::new(), ShareRule::Exact);
        for policy in [
            AnyPolicy::default(),
            AnyPolicy::LibraSla(LibraSla),
            AnyPolicy::LibraRisk(LibraRisk::default()),
            AnyPolicy::LibraAdaptive(LibraAdaptive::default()),
        ] {
            let mut rules = admission();
            rules.admission.policy = policy;
            for class in [Class::Deadline, Class::Dedicated, Class::Immediate] {
                let refusal = rules.judge(&nothing, &request(class, 20.0, 80.0, 1));
                let refusal = refusal.expect_err("there is no processor");
                assert_eq!(
                    refusal.counter_offers,
                    [CounterOffer::Class {
                        class: Class::BestEffort,
                        price: 2.0
                    }],
                    "{policy:?} {class:?}"
                );
            }
        }
    }

    #[test]
    fn a_dedicated_job_that_cannot_end_in_time_is_refused() {
        let late = request(Class::Dedicated, 20.0, 10.0, 1);
        let refusal = admission().judge(&node(), &late).expect_err("20 s in 10 s");
        assert_eq!(refusal.reason.category(), Category::Deadline);
        assert!(
            refusal
                .counter_offers
                .iter()
                .any(|offer| matches!(offer, CounterOffer::Deadline { deadline, .. } if *deadline == 20.0)),
            "{refusal:?}"
        );
    }

    #[test]
    fn memory_is_counted_for_every_class() {
        for class in Class::ALL {
            let mut asked = request(class, 1.0, 80.0, 1);
            asked.shape.memory_per_chunk = 500;
            let refusal = admission()
                .judge(&node(), &asked)
                .expect_err("400 are free");
            assert_eq!(refusal.reason.category(), Category::Memory, "{class:?}");
            // No class has more memory.
            assert_eq!(classes(&refusal), [], "{class:?}");
        }
    }

    #[test]
    fn what_is_refused_by_share_is_offered_in_other_classes() {
        // 1.5 are free: two times 0.9 do not fit, and two whole ones neither.
        let two = request(Class::Deadline, 90.0, 100.0, 2);
        let refusal = admission().judge(&node(), &two).expect_err("1.8 of 1.5");
        assert_eq!(classes(&refusal), [(Class::BestEffort, 18.0)]);
        // Two whole ones do not fit, two shares do.
        let two = request(Class::Immediate, 50.0, 100.0, 2);
        let refusal = admission().judge(&node(), &two).expect_err("2 of 1.5");
        assert_eq!(
            classes(&refusal),
            [(Class::Deadline, 101.0), (Class::BestEffort, 10.0)]
        );
        // What has no deadline is not offered where one is promised.
        let two = request(Class::Immediate, 50.0, NONE, 2);
        let refusal = admission().judge(&node(), &two).expect_err("2 of 1.5");
        assert_eq!(classes(&refusal), [(Class::BestEffort, 10.0)]);
    }

    #[test]
    fn a_budget_too_small_is_said_and_the_smallest_is_offered() {
        let mut asked = request(Class::BestEffort, 20.0, NONE, 1);
        asked.terms.budget = 1.0;
        let refusal = admission().judge(&node(), &asked).expect_err("it costs 2");
        assert_eq!(
            refusal.reason,
            Reason::Budget {
                price: 2.0,
                budget: 1.0
            }
        );
        assert_eq!(
            refusal.counter_offers,
            [CounterOffer::Budget { budget: 2.0 }]
        );
    }

    #[test]
    fn what_a_site_does_not_offer_is_no_counter_offer() {
        let mut rules = admission();
        rules.rules.best_effort = false;
        let two = request(Class::Deadline, 90.0, 100.0, 2);
        let refusal = rules.judge(&node(), &two).expect_err("1.8 of 1.5");
        assert_eq!(classes(&refusal), []);
    }
}
