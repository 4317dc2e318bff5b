//! One cluster for jobs of two classes, as batch systems have them: the book that admits in PBS and Slurm ([`libra_core::book`]) decides all of it. A job of
//! class dedicated has whole processors at once, or a planned start, or it is refused; all others have shares. A processor is whole or shared at a time, by
//! plan: the book counts both. Here is the time that the book is asked at, and the true run times.
//!
//! - What the server of a batch system does around the book is done here in its order ([`Simulation::submit`], [`Simulation::begin`]): now, else a planned
//!   start, else one in front of jobs with later deadlines that stand still meanwhile, where the site lets them.
//! - Nothing takes time but the jobs: whoever is let begin runs, whoever is to stand still does, and the book is told at once how far jobs with shares are.
//! - At one time all ends come first, then those go on that stand still and fit, then planned jobs begin in the order of their latest starts, then jobs
//!   are submitted.
//! - Nobody is stopped for having outlived its estimate; what it has then is in [`site`].
//! - Whose promise is given back runs when it fits beside all that is promised, and is told when it ends, as every accepted job.

mod site;
#[cfg(test)]
mod tests;

use super::{Machine, Observer, Scheduler};
use libra_core::book::{Admitted, Book, DEFAULT_PROVISIONAL, Planned};
use libra_core::decision::admission::Admission;
use libra_core::decision::allotment::Spare;
use libra_core::decision::class::Class;
use libra_core::decision::curve::with_deadline;
use libra_core::decision::job::{LONGEST, Request, Shape, Terms};
use libra_core::decision::refusal::Category;
use libra_core::decision::service::{ClassAdmission, ClassRules};
use libra_workload::Job;
use site::{SharesRule, Site};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Seconds for which one that is due waits for its processors before another start is looked for, as in a batch server.
const PATIENCE: f64 = 30.0;

/// The rule for jobs of both classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Classes {
    /// Prices, choice of nodes and margin on estimates, and the policy of jobs with shares: one that accepts no delays.
    pub admission: Admission,
    /// Who gets the time that no job with a share needs.
    pub spare: Spare,
    /// Who is dedicated.
    pub dedicated: Dedicated,
    /// Dedicated jobs stand still for others with earlier deadlines.
    pub suspends: bool,
}

/// Which jobs are of class dedicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dedicated {
    /// Those of more than one processor whose processes wait for each other.
    Coupled,
    /// All.
    All,
}

impl Dedicated {
    fn class_of(self, job: &Job) -> Class {
        match self {
            Dedicated::Coupled if !job.coupled || job.processors < 2 => Class::Deadline,
            Dedicated::Coupled | Dedicated::All => Class::Dedicated,
        }
    }
}

/// A moment at which a job begins or goes on at the latest. The greatest is the first one.
#[derive(Debug, PartialEq)]
struct Due {
    at: f64,
    index: usize,
}

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        (other.at.total_cmp(&self.at)).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Simulation<'a> {
    rule: Classes,
    book: Book,
    site: Site<'a>,
    now: f64,
    /// The job that is submitted next.
    next: usize,
    due: BinaryHeap<Due>,
    /// Somebody has left processors, or is due: others may begin or go on.
    ask: bool,
    /// Jobs whose promises were given back, and that have not begun.
    given_back: Vec<usize>,
}

impl Scheduler for Classes {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        let mut simulation = Simulation::new(self, jobs, machine, observer);
        while simulation.step() {}
    }

    fn tells_work(&self) -> bool {
        true
    }
}

