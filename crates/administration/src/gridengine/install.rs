//! `libra gridengine install` and `uninstall`: print what they do, and do it by qconf.

use super::check::{JSV, SHEPHERD, Site, find, jsv_log, jsv_url, shepherd_command};
use super::settings::{definition, value, with, without};
use super::{GridEngineError, NOT_DONE, PATIENCE, cell, file_error};
use crate::Common;
use crate::Done;
use crate::args::{GridEngineInstallArgs, GridEngineSettings, GridEngineUninstallArgs};
use crate::findings::Level;
use crate::install_state::InstallState;
use crate::replace::replace;
use libra_config::site;
use libra_gridengine::commands::Cell;
use libra_gridengine::starts::START;
use libra_terminal::{answer, note, tell};
use libra_units::duration;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Daemons hear of a new configuration with their next report, and so many seconds later at most.
const SPARE: u64 = 5;

/// Seconds between two reports of an execution daemon.
fn report_time(conf: &str) -> u64 {
    let given = value(conf, "load_report_time").and_then(|text| duration::parse(text).ok());
    given
        .filter(|seconds| (0.0..=3600.0).contains(seconds))
        .map_or(40, |seconds| seconds.ceil() as u64)
}

/// What was there before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct InstallRecord {
    /// Settings of the global configuration: name, before, since.
    settings: Vec<(String, String, String)>,
    /// Complexes that were added.
    complexes: Vec<String>,
}

/// One thing that is done.
enum Step {
    /// A file with these contents.
    Write(PathBuf, String),
    Remove(PathBuf),
    /// `qconf -Mconf`: setting and value.
    Set(&'static str, String),
    /// `qconf -Mc`: complexes that come or go.
    Add(Vec<String>),
    Take(Vec<String>),
    /// A host's value that no verifier has taken away.
    Clear(String),
    /// Seconds, until the execution daemons have heard of the rest.
    Wait(u64),
}

impl Step {
    fn shown(&self) -> String {
        match self {
            Step::Write(file, text) => {
                let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
                format!("write {}\n{}", file.display(), lines.join("\n"))
            }
            Step::Remove(file) => format!("rm {}", file.display()),
            Step::Set(key, value) => format!("qconf -Mconf global    # {key} {value}"),
            Step::Add(names) => format!("qconf -Mc    # and {}", names.join(", ")),
            Step::Take(names) => format!("qconf -Mc    # without {}", names.join(", ")),
            Step::Clear(host) => {
                format!("qconf -dattr exechost complex_values {START} {host}")
            }
            Step::Wait(seconds) => format!(
                "sleep {seconds}    # until execution daemons do not start {SHEPHERD} any more"
            ),
        }
    }

    fn run(&self, cell: &Cell) -> Result<(), GridEngineError> {
        match self {
            Step::Write(file, text) => {
                if let Some(directory) = file.parent() {
                    fs::create_dir_all(directory).map_err(file_error(directory))?;
                }
                replace(file, text.as_bytes(), 0o755).map_err(file_error(file))
            }
            Step::Remove(file) => match fs::remove_file(file) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(file_error(file)(error)),
                _ => {
                    if let Some(directory) = file.parent() {
                        // Others' files may be in it.
                        let _ = fs::remove_dir(directory);
                    }
                    Ok(())
                }
            },
            Step::Set(key, value) => {
                let conf = cell.run("qconf", &["-sconf"], PATIENCE)?;
                // qconf takes the file's name for that of the configuration.
                hand_over(cell, "-Mconf", "global", &with(&conf, key, value))
            }
            Step::Add(names) => {
                let mut text = cell.run("qconf", &["-sc"], PATIENCE)?;
                for name in names {
                    text.push_str(&format!("{name} {}\n", definition(name).join(" ")));
                }
                hand_over(cell, "-Mc", "complexes", &text)
            }
            Step::Take(names) => {
                let text = cell.run("qconf", &["-sc"], PATIENCE)?;
                let is_taken = |line: &&str| {
                    let first = line.split_whitespace().next().unwrap_or_default();
                    names.iter().any(|name| name == first)
                };
                let left: Vec<&str> = text.lines().filter(|line| !is_taken(line)).collect();
                hand_over(cell, "-Mc", "complexes", &(left.join("\n") + "\n"))
            }
            Step::Clear(host) => {
                let words = ["-dattr", "exechost", "complex_values", START, host];
                Ok(cell.run("qconf", &words, PATIENCE).map(drop)?)
            }
            Step::Wait(seconds) => {
                thread::sleep(Duration::from_secs(*seconds));
                Ok(())
            }
        }
    }
}

