//! The registry's lock: one who decides at a time.
//!
//! Whoever takes it counts up in its file, so that those who wait see it move on: a queue of hundreds is no fault, a holder
//! that hangs is.

use super::{Registry, RegistryError, failed};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const LOCK: &str = "lock";
/// Longest wait for a lock that does not move on: it is held for milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The same for an event of a batch system whose daemon does nothing else meanwhile, altogether: pbs_mom's hooks are ended after 30 s.
pub(crate) const HURRY: Duration = Duration::from_secs(5);
/// Where nothing is left of that, because something else was waited for: the lock may be held by one who is just writing.
const MOMENT: Duration = Duration::from_millis(500);
/// Longest wait altogether.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);
/// So long somebody who waits looks often; a long queue of such would be a load itself.
const EAGER: Duration = Duration::from_millis(100);

/// How long somebody can wait, for all locks together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    until: Instant,
    patience: Duration,
}

impl Limit {
    /// From now on.
    pub fn new(patience: Duration) -> Limit {
        Limit {
            until: Instant::now() + patience,
            patience,
        }
    }

    /// Of the lock that is to be had next.
    fn left(&self, now: Instant) -> Duration {
        (self.until.saturating_duration_since(now)).clamp(MOMENT, PATIENCE)
    }
}

/// Held while a decision is made.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

impl Registry {
    /// Takes the lock. Waits for it as long as it moves on from one to the next, but no longer than ten minutes.
    ///
    /// # Errors
    /// When it is not to be had: one and the same process has held it for 20 s, or as long as this one can wait, or the queue is that long.
    pub fn lock(&self) -> Result<Lock, RegistryError> {
        let patience = (self.limit).map_or(PATIENCE, |limit| limit.left(Instant::now()));
        // All that could be waited, of which a lock before may have had the most.
        let whole = self.limit.map_or(PATIENCE, |limit| limit.patience);
        self.take(LOCK, patience, LONGEST, whole.min(PATIENCE))
    }

    /// Takes another lock of this registry's directory: one who does something that takes its time, while the others who would do the same wait, and
    /// nobody who decides. Waits no longer than `patience`.
    ///
    /// # Errors
    /// When it is not to be had in that time, or at all.
    pub fn turn(&self, name: &str, patience: Duration) -> Result<Lock, RegistryError> {
        self.take(name, patience, patience, patience)
    }

    /// `patience`: for a lock that does not move on, of which `said` is told; `longest`: altogether.
    fn take(
        &self,
        name: &str,
        patience: Duration,
        longest: Duration,
        said: Duration,
    ) -> Result<Lock, RegistryError> {
        let (path, mut file) = self.lock_file(name)?;
        let start = Instant::now();
        let mut queue = Queue::new(start, turn(&file), patience, longest);
        // The kernel's own waiting has no time limit, and a signal handler to break it is worse.
        let mut pause = Duration::from_micros(200);
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => {
                    // Only those who wait look at it, and only whether it has changed.
                    let _ = file.write_all_at(&turn(&file).wrapping_add(1).to_le_bytes(), 0);
                    return Ok(Lock { _file: file });
                }
                Err((back, Errno::EWOULDBLOCK | Errno::EINTR)) => file = back,
                Err((_, errno)) => return Err(failed("lock", &path)(errno.into())),
            }
            let now = Instant::now();
            match queue.poll(now, turn(&file)) {
                Wait::On => {}
                Wait::Stuck => {
                    let seconds = said.as_secs();
                    return Err(RegistryError::Locked { path, seconds });
                }
                Wait::TooLong => return Err(RegistryError::Busy { path }),
            }
            std::thread::sleep(pause);
            let most = match now - start < EAGER {
                true => 5,
                // Not all of a queue at the same moment.
                false => 15 + u64::from(std::process::id() % 16),
            };
            pause = (pause * 2).min(Duration::from_millis(most));
        }
    }
}

/// What somebody who waits has seen of the lock.
struct Queue {
    start: Instant,
    moved: Instant,
    turn: u64,
    patience: Duration,
    longest: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Wait {
    On,
    Stuck,
    TooLong,
}

impl Queue {
    fn new(start: Instant, turn: u64, patience: Duration, longest: Duration) -> Queue {
        Queue {
            start,
            moved: start,
            turn,
            patience,
            longest,
        }
    }

    fn poll(&mut self, now: Instant, turn: u64) -> Wait {
        if turn != self.turn {
            (self.turn, self.moved) = (turn, now);
        }
        if now - self.moved > self.patience {
            Wait::Stuck
        } else if now - self.start > self.longest {
            Wait::TooLong
        } else {
            Wait::On
        }
    }
}

fn turn(file: &File) -> u64 {
    let mut bytes = [0; 8];
    // An empty file, or one that cannot be read, never moves on.
    let _ = file.read_exact_at(&mut bytes, 0);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_one_who_takes_it_is_seen_by_those_who_wait() {
        let directory = tempfile::tempdir().expect("a directory");
        let registry = Registry::open(directory.path()).expect("a registry");
        let seen = || turn(&registry.lock_file(LOCK).expect("a file").1);
        let before = seen();
        drop(registry.lock().expect("free"));
        drop(registry.lock().expect("free"));
        assert_eq!(seen(), before + 2);
    }

    #[test]
    fn who_is_in_a_hurry_waits_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut registry = Registry::open(directory.path()).expect("a registry");
        let _held = registry.lock().expect("free");
        registry.limit = Some(Limit {
            until: Instant::now() + Duration::from_millis(50),
            patience: HURRY,
        });
        let began = Instant::now();
        for _ in 0..3 {
            let error = registry.lock().expect_err("held").to_string();
            assert!(
                error.contains("/lock has been locked for more than 5 s"),
                "{error}"
            );
        }
        assert!(began.elapsed() < 3 * PATIENCE, "{:?}", began.elapsed());
    }

    #[test]
    fn who_has_more_time_waits_longer_and_never_for_ever() {
        let now = Instant::now();
        let left = |patience, after| Limit::new(patience).left(now + Duration::from_secs(after));
        assert!(left(Duration::from_secs(15), 0) > HURRY);
        assert_eq!(left(Duration::from_secs(90), 1), PATIENCE);
        assert_eq!(left(HURRY, 60), MOMENT);
    }

    #[test]
    fn a_queue_that_moves_is_no_fault_and_a_holder_that_hangs_is() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut queue = Queue::new(start, 7, PATIENCE, LONGEST);
        assert_eq!(queue.poll(at(20), 7), Wait::On);
        assert_eq!(queue.poll(at(21), 7), Wait::Stuck);
        let mut queue = Queue::new(start, 7, PATIENCE, LONGEST);
        for minute in 1..=10 {
            for second in 0..6 {
                assert_eq!(
                    queue.poll(at(minute * 60 - 60 + second * 10), minute * 6 + second),
                    Wait::On
                );
            }
        }
        assert_eq!(queue.poll(at(601), 1000), Wait::TooLong);
        assert_eq!(queue.poll(at(611), 1000), Wait::TooLong);
        assert_eq!(queue.poll(at(630), 1000), Wait::Stuck);
    }
}
