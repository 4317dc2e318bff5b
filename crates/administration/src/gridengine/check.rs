//! `libra gridengine check`: whether Libra can work with a cell, and whether what is installed is sound.

use super::poll::{environments, poll};
use super::settings::{complexes, definition, reporting, unfolded, value};
use super::{GridEngineError, NOT_DONE, PATIENCE, cell};
use crate::Common;
use crate::Done;
use crate::args::GridEngineSettings;
use crate::findings::{Findings, Level};
use libra_config::{AccountsMode, Config, site};
use libra_gridengine::admission;
use libra_gridengine::commands::Cell;
use libra_gridengine::records::{Host, Records};
use libra_terminal::answer;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The script of qmaster's verifier, and that of the hosts' shepherds.
pub const JSV: &str = "jsv";
pub const SHEPHERD: &str = "shepherd";

/// Seconds after which the end of a job may be written down without a word about it.
const LONGEST_FLUSH: f64 = 60.0;

/// The cell as it is.
pub struct Site {
    pub cell: Cell,
    /// `qconf -sconf`
    pub conf: String,
    /// `qconf -sc`
    pub complexes: String,
    scheduler: String,
    records: Records,
}

impl Site {
    pub fn read(cell: Cell) -> Result<Site, GridEngineError> {
        let mut records = Records::default();
        poll(&cell, &mut records, PATIENCE)?;
        let qconf = |what: &str| cell.run("qconf", &[what], PATIENCE);
        Ok(Site {
            conf: qconf("-sconf")?,
            complexes: qconf("-sc")?,
            scheduler: qconf("-ssconf")?,
            records,
            cell,
        })
    }

    /// Execution hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.records.hosts.iter()
    }

    /// A setting of the global configuration; none if it is not set.
    pub fn setting(&self, key: &str) -> Option<&str> {
        value(&self.conf, key).filter(|value| !value.eq_ignore_ascii_case("none"))
    }

    /// Complexes for terms that are not there yet.
    pub fn missing_complexes(&self) -> Vec<&'static str> {
        let known = complexes(&self.complexes);
        admission::complexes()
            .filter(|name| !known.iter().any(|(known, _)| known == name))
            .collect()
    }

    /// Numbers of jobs whose context says that something is committed to them.
    pub fn committed_jobs(&self) -> Vec<u32> {
        let mut jobs: Vec<u32> = (self.records.details.iter())
            .filter(|(_, detail)| detail.commitment.is_some())
            .map(|(number, _)| *number)
            .collect();
        jobs.sort_unstable();
        jobs
    }
}

pub fn jsv_url(scripts: &Path) -> String {
    format!("script:{}", scripts.join(JSV).display())
}

pub fn shepherd_command(scripts: &Path) -> String {
    scripts.join(SHEPHERD).display().to_string()
}

pub fn check(settings: &GridEngineSettings, args: &Common) -> Done {
    let config = site::load(args.config.as_deref())?;
    let findings = match settings.host {
        true => {
            let mut findings = Findings::default();
            find_script(&mut findings, &settings.scripts.join(SHEPHERD));
            findings
        }
        false => find(&Site::read(cell())?, &config, settings),
    };
    let code = if findings.worst() == Level::Problem {
        NOT_DONE
    } else {
        0
    };
    answer(&findings.shown(args.json, Level::Ok), code)
}

/// What there is to say, before an installation and after it.
pub fn find(site: &Site, config: &Config, settings: &GridEngineSettings) -> Findings {
    let mut findings = Findings::default();
    find_accounts(&mut findings, site, config);
    find_settings(&mut findings, site, settings);
    find_complexes(&mut findings, site);
    find_queues(&mut findings, site, config);
    match value(&site.scheduler, "flush_submit_sec") {
        Some("0") | None => findings.warning(format!(
            "jobs wait for schedule_interval ({}) before they start: set flush_submit_sec to 1 with 'qconf -msconf', and flush_finish_sec",
            value(&site.scheduler, "schedule_interval").unwrap_or("unknown")
        )),
        Some(seconds) => findings.ok(format!("a job is scheduled {seconds} s after its submission")),
    }
    findings
}

