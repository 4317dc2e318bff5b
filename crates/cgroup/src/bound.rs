//! Processors that a batch system has picked for a job, and why a job with a share is let off them.
//!
//! Slurm keeps a job to processors that it has picked by how many jobs are on each (`ConstrainCores` of cgroup.conf, by cpusets; `task/affinity`, by
//! the mask of each process). Shares are of all processors of a node together: two large ones may meet on one processor while another is idle, and then neither
//! gets what it was promised. So a job that is held to a share runs on all processors that Slurm has on this host, unless it has all whole ones of them.
//!
//! Where a process is says the kernel. On version 1 Slurm's directories are `…/uid_1000/job_12/step_0`, each with processors of its own, of which the one above
//! has more: the process is taken to the one above them all. They stay as they are, for Slurm writes them at each step and ends the step where it cannot, and it finds
//! a job's processes by another hierarchy; where cpusets are mounted together with another controller nobody is let off, for the process would leave that too. On version 2, where a process is in one
//! group for everything, the directories below `…slurmstepd.scope` get the processors of the scope (the kernel takes no empty line where processes are); what Slurm makes later (a step) has its own again, so each
//! task is let off.
//!
//! Invariants: only a process below Slurm's own directories is let off, and it stays below Slurm's top one; nothing is changed but which processors it has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::detect::{Mount, mount_table, mounts_of};
use super::error::Error;
use super::external::is_scope;
use super::processes::has_ended;
use super::v1::CPUS;

/// The processors that a directory has, of its own or by those above it (version 2).
const EFFECTIVE: &str = "cpuset.cpus.effective";

/// Processes of a directory, a line each.
const MEMBERS: &str = "cgroup.procs";

/// What a directory of a user's jobs begins with, on version 1.
const USER: &str = "uid_";

/// Lets a process that is about to be a task of a job run on all processors that its batch system has here. Returns true if it was kept to some of them.
///
/// # Errors
/// When the kernel refuses it; a process that has ended is none.
pub fn let_off(pid: i32) -> Result<bool, Error> {
    let read = |path: PathBuf| match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &path, None, error)),
    };
    let Some(groups) = read(PathBuf::from(format!("/proc/{pid}/cgroup")))? else {
        return Ok(false);
    };
    let table = Path::new("/proc/self/mountinfo");
    let mountinfo = mount_table(table).map_err(|e| Error::io("read", table, None, e))?;
    widen(pid, &groups, &mounts_of(&mountinfo))
}

/// Lets this process run on all processors that its cpuset has, whatever mask it was given.
///
/// # Errors
/// When the kernel refuses it.
pub fn let_run_anywhere() -> io::Result<()> {
    let mut all = CpuSet::new();
    for processor in 0..CpuSet::count() {
        all.set(processor)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &all)?)
}

fn widen(pid: i32, groups: &str, mounts: &[Mount]) -> Result<bool, Error> {
    let on_v1 = mounts.iter().find(|mount| mount.has("cpuset"));
    let on_v2 = mounts.iter().find(|mount| mount.v2);
    let mut was_kept = false;
    if let (Some(mount), Some(path)) = (on_v1, path_of(groups, "cpuset")) {
        if let Some(above) = above_users(path) {
            was_kept = write(&mount.point.join(above).join(MEMBERS), &pid.to_string())?;
        }
    } else if let (Some(mount), Some(path)) = (on_v2, path_of(groups, "")) {
        let theirs = below_scope(path);
        let scope = theirs.first().and_then(|job| job.parent());
        let Some(all) = scope.and_then(|scope| line(&mount.point.join(scope).join(EFFECTIVE)))
        else {
            return Ok(false);
        };
        for directory in theirs {
            let file = mount.point.join(directory).join(CPUS);
            // One without a line has what is above it.
            let is_kept = line(&file).is_some_and(|there| !there.is_empty() && there != all);
            was_kept |= is_kept && write(&file, &all)?;
        }
    }
    Ok(was_kept)
}

/// The path of a process's group in the hierarchy of this controller alone, below its top; that of version 2 has no controller's name. One that leads up is of another namespace and
/// means nothing here.
fn path_of<'a>(groups: &'a str, controller: &str) -> Option<&'a Path> {
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        (controllers == controller).then_some(path)
    })?;
    (!path.split('/').any(|name| name == "..")).then(|| Path::new(path.trim_start_matches('/')))
}

