//! A job as it is being submitted or changed: Slurm's `job_desc_msg_t`.

use crate::slurm::{
    self as c, INFINITE, MEM_PER_CPU, NO_VAL, NO_VAL16, NO_VAL64, SLURM_VERSION_NUMBER,
    job_desc_msg_t,
};
use crate::text;
use libra_slurm::COMMITMENT_VARIABLE;
use libra_slurm::Change;
use libra_slurm::array::{beside, only_theirs};
use libra_slurm::controller::Accepted;
use libra_slurm::gres::GresAsked;
use libra_slurm::records::{FIRST, Memory};
use libra_slurm::submission::{Submission, is_option};
use std::cell::Cell;
use std::ffi::c_char;

/// Before the name of an option in a job's SPANK environment.
const OPTION: &str = "_SLURM_SPANK_OPTION_libra_";

/// Variables that only Libra sets begin so.
const OURS: &[u8] = b"LIBRA_";

/// What Slurm, or a plugin of Slurm's, has put or will put before the name of a variable on one of its ways: from a client's
/// environment into its job's, from there into that of the prolog (`SPANK_`, unless it is there already), and of tasks.
const PREFIXES: [&[u8]; 5] = [b"_", b"SLURM_", b"SPANK_", b"OPTION_", b"libra_"];

/// Returns true if it is a variable that only Libra sets, under whatever name it would arrive somewhere.
fn is_ours(entry: &[u8]) -> bool {
    let mut name = entry;
    loop {
        if name.starts_with(OURS) {
            return true;
        }
        match PREFIXES
            .iter()
            .find_map(|prefix| name.strip_prefix(*prefix))
        {
            Some(rest) => name = rest,
            None => return false,
        }
    }
}

/// A job that slurmctld shows.
pub struct JobDescriptor<'a>(&'a mut job_desc_msg_t);

fn set32(value: u32) -> Option<u32> {
    (value != NO_VAL && value != INFINITE).then_some(value)
}

fn set16(value: u16) -> Option<u32> {
    let value = u32::from(value);
    (value != NO_VAL16 && value != u32::from(u16::MAX)).then_some(value)
}

#[allow(clippy::unnecessary_cast)]
fn seconds(time: i64) -> Option<f64> {
    (time > 0 && time != i64::from(NO_VAL)).then_some(time as f64)
}

