//! What the live state knows and a copy of the ledger does not, when that copy is brought back.
//!
//! Of what was written down after the copy was made only the sum is known: what every account has now. It is brought in as movements of
//! their own, between the bank and whoever has more or less than the copy says, so that the copy, the journal and these come to what
//! is there. Who has what does not change.

use super::super::AccountsError;
use super::super::ledger::{BANK, EachRow, Ledger, ask};
use super::super::movement::{Event, Kind, Movement, Side};
use super::step::{Step, Trouble};
use super::{Act, Live};
use libra_units::money::Money;
use std::collections::{BTreeMap, BTreeSet};

/// What was brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Brought {
    /// Entries that were written down after the copy was made: their sum is known, not each of them.
    pub summed: i64,
    /// First number of these.
    pub first: i64,
    /// Movements that bring the sum in.
    pub movements: usize,
    /// Accounts, members and validities that the copy does not have so.
    pub changes: usize,
    /// Entries that still waited to be written down, and are not lost.
    pub waiting: usize,
}

/// A place for money: account, lot, and the hold where it is held.
type Pocket = (i64, i64, Option<String>);

/// Micro-credits by place.
type Sums = BTreeMap<Pocket, i128>;

impl Live {
    /// Brings what is known here and not there into the journal, for a copy of this live state's ledger that has been put into its place.
    ///
    /// # Errors
    /// When the sum of all accounts is not 0, or a file cannot be read or written; nothing is changed then.
    pub(in super::super) fn bring_in(
        &mut self,
        copy: &Ledger,
        act: Act<'_>,
    ) -> Result<Brought, AccountsError> {
        let written = copy.written()?;
        let then = Known::read(HELD_BY_MOVEMENTS, FREE_BY_MOVEMENTS, |statement, each| {
            copy.each(statement, &[], each)
        })?;
        let waiting = self.journal(0, usize::MAX)?;
        self.change(|step| {
            let c = step.transaction;
            let now = Known::read(HELD_BY_HOLDS, FREE_BY_POCKETS, |statement, each| {
                ask(c, statement, &[], each)
            })?;
            let known: i64 =
                c.query_row("SELECT value FROM meta WHERE key = 'written'", [], |row| {
                    row.get(0)
                })?;
            let mut brought = Brought {
                summed: (known - written).max(0),
                first: written + 1,
                waiting: waiting.len(),
                ..Brought::default()
            };
            let mut missing = now.money.clone();
            subtract(&mut missing, &then.money);
            for (_, event) in waiting.iter().filter(|(id, _)| *id > written) {
                if let Event::Movement(movement) = event {
                    subtract(&mut missing, &of_movement(movement));
                }
            }
            missing.retain(|_, sum| *sum != 0);
            sound(&missing)?;
            brought.changes = step.bring_names(&now, &then, act)?;
            brought.movements = step.bring_money(&missing, act)?;
            c.execute(
                "UPDATE meta SET value = ?1 WHERE key = 'written'",
                [written],
            )?;
            Ok(brought)
        })
    }
}

/// Everything that balances are made of.
#[derive(Default)]
struct Known {
    money: Sums,
    /// Name, overdraft, closed.
    accounts: BTreeMap<i64, (String, Option<i64>, bool)>,
    members: BTreeSet<(i64, String)>,
    lots: BTreeMap<i64, (Option<i64>, Option<i64>)>,
}

const FREE_BY_POCKETS: &str = "SELECT account, lot, free FROM pocket";
const HELD_BY_HOLDS: &str = "SELECT account, lot, key, amount FROM hold";
const FREE_BY_MOVEMENTS: &str = "SELECT account, lot, SUM(amount) FROM (
    SELECT payer AS account, lot, -amount AS amount FROM movement WHERE payer_side = 'free'
    UNION ALL SELECT payee, lot, amount FROM movement WHERE payee_side = 'free') AS sides GROUP BY account, lot";
const HELD_BY_MOVEMENTS: &str = "SELECT account, lot, hold, SUM(amount) FROM (
    SELECT payer AS account, lot, hold, -amount AS amount FROM movement WHERE payer_side = 'held'
    UNION ALL SELECT payee, lot, hold, amount FROM movement WHERE payee_side = 'held') AS sides GROUP BY account, lot, hold";

