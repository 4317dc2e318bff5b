//! Judging a job of any class on one host, and what would be accepted in another class instead.

use super::ClassRules;
use crate::decision::TOLERANCE;
use crate::decision::admission::{Admission, affordable};
use crate::decision::class::Class;
use crate::decision::counter_offer::{Capacity, CounterOffer, Question, find};
use crate::decision::curve::Judged;
use crate::decision::job::Request;
use crate::decision::node::{NodeView, PlainNode};
use crate::decision::placement::Placement;
use crate::decision::policy::Policy;
use crate::decision::pricing::{PricedNode, Pricing};
use crate::decision::refusal::{Reason, Refusal};

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

/// The admission of one host, for jobs of every class.
///
/// The node that is judged on has the processors that nobody holds whole, the jobs on it that hold shares, and the memory that all hold.
/// So jobs with a deadline are judged by the site's policy as ever, on the host that is left to them. Whole processors are given
/// where the shares of those jobs leave them free, whatever the policy: shares that fit are deadlines that can be kept under each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassAdmission {
    /// The rules for jobs with a deadline.
    pub admission: Admission,
    /// The rules for the others.
    pub rules: ClassRules,
}

impl ClassAdmission {
    /// Judges a request that [`ClassRules::check`] has passed. Changes nothing.
    ///
    /// # Errors
    /// A refusal with its reason, the evidence, and what would be accepted now: in its class, then in others.
    pub fn judge(&self, node: &PlainNode, request: &Request) -> Result<Granted, Box<Refusal>> {
        let refused = match self.in_class(node, request) {
            Ok(granted) => return Ok(granted),
            Err(refused) => refused,
        };
        let (reason, mut counter_offers) = *refused;
        if !matches!(reason, Reason::Invalid(_)) {
            counter_offers.extend(self.other_classes(node, request));
        }
        Err(Box::new(Refusal {
            reason,
            counter_offers,
        }))
    }

    /// What would become of a request, without counter-offers.
    pub fn appraise(&self, node: &PlainNode, request: &Request) -> Judged {
        if request.terms.class == Class::Deadline {
            return self.admission.appraise(std::slice::from_ref(node), request);
        }
        let checked = request.check().map_err(Reason::<usize>::Invalid);
        match checked.and_then(|()| self.by_itself(node, request)) {
            Ok(granted) => Judged {
                price: granted.price,
                share: Some(granted.share),
                refused: None,
            },
            Err(reason) => Judged {
                price: self.price(node, request),
                share: None,
                refused: Some(reason.category()),
            },
        }
    }

    fn in_class(
        &self,
        node: &PlainNode,
        request: &Request,
    ) -> Result<Granted, Box<(Reason, Vec<CounterOffer>)>> {
        let nodes: &[PlainNode] = std::slice::from_ref(node);
        if request.terms.class == Class::Deadline {
            let mut scratch = [Placement::EMPTY; 1];
            let judged = self.admission.judge(nodes, request, &mut scratch);
            return match judged {
                Ok(acceptance) => Ok(Granted {
                    price: acceptance.price,
                    share: scratch[0].share,
                    loadfree: scratch[0].loadfree,
                }),
                Err(refusal) => Err(Box::new((refusal.reason, refusal.counter_offers))),
            };
        }
        if let Err(error) = request.check() {
            return Err(Box::new((Reason::Invalid(error), Vec::new())));
        }
        self.by_itself(node, request).map_err(|reason| {
            let offers = find(
                &Question {
                    accepts: &|changed| {
                        let granted = self.by_itself(node, changed).ok()?;
                        Some(granted.price)
                    },
                    price: &|changed| self.price(node, changed),
                    capacity: &|| Capacity::of(nodes),
                    margin: self.admission.estimate_margin,
                    weighs_budgets: false,
                },
                request,
                1,
            );
            Box::new((reason, offers))
        })
    }

    /// A request of a class that no policy is asked about.
    fn by_itself(&self, node: &PlainNode, request: &Request) -> Result<Granted, Reason> {
        let price = self.price(node, request);
        if !affordable(price, request.terms.budget) {
            return Err(Reason::Budget {
                price,
                budget: request.terms.budget,
            });
        }
        let spec = node.spec;
        let planned = self.admission.planned(request).terms;
        let fastest = planned.estimate / spec.rating;
        let whole = request.terms.class.is_whole();
        if whole && fastest > planned.deadline * (1.0 + TOLERANCE) {
            return Err(Reason::Deadline {
                fastest,
                deadline: planned.deadline,
            });
        }
        let slots = request.shape.slots() as f64;
        let free = (spec.processors - node.committed()).max(0.0);
        if whole && slots > free + spec.processors * TOLERANCE {
            return Err(Reason::Share {
                needed: slots,
                free,
                node: 0,
            });
        }
        let needed =
            (request.shape.memory_per_chunk).saturating_mul(u64::from(request.shape.chunks));
        let memory = spec.memory.saturating_sub(node.memory_committed());
        if needed > memory {
            return Err(Reason::Memory {
                needed,
                free: memory,
                node: 0,
            });
        }
        let share = if whole { 1.0 } else { 0.0 };
        Ok(Granted {
            price,
            share,
            loadfree: (free - slots * share).max(0.0),
        })
    }

    /// What a job of a class that no policy is asked about costs now, credits.
    fn price(&self, node: &PlainNode, request: &Request) -> f64 {
        let terms = &request.terms;
        let slots = request.shape.slots() as f64;
        let mut priced = *request;
        let factor = match terms.class {
            Class::BestEffort if !terms.has_estimate() => return 0.0,
            Class::BestEffort => return self.rules.best_effort_rate * terms.estimate * slots,
            Class::Immediate => {
                // What a deadline at full speed costs: that is what it gets.
                priced.terms.deadline = terms.deadline.min(terms.estimate / node.spec.rating);
                self.rules.immediate_factor
            }
            Class::Dedicated => self.rules.dedicated_factor,
            Class::Deadline => 1.0,
        };
        let processors = node.spec.processors;
        let place = PricedNode {
            slots,
            processors,
            free: (processors - node.committed()).max(slots),
        };
        factor * (self.admission.pricing).price(&priced, std::iter::once(place))
    }

    /// The same job in each other class in which it would be accepted now, as it is.
    fn other_classes<'a>(
        &'a self,
        node: &'a PlainNode,
        request: &'a Request,
    ) -> impl Iterator<Item = CounterOffer> + 'a {
        let others = (Class::ALL.into_iter()).filter(|class| *class != request.terms.class);
        others.filter_map(|class| {
            let mut changed = *request;
            changed.terms.class = class;
            if class == Class::Deadline && !(changed.terms.has_deadline()) {
                return None;
            }
            self.rules.check(&changed).ok()?;
            let judged = self.appraise(node, &changed);
            judged.refused.is_none().then_some(CounterOffer::Class {
                class,
                price: judged.price,
            })
        })
    }
}

impl ClassAdmission {
    /// Whether a job may be taken for a larger budget than it costs that is refused for less.
    pub fn weighs_budgets(&self, request: &Request) -> bool {
        request.terms.class == Class::Deadline && self.admission.policy.weighs_budgets()
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
