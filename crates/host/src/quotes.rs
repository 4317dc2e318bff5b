//! Quotes that this host keeps for some minutes: entries of the registry, reserved and without a supervisor, that expire.
//!
//! Invariants:
//! - A quote is used under the registry's lock, and is a job from then on: never twice.
//! - Like everything in the registry it outlives the program that made it. Its time over, whoever looks next removes it.

use super::entry::{Entry, EntryQuote, Phase, Process};
use super::registry::Lock;
use super::submit::{Accepted, SubmitOptions, Terms};
use super::{Host, HostError};
use libra_batch::quote::{QuoteHandle, secret};
use libra_batch::verdict::Verdict;
use libra_core::book::held_quote::{QuoteError, differences, missing, new_number};
use libra_core::decision::admission::affordable;
use libra_core::decision::job::Request;
use libra_core::decision::node::NodeView;
use libra_core::decision::refusal::{Reason, Refusal};
use libra_core::decision::service::check_held;
use libra_system::clock;
use std::convert::Infallible;
use std::time::Instant;

/// What such an entry shows as its command.
const COMMAND: &str = "(quote)";

impl Entry {
    /// It is a quote, and its time is over.
    pub(super) fn is_expired_quote(&self, now: f64) -> bool {
        self.quote.as_ref().is_some_and(|quote| quote.until <= now)
    }

    fn is_quote_of(&self, user: u32, now: f64) -> bool {
        let held = self.phase == Phase::Reserved && self.quote.is_some() && !self.cancelled;
        held && self.user == user && !self.is_expired_quote(now)
    }
}

impl Host {
    /// Checks that this user may hold one more quote for so many seconds.
    fn may_hold(&self, entries: &[Entry], seconds: f64, now: f64) -> Result<(), QuoteError> {
        let user = nix::unistd::getuid().as_raw();
        let has = (entries.iter().filter(|entry| entry.is_quote_of(user, now))).count();
        libra_rules::quote_limits(&self.config).check(seconds, has)
    }

    /// Judges a request and, where it is accepted, keeps its share, price and place for so many seconds.
    ///
    /// # Errors
    /// When the registry fails, or the site holds no such quote; nothing is held then.
    pub fn hold_quote(
        &self,
        request: &Request,
        project: Option<&str>,
        seconds: f64,
    ) -> Result<(Verdict<Terms, Infallible>, Option<QuoteHandle>), HostError> {
        self.be_the_only_admitter()?;
        let gate = self.open_gate();
        let lock = self.registry.lock()?;
        let now = clock::since_boot();
        let entries = self.settle(&lock, now)?;
        self.may_hold(&entries, seconds, now)?;
        check_held(request)?;
        let asked = self.ask_accounts(gate, request, project, &entries, clock::unix_time())?;
        let terms = match asked.admit(request, &|request| self.judge(request, &entries, now)) {
            Ok((_, terms)) => terms,
            Err(not) => return Ok((not.widen(), None)),
        };
        let until = clock::unix_time() + seconds;
        let number = new_number(until, secret()?);
        let mut entry = self.new_entry(&lock, request, COMMAND, &terms, now)?;
        entry.quote = Some(EntryQuote {
            number: number.clone(),
            until: now + seconds,
        });
        if self.accepts_delays() {
            self.accept_delays(&lock, &mut entry, &entries, now)?;
        }
        self.registry.write(&entry)?;
        Ok((
            Verdict::Accepted(terms),
            Some(QuoteHandle { number, until }),
        ))
    }

    /// The entry of a quote of this user.
    fn quote_of_mine(
        &self,
        _lock: &Lock,
        entries: &[Entry],
        number: &str,
        now: f64,
    ) -> Result<Entry, QuoteError> {
        let user = nix::unistd::getuid().as_raw();
        let number = number.trim().to_ascii_lowercase();
        let is_it = |entry: &&Entry| {
            entry.is_quote_of(user, now)
                && (entry.quote.as_ref()).is_some_and(|quote| quote.number == number)
        };
        (entries.iter().find(is_it).cloned()).ok_or_else(|| missing(&number, clock::unix_time()))
    }

    /// Accepts a job as its quote has it, and makes its cgroup. Its deadline counts from now.
    ///
    /// # Errors
    /// When there is no such quote of this user's, when it was for another request, or the registry fails; it is still held then.
    pub fn submit_quoted(
        &self,
        number: &str,
        request: &Request,
        command: &str,
        supervisor: Option<Process>,
        options: &SubmitOptions<'_>,
    ) -> Result<Verdict<Box<Accepted>, Infallible>, HostError> {
        self.be_the_only_admitter()?;
        check_held(request)?;
        let gate = self.open_gate();
        let lock = self.registry.lock()?;
        let begun = Instant::now();
        let now = clock::since_boot();
        let entries = self.settle(&lock, now)?;
        let mut entry = self.quote_of_mine(&lock, &entries, number, now)?;
        let differences = differences(&entry.request, request);
        if !differences.is_empty() {
            return Err(QuoteError::Differs {
                number: number.to_string(),
                differences,
            }
            .into());
        }
        let others: Vec<Entry> = (entries.iter())
            .filter(|other| other.id != entry.id)
            .cloned()
            .collect();
        let unix = clock::unix_time();
        let node = self.node(&others, now);
        let slots = f64::from(entry.slots);
        let held = Terms {
            price: entry.price,
            share: entry.share,
            loadfree: (node.spec.processors - (&node).committed() - slots * entry.share).max(0.0),
        };
        // Its place is held, so what is covered is accepted.
        let judge = |request: &Request| match affordable(held.price, request.terms.budget) {
            true => Ok(held.clone()),
            false => Err(Box::new(Refusal {
                reason: Reason::Budget {
                    price: held.price,
                    budget: request.terms.budget,
                },
                counter_offers: Vec::new(),
            })),
        };
        let asked = self.ask_accounts(gate, request, options.project, &entries, unix)?;
        let (mut till, terms) = match asked.admit(request, &judge) {
            Ok(admitted) => admitted,
            Err(not) => return Ok(not.widen()),
        };
        entry.quote = None;
        entry.name = options.name.map(str::to_string);
        entry.command = super::entry::shown_command(command);
        entry.supervisor = supervisor;
        entry.submitted = now;
        entry.submitted_unix = unix;
        if let Err(not) = till.hold(&mut entry, unix) {
            return Ok(not.widen());
        }
        match self.reserve(&lock, entry.clone(), terms) {
            Ok(accepted) => {
                self.count(&lock, |counts| counts.accept(1, begun.elapsed()));
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

    /// Gives a quote back.
    ///
    /// # Errors
    /// When there is no such quote of this user's, or the registry fails.
    pub fn drop_quote(&self, number: &str) -> Result<(), HostError> {
        let lock = self.registry.lock()?;
        let now = clock::since_boot();
        let entries = self.settle(&lock, now)?;
        let entry = self.quote_of_mine(&lock, &entries, number, now)?;
        Ok(self.registry.remove(&entry.id)?)
    }
}
