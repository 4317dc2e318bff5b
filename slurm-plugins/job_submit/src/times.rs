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
    look: Duration,
}

static TIMES: Mutex<Times> = Mutex::new(Times {
    submissions: Vec::new(),
    look: Duration::ZERO,
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
pub fn look(begun: Instant) {
    let mut times = times();
    times.look = times.look.max(begun.elapsed());
}

/// Writes a line, if there was a submission, and begins anew.
pub fn report() {
    let (mut submissions, look) = {
        let mut times = times();
        let look = std::mem::take(&mut times.look);
        (std::mem::take(&mut times.submissions), look)
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
            "{} submissions, median {:.1} us, 99 of 100 within {:.1} us, longest {:.1} us; a look at the queue kept the book for at most {:.1} us",
            submissions.len(),
            at(50),
            at(99),
            at(100),
            look.as_secs_f64() * 1e6,
        ),
    );
}