fn find_settings(findings: &mut Findings, site: &Site, settings: &GridEngineSettings) {
    let mut is_installed = true;
    for (key, wanted) in [
        ("jsv_url", jsv_url(&settings.scripts)),
        ("shepherd_cmd", shepherd_command(&settings.scripts)),
    ] {
        match site.setting(key) {
            None => is_installed = false,
            Some(found) if found == wanted => findings.ok(format!("{key} is {found}")),
            Some(other) => {
                is_installed = false;
                findings.problem(format!("{key} is {other}, which Libra would take the place of; set it to none with 'qconf -mconf'"));
            }
        }
    }
    let jobs = site.committed_jobs();
    if !is_installed {
        findings.ok("it is not installed in this cell");
        if !jobs.is_empty() {
            findings.problem(format!(
                "jobs {jobs:?} have a context variable 'libra' that no verifier has checked; delete them, or have their owners take it out (qalter -dc libra)"
            ));
        }
        return;
    }
    let allowed = value(&site.conf, "jsv_allowed_mod").unwrap_or_default();
    match allowed.split(',').any(|switch| switch.trim() == "ac") {
        true => findings.problem("jsv_allowed_mod has 'ac': users can change what is committed to their jobs; take it out with 'qconf -mconf'"),
        false => findings.ok(format!("users may change {allowed} of their jobs, and not their contexts")),
    }
    for name in [JSV, SHEPHERD] {
        find_script(findings, &settings.scripts.join(name));
    }
}

/// Verifiers run as the cell's admin user, and only the owner of a ledger can open it. What has ended is known by the accounting file.
fn find_accounts(findings: &mut Findings, site: &Site, config: &Config) {
    let conf = unfolded(&site.conf);
    let reporting = reporting(value(&conf, "reporting_params").unwrap_or_default());
    if !reporting.accounting {
        findings.problem("reporting_params has accounting=false: nobody can know how jobs end; set accounting=true with 'qconf -mconf'");
    } else if reporting.flush_time > LONGEST_FLUSH {
        findings.warning(format!(
            "ends of jobs are written down after {} s, and are charged only then: set accounting_flush_time=00:00:05 in reporting_params with 'qconf -mconf'",
            reporting.flush_time
        ));
    } else {
        findings.ok(format!(
            "ends of jobs are known {} s later at most",
            reporting.flush_time
        ));
    }
    if config.accounts.mode == AccountsMode::Off {
        return;
    }
    let Some(admin) = site.cell.bootstrap("admin_user") else {
        return findings.problem("the bootstrap file of the cell says no admin_user");
    };
    // With a database there is the directory alone.
    let ledger = match config.accounts.database.as_str() {
        "" => config.accounts.ledger.as_path(),
        _ => config.accounts.ledger.parent().unwrap_or(Path::new("/")),
    };
    let user = nix::unistd::User::from_name(&admin).ok().flatten();
    match (fs::metadata(ledger), user) {
        (Err(error), _) => findings.problem(format!(
            "{}: {error}; 'libra account init --owner {admin}' makes it",
            ledger.display()
        )),
        (Ok(found), Some(user)) if found.uid() == user.uid.as_raw() => {
            findings.ok(format!("the ledger is {admin}'s, as whom verifiers run"));
        }
        (Ok(_), _) => findings.problem(format!(
            "{} is not {admin}'s, as whom verifiers run: they cannot open it; make it with 'libra account init --owner {admin}'",
            ledger.display()
        )),
    }
}

