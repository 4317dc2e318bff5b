//! Which control groups this host offers, from its mount table.
//!
//! Invariants: nothing is created or written here; every way of having no enforcement ends in a sentence
//! that says why. v2 is taken where it has the cpu controller, else v1: on a hybrid host v2 is mounted
//! without it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::settings::{Pin, Settings, Version, VersionChoice};
use super::v2;

/// What a directory of a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Quota and weight.
    Cpu,
    /// Processor time used.
    Accounting,
    /// Which processors.
    Cpuset,
    /// Letting all processes stand still; of version 1, where that is a hierarchy, and only of jobs that may be suspended.
    Freezer,
}

/// A mounted hierarchy and what we use it for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hierarchy {
    pub mount: PathBuf,
    /// The directory above all jobs.
    pub root: PathBuf,
    pub roles: Vec<Role>,
}

/// The outcome of looking around: the cpu hierarchy comes first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    pub version: Version,
    pub hierarchies: Vec<Hierarchy>,
    /// A v2 group handed to us by systemd, or that of the container we are in, whose own processes we may move into a child.
    pub delegated: Option<PathBuf>,
}

/// The child of a delegated group into which its processes move, so that it may have other children.
pub(crate) const LEAF: &str = "libra-agent";
/// The agent's unit, as delegated by systemd.
const UNIT: &str = "libra.slice/libra-agent.service";
const DEFAULT_ROOT: &str = "libra";

/// What is known about this process, a parameter for tests' sake.
pub(crate) struct Caller {
    pub root: bool,
    /// /proc/self/cgroup
    pub own: String,
}

