//! Groups that a batch system made for its jobs, held to a share where they are.
//!
//! On version 2 a process is in one group for everything. A batch system that keeps its jobs' processes in groups of its
//! own finds, signals and counts them there, so taking them away would leave it unable to end a job. Such a group
//! is adopted: its limits are written and nothing else; no process is put in, killed or moved, and whoever made it
//! removes it.
//!
//! Slurm's (its plugin cgroup/v2) are `…/slurmstepd.scope/job_12/step_0/user/task_0`, and the one adopted is the directory between the
//! scope and the step's, whatever it is called: `job_12`, from 26.05 on the job's SLUID. Which one it is says the kernel, by where the
//! process is that is about to be the job's task; a name is only looked at to refuse another job's. It goes
//! with the job's last step, before the epilog, and another of the same name may come with the next: what was
//! used in it is noted while it is there.
//!
//! Invariants: the path must name this very job, or lie where only a task of it can be; a process in any other group of Slurm's steps
//! is never moved; a group that is gone is no error; given back, a group has no limit.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::detect::Role;
use super::enforcer::Enforcer;
use super::error::Error;
use super::external::is_scope;
use super::group::Group;
use super::record::{Adopted, DirectoryRecord, GroupRecord};
use super::settings::Version;
use super::v2;

impl Enforcer {
    /// The external group, one that Slurm made for this job, that this process is in. None on version 1, where a process may be
    /// in a group of ours beside.
    ///
    /// # Errors
    /// When the process says that it is in one, and it is not there; or is in a group of Slurm's that cannot be told to be this
    /// job's ([`Error::NotItsJobs`]): it must stay there, or Slurm would wait for the job's end for ever.
    pub fn external_group(&self, job: &str, pid: i32) -> Result<Option<DirectoryRecord>, Error> {
        if self.version() != Version::V2 {
            return Ok(None);
        }
        let path = PathBuf::from(format!("/proc/{pid}/cgroup"));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) => {
                return match Error::io("read", &path, None, e) {
                    // It has ended.
                    Error::Gone { .. } => Ok(None),
                    error => Err(error),
                };
            }
        };
        let Some(mount) = self.mount() else {
            return Ok(None);
        };
        let below = match owner_of(&text, job) {
            GroupOwner::OfJob(below) => below,
            GroupOwner::Free => return Ok(None),
            GroupOwner::OfSlurm(path) => {
                return Err(Error::NotItsJobs {
                    path,
                    job: job.to_string(),
                });
            }
        };
        DirectoryRecord::find(&mount.join(below), &[Role::Cpu, Role::Accounting]).map(Some)
    }

    /// Adopts an external group for a job that has used so many processor seconds elsewhere. Nothing is written into it yet.
    ///
    /// # Errors
    /// When it is gone, or has no cpu controller and its parents cannot safely be given it.
    pub fn adopt(&self, directory: DirectoryRecord, used: f64) -> Result<Group, Error> {
        let path = directory.path.clone();
        let name = path.file_name().unwrap_or_default();
        let mut record = GroupRecord {
            name: name.to_string_lossy().into_owned(),
            version: Version::V2,
            capacity: 1.0,
            directories: vec![directory],
            adopted: Some(Adopted {
                offset: 0.0,
                seen: used,
            }),
        };
        let open = |record: &GroupRecord| {
            let group = self.reopen(record)?;
            group.ok_or_else(|| Error::Gone { path: path.clone() })
        };
        let counted = open(&record)?.counted()?.unwrap_or(0.0);
        record.adopted = Some(Adopted {
            offset: used - counted,
            seen: used,
        });
        open(&record)
    }

    /// Gives it the files of the cpu controller where they are missing, from the top down.
    pub(super) fn furnish_adopted(&self, directory: &DirectoryRecord) -> Result<(), Error> {
        if directory.path.join(v2::WEIGHT).exists() {
            return Ok(());
        }
        let Some(mount) = self.mount() else {
            return Ok(());
        };
        let mut above: Vec<&Path> = (directory.path.ancestors().skip(1))
            .take_while(|a| a.starts_with(mount))
            .collect();
        above.reverse();
        for at in above {
            v2::refuse_occupied(at, "cpu")?;
            v2::hand_on(at, "cpu")?;
        }
        Ok(())
    }
}

