//! Slurm's job_submit plugin: slurmctld asks it about every submission and every change of a job.
//!
//! Entry points only: [`sync_thread`] has the book and the thread that keeps it true, `libra_slurm` decides. Nothing of ours
//! may end slurmctld: no panic leaves an entry point, and nothing here waits for anything but the book's lock.
//!
//! The version of Slurm is part of a plugin: slurmctld does not start with one that was built for another.
#![allow(unsafe_code)]

mod submission_metrics;
mod sync_thread;
mod times;

use libra_batch::words;
use libra_config::OnFault;
use libra_slurm::controller::Answer;
use libra_slurm::problem::{NotTaken, Problem};
use libra_slurm_sys::job::{self, JobDescriptor};
use libra_slurm_sys::log;
use libra_slurm_sys::slurm::{ESLURM_ACCESS_DENIED, SLURM_VERSION_NUMBER, job_desc_msg_t};
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use sync_thread::SyncThread;

/// sbatch, srun and salloc try again by themselves after it, one second later each time.
const TRY_AGAIN: c_int = 11;

/// Done.
const SUCCESS: c_int = 0;

/// Refused: `Access/permission denied`, after the reason.
const DENIED: c_int = ESLURM_ACCESS_DENIED as c_int;

/// As Slurm lists it.
// SAFETY: Slurm looks these up by their names, and no other library of its has them.
#[unsafe(no_mangle)]
pub static plugin_name: [u8; 34] = *b"Libra: deadlines, budgets, shares\0";
/// What `JobSubmitPlugins=libra` looks for.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub static plugin_type: [u8; 17] = *b"job_submit/libra\0";
/// The Slurm this was built for.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub static plugin_version: u32 = SLURM_VERSION_NUMBER;

/// slurmctld loads the plugin, before it has read its jobs.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn init() -> c_int {
    let begun = guard("init", || {
        log::install();
        SyncThread::start();
    });
    match begun {
        Ok(()) => SUCCESS,
        Err(_) => -1,
    }
}

/// slurmctld ends, or another set of plugins was configured.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn fini() -> c_int {
    let _ = guard("fini", SyncThread::stop);
    SUCCESS
}

/// A job is submitted.
///
/// # Safety
/// Slurm's: both are null or valid, and nobody else uses them meanwhile.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn job_submit(
    description: *mut job_desc_msg_t,
    _user: u32,
    error: *mut *mut c_char,
) -> c_int {
    let begun = Instant::now();
    // SAFETY: Slurm's.
    let Some(job) = (unsafe { JobDescriptor::new(description) }) else {
        return SUCCESS;
    };
    // SAFETY: Slurm's.
    let code = unsafe { answer(job, error, begun) };
    times::submission(begun);
    code
}

/// # Safety
/// `error` is null or a place for a text of Slurm's allocator.
unsafe fn answer(mut job: JobDescriptor<'_>, error: *mut *mut c_char, begun: Instant) -> c_int {
    let answered = guard("job_submit", || {
        // Whatever a client sent with it is not what is committed.
        job.strip();
        job.disown();
        let submission = job.submission();
        let answer = SyncThread::submit(&submission);
        match &answer {
            Answer::Accept(accepted) => job.accept(accepted),
            Answer::PassWithout(nodes) => job.exclude(nodes),
            _ => {}
        }
        submission_metrics::submission(&answer, begun.elapsed());
        match answer {
            Answer::Pass | Answer::PassWithout(_) => (SUCCESS, None),
            Answer::Accept(accepted) => (SUCCESS, Some(words::signed(&[accepted.quote]))),
            Answer::Refuse(not) => (DENIED, Some(not.text)),
            Answer::Answered(line) => (DENIED, Some(line)),
            Answer::NotReady => (TRY_AGAIN, None),
        }
    });
    let (code, words) = match answered {
        Ok((code, Some(words))) => (code, words),
        Ok((code, None)) => return code,
        Err(fault) => match SyncThread::on_fault() {
            // A question is never queued.
            on_fault if on_fault == OnFault::Refuse || asks(&job) => {
                submission_metrics::fault(begun.elapsed());
                let not = NotTaken::from(Problem::Own(fault));
                (DENIED, words::signed(&[words::headed_reason(&not)]))
            }
            _ => (
                SUCCESS,
                "libra: could not judge this job; it runs without a promise".to_string(),
            ),
        },
    };
    // SAFETY: the caller's.
    unsafe { job::tell_user(error, &words) };
    code
}

/// Returns true if it says anything about a quote. What cannot be read is taken to.
fn asks(job: &JobDescriptor<'_>) -> bool {
    guard("job_submit", || job.submission().quote().is_some()).unwrap_or(true)
}

fn modify(description: *mut job_desc_msg_t, user: u32) -> Result<(), String> {
    // SAFETY: Slurm's.
    let Some(mut job) = (unsafe { JobDescriptor::new(description) }) else {
        return Ok(());
    };
    match guard("job_modify", || {
        job.strip();
        SyncThread::change(&mut job, user)
    }) {
        Ok(done) => done,
        // A change that nobody looked at does no harm to what is committed: the book follows the queue.
        Err(_) => Ok(()),
    }
}

/// A job is changed. Slurm before 23.02 has no place for a text; the reason is in the log.
///
/// # Safety
/// Slurm's, as for [`job_submit`].
#[cfg(slurm_modify_without_text)]
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn job_modify(
    description: *mut job_desc_msg_t,
    _job: *mut c_void,
    user: u32,
) -> c_int {
    match modify(description, user) {
        Ok(()) => SUCCESS,
        Err(_) => DENIED,
    }
}

/// A job is changed.
///
/// # Safety
/// Slurm's, as for [`job_submit`].
#[cfg(not(slurm_modify_without_text))]
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn job_modify(
    description: *mut job_desc_msg_t,
    _job: *mut c_void,
    user: u32,
    error: *mut *mut c_char,
) -> c_int {
    match modify(description, user) {
        Ok(()) => SUCCESS,
        Err(reason) => {
            // SAFETY: Slurm's.
            unsafe { job::tell_user(error, &words::signed(&[reason])) };
            DENIED
        }
    }
}

/// Runs `call` so that no panic leaves it.
fn guard<T>(what: &str, call: impl FnOnce() -> T) -> Result<T, &'static str> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let said = (panic.downcast_ref::<&str>().map(ToString::to_string))
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic".to_string());
        log::write(::log::Level::Error, &format!("fault in {what}: {said}"));
        "a fault of its own"
    })
}
