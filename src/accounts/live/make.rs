//! The live state's directory and file: whose they are, and how the file is made of the ledger.
//!
//! Each live state has a name of its own, of the ledger's identity and of how many were made of it. SQLite removes a closed
//! database's side files by their names, and a process that still has an older live state open would remove a newer one's.

use super::super::AccountsError;
use super::super::ledger::{Ledger, written};
use rusqlite::{Connection, Transaction, params};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
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
CREATE TABLE part(key TEXT NOT NULL, part INTEGER NOT NULL, PRIMARY KEY(key, part)) WITHOUT ROWID;
CREATE TABLE journal(id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL);
";

/// The directory is made where it is not there, and has to be of the ledger's owner alone: it is where everybody may write.
pub(super) fn own_directory(directory: &Path, ledger: &Path) -> Result<(), AccountsError> {
    let file = |problem: String| AccountsError::File {
        path: directory.to_path_buf(),
        problem,
    };
    let home = ledger.parent().unwrap_or(Path::new("/"));
    let owner = match fs::metadata(ledger).or_else(|_| fs::metadata(home)) {
        Ok(found) => found.uid(),
        Err(error) => {
            return Err(AccountsError::File {
                path: ledger.to_path_buf(),
                problem: format!("{error}; make its directory with: libra account init"),
            });
        }
    };
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        // Root makes it for the one who owns the ledger.
        Ok(()) if nix::unistd::geteuid().is_root() => {
            std::os::unix::fs::lchown(directory, Some(owner), None)
                .map_err(|error| file(error.to_string()))?
        }
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(file(format!(
                "{error}; accounts.live in the configuration names it"
            )));
        }
    }
    let found = fs::symlink_metadata(directory).map_err(|error| file(error.to_string()))?;
    if !found.is_dir() || found.uid() != owner || found.mode() & 0o022 != 0 {
        return Err(file(format!(
            "expected a directory of user {owner}, who owns the ledger, that nobody else can write to; remove it"
        )));
    }
    Ok(())
}

/// What root makes is for the one who owns the ledger.
pub(super) fn give_to_owner(path: &Path, ledger: &Path) -> Result<(), AccountsError> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let owner =
        fs::metadata(ledger).or_else(|_| fs::metadata(ledger.parent().unwrap_or(Path::new("/"))));
    owner
        .and_then(|found| std::os::unix::fs::lchown(path, Some(found.uid()), None))
        .map_err(|error| AccountsError::File {
            path: path.to_path_buf(),
            problem: error.to_string(),
        })
}

/// Where the live state of this ledger is.
pub(super) fn place(directory: &Path, (identity, generation): (i64, i64)) -> PathBuf {
    directory.join(format!("live-{identity:x}-{generation}.sqlite"))
}

/// Makes the live state of what the ledger says, and says where it is.
pub(super) fn make(directory: &Path, ledger: &Ledger) -> Result<PathBuf, AccountsError> {
    let file = |path: &Path, error: std::io::Error| AccountsError::File {
        path: path.to_path_buf(),
        problem: error.to_string(),
    };
    let entries = fs::read_dir(directory).map_err(|error| file(directory, error))?;
    for entry in entries.flatten().map(|entry| entry.path()) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("live") {
            fs::remove_file(&entry).map_err(|error| file(&entry, error))?;
        }
    }
    // From now on no older live state writes anything down any more.
    ledger.try_(|c| {
        c.execute(
            "UPDATE meta SET value = value + 1 WHERE key = 'generation'",
            [],
        )
    })?;
    let identity = ledger.identity()?;
    let half = directory.join("live.new");
    let path = place(directory, identity);
    let made = fill(&half, ledger, identity)
        .and_then(|()| give_to_owner(&half, &ledger.path))
        .and_then(|()| fs::rename(&half, &path).map_err(|error| file(&half, error)));
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
    let store = |error| AccountsError::Store {
        path: half.to_path_buf(),
        error,
    };
    let mut connection = Connection::open(half).map_err(store)?;
    (|| {
        // Nobody knows this file yet: half made it is removed.
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.execute_batch(SCHEMA)?;
        let transaction = connection.transaction()?;
        transaction.execute(
            "INSERT INTO meta VALUES ('identity', ?1), ('generation', ?2), ('written', ?3)",
            [identity, generation, written(&ledger.connection)?],
        )?;
        // SQLite keeps count of what was there once.
        transaction.execute_batch("INSERT INTO journal VALUES (1, ''); DELETE FROM journal;")?;
        copy(&transaction, &ledger.connection)?;
        transaction.commit()
    })()
    .map_err(store)?;
    connection.close().map_err(|(_, error)| store(error))
}

