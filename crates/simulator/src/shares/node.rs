//! A node of the simulation: who is on it, how far they are, and at which rates they run. It stands for all nodes that are alike, see
//! [`super::groups`].

use libra_core::decision::TOLERANCE;
use libra_core::decision::allotment::{self, Claim, Shortage, Spare};
use libra_core::decision::job::Terms;
use libra_core::decision::node::{JobOnNode, NodeSpec, NodeView};
use libra_core::decision::policy::Policy;
use libra_core::decision::share::grace;

/// A job's part on one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tenant {
    /// Which running job it is part of.
    pub running: u32,
    /// Its slots here.
    pub slots: u32,
    /// As planned, the estimate with its margin.
    pub terms: Terms,
    /// When the job was submitted, seconds.
    pub submitted: f64,
    /// Processor seconds that each slot will use here. No policy sees it.
    pub run_time: f64,
    /// Bytes of each slot.
    pub memory: u64,
    /// Share per slot that was committed.
    pub committed_share: f64,
    /// Processor seconds per slot, at `since`.
    pub cput: f64,
    /// Since when it runs at `rate`.
    pub since: f64,
    /// Processors per slot that the node gives it.
    pub granted: f64,
    /// Processors per slot that it runs at: as granted, or as the pace of its job has it.
    pub rate: f64,
    /// Processors per slot that it is about to run at, while paces are taken anew.
    pub target: f64,
    /// It goes on at the pace of its job's slowest part, which also tells when it ends.
    pub coupled: bool,
    /// When it ends at this rate; infinite where it is coupled.
    pub ends: f64,
    /// Seconds after its deadline that were accepted for it.
    pub delay: f64,
    /// Its deadline has passed, and shares were taken anew then.
    pub passed: bool,
}

impl Default for Tenant {
    fn default() -> Tenant {
        Tenant {
            running: 0,
            slots: 1,
            terms: Terms::hard(1.0, 1.0, 0.0),
            submitted: 0.0,
            run_time: 1.0,
            memory: 0,
            committed_share: 0.0,
            cput: 0.0,
            since: 0.0,
            granted: 0.0,
            rate: 0.0,
            target: 0.0,
            coupled: false,
            ends: f64::INFINITY,
            delay: 0.0,
            passed: false,
        }
    }
}

impl Tenant {
    /// From when on it is late: deadline, accepted delay, and what rounding may do to both.
    fn late_from(&self) -> f64 {
        let deadline = self.terms.deadline + self.delay;
        self.submitted + deadline + 2.0 * grace(deadline)
    }

    /// Processor seconds per slot by `now`.
    #[inline(always)]
    pub fn cput_by(&self, now: f64) -> f64 {
        self.cput + self.rate * (now - self.since)
    }

    /// From now on at this rate, where it makes its own way also to its end.
    pub fn run_at(&mut self, rate: f64, now: f64) {
        self.cput = self.cput_by(now);
        self.since = now;
        self.rate = rate;
        if !self.coupled {
            self.ends = if rate > 0.0 {
                now + (self.run_time - self.cput).max(0.0) / rate
            } else {
                f64::INFINITY
            };
        }
    }

    #[inline(always)]
    pub fn on_node(&self, now: f64) -> JobOnNode {
        JobOnNode {
            terms: self.terms,
            slots: self.slots,
            cput: self.cput_by(now),
            walltime: now - self.submitted,
            held_share: self.rate,
            memory: self.memory * u64::from(self.slots),
            delay: self.delay,
        }
    }

    /// Its next event by itself.
    fn next(&self) -> f64 {
        if self.passed {
            self.ends
        } else {
            self.ends.min(self.late_from())
        }
    }
}

/// What most decisions see of a node and nothing else: kept apart and dense, since every submission
/// looks at all of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Front {
    spec: NodeSpec,
    /// Sum of the shares; NaN where it changes with time and must be summed up.
    committed: f64,
    memory_committed: u64,
}

impl Front {
    /// Returns true if it is as this other one, to the last bit.
    pub fn is_like(&self, other: &Front) -> bool {
        self.committed.to_bits() == other.committed.to_bits()
            && self.memory_committed == other.memory_committed
            && self.spec == other.spec
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub spec: NodeSpec,
    pub tenants: Vec<Tenant>,
    /// Its next event; infinite where there is none.
    pub next: f64,
    pub version: u32,
    /// Every tenant runs at the share it needs, so that its need stays as it is.
    steady: bool,
    /// Sum of the shares; kept up where it is steady.
    committed: f64,
    memory_committed: u64,
    /// Processors in use since then.
    used: f64,
    used_since: f64,
}

impl Node {
    pub fn new(spec: NodeSpec) -> Node {
        Node {
            spec,
            tenants: Vec::new(),
            next: f64::INFINITY,
            version: 0,
            steady: true,
            committed: 0.0,
            memory_committed: 0,
            used: 0.0,
            used_since: 0.0,
        }
    }

