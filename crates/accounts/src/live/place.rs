//! The live state's directory: whose it is, and which live states are in it.
//!
//! Invariants:
//! - Directory and files belong to the ledger's owner, who admits, and nobody else can write to them: who can, makes money.
//! - A live state that is not all in the ledger is removed in one case: another one was made of a ledger in a database since, by another host, and what
//!   is not in it is about jobs alone. What the batch system still has of those is held anew ([`crate::payments`]), as after a power failure. What
//!   a person did is nobody's to find again: it is kept until an administrator has seen it.

use super::super::flush::flush;
use super::super::ledger::{Ledger, only_for_owner, with};
use super::super::movement::{Event, Kind};
use super::super::{AccountsError, unix_millis};
use super::Live;
use libra_config::LIVE_DIRECTORY;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where it was before: everybody can make directories there, and fill it.
const BEFORE: &str = "/dev/shm/libra-accounts";

/// The lock of whoever makes a live state, or restores a ledger.
pub(in super::super) const LOCK: &str = "lock";

/// Where an earlier version's live state may be, beside this directory.
pub(super) fn before(directory: &Path) -> Option<&'static Path> {
    (directory == Path::new(LIVE_DIRECTORY)).then_some(Path::new(BEFORE))
}

/// User number of the ledger's owner.
fn owner(ledger: &Path) -> Result<u32, AccountsError> {
    let home = ledger.parent().unwrap_or(Path::new("/"));
    match fs::metadata(ledger).or_else(|_| fs::metadata(home)) {
        Ok(found) => Ok(found.uid()),
        Err(error) => Err(AccountsError::Ledger {
            path: ledger.to_path_buf(),
            problem: error.to_string(),
        }),
    }
}

/// The directory is made where it is not there, and has to be of the ledger's owner alone. Returns it without links.
pub(in super::super) fn own_directory(
    directory: &Path,
    ledger: &Path,
) -> Result<PathBuf, AccountsError> {
    let file = |problem: String| AccountsError::File {
        path: directory.to_path_buf(),
        problem,
    };
    let owner = owner(ledger)?;
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        // Root makes it for the one who owns the ledger.
        Ok(()) if nix::unistd::geteuid().is_root() => {
            std::os::unix::fs::lchown(directory, Some(owner), None)
                .map_err(|error| file(error.to_string()))?
        }
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(file(format!(
                "cannot be made by this user ({error}); root makes it, now and at each boot, with: libra account init"
            )));
        }
        Err(error) => {
            return Err(file(format!(
                "{error}; accounts.live in the configuration names it"
            )));
        }
    }
    let found = fs::symlink_metadata(directory).map_err(|error| file(error.to_string()))?;
    if !found.is_dir() || found.uid() != owner || found.mode() & 0o022 != 0 {
        let what = match found.is_dir() {
            true => format!(
                "belongs to user {} with mode {:o}",
                found.uid(),
                found.mode() & 0o7777
            ),
            false => "is not a directory".to_string(),
        };
        return Err(file(format!(
            "{what}; expected a directory of user {owner}, who owns the ledger, that nobody else can write to: stop what admits, remove \
             it, then: libra account init. Where everybody can make files, name another place with accounts.live in the configuration"
        )));
    }
    fs::canonicalize(directory).map_err(|error| file(error.to_string()))
}

/// Makes the directory of the live state, for the ledger's owner, where it is not there: for root, before it becomes the owner.
///
/// # Errors
/// When it cannot be made, or is somebody else's.
pub fn make_directory(directory: &Path, ledger: &Path) -> Result<(), AccountsError> {
    own_directory(directory, ledger).map(|_| ())
}

/// Live states that are there, and how much of each is in no ledger yet: for people, when the ledger is lost.
pub fn surviving(directory: &Path, ledger: &Path) -> Vec<(PathBuf, usize)> {
    let found = all(directory).unwrap_or_default().into_iter();
    let waiting = |found: Found| {
        let live = Live::connect(&found.path, &ledger.into(), Duration::from_secs(1)).ok()?;
        Some((found.path, live.journal(0, usize::MAX).ok()?.len()))
    };
    found.filter_map(waiting).collect()
}

