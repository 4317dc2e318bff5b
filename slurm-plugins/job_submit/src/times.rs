//! How long submissions took, for the log: the administrator's answer to "is it Libra that makes sbatch slow?".

use ::log::Level;
use libra_slurm_sys::log;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most submissions that are kept between two lines of the log.
const MOST: usize = 100_000;

/// Since it was last written to the log.
struct Times {
    /// Tenths of a microsecond that each submission took in all, whatever became of it.
    submissions: Vec<u32>,
    /// The longest that the thread has kept the book to itself.
    poll: Duration,
}

static TIMES: Mutex<Times> = Mutex::new(Times {
    submissions: Vec::new(),
    poll: Duration::ZERO,
});

fn times() -> MutexGuard<'static, Times> {
    TIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A submission was answered, from this moment to now.
pub fn submission(begun: Instant) {
    let took = u32::try_from(begun.elapsed().as_nanos() / 100).unwrap_or(u32::MAX);
    let mut times = times();
    if times.submissions.len() < MOST {
        times.submissions.push(took);
    }
}

/// The thread has kept the book to itself, from this moment to now.
pub fn poll(begun: Instant) {
    let mut times = times();
    times.poll = times.poll.max(begun.elapsed());
}

/// Writes a line, if there was a submission, and begins anew.
pub fn report() {
    let (mut submissions, poll) = {
        let mut times = times();
        let poll = std::mem::take(&mut times.poll);
        (std::mem::take(&mut times.submissions), poll)
    };
    if submissions.is_empty() {
        return;
    }
    submissions.sort_unstable();
    let last = submissions.len() - 1;
    let at =
        |part: usize| f64::from(submissions[(submissions.len() * part / 100).min(last)]) / 10.0;
    log::write(
        Level::Info,
        &format!(
            "{} submissions, median {:.1} us, 99 of 100 within {:.1} us, longest {:.1} us; a poll of the queue kept the book for at most {:.1} us",
            submissions.len(),
            at(50),
            at(99),
            at(100),
            poll.as_secs_f64() * 1e6,
        ),
    );
}