impl<'a> JobDescriptor<'a> {
    /// A job that Slurm hands over.
    ///
    /// # Safety
    /// `job` is null or a whole `job_desc_msg_t` of the Slurm this was built for, and nobody else uses it meanwhile.
    pub unsafe fn new(job: *mut job_desc_msg_t) -> Option<JobDescriptor<'a>> {
        // SAFETY: the caller's.
        unsafe { job.as_mut() }.map(JobDescriptor)
    }

    fn text(&self, field: *const c_char) -> Option<String> {
        // SAFETY: a field of this structure: null or a text.
        unsafe { text::read(field) }
    }

    /// What it asks for.
    pub fn submission(&self) -> Submission {
        let job = &*self.0;
        let too_long = Cell::new(false);
        // What is no list of hosts is the name of none.
        let hosts = |field| match self.text(field) {
            None => Vec::new(),
            Some(list) => match text::hosts_of_user(&list) {
                None => {
                    too_long.set(true);
                    Vec::new()
                }
                Some(none) if none.is_empty() => vec![list],
                Some(some) => some,
            },
        };
        let (required_nodes, excluded_nodes) = (hosts(job.req_nodes), hosts(job.exc_nodes));
        let mut not_judged = self.not_judged();
        if too_long.get() {
            not_judged.push("so many nodes by their names (--nodelist, --exclude)");
        }
        let generic = |field: *const c_char| self.text(field).filter(|text| text.contains("gres"));
        Submission {
            user: job.user_id,
            options: self.options(),
            comment: self.text(job.comment),
            deadline: seconds(job.deadline),
            time_limit: set32(job.time_limit),
            account: self.text(job.account),
            partition: self.text(job.partition),
            least_nodes: set32(job.min_nodes),
            tasks: set32(job.num_tasks),
            tasks_per_node: set16(job.ntasks_per_node).filter(|tasks| *tasks > 0),
            processors_per_task: set16(job.cpus_per_task),
            memory: memory(job.pn_min_memory),
            required_nodes,
            excluded_nodes,
            features: self.text(job.features),
            exclusive: set16(job.shared).is_some_and(|shared| shared != c::JOB_SHARED_OK),
            array: self.text(job.array_inx),
            begin: seconds(job.begin_time),
            dependency: self.text(job.dependency),
            held: job.priority == 0,
            component: set32(job.het_job_offset),
            without_session: job.alloc_sid == NO_VAL,
            gres: GresAsked {
                per_node: generic(job.tres_per_node),
                per_job: generic(job.tres_per_job),
                per_task: generic(job.tres_per_task),
            },
            licenses: self.text(job.licenses).filter(|text| !text.is_empty()),
            not_judged,
        }
    }

    fn options(&self) -> Vec<(String, String)> {
        // SAFETY: Slurm counts its own list.
        let list = unsafe { text::list(self.0.spank_job_env, self.0.spank_job_env_size) };
        (list.iter())
            .filter_map(|entry| entry.strip_prefix(OPTION)?.split_once('='))
            .filter(|(name, _)| is_option(name))
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    /// Options that ask for what has a queue of its own.
    fn not_judged(&self) -> Vec<&'static str> {
        let job = &*self.0;
        let asked = |field: *mut c_char| self.text(field).is_some_and(|text| !text.is_empty());
        let mut found = Vec::new();
        let mut add = |asked: bool, option| {
            if asked {
                found.push(option);
            }
        };
        add(asked(job.tres_per_socket), "--gpus-per-socket");
        // They say how many processors and how much memory it has, and where.
        add(asked(job.cpus_per_tres), "--cpus-per-gpu");
        add(asked(job.mem_per_tres), "--mem-per-gpu");
        add(
            set16(job.ntasks_per_tres).is_some_and(|tasks| tasks > 0),
            "--ntasks-per-gpu",
        );
        #[allow(clippy::unnecessary_cast)]
        add(
            job.bitflags & c::GRES_ENFORCE_BIND as u64 != 0,
            "--gres-flags=enforce-binding",
        );
        add(self.text(job.reservation).is_some(), "--reservation");
        add(self.text(job.burst_buffer).is_some(), "--bb");
        // It begins at times of its own, again and again.
        add(!job.crontab_entry.is_null(), "to begin by scrontab");
        add(
            set16(job.core_spec).is_some_and(|spec| spec > 0),
            "--core-spec",
        );
        // Clients set it by themselves for what each node needs by --cpus-per-task and --ntasks-per-node.
        let of_tasks = set16(job.cpus_per_task).unwrap_or(1).max(1)
            * set16(job.ntasks_per_node).unwrap_or(1).max(1);
        add(
            set16(job.pn_min_cpus).is_some_and(|least| least > of_tasks),
            "--mincpus",
        );
        add(
            set32(job.pn_min_tmp_disk).is_some_and(|disk| disk > 0),
            "--tmp",
        );
        found
    }

    /// Takes out what only Libra may say to a job's prolog, in every spelling, from a submission and from a change. That is not what
    /// keeps users from saying it: a step brings an environment of its own to a node, and slurmctld does not see it
    /// ([`libra_slurm::claim`]).
    pub fn strip(&mut self) {
        // SAFETY: Slurm counts its own list, of its own allocator.
        unsafe {
            text::take_out(
                self.0.spank_job_env,
                &mut self.0.spank_job_env_size,
                is_ours,
            )
        };
    }

    /// Takes out of the admin comment of a submission what would be taken for Libra's own. Only administrators and other plugins can have
    /// written it, and a plugin may have copied what a user says.
    pub fn disown(&mut self) {
        // SAFETY: a field of this structure, of Slurm's allocator.
        unsafe {
            let Some(comment) = text::read(self.0.admin_comment) else {
                return;
            };
            let theirs = only_theirs(&comment);
            if theirs.len() < comment.len() {
                text::replace(&mut self.0.admin_comment, theirs);
            }
        }
    }

    /// Changes the job to what was accepted.
    pub fn accept(&mut self, accepted: &Accepted) {
        let job = &mut *self.0;
        // SAFETY: fields of this structure, of Slurm's allocator.
        unsafe {
            text::replace(&mut job.partition, &accepted.partition);
            let theirs = text::read(job.admin_comment).unwrap_or_default();
            text::replace(
                &mut job.admin_comment,
                &beside(only_theirs(&theirs), &accepted.admin_comment),
            );
            if !accepted.nodes.is_empty() {
                text::replace(&mut job.req_nodes, &accepted.nodes.join(","));
            }
            text::append(
                &mut job.spank_job_env,
                &mut job.spank_job_env_size,
                &format!("{COMMITMENT_VARIABLE}={}", accepted.commitment),
            );
        }
        if let Some(gres) = &accepted.gres {
            // SAFETY: as above.
            unsafe {
                text::replace(&mut job.tres_per_node, gres);
                text::free(&mut job.tres_per_job);
            }
        }
        job.min_nodes = accepted.node_count;
        job.max_nodes = accepted.node_count;
        if let Some(tasks) = accepted
            .tasks_per_node
            .and_then(|tasks| u16::try_from(tasks).ok())
        {
            job.ntasks_per_node = tasks;
        }
        job.time_limit = accepted.time_limit;
        // Slurm would end the job at it, or shorten its time.
        job.deadline = 0;
        // What its user holds stays held.
        job.priority = match accepted.hold || job.priority == 0 {
            true => 0,
            false => FIRST,
        };
        if let Some(begin) = accepted.begin {
            self.begin_at(begin);
        }
    }

    /// It is to begin at this time, Unix time.
    pub fn begin_at(&mut self, begin: u64) {
        self.0.begin_time = begin.try_into().unwrap_or(c::time_t::MAX);
    }

    /// Keeps the job off these nodes.
    pub fn exclude(&mut self, nodes: &[String]) {
        let before = self.text(self.0.exc_nodes);
        let all: Vec<&str> = (before.iter().map(String::as_str))
            .chain(nodes.iter().map(String::as_str))
            .collect();
        // SAFETY: a field of this structure, of Slurm's allocator.
        unsafe { text::replace(&mut self.0.exc_nodes, &all.join(",")) };
    }

    /// The change that somebody asks for, where this is one.
    pub fn change(&self, by_administrator: bool) -> Change {
        let job = &*self.0;
        let mut committed_properties = Vec::new();
        let mut add = |asked: bool, what| {
            if asked {
                committed_properties.push(what);
            }
        };
        let some = |field: *mut c_char| !field.is_null();
        add(
            job.time_limit != NO_VAL || job.time_min != NO_VAL,
            "TimeLimit",
        );
        add(seconds(job.deadline).is_some(), "Deadline");
        add(seconds(job.end_time).is_some(), "EndTime");
        add(some(job.partition), "Partition");
        add(some(job.req_nodes) || some(job.exc_nodes), "NodeList");
        add(
            job.min_nodes != NO_VAL || job.max_nodes != NO_VAL,
            "NumNodes",
        );
        add(job.num_tasks != NO_VAL, "NumTasks");
        add(
            job.min_cpus != NO_VAL
                || job.max_cpus != NO_VAL
                || set16(job.cpus_per_task).is_some()
                || set16(job.pn_min_cpus).is_some(),
            "NumCPUs",
        );
        add(set16(job.ntasks_per_node).is_some(), "NtasksPerNode");
        add(memory(job.pn_min_memory).is_some(), "MinMemory");
        add(some(job.features) || some(job.cluster_features), "Features");
        add(
            some(job.tres_per_job)
                || some(job.tres_per_node)
                || some(job.tres_per_socket)
                || some(job.tres_per_task),
            "Gres",
        );
        add(some(job.licenses), "Licenses");
        add(some(job.reservation), "ReservationName");
        add(some(job.dependency), "Dependency");
        add(seconds(job.begin_time).is_some(), "StartTime");
        // Hold and release are nothing else.
        add(job.priority != NO_VAL, "Priority");
        add(some(job.array_inx), "ArrayTaskThrottle");
        Change {
            holds: job.priority == 0 || job.priority == INFINITE,
            begin: seconds(job.begin_time),
            // slurmctld writes it even where a number was given.
            job: self.text(job.job_id_str).unwrap_or_default(),
            by_administrator,
            committed_properties,
            // An empty one would wipe out what is committed.
            admin_comment: some(job.admin_comment)
                .then(|| self.text(job.admin_comment).unwrap_or_default()),
            comment: self.text(job.comment),
        }
    }
}

