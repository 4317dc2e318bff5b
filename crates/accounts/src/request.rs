//! What can be asked about accounts, what comes back, and who may ask it. The command line asks so, beside the files or through
//! their service.
//!
//! Everybody sees the account that has their name and the projects that they are a member of, and may give away what is theirs.
//! Everything else is for root, the owner of the ledger and the members of the administrators' group.

use super::AccountsError;
use super::check::Findings;
use super::names::AccountName;
use super::statement::Statement;
use libra_units::money::Money;
use libra_units::{cut, in_one_line};
use serde::{Deserialize, Serialize};

/// Who asks. Known from the system, never from what somebody says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name of the user.
    pub name: String,
    /// May do everything.
    pub administrator: bool,
    /// Group of administrators; empty: none. For refusals.
    pub group: String,
}

/// How far an account may go below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// By so much.
    To(Money),
    /// Without a limit.
    Unlimited,
}

/// What is asked. Accounts are written as [`AccountName`] reads them; times are Unix times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What one account has, or all that the caller may see.
    Balance {
        /// Which.
        account: Option<String>,
    },
    /// What happened.
    Statement {
        /// Which; the caller's own.
        account: Option<String>,
        /// First millisecond.
        from: i64,
        /// First millisecond after it.
        to: i64,
        /// With holds and releases.
        holds: bool,
    },
    /// Make an account, or change it.
    Create {
        /// Which.
        account: String,
        /// How far it may go below zero.
        overdraft: Option<Limit>,
        /// They become members.
        members: Vec<String>,
        /// They are not any more.
        no_members: Vec<String>,
    },
    /// Money for an account.
    Deposit {
        /// Which.
        account: String,
        /// How much.
        amount: Money,
        /// First second.
        from: Option<i64>,
        /// First second after it.
        until: Option<i64>,
        /// For the statement.
        note: String,
    },
    /// Money from one account to another.
    Transfer {
        /// From which.
        from: String,
        /// To which.
        to: String,
        /// How much.
        amount: Money,
        /// For the statement.
        note: String,
    },
    /// No money moves any more.
    Close {
        /// Which.
        account: String,
    },
    /// Whether all of it is sound.
    Check {},
}

impl Request {
    /// Returns true if it is to change something, and does not only ask.
    pub fn changes(&self) -> bool {
        match self {
            Request::Balance { .. } | Request::Statement { .. } | Request::Check {} => false,
            Request::Create { .. }
            | Request::Deposit { .. }
            | Request::Transfer { .. }
            | Request::Close { .. } => true,
        }
    }

    /// Reads what a client has sent.
    ///
    /// # Errors
    /// What cannot be read, in a few words.
    pub fn from_json(text: &[u8]) -> Result<Request, String> {
        serde_json::from_slice(text).map_err(|error| in_one_line(&error.to_string()))
    }
}

/// Money with a validity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deposit {
    /// What is left of it.
    pub left: Money,
    /// First second; none: it is valid now.
    pub from: Option<i64>,
    /// First second after it; none: for ever.
    pub until: Option<i64>,
}

/// An account as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Its name.
    pub account: String,
    /// Free and held.
    pub balance: Money,
    /// Set aside for jobs.
    pub held: Money,
    /// What can be spent; none: without a limit.
    pub available: Option<Money>,
    /// How far it may go below zero; none: without a limit.
    pub overdraft: Option<Money>,
    /// What is free, by validity.
    pub deposits: Vec<Deposit>,
    /// What is not valid yet.
    pub later: Vec<Deposit>,
    /// Who may use it, where it is a project.
    pub members: Vec<String>,
    /// No money moves any more.
    pub closed: bool,
}

/// What comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To [`Request::Balance`].
    Balances(Vec<Balance>),
    /// To [`Request::Statement`].
    Statement(Statement),
    /// Done; in words, and what else there is to know.
    Done {
        /// What was done.
        text: String,
        /// What the caller should know beside it.
        warning: Option<String>,
    },
    /// To [`Request::Check`].
    Checked(Findings),
    /// Not done.
    Refused(String),
    /// Not done: a file, a disk, the service itself.
    Failed(String),
}

/// Longest note, in bytes.
const NOTE: usize = 200;

/// Reads the name of an account; a bare one is a user's.
///
/// # Errors
/// When it is none.
pub fn account(text: &str) -> Result<AccountName, AccountsError> {
    match text.contains(':') {
        true => AccountName::parse(text),
        false => AccountName::parse(&format!("user:{text}"))
            .map_err(|_| AccountsError::BadName(cut(text))),
    }
}

