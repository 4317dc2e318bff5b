//! Deciding about a job of this host, and reserving its share.

use super::ending::PATIENCE;
use super::entry::{Entry, Phase, Process, VERSION, group_name, shown_command};
use super::registry::Lock;
use super::{Host, HostError, on_node, used};
use libra_batch::verdict::Verdict;
use libra_cgroup::{Frozen, Group, Limits};
use libra_core::decision::class::Class;
use libra_core::decision::counter_offer::budget_needed;
use libra_core::decision::curve::{Point, curve};
use libra_core::decision::job::Request;
use libra_core::decision::node::{JobOnNode, PlainNode};
use libra_core::decision::policy::Policy;
use libra_core::decision::refusal::Refusal;
use libra_core::decision::service::{Entitlement, Hold, entitlement};
use libra_core::decision::share::Need;
use libra_system::clock;
use std::convert::Infallible;
use std::time::Instant;

/// So many jobs after each other, one searches for ended ones to forget.
const FORGET_EVERY: u64 = 32;
/// Numbers that are tried for a new job.
const MOST_IDS: usize = 1000;

/// What a job of best effort may use until the first round after its start says what is left for it, in processors: it could not even
/// begin with nothing.
const TO_BEGIN: f64 = 0.05;

/// What a job would get.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Credits.
    pub price: f64,
    /// Share per slot, in processors.
    pub share: f64,
    /// Processors left over on the host.
    pub loadfree: f64,
}

/// What a job would get, or why the host has nothing for it.
pub type Judged = Result<Terms, Box<Refusal>>;

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Quoted {
    /// What was judged: the request, with the budget that it needs where it came without one.
    pub judged: Request,
    /// What a submission would be answered.
    pub verdict: Verdict<Terms, Infallible>,
    /// Credits, whatever the budget.
    pub price: f64,
    /// Credits: where none was given, the smallest budget that would do.
    pub needs: Option<f64>,
    /// What would become of it at other deadlines.
    pub curve: Vec<Point>,
}

/// What a user may say of a job beside its terms.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubmitOptions<'a> {
    /// What it is called.
    pub name: Option<&'a str>,
    /// Where the site has accounts, this project pays.
    pub project: Option<&'a str>,
}

/// A job that was accepted and has its share reserved.
#[derive(Debug)]
pub struct Accepted {
    /// Its entry in the registry.
    pub entry: Entry,
    /// Its cgroup; None if nothing is enforced.
    pub group: Option<Group>,
    /// What it gets.
    pub terms: Terms,
    /// Why its share is not enforced; None if it is.
    pub unenforced: Option<String>,
}

/// The job of a live entry as it stands now.
pub(super) struct Progress {
    pub used: f64,
    pub held_share: f64,
    /// The share is 0 where it gets what is left.
    pub need: Need,
    /// What it is entitled to.
    pub hold: Hold,
    /// It stands still, or is about to: it has been suspended.
    pub suspended: bool,
}

