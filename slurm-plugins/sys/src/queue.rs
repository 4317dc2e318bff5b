//! What slurmctld is asked and told of single jobs, by the same remote calls as scontrol uses.

use crate::job_info::free_jobs;
use crate::slurm as c;
#[cfg(slurm_load_job_by_step_id)]
use crate::slurm::NO_VAL;
use crate::text;
use crate::{CallFailed, failed};
use libra_slurm::array::split;
use libra_slurm::claim::{ControllerRecord, JobRecord};
use libra_slurm::poll::Pin;
use libra_slurm::records::{FIRST, Rewrite};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;

/// What slurmctld has on record of one job; `here`: Slurm's name of this node. None if it does not say. To be called by
/// [`crate::ask`] alone: it waits as long as Slurm likes, and may end the process.
pub(crate) fn record(number: u32, here: &str) -> Option<ControllerRecord> {
    let mut message = null_mut();
    // SAFETY: on success Slurm hands over a message that is ours to free.
    unsafe {
        if load_job(&mut message, number) != 0 || message.is_null() {
            let error = std::io::Error::last_os_error().raw_os_error();
            return (error == Some(c::ESLURM_INVALID_JOB_ID as i32))
                .then_some(ControllerRecord::Unknown);
        }
        let count = (*message).record_count as usize;
        let found = (0..count)
            .map(|place| &*(*message).job_array.add(place))
            // Of an array Slurm may answer with all tasks.
            .find(|job| job.job_id == number)
            .map(|job| job_record(job, here));
        free_jobs(message);
        Some(found.map_or(ControllerRecord::Unknown, ControllerRecord::Job))
    }
}

/// # Safety
/// A record that Slurm filled in.
unsafe fn job_record(job: &c::slurm_job_info_t, here: &str) -> JobRecord {
    let base = job.job_state & c::JOB_STATE_BASE;
    let is_running = base == c::JOB_RUNNING || base == c::JOB_SUSPENDED;
    let completing = job.job_state & c::JOB_COMPLETING != 0;
    // SAFETY: fields are null or texts.
    let (nodes, admin_comment) = unsafe { (text::read(job.nodes), text::read(job.admin_comment)) };
    let nodes = nodes.map_or_else(Vec::new, |nodes| text::hosts(&nodes));
    JobRecord {
        user: job.user_id,
        nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        before: nodes
            .iter()
            .position(|node| node == here)
            .map_or(0, |at| u32::try_from(at).unwrap_or(u32::MAX)),
        is_here: (is_running || completing) && nodes.iter().any(|node| node == here),
        // While its epilogs run it is over, whatever it was.
        is_running: is_running && !completing,
        is_suspended: base == c::JOB_SUSPENDED,
        admin_comment: split(&admin_comment.unwrap_or_default()).1.to_string(),
    }
}

/// This cluster's own records: those of a federation would be asked for elsewhere, and this node is of this cluster.
const FLAGS: u16 = (c::SHOW_ALL | c::SHOW_LOCAL) as u16;

/// # Safety
/// As Slurm's own.
#[cfg(not(slurm_load_job_by_step_id))]
unsafe fn load_job(message: &mut *mut c::job_info_msg_t, number: u32) -> c_int {
    // SAFETY: the caller's.
    unsafe { c::slurm_load_job(message, number, FLAGS) }
}

/// # Safety
/// As Slurm's own.
#[cfg(slurm_load_job_by_step_id)]
unsafe fn load_job(message: &mut *mut c::job_info_msg_t, number: u32) -> c_int {
    // As SLURM_STEP_ID_INITIALIZER.
    let job = c::slurm_step_id_t {
        sluid: 0,
        job_id: number,
        step_het_comp: NO_VAL,
        step_id: NO_VAL,
    };
    // SAFETY: the caller's.
    unsafe { c::slurm_load_job(message, job, FLAGS) }
}

