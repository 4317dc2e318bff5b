//! Jobs as slurmctld shows them (`slurm_job_info_t`), as records of Libra's.

use crate::slurm::{self as c, NO_VAL};
use crate::text;
use libra_accounts::settlement::HowEnded;
use libra_slurm::array::{ArrayTasks, split};
use libra_slurm::records::{Run, Runs, SlurmJob, State, WaitingFor};
use libra_slurm::waiting::asked_begin;
use std::ffi::c_int;

unsafe extern "C" {
    // Of libslurm's plugin interface; slurm.h does not declare them.
    fn slurm_bit_test(bits: *mut c::bitstr_t, bit: i64) -> c_int;
    fn slurm_bit_size(bits: *mut c::bitstr_t) -> i64;
}

/// A job that may begin within so many seconds does not wait: Slurm's times are whole ones.
const SOON: f64 = 5.0;

/// Gives jobs back. Slurm's own function forgets some of their texts: comments and features in 22.05, ports that are reserved in 24.05 to 25.11.3, licences in 25.05 to
/// 25.11.3; and each poll of the queue would leave those of all jobs behind in slurmctld. A Slurm that does not forget them finds none.
///
/// # Safety
/// A message with jobs that Slurm has handed over; nobody uses it afterwards.
pub(crate) unsafe fn free_jobs(message: *mut c::job_info_msg_t) {
    // SAFETY: its records are ours; the texts are null or Slurm's own, and null afterwards.
    unsafe {
        for place in 0..(*message).record_count as usize {
            let job = &mut *(*message).job_array.add(place);
            text::free(&mut job.admin_comment);
            text::free(&mut job.system_comment);
            text::free(&mut job.cluster_features);
            text::free(&mut job.cronspec);
            text::free(&mut job.prefer);
            #[cfg(slurm_job_resv_ports)]
            text::free(&mut job.resv_ports);
            #[cfg(slurm_job_licenses_allocated)]
            text::free(&mut job.licenses_allocated);
        }
        c::slurm_free_job_info_msg(message);
    }
}

/// A job, and what of it changes by itself: the record is whole when [`Times::tell`] has written that into it.
///
/// # Safety
/// A record that Slurm filled in.
pub(crate) unsafe fn job(job: &c::slurm_job_info_t) -> (SlurmJob, Times) {
    let base = job.job_state & c::JOB_STATE_BASE;
    let again = job.job_state & (c::JOB_REQUEUE | c::JOB_REQUEUE_HOLD) != 0;
    let state = match base {
        c::JOB_PENDING => State::Pending,
        c::JOB_RUNNING | c::JOB_SUSPENDED => State::Running,
        _ if again => State::Pending,
        _ => State::Ended,
    };
    let array = match (job.array_job_id, job.array_task_id) {
        (0, _) => None,
        (array, NO_VAL) => Some(ArrayTasks {
            array,
            // SAFETY: null or Slurm's own.
            tasks: unsafe { bits(job.array_bitmap) },
        }),
        (array, task) => Some(ArrayTasks {
            array,
            tasks: vec![task],
        }),
    };
    // SAFETY: fields are null or texts.
    let (comment, users, nodes, required, dependency) = unsafe {
        (
            text::read(job.admin_comment).unwrap_or_default(),
            text::read(job.comment),
            text::read(job.nodes),
            text::read(job.req_nodes),
            text::read(job.dependency),
        )
    };
    let has_nodes = nodes.is_some();
    let comment = split(&comment).1.to_string();
    let ours = !comment.is_empty();
    // SAFETY: as above.
    let deferred = (state == State::Pending && libra_slurm::array::is_deferred(&comment))
        .then(|| Box::new(unsafe { waiting_for(job) }));
    let times = Times {
        begin: job.eligible_time as f64,
        ours,
        // Slurm takes out of the dependency what is met.
        waits: job.priority == 0 || dependency.is_some(),
        run: run_of(job),
    };
    let job = SlurmJob {
        id: job.job_id,
        array,
        state,
        // Of jobs that are not ours only the number matters.
        nodes: match (ours && state == State::Running, nodes) {
            (true, Some(nodes)) => text::hosts(&nodes),
            _ => Vec::new(),
        },
        admin_comment: comment.into(),
        comment: users.filter(|_| ours).unwrap_or_default(),
        held: job.priority == 0,
        waits: times.waits,
        kept: false,
        deferred,
        pinned: required.is_some(),
        started: job.start_time as f64,
        ended: job.end_time as f64,
        cut_short: !matches!(base, c::JOB_COMPLETE | c::JOB_FAILED),
        failed: base == c::JOB_FAILED,
        // While a job is completing its nodes leave it one by one, and it had some.
        how: match (has_nodes || job.job_state & c::JOB_COMPLETING != 0, base) {
            (false, _) => HowEnded::NeverBegan,
            (_, c::JOB_TIMEOUT | c::JOB_DEADLINE) => HowEnded::TimeLimit,
            (_, c::JOB_NODE_FAIL | c::JOB_BOOT_FAIL | c::JOB_PREEMPTED) => HowEnded::NodeFailure,
            (_, c::JOB_CANCELLED) => HowEnded::Cancelled,
            _ => HowEnded::Itself,
        },
        restarts: u32::from(job.restart_cnt),
        ran: 0.0,
        suspended: base == c::JOB_SUSPENDED,
        changed: job.suspend_time as f64,
        user: job.user_id,
        component: job.het_job_id != 0,
    };
    (job, times)
}