/// Finds the hierarchies for these settings; the error is the reason for doing without.
pub(crate) fn detect(
    settings: &Settings,
    mountinfo: &str,
    caller: &Caller,
) -> Result<Layout, String> {
    let mounts = mounts_of(mountinfo);
    let mut reasons = Vec::new();
    if matches!(settings.version, VersionChoice::Auto | VersionChoice::V2) {
        match detect_v2(settings, &mounts, caller) {
            Ok(layout) => return Ok(layout),
            Err(reason) => reasons.push(reason),
        }
    }
    if matches!(settings.version, VersionChoice::Auto | VersionChoice::V1) {
        match detect_v1(settings, &mounts) {
            Ok(layout) => return Ok(layout),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.join("; "))
}

fn detect_v2(settings: &Settings, mounts: &[Mount], caller: &Caller) -> Result<Layout, String> {
    let mount = mounts
        .iter()
        .find(|m| m.v2)
        .ok_or("cgroup v2 is not mounted")?;
    let controllers =
        std::fs::read_to_string(mount.point.join(v2::CONTROLLERS)).unwrap_or_default();
    let has = |name: &str| controllers.split_whitespace().any(|c| c == name);
    if !has("cpu") {
        return Err(format!(
            "cgroup v2 at {} has no cpu controller",
            mount.point.display()
        ));
    }
    // The group of the container we are in: whoever made that has left its processes there. The very top of a hierarchy has no type.
    let is_container = caller.root
        && own_path(caller).starts_with(&mount.root)
        && mount.point.join(v2::TYPE).exists();
    let container = is_container.then(PathBuf::new);
    let (root, delegated) = match &settings.root {
        Some(root) => (checked(root)?, container),
        None if caller.root && mount.point.join(UNIT).is_dir() => {
            (PathBuf::from(UNIT).join("jobs"), Some(PathBuf::from(UNIT)))
        }
        None if caller.root => (PathBuf::from(DEFAULT_ROOT), container),
        None => {
            let node = own_group(mount, caller)?;
            (node.join("jobs"), Some(node))
        }
    };
    let root = mount.point.join(root);
    let base = writable_base(&mount.point, &root)?;
    let offered = std::fs::read_to_string(base.join(v2::CONTROLLERS)).unwrap_or_default();
    if !caller.root && !offered.split_whitespace().any(|c| c == "cpu") {
        return Err(format!(
            "{} was delegated without the cpu controller; add Delegate=cpu to user@.service",
            base.display()
        ));
    }
    let mut roles = vec![Role::Cpu, Role::Accounting];
    if settings.pin == Pin::Auto && has("cpuset") {
        roles.push(Role::Cpuset);
    }
    let delegated = delegated.map(|d| mount.point.join(d));
    let hierarchies = vec![Hierarchy {
        mount: mount.point.clone(),
        root,
        roles,
    }];
    Ok(Layout {
        version: Version::V2,
        hierarchies,
        delegated,
    })
}

fn detect_v1(settings: &Settings, mounts: &[Mount]) -> Result<Layout, String> {
    let root = checked(settings.root.as_deref().unwrap_or(DEFAULT_ROOT))?;
    let mut hierarchies: Vec<Hierarchy> = Vec::new();
    let mut wanted = vec![("cpu", Role::Cpu), ("cpuacct", Role::Accounting)];
    if settings.pin == Pin::Auto {
        wanted.push(("cpuset", Role::Cpuset));
    }
    wanted.push(("freezer", Role::Freezer));
    for (controller, role) in wanted {
        let found = mounts.iter().find(|m| m.has(controller));
        let Some(mount) = found else {
            if role == Role::Cpu {
                return Err("the cgroup v1 cpu controller is not mounted".to_owned());
            }
            continue;
        };
        // Co-mounted controllers share their directories.
        if let Some(same) = hierarchies.iter_mut().find(|h| h.mount == mount.point) {
            same.roles.push(role);
            continue;
        }
        let root = mount.point.join(&root);
        match writable_base(&mount.point, &root) {
            Ok(_) => hierarchies.push(Hierarchy {
                mount: mount.point.clone(),
                root,
                roles: vec![role],
            }),
            Err(reason) if role == Role::Cpu => return Err(reason),
            Err(reason) => log::info!("done without the {controller} controller: {reason}"),
        }
    }
    Ok(Layout {
        version: Version::V1,
        hierarchies,
        delegated: None,
    })
}

/// The caller's own v2 group, from the top of its namespace.
fn own_path(caller: &Caller) -> &Path {
    let path = caller.own.lines().find_map(|l| l.strip_prefix("0::"));
    Path::new(path.unwrap_or("/"))
}

/// The caller's own v2 group, relative to the mount.
fn own_group(mount: &Mount, caller: &Caller) -> Result<PathBuf, String> {
    let path = own_path(caller);
    let below = path.strip_prefix(&mount.root).unwrap_or(path);
    let mut own: PathBuf = below
        .components()
        .filter(|c| matches!(c, Component::Normal(_)))
        .collect();
    // A process that has moved into the leaf before still means the group above it.
    if own.file_name().is_some_and(|n| n == LEAF) {
        own.pop();
    }
    if own.as_os_str().is_empty() {
        return Err("an ordinary user has no cgroup v2 group of its own here".to_owned());
    }
    Ok(own)
}

/// A root given in the settings: relative, without "..".
fn checked(root: &str) -> Result<PathBuf, String> {
    let path: PathBuf = Path::new(root.trim_start_matches('/'))
        .components()
        .collect();
    let plain = path.components().all(|c| matches!(c, Component::Normal(_)));
    if !plain || path.as_os_str().is_empty() {
        return Err(format!(
            "root = {root:?} is not a path below the mount; try {DEFAULT_ROOT:?}"
        ));
    }
    Ok(path)
}

/// The deepest directory of `root` that exists, if we may make directories in it.
fn writable_base(mount: &Path, root: &Path) -> Result<PathBuf, String> {
    let base = root
        .ancestors()
        .take_while(|a| a.starts_with(mount))
        .find(|a| a.is_dir());
    let base =
        base.ok_or_else(|| format!("{} is mounted but not to be seen here", mount.display()))?;
    access(base, AccessFlags::W_OK | AccessFlags::X_OK).map_err(|e| {
        format!(
            "{} is not writable for user {}: {}",
            base.display(),
            nix::unistd::geteuid(),
            e.desc()
        )
    })?;
    Ok(base.to_owned())
}

/// A line of the mount table about control groups.
#[derive(Debug, PartialEq)]
pub(crate) struct Mount {
    pub v2: bool,
    pub point: PathBuf,
    /// The directory of the hierarchy that is mounted, "/" but in containers.
    root: String,
    controllers: Vec<String>,
}

impl Mount {
    /// Returns true if it is the hierarchy of this controller, on version 1.
    pub fn has(&self, controller: &str) -> bool {
        !self.v2 && self.controllers.iter().any(|c| c == controller)
    }
}

/// Readings of a mount table, at most.
const READINGS: usize = 8;

/// A mount table on which two readings agree. A kernel before 5.8 leaves out of one a mount that comes after another which is taken away meanwhile
/// (Linux 9f6c61f96f2d).
pub(crate) fn mount_table(path: &Path) -> io::Result<String> {
    agreed(|| std::fs::read_to_string(path))
}

fn agreed(mut read: impl FnMut() -> io::Result<String>) -> io::Result<String> {
    let mut text = read()?;
    for _ in 1..READINGS {
        let before = std::mem::replace(&mut text, read()?);
        if before == text {
            break;
        }
    }
    Ok(text)
}

/// Lines of /proc/PID/mountinfo: `id parent dev root point options… - type source super-options`.
pub(crate) fn mounts_of(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let root = left.nth(3)?.to_owned();
    let point = unescape(left.next()?);
    let mut right = right.split(' ');
    let v2 = match right.next()? {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    let controllers = if v2 {
        ""
    } else {
        right.nth(1).unwrap_or_default()
    };
    let controllers = controllers
        .split(',')
        .filter(|c| !c.is_empty())
        .map(str::to_owned)
        .collect();
    Some(Mount {
        v2,
        point,
        root,
        controllers,
    })
}

/// Undoes the kernel's octal escapes (\040 for a blank).
fn unescape(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let octal = bytes
            .get(at + 1..at + 4)
            .and_then(|d| std::str::from_utf8(d).ok());
        match octal.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(value) if byte == b'\\' => {
                out.push(value);
                at += 4;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