/// A script can be started by everybody and changed by nobody but root.
fn find_script(findings: &mut Findings, script: &Path) {
    let shown = script.display();
    match fs::metadata(script) {
        Err(error) => findings.problem(format!(
            "{shown}: {error}; 'libra gridengine install' writes it"
        )),
        Ok(found) if found.permissions().mode() & 0o022 != 0 => {
            findings.problem(format!("{shown} can be changed by others than root"));
        }
        Ok(found) if found.permissions().mode() & 0o111 != 0o111 => {
            findings.problem(format!(
                "{shown} cannot be executed by everybody; chmod 755"
            ));
        }
        Ok(_) => findings.ok(format!("{shown} is there")),
    }
}

fn find_complexes(findings: &mut Findings, site: &Site) {
    let known = complexes(&site.complexes);
    for name in admission::complexes() {
        let found = known.iter().find(|(known, _)| *known == name);
        let wanted = definition(name);
        match found {
            Some((_, found)) if found[1..] != wanted[1..] => findings.problem(format!(
                "complex {name} is there and means something else: {}; rename it with 'qconf -mc'",
                found.join(" ")
            )),
            Some(_) => findings.ok(format!("complex {name} is there")),
            None if known.iter().any(|(_, found)| found.first() == Some(&name)) => {
                findings.problem(format!(
                    "another complex has the shortcut {name}; change it with 'qconf -mc'"
                ));
            }
            None => {}
        }
    }
}

fn find_queues(findings: &mut Findings, site: &Site, config: &Config) {
    let queues = &config.gridengine.queues;
    let is_ours = |queue: &str| queues.is_empty() || queues.iter().any(|name| name == queue);
    let mut names: Vec<&str> = (site.records.hosts.iter())
        .flat_map(|host| host.queues.iter().map(|queue| queue.queue.as_str()))
        .filter(|queue| is_ours(queue))
        .collect();
    names.sort_unstable();
    names.dedup();
    for missing in queues
        .iter()
        .filter(|queue| !names.contains(&queue.as_str()))
    {
        findings.problem(format!(
            "gridengine.queues names {missing}, which no host has"
        ));
    }
    findings.class_queues(config, "queue for jobs with terms", |queue| {
        names.contains(&queue)
    });
    if names.is_empty() {
        findings.problem("no execution host has a queue for jobs with terms");
    }
    for name in names {
        let text = site
            .cell
            .run("qconf", &["-sq", name], PATIENCE)
            .unwrap_or_default();
        match value(&text, "load_thresholds") {
            Some(none) if none.eq_ignore_ascii_case("none") => {}
            Some(thresholds) => findings.warning(format!(
                "queue {name} starts no job on a host with more load than {thresholds}: jobs with terms would wait there; set load_thresholds NONE"
            )),
            None => findings.warning(format!("queue {name} cannot be looked at ('qconf -sq {name}')")),
        }
        for host in &site.records.hosts {
            let slots: u64 = (host.queues.iter())
                .filter(|queue| queue.queue == name)
                .map(|queue| queue.slots)
                .sum();
            let processors = host.processors.map_or(0, u64::from);
            if slots > 0 && slots < 4 * processors {
                findings.warning(format!(
                    "queue {name} has {slots} slots on {}, for {processors} processors: as many jobs at most share them; 10 for a processor are usual",
                    host.name
                ));
            }
        }
    }
    let environments = environments(&site.cell, PATIENCE);
    if !environments.is_empty() {
        let mut names: Vec<&str> = environments.keys().map(String::as_str).collect();
        names.sort_unstable();
        findings.ok(format!("parallel environments: {}", names.join(", ")));
    }
}

/// Where qmaster's verifier logs to.
pub fn jsv_log(cell: &Cell) -> Result<PathBuf, GridEngineError> {
    let spool = cell
        .bootstrap("qmaster_spool_dir")
        .ok_or(GridEngineError::Bootstrap("qmaster_spool_dir"))?;
    Ok(Path::new(&spool).join("libra.log"))
}
