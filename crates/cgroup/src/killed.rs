//! Groups of jobs that nothing was promised to, once all of their processes are killed.
//!
//! With the least weight there is, beside jobs that want everything, a job of gigabytes needs minutes to die: its batch system, which has
//! killed it, waits for that, and Slurm takes the node out of service meanwhile. So it gets the weight of a processor, as what Libra
//! kills does. Nothing of its program can use that: a process that is killed runs no instruction of it again.
//!
//! Invariants: a group in which one process lives gets nothing, and one into which another comes is held again to what it was; nothing is
//! remembered that could not be found again, as a task that comes writes the weight of its group anew.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::detect::Role;
use super::enforcer::Enforcer;
use super::error::Error;
use super::external::is_scope;
use super::group::{Group, pids_in};
use super::limits::V2_WEIGHT;
use super::processes;
use super::record::{Adopted, DirectoryRecord, GroupRecord};
use super::settings::Version;
use super::v2;

/// So many directories below the mount Slurm's scope is at most: `system.slice/slurmstepd.scope`, and one more for a service in it.
const DEPTH: usize = 3;

/// The groups that were found killed, until they are gone.
#[derive(Debug, Default)]
pub struct KilledGroups {
    helped: HashMap<PathBuf, Group>,
    /// Where Slurm keeps its jobs on version 2.
    scopes: Vec<PathBuf>,
}

impl KilledGroups {
    /// True while there are some.
    pub fn is_any(&self) -> bool {
        !self.helped.is_empty()
    }

    /// Looks where else Slurm keeps jobs now. Costs a list of the directories of all services.
    pub fn find_scopes(&mut self, enforcer: &Enforcer) {
        self.scopes.clear();
        if let (Version::V2, Some(mount)) = (enforcer.version(), enforcer.mount()) {
            scopes_below(mount, DEPTH, &mut self.scopes);
        }
    }

    /// Lets those end that are killed, on a host of so many processors, and holds those again into which somebody has come. Returns the
    /// names of those that were found killed now.
    pub fn help(&mut self, enforcer: &Enforcer, capacity: f64) -> Vec<String> {
        self.helped
            .retain(|path, group| match group.is_killed(true) {
                Ok(true) => true,
                Ok(false) => {
                    match group.hold_again() {
                        Err(e) if !e.is_gone() => log::warn!("{}: {e}", path.display()),
                        _ => {}
                    }
                    false
                }
                Err(_) => false,
            });
        let mut found = Vec::new();
        for record in enforcer.groups_promised_nothing(&self.scopes) {
            let Some(path) = record.directories.first().map(|d| d.path.clone()) else {
                continue;
            };
            if self.helped.contains_key(&path) {
                continue;
            }
            match let_end_if_killed(enforcer, &record, capacity) {
                Ok(Some(group)) => {
                    self.helped.insert(path, group);
                    found.push(record.name);
                }
                Err(e) if !e.is_gone() => log::debug!("{}: {e}", path.display()),
                _ => {}
            }
        }
        found
    }
}

fn let_end_if_killed(
    enforcer: &Enforcer,
    record: &GroupRecord,
    capacity: f64,
) -> Result<Option<Group>, Error> {
    if !processes::all_killed(|| pids_in(record))? {
        return Ok(None);
    }
    let Some(mut group) = enforcer.reopen(record)? else {
        return Ok(None);
    };
    group.let_end(capacity)?;
    // Of a killed array there may be hundreds, and each is hardly used any more.
    group.close_files();
    Ok(Some(group))
}

impl Enforcer {
    fn groups_promised_nothing(&self, scopes: &[PathBuf]) -> Vec<GroupRecord> {
        let mut found = self.groups_best_effort();
        for (name, _) in self.groups_without_terms() {
            found.extend(self.group_without_terms(&name).ok().flatten());
        }
        for scope in scopes {
            for entry in fs::read_dir(scope).into_iter().flatten().flatten() {
                found.extend(weighing_least(&entry.path()));
            }
        }
        found
    }
}

/// The group of Slurm's for a job, if Libra has given it the least weight: nobody else does.
fn weighing_least(path: &Path) -> Option<GroupRecord> {
    let weight = fs::read_to_string(path.join(v2::WEIGHT)).ok()?;
    if weight.trim().parse() != Ok(V2_WEIGHT.0) {
        return None;
    }
    let directory = DirectoryRecord::find(path, &[Role::Cpu]).ok()?;
    Some(GroupRecord {
        name: path.file_name()?.to_string_lossy().into_owned(),
        version: Version::V2,
        capacity: 1.0,
        directories: vec![directory],
        // Slurm's own processes are in it, which are not killed.
        adopted: Some(Adopted {
            offset: 0.0,
            seen: 0.0,
        }),
    })
}

fn scopes_below(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if is_scope(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        } else if depth > 1 {
            scopes_below(&entry.path(), depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurms_scopes_are_found_where_they_may_be() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "system.slice/slurmstepd.scope/job_1/step_0",
            "a/system.slice/n1_slurmstepd.scope",
            "user.slice/a/b/slurmstepd.scope",
            "user.slice/slurmstepd.scope.d",
        ] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        let mut found = Vec::new();
        scopes_below(dir.path(), DEPTH, &mut found);
        found.sort();
        let expected = [
            "a/system.slice/n1_slurmstepd.scope",
            "system.slice/slurmstepd.scope",
        ];
        assert_eq!(found, expected.map(|path| dir.path().join(path)));
    }

    #[test]
    fn only_what_weighs_least_is_ours_to_help() {
        let dir = tempfile::tempdir().unwrap();
        v2::fixture(dir.path());
        assert_eq!(weighing_least(dir.path()), None);
        fs::write(dir.path().join(v2::WEIGHT), "1\n").unwrap();
        let record = weighing_least(dir.path()).unwrap();
        assert!(record.adopted.is_some());
        assert_eq!(record.directories[0].path, dir.path());
    }
}
