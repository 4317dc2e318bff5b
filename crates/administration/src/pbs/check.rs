//! `libra pbs check`: looks, and changes nothing.

use super::found::Found;
use super::judge;
use super::plan;
use super::record::{InstallRecord, Options, Records};
use super::server::Pbs;
use super::wanted::{HOOKS, Wanted};
use super::{NOT_DONE, site};
use crate::Common;
use crate::args::{PbsInstallArgs, PbsSettings};
use crate::failover;
use crate::findings::{Findings, Level};
use crate::{Done, Failure};
use libra_config::{Config, Reserve};
use libra_terminal::answer;
use serde::Deserialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What an installation needs to know, when nothing keeps it from being looked at.
pub struct Site {
    pub pbs: Pbs,
    pub found: Found,
    pub wanted: Wanted,
    pub records: Records,
    pub record: Option<InstallRecord>,
    pub options: Options,
}

pub fn check(settings: &PbsSettings, args: &Common) -> Done {
    let (findings, _) = examine(settings, None, args)?;
    let code = match findings.worst() {
        Level::Problem => NOT_DONE,
        _ => 0,
    };
    answer(&findings.shown(args.json, Level::Ok), code)
}

/// Looks at everything. No site comes back where PBS cannot be asked.
pub fn examine(
    settings: &PbsSettings,
    install: Option<&PbsInstallArgs>,
    args: &Common,
) -> Result<(Findings, Option<Site>), Failure> {
    let mut findings = Findings::default();
    let pbs = match Pbs::find() {
        Ok(pbs) => pbs,
        Err(error) => {
            findings.problem(error.to_string());
            return Ok((findings, None));
        }
    };
    findings.ok(format!(
        "PBS: {} says {} and {}",
        pbs.conf.display(),
        pbs.exec.display(),
        pbs.home.display()
    ));
    if pbs.failover {
        findings.warning(
            "PBS: there is a secondary server; library and configuration must be on its host as well, at \
             the same paths, and --state on a disk that both see",
        );
    }
    this_host(&mut findings, &pbs);
    let asked = pbs
        .server()
        .and_then(|server| Ok((server, pbs.queues()?, pbs.read_installed()?)));
    let ((server, attributes), queues, found) = match asked {
        Ok(asked) => asked,
        Err(error) => {
            findings.problem(format!(
                "{error}; the server must run, and this must be done by root on its host"
            ));
            return Ok((findings, None));
        }
    };
    judge::version(&mut findings, &server, &attributes);
    let records = Records::of(&settings.state, &found.server);
    let record = records.read()?;
    let last = record.as_ref().map(|record| record.options.clone());
    let (options, told) = site::told(settings, args, &last.unwrap_or_default(), Some(&pbs))?;
    let options = match install {
        Some(install) => site::options(install, options),
        None => options,
    };
    config(&mut findings, "configuration", &told.config);
    if pbs.failover {
        if let Ok(config) = Config::from_file(&told.config) {
            failover::accounts(&mut findings, &config.accounts, &pbs.home, "PBS_HOME");
        }
    }
    library(&mut findings, &pbs, &told.library);
    judge::scheduler(&mut findings, &found, &attributes);
    judge::resources(&mut findings, &found, record.as_ref());
    judge::hooks(&mut findings, &found, record.as_ref());
    judge::cgroups(&mut findings, &found);
    judge::server(&mut findings, &attributes);
    judge::queues(&mut findings, &queues);
    // Of one that cannot be read it was said.
    if let Ok(config) = Config::from_file(&told.config) {
        judge::classes(&mut findings, &queues, &config);
        judge::suspension(&mut findings, &attributes, &config);
    }
    judge::unjudged::find(&mut findings, &found, &attributes, &queues);
    let (nodes, problems, warnings) = site::nodes(&found, &options, reserve(&told.config));
    judge::hosts(&mut findings, &found, &nodes, &attributes);
    for text in warnings {
        findings.warning(text);
    }
    for text in problems {
        findings.problem(text);
    }
    let wanted = Wanted {
        config: told,
        nodes,
    };
    installed(&mut findings, record.as_ref(), &found, &wanted);
    let site = Site {
        pbs,
        found,
        wanted,
        records,
        record,
        options,
    };
    Ok((findings, Some(site)))
}

/// Who we are, where we are, and what PBS has here.
fn this_host(findings: &mut Findings, pbs: &Pbs) {
    if nix::unistd::geteuid().is_root() {
        findings.ok("user: root");
    } else {
        findings.problem("user: only root may make hooks in PBS; run it as root");
    }
    if pbs.home.join("server_priv").is_dir() {
        findings.ok("host: the server's files are here");
    } else {
        findings.problem(format!(
            "host: no {}; run it on the host of the PBS server",
            pbs.home.join("server_priv").display()
        ));
    }
    let iff = pbs.exec.join("sbin/pbs_iff");
    match fs::metadata(&iff) {
        Ok(file) if file.uid() == 0 && file.mode() & 0o4000 != 0 => {
            findings.ok("pbs_iff: set-uid root, so users can submit");
        }
        Ok(_) => findings.problem(format!(
            "{0}: not set-uid root, so no user can submit; chown root {0} && chmod 4755 {0}",
            iff.display()
        )),
        Err(error) => findings.problem(format!("{}: {error}", iff.display())),
    }
    events(findings, pbs);
}

