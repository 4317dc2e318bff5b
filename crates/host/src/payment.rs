//! Who pays for this host's own jobs (`libra run`), where the site has accounts.
//!
//! There is no server here: whoever submits or ends a job opens the accounts and writes down what waits. Who submits does both without
//! the registry's lock, so that nobody waits for a disk or for a process that was stopped; what is done under the lock takes at most some
//! tenths of a second. Jobs of batch systems are paid for where they were admitted.

use super::entry::Entry;
use super::submit::{Judged, Terms};
use super::{Host, HostError};
use libra_accounts::budget_gate::{BudgetGate, Denied};
use libra_accounts::payments::{Payer, Payments};
use libra_accounts::settlement::{End, HowEnded};
use libra_batch::admit::{Nodes, admit, paid_curve};
use libra_batch::verdict::{NotTaken, Refused, Verdict};
use libra_config::{AccountsMode, OnFault};
use libra_core::commitment::Commitment;
use libra_core::decision::curve::{Judge, Point};
use libra_core::decision::job::Request;
use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// First part of the keys of this host's holds.
const SYSTEM: &str = "run";

/// Accounts that could not be opened are tried again by who ends a job after so long.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The accounts while one job is submitted.
pub(super) struct Charge {
    gate: BudgetGate,
    payer: Option<Payer>,
}

/// What accounts say of a request.
pub(super) struct Asked {
    gate: BudgetGate,
    /// Name of this host's node.
    node: String,
    payer: Result<Option<Payer>, Denied>,
}

/// This host's only node, which takes nothing by itself.
struct Judging<'a> {
    judge: &'a dyn Fn(&Request) -> Judged,
    node: &'a str,
}

impl Nodes for Judging<'_> {
    type Taken = Terms;
    type Own = Infallible;

    fn ask(&mut self, request: &Request) -> Result<(), NotTaken<Infallible>> {
        self.take(request).map(|_| ())
    }

    fn take(&mut self, request: &Request) -> Result<Terms, NotTaken<Infallible>> {
        (self.judge)(request).map_err(|refusal| {
            let refusal = refusal.named(|_| self.node.to_string());
            Verdict::Refused(Refused::Decided(Box::new(refusal)))
        })
    }
}

impl Asked {
    /// The answer to a request, as a submission and a question get it. `judge`: the host alone.
    pub fn admit(
        self,
        request: &Request,
        judge: &dyn Fn(&Request) -> Judged,
    ) -> Result<(Charge, Terms), NotTaken<Infallible>> {
        let Asked { gate, node, payer } = self;
        let mut judging = Judging { judge, node: &node };
        let (payer, terms) = admit(payer, request, &mut judging)?;
        if let Some(payer) = &payer {
            let commitment = Commitment {
                price: terms.price,
                ..no_commitment(request)
            };
            gate.covers(payer, &commitment)?;
        }
        Ok((Charge { gate, payer }, terms))
    }

    /// The accounts, for another question.
    pub fn into_gate(self) -> BudgetGate {
        self.gate
    }

    /// What accounts say of a curve of the host alone.
    pub fn paid_curve(
        &self,
        request: &Request,
        points: Vec<Point>,
        judge: Judge<'_>,
    ) -> Vec<Point> {
        paid_curve(&self.payer, request, points, judge)
    }
}

impl Host {
    /// Returns true if the site has accounts.
    pub(super) fn has_accounts(&self) -> bool {
        self.config.accounts.mode != AccountsMode::Off
    }

    /// Opens the accounts, which may take a while: not to be done under the registry's lock.
    pub(super) fn open_gate(&self) -> BudgetGate {
        let mut gate = BudgetGate::open(&self.config, SYSTEM, OnFault::Refuse, false);
        if let (Some(name), Some(payments)) = (self.registry_name(), gate.payments()) {
            payments.tell_apart(&name);
        }
        let mut failed = self
            .accounts_failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *failed = gate.is_broken().then(Instant::now);
        gate
    }

