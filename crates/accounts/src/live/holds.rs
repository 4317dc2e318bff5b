//! Money of jobs: set aside when one is admitted, given out when it has ended.

use super::super::AccountsError;
use super::super::ledger::INCOME;
use super::super::lots::FOR_EVER;
use super::super::movement::{Event, Kind, Side};
use super::step::{Step, Trouble};
use super::{Act, Live, Payout};
use crate::payments::OpenHold;
use libra_units::money::Money;
use rusqlite::params;

impl Live {
    /// Sets money aside for a job. A key is taken once and for all: the second time nothing happens, and false is returned.
    ///
    /// # Errors
    /// When there is no such account, it is closed, or has not enough.
    pub fn hold(
        &mut self,
        key: &str,
        account: i64,
        amount: Money,
        act: Act<'_>,
    ) -> Result<bool, AccountsError> {
        self.change(|step| step.hold(key, account, amount, &[], act))
    }

    /// As [`Live::hold`], in place of a hold that is there: what is left of that is set aside first, also where its validity has ended meanwhile, and
    /// the rest of it is free again. Where it fails, the hold that was there stays. `note`: why that one ends.
    ///
    /// # Errors
    /// As [`Live::hold`].
    pub fn hold_instead(
        &mut self,
        before: &str,
        note: &str,
        key: &str,
        account: i64,
        amount: Money,
        act: Act<'_>,
    ) -> Result<bool, AccountsError> {
        self.change(|step| {
            let own = step.held(before, account)?;
            step.settle(before, u32::MAX, Payout::NOTHING, Act { note, ..act })?;
            step.hold(key, account, amount, &own, act)
        })
    }

    /// A hold's job has this id. For statements only.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn name_job(&mut self, key: &str, id: &str) -> Result<(), AccountsError> {
        self.change(|step| {
            step.note(&Event::Job {
                hold: key.to_string(),
                id: id.to_string(),
            })
        })
    }

    /// Settles a hold, or one part of it (a subjob of an array): each part once, later calls return none. What was held and is
    /// not charged is free again.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn settle(
        &mut self,
        key: &str,
        part: u32,
        payout: Payout,
        act: Act<'_>,
    ) -> Result<Option<Payout>, AccountsError> {
        self.change(|step| step.settle(key, part, payout, act))
    }

    /// All open holds whose keys begin so, oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn holds(&self, prefix: &str) -> Result<Vec<OpenHold>, AccountsError> {
        self.read(|c| {
            c.prepare_cached("SELECT key, account, SUM(amount), MIN(at) FROM hold WHERE substr(key, 1, length(?1)) = ?1 GROUP BY key ORDER BY 4, 1")?
                .query_map([prefix], |row| Ok(OpenHold { key: row.get(0)?, account: row.get(1)?, amount: Money(row.get(2)?), at: row.get(3)? }))?
                .collect()
        })
    }

    /// Returns true if this hold was settled, or this part of it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_settled(&self, key: &str, part: u32) -> Result<bool, AccountsError> {
        self.read(|c| {
            let closed = c
                .prepare_cached("SELECT 1 FROM known WHERE key = ?1 AND at <> 0")?
                .exists([key])?;
            Ok(closed
                || c.prepare_cached("SELECT 1 FROM part WHERE key = ?1 AND part = ?2")?
                    .exists(params![key, part])?)
        })
    }

    /// Returns true if this hold is known, open or closed.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn knows(&self, key: &str) -> Result<bool, AccountsError> {
        self.read(|c| {
            c.prepare_cached("SELECT 1 FROM known WHERE key = ?1")?
                .exists([key])
        })
    }
}

