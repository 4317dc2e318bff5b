//! What `libra slurm check` finds on a node: whether shares can be held there, and whether the slurmd that runs now has Libra in it. Each slurmd is asked
//! for the mark that the plugin in it has left ([`libra_host::mark`]); that its files and lines are there says nothing of a slurmd that started before them.

use super::found::Slurm;
use super::host::runs;
use super::installed::{Mapped, mapped};
use super::plugin::Which;
use crate::findings::{Finding, Findings, Level, Running};
use libra_cgroup::Enforcement;
use libra_config::Config;
use libra_host::entry::Entry;
use libra_host::mark::{Mark, content_hash};
use libra_host::registry::Registry;
use std::fs;
use std::path::{Path, PathBuf};

/// Whether this node could hold shares.
pub fn shares(findings: &mut Findings, config: &Config) {
    match libra_cgroup::open(&libra_rules::cgroup_settings(config)) {
        Enforcement::Active(enforcer) => {
            findings.ok(format!("shares on this node: {}", enforcer.describe()));
        }
        Enforcement::None { reason } => findings.problem(format!(
            "shares on this node: NOT enforced: {reason}; 'libra config check' says more"
        )),
    }
    if runs(&["libra"], Some("agent")) {
        findings.ok("agent: runs");
    } else {
        findings.warning(
            "agent: does not run here, so shares are not readjusted: systemctl enable --now libra-agent",
        );
    }
}

/// What runs on this machine's nodes. `configurations`: one for all nodes, or one for each in their order.
pub fn running(findings: &mut Findings, slurm: &Slurm, configurations: &[(PathBuf, Config)]) {
    for (at, (node, pid)) in slurm.node_processes().into_iter().enumerate() {
        let Some((file, config)) = configurations.get(at).or_else(|| configurations.last()) else {
            return;
        };
        let directory = match config.registry.directory.as_str() {
            "auto" => match Registry::default_directory() {
                Ok(directory) => directory,
                Err(_) => return,
            },
            named => named.into(),
        };
        match pid {
            Some(pid) => marked(findings, &node, pid, &directory, file),
            None => findings.warning(format!(
                "slurmd: of {node} is not seen running here with this slurm.conf, so it is not known whether it holds jobs to their shares"
            )),
        }
        unenforced(findings, &node, &directory);
    }
}

/// The mark of a slurmd that runs.
fn marked(findings: &mut Findings, node: &str, pid: i32, directory: &Path, file: &Path) {
    let daemon = format!("slurmd-{node}");
    let mark = match (
        Mark::is_of(directory, &daemon, pid),
        Mark::read(directory, &daemon),
    ) {
        (None, _) => {
            findings.warning(format!(
                "slurmd: process {pid} of {node} may not be looked at, so it is not known whether it holds jobs to their shares; run this as root"
            ));
            return;
        }
        (Some(true), Ok(Some(mark))) => mark,
        (_, Err(error)) => {
            findings.problem(format!(
                "slurmd: the mark of the plugin in that of {node} cannot be read, in {}: {error}; restart it (jobs run on)",
                directory.display()
            ));
            return;
        }
        _ => {
            let without = matches!(mapped(pid, None, Which::Spank), Some(Mapped::No));
            findings.warning(match without {
                true => format!("slurmd: of {node} runs without Libra's plugin: jobs are held to their shares at best from their first task on, and NOBODY GIVES SHARES BACK when they end; restart it (jobs run on)"),
                false => format!("slurmd: of {node} has left no mark of a plugin of this version in {}, so it is not known whether jobs are held to their shares there; restart it (jobs run on)", directory.display()),
            });
            return;
        }
    };
    let own = env!("CARGO_PKG_VERSION");
    let (version, built_for) = (&mark.version, &mark.built_for);
    if mark.configuration != file {
        findings.warning(format!(
            "slurmd: that of {node} reads {}, and {} was checked here; restart it where plugstack.conf was changed",
            mark.configuration.display(),
            file.display()
        ));
    }
    if !mark.enforced {
        findings.problem(format!(
            "slurmd: the plugin in that of {node} tried to hold a share and could NOT: {}; 'libra config check' says more, then restart it (jobs run on)",
            mark.enforcement
        ));
        return;
    }
    if version != own {
        findings.warning(format!(
            "slurmd: that of {node} started with the plugin of Libra {version}, and this is {own}; prologs load the plugin that is there now. Restart it (jobs run on) to have it seen anew"
        ));
    }
    let now = fs::read(file).ok().map(|text| content_hash(&text));
    let configured = match (&mark.hash, &now) {
        (Some(then), Some(now)) if then == now => format!("{} as it is ({now})", file.display()),
        _ => format!(
            "{}, changed since it started; prologs read it anew",
            file.display()
        ),
    };
    let text = format!(
        "slurmd: that of {node} runs with the plugin of Libra {version} for {built_for}, by {configured}; it wrote limits and read them back"
    );
    findings.0.push(Finding {
        level: Level::Ok,
        text,
        node: Some(Running {
            name: node.to_string(),
            version: mark.version,
            configuration: file.to_path_buf(),
            hash: now,
        }),
    });
}

/// Jobs that run on a node and are not held to their shares, against what they were promised.
fn unenforced(findings: &mut Findings, node: &str, directory: &Path) {
    let entries = fs::read_dir(directory.join("jobs"))
        .into_iter()
        .flatten()
        .flatten();
    let entries = entries.filter_map(|file| Entry::from_json(&fs::read(file.path()).ok()?).ok());
    for entry in entries.filter(Entry::is_live) {
        if let Some(reason) = &entry.unenforced {
            findings.problem(format!(
                "shares: job {} RUNS WITHOUT ITS SHARE on {node}: {reason}",
                entry.id
            ));
        }
    }
}
