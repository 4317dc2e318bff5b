//! Payments where accounts are built in: all that admission and the ends of jobs do to the live state.

use super::{OpenHold, Payer, Settled, amount, each, millis};
use crate::AccountsError;
use crate::flush::{flush, is_outdated};
use crate::ledger::{Claim, Ledger, Location};
use crate::live::{Account, Act, Live, Payout};
use crate::names::AccountName;
use crate::settlement::{End, Settlement, settle};
use crate::writer::Writer;
use libra_config::{Config, Overrun};
use libra_core::commitment::Commitment;
use libra_units::credits;
use libra_units::money::Money;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Another process's transaction is waited for so long: somebody waits for an answer meanwhile, and in slurmctld and pbs_server everybody
/// else behind them. One takes some ten microseconds.
const PATIENCE: Duration = Duration::from_millis(100);

/// So long when the accounts are opened, which is tried again every few seconds: another process may be making the live state.
const OPENING: Duration = Duration::from_millis(500);

/// A hold whose job is not in records that are so much younger has none, in seconds.
const UNSEEN: f64 = 60.0;

/// A hold that is so much later than now was made while the clock was wrong, in seconds. Its age is counted from when it is first seen here.
const AHEAD: f64 = 3600.0;

/// What statements say of a hold whose job will not run.
const NEVER_BEGAN: &str = "never began";

/// Time between two polls for what another thread makes.
const POLL: Duration = Duration::from_millis(20);

/// The live state, where nobody can wait for a database: the writer's thread makes it.
fn open_made(live: &Path, ledger: &Location, writer: &Writer) -> Result<Live, AccountsError> {
    let began = Instant::now();
    loop {
        let left = OPENING.saturating_sub(began.elapsed());
        let opened = Live::open_present(live, ledger, (left, PATIENCE));
        if opened.is_ok() || began.elapsed() + POLL >= OPENING {
            // It knows more of what keeps it from being made.
            return opened.map_err(|error| writer.take_problem().unwrap_or(error));
        }
        std::thread::sleep(POLL);
    }
}

fn open_live(
    live: &Path,
    ledger: &Location,
    writer: Option<&Writer>,
) -> Result<Live, AccountsError> {
    match writer {
        Some(writer) if ledger.database().is_some() => open_made(live, ledger, writer),
        _ => Live::open_within(live, ledger, (OPENING, PATIENCE), Claim::Own),
    }
}

fn open_if_room(ledger: &Location) -> Result<OnceCell<Ledger>, AccountsError> {
    // Who needs the database itself asks for it.
    if ledger.database().is_some() {
        return Ok(OnceCell::new());
    }
    match Ledger::open_within(ledger, OPENING) {
        Ok(ledger) => Ok(OnceCell::from(ledger)),
        // Who reads it alone has it for a moment.
        Err(error) if error.is_without_room() || matches!(error, AccountsError::Locked { .. }) => {
            Ok(OnceCell::new())
        }
        Err(error) => Err(error),
    }
}

/// The accounts, as one admitting process has them.
pub struct Payments {
    live: Live,
    writer: Option<Writer>,
    /// Empty while its disk has no room to open it: what happens waits in the live state.
    ledger: OnceCell<Ledger>,
    live_directory: PathBuf,
    location: Location,
    /// `slurm`, `pbs` or `run`.
    system: &'static str,
    /// First part of its keys.
    keys: String,
    overrun: Overrun,
    margin: f64,
    /// Whether the policy gives every job its share all the time.
    steady: bool,
    /// Holds without a job that are a little later than now, and since when they are known.
    later: HashMap<String, Instant>,
}

