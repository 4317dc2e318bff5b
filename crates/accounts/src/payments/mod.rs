//! The admitting side's dealings with accounts: who pays, is a budget covered, hold, settle, and comparing with the batch system's jobs.
//!
//! A hold's key is of what is committed ([`Commitment`], which travels with the job): system, time of submission and token. So whoever
//! sees the job can find its hold, open it again where a power failure lost it, and settle it once.
//!
//! A site that wants no accounts can build without them (the feature `ledger`): then nothing of SQLite is in what its batch server
//! loads, and a configuration that asks for accounts is refused.

#[cfg(feature = "ledger")]
mod ledger;
#[cfg(not(feature = "ledger"))]
mod left_out;

#[cfg(feature = "ledger")]
pub use ledger::Payments;
#[cfg(not(feature = "ledger"))]
pub use left_out::Payments;

use libra_core::commitment::Commitment;
use libra_units::money::Money;

/// Who pays for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payer {
    /// The account.
    pub name: String,
    /// Number of the account.
    pub id: i64,
    /// What it can spend; none: without limit.
    pub available: Option<Money>,
}

/// Money that is set aside for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenHold {
    /// Its key.
    pub key: String,
    /// Number of its account.
    pub account: i64,
    /// How much is left of it.
    pub amount: Money,
    /// Since when, Unix milliseconds.
    pub at: i64,
}

/// What came of a job's end.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The account.
    pub payer: String,
    /// What was charged, beyond the hold as well.
    pub charged: Money,
    /// What was paid out.
    pub compensation: Money,
    /// Why.
    pub reason: &'static str,
}

impl std::fmt::Display for Settled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is charged {}", self.payer, self.charged)?;
        if self.compensation > Money::ZERO {
            write!(f, " and paid {}", self.compensation)?;
        }
        write!(f, " ({})", self.reason)
    }
}

/// What is held for all jobs of an array.
fn amount(commitment: &Commitment) -> Money {
    Money(
        each(commitment)
            .0
            .saturating_mul(i64::from(commitment.count)),
    )
}

impl Payer {
    /// What it lacks for a hold, as [`Payments::hold`] would find; None if it has enough.
    pub fn lacks(&self, commitment: &Commitment) -> Option<(Money, Money)> {
        let available = self.available?;
        let wanted = amount(commitment);
        (wanted > available).then_some((wanted, available))
    }
}

/// What one job of it can cost.
fn each(commitment: &Commitment) -> Money {
    Money::up(commitment.price)
}

/// Unix milliseconds.
pub fn millis(now: f64) -> i64 {
    (now * 1000.0) as i64
}
