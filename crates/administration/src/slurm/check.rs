//! `libra slurm check`: looks, and changes nothing.

use super::found::{Roles, Slurm, controllers, wrong};
use super::host::{Reader, runs, writable_by_others};
use super::installed;
use super::judge;
use super::node;
use super::plugin::{Version, Which};
use super::{NOT_DONE, sources};
use crate::Common;
use crate::Done;
use crate::args::SlurmSettings;
use crate::failover;
use crate::findings::{Findings, Level};
use libra_config::{Config, site};
use libra_terminal::answer;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What was looked at.
pub struct Site {
    pub slurm: Slurm,
    /// Libra's configuration.
    pub config_file: PathBuf,
    /// The files to install.
    pub sources: BTreeMap<Which, PathBuf>,
    /// What keeps an installation from being begun, and the rest about settings.
    pub basis: Findings,
    /// How far it is installed, and whether that is sound.
    pub installed: Findings,
}

pub fn check(settings: &SlurmSettings, args: &Common) -> Done {
    let site = examine(settings, args);
    let mut findings = site.basis;
    findings.0.extend(site.installed.0);
    let code = match findings.worst() {
        Level::Problem => NOT_DONE,
        _ => 0,
    };
    answer(&findings.shown(args.json, Level::Ok), code)
}

/// Looks at everything.
pub fn examine(settings: &SlurmSettings, args: &Common) -> Site {
    let slurm = Slurm::find(settings);
    let mut basis = Findings::default();
    programs(&mut basis, &slurm);
    configuration_of_slurm(&mut basis, &slurm);
    let sources = plugins(&mut basis, &slurm, settings);
    let config_file = node_config(&slurm, args);
    let mut config = Config::default();
    if slurm.roles.controller {
        let file = controller_config(&slurm, args);
        config = configuration(&mut basis, "slurmctld's configuration", &file);
        slurm_user(&mut basis, &slurm, &file);
        failover(&mut basis, &slurm, &config);
    }
    let mut of_nodes: Vec<(PathBuf, Config)> = Vec::new();
    for file in expanded(&slurm, &config_file) {
        let is_controllers = slurm.roles.controller && file == controller_config(&slurm, args);
        let read = match is_controllers {
            true => config.clone(),
            false => configuration(&mut basis, "configuration", &file),
        };
        of_nodes.push((file, read));
    }
    let of_node = of_nodes
        .last()
        .map_or_else(|| config.clone(), |(_, read)| read.clone());
    if !slurm.roles.controller {
        config.clone_from(&of_node);
    }
    if let Some(conf) = &slurm.conf {
        let version = slurm.version().map(|(version, _)| version);
        judge::settings(&mut basis, conf, &config, version);
    }
    if slurm.roles.node {
        node::shares(&mut basis, &of_node);
    }
    clock(&mut basis);
    unseen(&mut basis, &slurm);
    let mut installed = Findings::default();
    let is_installed = installed::state(&mut installed, &slurm, &sources);
    if is_installed && slurm.roles.node {
        node::running(&mut installed, &slurm, &of_nodes);
    }
    Site {
        slurm,
        config_file,
        sources,
        basis,
        installed,
    }
}

/// The configuration that was named, or else the site's.
fn named(args: &Common) -> Option<PathBuf> {
    site::named(args.config.as_deref())
}

/// What plugstack.conf names, or would; `%n` in it is a node's name.
fn node_config(slurm: &Slurm, args: &Common) -> PathBuf {
    let entry = slurm.stack.iter().find(|entry| entry.is_libra());
    match entry {
        Some(entry) => entry.config().unwrap_or(site::FILE).into(),
        None => named(args).unwrap_or_else(|| site::FILE.into()),
    }
}

/// The files that a name with `%n` stands for on this machine.
fn expanded(slurm: &Slurm, file: &Path) -> Vec<PathBuf> {
    let text = file.to_string_lossy();
    match text.contains("%n") {
        false => vec![file.to_path_buf()],
        true => (slurm.node_names.iter())
            .map(|name| text.replace("%n", name).into())
            .collect(),
    }
}

/// What slurmctld reads, or is to read: the file that its environment names, where it runs, or the one that was named here.
fn controller_config(slurm: &Slurm, args: &Common) -> PathBuf {
    let named = controller_environment(slurm).or_else(|| named(args));
    named.unwrap_or_else(|| site::FILE.into())
}

