//! What can go wrong with a control group, with path, value and next action in every text.
//!
//! Invariants: no variant is a panic in disguise; `Gone` and `Exists` are facts about a job's directory
//! that callers match on, everything else is for a person to read.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// An operation on a control group that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused an operation on a file or directory.
    #[error("cannot {action} {}{}: {source}; {}", path.display(), shown(value), hint(source))]
    Io {
        /// What was tried, a verb: "write", "make".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What was to be written, if anything.
        value: Option<String>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The directory of a new job is there already, so it is not ours.
    #[error(
        "{} exists already and was not made by this call; if no job of that name is running, remove it with rmdir",
        path.display()
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The control group has been removed: the job has ended.
    #[error("{} is gone: the job has ended, or its control group was removed", path.display())]
    Gone {
        /// The file or directory that was looked for.
        path: PathBuf,
    },
    /// Processes were still there when the patience ran out.
    #[error(
        "{} still holds processes {pids:?} after {seconds:.1} s; look at them with ps (state D is a hung device or file server) and try again",
        path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
        /// Processes still in it or below it.
        pids: Vec<i32>,
        /// How long was waited, in seconds.
        seconds: f64,
    },
    /// A job's name that cannot be the name of a directory.
    #[error("{name:?} cannot name a control group: {why}; use the batch system's job id")]
    Name {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A limit outside its range.
    #[error("{what} = {value} is out of range: {range}")]
    Limit {
        /// Which limit.
        what: &'static str,
        /// Its value as given.
        value: f64,
        /// The range allowed, with unit.
        range: &'static str,
    },
    /// A process is in a group of Slurm's that is not known to be its job's; it must not be taken away from there.
    #[error(
        "{} is a control group that Slurm made, and not known as one of job {job}: its processes stay there and are held to no share; tell Libra's maintainers the version of Slurm",
        path.display()
    )]
    NotItsJobs {
        /// The group, below the mount.
        path: PathBuf,
        /// Number of the job.
        job: String,
    },
    /// A control file whose content is not what this kernel interface promises.
    #[error("{} holds {content:?} where {expected} was expected; is it a control group file system?", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Its content, shortened.
        content: String,
        /// What was expected.
        expected: &'static str,
    },
}

impl Error {
    /// Wraps an I/O error; a vanished directory becomes [`Error::Gone`].
    pub(crate) fn io(
        action: &'static str,
        path: &Path,
        value: Option<&str>,
        source: io::Error,
    ) -> Self {
        // ENODEV: the file is still open here, its directory has been removed.
        match source.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENODEV) => Self::Gone {
                path: path.to_owned(),
            },
            _ => Self::Io {
                action,
                path: path.to_owned(),
                value: value.map(|v| v.trim().to_owned()),
                source,
            },
        }
    }

    pub(crate) fn malformed(path: &Path, content: &str, expected: &'static str) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            content: content.chars().take(80).collect(),
            expected,
        }
    }

    /// True where the job's directory has vanished, which means that the job has ended.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// The errno inside, where there is one.
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io { source, .. } => source.raw_os_error().map(Errno::from_raw),
            _ => None,
        }
    }
}

fn shown(value: &Option<String>) -> String {
    value
        .as_ref()
        .map(|v| format!(" with {v:?}"))
        .unwrap_or_default()
}

/// What a person can do about an errno on a control group.
fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EACCES | Errno::EPERM) => {
            "run as root, or inside a control group delegated to this user"
        }
        Some(Errno::EROFS) => {
            "the mount is read-only: give this container or service a writable one"
        }
        Some(Errno::EBUSY) => {
            "processes live in this directory itself: move them into a child of it"
        }
        Some(Errno::EINVAL) => {
            "the kernel does not accept the value here: look for a tighter limit in a parent, or a real-time process"
        }
        Some(Errno::ENOSPC) => {
            "the parent has no processors or memory nodes set, or cgroup.max.descendants is reached"
        }
        Some(Errno::EMFILE) => {
            "let this process open more files: LimitNOFILE= of the service, or ulimit -n"
        }
        Some(Errno::ENFILE) => "let this machine open more files: sysctl fs.file-max",
        Some(Errno::EOPNOTSUPP) => "the group is threaded: take another root",
        _ => "check the mount with `mount -t cgroup,cgroup2`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_path_value_and_action() {
        let e = Error::io(
            "write",
            Path::new("/x/cpu.max"),
            Some("1 2\n"),
            io::Error::from_raw_os_error(libc::EINVAL),
        );
        let text = e.to_string();
        assert!(
            text.starts_with("cannot write /x/cpu.max with \"1 2\": "),
            "{text}"
        );
        assert!(text.contains("look for a tighter limit"), "{text}");
        let gone = Error::io(
            "read",
            Path::new("/x"),
            None,
            io::Error::from_raw_os_error(libc::ENODEV),
        );
        assert!(gone.is_gone());
    }
}
