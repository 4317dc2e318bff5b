//! What an admitting side sees of accounts: off, open, or out of order, and then the site's rule for faults.

use super::AccountsError;
use super::payments::{Payer, Payments, Settled};
use super::settlement::End;
use libra_config::{Config, OnFault};
use libra_core::commitment::Commitment;
use libra_core::decision::refusal::Reason;
use libra_units::money::Money;

/// The budget gate of one admitting side: who pays for a job, and whether the account covers its budget.
pub struct BudgetGate {
    accounts: Accounts,
    on_fault: OnFault,
}

enum Accounts {
    Off,
    Open(Box<Payments>),
    Broken(String),
}

/// Why nobody pays for a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Denied {
    /// The budget, or the price, is more than the account has.
    Funds {
        /// Which, and by how much.
        reason: Reason,
        /// What the account has, in credits.
        available: f64,
    },
    /// There is no account, or not for this user; what accounts say, with what to do.
    Account(String),
    /// Accounts are out of order, and the site refuses jobs then; what is wrong.
    Fault(String),
    /// Accounts are out of order, and the site admits jobs then: without a promise, as nobody pays for one.
    Unpromised(String),
}

impl BudgetGate {
    /// Where the site has no accounts.
    pub fn off() -> BudgetGate {
        BudgetGate {
            accounts: Accounts::Off,
            on_fault: OnFault::Refuse,
        }
    }

    /// As the configuration says. `system`, `writes`: see [`Payments::open`]. What goes wrong stands in the log, and in the answers to users.
    pub fn open(
        config: &Config,
        system: &'static str,
        on_fault: OnFault,
        writes: bool,
    ) -> BudgetGate {
        let accounts = match Payments::open(config, system, writes) {
            Ok(None) => Accounts::Off,
            Ok(Some(open)) => Accounts::Open(Box::new(open)),
            Err(error) => {
                log::error!("accounts: {error}");
                Accounts::Broken(error.to_string())
            }
        };
        BudgetGate { accounts, on_fault }
    }

    /// The site's rule for faults from now on.
    pub fn configure(&mut self, on_fault: OnFault) {
        self.on_fault = on_fault;
    }

    /// Returns true if the configuration means other accounts than those that are open.
    pub fn is_changed(before: &Config, now: &Config) -> bool {
        before.accounts != now.accounts || before.admission.margin() != now.admission.margin()
    }

    /// Returns true if the site has accounts.
    pub fn is_on(&self) -> bool {
        !matches!(self.accounts, Accounts::Off)
    }

    /// Returns true if they are out of order. Then opening them again may help.
    pub fn is_broken(&self) -> bool {
        matches!(self.accounts, Accounts::Broken(_))
    }

    /// The accounts, where they are open.
    pub fn payments(&mut self) -> Option<&mut Payments> {
        match &mut self.accounts {
            Accounts::Open(payments) => Some(payments),
            _ => None,
        }
    }

    /// Who pays, if the budget is covered; None if the site has no accounts. `budget`: credits, may be infinite, then it is what the
    /// account has.
    ///
    /// # Errors
    /// Why the job is refused.
    pub fn payer(
        &self,
        user: &str,
        project: Option<&str>,
        budget: f64,
        now: f64,
    ) -> Result<Option<Payer>, Denied> {
        self.find_payer(user, project, budget, None, now)
    }

    /// The same for a job that has a hold already and is to have another in its place: what is left of that counts as available.
    ///
    /// # Errors
    /// As [`BudgetGate::payer`].
    pub fn payer_with_hold(
        &self,
        user: &str,
        project: Option<&str>,
        budget: f64,
        commitment: &Commitment,
        now: f64,
    ) -> Result<Option<Payer>, Denied> {
        self.find_payer(user, project, budget, Some(commitment), now)
    }

    fn find_payer(
        &self,
        user: &str,
        project: Option<&str>,
        budget: f64,
        held: Option<&Commitment>,
        now: f64,
    ) -> Result<Option<Payer>, Denied> {
        let payments = match &self.accounts {
            Accounts::Off => return Ok(None),
            Accounts::Broken(problem) => return self.fault(problem.clone()),
            Accounts::Open(payments) => payments,
        };
        let found = payments.payer(user, project, now).and_then(|mut payer| {
            if let (Some(available), Some(commitment)) = (&mut payer.available, held) {
                let key = payments.key(commitment);
                let own = (payments.open_holds()?.into_iter())
                    .filter(|hold| hold.key == key && hold.account == payer.id);
                *available = own.fold(*available, |sum, hold| {
                    Money(sum.0.saturating_add(hold.amount.0))
                });
            }
            Ok(payer)
        });
        match found {
            Ok(payer) => match payer.available {
                Some(available) if budget.is_finite() && Money::up(budget) > available => {
                    Err(short(budget, available))
                }
                _ => Ok(Some(payer)),
            },
            Err(error) if error.is_refusal() => Err(Denied::Account(error.to_string())),
            Err(error) => self.fault(error.to_string()),
        }
    }

