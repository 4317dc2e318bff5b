//! Accounts, members, deposits, transfers, and the end of what has expired.

use super::super::AccountsError;
use super::super::ledger::BANK;
use super::super::lots::{FOR_EVER, Overdraft};
use super::super::movement::{Event, Kind, Side};
use super::super::names::AccountName;
use super::step::find;
use super::{AT_ONCE, Act, Live};
use libra_units::money::Money;
use rusqlite::params;

/// Holds that ended are remembered so long, in milliseconds, so that late records of their jobs do not open them again.
const REMEMBERED: i64 = 60 * 24 * 3600 * 1000;

impl Live {
    /// Makes an account, or changes one that is there: its overdraft where one is given. A closed one is opened again.
    ///
    /// # Errors
    /// When it is one of the site's.
    pub fn set_account(
        &mut self,
        name: &AccountName,
        overdraft: Option<Overdraft>,
        act: Act<'_>,
    ) -> Result<(), AccountsError> {
        not_the_sites(name)?;
        if matches!(overdraft, Some(Overdraft::To(limit)) if limit < Money::ZERO) {
            return Err(AccountsError::Unsound(
                "an overdraft is 0 credits or more".to_string(),
            ));
        }
        let name = name.to_string();
        self.change(|step| {
            step.may_admit()?;
            let there = find(step.transaction, &name, act.at)?;
            let overdraft = overdraft
                .or(there.as_ref().map(|there| there.overdraft))
                .unwrap_or(Overdraft::To(Money::ZERO));
            let id = match &there {
                Some(there) => there.id,
                None => {
                    step.transaction
                        .query_row("SELECT MAX(id) + 1 FROM account", [], |row| row.get(0))?
                }
            };
            step.put_account(id, &name, overdraft, false, act)
        })
    }

    /// Lets somebody use a project's money, or not any more.
    ///
    /// # Errors
    /// When there is no such project.
    pub fn set_member(
        &mut self,
        project: &AccountName,
        user: &str,
        may: bool,
        act: Act<'_>,
    ) -> Result<(), AccountsError> {
        // A user's name has the form of an account's.
        AccountName::parse(&format!("user:{user}"))?;
        if !matches!(project, AccountName::Project(_)) {
            return Err(AccountsError::Unsound(format!(
                "{project} is not a project; only projects have members"
            )));
        }
        self.change(|step| {
            step.may_admit()?;
            let account = step.open_account(project, act.at)?.id;
            let statement = match may {
                true => "INSERT OR IGNORE INTO member VALUES (?1, ?2)",
                false => "DELETE FROM member WHERE account = ?1 AND user = ?2",
            };
            step.transaction
                .execute(statement, params![account, user])?;
            step.note(&Event::Member {
                account,
                user: user.to_string(),
                may,
                at: act.at,
                by: act.by.to_string(),
            })
        })
    }

    /// Money from the bank. `validity`: first second and first second after it, Unix time.
    ///
    /// # Errors
    /// When there is no such account, it is closed, or the validity is over before it began.
    pub fn deposit(
        &mut self,
        to: &AccountName,
        amount: Money,
        validity: (Option<i64>, Option<i64>),
        act: Act<'_>,
    ) -> Result<(), AccountsError> {
        not_the_sites(to)?;
        some(amount)?;
        let (begins, ends) = validity;
        if ends.is_some_and(|ends| ends <= begins.unwrap_or(i64::MIN).max(act.at / 1000)) {
            return Err(AccountsError::Unsound(
                "the deposit would be over before it begins; give a later end".to_string(),
            ));
        }
        self.change(|step| {
            step.may_admit()?;
            let account = step.open_account(to, act.at)?.id;
            let lot = match validity {
                (None, None) => FOR_EVER,
                _ => step.new_lot(begins, ends)?,
            };
            step.pay(
                Kind::Deposit,
                (BANK, Side::Free),
                (account, Side::Free),
                lot,
                amount,
                None,
                act,
            )?;
            step.is_countable(BANK)
        })
    }

