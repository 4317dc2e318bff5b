//! A copy of the ledger is brought back.
//!
//! Each step leaves what the same command, given again, goes on from: a ledger that is not there or older than the live state is refused
//! by everybody, and the live state is changed last.
//!
//! Invariants:
//! - A live state of the same ledger stays, and what only it knows is brought in ([`Live::bring_in`]).
//! - What was there is moved aside, not removed.

use super::AccountsError;
use super::crash::point;
use super::flush::flush;
use super::identity::{self, Identity, day};
use super::ledger::{Ledger, PATIENCE, only_for_owner, sync_directory, with};
use super::live::place::{self, Found};
use super::live::{Act, Brought, Live};
use super::lock;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What was brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Which ledger.
    pub identity: Identity,
    /// When the copy was made, Unix milliseconds, where it says so.
    pub copied: Option<i64>,
    /// Its last movement, Unix milliseconds.
    pub newest: Option<i64>,
    /// Where what was there is now.
    pub aside: Vec<PathBuf>,
    /// What the live state knew beside it; None if there was no live state.
    pub brought: Option<Brought>,
}

impl Restored {
    /// In words, a line each.
    pub fn lines(&self, ledger: &Path) -> Vec<String> {
        let copied = self
            .copied
            .map_or_else(String::new, |at| format!(", copied {}", day(at)));
        let mut lines = vec![format!(
            "{} is ledger {} again{copied}",
            ledger.display(),
            self.identity
        )];
        let newest = self.newest.map_or_else(
            || "its beginning (it has no movements)".to_string(),
            |at| format!("its last movement, {}", day(at)),
        );
        match &self.brought {
            None => lines.push(format!(
                "what happened after {newest} is not in it, and there is no live state that knows it; jobs that the batch system has get their \
                 holds again"
            )),
            Some(brought) if brought.summed == 0 => lines.push(
                "nothing that was written down is missing in it".to_string(),
            ),
            Some(brought) => lines.push(format!(
                "not in it: the {} entries from number {} on, written down after {newest}; accounts have what they had by the live state: {} \
                 movements 'restored' and {} changes of accounts bring that in; which job or person it was is not known any more",
                brought.summed, brought.first, brought.movements, brought.changes
            )),
        }
        if let Some(brought) = self.brought.filter(|brought| brought.waiting > 0) {
            lines.push(format!(
                "{} entries that waited in the live state are written down",
                brought.waiting
            ));
        }
        for aside in &self.aside {
            lines.push(format!("what was there is now {}", aside.display()));
        }
        lines
    }
}

/// Lays the copy down beside the ledger, readable for its owner. Whoever can read the copy does this, the owner the rest.
///
/// # Errors
/// When it cannot be read or written.
pub fn stage(file: &Path, ledger: &Path) -> Result<PathBuf, AccountsError> {
    let failed = |path: &Path, error: std::io::Error| AccountsError::File {
        path: path.to_path_buf(),
        problem: error.to_string(),
    };
    let staged = with(ledger, ".restoring");
    place::remove(&staged);
    // A copy made by other means may have a log beside it.
    for more in ["", "-wal"] {
        let from = with(file, more);
        let mut source = match fs::File::open(&from) {
            Ok(source) => source,
            Err(error) if more == "-wal" && error.kind() == std::io::ErrorKind::NotFound => {
                continue;
            }
            Err(error) => return Err(failed(&from, error)),
        };
        let to = with(&staged, more);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = options.open(&to).and_then(|mut target| {
            std::io::copy(&mut source, &mut target)?;
            target.sync_all()?;
            only_for_owner(&to)
        });
        written.map_err(|error| failed(&to, error))?;
    }
    Ok(staged)
}

/// Puts what was laid down into the ledger's place. `replace`: though it is a copy of another ledger, or the ledger is there and sound.
///
/// # Errors
/// When it is damaged, or of another ledger, or the ledger is there; nothing is changed then. Otherwise see the module.
pub fn install(
    staged: &Path,
    (directory, ledger): (&Path, &Path),
    replace: bool,
    act: Act<'_>,
) -> Result<Restored, AccountsError> {
    let directory = &place::own_directory(directory, ledger)?;
    let _lock = lock::take(&directory.join(place::LOCK), PATIENCE)?;
    place::give_to_owner(&directory.join(place::LOCK), ledger)?;
    let copy = Ledger::open_any(&staged.into(), PATIENCE)?;
    let found = place::all(directory)?;
    let restored = inspect(&copy, ledger, &found, replace)?;
    let (ours, others): (Vec<Found>, Vec<Found>) =
        (found.into_iter()).partition(|found| found.identity == restored.identity.number);
    if let (Some(other), false) = (others.first(), replace) {
        return Err(another(
            staged,
            &restored,
            &format!("the live state {}", other.path.display()),
        ));
    }
    let (_, generation) = copy.identity()?;
    let live = ours.last().filter(|found| found.generation >= generation);
    if let Some(live) = live {
        // It goes on with this ledger.
        copy.set_generation(live.generation)?;
    }
    // One file, without a log beside it.
    copy.try_(|c| c.pragma_update(None, "journal_mode", "DELETE"))?;
    drop(copy);
    let mut restored = Restored {
        aside: put(staged, ledger, act.at)?,
        ..restored
    };
    for other in &others {
        restored.aside.push(lay_aside(other, ledger, act.at)?);
    }
    let history = Ledger::open_any(&ledger.into(), PATIENCE)?;
    if let Some(found) = live {
        let mut live = Live::connect(&found.path, &ledger.into(), PATIENCE)?;
        restored.brought = Some(live.bring_in(&history, act)?);
        point("restore: before it is written down");
        flush(&live, &history)?;
    }
    Ok(restored)
}

