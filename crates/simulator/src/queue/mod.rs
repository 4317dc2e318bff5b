//! Space sharing, the schedulers that Libra is compared with: a processor runs one job at a time, a
//! job waits until all of its processors are free, and nothing is stopped before its end.
//!
//! - [`Fifo`]: strict order of submission (Libra 2004, section 5).
//! - [`Edf`]: earliest deadline first, with admission when selected (LibraRisk 2006, section 4).
//! - [`Easy`]: FIFO with backfilling behind one reservation, what a PBS or Slurm site runs today.
//! - [`Dropping`]: the same without jobs that can no longer be in time; also in the order of deadlines.
//! - [`Conservative`]: a reservation for each job, refused where it ends after the deadline.
//!
//! The last two are what an expert would choose for deadlines, so they are what Libra is to be compared with.
//!
//! Common to all:
//!
//! - A slot takes one whole processor; a fraction of a processor on a node is not used. Memory asked
//!   for is held on the slot's node.
//! - Of the free processors the fastest are taken first, those of equal rating in node order. Each
//!   slot takes run time / rating; a job ends with its slowest slot and holds all of its processors
//!   until then.
//! - What would not fit on the empty machine is refused when submitted: `processors` where it has
//!   too few of them, otherwise `memory`.
//! - At one time all ends come first (in order of the workload), then all submissions, then the
//!   scheduler starts or refuses what waits. Outcomes are told in that order.
//! - A scheduler sees the estimate alone; run times only tell when jobs end. Jobs that outlive their
//!   estimate run on.

mod conservative;
mod dropping;
mod easy;
mod edf;
mod expected;
mod fifo;
mod free;
mod reservation;
mod site;
#[cfg(test)]
mod tests;
mod waiting;

pub use conservative::Conservative;
pub use dropping::{Dropping, Order};
pub use easy::Easy;
pub use edf::Edf;
pub use fifo::Fifo;

use super::{Machine, Observer};
use expected::Expected;
use libra_core::decision::job::Terms;
use libra_workload::Job;
use site::Site;

/// Seconds that a job is planned to run on a reference node: its estimate and the margin on it, but never more
/// than its deadline. Who asks for less time than the estimate must think it possible, and is taken at
/// his word, as by libra-adaptive.
fn planned(terms: &Terms, margin: f64) -> f64 {
    (terms.estimate * (1.0 + margin)).min(terms.deadline)
}

/// Which waiting job starts next.
trait Discipline {
    /// This job came and waits from now on; on the empty machine it would fit.
    fn submitted(&mut self, index: usize, site: &Site<'_>);

    /// A job has ended, which was expected as here; its processors are free.
    fn ended(&mut self, _expected: Expected) {}

    /// Starts and refuses what is to be started and refused now.
    fn pass(&mut self, site: &mut Site<'_>);
}

/// Runs all jobs from an empty machine until the last one has ended.
fn drive(
    mut discipline: impl Discipline,
    jobs: &[Job],
    machine: &Machine,
    observer: &mut dyn Observer,
) {
    let mut site = Site::new(jobs, machine, observer);
    let mut next = 0;
    while site.advance(jobs.get(next)) {
        while let Some(expected) = site.end_one() {
            discipline.ended(expected);
        }
        while let Some(job) = jobs.get(next) {
            if job.submit > site.now() {
                break;
            }
            match site.never_fits(next) {
                Some(reason) => site.refuse(next, reason),
                None => discipline.submitted(next, &site),
            }
            next += 1;
        }
        discipline.pass(&mut site);
    }
}