impl Payments {
    /// Opens the accounts where the site has them. `system`: first part of the keys of this process's holds. `writes`: start a thread
    /// that writes down; a process that does not live long flushes itself. Who writes takes over from another host that has the ledger in a database.
    ///
    /// # Errors
    /// When they cannot be opened.
    pub fn open(
        config: &Config,
        system: &'static str,
        writes: bool,
    ) -> Result<Option<Payments>, AccountsError> {
        let accounts = &config.accounts;
        if accounts.mode == libra_config::AccountsMode::Off {
            return Ok(None);
        }
        let (live, ledger) = (accounts.live.clone(), Location::of(accounts));
        let writer = match writes {
            true => Some(
                Writer::start(live.clone(), ledger.clone(), Claim::Over).map_err(|error| {
                    AccountsError::Unsound(format!("no thread to write accounts down: {error}"))
                })?,
            ),
            false => None,
        };
        Ok(Some(Payments {
            live: open_live(&live, &ledger, writer.as_ref())?,
            ledger: open_if_room(&ledger)?,
            writer,
            live_directory: live,
            location: ledger,
            system,
            keys: system.to_string(),
            overrun: accounts.overrun,
            margin: config.admission.margin(),
            steady: config.admission.policy.shares_add_up(),
            later: HashMap::new(),
        }))
    }

    /// Of several that admit for the same system this one has keys of its own, and leaves the others' holds alone.
    pub fn tell_apart(&mut self, name: &str) {
        self.keys = format!("{}-{name}", self.system);
    }

    /// Names of the users who have an account.
    ///
    /// # Errors
    /// When the accounts cannot be read.
    pub fn users(&self) -> Result<Vec<String>, AccountsError> {
        let accounts = self.live.accounts(0)?.into_iter();
        Ok(accounts
            .filter_map(|account| match AccountName::parse(&account.name) {
                Ok(AccountName::User(name)) => Some(name),
                _ => None,
            })
            .collect())
    }

    /// Writes down what waits.
    ///
    /// # Errors
    /// As [`crate::flush::flush`].
    pub fn flush(&self) -> Result<(), AccountsError> {
        flush(&self.live, self.ledger()?).map(|_| ())
    }

    /// Returns true if the live state was removed or made anew since this was opened. Looks at the disk. Where the ledger cannot be read just now,
    /// the live state is gone on with.
    pub fn is_stale(&self) -> bool {
        let is_outdated = || match self.ledger() {
            Ok(ledger) => is_outdated(&self.live, ledger).unwrap_or(false),
            Err(error) => error.lost_ledger().is_some(),
        };
        // Of a database who renews the lease finds that out.
        let is_over = || match self.location.database() {
            Some(_) => self.live.is_ended().unwrap_or(false),
            None => is_outdated(),
        };
        !self.live.path.exists() || is_over()
    }

