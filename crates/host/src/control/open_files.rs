//! Which files of jobs the control loop keeps open, of all that its process may have open.
//!
//! A job has up to eight, most of which are read in each round. Those of as many jobs as there is room for stay open; the files of the others are
//! opened for each use, so that a loop that may not have so many adjusts all jobs all the same, and takes longer.

use super::Watched;
use libra_cgroup::Group;
use nix::sys::resource::{Resource, getrlimit};
use std::collections::HashMap;

/// Files that a process may have open where that cannot be told.
const USUAL: u64 = 1024;

/// Files that this process may have open.
fn limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(USUAL, |(soft, _)| soft)
}

/// The least that is left for what a round opens beside the files of jobs that stay open.
const BESIDE: u64 = 64;

/// Files of jobs that may stay open: a quarter of all is left for others, and at least [`BESIDE`].
fn most_open() -> usize {
    let limit = limit();
    usize::try_from(limit.saturating_sub((limit / 4).max(BESIDE))).unwrap_or(usize::MAX)
}

/// Files of jobs that may be opened and stay so.
pub(super) struct Room(usize);

impl Room {
    /// The room that is left beside the files that these jobs have open.
    pub(super) fn beside(watched: &HashMap<String, Watched>) -> Room {
        let open = (watched.values())
            .filter_map(|watched| watched.group.as_ref())
            .filter(|group| !group.is_closed())
            .map(Group::number_of_files);
        Room(most_open().saturating_sub(open.sum()))
    }

    /// Keeps the files of a group open, which are none of those that the room is beside, if it has room for them. Returns whether it had.
    pub(super) fn keep(&mut self, group: &mut Option<Group>) -> bool {
        let Some(group) = group else { return true };
        let files = group.number_of_files();
        let has_room = files <= self.0;
        if !has_room {
            group.close_files();
        } else if group.keep_files_open() {
            self.0 -= files;
        }
        has_room
    }
}

/// Once jobs have come and gone: keeps files open for which there is room now. Returns of how many jobs they are opened for each use.
pub(super) fn keep_what_fits(watched: &mut HashMap<String, Watched>) -> usize {
    let mut room = Room::beside(watched);
    let mut without_room = 0;
    for watched in watched.values_mut() {
        if watched.group.as_ref().is_some_and(Group::is_closed) {
            without_room += usize::from(!room.keep(&mut watched.group));
        }
    }
    without_room
}

/// Says so when that begins, and when it is over.
pub(super) fn tell(before: usize, closed: usize, jobs: usize) {
    if before == 0 && closed > 0 {
        log::info!(
            "this process may have {} files open: those of {closed} of {jobs} jobs are opened anew in each round, which takes longer (LimitNOFILE= of the service, or ulimit -n, allows more)",
            limit()
        );
    } else if before > 0 && closed == 0 {
        log::info!("the files of all jobs stay open again ({jobs})");
    }
}