impl Host {
    /// Judges a request against the jobs that are here, and changes nothing. The outer error is
    /// the host's, the inner one the refusal.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn quote(&self, request: &Request) -> Result<Result<Terms, Box<Refusal>>, HostError> {
        self.check_class(request)?;
        let now = clock::since_boot();
        let entries = self.registry.live()?;
        Ok(self.judge(request, &entries, now))
    }

    /// What a submission of this request would be answered now, accounts included, and what would become of it at other
    /// deadlines: all against the host as it is at one moment. Nothing is reserved. `project`: who pays, as for
    /// [`Host::submit_for`]. `has_budget`: else the smallest budget is looked for with which it is accepted, and the answer is
    /// the one with that.
    ///
    /// # Errors
    /// When the registry cannot be read; where the site has accounts, also when it cannot be locked, as at a submission.
    pub fn quote_over_deadlines(
        &self,
        request: &Request,
        project: Option<&str>,
        has_budget: bool,
    ) -> Result<Quoted, HostError> {
        self.check_class(request)?;
        let gate = self.open_gate();
        // With accounts, jobs that have ended are to be settled first, as at a submission.
        let lock = match self.has_accounts() {
            true => Some(self.registry.lock()?),
            false => None,
        };
        let now = clock::since_boot();
        let entries = match &lock {
            Some(lock) => self.settle(lock, now)?,
            None => self.registry.live()?,
        };
        let node = self.node(&entries, now);
        let admission = libra_rules::class_admission(&self.config);
        let nodes = std::slice::from_ref(&node);
        let appraise = |request: &Request| admission.appraise(nodes, request);
        let unix = clock::unix_time();
        let asked = self.ask_accounts(gate, request, project, &entries, unix)?;
        let curve = asked.paid_curve(request, curve(request, &appraise), &appraise);
        let price = appraise(request).price;
        let mut judged = *request;
        let mut needs = None;
        if !has_budget {
            let accepts = |request: &Request| {
                let judged = appraise(request);
                judged.refused.is_none().then_some(judged.price)
            };
            let weighs = admission.weighs_budgets(request);
            needs = budget_needed(&accepts, price, weighs, request);
            judged.terms.budget = needs.unwrap_or(f64::INFINITY);
        }
        let asked = match needs {
            Some(_) => self.ask_accounts(asked.into_gate(), &judged, project, &entries, unix)?,
            None => asked,
        };
        let verdict = asked.admit(&judged, &|request| self.judge_on(&node, request));
        let verdict: Verdict<_, _> = verdict.map(|(_, terms)| terms).into();
        Ok(Quoted {
            judged,
            verdict: verdict.on_budget(needs),
            price,
            needs,
            curve,
        })
    }

    /// Judges a request and, when it is accepted, reserves its share and makes its cgroup.
    ///
    /// `supervisor`: who will watch over the job.
    ///
    /// # Errors
    /// When the registry fails; nothing is reserved then. A cgroup that cannot be made is no
    /// error: the job is accepted, and [`Accepted::unenforced`] says why its share is not kept.
    pub fn submit(
        &self,
        request: &Request,
        command: &str,
        supervisor: Option<Process>,
    ) -> Result<Verdict<Box<Accepted>, Infallible>, HostError> {
        self.submit_for(request, command, supervisor, &SubmitOptions::default())
    }

    /// As [`Host::submit`], with what a user may say beside the terms.
    ///
    /// # Errors
    /// As [`Host::submit`].
    pub fn submit_for(
        &self,
        request: &Request,
        command: &str,
        supervisor: Option<Process>,
        options: &SubmitOptions<'_>,
    ) -> Result<Verdict<Box<Accepted>, Infallible>, HostError> {
        let answer = self.try_submit(request, command, supervisor, options);
        if answer.is_err() {
            self.count_fault();
        }
        answer
    }

    fn try_submit(
        &self,
        request: &Request,
        command: &str,
        supervisor: Option<Process>,
        options: &SubmitOptions<'_>,
    ) -> Result<Verdict<Box<Accepted>, Infallible>, HostError> {
        self.be_the_only_admitter()?;
        self.check_class(request)?;
        let gate = self.open_gate();
        let lock = self.registry.lock()?;
        let begun = Instant::now();
        let now = clock::since_boot();
        let entries = self.settle(&lock, now)?;
        let unix = clock::unix_time();
        let asked = self.ask_accounts(gate, request, options.project, &entries, unix)?;
        let judged = asked.admit(request, &|request| self.judge(request, &entries, now));
        let took = begun.elapsed();
        let (mut till, terms) = match judged {
            Ok(admitted) => admitted,
            Err(not) => {
                self.count_refusal(&lock, &not, took);
                return Ok(not.widen());
            }
        };
        let mut entry = self.new_entry(&lock, request, command, &terms, now)?;
        entry.supervisor = supervisor;
        entry.name = options.name.map(str::to_string);
        if self.accepts_delays() && request.terms.class == Class::Deadline {
            self.accept_delays(&lock, &mut entry, &entries, now)?;
        }
        if let Err(not) = till.hold(&mut entry, unix) {
            self.count_refusal(&lock, &not, begun.elapsed());
            return Ok(not.widen());
        }
        match self.reserve(&lock, entry.clone(), terms) {
            Ok(accepted) => {
                self.count(&lock, |counts| counts.accept(1, took));
                drop(lock);
                till.write_down();
                Ok(Verdict::Accepted(Box::new(accepted)))
            }
            Err(error) => {
                till.give_back(&entry, unix);
                Err(error)
            }
        }
    }

    /// Returns true if the site's policy lets jobs be late.
    pub(super) fn accepts_delays(&self) -> bool {
        libra_rules::admission(&self.config).policy.accepts_delays()
    }

    /// An entry for what was accepted now, with an id of its own; not written yet, and nobody watches over it.
    pub(super) fn new_entry(
        &self,
        lock: &Lock,
        request: &Request,
        command: &str,
        terms: &Terms,
        now: f64,
    ) -> Result<Entry, HostError> {
        let slots = request.shape.chunks * request.shape.processors_per_chunk;
        let mut entry = Entry {
            version: VERSION,
            id: String::new(),
            boot: self.boot.clone(),
            user: nix::unistd::getuid().as_raw(),
            name: None,
            command: shown_command(command),
            request: *request,
            slots,
            estimate_margin: libra_rules::admission(&self.config).estimate_margin,
            delay: 0.0,
            price: terms.price,
            payer: None,
            share: terms.share,
            submitted: now,
            submitted_unix: clock::unix_time(),
            phase: Phase::Reserved,
            begun: None,
            started: None,
            supervisor: None,
            leader: None,
            group: None,
            making_group: false,
            unenforced: None,
            quote: None,
            cancelled: false,
            stopped: None,
            exit: None,
            asked_to_end: false,
            suspended: None,
            stood_still: 0.0,
            ending: None,
        };
        // A number may be taken by a cgroup that was not made here, where the counter was lost.
        for _ in 0..MOST_IDS {
            entry.id = self.registry.next_id(lock)?.to_string();
            if !self.has_group(&entry.id) {
                break;
            }
        }
        // Where there is no agent to do it: now and then, since it reads each of them.
        if entry
            .id
            .parse::<u64>()
            .is_ok_and(|id| id % FORGET_EVERY == 0)
        {
            self.forget(lock, now)?;
        }
        Ok(entry)
    }

    /// Writes down the delays that are accepted with a new job, its own among them.
    pub(super) fn accept_delays(
        &self,
        _lock: &Lock,
        new: &mut Entry,
        entries: &[Entry],
        now: f64,
    ) -> Result<(), HostError> {
        let mut others: Vec<Entry> = (self.holding(entries))
            .filter(|entry| self.progress(entry, now).hold == Hold::Share)
            .cloned()
            .collect();
        let mut jobs: Vec<JobOnNode> = others
            .iter()
            .map(|entry| {
                let progress = self.progress(entry, now);
                on_node(entry, progress.used, progress.held_share, now)
            })
            .collect();
        jobs.push(on_node(new, 0.0, new.share, now));
        let policy = libra_rules::admission(&self.config).policy;
        let spec = self.node(entries, now).spec;
        policy.accept_delays(&spec, &mut jobs);
        let last = jobs.len() - 1;
        new.delay = jobs[last].delay;
        for (entry, job) in others.iter_mut().zip(&jobs) {
            if job.delay != entry.delay {
                entry.delay = job.delay;
                self.registry.write(entry)?;
            }
        }
        Ok(())
    }

    /// The jobs that hold something: one that is over and was left by whoever watched over it does
    /// not.
    fn holding<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = &'a Entry> + 'a {
        entries
            .iter()
            .filter(|entry| entry.is_live() && !self.is_left_over(entry))
    }

    /// Writes a new entry and makes its cgroup. The entry comes first: whatever is made
    /// afterwards can be found and removed by anyone, should this process die here.
    pub(super) fn reserve(
        &self,
        _lock: &Lock,
        mut entry: Entry,
        terms: Terms,
    ) -> Result<Accepted, HostError> {
        entry.making_group = self.enforcer().is_some();
        self.registry.write(&entry)?;
        let mut unenforced = self.unenforced().map(str::to_string);
        let mut group = None;
        if let Some(enforcer) = self.enforcer() {
            // On version 1 no group may have more than the one above it, which another configuration may have made.
            self.hold_ceiling();
            let slots = f64::from(entry.slots);
            let name = group_name(&entry.id);
            let made = match entry.class() {
                Class::BestEffort => {
                    let left = terms.loadfree.min(slots).max(TO_BEGIN);
                    enforcer.create_freezable(&name, &self.limits_of(&entry, left))
                }
                _ => enforcer.create(&name, &self.limits_of(&entry, terms.share * slots)),
            };
            match made {
                Ok(made) => {
                    entry.group = Some(made.record());
                    group = Some(made);
                }
                Err(error) => unenforced = Some(error.to_string()),
            }
            entry.making_group = false;
            let written = self
                .note_roots()
                .and_then(|()| Ok(self.registry.write(&entry)?));
            if let Err(error) = written {
                // Nothing may stay reserved for a job that will not run. If the cgroup stays, so must
                // the entry as it was first written: it says that the cgroup may be there.
                match group.map(|group| group.remove(PATIENCE)) {
                    Some(Err(error)) => log::error!("job {}: {error}", entry.id),
                    _ => {
                        self.give_back_payment(&entry, clock::unix_time());
                        let _ = self.registry.remove(&entry.id);
                    }
                }
                return Err(error);
            }
        }
        if let Some(reason) = &unenforced {
            log::warn!("job {}: its share is not enforced: {reason}", entry.id);
        }
        Ok(Accepted {
            entry,
            group,
            terms,
            unenforced,
        })
    }

    /// Returns true if there is a cgroup by the name that this job's would have.
    fn has_group(&self, id: &str) -> bool {
        self.enforcer().is_some_and(|enforcer| {
            let name = group_name(id);
            let recovered = enforcer.recover(&name, std::time::SystemTime::UNIX_EPOCH);
            matches!(recovered, Ok(Some(_)))
        })
    }

    /// Limits for this job, which is to use so many processors.
    pub(super) fn limits_of(&self, entry: &Entry, processors: f64) -> Limits {
        Limits {
            yields: entry.class() == Class::BestEffort,
            ..self.limits(processors)
        }
    }

    /// Limits for a job that is to use so many processors.
    pub(super) fn limits(&self, processors: f64) -> Limits {
        let capacity = self.machine.spec.processors.max(1e-3);
        Limits {
            processors: processors.min(capacity),
            capacity,
            pinned: None,
            yields: false,
        }
    }

    /// The decision over these entries.
    pub(super) fn judge(
        &self,
        request: &Request,
        entries: &[Entry],
        now: f64,
    ) -> Result<Terms, Box<Refusal>> {
        self.judge_on(&self.node(entries, now), request)
    }

    /// Checks that a request is of a class that is offered here, with all that it needs.
    fn check_class(&self, request: &Request) -> Result<(), HostError> {
        let rules = libra_rules::class_admission(&self.config).rules;
        Ok(rules.check(request)?)
    }

    /// This host as it is left to jobs with shares: without the processors that others have whole, with the memory of all.
    pub(super) fn node(&self, entries: &[Entry], now: f64) -> PlainNode {
        // What yields holds memory, and no share that others could not have.
        let (mut jobs, mut memory, mut spec) = (Vec::new(), 0u64, self.machine.spec);
        for entry in self.holding(entries) {
            let progress = self.progress(entry, now);
            if progress.hold == Hold::Whole {
                spec.processors = (spec.processors - f64::from(entry.slots)).max(0.0);
            }
            match progress.hold {
                Hold::Whole | Hold::WhatIsLeft => memory = memory.saturating_add(entry.memory()),
                Hold::Share => jobs.push(on_node(entry, progress.used, progress.held_share, now)),
            }
        }
        let rule = libra_rules::admission(&self.config).policy.share_rule();
        let mut node = PlainNode::new(spec, jobs, rule);
        node.reserve_memory(memory);
        node
    }

    fn judge_on(&self, node: &PlainNode, request: &Request) -> Result<Terms, Box<Refusal>> {
        let granted = libra_rules::class_admission(&self.config).judge(node, request)?;
        Ok(Terms {
            price: granted.price,
            share: granted.share,
            loadfree: granted.loadfree,
        })
    }

    /// How a live job stands now.
    pub(super) fn progress(&self, entry: &Entry, now: f64) -> Progress {
        let group = self.group_of(entry).unwrap_or_else(|error| {
            log::warn!("job {}: {error}", entry.id);
            None
        });
        let used = used(entry, group.as_ref());
        // The kernel's tree is the truth about the share last held.
        let held_share = group
            .as_ref()
            .and_then(|group| group.limits().ok())
            .map_or(entry.share, |limits| {
                (limits.processors / f64::from(entry.slots.max(1))).min(1.0)
            });
        let on_node = on_node(entry, used, held_share, now);
        let policy = libra_rules::admission(&self.config).policy;
        let rating = self.machine.spec.rating;
        let need = policy.need(&on_node, rating);
        let past = libra_rules::past_deadline(&self.config);
        let Entitlement { need, hold } = entitlement(&on_node, need, past, rating);
        let suspended = entry.class() == Class::BestEffort
            && (group.as_ref()).is_some_and(|group| group.frozen().is_ok_and(|f| f != Frozen::No));
        Progress {
            used,
            held_share,
            need,
            hold,
            suspended,
        }
    }
}
