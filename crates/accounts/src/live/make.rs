//! How the live state's file is made of the ledger.
//!
//! Each live state has a name of its own, of the ledger's identity and of how many were made of it. SQLite removes a closed
//! database's side files by their names, and a process that still has an older live state open would remove a newer one's.

use super::super::AccountsError;
use super::super::crash::point;
use super::super::ledger::{Claim, FLAGS, LONG, Ledger, of_live};
use super::MOST_PAGES;
use super::lease;
use super::place::{give_to_owner, place};
use rusqlite::{Connection, Transaction};
use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const SCHEMA: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE account(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, overdraft INTEGER, closed INTEGER NOT NULL);
CREATE TABLE member(account INTEGER NOT NULL, user TEXT NOT NULL, PRIMARY KEY(account, user)) WITHOUT ROWID;
CREATE TABLE lot(id INTEGER PRIMARY KEY, begins INTEGER, ends INTEGER);
CREATE TABLE pocket(account INTEGER NOT NULL, lot INTEGER NOT NULL, free INTEGER NOT NULL, PRIMARY KEY(account, lot)) WITHOUT ROWID;
CREATE TABLE hold(key TEXT NOT NULL, lot INTEGER NOT NULL, account INTEGER NOT NULL, amount INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY(key, lot)) WITHOUT ROWID;
CREATE INDEX hold_account ON hold(account);
-- Every hold there was, and parts of it that are paid for; `at` is when it was closed, 0 while it is open.
CREATE TABLE known(key TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX known_closed ON known(at) WHERE at > 0;
CREATE TABLE part(key TEXT NOT NULL, part INTEGER NOT NULL, PRIMARY KEY(key, part)) WITHOUT ROWID;
CREATE TABLE journal(id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL);
";

/// Makes the live state of what the ledger says, and says where it is.
///
/// # Errors
/// [`AccountsError::Leased`] where another host has the lease of a database.
pub(super) fn make(
    directory: &Path,
    ledger: &Ledger,
    claim: Claim,
) -> Result<PathBuf, AccountsError> {
    let file = |path: &Path, error: std::io::Error| AccountsError::File {
        path: path.to_path_buf(),
        problem: error.to_string(),
    };
    // From now on no older live state writes anything down any more.
    let (number, _) = ledger.identity()?;
    // Not asked for afterwards: it may be another host's by then.
    let identity = (
        number,
        ledger.next_generation(&lease::holder(directory), claim)?,
    );
    point("live: after the generation");
    let half = directory.join("live.new");
    let path = place(directory, identity);
    let made = fill(&half, ledger, identity)
        .and_then(|()| {
            // SQLite gives its side files the same mode and owner.
            fs::set_permissions(&half, fs::Permissions::from_mode(0o600))
                .map_err(|error| file(&half, error))
        })
        .and_then(|()| give_to_owner(&half, &ledger.path))
        .and_then(|()| {
            point("live: before the name");
            fs::rename(&half, &path).map_err(|error| file(&half, error))?;
            point("live: after the name");
            Ok(())
        });
    if made.is_err() {
        // It may be what fills the memory.
        let _ = fs::remove_file(&half);
    }
    made.map(|()| path)
}

fn fill(
    half: &Path,
    ledger: &Ledger,
    (identity, generation): (i64, i64),
) -> Result<(), AccountsError> {
    let store = |error| AccountsError::store(half, ledger.patience(), error);
    // What a process left that was killed while it made one.
    let _ = fs::remove_file(half);
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(half);
    made.map_err(|error| AccountsError::File {
        path: half.to_path_buf(),
        problem: error.to_string(),
    })?;
    let mut connection = Connection::open_with_flags(half, FLAGS).map_err(store)?;
    let last = ledger.written()?;
    (|| {
        // Nobody knows this file yet: half made it is removed.
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "max_page_count", MOST_PAGES)?;
        connection.execute_batch(SCHEMA)?;
        ledger.attach(&connection)
    })()
    .map_err(store)?;
    let transaction = connection.transaction().map_err(store)?;
    transaction
        .execute(
            "INSERT INTO meta VALUES ('identity', ?1), ('generation', ?2), ('written', ?3)",
            [identity, generation, last],
        )
        .map_err(store)?;
    // SQLite keeps count of what was there once.
    transaction
        .execute_batch("INSERT INTO journal VALUES (1, ''); DELETE FROM journal;")
        .map_err(store)?;
    copy(&transaction, ledger, last)?;
    // Numbers go on where the ledger's end.
    transaction
        .execute(
            "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'journal'",
            [last],
        )
        .map_err(store)?;
    transaction.commit().map_err(store)?;
    connection.close().map_err(|(_, error)| store(error))
}

