//! What can be typed after `libra account`.

use clap::{Args as ClapArgs, Subcommand};
use libra_accounts::request::Limit;
use libra_units::money::Money;
use std::path::PathBuf;

const AFTER: &str = "\
ACCOUNT is user:NAME or project:NAME; NAME alone means user:NAME. Amounts are
credits, with at most six digits after the point.

Examples:
  libra account create project:chem --member alice --member bob
  libra account deposit project:chem 5000 --until 2026-12-31
  libra account balance
  libra account statement project:chem --month 2026-11

Who may:
  Everybody sees the own account and those of projects that they are a member
  of, and may transfer from the own account. Everything else is for root, for
  the owner of the ledger, and for members of the group that
  accounts.administrators in the configuration names.

Exit status:
  0    done
  1    'libra account check' found a problem, a ledger that is not there among them
  2    wrong arguments or configuration, or accounts are off
  3    refused: not enough money, no such account, or somebody else may
  125  a file, a disk or the service failed";

/// `libra account`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER)]
pub struct AccountArgs {
    #[command(subcommand)]
    pub command: AccountCommand,
}

impl AccountArgs {
    /// Returns true if it is the service, which logs what it does.
    pub fn serves(&self) -> bool {
        matches!(self.command, AccountCommand::Serve)
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Make the ledger, and the place where it is
    ///
    /// A directory that only the one who admits can look into, and an empty ledger in it. Nothing else makes
    /// one. A second time nothing happens; where this host has had a ledger that is not there now, it is
    /// refused.
    Init {
        /// Who admits: root for PBS, SlurmUser for Slurm [default: SlurmUser where there is a slurm.conf, else root]
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// With the ledger in a database: let this host have the accounts, where another host was the last to admit with them and does not at present
        #[arg(long)]
        take_over: bool,
    },

    /// Make an account, or change one
    ///
    /// What is not given stays as it is. A closed account is opened again.
    Create(CreateArgs),

    /// Give an account money
    Deposit(DepositArgs),

    /// Show what accounts have: one, or all that you may see
    ///
    /// The balance is what is free and what is held for jobs. What is available includes the overdraft.
    Balance {
        /// The account
        account: Option<String>,
    },

    /// Show what came in and went out
    ///
    /// Each job is one line, when it has ended; what is held for others is listed below.
    Statement(StatementArgs),

    /// Move money from one account to another
    ///
    /// It keeps its validity.
    Transfer {
        /// From which account
        from: String,
        /// To which account
        to: String,
        /// How much
        #[arg(value_parser = amount)]
        credits: Money,
        /// For both statements
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },

    /// Close an account; what is left of it is the site's again
    ///
    /// Refused while something is held for its jobs, and while it owes something.
    Close {
        /// The account
        account: String,
    },

    /// Show accounts with their members
    List,

    /// Say whether ledger and live state are sound
    Check,

    /// Copy the ledger to a file, while everything runs
    ///
    /// What waits in the live state is written down before. A copy that is there is replaced in one step;
    /// anything else of that name is left alone. By root or the owner of the ledger.
    Backup {
        /// Where to
        file: PathBuf,
    },

    /// Bring back a copy of the ledger
    ///
    /// Where the live state is there, accounts have what they have now: what the copy does not know of is
    /// brought in as one movement for each account. Says what is not in the copy. A ledger that is there is
    /// laid aside, and refused where it is sound. By root or the owner of the ledger.
    Restore {
        /// The copy
        file: PathBuf,
        /// Though it is a copy of another ledger, or the ledger is there and sound; stop what admits first
        #[arg(long)]
        replace: bool,
    },

    /// Write all balances for other programs
    Export {
        /// As Open OnDemand reads them (OOD_BALANCE_PATH): what each user can spend, in whole credits
        #[arg(long, required = true)]
        ood: bool,
        /// Write to this file, replacing it in one step [default: standard output]
        file: Option<PathBuf>,
    },

    /// Answer the users of this host
    ///
    /// Listens on a Unix socket (accounts.socket in the configuration), by which 'libra account' of users
    /// reaches the ledger. Run by root or by the owner of the ledger; root gives up its rights for the
    /// owner's.
    Serve,
}

/// `libra account create`
#[derive(Debug, ClapArgs)]
pub struct CreateArgs {
    /// The account
    pub account: String,
    /// How far it may go below zero, in credits, or 'unlimited' [default: 0]
    #[arg(long, value_name = "CREDITS", value_parser = limit)]
    pub overdraft: Option<Limit>,
    /// This user may use the project's money; may be given several times
    #[arg(long, value_name = "USER")]
    pub member: Vec<String>,
    /// This user may not any more
    #[arg(long, value_name = "USER")]
    pub no_member: Vec<String>,
}

/// `libra account deposit`
#[derive(Debug, ClapArgs)]
pub struct DepositArgs {
    /// The account
    pub account: String,
    /// How much
    #[arg(value_parser = amount)]
    pub credits: Money,
    /// It can be spent from this day or time on: 2026-12-01, 2026-12-01T08:00 [default: now]
    #[arg(long, value_name = "DATE")]
    pub from: Option<String>,
    /// Until the end of this day, or this time; what is left then is the site's again [default: for ever]
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// For the statement
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
}

/// `libra account statement`
#[derive(Debug, ClapArgs)]
pub struct StatementArgs {
    /// The account [default: your own]
    pub account: Option<String>,
    /// Which month, in the time zone of this host [default: this one]
    #[arg(long, value_name = "YYYY-MM")]
    pub month: Option<String>,
    /// With a line for each hold and release
    #[arg(long)]
    pub holds: bool,
    /// As comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

fn amount(text: &str) -> Result<Money, String> {
    match Money::parse(text) {
        Ok(Money::ZERO) => Err("expected more than 0 credits".to_string()),
        Ok(money) => Ok(money),
        Err(error) => Err(error.to_string()),
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "unlimited" => Ok(Limit::Unlimited),
        _ => Money::parse(text)
            .map(Limit::To)
            .map_err(|error| format!("{error}, or 'unlimited'")),
    }
}