fn copy(to: &Transaction<'_>, from: &Connection) -> rusqlite::Result<()> {
    let mut accounts = from.prepare("SELECT id, name, overdraft, closed FROM account")?;
    let mut rows = accounts.query([])?;
    while let Some(row) = rows.next()? {
        to.execute(
            "INSERT INTO account VALUES (?1, ?2, ?3, ?4)",
            params![
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, Option<i64>>(2)?,
                row.get::<_, bool>(3)?
            ],
        )?;
    }
    let mut members = from.prepare("SELECT account, user FROM member")?;
    let mut rows = members.query([])?;
    while let Some(row) = rows.next()? {
        to.execute(
            "INSERT INTO member VALUES (?1, ?2)",
            params![row.get::<_, i64>(0)?, row.get::<_, String>(1)?],
        )?;
    }
    let mut lots = from.prepare("SELECT id, begins, ends FROM lot")?;
    let mut rows = lots.query([])?;
    while let Some(row) = rows.next()? {
        to.execute(
            "INSERT INTO lot VALUES (?1, ?2, ?3)",
            params![
                row.get::<_, i64>(0)?,
                row.get::<_, Option<i64>>(1)?,
                row.get::<_, Option<i64>>(2)?
            ],
        )?;
    }
    let mut put_known =
        to.prepare("INSERT INTO known VALUES (?1, 1) ON CONFLICT DO UPDATE SET at = max(at, ?2)")?;
    let mut put_part = to.prepare("INSERT OR IGNORE INTO part VALUES (?1, ?2)")?;
    let mut put_pocket = to.prepare(
        "INSERT INTO pocket VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET free = free + ?3",
    )?;
    let mut put_hold = to.prepare("INSERT INTO hold VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET amount = amount + ?4")?;
    let mut movements = from.prepare("SELECT at, payer, payer_side, payee, payee_side, lot, amount, hold, part, kind FROM movement ORDER BY id")?;
    let mut rows = movements.query([])?;
    while let Some(row) = rows.next()? {
        let (at, lot, amount): (i64, i64, i64) = (row.get(0)?, row.get(5)?, row.get(6)?);
        let key: Option<String> = row.get(7)?;
        if let Some(key) = &key {
            put_known.execute(params![key, at])?;
            if row.get_ref(9)?.as_str()? != "hold" {
                put_part.execute(params![key, row.get::<_, u32>(8)?])?;
            }
        }
        for (whose, side, change) in [(1, 2, -amount), (3, 4, amount)] {
            let account: i64 = row.get(whose)?;
            match row.get_ref(side)?.as_str()? {
                "held" => put_hold.execute(params![key, lot, account, change, at])?,
                _ => put_pocket.execute(params![account, lot, change])?,
            };
        }
    }
    to.execute_batch(
        "DELETE FROM hold WHERE amount = 0;
         UPDATE known SET at = 0 WHERE key IN (SELECT key FROM hold);
         DELETE FROM part WHERE key NOT IN (SELECT key FROM hold);",
    )?;
    // Numbers go on where the ledger's end.
    let last = written(from)?;
    to.execute(
        "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'journal'",
        [last],
    )?;
    Ok(())
}