/// On version 1: the directory that has all of Slurm's processors, above that of a user's jobs.
fn above_users(path: &Path) -> Option<&Path> {
    let is_users = |directory: &&Path| {
        let name = directory.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(USER));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    path.ancestors().find(is_users).and_then(Path::parent)
}

/// On version 2: the directories of the job, the step and what is below, the outermost first.
fn below_scope(path: &Path) -> Vec<&Path> {
    let is_scopes = |directory: &&Path| {
        let name = directory.file_name().and_then(|name| name.to_str());
        name.is_some_and(is_scope)
    };
    let Some(scope) = path.ancestors().find(is_scopes) else {
        return Vec::new();
    };
    let mut found: Vec<&Path> = (path.ancestors()).take_while(|at| *at != scope).collect();
    found.reverse();
    found
}

/// What a file says; None if it is not there.
fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_string())
}

/// Returns false where it is gone, the file or the process.
fn write(path: &Path, line: &str) -> Result<bool, Error> {
    match fs::write(path, format!("{line}\n")) {
        Ok(()) => Ok(true),
        Err(e) => match Error::io("write", path, Some(line), e) {
            error if error.is_gone() || has_ended(&error) => Ok(false),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(top: &Path, version: &str) -> Vec<Mount> {
        mounts_of(&format!("34 31 0:31 / {} rw - {version}\n", top.display()))
    }

    #[test]
    fn on_version_1_it_is_taken_to_slurms_own() {
        let dir = tempfile::tempdir().unwrap();
        let job = "slurm_n1/uid_7/job_12";
        let step = dir.path().join(job).join("step_batch");
        fs::create_dir_all(&step).unwrap();
        let mounts = mounted(dir.path(), "cgroup cgroup rw,cpuset");
        let there = |at: &Path| fs::read_to_string(at.join(MEMBERS)).ok();
        // Whoever is elsewhere is left alone.
        for elsewhere in [
            "3:cpuset:/\n",
            "3:cpuset:/slurm_n1\n",
            "3:cpuset:/uid_me/job_13\n",
            "3:cpuset:/../uid_7/job_13\n",
            "4:cpu:/slurm_n1/uid_7/job_12\n",
        ] {
            assert!(!widen(5, elsewhere, &mounts).unwrap(), "{elsewhere}");
        }
        assert_eq!(there(&dir.path().join("slurm_n1")), None);
        let groups = format!("4:cpu:/x\n3:cpuset:/{job}/step_batch\n");
        assert!(widen(5, &groups, &mounts).unwrap());
        assert_eq!(there(&dir.path().join("slurm_n1")).as_deref(), Some("5\n"));
        assert_eq!(there(&step), None);
        // Gone meanwhile.
        assert!(!widen(5, "3:cpuset:/gone/uid_7/job_12/step_0\n", &mounts).unwrap());
        // Together with what Slurm finds and counts its jobs by.
        let together = mounted(dir.path(), "cgroup cgroup rw,cpuset,cpuacct");
        assert!(!widen(5, &groups.replace("cpuset", "cpuset,cpuacct"), &together).unwrap());
    }

    #[test]
    fn on_version_2_a_job_has_what_is_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let scope = "system.slice/n1_slurmstepd.scope";
        let task = format!("{scope}/job_12/step_0/user/task_0");
        fs::create_dir_all(dir.path().join(&task)).unwrap();
        let made: Vec<String> = (["", "/job_12", "/job_12/step_0", "/job_13"].iter())
            .map(|below| format!("{scope}{below}"))
            .collect();
        for directory in &made {
            fs::create_dir_all(dir.path().join(directory)).unwrap();
            fs::write(dir.path().join(directory).join(CPUS), "3\n").unwrap();
        }
        let found = || -> Vec<String> {
            let line = |at| fs::read_to_string(dir.path().join(at).join(CPUS)).unwrap();
            (made.iter())
                .map(|at| line(at).trim().to_string())
                .collect()
        };
        let mounts = mounted(dir.path(), "cgroup2 cgroup rw");
        let groups = format!("0::/{task}\n");
        assert!(!widen(5, "0::/user.slice/job_13\n", &mounts).unwrap());
        assert!(!widen(5, &groups, &mounts).unwrap(), "no controller");
        assert_eq!(found(), ["3", "3", "3", "3"]);
        fs::write(dir.path().join(scope).join(EFFECTIVE), "0-5\n").unwrap();
        assert!(widen(5, &groups, &mounts).unwrap());
        assert_eq!(found(), ["3", "0-5", "0-5", "3"]);
        assert!(!widen(5, &groups, &mounts).unwrap(), "once");
    }
}
