//! What Slurm says of jobs that have no commitment, and of memory: for [`libra_slurm::others`].

use crate::job::memory;
use crate::slurm as c;
use crate::text;
use crate::{CallFailed, failed};
use libra_slurm::array::{PREFIX, split};
use libra_slurm::records::{Memory, MemoryRule, OtherJob, Sharing};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// The bit of `SelectTypeParameters` for memory; its name is another one in later versions.
const COUNTS_MEMORY: u16 = 0x10;

/// How memory is counted, and when Slurm's partitions had changed last when that was asked: it changes with them, whenever slurm.conf is read.
static MEMORY: Mutex<Option<(MemoryRule, c::time_t)>> = Mutex::new(None);

/// How memory is counted. `changed`: when Slurm's partitions have changed last.
///
/// # Errors
/// When slurmctld does not answer.
pub(crate) fn memory_rule(changed: c::time_t) -> Result<MemoryRule, CallFailed> {
    let mut known = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((rule, _)) = known.filter(|(_, then)| *then == changed) {
        return Ok(rule);
    }
    let mut settings = null_mut();
    // SAFETY: on success Slurm hands over a structure that is ours to free.
    let rule = unsafe {
        if c::slurm_load_ctl_conf(0, &mut settings) != 0 || settings.is_null() {
            return Err(failed("the settings"));
        }
        let rule = MemoryRule {
            counted: (*settings).select_type_param & COUNTS_MEMORY != 0,
            default: default_memory((*settings).def_mem_per_cpu),
        };
        #[cfg(slurm_free_conf)]
        c::slurm_free_conf(settings);
        #[cfg(not(slurm_free_conf))]
        c::slurm_free_ctl_conf(settings);
        rule
    };
    *known = Some((rule, changed));
    Ok(rule)
}

/// A default of memory; Slurm has zero for none.
pub(crate) fn default_memory(value: u64) -> Option<Memory> {
    memory(value).filter(|memory| *memory != Memory::AllOfNode)
}

/// A job that has nodes, or has not left them yet, and nothing committed to it.
///
/// # Safety
/// A record that Slurm filled in.
pub(crate) unsafe fn other_job(job: &c::slurm_job_info_t) -> Option<OtherJob> {
    let base = job.job_state & c::JOB_STATE_BASE;
    let completing = job.job_state & c::JOB_COMPLETING != 0;
    let runs = matches!(base, c::JOB_RUNNING | c::JOB_SUSPENDED);
    if !runs && !completing {
        return None;
    }
    // SAFETY: fields are null or texts.
    let (comment, partition, nodes) = unsafe {
        (
            text::read(job.admin_comment).unwrap_or_default(),
            text::read(job.partition)?,
            text::read(job.nodes)?,
        )
    };
    // While it is completing its share is free, and what Slurm counts is not.
    if !completing && split(&comment).1.starts_with(PREFIX) {
        return None;
    }
    let nodes = text::hosts(&nodes);
    let count = job
        .num_nodes
        .max(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
    Some(OtherJob {
        user: job.user_id,
        partition,
        sharing: match u32::from(job.shared) {
            c::JOB_SHARED_OK => Sharing::Asked,
            c::JOB_SHARED_USER => Sharing::WithUser,
            more if more > c::JOB_SHARED_USER && more < u32::from(u16::MAX) - 1 => Sharing::WithFew,
            _ => Sharing::ByPartition,
        },
        nodes,
        processors: job.num_cpus.div_ceil(count.max(1)),
        memory: memory(job.pn_min_memory).unwrap_or(Memory::AllOfNode),
    })
}
