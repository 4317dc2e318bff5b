//! The lease of this live state, where its ledger is in a database: until when this host may admit, noted where all processes that share the
//! live state see it, by the clock that they all have (milliseconds since boot). Where another live state was made after it, it is ended for good: an
//! acknowledgement that comes late, to a process that was stopped, changes nothing of that.

use super::super::AccountsError;
use super::super::ledger::{COUNTED, Holder, Ledger, Location};
use super::Live;
use libra_system::clock;
use rusqlite::Connection;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Milliseconds since boot.
fn now() -> i64 {
    (clock::since_boot() * 1000.0) as i64
}

/// A number of this boot. Milliseconds since another one say nothing, should a live state outlive it.
fn boot() -> i64 {
    let digits = clock::boot_id().replace('-', "");
    let digits = digits.get(..15).unwrap_or_default();
    i64::from_str_radix(digits, 16).unwrap_or(0)
}

/// Who has the live states in a directory: the same for all processes of a host that share it, and after it was removed. Two containers on one
/// machine have file systems of their own.
pub(super) fn holder(directory: &Path) -> Holder {
    let device = std::fs::metadata(directory).map_or(0, |found| found.dev());
    let host = nix::unistd::gethostname().unwrap_or_else(|_| "unknown".into());
    Holder {
        id: format!("{}:{device}:{}", clock::boot_id(), directory.display()),
        host: host.to_string_lossy().into_owned(),
    }
}

/// Until when the lease that is noted may be counted on, milliseconds since boot; 0: not at all.
fn noted(c: &Connection) -> rusqlite::Result<i64> {
    c
        .prepare_cached(
            "SELECT COALESCE((SELECT value FROM meta WHERE key = 'lease' AND ?1 = (SELECT value FROM meta WHERE key = 'boot')), 0)",
        )?
        .query_row([boot()], |row| row.get(0))
}

/// Returns true if another live state was made after this one.
fn is_ended(c: &Connection) -> rusqlite::Result<bool> {
    c.prepare_cached("SELECT 1 FROM meta WHERE key = 'ended'")?
        .exists([])
}

/// Checks that this host may admit.
pub(super) fn is_current(
    c: &Connection,
    at: &Location,
) -> Result<rusqlite::Result<()>, AccountsError> {
    let Some(database) = at.database() else {
        return Ok(Ok(()));
    };
    let found = is_ended(c).and_then(|ended| Ok((ended, noted(c)?)));
    let now = now();
    let problem = match found {
        Ok((false, until)) if until > now => return Ok(Ok(())),
        Ok((true, _)) => {
            "another live state was made of it since, by another host perhaps".to_string()
        }
        // Nothing is noted.
        Ok((false, 0)) => "this host has no lease of it yet".to_string(),
        Ok((false, until)) => format!(
            "it last answered {:.0} s ago, and another host may have taken the accounts over since",
            (COUNTED.as_millis() as i64 + now - until) as f64 / 1000.0
        ),
        Err(error) => return Ok(Err(error)),
    };
    Err(AccountsError::Unreachable {
        database: database.to_string(),
        problem,
    })
}

impl Live {
    /// Checks that this host may admit: that the lease has not run out. Nothing to check where the ledger is a file.
    ///
    /// # Errors
    /// [`AccountsError::Unreachable`] where it has.
    pub fn may_admit(&self) -> Result<(), AccountsError> {
        let mut denied = match self.ledger.database() {
            // Another one may be made in its place by now.
            Some(database) if !self.is_there() => Some(AccountsError::Unreachable {
                database: database.to_string(),
                problem: format!("its live state {} was removed", self.path.display()),
            }),
            _ => None,
        };
        self.read(|c| match is_current(c, &self.ledger) {
            Ok(read) => read,
            Err(error) => {
                denied = Some(error);
                Ok(())
            }
        })?;
        denied.map_or(Ok(()), Err)
    }

    /// Renews the lease. Nothing to do where the ledger is a file.
    ///
    /// # Errors
    /// When the database does not answer, or the lease is not this live state's any more; nothing is admitted on it from then on.
    pub fn renew(&self, ledger: &Ledger) -> Result<(), AccountsError> {
        if self.ledger.database().is_none() {
            return Ok(());
        }
        if !self.is_there() {
            // Who has it open still may not admit beside those who have the next one.
            self.end()?;
            return Err(AccountsError::File {
                path: self.path.clone(),
                problem: "the live state was removed; it is made anew".to_string(),
            });
        }
        let known = self.written()?;
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        // Counted from before it is asked for: however late the answer comes, the server's own count ends later.
        let until = now() + COUNTED.as_millis() as i64;
        if ledger.renew(self.generation, known, &holder(directory))? {
            return self.note_lease(until);
        }
        self.note_lease(0)?;
        let written = ledger.written()?;
        match ledger.identity()? {
            same if same == self.generation && written < known => Err(self.older(written, known)),
            same if same == self.generation => Err(ledger.lost(
                "its lease is of another live state: it was not brought back whole".to_string(),
            )),
            (same, later) if same == self.generation.0 && later > self.generation.1 => {
                self.end()?;
                Err(super::outdated(&self.path))
            }
            _ => Err(super::outdated(&self.path)),
        }
    }

    /// Another live state was made after this one: nobody may admit with it any more, whatever was acknowledged before.
    pub(super) fn end(&self) -> Result<(), AccountsError> {
        self.read(|c| {
            c.execute("INSERT OR IGNORE INTO meta VALUES ('ended', 1)", [])
                .map(|_| ())
        })
    }

    /// Returns true if another live state is known to have been made after this one, whose ledger is in a database. Asks nobody there.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_ended(&self) -> Result<bool, AccountsError> {
        self.read(is_ended)
    }

    /// As [`Live::renew`], where the lease will soon have run out: for processes that do not live long.
    pub(super) fn renew_if_old(&self, ledger: &Ledger) -> Result<(), AccountsError> {
        if self.ledger.database().is_none()
            || self.read(noted)? > now() + COUNTED.as_millis() as i64 / 2
        {
            return Ok(());
        }
        self.renew(ledger)
    }

    /// For tests that are not about leases, on machines that are slow: it is counted on for an hour.
    #[cfg(test)]
    pub(crate) fn count_on_it(self) -> Live {
        self.note_lease(now() + 3_600_000).expect("noted");
        self
    }

    /// For tests: as if the last renewal were long ago.
    #[cfg(test)]
    pub(crate) fn expire(&self) {
        self.note_lease(0).expect("noted");
    }

    fn note_lease(&self, until: i64) -> Result<(), AccountsError> {
        let boot = boot();
        self.read(|c| {
            let transaction = self.begin()?;
            let mut note = c.prepare_cached(
                "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2",
            )?;
            // Another process may have a later one. None is none.
            let until = match until {
                0 => 0,
                until => until.max(noted(c)?),
            };
            note.execute(rusqlite::params!["lease", until])?;
            note.execute(rusqlite::params!["boot", boot])?;
            drop(note);
            transaction.commit()
        })
    }
}
