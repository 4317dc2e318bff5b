//! Is the live state what ledger and journal say, and is all of it sound?
//!
//! It can be asked while others admit: the live state is looked at as it was at one moment, and of the ledger what had happened by
//! then.

use super::AccountsError;
use super::ledger::Ledger;
use super::live::Live;
use super::lots::FOR_EVER;
use super::movement::{Event, Side};
use libra_units::money::Money;
use rusqlite::{Connection, TransactionBehavior};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

/// Most differences that are named one by one.
const NAMED: usize = 20;

/// A clock that was ahead by less, in milliseconds, is not worth a word.
const AHEAD: i64 = 60_000;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// What is wrong, and what to do.
    pub problems: Vec<String>,
    /// What is not as it should stay, and hurts nobody.
    pub notes: Vec<String>,
    /// Accounts, the site's two included.
    pub accounts: usize,
    /// Movements that are written down.
    pub movements: i64,
    /// Journal entries that were not.
    pub waiting: usize,
    /// Open holds.
    pub holds: usize,
}

/// Free and held, by account and lot.
type Balances = BTreeMap<(i64, i64), (i128, i128)>;

/// Looks at everything. `now`: Unix milliseconds.
///
/// # Errors
/// When one of both files cannot be read at all.
pub fn check(live: &Live, ledger: &Ledger, now: i64) -> Result<Findings, AccountsError> {
    let mut found = Findings::default();
    if let Err(error) = ledger.is_there() {
        found.problems.push(error.to_string());
    }
    place(live, &mut found);
    ahead(live, now, &mut found)?;
    for said in ledger.damage(5)? {
        found.problems.push(format!(
            "{} is damaged ({said}); bring back the last back-up of it with: libra account restore FILE",
            ledger.path.display()
        ));
    }
    for said in sqlite_check(&live.connection).map_err(|error| AccountsError::Store {
        path: live.path.clone(),
        error,
    })? {
        found.problems.push(format!(
            "{} is damaged ({said}); stop what admits and remove the file: it is made anew of the ledger",
            live.path.display()
        ));
    }
    let seen = snapshot(live, &mut found)?;
    // Looked at after the journal: what is not in one is in the other.
    let (mut expected, known) = of_ledger(ledger, seen.last, &mut found)?;
    for (id, event) in &seen.journal {
        if let Event::Movement(movement) = event {
            if *id <= known {
                continue;
            }
            for ((account, side), amount) in [
                (movement.from, -i128::from(movement.amount.0)),
                (movement.to, i128::from(movement.amount.0)),
            ] {
                add(&mut expected, (account, movement.lot), side, amount);
            }
        }
    }
    compare(&seen, &expected, live, &mut found);
    Ok(found)
}

/// Who could keep the live state from its place, or take the room there?
fn place(live: &Live, found: &mut Findings) {
    let above = live.path.parent().and_then(std::path::Path::parent);
    let everybody = above
        .and_then(|above| std::fs::metadata(above).ok())
        .is_some_and(|above| above.mode() & 0o002 != 0);
    if let (true, Some(above)) = (everybody, above) {
        found.notes.push(format!(
            "the live state is in {}, where everybody can make and fill files; a place for root alone is better: accounts.live = \"{}\", then \
             restart what admits",
            above.display(),
            libra_config::LIVE_DIRECTORY
        ));
    }
}

/// Holds that were made while a clock was far ahead.
fn ahead(live: &Live, now: i64, found: &mut Findings) -> Result<(), AccountsError> {
    let mut holds = live.holds("")?;
    holds.retain(|hold| hold.at > now.saturating_add(AHEAD));
    if let Some(last) = holds.iter().max_by_key(|hold| hold.at) {
        found.notes.push(format!(
            "{} open holds are of a time to come, the last of {}: the clock was ahead; each ends with its job, or is released when a comparison \
             with the batch system finds none",
            holds.len(),
            super::identity::day(last.at)
        ));
    }
    Ok(())
}

/// The live state at one moment.
struct Seen {
    names: BTreeMap<i64, (String, Option<i64>, bool)>,
    balances: Balances,
    journal: Vec<(i64, Event)>,
    /// Number of the last thing that happened.
    last: i64,
}

fn snapshot(live: &Live, found: &mut Findings) -> Result<Seen, AccountsError> {
    let store = |error| AccountsError::Store {
        path: live.path.clone(),
        error,
    };
    let transaction =
        rusqlite::Transaction::new_unchecked(&live.connection, TransactionBehavior::Deferred)
            .map_err(store)?;
    let mut seen = Seen {
        names: BTreeMap::new(),
        balances: Balances::new(),
        journal: Vec::new(),
        last: 0,
    };
    (|| {
        let mut statement =
            transaction.prepare("SELECT id, name, overdraft, closed FROM account")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            seen.names
                .insert(row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?));
        }
        let mut statement = transaction.prepare("SELECT account, lot, free FROM pocket")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let amount: i64 = row.get(2)?;
            add(
                &mut seen.balances,
                (row.get(0)?, row.get(1)?),
                Side::Free,
                amount.into(),
            );
        }
        let mut statement = transaction.prepare("SELECT account, lot, amount FROM hold")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let amount: i64 = row.get(2)?;
            add(
                &mut seen.balances,
                (row.get(0)?, row.get(1)?),
                Side::Held,
                amount.into(),
            );
        }
        found.holds =
            transaction.query_row("SELECT COUNT(DISTINCT key) FROM hold", [], |row| row.get(0))?;
        seen.last = transaction.query_row(
            "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'journal'), 0)",
            [],
            |row| row.get(0),
        )?;
        Ok(())
    })()
    .map_err(store)?;
    seen.journal = live.journal(0, usize::MAX)?;
    found.waiting = seen.journal.len();
    found.accounts = seen.names.len();
    for (key, why) in live.stray_holds()? {
        found.problems.push(format!(
            "hold {key} {why}; stop what admits, remove {}, and it is made anew of the ledger",
            live.path.display()
        ));
    }
    Ok(seen)
}

