//! Which ledger it is: a random number and a time, in the ledger itself, in the live state's name, and in a small file beside the
//! ledger's directory, on the host's own disk.
//!
//! A ledger may be on a volume that is not mounted, or be replaced by another one. The live state notices that until the next boot; the
//! file notices it after that as well. It is written by root, by `libra account init` and by the first command of root that finds none.

use super::AccountsError;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Which ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// A random number.
    pub number: i64,
    /// When it was made, Unix milliseconds; none: not known, it was made before that was written down.
    pub created: Option<i64>,
}

impl Identity {
    /// Of a new ledger.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(now: i64) -> std::io::Result<Identity> {
        let bits = libra_system::random::bits()?;
        Ok(Identity {
            // Positive, and never 0.
            number: i64::try_from((bits >> 66) | 1).unwrap_or(1),
            created: Some(now),
        })
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.number)?;
        match self.created {
            Some(at) => write!(f, ", made {}", day(at)),
            None => Ok(()),
        }
    }
}

/// A time in UTC, in words (Hinnant's days_from_civil, backwards): nothing else of the library needs a calendar.
pub(super) fn day(millis: i64) -> String {
    let (days, seconds) = (millis.div_euclid(86_400_000), millis.div_euclid(1000));
    let seconds = seconds.rem_euclid(86_400);
    let z = days + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (
        of_year - (153 * shifted + 2) / 5 + 1,
        if shifted < 10 {
            shifted + 3
        } else {
            shifted - 9
        },
    );
    let year = year + era * 400 + i64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        seconds / 3600,
        seconds / 60 % 60
    )
}

/// Where this host notes which ledger is its own: beside the ledger's directory.
pub fn note_path(ledger: &Path) -> Option<PathBuf> {
    let home = ledger.parent()?;
    let mut name = home.file_name()?.to_os_string();
    name.push(".id");
    Some(home.with_file_name(name))
}

/// Which ledger is this host's own; None if nobody noted it yet.
///
/// # Errors
/// When the note is there and cannot be read.
pub fn noted(ledger: &Path) -> Result<Option<Identity>, AccountsError> {
    let Some(path) = note_path(ledger) else {
        return Ok(None);
    };
    let failed = |problem: String| AccountsError::File {
        path: path.clone(),
        problem,
    };
    let found = match fs::symlink_metadata(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    };
    // Where everybody may make files, somebody else's says nothing.
    let above = path.parent().unwrap_or(Path::new("/"));
    let owner = fs::metadata(above).map_or(0, |above| above.uid());
    if !found.is_file() || (found.uid() != 0 && found.uid() != owner) {
        log::warn!("accounts: {} is somebody else's, not read", path.display());
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(name, _)| name.trim() == key)
    };
    let number = value("identity")
        .and_then(|(_, digits)| i64::from_str_radix(digits.trim(), 16).ok())
        .ok_or_else(|| {
            failed(
                "does not say which ledger is this host's: expected a line 'identity = …'; where the present one is the right one, remove \
                 this file, then: libra account check"
                    .to_string(),
            )
        })?;
    let created = value("created-ms").and_then(|(_, digits)| digits.trim().parse().ok());
    Ok(Some(Identity { number, created }))
}

/// Notes that this ledger is the host's own.
///
/// # Errors
/// When the note cannot be written.
pub fn note(ledger: &Path, identity: Identity) -> Result<(), AccountsError> {
    let Some(path) = note_path(ledger) else {
        return Ok(());
    };
    let mut text = format!(
        "# The ledger of this host's accounts: {}. Another one in its place is refused.\n# Written by 'libra account init' and 'libra account restore'.\nidentity = {:x}\n",
        ledger.display(),
        identity.number
    );
    if let Some(created) = identity.created {
        text += &format!("created-ms = {created}\n");
    }
    let half = path.with_extension(format!("id.{}", std::process::id()));
    let _ = fs::remove_file(&half);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&half)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| {
            super::crash::point("note: before rename");
            fs::rename(&half, &path)?;
            super::crash::point("note: after rename");
            Ok(())
        });
    written.map_err(|error| {
        let _ = fs::remove_file(&half);
        AccountsError::File {
            path,
            problem: error.to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_and_what_is_none_is_said() {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = directory.path().join("accounts/ledger.sqlite");
        assert_eq!(noted(&ledger).expect("reads"), None);
        let one = Identity::new(1_800_000_000_000).expect("random");
        note(&ledger, one).expect("written");
        assert_eq!(noted(&ledger).expect("reads"), Some(one));
        let other = Identity {
            created: None,
            ..Identity::new(0).expect("random")
        };
        assert_ne!(one.number, other.number);
        note(&ledger, other).expect("written");
        assert_eq!(noted(&ledger).expect("reads"), Some(other));
        fs::write(directory.path().join("accounts.id"), "what\n").expect("written");
        let said = noted(&ledger).expect_err("no note").to_string();
        assert!(
            said.contains("accounts.id") && said.contains("account check"),
            "{said}"
        );
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(day(0), "1970-01-01 00:00 UTC");
        assert_eq!(day(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(day(1_800_000_000_000), "2027-01-15 08:00 UTC");
        assert_eq!(day(-60_000), "1969-12-31 23:59 UTC");
    }
}