impl<'a> Simulation<'a> {
    fn new(
        rule: &Classes,
        jobs: &'a [Job],
        machine: &'a Machine,
        observer: &'a mut dyn Observer,
    ) -> Simulation<'a> {
        let admission = ClassAdmission {
            admission: rule.admission,
            rules: ClassRules {
                suspends: rule.suspends,
                ..ClassRules::default()
            },
        };
        let mut book = Book::new(admission, DEFAULT_PROVISIONAL);
        // Dedicated jobs need whole processors however long they wait.
        book.refresh_waiting_every(f64::INFINITY);
        for (index, spec) in machine.nodes.iter().enumerate() {
            // Machines are checked with the setting; on a node that the book does not take nobody runs.
            let _ = book.set_node(&index.to_string(), *spec, true);
        }
        let shares = SharesRule {
            policy: rule.admission.policy,
            spare: rule.spare,
            margin: rule.admission.estimate_margin,
        };
        Simulation {
            rule: *rule,
            book,
            site: Site::new(jobs, machine, shares, observer),
            now: 0.0,
            next: 0,
            due: BinaryHeap::new(),
            ask: false,
            given_back: Vec::new(),
        }
    }

    /// All that happens at the next moment at which something does. False where nothing does any more.
    fn step(&mut self) -> bool {
        let jobs = self.site.jobs;
        let submit = jobs.get(self.next).map_or(f64::INFINITY, |job| job.submit);
        let due = self.due.peek().map_or(f64::INFINITY, |due| due.at);
        let time = self.site.next_event().min(submit).min(due);
        if time == f64::INFINITY {
            return false;
        }
        self.now = self.now.max(time);
        self.end_jobs();
        self.tell_progress();
        self.let_begin();
        while (jobs.get(self.next)).is_some_and(|job| job.submit <= self.now) {
            self.submit(self.next);
            self.next += 1;
            self.let_begin();
        }
        self.site.moment_ends(self.now);
        true
    }

    fn end_jobs(&mut self) {
        while let Some(index) = self.site.end_one(self.now) {
            let ended = self.book.ended(&index.to_string(), self.now);
            debug_assert!(ended.is_ok(), "{ended:?}");
            self.ask = true;
        }
        while let Some(due) = self.due.peek().filter(|due| due.at <= self.now) {
            let id = due.index.to_string();
            let by = self.book.starts_by(&id).or(self.book.goes_on_by(&id));
            self.ask |= by.is_some_and(|by| by <= self.now);
            self.due.pop();
        }
    }

    /// The book is told how far those with shares are that it could not know of.
    fn tell_progress(&mut self) {
        let (book, now) = (&mut self.book, self.now);
        self.site.tell_progress(now, |index, node, cput| {
            let told = book.progress(&index.to_string(), Some(&node.to_string()), cput, now);
            debug_assert!(told.is_ok(), "{told:?}");
        });
    }

    /// Those that stand still go on and planned jobs begin, until nobody else can.
    fn let_begin(&mut self) {
        while std::mem::take(&mut self.ask) {
            for id in self.book.let_go_on(self.now) {
                self.site.go_on(index_of(&id), self.now);
                self.ask = true;
            }
            let planned: Vec<usize> = self.book.planned().into_iter().map(index_of).collect();
            for index in planned {
                self.begin(index);
            }
            for index in std::mem::take(&mut self.given_back) {
                self.run_without_promise(index);
            }
        }
    }

    fn submit(&mut self, index: usize) {
        let request = self.request(index);
        self.book.advance(self.now);
        let rules = self.book.admission().rules;
        let refused = match rules.check(&request) {
            Ok(()) => self.book.appraise(&request, None, None).refused,
            Err(_) => Some(Category::Invalid),
        };
        match refused {
            // The book would look for counter-offers to what it refuses, which nobody reads here.
            None => match self.book.admit(&request, self.now) {
                Ok(admitted) => {
                    self.name(index, &admitted);
                    self.starts(index, &admitted);
                }
                Err(_) => self.site.refuse(index, self.now, Category::Fault.word()),
            },
            Some(category) => match self.find_start(&request, category) {
                Some(planned) => {
                    let admitted = self.book.promise(&request, &planned);
                    self.name(index, &admitted);
                    self.is_planned(index, &planned);
                }
                None => self.site.refuse(index, self.now, category.word()),
            },
        }
    }

    /// The start that can be promised to a job that is not taken now, for this reason.
    fn find_start(&self, request: &Request, reason: Category) -> Option<Planned> {
        if !reason.is_for_nodes() {
            return None;
        }
        // Nobody stands still for one that can be kept behind all others.
        self.book.plan(request, None).or_else(|| {
            let suspends = self.book.admission().rules.suspends;
            let in_front = || self.book.plan_in_front(request, None, &|_| true);
            suspends.then(in_front).flatten()
        })
    }

    /// A job has a start, or another one. Who stands still for it does so now.
    fn is_planned(&mut self, index: usize, planned: &Planned) {
        let at = planned.starts_by;
        self.due.push(Due { at, index });
        for one in &planned.suspends {
            let suspended = index_of(&one.id);
            if self.book.stands_still_until(&one.id).is_none() || !self.site.runs(suspended) {
                continue;
            }
            let noted = self.book.note_stands_still(&one.id, true, self.now);
            debug_assert!(noted.is_ok(), "{noted:?}");
            self.site.suspend(suspended, self.now);
            self.due.push(Due {
                at: one.by,
                index: suspended,
            });
            self.ask = true;
        }
    }

    /// A planned job begins, if it can now or is due.
    fn begin(&mut self, index: usize) {
        let id = index.to_string();
        let Some(starts_by) = self.book.starts_by(&id) else {
            return;
        };
        let job = &self.site.jobs[index];
        // Whether or not it is on other processors than these, it does not fit.
        if starts_by > self.now && f64::from(job.processors) > self.site.free() + 0.5 {
            return;
        }
        let request = self.request(index);
        let left = request.terms.deadline_after(self.now - job.submit);
        if left <= 0.0 {
            return self.give_back(index);
        }
        let left = with_deadline(&request, left);
        if let Some(admitted) = self.book.begin(&id, &left, None, None, self.now) {
            self.starts(index, &admitted);
            self.ask = true;
        } else if self.now >= starts_by {
            self.is_overdue(index, starts_by, &left);
        }
    }

    /// A planned job that is due cannot begin. `left`: with what is left of its deadline.
    fn is_overdue(&mut self, index: usize, starts_by: f64, left: &Request) {
        let id = index.to_string();
        let mut again = starts_by + PATIENCE;
        if self.now >= again {
            let suspends = self.book.admission().rules.suspends;
            let anew = self.book.plan_anew(&id, None, self.now).or_else(|| {
                let book = &mut self.book;
                let in_front = || book.plan_anew_in_front(&id, None, &|_| true, self.now);
                suspends.then(in_front).flatten()
            });
            if let Some(anew) = anew {
                return self.is_planned(index, &anew);
            }
            let idle = self.book.idle_and_whole(0.0);
            if idle.appraise(left, None, None).refused.is_some() {
                return self.give_back(index);
            }
            again = self.now + PATIENCE;
        }
        self.due.push(Due { at: again, index });
    }

    /// The promise to a planned job cannot be kept any more.
    fn give_back(&mut self, index: usize) {
        let cancelled = self.book.cancel(&index.to_string(), self.now);
        debug_assert!(cancelled.is_ok(), "{cancelled:?}");
        self.given_back.push(index);
        self.ask = true;
    }

    /// One whose promise was given back runs, if it fits beside all that is promised.
    fn run_without_promise(&mut self, index: usize) {
        let mut request = with_deadline(&self.request(index), LONGEST / 2.0);
        request.terms.budget = f64::INFINITY;
        match self.book.admit(&request, self.now) {
            Ok(admitted) => {
                self.name(index, &admitted);
                self.starts(index, &admitted);
            }
            Err(_) => self.given_back.push(index),
        }
    }

    fn name(&mut self, index: usize, admitted: &Admitted) {
        let bound = (self.book).bind(admitted.token, &index.to_string(), self.now);
        debug_assert!(bound.is_ok(), "{bound:?}");
    }

    /// A job that the book lets run runs.
    fn starts(&mut self, index: usize, admitted: &Admitted) {
        let started = self.book.started(&index.to_string(), self.now);
        debug_assert!(started.is_ok(), "{started:?}");
        let class = self.rule.dedicated.class_of(&self.site.jobs[index]);
        (self.site).begin(
            index,
            class.is_whole(),
            admitted.price,
            &admitted.places,
            self.now,
        );
    }

    /// A job as it is submitted.
    fn request(&self, index: usize) -> Request {
        let job = &self.site.jobs[index];
        Request {
            terms: Terms {
                class: self.rule.dedicated.class_of(job),
                ..job.terms
            },
            shape: Shape {
                chunks: job.processors,
                processors_per_chunk: 1,
                memory_per_chunk: job.memory,
                scatter: false,
                ..Shape::default()
            },
        }
    }
}

/// What the book calls a job: its index in the workload.
fn index_of(id: impl AsRef<str>) -> usize {
    id.as_ref().parse().unwrap_or(usize::MAX)
}
