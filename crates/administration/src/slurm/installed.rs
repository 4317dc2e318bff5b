//! How far Libra is installed in the Slurm of this machine, and whether that is sound.

use super::found::{Slurm, wrong};
use super::host::{Reader, uid, writable_by_others};
use super::judge;
use super::plugin::Which;
use super::plugstack::PluginLine;
use crate::findings::{Findings, Level};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How far it is installed, and whether that is sound. Returns true if anything of it is.
pub fn state(findings: &mut Findings, slurm: &Slurm, sources: &BTreeMap<Which, PathBuf>) -> bool {
    let conf = slurm.conf.clone().unwrap_or_default();
    let named = judge::names_plugin(&conf);
    let stack: Vec<&PluginLine> = slurm
        .stack
        .iter()
        .filter(|entry| entry.is_libra())
        .collect();
    let files: BTreeMap<Which, PathBuf> = (slurm.roles.plugins().into_iter())
        .filter_map(|which| Some((which, slurm.place(which).filter(|file| file.exists())?)))
        .collect();
    if named.is_none() && stack.is_empty() && files.is_empty() {
        findings.ok("installed: no");
        return false;
    }
    for which in slurm.roles.plugins() {
        match files.get(&which) {
            None => absent(findings, which, named.is_some(), !stack.is_empty()),
            Some(file) => present(findings, slurm, which, file, sources.get(&which)),
        }
    }
    match named {
        Some(line) => match judge::behind(line)[..] {
            [] => findings.ok(format!("installed: JobSubmitPlugins has libra ({})", line.place())),
            ref behind => findings.warning(format!(
                "installed: JobSubmitPlugins has {} behind libra ({}): what they change of a job was not judged, and an admin comment that they write takes its promise away; write libra last",
                behind.join(" and "),
                line.place()
            )),
        },
        None => findings.warning(
            "installed: JobSubmitPlugins in slurm.conf has no libra, so NOTHING IS JUDGED; 'libra slurm install' says the line",
        ),
    }
    if judge::prolog_at_once(&conf) {
        findings.ok("installed: PrologFlags runs prologs when a job gets its nodes");
    } else {
        // Before its plugin is named, Libra has committed nothing.
        let level = named.map_or(Level::Warning, |_| Level::Problem);
        findings.add(
            level,
            "installed: PrologFlags has no Alloc, so jobs of srun and salloc run without their shares; write PrologFlags=Alloc and restart slurmctld and slurmd",
        );
    }
    match stack[..] {
        [] => findings.warning(
            "installed: plugstack.conf does not name libra_spank.so: --budget and the other options are unknown, and nodes hold no job to its share; 'libra slurm install' says the line",
        ),
        [entry] if entry.required => findings.problem(format!(
            "installed: {}: 'required', so one host without a fitting plugin refuses every job there; write 'optional'",
            entry.place()
        )),
        [entry] => findings.ok(format!("installed: plugstack.conf loads it, as optional ({})", entry.place())),
        [first, second, ..] => findings.warning(format!(
            "installed: {} and {} both load it; Slurm takes the first",
            first.place(),
            second.place()
        )),
    }
    if slurm.roles.controller {
        running(findings, slurm, files.get(&Which::JobSubmit));
    }
    true
}

fn absent(findings: &mut Findings, which: Which, in_conf: bool, in_stack: bool) {
    match which {
        Which::JobSubmit if in_conf => findings.problem(
            "installed: slurm.conf names libra in JobSubmitPlugins and job_submit_libra.so is in no PluginDir: slurmctld would not start. 'libra slurm install' copies it",
        ),
        Which::Spank if in_stack => findings.problem(
            "installed: plugstack.conf names libra_spank.so, which is in no PluginDir: its options are unknown here, and no job is held to its share. 'libra slurm install' copies it",
        ),
        _ => findings.warning(format!(
            "installed: in part, {} is not in PluginDir; run 'libra slurm install' to go on or 'libra slurm uninstall' to undo",
            which.file()
        )),
    }
}

fn present(
    findings: &mut Findings,
    slurm: &Slurm,
    which: Which,
    file: &Path,
    source: Option<&PathBuf>,
) {
    let shown = file.display();
    let wrong = wrong(slurm, which, file);
    for fault in &wrong {
        findings.problem(format!(
            "installed: {shown}: {fault}; 'libra slurm install' replaces it"
        ));
    }
    let reader = match which {
        Which::Spank => Some(Reader::anybody()),
        Which::JobSubmit => Reader::user(slurm.get("SlurmUser").unwrap_or("root")),
    };
    let bar = reader
        .as_ref()
        .and_then(|reader| Some((reader, reader.barred(file)?)));
    if let Some((reader, bar)) = &bar {
        findings.problem(format!(
            "installed: {} keeps {} from loading {shown}: chmod a+r a file, a+rx a directory",
            bar.display(),
            reader.name
        ));
    }
    let allowed: Vec<u32> = slurm.get("SlurmUser").and_then(uid).into_iter().collect();
    let loose = writable_by_others(file, &allowed)
        || file
            .parent()
            .is_some_and(|dir| writable_by_others(dir, &allowed));
    if loose {
        findings.problem(format!(
            "installed: {shown} or its directory can be written by others than root, and root's programs load it: chown root, chmod go-w"
        ));
    }
    if !wrong.is_empty() || bar.is_some() || loose {
        return;
    }
    let same = source.is_none_or(|source| fs::read(source).ok() == fs::read(file).ok());
    if same {
        findings.ok(format!("installed: {shown}"));
    } else {
        findings.warning(format!(
            "installed: {shown} is another one than {}; 'libra slurm install' replaces it",
            source.map(|s| s.display().to_string()).unwrap_or_default()
        ));
    }
}

/// Whether the running slurmctld has the plugin that is there.
fn running(findings: &mut Findings, slurm: &Slurm, file: Option<&PathBuf>) {
    let Some(pid) = slurm.controller_process() else {
        findings.warning("slurmctld: not seen running here with this slurm.conf, so it is not known which plugin it would have loaded");
        return;
    };
    if file.is_some_and(|file| !file.exists()) {
        // Said before; a restart would only bring it down.
        return;
    }
    match mapped(pid, file, Which::JobSubmit) {
        None => findings.warning(format!(
            "slurmctld: process {pid} may not be looked at, so it is not known which plugin it has loaded; run this as root"
        )),
        Some(Mapped::This) => findings.ok("slurmctld: runs with this plugin"),
        Some(Mapped::No) => {
            findings.warning("slurmctld: runs without Libra's plugin; restart it (jobs run on)");
        }
        Some(Mapped::Other) => findings.warning(
            "slurmctld: runs with another job_submit_libra.so, loaded before this one was installed; restart it (jobs run on)",
        ),
    }
}

pub enum Mapped {
    No,
    This,
    Other,
}

/// Which file of a plugin a process has loaded; None if that cannot be seen.
pub fn mapped(pid: i32, file: Option<&PathBuf>, which: Which) -> Option<Mapped> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let inode = file
        .and_then(|file| fs::metadata(file).ok())
        .map(|m| m.ino());
    let inodes: Vec<Option<u64>> = (maps.lines())
        .filter(|line| line.contains(which.file()))
        .map(|line| line.split_whitespace().nth(4).and_then(|n| n.parse().ok()))
        .collect();
    Some(match inodes.is_empty() {
        true => Mapped::No,
        false if inodes.iter().all(|mapped| *mapped == inode) => Mapped::This,
        false => Mapped::Other,
    })
}
