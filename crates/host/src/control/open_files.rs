//! Which files of jobs the control loop keeps open, of all that its process may have open.
//!
//! A job has up to eight, each of which is read in each round. Those of as many jobs as there is room for stay open; the files of the others are
//! opened for each use, so that a loop that may not have so many adjusts all jobs all the same, and takes longer.

use super::Watched;
use libra_cgroup::Group;
use nix::sys::resource::{Resource, getrlimit};

/// Files that a process may have open where that cannot be told.
const USUAL: u64 = 1024;

/// Files that this process may have open.
fn limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(USUAL, |(soft, _)| soft)
}

/// What a round opens beside the files of jobs that stay open: a quarter of all, and at least so many.
const BESIDE: u64 = 64;

/// Files of jobs that may stay open.
fn most() -> usize {
    let limit = limit();
    usize::try_from(limit.saturating_sub((limit / 4).max(BESIDE))).unwrap_or(usize::MAX)
}

/// Files of jobs that may be opened and stay so.
pub(super) struct Room(usize);

impl Room {
    /// What these leave.
    pub(super) fn beside<'a>(watched: impl Iterator<Item = &'a mut Watched>) -> Room {
        let open = |watched: &mut Watched| watched.group.as_mut().map_or(0, |g| g.open_files().0);
        Room(most().saturating_sub(watched.map(open).sum()))
    }

    /// Keeps the files of a group open that is not among those that it was made for, if there is room for them.
    pub(super) fn keep(&mut self, group: &mut Option<Group>) {
        let Some(group) = group else { return };
        let (_, files) = group.open_files();
        match self.0.checked_sub(files) {
            Some(left) => {
                group.keep_files_open();
                self.0 = left;
            }
            None => group.close_files(),
        }
    }
}

/// Once jobs have come and gone: keeps files open for which there is room now. Returns of how many jobs they are opened for each use.
pub(super) fn keep_what_fits<'a>(
    watched: impl Iterator<Item = &'a mut Watched>,
    room: &mut Room,
) -> usize {
    let mut closed = 0;
    for watched in watched {
        let is_closed = |group: &mut Group| group.open_files().0 == 0;
        if watched.group.as_mut().is_some_and(is_closed) {
            room.keep(&mut watched.group);
            closed += usize::from(watched.group.as_mut().is_some_and(is_closed));
        }
    }
    closed
}

/// Says so when that begins, and when it is over.
pub(super) fn tell(before: usize, closed: usize, jobs: usize) {
    if before == 0 && closed > 0 {
        log::info!(
            "this process may have {} files open: those of {closed} of {jobs} jobs are opened anew in each round, which takes longer (LimitNOFILE= of the service, or ulimit -n, allows more)",
            limit()
        );
    } else if before > 0 && closed == 0 {
        log::info!("the files of all {jobs} jobs stay open again");
    }
}