    /// To be called now and then, where nobody waits: takes another live state where one was made since.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn refresh(&mut self) -> Result<(), AccountsError> {
        if self.is_stale() {
            let writer = self.writer.as_ref();
            self.live = open_live(&self.live_directory, &self.location, writer)?;
            self.ledger = open_if_room(&self.location)?;
        }
        Ok(())
    }

    fn ledger(&self) -> Result<&Ledger, AccountsError> {
        if self.ledger.get().is_none() {
            let _ = self
                .ledger
                .set(Ledger::open_within(&self.location, OPENING)?);
        }
        // Filled just now.
        self.ledger
            .get()
            .ok_or_else(|| AccountsError::Unsound("the ledger is not open".to_string()))
    }

    /// Nobody is admitted on money of which nobody could write down what becomes of it.
    fn has_ledger(&self) -> Result<(), AccountsError> {
        match self.writer.as_ref().and_then(Writer::lost) {
            Some(problem) => Err(self.location.lost(problem)),
            None => self.live.may_admit(),
        }
    }

    /// The hold's key.
    pub fn key(&self, commitment: &Commitment) -> String {
        format!(
            "{}:{}-{}",
            self.keys,
            (commitment.submitted * 1e6).round() as i64,
            commitment.token
        )
    }

    /// The key of the hold for a run of this number of a job, or of a subjob, where the one before was settled.
    pub fn key_again(&self, commitment: &Commitment, part: u32, run: u32) -> String {
        let key = self.key(commitment);
        match commitment.count {
            1 => format!("{key}+{run}"),
            _ => format!("{key}+{run}.{part}"),
        }
    }

    /// Returns true if a job, or one subjob of an array, was settled.
    ///
    /// # Errors
    /// When the accounts cannot be read.
    pub fn is_settled(&self, commitment: &Commitment, part: u32) -> Result<bool, AccountsError> {
        self.live.is_settled(&self.key(commitment), part)
    }

    /// All holds of this system that are open.
    ///
    /// # Errors
    /// When the accounts cannot be read.
    pub fn open_holds(&self) -> Result<Vec<OpenHold>, AccountsError> {
        self.live.holds(&format!("{}:", self.keys))
    }

    /// Open holds of this system, and their sum in credits: for the metrics.
    ///
    /// # Errors
    /// When the accounts cannot be read.
    pub fn held(&self) -> Result<(u64, f64), AccountsError> {
        let holds = self.open_holds()?;
        let sum = holds.iter().map(|hold| hold.amount.credits()).sum();
        Ok((holds.len() as u64, sum))
    }

    /// Who pays for a job of this user: the project that it names, where there is an account of it, else the user.
    ///
    /// # Errors
    /// When there is no such account, or the user may not use it.
    pub fn payer(
        &self,
        user: &str,
        project: Option<&str>,
        now: f64,
    ) -> Result<Payer, AccountsError> {
        self.has_ledger()?;
        let at = millis(now);
        if let Some(project) =
            project.and_then(|project| AccountName::parse(&format!("project:{project}")).ok())
        {
            match self.live.account(&project, at) {
                Err(AccountsError::NoAccount(_)) => {}
                Err(error) => return Err(error),
                Ok(account) => {
                    if !self.live.is_member(account.id, user)? {
                        return Err(AccountsError::NotMember {
                            user: user.to_string(),
                            account: account.name,
                        });
                    }
                    return payer(account);
                }
            }
        }
        payer(
            self.live
                .account(&AccountName::parse(&format!("user:{user}"))?, at)?,
        )
    }

    fn act<'a>(&self, note: &'a str, now: f64) -> Act<'a> {
        Act {
            at: millis(now),
            by: self.system,
            note,
        }
    }

    /// Sets aside what the commitment can cost.
    ///
    /// # Errors
    /// When the account has not enough.
    pub fn hold(
        &mut self,
        payer: &Payer,
        commitment: &Commitment,
        now: f64,
    ) -> Result<(), AccountsError> {
        let act = self.act("", now);
        self.live
            .hold(&self.key(commitment), payer.id, amount(commitment), act)
            .map(|_| ())
    }

    /// The same in place of what is set aside for `before`, which will not run: where it fails, that stays set aside.
    ///
    /// # Errors
    /// When the account has not enough, or it cannot be written.
    pub fn hold_instead(
        &mut self,
        payer: &Payer,
        before: &Commitment,
        commitment: &Commitment,
        now: f64,
    ) -> Result<(), AccountsError> {
        let act = self.act("", now);
        let (before, key) = (self.key(before), self.key(commitment));
        (self.live)
            .hold_instead(
                &before,
                NEVER_BEGAN,
                &key,
                payer.id,
                amount(commitment),
                act,
            )
            .map(|_| ())
    }

    /// The job has its id. For statements only.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn named(&mut self, commitment: &Commitment, id: &str) -> Result<(), AccountsError> {
        match commitment.payer {
            Some(_) => self.live.name_job(&self.key(commitment), id),
            None => Ok(()),
        }
    }

    /// As [`Payments::named`], for a job that runs once more.
    ///
    /// # Errors
    /// As [`Payments::named`].
    pub fn named_again(
        &mut self,
        commitment: &Commitment,
        part: u32,
        run: u32,
        id: &str,
    ) -> Result<(), AccountsError> {
        (self.live).name_job(&self.key_again(commitment, part, run), id)
    }

    /// A job that is there has a hold, whatever happened to it. Returns whether one had to be made; where the account has not
    /// enough any more, of what it has.
    ///
    /// # Errors
    /// When there is no such account any more.
    pub fn ensure(&mut self, commitment: &Commitment, now: f64) -> Result<bool, AccountsError> {
        self.ensure_key(&self.key(commitment), commitment, commitment.count, now)
    }

    /// A job that runs once more after it was settled is paid for again, in full. Returns whether a hold had to be made.
    ///
    /// # Errors
    /// When its account has not enough, or there is no such account any more.
    pub fn cover_again(
        &mut self,
        commitment: &Commitment,
        part: u32,
        run: u32,
        now: f64,
    ) -> Result<bool, AccountsError> {
        let key = self.key_again(commitment, part, run);
        let Some(name) = &commitment.payer else {
            return Ok(false);
        };
        if self.live.knows(&key)? {
            return Ok(false);
        }
        let account = self.live.account(&AccountName::parse(name)?, millis(now))?;
        let act = self.act("runs once more", now);
        self.live.hold(&key, account.id, each(commitment), act)
    }

    fn ensure_key(
        &mut self,
        key: &str,
        commitment: &Commitment,
        count: u32,
        now: f64,
    ) -> Result<bool, AccountsError> {
        let Some(name) = &commitment.payer else {
            return Ok(false);
        };
        if self.live.knows(key)? {
            return Ok(false);
        }
        let account = self.live.account(&AccountName::parse(name)?, millis(now))?;
        let wanted = Money(each(commitment).0.saturating_mul(i64::from(count)));
        let amount = account
            .available()
            .map_or(wanted, |available| available.min(wanted));
        self.live
            .hold(key, account.id, amount, self.act("found again", now))
    }

    /// A job, or one subjob of an array, has ended. Nothing comes of one that nobody pays for, or that was settled before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn ended(
        &mut self,
        commitment: &Commitment,
        part: u32,
        end: &End,
        now: f64,
    ) -> Result<Option<Settled>, AccountsError> {
        if commitment.payer.is_none() {
            return Ok(None);
        }
        self.ensure(commitment, now)?;
        self.settle(&self.key(commitment), commitment, part, end, now)
    }

    /// As [`Payments::ended`], for a job that ran once more. Nothing comes of a run that was not covered.
    ///
    /// # Errors
    /// As [`Payments::ended`].
    pub fn ended_again(
        &mut self,
        commitment: &Commitment,
        part: u32,
        run: u32,
        end: &End,
        now: f64,
    ) -> Result<Option<Settled>, AccountsError> {
        let key = self.key_again(commitment, part, run);
        match self.live.knows(&key)? {
            true => self.settle(&key, commitment, 0, end, now),
            false => Ok(None),
        }
    }

    fn settle(
        &mut self,
        key: &str,
        commitment: &Commitment,
        part: u32,
        end: &End,
        now: f64,
    ) -> Result<Option<Settled>, AccountsError> {
        let Some(payer) = commitment.payer.clone() else {
            return Ok(None);
        };
        let end = &End {
            waited: end.waited.filter(|_| self.steady),
            ..*end
        };
        let Settlement {
            charge,
            overrun,
            compensation,
            reason,
        } = settle(
            commitment.price,
            &commitment.request.terms,
            commitment.margin.unwrap_or(self.margin),
            (commitment.places.iter()).fold(1.0, |least, place| place.share.min(least)),
            end,
            self.overrun,
        );
        let of = each(commitment);
        let payout = Payout {
            of: (commitment.count > 1).then_some(of),
            charge: Money::near(charge).min(of),
            overrun: Money::near(overrun),
            compensation: Money::near(compensation),
        };
        let act = self.act(reason, now);
        let paid = self.live.settle(key, part, payout, act)?;
        Ok(paid.map(|paid| Settled {
            payer,
            charged: Money(paid.charge.0 + paid.overrun.0),
            compensation: paid.compensation,
            reason,
        }))
    }

    /// What is committed will not run: refused by somebody else, or cancelled before it began.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn never_began(&mut self, commitment: &Commitment, now: f64) -> Result<(), AccountsError> {
        // Of an array some parts may have been settled, the first as well.
        self.release(&self.key(commitment), NEVER_BEGAN, now)
    }

    /// All that is left of a hold is free again.
    fn release(&mut self, key: &str, note: &str, now: f64) -> Result<(), AccountsError> {
        let act = self.act(note, now);
        self.live
            .settle(key, u32::MAX, Payout::NOTHING, act)
            .map(|_| ())
    }

    /// Gives back what is held for jobs whose ends nobody will see any more. Returns how many holds, and their sum in credits.
    ///
    /// # Errors
    /// When the accounts cannot be read or written.
    pub fn release_all(&mut self, note: &str, now: f64) -> Result<(u64, f64), AccountsError> {
        let holds = self.open_holds()?;
        for hold in &holds {
            self.release(&hold.key, note, now)?;
        }
        let sum = holds.iter().map(|hold| hold.amount.credits()).sum();
        Ok((holds.len() as u64, sum))
    }

    /// Compares the holds with the jobs that the batch system had at `taken`. Holds without a job are released, jobs without a hold get
    /// one. `again`: keys of jobs that run once more. Returns lines for the log.
    ///
    /// # Errors
    /// When the accounts cannot be read or written.
    pub fn reconcile<'a>(
        &mut self,
        jobs: impl Iterator<Item = &'a Commitment>,
        again: HashSet<String>,
        taken: f64,
        now: f64,
    ) -> Result<Vec<String>, AccountsError> {
        let mut log = Vec::new();
        let mut present = again;
        for commitment in jobs.filter(|commitment| commitment.payer.is_some()) {
            if !present.insert(self.key(commitment)) {
                continue;
            }
            match self.ensure(commitment, now) {
                Ok(true) => log.push(format!(
                    "accounts: hold {} was found again, {} credits",
                    self.key(commitment),
                    credits(commitment.price)
                )),
                Ok(false) => {}
                Err(error) if error.is_refusal() => {
                    log.push(format!("accounts: hold {}: {error}", self.key(commitment)))
                }
                Err(error) => return Err(error),
            }
        }
        let holds = self.open_holds()?;
        self.later
            .retain(|key, _| !present.contains(key) && holds.iter().any(|hold| hold.key == *key));
        for hold in holds {
            if present.contains(&hold.key) || !self.is_old(&hold, taken, now) {
                continue;
            }
            self.release(&hold.key, "its job is gone", now)?;
            log.push(format!(
                "accounts: hold {} has no job any more, {} credits are free again",
                hold.key, hold.amount
            ));
        }
        Ok(log)
    }
}

impl Payments {
    /// Returns true if a hold is so old that records of `taken` would have its job. One of a clock that was ahead is not kept until that time comes: it is
    /// old when it was seen here for as long, or where it is far ahead.
    fn is_old(&mut self, hold: &OpenHold, taken: f64, now: f64) -> bool {
        let at = hold.at as f64 / 1000.0;
        if at <= now + UNSEEN {
            return at <= taken - UNSEEN;
        }
        let since = *self
            .later
            .entry(hold.key.clone())
            .or_insert_with(Instant::now);
        at > now + AHEAD || since.elapsed().as_secs_f64() > UNSEEN
    }
}

fn payer(account: Account) -> Result<Payer, AccountsError> {
    match account.closed {
        true => Err(AccountsError::Closed(account.name)),
        false => Ok(Payer {
            id: account.id,
            available: account.available(),
            name: account.name,
        }),
    }
}