    /// From now on this is as another node is; its version tells them apart.
    pub fn become_as(&mut self, other: &Node) {
        let Node {
            spec,
            tenants,
            next,
            version: _,
            steady,
            committed,
            memory_committed,
            used,
            used_since,
        } = other;
        self.tenants.clone_from(tenants);
        self.version = self.version.wrapping_add(1);
        (self.spec, self.next, self.steady) = (*spec, *next, *steady);
        (self.committed, self.memory_committed) = (*committed, *memory_committed);
        (self.used, self.used_since) = (*used, *used_since);
    }

    /// Everyone on it runs as if alone, so that nodes become alike again when those have left that made the difference.
    pub fn is_steady(&self) -> bool {
        self.steady
    }

    /// Returns true if it is as this other one, whose front is like its own, to the last bit. When work was last told does not count.
    pub fn is_like(&self, other: &Node) -> bool {
        self.spec == other.spec && self.steady == other.steady && self.tenants == other.tenants
    }

    /// Nothing runs here any more: it is as one on which nothing ever ran.
    pub fn become_idle(&mut self) {
        debug_assert!(self.tenants.is_empty() && self.used == 0.0, "{self:?}");
        self.next = f64::INFINITY;
        self.steady = true;
        self.committed = 0.0;
        self.memory_committed = 0;
    }

    /// Since when it has done how much, in processor seconds of reference nodes; from now on it counts anew, at
    /// the rates of now.
    pub fn worked_by(&mut self, now: f64) -> (f64, f64) {
        let (from, work) = (self.used_since, self.used * (now - self.used_since));
        self.used = match self.steady {
            true => self.committed,
            false => self.sum_of_rates(),
        };
        self.used_since = now;
        (from, work * self.spec.rating)
    }

    pub fn front(&self) -> Front {
        Front {
            spec: self.spec,
            committed: if self.steady {
                self.committed
            } else {
                f64::NAN
            },
            memory_committed: self.memory_committed,
        }
    }

    /// Moves who has ended by `now` to `ended`. Returns whether shares must be taken anew: not where
    /// everyone else runs on as before.
    pub fn leave(&mut self, now: f64, ended: &mut Vec<Tenant>) -> bool {
        let mut anew = !self.steady;
        let mut index = 0;
        while index < self.tenants.len() {
            let tenant = &mut self.tenants[index];
            if tenant.ends > now {
                if !tenant.passed && tenant.late_from() <= now {
                    tenant.passed = true;
                    anew = true;
                }
                index += 1;
                continue;
            }
            debug_assert!(
                (tenant.cput_by(now) - tenant.run_time).abs() <= 1e-6 * tenant.run_time.max(1.0),
                "{tenant:?}"
            );
            ended.push(*tenant);
            self.memory_committed -= tenant.memory * u64::from(tenant.slots);
            // The order stays: of equal claims the first comes first.
            self.tenants.remove(index);
        }
        if !anew {
            self.tidy();
        }
        anew
    }

    /// Takes leave of the part of a coupled job. Returns whether shares must be taken anew, as [`Node::leave`].
    pub fn remove(&mut self, running: u32) -> bool {
        if let Some(place) = self.tenants.iter().position(|t| t.running == running) {
            let tenant = self.tenants.remove(place);
            self.memory_committed -= tenant.memory * u64::from(tenant.slots);
        }
        if self.steady {
            self.tidy();
        }
        !self.steady
    }

    /// Sum and next event where everyone runs on as before.
    fn tidy(&mut self) {
        self.committed = self.sum_of_rates();
        self.expect();
    }

    /// Takes the next event anew.
    pub fn expect(&mut self) {
        self.next = (self.tenants.iter()).fold(f64::INFINITY, |next, t| next.min(t.next()));
    }

    /// Somebody here runs slower than at what it needs, and so will need more.
    pub fn unsteady(&mut self) {
        self.steady = false;
    }

    /// The part of a running job that is here.
    pub fn part_of(&self, running: u32) -> Option<usize> {
        self.tenants.iter().position(|t| t.running == running)
    }

    /// A new tenant, before shares are taken anew.
    pub fn add(&mut self, tenant: Tenant) {
        self.memory_committed += tenant.memory * u64::from(tenant.slots);
        self.tenants.push(tenant);
        self.steady = false;
    }