fn controller_environment(slurm: &Slurm) -> Option<PathBuf> {
    let pid = slurm.controller_process()?;
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = variables.split(|b| *b == 0);
    let found = variables.find_map(|v| v.strip_prefix(b"LIBRA_CONFIG="))?;
    Some(String::from_utf8_lossy(found).into_owned().into())
}

fn programs(findings: &mut Findings, slurm: &Slurm) {
    let all = [
        ("slurmctld", &slurm.controller),
        ("slurmd", &slurm.node),
        ("clients", &slurm.client),
    ];
    let mut versions: Vec<Version> = Vec::new();
    for (name, program) in all {
        let Some((path, version)) = program else {
            continue;
        };
        // A client without a configuration does not say its version; Slurm's own plugins do.
        let version = version.or(slurm.plugins_version.filter(|_| name == "clients"));
        match version {
            Some(version) => {
                versions.push(version);
                findings.ok(format!("{name}: Slurm {version} ({})", path.display()));
            }
            None => findings.warning(format!(
                "{name}: '{} -V' says no version within a few seconds",
                path.display()
            )),
        }
    }
    versions.dedup();
    if versions.len() > 1 {
        findings.warning(
            "programs of several versions of Slurm are here; plugins have to match the one that loads them",
        );
    }
    if all.iter().all(|(_, program)| program.is_none()) {
        findings.problem(
            "Slurm: neither slurmctld nor slurmd nor clients are in PATH or in the usual places",
        );
    } else if slurm.version().is_none() {
        findings.problem("Slurm: its version cannot be found out; plugins have to match it");
    }
    let Roles {
        controller,
        node,
        login,
    } = slurm.roles;
    let roles: Vec<&str> = [
        (controller, "controller"),
        (node, "node"),
        (login, "login host"),
    ]
    .iter()
    .filter_map(|(is, name)| is.then_some(*name))
    .collect();
    let names = match slurm.node_names.is_empty() {
        true => String::new(),
        false => format!(" ({})", slurm.node_names.join(", ")),
    };
    findings.ok(format!("this machine: {}{names}", roles.join(" and ")));
}

fn configuration_of_slurm(findings: &mut Findings, slurm: &Slurm) {
    match (&slurm.conf_file, &slurm.conf_error) {
        (None, _) => findings.problem("slurm.conf: not in a usual place; set SLURM_CONF to it"),
        (Some(file), Some(error)) => {
            findings.problem(format!("slurm.conf: {}: {error}", file.display()));
        }
        (Some(file), None) => {
            let more = slurm.conf.as_ref().map_or(0, |conf| conf.files.len() - 1);
            let more = match more {
                0 => String::new(),
                n => format!(" and {n} that it includes"),
            };
            findings.ok(format!("slurm.conf: {}{more}", file.display()));
        }
    }
    for problem in slurm.conf.iter().flat_map(|conf| &conf.problems) {
        findings.warning(format!("slurm.conf: {problem}"));
    }
    for problem in &slurm.stack_problems {
        findings.warning(format!("plugstack.conf: {problem}"));
    }
    if slurm.configless() {
        findings.ok(
            "configless: these files are copies from the controller, where they are to be changed",
        );
    }
}

/// The directory of Slurm's plugins, and the files that would come into it.
fn plugins(
    findings: &mut Findings,
    slurm: &Slurm,
    settings: &SlurmSettings,
) -> BTreeMap<Which, PathBuf> {
    if slurm.plugin_dirs.is_empty() {
        findings.problem(
            "PluginDir: neither slurm.conf nor the controller nor Slurm's programs say it; name it with --plugin-dir",
        );
    } else {
        let dirs: Vec<String> = (slurm.plugin_dirs.iter())
            .map(|dir| dir.display().to_string())
            .collect();
        findings.ok(format!(
            "PluginDir: {} ({})",
            dirs.join(":"),
            slurm.plugin_dirs_by
        ));
    }
    for dir in slurm.plugin_dirs.iter().filter(|dir| !dir.is_dir()) {
        findings.problem(format!("PluginDir: {} is not a directory", dir.display()));
    }
    if slurm.library.is_none() {
        findings.warning(
            "libslurmfull.so: not found, so it was not checked whether Slurm has all that the plugins need",
        );
    }
    let mut found = BTreeMap::new();
    let Some((version, by)) = slurm.version() else {
        return found;
    };
    let places = sources::places(settings.plugins.as_deref());
    for which in slurm.roles.plugins() {
        match sources::find(which, version, &places) {
            Err(why) => findings.problem(format!("plugins: {why}")),
            Ok(file) => {
                let wrong = wrong(slurm, which, &file);
                for fault in &wrong {
                    findings.problem(format!("plugins: {}: {fault}", file.display()));
                }
                if wrong.is_empty() {
                    findings.ok(format!(
                        "plugins: {} is for Slurm {version} ({by})",
                        file.display()
                    ));
                    found.insert(which, file);
                }
            }
        }
    }
    found
}