/// A file of the live state has to be the owner's alone as well.
pub(super) fn own_file(path: &Path, ledger: &Path) -> Result<(), AccountsError> {
    let owner = owner(ledger)?;
    let file = |problem: String| AccountsError::File {
        path: path.to_path_buf(),
        problem,
    };
    let found = fs::symlink_metadata(path).map_err(|error| file(error.to_string()))?;
    if !found.is_file() || found.uid() != owner || found.mode() & 0o022 != 0 {
        return Err(file(format!(
            "belongs to user {} with mode {:o}; expected a file of user {owner}, who owns the ledger, that nobody else can write to",
            found.uid(),
            found.mode() & 0o7777
        )));
    }
    Ok(())
}

/// What root makes is for the one who owns the ledger.
pub(in super::super) fn give_to_owner(path: &Path, ledger: &Path) -> Result<(), AccountsError> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    std::os::unix::fs::lchown(path, Some(owner(ledger)?), None).map_err(|error| {
        AccountsError::File {
            path: path.to_path_buf(),
            problem: error.to_string(),
        }
    })
}

/// Where the live state of this ledger is.
pub(super) fn place(directory: &Path, (identity, generation): (i64, i64)) -> PathBuf {
    directory.join(format!("live-{identity:x}-{generation}.sqlite"))
}

/// A live state that is there: of which ledger, how many had been made of it, where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Found {
    pub identity: i64,
    pub generation: i64,
    pub path: PathBuf,
}

/// All live states that are there, by their names.
pub(in super::super) fn all(directory: &Path) -> Result<Vec<Found>, AccountsError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(AccountsError::File {
                path: directory.to_path_buf(),
                problem: error.to_string(),
            });
        }
    };
    let read = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("live-")?;
        let (identity, generation) = name.strip_suffix(".sqlite")?.split_once('-')?;
        Some(Found {
            // Numbers of older ledgers may be negative.
            identity: u64::from_str_radix(identity, 16).ok()? as i64,
            generation: generation.parse().ok()?,
            path,
        })
    };
    let mut found: Vec<Found> = (entries.flatten())
        .filter_map(|entry| read(entry.path()))
        .collect();
    found.sort_by_key(|found| (found.identity, found.generation));
    Ok(found)
}

/// The live state that belongs to a ledger, if it is there.
pub(super) enum Present {
    /// This one.
    This(PathBuf),
    /// None. `over`: older ones that are of no use any more.
    None { over: Vec<Over> },
}

/// A live state that another one was made after.
pub(super) struct Over {
    path: PathBuf,
    generation: i64,
    /// Entries about jobs that were never written down.
    given_up: usize,
}

impl Over {
    /// When there is another one. What is given up is kept on the ledger's disk, for who wants to know of it: after a long time without a database
    /// there may be many charges in it.
    pub(super) fn remove(self, history: &Ledger) {
        if self.given_up > 0 {
            let name = format!(".given-up-{}-{}", self.generation, unix_millis() / 1000);
            let kept = with(&history.path, &name);
            if let Err(error) = self.keep(history, &kept) {
                // Half of it, as its disk is full.
                let _ = fs::remove_file(&kept);
                log::error!(
                    "accounts: {} stays where it is, as it cannot be kept elsewhere: {error}",
                    self.path.display()
                );
                return;
            }
            log::warn!(
                "accounts: {} entries about jobs were not written down here before another host took over, and are given up: what is held for \
                 jobs that are still there is held anew, and jobs whose ends were among them are not charged; they are in the table journal of {}",
                self.given_up,
                kept.display()
            );
        }
        remove(&self.path);
    }

    fn keep(&self, history: &Ledger, to: &Path) -> Result<(), AccountsError> {
        let old = Live::connect(&self.path, history.location(), history.patience())?;
        (old.connection)
            .execute("VACUUM INTO ?1", [to.to_string_lossy()])
            .map_err(|error| AccountsError::store(&self.path, history.patience(), error))?;
        only_for_owner(to).map_err(|error| AccountsError::File {
            path: to.to_path_buf(),
            problem: error.to_string(),
        })
    }
}