/// Whose a process's group is, from /proc/PID/cgroup.
#[derive(Debug, PartialEq, Eq)]
enum GroupOwner {
    /// In the directory of this job, below the mount.
    OfJob(PathBuf),
    /// In a group of Slurm's steps, and whose it is cannot be told: nobody may take it away.
    OfSlurm(PathBuf),
    /// Elsewhere.
    Free,
}

/// Where a process is that is about to be a task of this job. The innermost directory counts: a Slurm may run in a job of another.
///
/// Slurm's steps are below a scope of its own, `…/slurmstepd.scope` with the node's name before it, and the job's directory
/// is the one between it and the step's. Its name is Slurm's matter (`job_12`, an SLUID), but never that of another job.
/// Where there is no such scope it is the directory of this job's number that has the step's in it.
fn owner_of(text: &str, job: &str) -> GroupOwner {
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return GroupOwner::Free;
    };
    let path = Path::new(path);
    let mut names = Vec::new();
    for component in path.components() {
        // A path that leads up is one of another namespace and means nothing here.
        let Component::Normal(name) = component else {
            return GroupOwner::Free;
        };
        let Some(name) = name.to_str() else {
            return GroupOwner::Free;
        };
        names.push(name);
    }
    let is_number = !job.is_empty() && job.bytes().all(|b| b.is_ascii_digit());
    let numbered = format!("job_{job}");
    let is_step = |at: usize| names.get(at).is_some_and(|name| name.starts_with("step_"));
    let is_numbered = |at: usize| names[at] == numbered && is_step(at + 1);
    let scope = names.iter().rposition(|name| is_scope(name));
    let begin = scope.map_or(0, |scope| scope + 1);
    let innermost = (begin..names.len()).rev().find(|at| is_numbered(*at));
    let below_scope = || {
        scope?;
        let is_others = names.get(begin)?.starts_with("job_");
        (!is_others && is_step(begin + 1)).then_some(begin)
    };
    let found = innermost.or_else(below_scope).filter(|_| is_number);
    match (found, scope) {
        (Some(at), _) => GroupOwner::OfJob(names[..=at].iter().collect()),
        (None, Some(_)) => GroupOwner::OfSlurm(path.to_owned()),
        (None, None) => GroupOwner::Free,
    }
}