impl Known {
    /// `ask`: has each row of an answer taken.
    fn read<E>(
        held: &str,
        free: &str,
        ask: impl Fn(&str, EachRow<'_>) -> Result<(), E>,
    ) -> Result<Known, E> {
        let mut known = Known::default();
        let mut money = |pocket: Pocket, sum: i64| {
            *known.money.entry(pocket).or_default() += i128::from(sum);
        };
        ask(free, &mut |row| {
            money((row.integer(0)?, row.integer(1)?, None), row.integer(2)?);
            Ok(())
        })?;
        ask(held, &mut |row| {
            let pocket = (row.integer(0)?, row.integer(1)?, Some(row.text(2)?));
            money(pocket, row.integer(3)?);
            Ok(())
        })?;
        ask(
            "SELECT id, name, overdraft, closed FROM account WHERE id > 2",
            &mut |row| {
                let account = (row.text(1)?, row.maybe_integer(2)?, row.integer(3)? != 0);
                known.accounts.insert(row.integer(0)?, account);
                Ok(())
            },
        )?;
        ask("SELECT account, \"user\" FROM member", &mut |row| {
            known.members.insert((row.integer(0)?, row.text(1)?));
            Ok(())
        })?;
        ask("SELECT id, begins, ends FROM lot", &mut |row| {
            let validity = (row.maybe_integer(1)?, row.maybe_integer(2)?);
            known.lots.insert(row.integer(0)?, validity);
            Ok(())
        })?;
        Ok(known)
    }
}

fn subtract(sums: &mut Sums, others: &Sums) {
    for (pocket, sum) in others {
        *sums.entry(pocket.clone()).or_default() -= sum;
    }
}

fn of_movement(movement: &Movement) -> Sums {
    let mut sums = Sums::new();
    let amount = i128::from(movement.amount.0);
    for ((account, side), amount) in [(movement.from, -amount), (movement.to, amount)] {
        let hold = movement.hold.clone().filter(|_| side == Side::Held);
        *sums.entry((account, movement.lot, hold)).or_default() += amount;
    }
    sums
}

/// Money only ever moves, so whatever is missing adds up to nothing, in each lot.
fn sound(missing: &Sums) -> Result<(), AccountsError> {
    let mut lots: BTreeMap<i64, i128> = BTreeMap::new();
    for ((_, lot, _), sum) in missing {
        *lots.entry(*lot).or_default() += sum;
    }
    match lots.iter().find(|(_, sum)| **sum != 0) {
        None => Ok(()),
        Some((lot, sum)) => Err(AccountsError::Unsound(format!(
            "the live state and the copy differ by {} credits that nobody has (deposit {lot}): the live state cannot be brought in; stop what \
             admits and remove it to go on with the copy alone",
            Money::clamped(*sum).exact()
        ))),
    }
}

impl Step<'_> {
    fn bring_names(&self, now: &Known, then: &Known, act: Act<'_>) -> Result<usize, Trouble> {
        let mut events = Vec::new();
        for (id, (begins, ends)) in now
            .lots
            .iter()
            .filter(|(id, _)| !then.lots.contains_key(id))
        {
            events.push(Event::Lot {
                id: *id,
                begins: *begins,
                ends: *ends,
            });
        }
        for (id, account) in &now.accounts {
            if then.accounts.get(id) != Some(account) {
                let (name, overdraft, closed) = account.clone();
                events.push(Event::Account {
                    id: *id,
                    name,
                    overdraft,
                    closed,
                    at: act.at,
                    by: act.by.to_string(),
                });
            }
        }
        for (account, user) in now.members.symmetric_difference(&then.members) {
            events.push(Event::Member {
                account: *account,
                user: user.clone(),
                may: now.members.contains(&(*account, user.clone())),
                at: act.at,
                by: act.by.to_string(),
            });
        }
        for event in &events {
            self.note(event)?;
        }
        Ok(events.len())
    }

    /// The bank's own free money follows from all others'.
    fn bring_money(&self, missing: &Sums, act: Act<'_>) -> Result<usize, Trouble> {
        let bank = (BANK, Side::Free);
        let mut count = 0;
        for ((account, lot, hold), sum) in missing {
            let side = match hold {
                Some(_) => Side::Held,
                None => Side::Free,
            };
            if (*account, side) == bank {
                continue;
            }
            let whose = (*account, side);
            let (from, to) = if *sum > 0 {
                (bank, whose)
            } else {
                (whose, bank)
            };
            let amount = i64::try_from(sum.unsigned_abs()).map_err(|_| {
                AccountsError::Unsound("that is more money than can be counted".to_string())
            })?;
            self.note(&Event::Movement(Movement {
                at: act.at,
                kind: Kind::Restored,
                from,
                to,
                lot: *lot,
                amount: Money(amount),
                hold: hold.clone(),
                part: 0,
                by: act.by.to_string(),
                note: act.note.to_string(),
            }))?;
            count += 1;
        }
        Ok(count)
    }
}