/// What of a job changes by itself as time goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Times {
    /// When it may begin, Unix time.
    begin: f64,
    /// It has a commitment.
    ours: bool,
    /// It is held or depends on others.
    waits: bool,
    run: Run,
}

impl Times {
    /// Writes into the record of the job what it comes to at `taken`, Unix time.
    pub(crate) fn tell(&self, job: &mut SlurmJob, taken: f64) {
        let asked_begin = asked_begin(self.begin, taken).filter(|_| self.ours);
        job.waits = self.waits || (asked_begin.is_none() && self.begin > taken + SOON);
        job.kept = asked_begin.is_some();
        if let Some(waiting) = &mut job.deferred {
            waiting.begin = asked_begin.unwrap_or(self.begin);
        }
        job.ran = self.run.seconds(taken);
    }
}

/// `pre_sus_time` is what it had run when it was last suspended or went on, `suspend_time` when that was.
fn run_of(job: &c::slurm_job_info_t) -> Run {
    let runs = match job.job_state & c::JOB_STATE_BASE {
        c::JOB_PENDING => Runs::NotYet,
        c::JOB_SUSPENDED => Runs::Suspended,
        c::JOB_RUNNING => Runs::Now,
        _ => Runs::Until(job.end_time as f64),
    };
    let changed = (job.suspend_time as f64, job.pre_sus_time as f64);
    Run::of(runs, job.start_time as f64, changed)
}

/// What others have in the admin comment of a job of Libra's, under its number and that of its array.
///
/// # Safety
/// A record that Slurm filled in.
pub(crate) unsafe fn beside(job: &c::slurm_job_info_t) -> Vec<(u32, String)> {
    // SAFETY: null or a text.
    let comment = unsafe { text::read(job.admin_comment) }.unwrap_or_default();
    let numbers = [job.job_id, job.array_job_id].into_iter();
    match split(&comment) {
        (theirs, ours) if !theirs.is_empty() && !ours.is_empty() => {
            numbers.map(|number| (number, theirs.to_string())).collect()
        }
        _ => Vec::new(),
    }
}

/// What a job whose promise is deferred waits for; its [`Times`] have when its user lets it start.
///
/// # Safety
/// A record that Slurm filled in.
unsafe fn waiting_for(job: &c::slurm_job_info_t) -> WaitingFor {
    // SAFETY: fields are null or texts.
    let (partition, required, excluded, features) = unsafe {
        (
            text::read(job.partition).unwrap_or_default(),
            text::read(job.req_nodes),
            text::read(job.exc_nodes),
            text::read(job.features),
        )
    };
    let hosts = |list: Option<String>| list.map_or_else(Vec::new, |list| text::hosts(&list));
    WaitingFor {
        begin: 0.0,
        // Another type in each version of Slurm.
        #[allow(clippy::unnecessary_cast)]
        never: job.state_reason as u32 == c::WAIT_DEP_INVALID as u32,
        partition,
        required_nodes: hosts(required),
        excluded_nodes: hosts(excluded),
        features,
    }
}

/// # Safety
/// Null or a bit string of Slurm's.
unsafe fn bits(set: *mut c::bitstr_t) -> Vec<u32> {
    if set.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's; every bit is below the size.
    let size = unsafe { slurm_bit_size(set) };
    (0..size)
        // SAFETY: the caller's; the bit is below the size.
        .filter(|bit| unsafe { slurm_bit_test(set, *bit) } != 0)
        .filter_map(|bit| u32::try_from(bit).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_unless_it_is_suspended_or_over() {
        // SAFETY: zeroes are a valid record: numbers, and no texts.
        let mut info: c::slurm_job_info_t = unsafe { std::mem::zeroed() };
        let ran = |info: &c::slurm_job_info_t| [100.0, 200.0].map(|at| run_of(info).seconds(at));
        (info.job_state, info.start_time) = (c::JOB_RUNNING, 90);
        assert_eq!(ran(&info), [10.0, 110.0]);
        (info.suspend_time, info.pre_sus_time) = (95, 3);
        assert_eq!(ran(&info), [8.0, 108.0]);
        info.job_state = c::JOB_SUSPENDED;
        assert_eq!(ran(&info), [3.0, 3.0]);
        (info.job_state, info.end_time) = (c::JOB_COMPLETE, 97);
        assert_eq!(ran(&info), [5.0, 5.0]);
        info.job_state = c::JOB_PENDING;
        assert_eq!(ran(&info), [0.0, 0.0]);
    }
}