/// Gives qconf a file. It says with success what it did not take, so that who calls looks afterwards.
fn hand_over(cell: &Cell, option: &str, name: &str, text: &str) -> Result<(), GridEngineError> {
    let directory = std::env::temp_dir().join(format!("libra-qconf-{}", std::process::id()));
    let file = directory.join(name);
    let written = fs::create_dir(&directory).and_then(|()| fs::write(&file, text));
    let done = written
        .map_err(file_error(&file))
        .and_then(|()| Ok(cell.run("qconf", &[option, &file.display().to_string()], PATIENCE)?));
    let _ = fs::remove_dir_all(&directory);
    done.map(drop)
}

fn script(args: &Common, what: &str, command: &str, log: &Path) -> Result<String, GridEngineError> {
    let program = std::env::current_exe().map_err(file_error(Path::new("/proc/self/exe")))?;
    let config = (args.config.as_ref()).map_or_else(String::new, |config| {
        format!("--config {} ", config.display())
    });
    let errors = if command == JSV { " 2>/dev/null" } else { "" };
    Ok(format!(
        "#!/bin/sh\n# {what} Written by 'libra gridengine install'.\nexec {} {config}gridengine {command} --log {}{errors}\n",
        program.display(),
        log.display(),
    ))
}

fn state(cell: &Cell, settings: &GridEngineSettings) -> InstallState {
    InstallState::of(&settings.state, &cell.name, "gridengine")
}

fn shepherd_script(args: &Common, settings: &GridEngineSettings) -> Result<Step, GridEngineError> {
    let what = "Started by execution daemons in the place of shepherds (shepherd_cmd).";
    let text = script(args, what, SHEPHERD, &settings.shepherd_log)?;
    Ok(Step::Write(settings.scripts.join(SHEPHERD), text))
}

pub fn install(install: &GridEngineInstallArgs, args: &Common) -> Done {
    let config = site::load(args.config.as_deref())?;
    let settings = &install.settings;
    let cell = cell();
    if settings.host {
        let steps = unwritten(vec![shepherd_script(args, settings)?]);
        return carry_out(&cell, &steps, install.dry_run, args);
    }
    let site = Site::read(cell.clone())?;
    let findings = find(&site, &config, settings);
    // What is only not there yet is what this is for.
    let is_installed = site.setting("jsv_url") == Some(jsv_url(&settings.scripts).as_str());
    if findings.worst() == Level::Problem && !is_installed {
        return answer(&findings.shown(args.json, Level::Problem), NOT_DONE);
    }
    let mut steps = unwritten(vec![
        Step::Write(
            settings.scripts.join(JSV),
            script(
                args,
                "Started by qmaster for its submissions (jsv_url).",
                JSV,
                &jsv_log(&cell)?,
            )?,
        ),
        shepherd_script(args, settings)?,
    ]);
    let missing: Vec<String> = site
        .missing_complexes()
        .into_iter()
        .map(str::to_string)
        .collect();
    let allowed = value(&site.conf, "jsv_allowed_mod").unwrap_or("none");
    let wanted = [
        // First of all: nobody may change a context once there are any.
        ("jsv_allowed_mod", without(allowed, "ac")),
        ("shepherd_cmd", shepherd_command(&settings.scripts)),
        ("jsv_url", jsv_url(&settings.scripts)),
    ];
    let current = |key: &str| value(&site.conf, key).unwrap_or("none").to_string();
    let changed: Vec<_> = (wanted.into_iter())
        .filter(|(key, wanted)| current(key) != *wanted)
        .collect();
    if !missing.is_empty() {
        steps.push(Step::Add(missing.clone()));
    }
    let state = state(&cell, settings);
    let mut record = state
        .read::<InstallRecord>()
        .map_err(GridEngineError::from)?
        .unwrap_or(InstallRecord {
            settings: Vec::new(),
            complexes: Vec::new(),
        });
    for (key, wanted) in changed {
        if !record.settings.iter().any(|(known, ..)| known == key) {
            record
                .settings
                .push((key.to_string(), current(key), wanted.clone()));
        }
        steps.push(Step::Set(key, wanted));
    }
    record.complexes.extend(missing);
    if steps.is_empty() {
        return answer(&note(args.json, "nothing to do"), 0);
    }
    if install.dry_run {
        return carry_out(&cell, &steps, true, args);
    }
    let _lock = state.lock().map_err(GridEngineError::from)?;
    state.tidy();
    state.write(Some(&record)).map_err(GridEngineError::from)?;
    carry_out(&cell, &steps, false, args)
}

