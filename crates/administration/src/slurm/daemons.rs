//! Slurm's daemons as they run on this machine, found among its processes: with `--systemd` and with `-D` they write no pid file, and one that is there
//! may be an old one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A slurmctld or slurmd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    pub pid: i32,
    parent: i32,
    /// The slurm.conf that it was told, by its arguments or its environment.
    conf: Option<PathBuf>,
    /// The node that it was told to be.
    pub node: Option<String>,
}

/// Those of this name that have the same files as we have: others are in containers, and somebody else's.
pub fn running(program: &str) -> Vec<Daemon> {
    let root = fs::metadata("/").ok().map(|root| (root.dev(), root.ino()));
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = (process.file_name().to_str()).and_then(|name| name.parse().ok()) else {
            continue;
        };
        let place = process.path();
        let comm = fs::read_to_string(place.join("comm")).unwrap_or_default();
        let own_root = fs::metadata(place.join("root"));
        // Where that may not be looked at, it is taken for ours.
        let is_elsewhere = own_root.is_ok_and(|own| Some((own.dev(), own.ino())) != root);
        if comm.trim() != program || is_elsewhere {
            continue;
        }
        let text = |name: &str| {
            let bytes = fs::read(place.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if let Some((parent, _)) =
            parent_and_state(&text("stat")).filter(|(_, state)| *state != 'Z')
        {
            found.push(Daemon::of(pid, parent, &text("cmdline"), &text("environ")));
        }
    }
    // A child that has not become another program yet.
    let all: Vec<i32> = found.iter().map(|daemon| daemon.pid).collect();
    found.retain(|daemon| !all.contains(&daemon.parent));
    found
}

/// From /proc/PID/stat, where the name, in brackets, may hold anything.
fn parent_and_state(stat: &str) -> Option<(i32, char)> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

impl Daemon {
    /// From /proc/PID/cmdline and /proc/PID/environ.
    fn of(pid: i32, parent: i32, arguments: &str, environment: &str) -> Daemon {
        let said = |option: &str| {
            let mut words = arguments.split('\0').skip(1);
            while let Some(word) = words.next() {
                match word.strip_prefix(option) {
                    Some("") => return words.next().map(str::to_string),
                    Some(value) => return Some(value.to_string()),
                    None => {}
                }
            }
            None
        };
        let variable = || {
            let found = environment.split('\0');
            found
                .filter_map(|entry| entry.strip_prefix("SLURM_CONF="))
                .find(|value| !value.is_empty())
                .map(str::to_string)
        };
        Daemon {
            pid,
            parent,
            conf: said("-f").or_else(variable).map(PathBuf::from),
            node: said("-N"),
        }
    }

    /// Returns true if it runs by this slurm.conf. `is_usual`: that is where Slurm looks when nobody says where.
    pub fn has_conf(&self, file: &Path, is_usual: bool) -> bool {
        let same = |conf: &PathBuf| match (fs::canonicalize(conf), fs::canonicalize(file)) {
            (Ok(its), Ok(ours)) => its == ours,
            _ => conf == file,
        };
        self.conf.as_ref().map_or(is_usual, same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_say_more_than_the_environment() {
        let file = Path::new("/nowhere/a/slurm.conf");
        let of = |arguments: &str, environment: &str| Daemon::of(2, 1, arguments, environment);
        let daemon = of(
            "slurmd\0-D\0-N\0n1\0-f\0/nowhere/a/slurm.conf\0",
            "SLURM_CONF=/b\0",
        );
        assert_eq!(daemon.node.as_deref(), Some("n1"));
        assert!(daemon.has_conf(file, false));
        let daemon = of(
            "slurmd\0--systemd\0",
            "A=b\0SLURM_CONF=/nowhere/a/slurm.conf\0",
        );
        assert_eq!(daemon.node, None);
        assert!(daemon.has_conf(file, false));
        let daemon = of("slurmd\0-f/b\0", "");
        assert!(!daemon.has_conf(file, true));
        let daemon = of("slurmd\0-D\0", "SLURM_CONF=\0");
        assert!(daemon.has_conf(file, true) && !daemon.has_conf(file, false));
    }

    #[test]
    fn the_name_of_a_process_may_hold_brackets() {
        assert_eq!(parent_and_state("7 (a) b) S 3 7 7"), Some((3, 'S')));
        assert_eq!(parent_and_state("7 a"), None);
    }

    #[test]
    fn processes_are_found_by_their_names() {
        let own = fs::read_to_string("/proc/self/comm").expect("a name");
        let found = running(own.trim());
        let this = i32::try_from(std::process::id()).expect("a number");
        assert!(found.iter().any(|daemon| daemon.pid == this), "{found:?}");
        assert_eq!(running("no such program"), []);
    }
}
