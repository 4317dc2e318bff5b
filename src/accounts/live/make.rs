//! The live state's directory and file: whose they are, and how the file is made of the ledger.
//!
//! Each live state has a name of its own, of the ledger's identity and of how many were made of it. SQLite removes a closed
//! database's side files by their names, and a process that still has an older live state open would remove a newer one's.

use super::super::AccountsError;
use super::super::ledger::{Ledger, written};
use rusqlite::{Connection, Transaction};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
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
        .and_then(|()| {
            // SQLite gives its side files the same mode and owner.
            fs::set_permissions(&half, fs::Permissions::from_mode(0o600))
                .map_err(|error| file(&half, error))
        })
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
        connection.execute("ATTACH ?1 AS ledger", [ledger.path.to_string_lossy()])?;
        connection.busy_timeout(super::super::ledger::PATIENCE)?;
        let last = written(&ledger.connection)?;
        let transaction = connection.transaction()?;
        transaction.execute(
            "INSERT INTO meta VALUES ('identity', ?1), ('generation', ?2), ('written', ?3)",
            [identity, generation, last],
        )?;
        // SQLite keeps count of what was there once.
        transaction.execute_batch("INSERT INTO journal VALUES (1, ''); DELETE FROM journal;")?;
        copy(&transaction, last)?;
        transaction.commit()
    })()
    .map_err(store)?;
    connection.close().map_err(|(_, error)| store(error))
}

/// All of the ledger's past, added up. `?1`: the last entry that is written down, `?2`: holds of older entries that are closed are
/// not remembered.
const COPY: [&str; 8] = [
    "INSERT INTO account SELECT id, name, overdraft, closed FROM ledger.account",
    "INSERT INTO member SELECT account, user FROM ledger.member",
    "INSERT INTO lot SELECT id, begins, ends FROM ledger.lot",
    "INSERT INTO pocket SELECT account, lot, SUM(amount) FROM (
       SELECT payer AS account, lot, -amount AS amount FROM ledger.movement WHERE payer_side = 'free'
       UNION ALL SELECT payee, lot, amount FROM ledger.movement WHERE payee_side = 'free')
     GROUP BY account, lot HAVING SUM(amount) <> 0",
    "INSERT INTO hold SELECT key, lot, MIN(account), SUM(amount), MIN(at) FROM (
       SELECT hold AS key, payer AS account, lot, -amount AS amount, at FROM ledger.movement WHERE payer_side = 'held'
       UNION ALL SELECT hold, payee, lot, amount, at FROM ledger.movement WHERE payee_side = 'held')
     GROUP BY key, lot HAVING SUM(amount) <> 0",
    "INSERT INTO known SELECT DISTINCT key, 0 FROM hold",
    "INSERT OR IGNORE INTO known SELECT hold, MAX(1, MAX(at)) FROM ledger.movement WHERE id > ?1 - ?2 AND hold IS NOT NULL GROUP BY hold",
    "INSERT INTO part SELECT DISTINCT hold, part FROM ledger.movement WHERE kind <> 'hold' AND hold IN (SELECT key FROM hold)",
];

/// Entries of the ledger whose holds are remembered although they are closed: some 700,000 jobs. By number, not by time: a clock
/// may have been wrong.
const REMEMBERED: i64 = 2_000_000;

fn copy(to: &Transaction<'_>, last: i64) -> rusqlite::Result<()> {
    for statement in COPY {
        match statement.contains("?1") {
            true => to.execute(statement, [last, REMEMBERED])?,
            false => to.execute(statement, [])?,
        };
    }
    // Numbers go on where the ledger's end.
    to.execute(
        "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'journal'",
        [last],
    )?;
    Ok(())
}
