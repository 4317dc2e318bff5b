//! What is written down: movements of money, and changes of accounts.

use libra_units::money::Money;
use serde::{Deserialize, Serialize};

/// Why money moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// From the site's bank to an account.
    Deposit,
    /// Set aside for a job.
    Hold,
    /// Paid for a job, out of what was held for it.
    Charge,
    /// Paid for a job beyond what was held.
    Overrun,
    /// Not needed for a job, free again.
    Release,
    /// Paid to the user for a job that was late.
    Compensation,
    /// From one account to another.
    Transfer,
    /// A deposit's validity is over.
    Expiry,
    /// What was left when an account was closed, back to the bank.
    Closing,
    /// What an account or a hold had by the live state and not by a copy of the ledger that was brought back.
    Restored,
}

impl Kind {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Deposit => "deposit",
            Kind::Hold => "hold",
            Kind::Charge => "charge",
            Kind::Overrun => "overrun",
            Kind::Release => "release",
            Kind::Compensation => "compensation",
            Kind::Transfer => "transfer",
            Kind::Expiry => "expiry",
            Kind::Closing => "closing",
            Kind::Restored => "restored",
        }
    }
}

/// Which of an account's two pockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// To be spent.
    Free,
    /// Set aside for jobs.
    Held,
}

impl Side {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Side::Free => "free",
            Side::Held => "held",
        }
    }
}

/// Money moves. Never changed once it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Movement {
    /// When, Unix time in milliseconds.
    pub at: i64,
    /// Why.
    pub kind: Kind,
    /// Whose money, and from which side.
    pub from: (i64, Side),
    /// To whom.
    pub to: (i64, Side),
    /// Of which lot.
    pub lot: i64,
    /// How much, > 0.
    pub amount: Money,
    /// Of which hold, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// Which part of it, of an array; else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
    /// Who wanted it: a user's name, or the part of Libra that did it.
    pub by: String,
    /// Anything else to be said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

fn is_zero(part: &u32) -> bool {
    *part == 0
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Money moves.
    Movement(Movement),
    /// An account is made, changed or closed. `overdraft`: micro-credits, None for unlimited.
    Account {
        /// Its number.
        id: i64,
        /// Its name.
        name: String,
        /// How far it may go below zero.
        overdraft: Option<i64>,
        /// Closed?
        closed: bool,
        /// When, Unix milliseconds.
        at: i64,
        /// By whom.
        by: String,
    },
    /// Somebody may use a project's money, or may not any more.
    Member {
        /// The project's number.
        account: i64,
        /// Who.
        user: String,
        /// Whether it may.
        may: bool,
        /// When, Unix milliseconds.
        at: i64,
        /// By whom.
        by: String,
    },
    /// A deposit's validity, Unix seconds.
    Lot {
        /// Its number.
        id: i64,
        /// First second.
        begins: Option<i64>,
        /// First second after it.
        ends: Option<i64>,
    },
    /// A hold's job has its id.
    Job {
        /// The hold.
        hold: String,
        /// The id.
        id: String,
    },
}