    /// Returns true if everyone else would run on as before. True where each runs at what it needs, whoever comes.
    pub fn can_just_add<P: Policy>(&self, tenant: &Tenant, policy: &P, now: f64) -> bool {
        // By what it needs, not by what was committed to it: one that yields (LibraSLA) has a smaller commitment.
        let need = policy.need(&tenant.on_node(now), self.spec.rating);
        let more = f64::from(tenant.slots) * need.share;
        self.steady
            && policy.shortage() != Shortage::DeadlineOrder
            && tenant.delay == 0.0
            && self.committed + more <= self.spec.processors * (1.0 + TOLERANCE)
    }

    /// As [`Node::add`] and taking shares anew, where that changes nobody's but its own.
    pub fn just_add(&mut self, mut tenant: Tenant, now: f64) {
        tenant.since = now;
        tenant.granted = tenant.committed_share;
        tenant.run_at(tenant.granted, now);
        self.next = self.next.min(tenant.next());
        self.memory_committed += tenant.memory * u64::from(tenant.slots);
        self.tenants.push(tenant);
        self.committed = self.sum_of_rates();
    }

    fn sum_of_rates(&self) -> f64 {
        let rates = self.tenants.iter();
        rates
            .map(|tenant| f64::from(tenant.slots) * tenant.rate)
            .sum()
    }

    /// Sets the delays that were accepted with the tenant that came last.
    pub fn accept_delays<P: Policy>(&mut self, policy: &P, now: f64) {
        let on_node = |tenant: &Tenant| tenant.on_node(now);
        let mut jobs: Vec<JobOnNode> = self.tenants.iter().map(on_node).collect();
        policy.accept_delays(&self.spec, &mut jobs);
        for (tenant, job) in self.tenants.iter_mut().zip(&jobs) {
            tenant.delay = job.delay;
            tenant.passed = tenant.late_from() <= now;
        }
    }

    /// Takes everyone's rate anew.
    pub fn allot<P: Policy>(
        &mut self,
        policy: &P,
        spare: Spare,
        now: f64,
        claims: &mut Vec<Claim>,
        given: &mut Vec<f64>,
    ) {
        claims.clear();
        let mut needs = 0.0;
        for tenant in &mut self.tenants {
            tenant.cput = tenant.cput_by(now);
            tenant.since = now;
            let job = tenant.on_node(now);
            let claim = Claim::new(
                &job,
                policy.need(&job, self.spec.rating),
                tenant.committed_share,
            );
            needs += claim.need;
            claims.push(claim);
        }
        let capacity = self.spec.processors;
        allotment::allot(policy.shortage(), spare, claims, capacity, given);
        debug_assert!(given.iter().sum::<f64>() <= capacity * (1.0 + 1e-6));
        self.next = f64::INFINITY;
        for (tenant, given) in self.tenants.iter_mut().zip(given.iter()) {
            tenant.granted = given / f64::from(tenant.slots);
            if !tenant.coupled {
                tenant.run_at(tenant.granted, now);
            }
            self.next = self.next.min(tenant.next());
        }
        self.steady = spare == Spare::Idle
            && policy.shortage() != Shortage::DeadlineOrder
            && needs <= capacity * (1.0 + TOLERANCE);
        self.committed = if self.steady { needs } else { f64::NAN };
    }
}

/// A node at a moment, as a policy sees it.
pub(super) struct View<'a, P> {
    pub policy: &'a P,
    pub front: &'a Front,
    pub node: &'a Node,
    pub now: f64,
}

impl<P: Policy> NodeView for View<'_, P> {
    #[inline(always)]
    fn spec(&self) -> NodeSpec {
        self.front.spec
    }

    #[inline(always)]
    fn committed(&self) -> f64 {
        if !self.front.committed.is_nan() {
            return self.front.committed;
        }
        self.sum_of_needs()
    }

    #[inline(always)]
    fn memory_committed(&self) -> u64 {
        self.front.memory_committed
    }

    #[inline(always)]
    fn for_each_job(&self, mut show: impl FnMut(&JobOnNode)) {
        for tenant in &self.node.tenants {
            show(&tenant.on_node(self.now));
        }
    }
}

impl<P: Policy> View<'_, P> {
    fn sum_of_needs(&self) -> f64 {
        let mut sum = 0.0;
        self.for_each_job(|job| {
            let need = self.policy.need(job, self.front.spec.rating);
            sum += f64::from(job.slots) * need.share;
        });
        sum
    }
}
