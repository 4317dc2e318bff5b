//! Inside one transaction: finding accounts, moving money, noting it in the journal.

use super::super::AccountsError;
use super::super::ledger::{INCOME, Location};
use super::super::lots::{Free, Overdraft, spend};
use super::super::movement::{Event, Kind, Movement, Side};
use super::super::names::AccountName;
use super::lease::is_current;
use super::{Account, Act};
use libra_units::money::Money;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

/// Most micro-credits in one pocket: what still can be added up.
const COUNTED: i64 = 4_000_000_000_000_000_000;

/// Why a step is undone.
pub(super) enum Trouble {
    Refused(AccountsError),
    Store(rusqlite::Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Store(error)
    }
}

impl From<AccountsError> for Trouble {
    fn from(error: AccountsError) -> Trouble {
        Trouble::Refused(error)
    }
}

/// Inside one transaction.
pub(super) struct Step<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    /// The ledger behind it.
    pub(super) ledger: &'a Location,
}

impl Step<'_> {
    /// Checks that this host may admit. What is only given back or charged needs no money, and goes on.
    pub(super) fn may_admit(&self) -> Result<(), Trouble> {
        is_current(self.transaction, self.ledger)??;
        Ok(())
    }

    pub(super) fn note(&self, event: &Event) -> Result<(), Trouble> {
        let text = serde_json::to_string(event)
            .map_err(|error| AccountsError::Unsound(error.to_string()))?;
        self.transaction
            .prepare_cached("INSERT INTO journal(event) VALUES (?1)")?
            .execute([text])?;
        Ok(())
    }

    pub(super) fn open_account(&self, name: &AccountName, at: i64) -> Result<Account, Trouble> {
        let name = name.to_string();
        let account = find(self.transaction, &name, at)?.ok_or(AccountsError::NoAccount(name))?;
        opened(account)
    }

    pub(super) fn by_number(&self, id: i64, at: i64) -> Result<Account, Trouble> {
        let name: Option<String> = self
            .transaction
            .prepare_cached("SELECT name FROM account WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        let name = name.ok_or_else(|| AccountsError::NoAccount(format!("number {id}")))?;
        let account = find(self.transaction, &name, at)?.ok_or(AccountsError::NoAccount(name))?;
        opened(account)
    }

    pub(super) fn put_account(
        &self,
        id: i64,
        name: &str,
        overdraft: Overdraft,
        closed: bool,
        act: Act<'_>,
    ) -> Result<(), Trouble> {
        let overdraft = match overdraft {
            Overdraft::To(money) => Some(money.0),
            Overdraft::Unlimited => None,
        };
        self.transaction
            .prepare_cached("INSERT INTO account VALUES (?1, ?2, ?3, ?4) ON CONFLICT(id) DO UPDATE SET overdraft = ?3, closed = ?4")?
            .execute(params![id, name, overdraft, closed])?;
        self.note(&Event::Account {
            id,
            name: name.to_string(),
            overdraft,
            closed,
            at: act.at,
            by: act.by.to_string(),
        })
    }

    pub(super) fn new_lot(&self, begins: Option<i64>, ends: Option<i64>) -> Result<i64, Trouble> {
        let id =
            self.transaction
                .query_row("SELECT COALESCE(MAX(id), 0) + 1 FROM lot", [], |row| {
                    row.get(0)
                })?;
        self.transaction.execute(
            "INSERT INTO lot VALUES (?1, ?2, ?3)",
            params![id, begins, ends],
        )?;
        self.note(&Event::Lot { id, begins, ends })?;
        Ok(id)
    }

    pub(super) fn spend(
        &self,
        account: &Account,
        amount: Money,
    ) -> Result<Vec<(i64, Money)>, Trouble> {
        let short = || AccountsError::Short {
            account: account.name.clone(),
            available: account.available().unwrap_or_default(),
            wanted: amount,
        };
        Ok(spend(&account.free, account.overdraft, amount).ok_or_else(short)?)
    }

    /// Returns true if anything is set aside, be it nothing.
    pub(super) fn has_holds(&self, account: i64) -> Result<bool, Trouble> {
        let mut statement = self
            .transaction
            .prepare_cached("SELECT 1 FROM hold WHERE account = ?1")?;
        Ok(statement.exists([account])?)
    }

    /// Everything free of an account, whatever its validity.
    pub(super) fn pockets(&self, account: i64) -> Result<Vec<(i64, Money)>, Trouble> {
        let mut statement = self
            .transaction
            .prepare_cached("SELECT lot, free FROM pocket WHERE account = ?1")?;
        let pockets = statement
            .query_map([account], |row| Ok((row.get(0)?, Money(row.get(1)?))))?
            .collect::<Result<_, _>>()?;
        Ok(pockets)
    }

    pub(super) fn take_held(
        &self,
        key: &str,
        lot: i64,
        there: Money,
        taken: Money,
    ) -> Result<(), Trouble> {
        let c = self.transaction;
        match there.0 - taken.0 {
            0 => c
                .prepare_cached("DELETE FROM hold WHERE key = ?1 AND lot = ?2")?
                .execute(params![key, lot])?,
            left => c
                .prepare_cached("UPDATE hold SET amount = ?3 WHERE key = ?1 AND lot = ?2")?
                .execute(params![key, lot, left])?,
        };
        Ok(())
    }

    /// What a job costs beyond what was held: as far as the account reaches.
    pub(super) fn overrun(
        &self,
        account: i64,
        wanted: Money,
        hold: (&str, u32),
        act: Act<'_>,
    ) -> Result<Money, Trouble> {
        if wanted <= Money::ZERO {
            return Ok(Money::ZERO);
        }
        let account = self.by_number(account, act.at)?;
        let taken = account
            .available()
            .map_or(wanted, |available| available.min(wanted));
        for (lot, amount) in self.spend(&account, taken)? {
            self.pay(
                Kind::Overrun,
                (account.id, Side::Free),
                (INCOME, Side::Free),
                lot,
                amount,
                Some(hold),
                act,
            )?;
        }
        Ok(taken)
    }

    /// Checks that all deposits of an account together are few enough. Each alone is, but sums of them are asked for as well.
    pub(super) fn is_countable(&self, account: i64) -> Result<(), Trouble> {
        let all: f64 = self
            .transaction
            .prepare_cached("SELECT TOTAL(abs(free)) FROM pocket WHERE account = ?1")?
            .query_row([account], |row| row.get(0))?;
        match all <= COUNTED as f64 {
            true => Ok(()),
            false => Err(uncountable()),
        }
    }

    /// The one way for money to move. What is held is in the table of holds; its rows are the caller's.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn pay(
        &self,
        kind: Kind,
        from: (i64, Side),
        to: (i64, Side),
        lot: i64,
        amount: Money,
        hold: Option<(&str, u32)>,
        act: Act<'_>,
    ) -> Result<(), Trouble> {
        if amount <= Money::ZERO {
            return Ok(());
        }
        for ((account, side), change) in [(from, -amount.0), (to, amount.0)] {
            if side == Side::Free {
                // SQLite makes a number with a point of a sum that is too large: its type says so.
                let counted: bool = self.transaction
                    .prepare_cached("INSERT INTO pocket VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET free = free + ?3 RETURNING typeof(free) = 'integer' AND abs(free) <= ?4")?
                    .query_row(params![account, lot, change, COUNTED], |row| row.get(0))?;
                if !counted {
                    return Err(uncountable());
                }
            }
        }
        let movement = Movement {
            at: act.at,
            kind,
            from,
            to,
            lot,
            amount,
            hold: hold.map(|(key, _)| key.to_string()),
            part: hold.map_or(0, |(_, part)| part),
            by: act.by.to_string(),
            note: act.note.to_string(),
        };
        self.note(&Event::Movement(movement))
    }
}