impl Caller {
    /// Of whom this is said to be.
    pub fn own(&self) -> Result<AccountName, AccountsError> {
        AccountName::parse(&format!("user:{}", self.name))
    }

    fn refused(&self, what: &str, others: &str) -> AccountsError {
        let group = match self.group.as_str() {
            "" => String::new(),
            group => format!(" and members of the group {group}"),
        };
        AccountsError::NotAllowed {
            user: self.name.clone(),
            what: what.to_string(),
            who: format!("{others}root{group}"),
        }
    }

    /// Checks that this may be asked at all. What is seen of projects is for [`Caller::may_see`].
    ///
    /// # Errors
    /// When not: who may.
    pub fn may(&self, request: &Request) -> Result<(), AccountsError> {
        if self.administrator {
            return Ok(());
        }
        match request {
            Request::Balance { .. } | Request::Statement { .. } => Ok(()),
            Request::Transfer { from, .. } => {
                let (from, own) = (account(from)?, self.own()?);
                match from == own {
                    true => Ok(()),
                    false => Err(self.refused(
                        &format!("a transfer from {from}"),
                        &format!("a user from {own} alone, "),
                    )),
                }
            }
            Request::Create { .. } => Err(self.refused("making and changing accounts", "")),
            Request::Deposit { .. } => Err(self.refused("a deposit", "")),
            Request::Close { .. } => Err(self.refused("closing an account", "")),
            Request::Check {} => Err(self.refused("a check of all accounts", "")),
        }
    }

    /// Checks that this account may be seen. `member`: the caller is a member of it.
    ///
    /// # Errors
    /// When not: who may.
    pub fn may_see(&self, name: &AccountName, member: bool) -> Result<(), AccountsError> {
        let own = *name == AccountName::User(self.name.clone());
        if self.administrator || own || member {
            return Ok(());
        }
        let others = match name {
            AccountName::User(owner) => format!("{owner}, "),
            AccountName::Project(_) => "its members, ".to_string(),
            _ => String::new(),
        };
        Err(self.refused(&format!("reading {name}"), &others))
    }
}

/// A note of a person, as it may stand in a statement.
///
/// # Errors
/// When it is too long or has control characters.
pub fn note(text: &str) -> Result<(), AccountsError> {
    if text.len() > NOTE || text.chars().any(char::is_control) {
        return Err(AccountsError::Unsound(format!(
            "a note has at most {NOTE} bytes and no line breaks or other control characters"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice(administrator: bool) -> Caller {
        Caller {
            name: "alice".to_string(),
            administrator,
            group: "money".to_string(),
        }
    }

    fn transfer(from: &str) -> Request {
        Request::Transfer {
            from: from.to_string(),
            to: "bob".to_string(),
            amount: Money(1),
            note: String::new(),
        }
    }

    #[test]
    fn everybody_may_give_away_what_is_theirs_and_see_what_they_use() {
        assert!(alice(false).may(&transfer("alice")).is_ok());
        assert!(alice(false).may(&transfer("user:alice")).is_ok());
        for from in ["bob", "project:alice", "site:bank"] {
            let error = alice(false).may(&transfer(from)).expect_err(from);
            let said = error.to_string();
            assert!(
                said.contains("root and members of the group money"),
                "{said}"
            );
            assert!(alice(true).may(&transfer(from)).is_ok());
        }
        let (bob, project) = (
            AccountName::User("bob".to_string()),
            AccountName::Project("alice".to_string()),
        );
        assert!(alice(false).may_see(&bob, false).is_err());
        assert!(alice(false).may_see(&project, false).is_err());
        assert!(alice(false).may_see(&project, true).is_ok());
        assert!(
            alice(false)
                .may_see(&alice(false).own().expect("a name"), false)
                .is_ok()
        );
        assert!(alice(true).may_see(&AccountName::Bank, false).is_ok());
        for request in [
            Request::Check {},
            Request::Close {
                account: "alice".to_string(),
            },
        ] {
            assert!(alice(false).may(&request).is_err());
            assert!(alice(true).may(&request).is_ok());
        }
    }

    #[test]
    fn a_request_is_read_as_it_is_written_and_nothing_else_is() {
        let request = transfer("alice");
        let text = serde_json::to_string(&request).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Request>(&text).expect("read"),
            request
        );
        for text in [
            r#"{"do":"check","user":"root"}"#,
            r#"{"do":"balance","account":null,"administrator":true}"#,
            r#"{"do":"rob"}"#,
            "[]",
        ] {
            assert!(serde_json::from_str::<Request>(text).is_err(), "{text}");
        }
    }
}
