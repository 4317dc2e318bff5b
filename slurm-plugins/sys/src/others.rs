//! What Slurm says of jobs that have no commitment, of memory and of licences: for [`libra_slurm::others`].

use crate::job::memory;
use crate::slurm as c;
use crate::text;
use crate::{CallFailed, changed};
use libra_slurm::array::{PREFIX, split};
use libra_slurm::gres::{self, Gres};
use libra_slurm::records::{Memory, MemoryRule, OtherJob, Sharing};
use std::ptr::null_mut;

/// The bit of `SelectTypeParameters` for memory; its name is another one in later versions.
const COUNTS_MEMORY: u16 = 0x10;

/// What Slurm says of the whole cluster, as it was read last.
#[derive(Default)]
pub(crate) struct Settings {
    /// How memory is counted.
    pub(crate) memory: MemoryRule,
    /// StateSaveLocation.
    pub(crate) state: String,
    /// The cluster's own licences.
    licenses: Vec<(String, u64)>,
    /// Those that reservations keep, of all that Slurm knows, those to come as well.
    reserved: Vec<(String, u64)>,
    read: c::time_t,
    reservations_read: c::time_t,
}

impl Settings {
    /// Reads what has changed.
    ///
    /// # Errors
    /// When slurmctld does not answer.
    pub(crate) fn follow(&mut self) -> Result<(), CallFailed> {
        self.follow_configuration()?;
        match self.licenses.is_empty() {
            true => Ok(()),
            false => self.follow_reservations(),
        }
    }

    fn follow_configuration(&mut self) -> Result<(), CallFailed> {
        let mut settings = null_mut();
        // SAFETY: on success Slurm hands over a structure that is ours to free.
        unsafe {
            let code = c::slurm_load_ctl_conf(self.read, &mut settings);
            let Some(settings) = changed(code, settings, "the settings")? else {
                return Ok(());
            };
            let licenses = text::read((*settings).licenses).unwrap_or_default();
            self.memory = MemoryRule {
                counted: (*settings).select_type_param & COUNTS_MEMORY != 0,
                default: default_memory((*settings).def_mem_per_cpu),
            };
            self.licenses = gres::licenses(&licenses).unwrap_or_default();
            self.state = text::read((*settings).state_save_location).unwrap_or_default();
            self.read = (*settings).last_update;
            #[cfg(slurm_free_conf)]
            c::slurm_free_conf(settings);
            #[cfg(not(slurm_free_conf))]
            c::slurm_free_ctl_conf(settings);
        }
        Ok(())
    }

    fn follow_reservations(&mut self) -> Result<(), CallFailed> {
        let mut message = null_mut();
        // SAFETY: on success Slurm hands over a message that is ours to free.
        unsafe {
            let code = c::slurm_load_reservations(self.reservations_read, &mut message);
            let Some(message) = changed(code, message, "the reservations")? else {
                return Ok(());
            };
            let count = (*message).record_count as usize;
            self.reserved = (0..count)
                .filter_map(|place| text::read((*(*message).reservation_array.add(place)).licenses))
                .filter_map(|text| gres::licenses(&text))
                .flatten()
                .collect();
            self.reservations_read = (*message).last_update;
            c::slurm_free_reservation_info_msg(message);
        }
        Ok(())
    }

    /// The cluster's licences without those that are kept for reservations: Slurm gives these to no other job that could still run then, and Libra
    /// keeps them from all.
    pub(crate) fn free_licenses(&self) -> Vec<(String, u64)> {
        let mut licenses = self.licenses.clone();
        for (name, kept) in &self.reserved {
            for (_, count) in licenses.iter_mut().filter(|(known, _)| known == name) {
                *count = count.saturating_sub(*kept);
            }
        }
        licenses
    }
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
    // While it is completing Slurm has given its GRES back, and not yet its licences.
    // SAFETY: null or a text; the caller's.
    let (licenses, gres) = unsafe { (text::read(job.licenses), gres_of(job)) };
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
        gres,
        licenses: (licenses.as_deref().and_then(gres::licenses)).unwrap_or_default(),
    })
}

/// The GRES that a job has on each of its nodes, as Slurm says in detail of those that run.
///
/// # Safety
/// A record that Slurm filled in.
unsafe fn gres_of(job: &c::slurm_job_info_t) -> Vec<Vec<Gres>> {
    if job.gres_detail_str.is_null() {
        return Vec::new();
    }
    // SAFETY: Slurm counts its own list of texts.
    let one = |place: usize| unsafe { text::read(*job.gres_detail_str.add(place)) };
    (0..job.gres_detail_cnt as usize)
        .map(|place| Gres::list(&one(place).unwrap_or_default()))
        .collect()
}