    /// Checks that a hold for this would be refused. For questions, which hold nothing.
    ///
    /// # Errors
    /// As [`BudgetGate::hold`] would.
    pub fn covers(&self, payer: &Payer, commitment: &Commitment) -> Result<(), Denied> {
        match payer.lacks(commitment) {
            Some((wanted, available)) => Err(not_covered(wanted, available)),
            None => Ok(()),
        }
    }

    /// Nobody gets a promise that nobody pays for.
    fn fault<T>(&self, problem: String) -> Result<Option<T>, Denied> {
        match self.on_fault {
            OnFault::Admit => {
                log::error!("accounts: a job is let in without a promise: {problem}");
                Err(Denied::Unpromised(problem))
            }
            OnFault::Refuse => Err(Denied::Fault(problem)),
        }
    }

    /// Sets aside what the commitment can cost.
    ///
    /// # Errors
    /// Why the job is refused after all.
    pub fn hold(&mut self, payer: &Payer, commitment: &Commitment, now: f64) -> Result<(), Denied> {
        self.set_aside(|payments| payments.hold(payer, commitment, now))
    }

    /// The same in place of what is set aside for `before`, which will not run: where it is refused, that stays set aside.
    ///
    /// # Errors
    /// As [`BudgetGate::hold`].
    pub fn hold_instead(
        &mut self,
        payer: &Payer,
        before: &Commitment,
        commitment: &Commitment,
        now: f64,
    ) -> Result<(), Denied> {
        self.set_aside(|payments| payments.hold_instead(payer, before, commitment, now))
    }

    fn set_aside(
        &mut self,
        what: impl FnOnce(&mut Payments) -> Result<(), AccountsError>,
    ) -> Result<(), Denied> {
        let Some(payments) = self.payments() else {
            return Ok(());
        };
        match what(payments) {
            Ok(()) => Ok(()),
            Err(AccountsError::Short {
                available, wanted, ..
            }) => Err(not_covered(wanted, available)),
            Err(error) if error.is_refusal() => Err(Denied::Account(error.to_string())),
            Err(error) => self.fault::<()>(error.to_string()).map(|_| ()),
        }
    }

    /// The job has its id. For statements only.
    pub fn named(&mut self, commitment: &Commitment, id: &str) {
        self.tried(|payments| payments.named(commitment, id));
    }

    /// What is committed will not run.
    pub fn never_began(&mut self, commitment: &Commitment, now: f64) {
        self.tried(|payments| payments.never_began(commitment, now));
    }

    /// A job, or one subjob of an array, has ended.
    pub fn ended(
        &mut self,
        commitment: &Commitment,
        part: u32,
        end: &End,
        now: f64,
    ) -> Option<Settled> {
        self.tried(|payments| payments.ended(commitment, part, end, now))
            .flatten()
    }

    /// What cannot be written now is found again by comparing with the batch system's records.
    pub fn tried<T>(
        &mut self,
        what: impl FnOnce(&mut Payments) -> Result<T, AccountsError>,
    ) -> Option<T> {
        match what(self.payments()?) {
            Ok(value) => Some(value),
            Err(error) => {
                log::error!("accounts: {error}");
                None
            }
        }
    }
}

/// The largest budget that an account covers, in whole cents, as it is offered to the user.
pub fn coverable(available: f64) -> f64 {
    (available * 100.0 + 1e-6).floor() / 100.0
}

fn short(budget: f64, available: Money) -> Denied {
    let available = available.credits();
    Denied::Funds {
        reason: Reason::Funds { budget, available },
        available,
    }
}

/// The price is more than there is, whatever the budget.
fn not_covered(price: Money, available: Money) -> Denied {
    let (price, available) = (price.credits(), available.credits());
    Denied::Funds {
        reason: Reason::Cover { price, available },
        available,
    }
}