impl DirectoryRecord {
    /// A directory that another made.
    pub(super) fn find(path: &Path, roles: &[Role]) -> Result<Self, Error> {
        use std::os::unix::fs::MetadataExt;
        let data = fs::symlink_metadata(path).map_err(|e| Error::io("look at", path, None, e))?;
        if !data.is_dir() {
            let source = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(Error::io("use", path, None, source));
        }
        Ok(Self {
            path: path.to_owned(),
            inode: data.ino(),
            roles: roles.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::{UNSET, take_limits_off};
    use crate::limits::{Bandwidth, Held};

    #[test]
    fn only_the_directory_of_this_very_job_is_taken() {
        let scope = "system.slice/n1_slurmstepd.scope";
        let (job, slurm, free) = (0, 1, 2);
        for (path, number, expected) in [
            // A task, one that is about to be one, and a batch script, as Slurm 22.05 to 25.11 place them.
            (format!("/{scope}/job_12/step_0/user/task_0"), "12", job),
            (format!("/{scope}/job_12/step_0/slurm"), "12", job),
            (
                format!("/{scope}/job_12/step_batch/user/task_special"),
                "12",
                job,
            ),
            // Another job, and numbers that only look alike.
            (format!("/{scope}/job_12/step_0/user/task_0"), "1", slurm),
            (format!("/{scope}/job_12/step_0/user/task_0"), "2", slurm),
            (format!("/{scope}/job_123/step_0/user/task_0"), "12", slurm),
            (format!("/{scope}/job_012/step_0/user/task_0"), "12", slurm),
            (format!("/{scope}/job_12 (deleted)/step_0"), "12", slurm),
            // No step in it, or no job at all.
            (format!("/{scope}/job_12"), "12", slurm),
            (format!("/{scope}/job_12/user/task_0"), "12", slurm),
            (format!("/{scope}/system"), "12", slurm),
            (format!("/{scope}"), "12", slurm),
            ("/system.slice/slurmd.service".to_string(), "12", free),
            ("/slurmstepd.scope.d/job_1/step_0".to_string(), "12", free),
            ("/".to_string(), "12", free),
            (format!("/../{scope}/job_12/step_0"), "12", free),
            (format!("/{scope}/job_/step_0"), "", slurm),
            (format!("/{scope}/job_a/step_0"), "a", slurm),
        ] {
            let text = format!("0::{path}\n");
            let wanted = match expected {
                0 => GroupOwner::OfJob(Path::new(scope).join("job_12")),
                1 => GroupOwner::OfSlurm(PathBuf::from(&path[1..])),
                _ => GroupOwner::Free,
            };
            assert_eq!(owner_of(&text, number), wanted, "{path} {number}");
        }
    }

    #[test]
    fn a_job_is_found_by_its_place_whatever_its_name() {
        let scope = "system.slice/slurmstepd.scope";
        // As Slurm 26.05 names them, and as none does yet.
        for name in ["sFFDM80MNW6W00", "xjob_12", "j12", "12"] {
            for below in [
                "step_0/user/task_0",
                "step_batch/slurm",
                "step_extern/user/task_special",
            ] {
                let wanted = GroupOwner::OfJob(Path::new(scope).join(name));
                let path = format!("{scope}/{name}/{below}");
                assert_eq!(owner_of(&format!("0::/{path}\n"), "12"), wanted, "{path}");
            }
        }
        let sluid = "sFFDM80MNW6W00";
        for path in [
            format!("{scope}/{sluid}"),
            format!("{scope}/{sluid}/slurm"),
            format!("{scope}/step_0"),
            format!("{scope}/step_0/user/task_0"),
            format!("{scope}/x/{sluid}/step_0/user"),
        ] {
            let wanted = GroupOwner::OfSlurm(PathBuf::from(&path));
            assert_eq!(owner_of(&format!("0::/{path}\n"), "12"), wanted, "{path}");
        }
        // A directory of that name that is not Slurm's.
        let other = format!("0::/user.slice/{sluid}/step_0/user\n");
        assert_eq!(owner_of(&other, "12"), GroupOwner::Free);
    }

    #[test]
    fn other_hierarchies_say_nothing_and_the_innermost_job_counts() {
        let old = "4:freezer:/slurm/uid_0/job_12/step_0\n0::/user.slice\n";
        assert_eq!(owner_of(old, "12"), GroupOwner::Free);
        assert_eq!(owner_of("", "12"), GroupOwner::Free);
        let nested = "0::/a/job_12/step_0/user/task_0/b/job_12/step_1/slurm\n";
        let inner = PathBuf::from("a/job_12/step_0/user/task_0/b/job_12");
        assert_eq!(owner_of(nested, "12"), GroupOwner::OfJob(inner));
        let inner = "a/slurmstepd.scope/job_12/step_0/user/task_0/slurmstepd.scope";
        let text = format!("0::/{inner}/job_7/step_0/slurm\n");
        let wanted = GroupOwner::OfSlurm(Path::new(inner).join("job_7/step_0/slurm"));
        assert_eq!(owner_of(&text, "12"), wanted);
    }

    #[test]
    fn given_back_it_stays_without_limits() {
        let dir = tempfile::tempdir().unwrap();
        v2::fixture(dir.path());
        let record = GroupRecord {
            name: "12".into(),
            version: Version::V2,
            capacity: 2.0,
            directories: vec![DirectoryRecord::find(dir.path(), &[Role::Cpu]).unwrap()],
            adopted: Some(Adopted {
                offset: 0.0,
                seen: 0.0,
            }),
        };
        let controls = v2::Controls::open(dir.path()).unwrap();
        let mut held = controls.read().unwrap();
        let limits = Held {
            bandwidth: Bandwidth {
                quota_us: Some(50_000),
                period_us: 200_000,
                burst_us: 25_000,
            },
            weight: 2_500,
        };
        controls.write(&mut held, &limits).unwrap();
        take_limits_off(&record).unwrap();
        assert_eq!(controls.read().unwrap(), UNSET);
        // Another one has taken its place, or none.
        let mut held = controls.read().unwrap();
        controls.write(&mut held, &limits).unwrap();
        let mut other = record.clone();
        other.directories[0].inode += 1;
        take_limits_off(&other).unwrap();
        assert_eq!(controls.read().unwrap(), limits);
        drop(dir);
        take_limits_off(&record).unwrap();
    }
}