impl Step<'_> {
    /// What is held of an account under a key, by lot.
    fn held(&self, key: &str, account: i64) -> Result<Vec<(i64, Money)>, Trouble> {
        let c = self.transaction;
        let parts = c
            .prepare_cached("SELECT lot, amount FROM hold WHERE key = ?1 AND account = ?2")?
            .query_map(params![key, account], |row| {
                Ok((row.get(0)?, Money(row.get(1)?)))
            })?
            .collect::<Result<_, _>>()?;
        Ok(parts)
    }

    /// `own`: what is taken first, and is free whatever its validity.
    fn hold(
        &self,
        key: &str,
        account: i64,
        amount: Money,
        own: &[(i64, Money)],
        act: Act<'_>,
    ) -> Result<bool, Trouble> {
        self.may_admit()?;
        let c = self.transaction;
        if c.prepare_cached("INSERT OR IGNORE INTO known VALUES (?1, 0)")?
            .execute([key])?
            == 0
        {
            return Ok(false);
        }
        let mut left = amount;
        for (lot, there) in own {
            let part = left.min(*there);
            self.set_aside(key, account, *lot, part, act)?;
            left = Money(left.0 - part.0);
        }
        let account = self.by_number(account, act.at)?;
        for (lot, part) in self.spend(&account, left)? {
            self.set_aside(key, account.id, lot, part, act)?;
        }
        if amount == Money::ZERO {
            // It costs nothing, and may bring a compensation.
            c.prepare_cached("INSERT INTO hold VALUES (?1, ?2, ?3, 0, ?4)")?
                .execute(params![key, FOR_EVER, account.id, act.at])?;
        }
        Ok(true)
    }

    fn set_aside(
        &self,
        key: &str,
        account: i64,
        lot: i64,
        amount: Money,
        act: Act<'_>,
    ) -> Result<(), Trouble> {
        if amount <= Money::ZERO {
            return Ok(());
        }
        self.transaction
            .prepare_cached("INSERT INTO hold VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET amount = amount + ?4")?
            .execute(params![key, lot, account, amount.0, act.at])?;
        self.pay(
            Kind::Hold,
            (account, Side::Free),
            (account, Side::Held),
            lot,
            amount,
            Some((key, 0)),
            act,
        )
    }

    fn settle(
        &self,
        key: &str,
        part: u32,
        payout: Payout,
        act: Act<'_>,
    ) -> Result<Option<Payout>, Trouble> {
        let c = self.transaction;
        let parts: Vec<(i64, i64, i64)> = c
            .prepare_cached("SELECT lot, account, amount FROM hold LEFT JOIN lot ON lot.id = lot WHERE key = ?1 ORDER BY ends IS NULL, ends, lot")?
            .query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<Result<_, _>>()?;
        let open = c
            .prepare_cached("SELECT 1 FROM known WHERE key = ?1 AND at = 0")?
            .exists([key])?;
        if !open
            || c.prepare_cached("INSERT OR IGNORE INTO part VALUES (?1, ?2)")?
                .execute(params![key, part])?
                == 0
        {
            return Ok(None);
        }
        let held: i64 = parts.iter().map(|(_, _, amount)| amount).sum();
        let mut of = payout.of.map_or(held, |of| of.0.min(held));
        let mut charge = payout.charge.0.clamp(0, of);
        let mut done = Payout {
            of: Some(Money(of)),
            charge: Money(charge),
            overrun: Money::ZERO,
            compensation: payout.compensation,
        };
        for (lot, account, amount) in &parts {
            let taken = amount.min(&of).to_owned();
            let charged = taken.min(charge);
            (of, charge) = (of - taken, charge - charged);
            self.take_held(key, *lot, Money(*amount), Money(taken))?;
            self.pay(
                Kind::Charge,
                (*account, Side::Held),
                (INCOME, Side::Free),
                *lot,
                Money(charged),
                Some((key, part)),
                act,
            )?;
            self.pay(
                Kind::Release,
                (*account, Side::Held),
                (*account, Side::Free),
                *lot,
                Money(taken - charged),
                Some((key, part)),
                act,
            )?;
        }
        if let Some((_, account, _)) = parts.first() {
            done.overrun = self.overrun(*account, payout.overrun, (key, part), act)?;
            self.pay(
                Kind::Compensation,
                (INCOME, Side::Free),
                (*account, Side::Free),
                FOR_EVER,
                payout.compensation,
                Some((key, part)),
                act,
            )?;
        }
        if payout.of.is_none() || held == done.of.map_or(0, |of| of.0) {
            c.prepare_cached("UPDATE known SET at = ?2 WHERE key = ?1")?
                .execute(params![key, act.at])?;
            c.prepare_cached("DELETE FROM part WHERE key = ?1")?
                .execute([key])?;
        }
        Ok(Some(done))
    }
}
