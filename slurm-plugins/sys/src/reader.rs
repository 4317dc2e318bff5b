//! Slurm's own records of jobs, nodes and partitions, read by the same remote calls as squeue and sinfo use.
//!
//! Each call says when it was answered last, and slurmctld answers that nothing has changed since, which costs it next to nothing. It knows of
//! all jobs at once, of all nodes and of all partitions, and of whole seconds: what changed in the second of the last answer is told again.
//!
//! Not all that changes counts as a change to it: a dependency that is met (jobs that wait for that are asked for each time), the nodes of a partition
//! when nodes come and go (asked for again then), and whatever happens while its clock is behind. So all is read anew every now and then, and where
//! the clock has gone back.

use crate::job_info::{self, Times, free_jobs};
use crate::others::default_memory;
use crate::others::{Settings, other_job};
use crate::slurm::{self as c, NO_VAL};
use crate::text;
use crate::{CallFailed, changed};
use libra_slurm::gres::Gres;
use libra_slurm::records::{Node, Partition, Records};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

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

/// What slurmctld has said so far, and when.
#[derive(Default)]
pub struct Reader {
    records: Records,
    /// Of each job, in their order.
    times: Vec<Times>,
    settings: Settings,
    /// Jobs are read with the GRES that each has on its nodes: only where nodes have any does it cost slurmctld something to say so.
    in_detail: bool,
    jobs_read: c::time_t,
    nodes_read: c::time_t,
    partitions_read: c::time_t,
    /// When all was read.
    whole: Option<Instant>,
}

/// All is read anew so often, changed or not.
const WHOLE: Duration = Duration::from_secs(30);

impl Reader {
    /// Everything, as it is now. `taken`: Unix time, of just before the call.
    ///
    /// # Errors
    /// When slurmctld does not answer. All is read anew the next time.
    pub fn read(&mut self, taken: f64) -> Result<&Records, CallFailed> {
        let is_old = self.whole.is_none_or(|whole| whole.elapsed() >= WHOLE);
        if is_old || taken < self.records.taken {
            *self = Reader {
                in_detail: self.in_detail,
                whole: Some(Instant::now()),
                ..Reader::default()
            };
        }
        if let Err(error) = self.follow() {
            *self = Reader::default();
            return Err(error);
        }
        self.records.taken = taken;
        for (job, times) in self.records.jobs.iter_mut().zip(&self.times) {
            times.tell(job, taken);
        }
        Ok(&self.records)
    }

    fn follow(&mut self) -> Result<(), CallFailed> {
        self.follow_jobs()?;
        self.follow_nodes()?;
        let has_gres = self.records.nodes.iter().any(|node| !node.gres.is_empty());
        if has_gres && !self.in_detail {
            (self.in_detail, self.jobs_read, self.nodes_read) = (true, 0, 0);
            self.follow_jobs()?;
            self.follow_nodes()?;
        }
        self.follow_partitions()?;
        self.settings.follow()?;
        self.records.memory = self.settings.memory;
        self.records.state.clone_from(&self.settings.state);
        self.records.licenses = self.settings.free_licenses();
        Ok(())
    }

    /// All jobs, again those that have nodes and no commitment, and what others have in the admin comments of those that have one.
    fn follow_jobs(&mut self) -> Result<(), CallFailed> {
        let mut message = null_mut();
        let flags = match self.in_detail {
            true => c::SHOW_ALL | c::SHOW_DETAIL,
            false => c::SHOW_ALL,
        };
        if self.records.jobs.iter().any(|job| job.deferred.is_some()) {
            self.jobs_read = 0;
        }
        // SAFETY: on success Slurm hands over a message that is ours to free.
        unsafe {
            let code = c::slurm_load_jobs(self.jobs_read, &mut message, flags as u16);
            let Some(message) = changed(code, message, "the jobs")? else {
                return Ok(());
            };
            let count = (*message).record_count as usize;
            let all = || (0..count).map(|place| &*(*message).job_array.add(place));
            (self.records.jobs, self.times) = all().map(|record| job_info::job(record)).unzip();
            self.records.others = all().filter_map(|record| other_job(record)).collect();
            self.records.beside = all().flat_map(|record| job_info::beside(record)).collect();
            self.jobs_read = (*message).last_update;
            free_jobs(message);
        }
        Ok(())
    }

    fn follow_nodes(&mut self) -> Result<(), CallFailed> {
        let mut message = null_mut();
        // SAFETY: as in `follow_jobs`.
        unsafe {
            let code = c::slurm_load_node(self.nodes_read, &mut message, c::SHOW_ALL as u16);
            let Some(message) = changed(code, message, "the nodes")? else {
                return Ok(());
            };
            let count = (*message).record_count as usize;
            let nodes: Vec<Node> = (0..count)
                .filter_map(|place| node(&*(*message).node_array.add(place)))
                .collect();
            let names = nodes.iter().map(|node| &node.name);
            if names.ne(self.records.nodes.iter().map(|node| &node.name)) {
                self.partitions_read = 0;
            }
            self.records.nodes = nodes;
            self.nodes_read = (*message).last_update;
            c::slurm_free_node_info_msg(message);
        }
        Ok(())
    }

    fn follow_partitions(&mut self) -> Result<(), CallFailed> {
        let mut message = null_mut();
        // SAFETY: as in `follow_jobs`.
        unsafe {
            let code =
                c::slurm_load_partitions(self.partitions_read, &mut message, c::SHOW_ALL as u16);
            let Some(message) = changed(code, message, "the partitions")? else {
                return Ok(());
            };
            let count = (*message).record_count as usize;
            self.records.partitions = (0..count)
                .filter_map(|place| partition(&*(*message).partition_array.add(place)))
                .collect();
            self.partitions_read = (*message).last_update;
            c::slurm_free_partition_info_msg(message);
        }
        Ok(())
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
        answers: node.node_state & c::NODE_STATE_NO_RESPOND == 0 && base != c::NODE_STATE_DOWN,
        up_since: node.slurmd_start_time as f64,
        features: (active.or(features).unwrap_or_default().split(','))
            .filter(|feature| !feature.is_empty())
            .map(str::to_string)
            .collect(),
        gres: Gres::list(&gres),
    })
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