/// Files that are as they should be are not written again: qmaster starts its verifiers anew when theirs changes.
fn unwritten(mut steps: Vec<Step>) -> Vec<Step> {
    steps.retain(|step| match step {
        Step::Write(file, text) => fs::read_to_string(file).ok().as_ref() != Some(text),
        _ => true,
    });
    steps
}

fn carry_out(cell: &Cell, steps: &[Step], dry_run: bool, args: &Common) -> Done {
    if steps.is_empty() {
        return answer(&note(args.json, "nothing to do"), 0);
    }
    for step in steps {
        tell(&note(args.json, &step.shown()))?;
        if !dry_run {
            step.run(cell)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub fn uninstall(uninstall: &GridEngineUninstallArgs, args: &Common) -> Done {
    let settings = &uninstall.settings;
    let cell = cell();
    if settings.host {
        let file = settings.scripts.join(SHEPHERD);
        let steps = if file.exists() {
            vec![Step::Remove(file)]
        } else {
            Vec::new()
        };
        return carry_out(&cell, &steps, uninstall.dry_run, args);
    }
    let state = state(&cell, settings);
    let record = state
        .read::<InstallRecord>()
        .map_err(GridEngineError::from)?;
    let Some(record) = record else {
        return answer(&note(args.json, "nothing to do: it is not installed"), 0);
    };
    let site = Site::read(cell.clone())?;
    let jobs = site.committed_jobs();
    if !jobs.is_empty() && !uninstall.force {
        let text = format!(
            "jobs hold what was committed to them: {jobs:?}; wait for their end, delete them, or give --force"
        );
        return answer(&note(args.json, &text), NOT_DONE);
    }
    let mut steps = Vec::new();
    let mut kept = Vec::new();
    // In the opposite order: contexts are protected until nobody believes them any more.
    for (key, before, since) in record.settings.iter().rev() {
        let Some(key) = ["jsv_allowed_mod", "shepherd_cmd", "jsv_url"]
            .into_iter()
            .find(|known| known == key)
        else {
            continue;
        };
        match value(&site.conf, key) {
            Some(now) if now == since => steps.push(Step::Set(key, before.clone())),
            Some(now) if now == before => {}
            now => kept.push(format!(
                "{key} stays {}: somebody has changed it since",
                now.unwrap_or("unset")
            )),
        }
    }
    let missing = site.missing_complexes();
    let there: Vec<String> = (record.complexes.iter())
        .filter(|name| !missing.contains(&name.as_str()))
        .cloned()
        .collect();
    let with_value = site.hosts().filter(|host| !host.starts.is_empty());
    steps.extend(with_value.map(|host| Step::Clear(host.name.clone())));
    if !there.is_empty() {
        steps.push(Step::Take(there));
    }
    // A daemon that does not find it puts its queues into an error.
    steps.push(Step::Wait(report_time(&site.conf) + SPARE));
    steps.push(Step::Remove(settings.scripts.join(JSV)));
    steps.push(Step::Remove(settings.scripts.join(SHEPHERD)));
    for line in kept {
        tell(&note(args.json, &line))?;
    }
    if uninstall.dry_run {
        return carry_out(&cell, &steps, true, args);
    }
    let lock = state.lock().map_err(GridEngineError::from)?;
    state.tidy();
    carry_out(&cell, &steps, false, args)?;
    state
        .write::<InstallRecord>(None)
        .map_err(GridEngineError::from)?;
    state.clear();
    drop(lock);
    Ok(ExitCode::SUCCESS)
}