/// Libra's own configuration, of slurmctld or of nodes.
fn configuration(findings: &mut Findings, what: &str, file: &Path) -> Config {
    let shown = file.display();
    if !file.exists() {
        findings.problem(format!(
            "{what}: no file {shown}; 'libra config default' prints one, --config names another"
        ));
        return Config::default();
    }
    let read = Config::from_file(file);
    match &read {
        Ok(config) => findings.ok(format!(
            "{what}: {shown} is valid, on-fault is {}",
            config.slurm.on_fault.name()
        )),
        Err(error) => findings.problem(format!("{what}: {error}")),
    }
    if writable_by_others(file, &[]) {
        findings.problem(format!(
            "{what}: {shown} can be written by others than root: chown root {shown} && chmod go-w {shown}"
        ));
    }
    read.unwrap_or_default()
}

/// A backup slurmctld takes over with the accounts.
fn failover(findings: &mut Findings, slurm: &Slurm, config: &Config) {
    let Some(conf) = &slurm.conf else {
        return;
    };
    if let (true, Some(shared)) = (controllers(conf).len() > 1, conf.get("StateSaveLocation")) {
        failover::accounts(
            findings,
            &config.accounts,
            Path::new(shared),
            "StateSaveLocation",
        );
    }
}

/// slurmctld does not run as root.
fn slurm_user(findings: &mut Findings, slurm: &Slurm, file: &Path) {
    let name = slurm.get("SlurmUser").unwrap_or("root");
    let Some(user) = Reader::user(name) else {
        findings.problem(format!("SlurmUser: there is no user '{name}' here"));
        return;
    };
    match user.barred(file) {
        Some(bar) => findings.problem(format!(
            "slurmctld's configuration: {} keeps {} (SlurmUser) from reading {}: chmod a+r a file, a+rx a directory",
            bar.display(),
            user.name,
            file.display()
        )),
        None if file.exists() => {
            findings.ok(format!("slurmctld's configuration: {} (SlurmUser) can read it", user.name));
        }
        None => {}
    }
    if file != Path::new(site::FILE) && controller_environment(slurm).is_none() {
        findings.warning(format!(
            "slurmctld's configuration: it reads {}, unless LIBRA_CONFIG={} is in its environment (systemctl edit slurmctld)",
            site::FILE,
            file.display()
        ));
    }
}

fn clock(findings: &mut Findings) {
    let clock_daemons = [
        "chronyd",
        "ntpd",
        "ntpsec",
        "systemd-timesyn",
        "ptp4l",
        "phc2sys",
    ];
    if Path::new("/run/systemd/timesync/synchronized").exists() || runs(&clock_daemons, None) {
        findings.ok("clock: something keeps it right");
    } else {
        findings.warning(
            "clock: neither chronyd nor ntpd nor systemd-timesyncd is seen; deadlines are clock times, so all hosts need the same (timedatectl)",
        );
    }
}

/// What cannot be seen from here.
fn unseen(findings: &mut Findings, slurm: &Slurm) {
    let mut elsewhere = Vec::new();
    if !slurm.roles.controller {
        elsewhere.push("the controller's plugin and who reads its configuration");
    }
    if !slurm.roles.node {
        elsewhere.push("cgroups and the agent of the nodes");
    }
    if !slurm.roles.login {
        elsewhere.push("the SPANK plugin of hosts where users log in");
    }
    if !elsewhere.is_empty() {
        findings.ok(format!(
            "not checked, as it is elsewhere: {}; 'libra slurm check' there does",
            elsewhere.join("; ")
        ));
    }
}