/// Writes another record of a job, and tells its owner.
///
/// # Errors
/// What slurmctld answers.
pub fn rewrite(rewrite: &Rewrite) -> Result<(), CallFailed> {
    let name = rewrite.name();
    let (job, record, comment, nodes) = (
        text::c_string(&name),
        text::c_string(&rewrite.admin_comment),
        text::c_string(&rewrite.comment),
        text::c_string(&rewrite.nodes.join(",")),
    );
    // SAFETY: as in `pin`.
    unsafe {
        let mut message: c::job_desc_msg_t = std::mem::zeroed();
        c::slurm_init_job_desc_msg(&mut message);
        message.job_id_str = job.as_ptr().cast_mut();
        message.admin_comment = record.as_ptr().cast_mut();
        message.comment = comment.as_ptr().cast_mut();
        if rewrite.hold {
            message.priority = 0;
        } else if rewrite.release {
            // A priority that Slurm chooses.
            message.priority = c::INFINITE;
        }
        if !rewrite.nodes.is_empty() {
            message.req_nodes = nodes.as_ptr().cast_mut();
        }
        if let Some(begin) = rewrite.begin {
            message.begin_time = begin.try_into().unwrap_or(c::time_t::MAX);
        }
        let mut answer = null_mut();
        let done = c::slurm_update_job2(&mut message, &mut answer);
        if !answer.is_null() {
            c::slurm_free_job_array_resp(answer);
        }
        match done {
            0 => {
                if rewrite.starts() {
                    put_first(&job);
                }
                Ok(())
            }
            _ => Err(failed(&format!("the record of job {name}"))),
        }
    }
}

/// Lets all processes of a job stand still, on all its nodes.
///
/// # Errors
/// What slurmctld answers.
pub fn suspend(job: u32) -> Result<(), CallFailed> {
    told(job, "suspend", c::slurm_suspend2)
}

/// Lets them go on.
///
/// # Errors
/// What slurmctld answers.
pub fn resume(job: u32) -> Result<(), CallFailed> {
    told(job, "resume", c::slurm_resume2)
}

type Told = unsafe extern "C" fn(*mut c_char, *mut *mut c::job_array_resp_msg_t) -> c_int;

fn told(job: u32, what: &str, tell: Told) -> Result<(), CallFailed> {
    let name = text::c_string(&job.to_string());
    let mut answer = null_mut();
    // SAFETY: the text is only read; what is answered is freed.
    unsafe {
        let done = tell(name.as_ptr().cast_mut(), &mut answer);
        if !answer.is_null() {
            c::slurm_free_job_array_resp(answer);
        }
        match done {
            0 => Ok(()),
            _ => Err(failed(&format!("{what} job {job}"))),
        }
    }
}

/// Gives a job that may start the priority to do so. One that somebody holds meanwhile Slurm leaves held.
fn put_first(job: &CStr) {
    // SAFETY: as in `pin`.
    unsafe {
        let mut message: c::job_desc_msg_t = std::mem::zeroed();
        c::slurm_init_job_desc_msg(&mut message);
        message.job_id_str = job.as_ptr().cast_mut();
        message.priority = FIRST;
        let mut answer = null_mut();
        c::slurm_update_job2(&mut message, &mut answer);
        if !answer.is_null() {
            c::slurm_free_job_array_resp(answer);
        }
    }
}

/// Tells tasks of an array their node, and lets them go.
///
/// # Errors
/// What slurmctld answers.
pub fn pin(pin: &Pin) -> Result<(), CallFailed> {
    let (tasks, node) = (text::c_string(&pin.tasks), text::c_string(&pin.node));
    // SAFETY: zeroes are a valid structure, which Slurm's own initialisation then fills; it refers to the texts only for
    // the call, and what it answers is freed.
    unsafe {
        let mut message: c::job_desc_msg_t = std::mem::zeroed();
        c::slurm_init_job_desc_msg(&mut message);
        message.job_id_str = tasks.as_ptr().cast_mut();
        message.req_nodes = node.as_ptr().cast_mut();
        // A priority that Slurm chooses: it releases what is held.
        message.priority = c::INFINITE;
        let mut answer = null_mut();
        let done = c::slurm_update_job2(&mut message, &mut answer);
        if !answer.is_null() {
            c::slurm_free_job_array_resp(answer);
        }
        match done {
            0 => {
                put_first(&tasks);
                Ok(())
            }
            _ => Err(failed(&format!("tasks {} to node {}", pin.tasks, pin.node))),
        }
    }
}