/// Memory as Slurm writes it; None if nothing is said.
#[allow(clippy::cast_sign_loss)]
pub(crate) fn memory(value: u64) -> Option<Memory> {
    let (unset, per_processor) = (NO_VAL64 as u64, MEM_PER_CPU as u64);
    if value == unset || value == u64::MAX {
        return None;
    }
    if value & !per_processor == 0 {
        return Some(Memory::AllOfNode);
    }
    Some(match value & per_processor {
        0 => Memory::PerNode(value),
        _ => Memory::PerProcessor(value & !per_processor),
    })
}

/// Hands a text to Slurm for the user, where there is a place for it.
///
/// # Safety
/// `place` is null or a place for a text of Slurm's allocator.
pub unsafe fn tell_user(place: *mut *mut c_char, words: &str) {
    // SAFETY: the caller's.
    if let Some(place) = unsafe { place.as_mut() } {
        // SAFETY: the caller's.
        unsafe { text::replace(place, words) };
    }
}

/// The version of Slurm that this was built for: 22.5.8.
pub fn version() -> String {
    let number = SLURM_VERSION_NUMBER;
    format!(
        "{}.{:02}.{}",
        number >> 16,
        number >> 8 & 0xff,
        number & 0xff
    )
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn our_names_are_known_in_every_spelling() {
        for ours in [
            "LIBRA_COMMITMENT=x",
            "LIBRA_DEADLINE=1",
            "SPANK_LIBRA_COMMITMENT=x",
            "SPANK_SPANK_LIBRA_COMMITMENT=x",
            "_SPANK_LIBRA_COMMITMENT=x",
            "SLURM_SPANK_LIBRA_COMMITMENT=x",
            "SLURM_SPANK_SPANK_LIBRA_COMMITMENT=x",
            "_SLURM_SPANK_OPTION_LIBRA_COMMITMENT=x",
            "_SLURM_SPANK_OPTION_libra_LIBRA_COMMITMENT=x",
            "SPANK__SLURM_SPANK_OPTION_libra_LIBRA_COMMITMENT=x",
            "SPANK_LIBRA_COMMITMENT",
        ] {
            assert!(is_ours(ours.as_bytes()), "{ours}");
        }
        for other in [
            "",
            "_SLURM_SPANK_OPTION_libra_budget=5",
            "SPANK__SLURM_SPANK_OPTION_libra_estimate=LIBRA_COMMITMENT",
            "SLURM_JOB_NAME=LIBRA_COMMITMENT",
            "MY_LIBRA_COMMITMENT=x",
            "SPANK_X=SPANK_LIBRA_COMMITMENT",
            "LIBRARY_PATH=/lib",
        ] {
            assert!(!is_ours(other.as_bytes()), "{other}");
        }
    }
}