/// Whether this PBS has the events, by their names in its Python interpreter: reading only, there is
/// nothing else to ask.
fn events(findings: &mut Findings, pbs: &Pbs) {
    let program = pbs.exec.join("bin/pbs_python");
    let Ok(bytes) = fs::read(&program) else {
        findings.problem(format!("{}: cannot be read", program.display()));
        return;
    };
    let missing: Vec<&str> = HOOKS
        .iter()
        .map(|hook| hook.event)
        .filter(|event| memchr::memmem::find(&bytes, event.as_bytes()).is_none())
        .collect();
    if missing.is_empty() {
        findings.ok(format!("hook events: all {} are known", HOOKS.len()));
    } else {
        findings.problem(format!(
            "hook events: this PBS has no {}; upgrade it",
            missing.join(", ")
        ));
    }
}

/// What of each node is not committed; as by default where the configuration cannot be read, which is said elsewhere.
fn reserve(path: &Path) -> Reserve {
    Config::from_file(path).map_or(Reserve::default(), |config| config.node.reserve)
}

/// A configuration file that hooks will read.
fn config(findings: &mut Findings, what: &str, path: &Path) {
    if !path.exists() {
        findings.problem(format!(
            "{what}: no file {}; 'libra config default' prints one, --config names another",
            path.display()
        ));
        return;
    }
    match Config::from_file(path) {
        Ok(config) => findings.ok(format!(
            "{what}: {} is valid, on-fault is {}",
            path.display(),
            config.pbs.on_fault.name()
        )),
        Err(error) => findings.problem(format!("{what}: {error}")),
    }
    writable(findings, path);
}

/// What root's processes read or load must not be everybody's to write.
fn writable(findings: &mut Findings, path: &Path) {
    if let Ok(file) = fs::metadata(path) {
        if file.uid() != 0 || file.mode() & 0o022 != 0 {
            findings.problem(format!(
                "{0}: can be written by others than root, and root's hooks take it; chown root {0} && chmod go-w {0}",
                path.display()
            ));
        }
    }
}

/// What PBS's Python says of the library.
#[derive(Deserialize)]
struct Loaded {
    python: String,
    version: String,
    event: bool,
}

const LOAD: &str = "\
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
library.libra_version.restype = ctypes.c_char_p
print(json.dumps({'python': sys.version.split()[0], 'version': library.libra_version().decode(),
                  'event': hasattr(library, 'libra_pbs_event')}))
";

/// Whether PBS's own Python can load the library, and whether it is ours.
fn library(findings: &mut Findings, pbs: &Pbs, path: &Path) {
    let shown = path.display();
    if !path.exists() {
        findings.problem(format!(
            "library: no file {shown}; install Libra's package or say --library"
        ));
        return;
    }
    writable(findings, path);
    let ours = env!("CARGO_PKG_VERSION");
    let loaded = pbs
        .ask("bin/pbs_python", &["-c", LOAD, &path.to_string_lossy()])
        .map_err(|error| match error {
            super::PbsError::Command { answer, .. } => answer,
            other => other.to_string(),
        })
        .and_then(|text| serde_json::from_str::<Loaded>(&text).map_err(|error| error.to_string()));
    match loaded {
        Err(error) => findings.problem(format!(
            "library: PBS's Python cannot load {shown} with ctypes and json: {}",
            error.rsplit("; ").next().unwrap_or_default()
        )),
        Ok(loaded) if loaded.version != ours => findings.problem(format!(
            "library: {shown} is version {}, this program is {ours}; install both from one package",
            loaded.version
        )),
        Ok(loaded) if !loaded.event => findings.problem(format!(
            "library: {shown} has no libra_pbs_event; install both from one package"
        )),
        Ok(loaded) => findings.ok(format!(
            "library: {shown} version {ours} loads in PBS's Python {}",
            loaded.python
        )),
    }
    if outdated(pbs, path) {
        findings.warning(
            "library: the server runs another one, loaded before an upgrade; restart pbs_server (jobs \
             run on) to have it load this one",
        );
    }
}

/// Whether the server has a file mapped that was the library once.
fn outdated(pbs: &Pbs, path: &Path) -> bool {
    let Some(pid) = pbs.server_process() else {
        return false;
    };
    let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
        return false;
    };
    let inode = fs::metadata(path)
        .map(|file| file.ino())
        .unwrap_or_default();
    maps.lines()
        .filter(|line| line.contains("/liblibra.so"))
        .any(|line| {
            let mapped = line.split_whitespace().nth(4).and_then(|n| n.parse().ok());
            mapped != Some(inode)
        })
}

/// Whether something is installed, and is as an installation would leave it now.
fn installed(
    findings: &mut Findings,
    record: Option<&InstallRecord>,
    found: &Found,
    wanted: &Wanted,
) {
    let Some(record) = record else {
        findings.ok("installed: no");
        return;
    };
    let missing = plan::install(found, wanted, record, Path::new(""));
    let version = &record.version;
    if !record.complete {
        findings.warning(
            "installed: in part, an installation or its undoing was interrupted; run 'libra pbs install' to \
             go on or 'libra pbs uninstall' to undo",
        );
    } else if missing.is_empty() {
        findings.ok(format!("installed: by version {version}"));
    } else {
        if found
            .hooks
            .get("libra_queuejob")
            .is_none_or(|hook| !hook.enabled)
        {
            findings.warning(
                "installed: libra_queuejob is disabled, so NOTHING IS JUDGED: jobs with terms get in without a promise",
            );
        }
        let more = match missing.len() {
            1 => String::new(),
            n => format!(" (and {} more, see 'libra pbs install --dry-run')", n - 1),
        };
        findings.warning(format!(
            "installed: by version {version}, not as it should be; 'libra pbs install' would: {}{more}",
            missing[0].step
        ));
    }
}