    /// Two registries may have the same accounts, and neither knows the other's jobs. Another one than the host's own has a name, of its
    /// directory.
    fn registry_name(&self) -> Option<String> {
        let directory = self.registry.directory();
        let known = directory.canonicalize();
        let directory = known.as_deref().unwrap_or(directory);
        (directory != Path::new(super::sole_admission::OF_THE_HOST)).then(|| {
            // FNV-1a: the same in each version.
            let digest = (directory.as_os_str().as_encoded_bytes().iter())
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
                });
            format!("{digest:016x}")
        })
    }

    /// As [`Host::open_gate`], under the registry's lock: None if it has just failed. What is not settled then is found again by the
    /// next comparison ([`compare`]).
    fn open_gate_at_once(&self) -> Option<BudgetGate> {
        let failed = *(self.accounts_failed.lock()).unwrap_or_else(PoisonError::into_inner);
        match failed.is_some_and(|failed| failed.elapsed() < TRY_AGAIN) {
            true => None,
            false => Some(self.open_gate()),
        }
    }

    /// Finds out who pays for a job of this user with such a budget.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub(super) fn ask_accounts(
        &self,
        mut gate: BudgetGate,
        request: &Request,
        project: Option<&str>,
        entries: &[Entry],
        now: f64,
    ) -> Result<Asked, HostError> {
        let node = self.machine.name.clone();
        if !gate.is_on() {
            let payer = Ok(None);
            return Ok(Asked { gate, node, payer });
        }
        // Those that ended may have to be settled still.
        let mut known = self.registry.ended()?;
        known.extend_from_slice(entries);
        gate.tried(|payments| compare(payments, &known, now));
        let uid = nix::unistd::getuid().as_raw();
        let user = libra_accounts::names::user_name(uid).unwrap_or_else(|| uid.to_string());
        let payer = gate.payer(&user, project, request.terms.budget, now);
        Ok(Asked { gate, node, payer })
    }

    /// A job of this host has ended; it is settled once, whoever finds out.
    pub(super) fn settle_payment(&self, entry: &Entry, now: f64) {
        if entry.payer.is_none() || entry.ending.is_none() {
            return;
        }
        let Some(mut gate) = self.open_gate_at_once() else {
            return;
        };
        let settled = gate.ended(&commitment(entry), 0, &end(entry), now);
        if let Some(settled) = settled {
            log::info!("job {}: {settled}", entry.id);
        }
        gate.tried(|payments| payments.flush());
    }

    /// A job that was accepted does not run after all.
    pub(super) fn give_back_payment(&self, entry: &Entry, now: f64) {
        if entry.payer.is_none() {
            return;
        }
        if let Some(gate) = self.open_gate_at_once() {
            Charge { gate, payer: None }.give_back(entry, now);
        }
    }
}

impl Charge {
    /// Sets aside what the job can cost, and writes who pays into its entry.
    pub(super) fn hold(&mut self, entry: &mut Entry, now: f64) -> Result<(), NotTaken<Infallible>> {
        let Some(payer) = &self.payer else {
            return Ok(());
        };
        entry.payer = Some(payer.name.clone());
        let commitment = commitment(entry);
        self.gate.hold(payer, &commitment, now)?;
        self.gate.named(&commitment, &entry.id);
        Ok(())
    }

    /// What was held is written down: it waits for the disk.
    pub(super) fn write_down(&mut self) {
        self.gate.tried(|payments| payments.flush());
    }

    /// The job does not run after all.
    pub(super) fn give_back(&mut self, entry: &Entry, now: f64) {
        self.gate.never_began(&commitment(entry), now);
        self.gate.tried(|payments| payments.flush());
    }
}

/// Holds whose jobs are gone are released, those of jobs that ended unnoticed settled.
fn compare(
    payments: &mut Payments,
    entries: &[Entry],
    now: f64,
) -> Result<(), libra_accounts::AccountsError> {
    let paid: Vec<&Entry> = (entries.iter())
        .filter(|entry| entry.payer.is_some())
        .collect();
    for entry in paid.iter().filter(|entry| entry.ending.is_some()) {
        payments.ended(&commitment(entry), 0, &end(entry), now)?;
    }
    let live: Vec<Commitment> = (paid.iter().filter(|entry| entry.is_live()))
        .map(|entry| commitment(entry))
        .collect();
    for line in payments.reconcile(live.iter(), HashSet::new(), now, now)? {
        log::info!("{line}");
    }
    Ok(())
}

/// For a request that has no entry yet.
fn no_commitment(request: &Request) -> Commitment {
    Commitment {
        token: 0,
        submitted: 0.0,
        request: *request,
        price: 0.0,
        count: 1,
        conditional: false,
        deferred: false,
        from_start: false,
        begin_within: None,
        starts_by: None,
        margin: None,
        payer: None,
        places: Vec::new(),
    }
}

/// What is committed, as accounts know it.
fn commitment(entry: &Entry) -> Commitment {
    Commitment {
        token: entry.id.parse().unwrap_or(0),
        submitted: entry.submitted_unix,
        request: entry.request,
        price: entry.price,
        count: 1,
        // What is paid does not depend on it.
        conditional: false,
        deferred: false,
        from_start: false,
        begin_within: None,
        starts_by: None,
        margin: Some(entry.estimate_margin),
        payer: entry.payer.clone(),
        places: Vec::new(),
    }
}

fn end(entry: &Entry) -> End {
    let Some(ending) = &entry.ending else {
        return End {
            how: HowEnded::NeverBegan,
            took: 0.0,
            used: None,
            waited: None,
            restarted: false,
        };
    };
    End {
        how: match (entry.started, ending.cancelled) {
            (None, _) => HowEnded::NeverBegan,
            (Some(_), true) => HowEnded::Cancelled,
            (Some(_), false) => HowEnded::Itself,
        },
        took: ending.at - entry.submitted,
        used: Some(ending.used / f64::from(entry.slots.max(1))),
        // Whoever submits it begins it himself: there is no waiting of the site's. Without a cgroup nobody held it, or the others, to
        // their shares.
        waited: entry.group.as_ref().and(entry.started).map(|_| 0.0),
        restarted: false,
    }
}
