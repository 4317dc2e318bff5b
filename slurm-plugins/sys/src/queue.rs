//! Slurm's own records, read by the same remote calls as squeue and sinfo use.

use crate::others::{default_memory, other_job, settings};
use crate::slurm::{self as c, NO_VAL};
use crate::text;
use crate::{CallFailed, failed};
use libra_accounts::settlement::HowEnded;
use libra_slurm::array::{ArrayTasks, split};
use libra_slurm::claim::{ControllerRecord, JobRecord};
use libra_slurm::gres::Gres;
use libra_slurm::poll::Pin;
use libra_slurm::records::{FIRST, Rewrite};
use libra_slurm::records::{Node, OtherJob, Partition, Records, SlurmJob, State, WaitingFor};
use libra_slurm::waiting::asked_begin;
use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    // Of libslurm's plugin interface; slurm.h does not declare them.
    fn slurm_bit_test(bits: *mut c::bitstr_t, bit: i64) -> c_int;
    fn slurm_bit_size(bits: *mut c::bitstr_t) -> i64;
}

/// Nodes in these states take no jobs.
const CLOSED: u32 = c::NODE_STATE_DRAIN
    | c::NODE_STATE_NO_RESPOND
    | c::NODE_STATE_FAIL
    | c::NODE_STATE_MAINT
    | c::NODE_STATE_RES
    | c::NODE_STATE_POWERED_DOWN
    | c::NODE_STATE_POWERING_DOWN
    | c::NODE_STATE_POWERING_UP
    | c::NODE_STATE_POWER_DOWN
    | c::NODE_STATE_REBOOT_ISSUED
    | c::NODE_STATE_INVALID_REG;

/// A job that may begin within so many seconds does not wait: Slurm's times are whole ones.
const SOON: f64 = 5.0;

/// Reads everything. `taken`: Unix time, of just before the call.
///
/// # Errors
/// When slurmctld does not answer.
pub fn read(taken: f64) -> Result<Records, CallFailed> {
    let (mut all, mut nodes) = (jobs(taken)?, nodes()?);
    // Only where there are any does it cost slurmctld something to say who has which.
    let has_gres = nodes.iter().any(|node| !node.gres.is_empty());
    if has_gres && !IN_DETAIL.swap(true, Ordering::Relaxed) {
        (all, nodes) = (jobs(taken)?, self::nodes()?);
    }
    let (jobs, others, beside) = all;
    let (partitions, changed) = partitions()?;
    let settings = settings(changed)?;
    Ok(Records {
        taken,
        jobs,
        nodes,
        partitions,
        others,
        memory: settings.memory,
        licenses: settings.free_licenses()?,
        beside,
    })
}

/// Whether jobs are read with the GRES that each has on its nodes.
static IN_DETAIL: AtomicBool = AtomicBool::new(false);

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

