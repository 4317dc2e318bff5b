//! Does what was asked, for whoever may ask it.

use super::AccountsError;
use super::flush::flush;
use super::ledger::Ledger;
use super::live::{Account, Act, Live};
use super::lots::Overdraft;
use super::names::AccountName;
use super::request::{Balance, Caller, Deposit, Limit, Reply, Request, account, note};
use super::statement::{Pending, Statement, lines};
use libra_units::money::Money;

/// Does what was asked at `at`, Unix milliseconds. What was done is on the disk afterwards, or the reply says that it is not yet.
///
/// # Errors
/// When it may not or cannot be done; then nothing was changed.
pub fn perform(
    live: &mut Live,
    ledger: &Ledger,
    caller: &Caller,
    request: &Request,
    at: i64,
) -> Result<Reply, AccountsError> {
    caller.may(request)?;
    let text = match request {
        Request::Balance { account } => {
            return balances(live, caller, account.as_deref(), at).map(Reply::Balances);
        }
        Request::Statement {
            account: which,
            from,
            to,
            holds,
        } => {
            let name = which.as_deref().map_or_else(|| caller.own(), account)?;
            let found = visible(live, caller, &name, at)?;
            // What waits belongs to it as well.
            flush(live, ledger)?;
            return statement(live, ledger, &found, (*from, *to), *holds).map(Reply::Statement);
        }
        Request::Check {} => {
            // A full disk is not what is looked for here.
            let flushed = flush(live, ledger);
            let mut found = super::check::check(live, ledger, at)?;
            match flushed {
                // What is wrong with the ledger itself is in there already.
                Ok(_) => {}
                Err(error) if error.lost_ledger().is_some() => {}
                Err(error) => found
                    .problems
                    .push(format!("nothing is written down: {error}")),
            }
            return Ok(Reply::Checked(found));
        }
        Request::Create {
            account: name,
            overdraft,
            members,
            no_members,
        } => {
            let name = account(name)?;
            let act = act(at, caller, "");
            create(live, &name, *overdraft, (members, no_members), act)?
        }
        Request::Deposit {
            account: name,
            amount,
            from,
            until,
            note: text,
        } => {
            let name = account(name)?;
            note(text)?;
            live.deposit(&name, *amount, (*from, *until), act(at, caller, text))?;
            format!("{name} has got {} credits", amount.exact())
        }
        Request::Transfer {
            from,
            to,
            amount,
            note: text,
        } => {
            let (from, to) = (account(from)?, account(to)?);
            note(text)?;
            live.transfer(&from, &to, *amount, act(at, caller, text))?;
            format!("{} credits moved from {from} to {to}", amount.exact())
        }
        Request::Close { account: name } => {
            let name = account(name)?;
            let left = live.close(&name, act(at, caller, ""))?;
            match left {
                Money::ZERO => format!("{name} is closed"),
                left => format!(
                    "{name} is closed; its {} credits are the site's again",
                    left.exact()
                ),
            }
        }
    };
    let warning = flush(live, ledger).err().map(|error| {
        format!(
            "done, but not written down yet: {error}; it will be, unless this host restarts before"
        )
    });
    Ok(Reply::Done { text, warning })
}

fn act<'a>(at: i64, caller: &'a Caller, note: &'a str) -> Act<'a> {
    Act {
        at,
        by: &caller.name,
        note,
    }
}

fn visible(
    live: &Live,
    caller: &Caller,
    name: &AccountName,
    at: i64,
) -> Result<Account, AccountsError> {
    let found = live.account(name, at);
    let member = match &found {
        Ok(account) => live.is_member(account.id, &caller.name)?,
        Err(_) => false,
    };
    // Who may not see it does not learn whether it is there.
    caller.may_see(name, member)?;
    found
}

