//! The registry: one small file per job, written whole or not at all, and one lock.
//!
//! Invariants:
//! - Who decides (reads all jobs and adds one) holds the lock; so no two decisions see the same room.
//! - A file is replaced by rename, so a reader never sees half of one, and readers need no lock. All
//!   writing is done under the lock.
//! - Only its owner can write to it or open its locks; a registry that others can write to is refused.
//! - Files of live jobs are in one directory, those of ended ones in another ([`super::ended`]); what only the owner may see of
//!   a job is in a third ([`arguments`]).
//! - A file that cannot be read is reported and left alone: it may be of a newer Libra.

mod arguments;
mod lock;

use super::entry::{Entry, Phase, Process, VERSION};
use lock::LONGEST;
pub use lock::Lock;
pub(crate) use lock::{HURRY, Limit};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const LEADER: &str = "leader";
const DEPUTY: &str = "deputy";
/// How the names of files end that are being written; a process number follows.
const TEMPORARY: &str = "tmp-";
const NEXT_ID: &str = "next-id";
const JOBS: &str = "jobs";
const SUFFIX: &str = ".json";
/// A job's file is a few hundred bytes; more is not ours.
const LARGEST_FILE: u64 = 1 << 20;

/// The registry of a host.
#[derive(Debug, Clone)]
pub struct Registry {
    directory: PathBuf,
    /// How long somebody can wait for the lock's holder; none: for each lock anew.
    pub(super) limit: Option<Limit>,
}

/// Held by the one process that runs the control loop of this registry.
#[derive(Debug)]
pub struct Leadership {
    _file: Flock<File>,
    stands_in: bool,
}

/// What went wrong with the registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A file operation.
    #[error("cannot {action} {path}: {error}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The lock was not to be had.
    #[error(
        "{path} has been locked for more than {seconds} s by one and the same process; a libra that hangs holds it ('fuser {path}' names it)"
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long this process could wait, in seconds.
        seconds: u64,
    },
    /// So many wanted the lock that this one never had its turn.
    #[error("{path}: others had the lock for {} s; too many jobs at once, try again later", LONGEST.as_secs())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// A file that is not a job.
    #[error("{path} is not a job of this version of libra: {problem}; it was left alone")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Somebody else may write into the registry.
    #[error(
        "{path} belongs to user {owner} with mode {mode:o}: others could write jobs into it, so nothing in it is believed; it must belong to this user or root and be writable by its owner alone ('chown root {path}; chmod 755 {path}')"
    )]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
    /// No directory to use.
    #[error(
        "no directory for the registry: XDG_RUNTIME_DIR is not set and this is not root; set registry.directory in the configuration"
    )]
    Nowhere,
}

pub(super) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> RegistryError + 'a {
    move |error| RegistryError::File {
        action,
        path: path.to_path_buf(),
        error,
    }
}

/// Inode and time of a file: another one after each [`Registry::write`].
pub(super) type Stamp = (u64, i64, i64);

fn remove_file(path: &Path) -> Result<(), RegistryError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

impl Registry {
    /// Where the registry is by default: /run/libra for root, $XDG_RUNTIME_DIR/libra for others.
    ///
    /// # Errors
    /// When neither is to be had.
    pub fn default_directory() -> Result<PathBuf, RegistryError> {
        if nix::unistd::geteuid().is_root() {
            return Ok(PathBuf::from("/run/libra"));
        }
        std::env::var_os("XDG_RUNTIME_DIR")
            .filter(|directory| !directory.is_empty())
            .map(|directory| Path::new(&directory).join("libra"))
            .ok_or(RegistryError::Nowhere)
    }

    /// The registry in this directory, which need not be there yet.
    ///
    /// # Errors
    /// When it is there and others may write to it: what they write must not be believed.
    pub fn open(directory: &Path) -> Result<Registry, RegistryError> {
        let registry = Registry {
            directory: directory.to_path_buf(),
            limit: None,
        };
        for path in [registry.directory.clone(), registry.jobs()] {
            match fs::metadata(&path) {
                Ok(metadata) if !metadata.is_dir() => {
                    return Err(failed("use", &path)(io::ErrorKind::NotADirectory.into()));
                }
                Ok(metadata) => {
                    let own = nix::unistd::geteuid().as_raw();
                    let trusted = metadata.uid() == own || metadata.uid() == 0;
                    if !trusted || metadata.mode() & 0o022 != 0 {
                        return Err(RegistryError::Untrusted {
                            path,
                            owner: metadata.uid(),
                            mode: metadata.mode() & 0o7777,
                        });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("look at", &path)(error)),
            }
        }
        Ok(registry)
    }

    fn jobs(&self) -> PathBuf {
        self.directory.join(JOBS)
    }

    /// Makes the directories where they are missing.
    fn make(&self) -> Result<(), RegistryError> {
        self.make_directory(&self.jobs())
    }

    pub(super) fn make_directory(&self, directory: &Path) -> Result<(), RegistryError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)
            .map_err(failed("make", directory))
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens a lock for this user alone: whoever can open it can hold it for ever.
    pub(super) fn lock_file(&self, name: &str) -> Result<(PathBuf, File), RegistryError> {
        self.make()?;
        let path = self.directory.join(name);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(failed("open", &path))?;
        Ok((path, file))
    }

