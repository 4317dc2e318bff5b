//! `libra pbs install` and `uninstall`: carry out a plan, a step printed before it is run.

use super::check;
use super::found::{SchedulerFound, with_line};
use super::plan::{self, Holders};
use super::record::{InstallRecord, Installed, Records};
use super::server::Pbs;
use super::session::Session;
use super::step::{Note, Planned, Step};
use super::{NOT_DONE, PbsError};
use crate::Common;
use crate::Done;
use crate::args::{PbsInstallArgs, PbsUninstallArgs};
use crate::findings::Level;
use crate::replace::{beside, replace, rewrite};
use libra_accounts::payments::Payments;
use libra_system::clock;
use libra_terminal::{answer, note, tell};
use libra_units::credits;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub fn install(install: &PbsInstallArgs, args: &Common) -> Done {
    let (findings, site) = check::examine(&install.settings, Some(install), args)?;
    let worst = findings.worst();
    tell(&findings.shown(args.json, Level::Warning))?;
    let Some(site) = site.filter(|_| worst < Level::Problem) else {
        tell(&note(
            args.json,
            "nothing was changed; 'libra pbs check' shows all that was looked at",
        ))?;
        return Ok(ExitCode::from(NOT_DONE));
    };
    // What was read before the lock may be out of date; for --dry-run it does.
    let (_lock, found, last) = if install.dry_run {
        (None, site.found, site.record)
    } else {
        let lock = site.records.lock()?;
        site.records.tidy();
        (Some(lock), site.pbs.read_installed()?, site.records.read()?)
    };
    let last = last.unwrap_or_default();
    let plan = plan::install(&found, &site.wanted, &last, &site.records.hooks());
    let complete = last.complete && last.options == site.options && last.version == VERSION;
    if install.dry_run {
        for planned in &plan {
            tell(&line(args, &planned.step))?;
        }
        let text = match plan.len() {
            0 => "nothing to do".to_string(),
            n => format!("{n} steps; nothing was changed (--dry-run)"),
        };
        return answer(&note(args.json, &text), 0);
    }
    if plan.is_empty() && complete {
        return answer(&note(args.json, "nothing to do"), 0);
    }
    let mut record = InstallRecord {
        server: found.server.clone(),
        version: VERSION.to_string(),
        options: site.options.clone(),
        complete: false,
        ..last
    };
    leftover(found.scheduler.as_ref());
    run(args, &site.pbs, &plan, &mut record, &site.records, CONTINUE)?;
    record.complete = true;
    site.records.write(&record)?;
    let text = if plan.is_empty() {
        "nothing to do".to_string()
    } else {
        format!(
            "installed: {} changes; what was before is in {}",
            plan.len(),
            site.records.file().display()
        )
    };
    answer(&note(args.json, &text), 0)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CONTINUE: &str =
    "'libra pbs install' again goes on from here, 'libra pbs uninstall' undoes it.";
const GO_ON: &str = "'libra pbs uninstall' again goes on from here.";

pub fn uninstall(uninstall: &PbsUninstallArgs, args: &Common) -> Done {
    let pbs = Pbs::find()?;
    let (server, _) = pbs.server()?;
    let records = Records::of(&uninstall.state, &server);
    let lock = match records.file().exists() && !uninstall.dry_run {
        true => Some(records.lock()?),
        false => None,
    };
    let Some(record) = records.read()? else {
        let text = format!(
            "nothing to do: no record of an installation in {}",
            records.file().display()
        );
        return answer(&note(args.json, &text), 0);
    };
    let found = pbs.read_installed()?;
    let holders = pbs.holders(&found)?;
    let active = holders.active();
    if !active.is_empty() && !uninstall.force {
        let text = format!(
            "not done: {} with what Libra made, queued or running: {}\nWait for them, or end them with qdel. \
             To keep new ones out meanwhile: qmgr -c 'set queue NAME enabled=false'. --force goes on \
             without waiting: Libra no longer manages these jobs, and the resources that they have stay.",
            count(active.len(), "job is there", "jobs are there"),
            some(&active)
        );
        tell(&note(args.json, &text))?;
        return Ok(ExitCode::from(NOT_DONE));
    }
    let plan = plan::uninstall(&found, &record, &holders, uninstall.delete_history);
    let mut left = record.clone();
    for entry in plan::settled(&found, &record) {
        left.remove(&entry);
    }
    if uninstall.dry_run {
        for planned in &plan {
            tell(&line(args, &planned.step))?;
            if let Note::Undone(entry) = &planned.note {
                left.remove(entry);
            }
        }
        tell(&note(
            args.json,
            &format!("{} steps; nothing was changed (--dry-run)", plan.len()),
        ))?;
    } else {
        left.complete = false;
        records.tidy();
        leftover(found.scheduler.as_ref());
        run(args, &pbs, &plan, &mut left, &records, GO_ON)?;
        records.write(&left)?;
        if active.is_empty() {
            if let Some(text) = give_money_back(record.options.config.as_deref()) {
                tell(&note(args.json, &text))?;
            }
        }
    }
    if left.is_empty() {
        if lock.is_some() {
            records.clear();
            tell(&note(
                args.json,
                &format!("uninstalled: {} changes", plan.len()),
            ))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    tell(&note(
        args.json,
        &remaining_text(&left, &holders, uninstall),
    ))?;
    Ok(ExitCode::from(NOT_DONE))
}

/// What accounts have set aside for jobs that ended while nobody looked: no hook will ever settle it. What is to be said of it.
fn give_money_back(config: Option<&Path>) -> Option<String> {
    let given_back = || -> Result<(u64, f64), String> {
        let rules = libra_config::site::load(config).map_err(|error| error.to_string())?;
        let open = Payments::open(&rules, "pbs", false).map_err(|error| error.to_string())?;
        let Some(mut payments) = open else {
            return Ok((0, 0.0));
        };
        let done = payments.release_all("Libra was uninstalled", clock::unix_time());
        done.and_then(|done| payments.flush().map(|()| done))
            .map_err(|error| error.to_string())
    };
    match given_back() {
        Ok((0, _)) => None,
        Ok((holds, sum)) => Some(format!(
            "accounts: {} credits are free again that were held for {}",
            credits(sum),
            count(
                holds as usize,
                "job that ended unseen",
                "jobs that ended unseen"
            )
        )),
        Err(error) => Some(format!(
            "accounts: {error}; what is held for jobs of PBS stays so, until this is run again or Libra is installed again"
        )),
    }
}

/// What stays, why, and what to do.
fn remaining_text(left: &InstallRecord, holders: &Holders, uninstall: &PbsUninstallArgs) -> String {
    let mut text = format!("resources that stay: {}", left.resources.join(", "));
    let (active, finished) = (holders.active(), holders.finished());
    if active.is_empty() && finished.is_empty() {
        text.push_str(
            "\nA job that is queued, running or in the history names them in its select: 'qstat -x -f' shows which. \
             Run it again when it is gone (qdel -x).",
        );
    }
    if !active.is_empty() {
        text.push_str(&format!(
            "\n{} queued or running: {}\nRun it again when these have ended: what accounts hold for them is given back then. On the hosts that they \
             ran on, 'libra cancel JOB' takes away their cgroups and frees their shares.",
            count(active.len(), "job with them is", "jobs with them are"),
            some(&active)
        ));
    }
    if !finished.is_empty() && !uninstall.delete_history {
        text.push_str(&format!(
            "\n{} in the history of PBS, which lets no resource go that a job in it has. They do no harm. \
             Run it again when the history has let the jobs go (job_history_duration), or with \
             --delete-history, which deletes these jobs from the history: qstat -x knows them no more, \
             the accounting files keep them.",
            count(finished.len(), "finished job with them is", "finished jobs with them are")
        ));
    }
    text
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The first of many.
fn some(jobs: &[String]) -> String {
    let shown = jobs.iter().take(20).cloned().collect::<Vec<_>>().join(" ");
    match jobs.len() {
        n if n > 20 => format!("{shown} and {} more", n - 20),
        _ => shown,
    }
}

fn line(args: &Common, step: &Step) -> String {
    if args.json {
        format!("{}\n", json!({"step": step.to_string()}))
    } else {
        format!("{step}\n")
    }
}

/// Runs the steps in their order and keeps the record true to what is there.
fn run(
    args: &Common,
    pbs: &Pbs,
    plan: &[Planned],
    record: &mut InstallRecord,
    records: &Records,
    next: &'static str,
) -> Result<(), PbsError> {
    let output = |error| PbsError::File {
        file: "standard output".into(),
        error,
    };
    let mut qmgr = pbs.session()?;
    for planned in plan {
        tell(&line(args, &planned.step)).map_err(output)?;
        if let Note::Made(entry) = &planned.note {
            record.add(entry);
            records.write(record)?;
        }
        match (step(pbs, &mut qmgr, &planned.step), &planned.note) {
            // A job names it in its select, which cannot be asked for beforehand.
            (Err(PbsError::Command { answer, .. }), Note::Undone(Installed::Resource(name)))
                if answer.contains("Resource busy") =>
            {
                tell(&note(
                    args.json,
                    &format!("{name} stays: a job in PBS has it"),
                ))
                .map_err(output)?;
                continue;
            }
            (done, _) => done.map_err(|error| PbsError::Step {
                error: Box::new(error),
                next,
            })?,
        }
        if let Note::Undone(entry) = &planned.note {
            record.remove(entry);
            records.write(record)?;
        }
    }
    Ok(())
}

fn step(pbs: &Pbs, qmgr: &mut Session, step: &Step) -> Result<(), PbsError> {
    match step {
        Step::Qmgr(directive) => patiently(qmgr, directive),
        Step::Import { file, text, .. } => import(qmgr, step, file, text),
        Step::SchedConfig { file, from, to } => sched_config(file, from, to),
        Step::Reconfigure { pid } => {
            let pid = nix::unistd::Pid::from_raw(*pid);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).map_err(|error| {
                PbsError::Command {
                    command: format!("kill -HUP {pid}"),
                    answer: error.to_string(),
                }
            })
        }
        Step::Forget(jobs) => {
            let mut arguments = vec!["-x"];
            arguments.extend(jobs.iter().map(String::as_str));
            pbs.run("bin/qdel", &arguments).map(drop)
        }
    }
}

/// How long to wait for hosts to delete a hook of the same name.
const HOSTS_DELETE: Duration = Duration::from_secs(30);

/// Carries a directive out; waits where the name of a hook is free only when all hosts have deleted an
/// older one, which takes them a moment.
fn patiently(qmgr: &mut Session, directive: &str) -> Result<(), PbsError> {
    let end = Instant::now() + HOSTS_DELETE;
    let mut refused = 0;
    loop {
        match qmgr.run(directive) {
            // The server could not look up who asks, and did nothing.
            Err(PbsError::Command { answer, .. })
                if answer.contains("Invalid credential") && refused < 3 =>
            {
                refused += 1;
                std::thread::sleep(Duration::from_secs(1));
            }
            Err(PbsError::Command { command, answer }) if answer.contains("pending delete") => {
                if Instant::now() > end {
                    let answer = format!(
                        "{answer}. A host that is down has not deleted it yet (pbsnodes -l): start it, or \
                         delete the node, and run this again"
                    );
                    return Err(PbsError::Command { command, answer });
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            done => return done,
        }
    }
}

/// Imports a part of a hook from a file that is there only meanwhile.
fn import(qmgr: &mut Session, step: &Step, file: &Path, text: &str) -> Result<(), PbsError> {
    let failed = |error| PbsError::File {
        file: file.to_path_buf(),
        error,
    };
    let directory = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(failed)?;
    replace(file, text.as_bytes(), 0o600).map_err(failed)?;
    let imported = qmgr.run(&step.directive().unwrap_or_default());
    let _ = fs::remove_file(file);
    let _ = fs::remove_dir(directory);
    imported
}

/// Takes away the new sched_config of a run that was killed before it came to its place.
fn leftover(scheduler: Option<&SchedulerFound>) {
    if let Some(scheduler) = scheduler {
        let _ = fs::remove_file(beside(&scheduler.file));
    }
}

/// Changes one line of sched_config. Owner, mode and every other byte stay.
fn sched_config(file: &Path, from: &str, to: &str) -> Result<(), PbsError> {
    let failed = |error| PbsError::File {
        file: file.to_path_buf(),
        error,
    };
    let text = fs::read_to_string(file).map_err(failed)?;
    let changed = with_line(&text, from, to).ok_or_else(|| PbsError::Line {
        file: file.to_path_buf(),
        line: from.to_string(),
    })?;
    rewrite(file, changed.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn sched_config_keeps_owner_mode_and_all_other_bytes() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("sched_config");
        fs::write(&file, "# a\nresources: \"x\"\nb\tc").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("mode");
        sched_config(&file, "resources: \"x\"", "resources: \"x, y\"").expect("changed");
        let text = fs::read_to_string(&file).expect("there");
        assert_eq!(text, "# a\nresources: \"x, y\"\nb\tc");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o7777, 0o640);
        let error = sched_config(&file, "resources: \"x\"", "z").expect_err("no such line");
        assert!(error.to_string().contains("run it again"), "{error}");
        let left = fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(left, 1);
    }

    #[test]
    fn many_jobs_are_named_in_part() {
        let jobs: Vec<String> = (0..22).map(|n| n.to_string()).collect();
        assert!(some(&jobs).ends_with("18 19 and 2 more"));
        assert_eq!(some(&jobs[..2]), "0 1");
    }
}