/// Accounts with what they have: one, or all that the caller may see.
fn balances(
    live: &Live,
    caller: &Caller,
    which: Option<&str>,
    at: i64,
) -> Result<Vec<Balance>, AccountsError> {
    let accounts = match which {
        Some(name) => vec![visible(live, caller, &account(name)?, at)?],
        None if caller.administrator => live.accounts(at)?,
        None => {
            let mut accounts = Vec::new();
            match live.account(&caller.own()?, at) {
                Ok(own) => accounts.push(own),
                Err(AccountsError::NoAccount(_)) => {}
                Err(error) => return Err(error),
            }
            for project in live.projects_of(&caller.name)? {
                accounts.push(live.account(&AccountName::parse(&project)?, at)?);
            }
            accounts
        }
    };
    accounts
        .into_iter()
        .map(|account| balance(live, account, at))
        .collect()
}

fn balance(live: &Live, account: Account, at: i64) -> Result<Balance, AccountsError> {
    let mut free = account.free.clone();
    free.retain(|free| free.amount > Money::ZERO);
    free.sort_by_key(|free| (free.ends.unwrap_or(i64::MAX), free.lot));
    let later = live.later(account.id, at)?.into_iter();
    Ok(Balance {
        balance: account.balance(),
        held: account.held,
        available: account.available(),
        overdraft: match account.overdraft {
            Overdraft::To(limit) => Some(limit),
            Overdraft::Unlimited => None,
        },
        deposits: free
            .iter()
            .map(|free| Deposit {
                left: free.amount,
                from: None,
                until: free.ends,
            })
            .collect(),
        later: later
            .map(|(left, from, until)| Deposit {
                left,
                from: Some(from),
                until,
            })
            .collect(),
        members: live.members(account.id)?,
        closed: account.closed,
        account: account.name,
    })
}

/// What happened to an account from the first millisecond of a period to the one before its end. Everything has to be written down.
///
/// # Errors
/// When one of both files cannot be read.
pub fn statement(
    live: &Live,
    ledger: &Ledger,
    account: &Account,
    (from, to): (i64, i64),
    holds: bool,
) -> Result<Statement, AccountsError> {
    let (free, held) = ledger.before(account.id, from)?;
    let opening = Money(free.0 + held.0);
    let rows = ledger.rows(account.id, from, to)?;
    let change: i128 = rows
        .iter()
        .map(|row| i128::from(row.free.0) + i128::from(row.held.0))
        .sum();
    let pending = live.holds_of(account.id)?.into_iter();
    let pending = pending.map(|hold| {
        Ok(Pending {
            at: hold.at,
            amount: hold.amount,
            job: ledger.job(&hold.key)?,
        })
    });
    Ok(Statement {
        account: account.name.clone(),
        from,
        to,
        opening,
        closing: Money::clamped(i128::from(opening.0) + change),
        lines: lines(&rows, opening, holds),
        pending: pending.collect::<Result<_, AccountsError>>()?,
    })
}

fn create(
    live: &mut Live,
    name: &AccountName,
    overdraft: Option<Limit>,
    (members, no_members): (&[String], &[String]),
    act: Act<'_>,
) -> Result<String, AccountsError> {
    let project = matches!(name, AccountName::Project(_));
    for user in members.iter().chain(no_members) {
        AccountName::parse(&format!("user:{user}"))?;
        if !project {
            return Err(AccountsError::Unsound(format!(
                "{name} is not a project; only projects have members"
            )));
        }
    }
    let overdraft = overdraft.map(|limit| match limit {
        Limit::To(money) => Overdraft::To(money),
        Limit::Unlimited => Overdraft::Unlimited,
    });
    let there = match live.account(name, act.at) {
        Ok(account) => Some(account.closed),
        Err(AccountsError::NoAccount(_)) => None,
        Err(error) => return Err(error),
    };
    if there != Some(false) || overdraft.is_some() {
        live.set_account(name, overdraft, act)?;
    }
    for (users, may) in [(members, true), (no_members, false)] {
        for user in users {
            live.set_member(name, user, may, act)?;
        }
    }
    let changes = overdraft.is_some() || members.len() + no_members.len() > 0;
    Ok(match there {
        None => format!("{name} is made"),
        Some(true) => format!("{name} is open again"),
        Some(false) if changes => format!("{name} is changed"),
        Some(false) => format!("{name} is there already"),
    })
}