/// Looks for the live state of this ledger.
///
/// # Errors
/// Where there is one of another ledger, of a later state of this one, or one that is not all in the ledger.
pub(super) fn present(directory: &Path, history: &Ledger) -> Result<Present, AccountsError> {
    let (identity, generation) = history.identity()?;
    let found = all(directory)?;
    let this =
        (found.iter()).find(|found| (found.identity, found.generation) == (identity, generation));
    if let Some(this) = this {
        return Ok(Present::This(this.path.clone()));
    }
    let lost = |problem: String| history.lost(problem);
    let mut over = Vec::new();
    for found in found {
        let path = found.path.display();
        if found.identity != identity {
            return Err(lost(format!(
                "is another ledger ({}) than that of the live state {path}",
                history.which()?
            )));
        }
        if found.generation > generation {
            return Err(lost(format!(
                "is older than the live state {path} (an old copy?)"
            )));
        }
        own_file(&found.path, &history.path)?;
        let old = Live::connect(&found.path, history.location(), history.patience())?;
        let in_database = history.location().database().is_some();
        if in_database {
            old.end()?;
        }
        let (known, written) = (old.written()?, history.written()?);
        if known > written {
            return Err(old.older(written, known));
        }
        let given_up = not_written_down(&old, history, in_database)?;
        over.push(Over {
            path: found.path,
            generation: found.generation,
            given_up,
        });
    }
    Ok(Present::None { over })
}

/// How many entries of a live state that another one was made after were never written down. `may_give_up`: those about jobs may be given up.
///
/// # Errors
/// Where some of them may not be.
fn not_written_down(
    old: &Live,
    history: &Ledger,
    may_give_up: bool,
) -> Result<usize, AccountsError> {
    let waiting = old.journal(0, usize::MAX)?;
    let mut of_people = Vec::new();
    let is_kept = |event: &Event| !may_give_up || is_of_people(event);
    for (id, event) in waiting.iter().filter(|(_, event)| is_kept(event)) {
        // One that was killed may have written them down, and not have forgotten them.
        if !history.has(*id, event)? {
            of_people.push(serde_json::to_string(event).unwrap_or_default());
        }
    }
    let Some(first) = of_people.first() else {
        return Ok(waiting.len());
    };
    let problem = match may_give_up {
        true => format!(
            "has {} entries that are not in the ledger, of which another live state was made since (from elsewhere?), and {} of them are no \
             job's, the first: {first}. Stop what admits, see them all with: sqlite3 FILE 'SELECT event FROM journal', remove the file, start, and do again by 'libra \
             account' what is still wanted",
            waiting.len(),
            of_people.len()
        ),
        false => format!(
            "has {} entries that are not in the ledger, of which another live state was made since (from elsewhere?), the first: {first}; to \
             give them up, stop what admits and remove the file",
            of_people.len()
        ),
    };
    Err(AccountsError::File {
        path: old.path.clone(),
        problem,
    })
}

/// Returns true if nobody does it again by itself: jobs bring back their holds, and what has expired is found again.
fn is_of_people(event: &Event) -> bool {
    match event {
        Event::Account { .. } | Event::Member { .. } => true,
        // A deposit's validity means nothing without the deposit.
        Event::Lot { .. } | Event::Job { .. } => false,
        Event::Movement(movement) => match movement.kind {
            Kind::Deposit | Kind::Transfer | Kind::Closing | Kind::Restored => true,
            Kind::Hold
            | Kind::Charge
            | Kind::Overrun
            | Kind::Release
            | Kind::Compensation
            | Kind::Expiry => false,
        },
    }
}

/// What an earlier version's live state has and the ledger has not is written down, and the live state removed: it is made anew in its
/// new place. Nothing happens where there is none, or somebody else's.
pub(super) fn write_down_old(
    old: &Path,
    history: &Ledger,
    patience: Duration,
) -> Result<(), AccountsError> {
    let owner = owner(&history.path)?;
    match fs::symlink_metadata(old) {
        Ok(found) if found.is_dir() && found.uid() == owner && found.mode() & 0o022 == 0 => {}
        _ => return Ok(()),
    }
    let this = history.identity()?;
    let Some(found) = all(old)?
        .into_iter()
        .find(|found| (found.identity, found.generation) == this)
    else {
        return Ok(());
    };
    own_file(&found.path, &history.path)?;
    let live = Live::connect(&found.path, history.location(), patience)?;
    flush(&live, history)?;
    drop(live);
    remove(&found.path);
    let _ = fs::remove_file(old.join(LOCK));
    let _ = fs::remove_dir(old);
    log::info!(
        "accounts: the live state of {} was written down and is made anew in its new place",
        old.display()
    );
    Ok(())
}

/// Removes a live state with its side files.
pub(in super::super) fn remove(path: &Path) {
    for more in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(with(path, more));
    }
}