fn another(staged: &Path, restored: &Restored, than: &str) -> AccountsError {
    AccountsError::File {
        path: staged.to_path_buf(),
        problem: format!(
            "is a copy of another ledger ({}) than {than}; to go on with it nevertheless, and lay the other aside: libra account restore --replace",
            restored.identity
        ),
    }
}

/// Tells whether it is a sound copy of this host's ledger, and the ledger is gone.
fn inspect(
    copy: &Ledger,
    ledger: &Path,
    found: &[Found],
    replace: bool,
) -> Result<Restored, AccountsError> {
    let damaged = copy.damage(3)?;
    if !damaged.is_empty() {
        return Err(AccountsError::File {
            path: copy.path.clone(),
            problem: format!(
                "the copy is damaged ({}); take another one",
                damaged.join("; ")
            ),
        });
    }
    let restored = Restored {
        identity: copy.which()?,
        copied: copy.copied()?,
        newest: copy.newest()?,
        aside: Vec::new(),
        brought: None,
    };
    if replace {
        return Ok(restored);
    }
    if let Some(own) = identity::noted(ledger)?.filter(|own| own.number != restored.identity.number)
    {
        return Err(another(
            &copy.path,
            &restored,
            &format!("this host's ({own})"),
        ));
    }
    // A ledger that is older than the live state is not sound: it may be the copy, where this was not done to the end.
    let known = |found: &Found| {
        let live = Live::connect(&found.path, &ledger.into(), PATIENCE)?;
        live.written()
    };
    let (number, generation) = copy.identity()?;
    let latest = (found.iter().rfind(|found| found.identity == number))
        .filter(|found| found.generation >= generation);
    let known = latest.map_or(Ok(0), known)?;
    let written = Ledger::open(ledger).and_then(|there| there.written());
    if written.is_ok_and(|written| {
        written >= known && copy.written().is_ok_and(|copied| copied <= written)
    }) {
        return Err(AccountsError::File {
            path: ledger.to_path_buf(),
            problem:
                "is there, and has all that the copy has: nothing to bring back; where it is known to be wrong: libra account restore --replace"
                    .to_string(),
        });
    }
    Ok(restored)
}

/// Moves what is there aside and the copy into its place. Returns where that is.
fn put(staged: &Path, ledger: &Path, at: i64) -> Result<Vec<PathBuf>, AccountsError> {
    let failed = |path: &Path, error: std::io::Error| AccountsError::File {
        path: path.to_path_buf(),
        problem: error.to_string(),
    };
    let aside = with(ledger, &format!(".before-{}", at / 1000));
    let mut moved = Vec::new();
    point("restore: before the old one goes");
    // The log first: without it the rest would look like an older ledger, and would still be refused.
    for more in ["-wal", ""] {
        let (from, to) = (with(ledger, more), with(&aside, more));
        match fs::rename(&from, &to) {
            Ok(()) => moved.push(to),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&from, error)),
        }
        point("restore: between the old one's files");
    }
    let _ = fs::remove_file(with(ledger, "-shm"));
    point("restore: before the name");
    fs::rename(staged, ledger).map_err(|error| failed(ledger, error))?;
    sync_directory(ledger).map_err(|error| failed(ledger, error))?;
    point("restore: after the name");
    moved.reverse();
    Ok(moved)
}

/// Another ledger's live state goes to a disk.
fn lay_aside(found: &Found, ledger: &Path, at: i64) -> Result<PathBuf, AccountsError> {
    let to = with(
        ledger,
        &format!(".live-before-{}-{:x}", at / 1000, found.identity),
    );
    let live = Live::connect(&found.path, &ledger.into(), PATIENCE)?;
    let store = |error| AccountsError::store(&found.path, PATIENCE, error);
    (live.connection)
        .execute("VACUUM INTO ?1", [to.to_string_lossy()])
        .map_err(store)?;
    drop(live);
    only_for_owner(&to).map_err(|error| AccountsError::File {
        path: to.clone(),
        problem: error.to_string(),
    })?;
    place::remove(&found.path);
    Ok(to)
}

/// Removes what was laid down and not taken.
pub fn discard(staged: &Path) {
    place::remove(staged);
}