fn uncountable() -> Trouble {
    let text = "that is more money than can be counted: an account has at most 4 * 10^12 credits";
    AccountsError::Unsound(text.to_string()).into()
}

fn opened(account: Account) -> Result<Account, Trouble> {
    match account.closed {
        true => Err(AccountsError::Closed(account.name).into()),
        false => Ok(account),
    }
}

pub(super) fn find(c: &Connection, name: &str, at: i64) -> rusqlite::Result<Option<Account>> {
    let mut account = match c
        .prepare_cached("SELECT id, overdraft, closed FROM account WHERE name = ?1")?
        .query_row([name], |row| {
            let overdraft: Option<i64> = row.get(1)?;
            Ok(Account {
                id: row.get(0)?,
                name: name.to_string(),
                overdraft: overdraft
                    .map_or(Overdraft::Unlimited, |limit| Overdraft::To(Money(limit))),
                closed: row.get(2)?,
                free: Vec::new(),
                held: Money::ZERO,
            })
        })
        .optional()?
    {
        Some(account) => account,
        None => return Ok(None),
    };
    account.free = c
        .prepare_cached(
            "SELECT lot, free, ends FROM pocket LEFT JOIN lot ON lot.id = lot WHERE account = ?1 AND free <> 0
             AND (account <= 2 OR (begins IS NULL OR begins <= ?2) AND (ends IS NULL OR ends > ?2))",
        )?
        .query_map([account.id, at / 1000], |row| Ok(Free { lot: row.get(0)?, amount: Money(row.get(1)?), ends: row.get(2)? }))?
        .collect::<Result<_, _>>()?;
    account.held = Money(
        c.prepare_cached("SELECT COALESCE(SUM(amount), 0) FROM hold WHERE account = ?1")?
            .query_row([account.id], |row| row.get(0))?,
    );
    Ok(Some(account))
}