/// Balances by the movements up to a number, and the number of the last entry that is written down.
fn of_ledger(
    ledger: &Ledger,
    last: i64,
    found: &mut Findings,
) -> Result<(Balances, i64), AccountsError> {
    ledger.at_one_moment(|| {
        let mut balances = Balances::new();
        ledger.each(BY_MOVEMENTS, &[last.into()], &mut |row| {
            let side = match row.text(2)?.as_str() {
                "held" => Side::Held,
                _ => Side::Free,
            };
            let place = (row.integer(0)?, row.integer(1)?);
            add(&mut balances, place, side, row.integer(3)?.into());
            Ok(())
        })?;
        found.movements = ledger.movements()?;
        Ok((balances, ledger.written()?))
    })
}

const BY_MOVEMENTS: &str = "SELECT account, lot, side, SUM(amount) FROM (
    SELECT payer AS account, lot, payer_side AS side, -amount AS amount FROM movement WHERE id <= ?1
    UNION ALL SELECT payee, lot, payee_side, amount FROM movement WHERE id <= ?1) AS sides
    GROUP BY account, lot, side";

fn add(balances: &mut Balances, place: (i64, i64), side: Side, amount: i128) {
    let (free, held) = balances.entry(place).or_default();
    match side {
        Side::Free => *free += amount,
        Side::Held => *held += amount,
    }
}

fn compare(seen: &Seen, expected: &Balances, live: &Live, found: &mut Findings) {
    let shown = |amount: i128| Money::clamped(amount).exact();
    let name = |account: i64| {
        seen.names
            .get(&account)
            .map_or_else(|| format!("account {account}"), |(name, ..)| name.clone())
    };
    let sum: i128 = seen.balances.values().map(|(free, held)| free + held).sum();
    if sum != 0 {
        found.problems.push(format!(
            "all accounts together have {} credits, not 0; stop what admits, remove {}, and it is made anew of the ledger",
            shown(sum),
            live.path.display()
        ));
    }
    let mut places: Vec<_> = seen.balances.keys().chain(expected.keys()).collect();
    places.sort_unstable();
    places.dedup();
    let mut differing = 0;
    for place in places {
        let has = seen.balances.get(place).copied().unwrap_or_default();
        let should = expected.get(place).copied().unwrap_or_default();
        if has != should {
            differing += 1;
            if differing <= NAMED {
                found.problems.push(format!(
                    "{} has {} free and {} held in the live state, {} and {} by the ledger (deposit {})",
                    name(place.0), shown(has.0), shown(has.1), shown(should.0), shown(should.1), place.1
                ));
            }
        }
    }
    if differing > NAMED {
        found
            .problems
            .push(format!("and {} more", differing - NAMED));
    }
    if differing > 0 {
        found.problems.push(format!(
            "the ledger is right; stop what admits, remove {}, and it is made anew of the ledger",
            live.path.display()
        ));
    }
    for (&(account, lot), (free, held)) in &seen.balances {
        let Some((name, overdraft, closed)) = seen.names.get(&account) else {
            found.problems.push(format!(
                "there is money of account {account}, which is not there; bring back the last back-up of the ledger"
            ));
            continue;
        };
        if *held < 0 {
            found
                .problems
                .push(format!("{name} has {} credits held", shown(*held)));
        }
        if account <= super::ledger::INCOME {
            continue;
        }
        let floor = match (lot, overdraft) {
            (FOR_EVER, Some(limit)) => Some(-i128::from(*limit)),
            (FOR_EVER, None) => None,
            _ => Some(0),
        };
        if floor.is_some_and(|floor| *free < floor) {
            let text = format!(
                "{name} has {} credits, less than its overdraft allows",
                shown(*free)
            );
            match lot {
                // An administrator made the overdraft smaller than what was owed.
                FOR_EVER => found
                    .notes
                    .push(format!("{text}; it can spend nothing until a deposit")),
                _ => found.problems.push(text),
            }
        }
        if *closed && (*free, *held) != (0, 0) {
            found.notes.push(format!(
                "{name} is closed and has {} credits; open it with 'libra account create {name}' and close it again",
                shown(*free + *held)
            ));
        }
    }
}

/// What SQLite itself finds wrong with a file.
fn sqlite_check(c: &Connection) -> rusqlite::Result<Vec<String>> {
    let said: Vec<String> = c
        .prepare("PRAGMA integrity_check(5)")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(said.into_iter().filter(|line| line != "ok").collect())
}