    /// Becomes the one that runs the control loop, unless somebody else is. Somebody who has been
    /// stopped (SIGSTOP, Ctrl-Z) does not: another one stands in for it.
    ///
    /// # Errors
    /// When the file cannot be opened or locked at all.
    pub fn try_lead(&self) -> Result<Option<Leadership>, RegistryError> {
        match self.try_hold(LEADER)? {
            Some(file) => {
                let own = std::process::id().to_string();
                // Only helps others to see whether we were stopped.
                let _ = file
                    .set_len(0)
                    .and_then(|()| file.write_all_at(own.as_bytes(), 0));
                Ok(Some(Leadership {
                    _file: file,
                    stands_in: false,
                }))
            }
            None if self.leader_is_stopped() => {
                let held = self.try_hold(DEPUTY)?;
                Ok(held.map(|file| Leadership {
                    _file: file,
                    stands_in: true,
                }))
            }
            None => Ok(None),
        }
    }

    fn try_hold(&self, name: &str) -> Result<Option<Flock<File>>, RegistryError> {
        let (path, file) = self.lock_file(name)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(file)),
            Err((_, Errno::EWOULDBLOCK | Errno::EINTR)) => Ok(None),
            Err((_, errno)) => Err(failed("lock", &path)(errno.into())),
        }
    }

    fn leader_is_stopped(&self) -> bool {
        fs::read_to_string(self.directory.join(LEADER))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .and_then(Process::find)
            .is_some_and(|leader| leader.is_stopped())
    }

    /// Returns true if this leadership still stands. One who stands in steps back when the leader goes on.
    pub fn still_leads(&self, leadership: &Leadership) -> bool {
        !leadership.stands_in || self.leader_is_stopped()
    }

    /// Removes what a process that was killed while it wrote has left. All writes are under the lock.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn sweep(&self, _lock: &Lock) -> Result<(), RegistryError> {
        let commands = self.directory.join(arguments::COMMANDS);
        for directory in [self.directory.clone(), self.jobs(), commands] {
            let files = match fs::read_dir(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(failed("read", &directory))?,
            };
            for file in files {
                let path = file.map_err(failed("read", &directory))?.path();
                let left = path
                    .extension()
                    .is_some_and(|end| end.as_encoded_bytes().starts_with(TEMPORARY.as_bytes()));
                if left {
                    fs::remove_file(&path).map_err(failed("remove", &path))?;
                }
            }
        }
        Ok(())
    }

    /// A number that no job of this registry has had.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn next_id(&self, _lock: &Lock) -> Result<u64, RegistryError> {
        let path = self.directory.join(NEXT_ID);
        let written = fs::read_to_string(&path)
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
            .unwrap_or(1);
        // Should the counter be lost, the files that are there still say what is taken.
        let mut id = written;
        let is_taken = |id: u64| {
            let name = Registry::file_name(&id.to_string());
            self.jobs().join(&name).exists() || self.ended_directory().join(&name).exists()
        };
        while is_taken(id) {
            id += 1;
        }
        self.replace(&path, format!("{}\n", id + 1).as_bytes())?;
        Ok(id)
    }

    /// Writes a job's file.
    ///
    /// # Errors
    /// When it cannot be written; the old one is as it was then.
    pub fn write(&self, entry: &Entry) -> Result<(), RegistryError> {
        let path = self.path(&entry.id);
        self.keep_command(&entry.id, &entry.command)?;
        let mut public = entry.clone();
        public.command = arguments::program(&entry.command);
        let mut text = serde_json::to_vec(&public).map_err(|error| RegistryError::Content {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        text.push(b'\n');
        if text.len() as u64 > LARGEST_FILE {
            // Written, it could not be read again, and its share would be forgotten.
            return Err(RegistryError::Content {
                path,
                problem: format!("it would have {} bytes", text.len()),
            });
        }
        self.replace(&path, &text)?;
        match entry.phase {
            Phase::Ended => self.put_aside(&entry.id),
            // A batch system may give the id of one that has ended again.
            _ => remove_file(&self.ended_directory().join(Registry::file_name(&entry.id))),
        }
    }

    /// Removes a job's file; fine where there is none.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(&self, id: &str) -> Result<(), RegistryError> {
        remove_file(&self.path(id))?;
        self.remove_ended(id)
    }

    pub(super) fn remove_ended(&self, id: &str) -> Result<(), RegistryError> {
        self.drop_command(id);
        remove_file(&self.ended_directory().join(Registry::file_name(id)))
    }

    /// Reads one job, live or ended; None if there is no such file. Its command line is the program alone.
    ///
    /// # Errors
    /// When the file cannot be read or is not a job.
    pub fn read(&self, id: &str) -> Result<Option<Entry>, RegistryError> {
        match self.read_file(self.path(id), id)? {
            None => self.read_ended(id),
            found => Ok(found),
        }
    }

    pub(super) fn read_ended(&self, id: &str) -> Result<Option<Entry>, RegistryError> {
        self.read_file(self.ended_directory().join(Registry::file_name(id)), id)
    }

    fn read_file(&self, path: PathBuf, id: &str) -> Result<Option<Entry>, RegistryError> {
        let opened = OpenOptions::new()
            .read(true)
            // Neither a link nor a pipe that never answers is a job.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed("open", &path))?,
        };
        let metadata = file.metadata().map_err(failed("look at", &path))?;
        if !metadata.is_file() || metadata.len() > LARGEST_FILE {
            return Err(RegistryError::Content {
                path,
                problem: format!("no plain file of at most {LARGEST_FILE} bytes"),
            });
        }
        // One read, and one that finds its end.
        let mut text = Vec::with_capacity(metadata.len() as usize + 1);
        file.take(LARGEST_FILE)
            .read_to_end(&mut text)
            .map_err(failed("read", &path))?;
        let problem = match Entry::from_json(&text) {
            Ok(entry) if entry.version == VERSION && entry.id == id => return Ok(Some(entry)),
            Ok(entry) => format!("it says job {} and version {}", entry.id, entry.version),
            Err(problem) => problem,
        };
        Err(RegistryError::Content { path, problem })
    }

    /// The ids of the jobs that have a file in this directory, in order of submission where ids are numbers.
    pub(super) fn ids_in(&self, directory: &Path) -> Result<Vec<String>, RegistryError> {
        let mut ids: Vec<String> = Vec::new();
        let files = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ids),
            other => other.map_err(failed("read", directory))?,
        };
        for file in files {
            let name = file.map_err(failed("read", directory))?.file_name();
            if let Some(id) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) {
                ids.push(id.to_string());
            }
        }
        // Numbers first, in their order.
        ids.sort_by_cached_key(|id| {
            let number = id.parse::<u64>().ok();
            (number.is_none(), number, id.clone())
        });
        Ok(ids)
    }

    pub(super) fn read_each(&self, ids: impl Iterator<Item = String>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for id in ids {
            match self.read(&id) {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => {}
                Err(error) => log::error!("{error}"),
            }
        }
        entries
    }

    /// All jobs that have not ended; one that has may be among them. A file that cannot be taken is logged and left out.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn live(&self) -> Result<Vec<Entry>, RegistryError> {
        Ok(self.read_each(self.ids_in(&self.jobs())?.into_iter()))
    }

    /// All jobs, in order of submission where ids are numbers. A file that cannot be taken is logged and left out.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn all(&self) -> Result<Vec<Entry>, RegistryError> {
        let mut entries = self.live()?;
        let known: HashSet<String> = entries.iter().map(|entry| entry.id.clone()).collect();
        let ended = self.ended()?.into_iter();
        entries.extend(ended.filter(|entry| !known.contains(&entry.id)));
        entries.sort_by_cached_key(|entry| {
            let number = entry.id.parse::<u64>().ok();
            (number.is_none(), number, entry.id.clone())
        });
        Ok(entries)
    }

    /// The files of live jobs by id, each with what changes when it is replaced.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(super) fn stamps(&self) -> Result<Vec<(String, Stamp)>, RegistryError> {
        let ids = self.ids_in(&self.jobs())?.into_iter();
        Ok(ids
            .filter_map(|id| {
                // Gone meanwhile.
                let data = fs::metadata(self.path(&id)).ok()?;
                let stamp = (data.ino(), data.mtime(), data.mtime_nsec());
                Some((id, stamp))
            })
            .collect())
    }

    /// When a job was last added, changed or removed.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn changed(&self) -> Result<SystemTime, RegistryError> {
        let jobs = self.jobs();
        fs::metadata(&jobs)
            .and_then(|metadata| metadata.modified())
            .map_err(failed("read", &jobs))
    }

    pub(super) fn file_name(id: &str) -> String {
        format!("{id}{SUFFIX}")
    }

    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.jobs().join(Registry::file_name(id))
    }

    /// Writes a file whole or not at all.
    pub(super) fn replace(&self, path: &Path, content: &[u8]) -> Result<(), RegistryError> {
        let temporary = path.with_extension(format!("{TEMPORARY}{}", std::process::id()));
        let written = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o644)
            .open(&temporary)
            .and_then(|mut file| file.write_all(content))
            .and_then(|()| fs::rename(&temporary, path));
        written.map_err(|error| {
            // Best effort: what counts is the error that led here.
            let _ = fs::remove_file(&temporary);
            failed("write", path)(error)
        })
    }
}