    /// Money from one account to another; it keeps its validity.
    ///
    /// # Errors
    /// When one of both is not there or closed, or the first has not enough.
    pub fn transfer(
        &mut self,
        from: &AccountName,
        to: &AccountName,
        amount: Money,
        act: Act<'_>,
    ) -> Result<(), AccountsError> {
        not_the_sites(from)?;
        not_the_sites(to)?;
        some(amount)?;
        if from == to {
            return Err(AccountsError::Unsound(format!(
                "nothing can be moved from {from} to itself"
            )));
        }
        self.change(|step| {
            step.may_admit()?;
            let (payer, payee) = (
                step.open_account(from, act.at)?,
                step.open_account(to, act.at)?,
            );
            for (lot, amount) in step.spend(&payer, amount)? {
                step.pay(
                    Kind::Transfer,
                    (payer.id, Side::Free),
                    (payee.id, Side::Free),
                    lot,
                    amount,
                    None,
                    act,
                )?;
            }
            Ok(())
        })
    }

    /// Closes an account; what is left of it goes back to the bank.
    ///
    /// # Errors
    /// When something is held for its jobs, or it owes something.
    pub fn close(&mut self, name: &AccountName, act: Act<'_>) -> Result<Money, AccountsError> {
        not_the_sites(name)?;
        self.change(|step| {
            step.may_admit()?;
            let account = step.open_account(name, act.at)?;
            if step.has_holds(account.id)? {
                return Err(AccountsError::Unsound(format!(
                    "{name} has {} credits held for jobs; close it when they have ended",
                    account.held.exact()
                ))
                .into());
            }
            // Of all deposits, those that are not valid now as well.
            let pockets = step.pockets(account.id)?;
            let left = Money::clamped(pockets.iter().map(|(_, free)| i128::from(free.0)).sum());
            if left < Money::ZERO {
                return Err(AccountsError::Unsound(format!(
                    "{name} has {} credits and cannot be closed; a deposit can pay that",
                    left.exact()
                ))
                .into());
            }
            let (ours, bank) = ((account.id, Side::Free), (BANK, Side::Free));
            for (lot, free) in pockets {
                // What is owed is paid out of the other deposits.
                let (from, to) = match free < Money::ZERO {
                    true => (bank, ours),
                    false => (ours, bank),
                };
                let amount = Money(free.0.abs());
                step.pay(Kind::Closing, from, to, lot, amount, None, act)?;
            }
            step.put_account(account.id, &account.name, account.overdraft, true, act)?;
            Ok(left)
        })
    }

    /// What has expired goes back to the bank; what is long over is forgotten. In several steps, so that nobody waits long: at
    /// the end of a year everybody's deposits may expire in the same second.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn sweep(&mut self, act: Act<'_>) -> Result<(), AccountsError> {
        const EXPIRED: &str = "SELECT account, lot, free FROM pocket JOIN lot ON lot.id = lot
            WHERE ends <= ?1 AND free > 0 AND account > 2 LIMIT ?2";
        const LONG_OVER: &str = "SELECT key FROM known WHERE at > 0 AND at < ?1 LIMIT ?2";
        let (now, oldest) = ([act.at / 1000, AT_ONCE], [act.at - REMEMBERED, AT_ONCE]);
        // Mostly there is nothing to do, and then nobody is kept from anything.
        while self.read(|c| c.prepare_cached(EXPIRED)?.exists(now))? {
            self.change(|step| {
                let expired: Vec<(i64, i64, i64)> = step
                    .transaction
                    .prepare_cached(EXPIRED)?
                    .query_map(now, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                    .collect::<Result<_, _>>()?;
                let bank = (BANK, Side::Free);
                for (account, lot, free) in expired {
                    let from = (account, Side::Free);
                    step.pay(Kind::Expiry, from, bank, lot, Money(free), None, act)?;
                }
                Ok(())
            })?;
        }
        while self.read(|c| c.prepare_cached(LONG_OVER)?.exists(oldest))? {
            self.change(|step| {
                let forget = format!("DELETE FROM known WHERE key IN ({LONG_OVER})");
                step.transaction.prepare_cached(&forget)?.execute(oldest)?;
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn not_the_sites(name: &AccountName) -> Result<(), AccountsError> {
    match name.is_site() {
        true => Err(AccountsError::Unsound(format!(
            "{name} is the site's own and cannot be changed"
        ))),
        false => Ok(()),
    }
}

fn some(amount: Money) -> Result<(), AccountsError> {
    match amount > Money::ZERO {
        true => Ok(()),
        false => Err(AccountsError::Unsound(
            "expected more than 0 credits".to_string(),
        )),
    }
}