/// Gives jobs back. Slurm's own function forgets some of their texts: comments and features in 22.05, ports that are reserved in 24.05 to 25.11.3, licences in 25.05 to
/// 25.11.3; and each poll of the queue would leave those of all jobs behind in slurmctld. A Slurm that does not forget them finds none.
///
/// # Safety
/// A message with jobs that Slurm has handed over; nobody uses it afterwards.
unsafe fn free_jobs(message: *mut c::job_info_msg_t) {
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

type Jobs = (Vec<SlurmJob>, Vec<OtherJob>, HashMap<u32, String>);

/// All jobs, again those that have nodes and no commitment, and what others have in the admin comments of those that have one.
fn jobs(taken: f64) -> Result<Jobs, CallFailed> {
    let mut message = null_mut();
    let flags = match IN_DETAIL.load(Ordering::Relaxed) {
        true => c::SHOW_ALL | c::SHOW_DETAIL,
        false => c::SHOW_ALL,
    };
    // SAFETY: on success Slurm hands over a message that is ours to free.
    unsafe {
        if c::slurm_load_jobs(0, &mut message, flags as u16) != 0 || message.is_null() {
            return Err(failed("the jobs"));
        }
        let count = (*message).record_count as usize;
        let all = || (0..count).map(|place| &*(*message).job_array.add(place));
        let jobs: Vec<SlurmJob> = all().filter_map(|record| job(record, taken)).collect();
        let others = all().filter_map(|record| other_job(record)).collect();
        let beside = all().flat_map(|record| beside(record)).collect();
        free_jobs(message);
        Ok((jobs, others, beside))
    }
}

/// # Safety
/// A record that Slurm filled in.
unsafe fn job(job: &c::slurm_job_info_t, taken: f64) -> Option<SlurmJob> {
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
    let begin = job.eligible_time as f64;
    let asked_begin = asked_begin(begin, taken).filter(|_| ours);
    // SAFETY: as above.
    let deferred = (state == State::Pending && libra_slurm::array::is_deferred(&comment))
        .then(|| Box::new(unsafe { waiting_for(job, asked_begin.unwrap_or(begin)) }));
    Some(SlurmJob {
        id: job.job_id,
        array,
        state,
        // Of jobs that are not ours only the number matters.
        nodes: match (ours && state == State::Running, nodes) {
            (true, Some(nodes)) => text::hosts(&nodes),
            _ => Vec::new(),
        },
        admin_comment: comment,
        comment: users.filter(|_| ours).unwrap_or_default(),
        held: job.priority == 0,
        // Slurm takes out of the dependency what is met.
        waits: job.priority == 0
            || (asked_begin.is_none() && begin > taken + SOON)
            || dependency.is_some(),
        kept: asked_begin.is_some(),
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
        ran: ran(job, taken),
        user: job.user_id,
        component: job.het_job_id != 0,
    })
}

/// What others have in the admin comment of a job of Libra's, under its number and that of its array.
///
/// # Safety
/// A record that Slurm filled in.
unsafe fn beside(job: &c::slurm_job_info_t) -> Vec<(u32, String)> {
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

/// What a job whose promise is deferred waits for. `begin`: when its user lets it start.
///
/// # Safety
/// A record that Slurm filled in.
unsafe fn waiting_for(job: &c::slurm_job_info_t, begin: f64) -> WaitingFor {
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
        begin,
        // Another type in each version of Slurm.
        #[allow(clippy::unnecessary_cast)]
        never: job.state_reason as u32 == c::WAIT_DEP_INVALID as u32,
        partition,
        required_nodes: hosts(required),
        excluded_nodes: hosts(excluded),
        features,
    }
}

/// Seconds since its start in which it was not suspended. `pre_sus_time` is what it had run when it was last suspended or
/// went on, `suspend_time` when that was.
fn ran(job: &c::slurm_job_info_t, taken: f64) -> f64 {
    let base = job.job_state & c::JOB_STATE_BASE;
    let until = match base {
        c::JOB_PENDING => return 0.0,
        c::JOB_SUSPENDED => return job.pre_sus_time as f64,
        c::JOB_RUNNING => taken,
        _ => job.end_time as f64,
    };
    let (before, since) = match job.suspend_time {
        0 => (0.0, job.start_time as f64),
        changed => (job.pre_sus_time as f64, changed as f64),
    };
    (before + until - since).max(0.0)
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

fn nodes() -> Result<Vec<Node>, CallFailed> {
    let mut message = null_mut();
    // SAFETY: as in `jobs`.
    unsafe {
        if c::slurm_load_node(0, &mut message, c::SHOW_ALL as u16) != 0 || message.is_null() {
            return Err(failed("the nodes"));
        }
        let count = (*message).record_count as usize;
        let nodes = (0..count)
            .filter_map(|place| node(&*(*message).node_array.add(place)))
            .collect();
        c::slurm_free_node_info_msg(message);
        Ok(nodes)
    }
}

/// # Safety
/// A record that Slurm filled in.
unsafe fn node(node: &c::node_info_t) -> Option<Node> {
    let base = node.node_state & c::NODE_STATE_BASE;
    let open = matches!(
        base,
        c::NODE_STATE_IDLE | c::NODE_STATE_ALLOCATED | c::NODE_STATE_MIXED
    );
    let processors = match node.cpus_efctv {
        0 => node.cpus,
        effective => effective,
    };
    // SAFETY: fields are null or texts.
    let (name, active, features, gres) = unsafe {
        (
            text::read(node.name)?,
            text::read(node.features_act),
            text::read(node.features),
            text::read(node.gres).unwrap_or_default(),
        )
    };
    Some(Node {
        name,
        processors: u32::from(processors),
        memory: node.real_memory.saturating_sub(node.mem_spec_limit),
        up: open && node.node_state & CLOSED == 0,
        unknown: base == c::NODE_STATE_UNKNOWN,
        features: (active.or(features).unwrap_or_default().split(','))
            .filter(|feature| !feature.is_empty())
            .map(str::to_string)
            .collect(),
        gres: Gres::list(&gres),
    })
}

/// All partitions, and when one of them has changed last.
fn partitions() -> Result<(Vec<Partition>, c::time_t), CallFailed> {
    let mut message = null_mut();
    // SAFETY: as in `jobs`.
    unsafe {
        if c::slurm_load_partitions(0, &mut message, c::SHOW_ALL as u16) != 0 || message.is_null() {
            return Err(failed("the partitions"));
        }
        let count = (*message).record_count as usize;
        let partitions = (0..count)
            .filter_map(|place| partition(&*(*message).partition_array.add(place)))
            .collect();
        let changed = (*message).last_update;
        c::slurm_free_partition_info_msg(message);
        Ok((partitions, changed))
    }
}

/// # Safety
/// A record that Slurm filled in.
unsafe fn partition(partition: &c::partition_info_t) -> Option<Partition> {
    let share = u32::from(partition.max_share);
    // SAFETY: fields are null or texts.
    let (name, nodes) = unsafe { (text::read(partition.name)?, text::read(partition.nodes)) };
    Some(Partition {
        name,
        nodes: nodes.map_or_else(Vec::new, |nodes| text::hosts(&nodes)),
        shared: share & c::SHARED_FORCE != 0,
        jobs_per_processor: (share & !c::SHARED_FORCE).max(1),
        longest: (partition.max_time != c::INFINITE && partition.max_time != NO_VAL)
            .then_some(partition.max_time),
        default: u64::from(partition.flags) & u64::from(c::PART_FLAG_DEFAULT) != 0,
        up: u32::from(partition.state_up) & c::PARTITION_UP == c::PARTITION_UP,
        one_user: u64::from(partition.flags) & u64::from(c::PART_FLAG_EXCLUSIVE_USER) != 0,
        default_memory: default_memory(partition.def_mem_per_cpu),
    })
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