/// All of the ledger's past, added up: into which table, of what. `?1`: the last entry that is written down, `?2`: holds of older entries that
/// are closed are not remembered.
const COPY: [(&str, &str); 7] = [
    ("INSERT INTO account", "SELECT id, name, overdraft, closed FROM ledger.account"),
    ("INSERT INTO member", "SELECT account, \"user\" FROM ledger.member"),
    ("INSERT INTO lot", "SELECT id, begins, ends FROM ledger.lot"),
    ("INSERT INTO pocket", "SELECT account, lot, SUM(amount) FROM (
       SELECT payer AS account, lot, -amount AS amount FROM ledger.movement WHERE payer_side = 'free'
       UNION ALL SELECT payee, lot, amount FROM ledger.movement WHERE payee_side = 'free') AS sides
     GROUP BY account, lot HAVING SUM(amount) <> 0"),
    ("INSERT INTO hold", "SELECT key, lot, MIN(account), SUM(amount), MIN(at) FROM (
       SELECT hold AS key, payer AS account, lot, -amount AS amount, at FROM ledger.movement WHERE payer_side = 'held'
       UNION ALL SELECT hold, payee, lot, amount, at FROM ledger.movement WHERE payee_side = 'held') AS sides
     GROUP BY key, lot HAVING SUM(amount) <> 0"),
    // Those that are open are known as open already.
    ("INSERT OR IGNORE INTO known", "SELECT hold, CASE WHEN MAX(at) > 1 THEN MAX(at) ELSE 1 END FROM ledger.movement
     WHERE id > ?1 - ?2 AND hold IS NOT NULL GROUP BY hold"),
    ("INSERT INTO part", "SELECT DISTINCT hold, part FROM ledger.movement WHERE kind NOT IN ('hold', 'restored') AND hold IN (SELECT key FROM hold)"),
];

/// Entries of the ledger whose holds are remembered although they are closed: some 700,000 jobs. By number, not by time: a clock
/// may have been wrong.
const REMEMBERED: i64 = 2_000_000;

fn copy(to: &Transaction<'_>, ledger: &Ledger, last: i64) -> Result<(), AccountsError> {
    for (insert, select) in COPY {
        if insert.ends_with(" known") {
            to.execute("INSERT INTO known SELECT DISTINCT key, 0 FROM hold", [])
                .map_err(|error| of_live(to, ledger.patience(), error))?;
        }
        // A database does not see what is in the live state.
        let select = match ledger.location().database() {
            Some(_) => select.replace("SELECT key FROM hold", HELD),
            None => select.to_string(),
        };
        ledger.limit(Some(LONG));
        match select.contains("?1") {
            true => ledger.copy(to, insert, &select, &[last.into(), REMEMBERED.into()])?,
            false => ledger.copy(to, insert, &select, &[])?,
        };
    }
    Ok(())
}

/// Holds that are open, by the movements.
const HELD: &str = "SELECT key FROM (
    SELECT hold AS key, lot, -amount AS amount FROM ledger.movement WHERE payer_side = 'held'
    UNION ALL SELECT hold, lot, amount FROM ledger.movement WHERE payee_side = 'held') AS held
    GROUP BY key, lot HAVING SUM(amount) <> 0";
