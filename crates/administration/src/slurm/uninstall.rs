//! `libra slurm uninstall`: first the lines, then the files. A slurm.conf that names a plugin which is not there keeps
//! slurmctld from starting.

use super::found::Slurm;
use super::install::{difference, text};
use super::judge::names_plugin;
use super::plugin::Which;
use super::record::InstallRecord;
use super::status::queue;
use super::{NOT_DONE, SlurmError, edit};
use crate::Common;
use crate::args::SlurmUninstallArgs;
use crate::install_state::InstallState;
use crate::replace::rewrite;
use crate::{Done, Failure};
use libra_slurm::array::PREFIX;
use libra_slurm::controller::QUOTES_FILE;
use libra_slurm::records::State;
use libra_terminal::{answer, note, tell};
use serde_json::json;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn uninstall(uninstall: &SlurmUninstallArgs, args: &Common) -> Done {
    let slurm = Slurm::find(&uninstall.settings);
    let state = InstallState::of(&uninstall.settings.state, &slurm.cluster(), "slurm");
    let lock = match state.file().exists() && !uninstall.dry_run {
        true => Some(state.lock().map_err(SlurmError::from)?),
        false => None,
    };
    let record: InstallRecord = state.read().map_err(SlurmError::from)?.unwrap_or_default();
    let plugins = plugins(&slurm, &record);
    let lines = lines(&slurm);
    if plugins.is_empty() && lines.is_empty() && record.is_empty() {
        return answer(
            &note(args.json, "nothing to do: nothing of Libra's is here"),
            0,
        );
    }
    let refuse = |text: String| -> Done {
        tell(&note(args.json, &text))?;
        Ok(ExitCode::from(NOT_DONE))
    };
    if !uninstall.force {
        match held() {
            Ok(jobs) if !jobs.is_empty() => {
                return refuse(format!(
                    "not done: jobs with terms are queued or running: {}\nWait for them, or end them with scancel. --force goes on without waiting: \
                     Libra no longer manages these jobs",
                    some(&jobs)
                ));
            }
            Ok(_) => {}
            Err(error) => tell(&note(
                args.json,
                &format!("not asked whether jobs with terms are there: {error}"),
            ))?,
        }
    }
    if !lines.is_empty() && (!uninstall.edit || slurm.configless()) {
        let whose = match slurm.configless() {
            true => "on the controller, from which these files come",
            false => "or run it with --edit",
        };
        return refuse(format!(
            "not done: Slurm's files still name Libra, and without the plugin slurmctld would not start. Take these out, {whose}:\n{}",
            lines.join("\n")
        ));
    }
    let (edits, notes) = edits(&slurm, &record)?;
    for edit in &edits {
        let after = edit.after.as_deref().unwrap_or_default();
        tell(&step(args, &difference(&edit.file, &edit.now, after)))?;
        if !uninstall.dry_run {
            write(edit)?;
        }
    }
    for plugin in &plugins {
        tell(&step(args, &format!("rm {}", plugin.display())))?;
        if !uninstall.dry_run {
            remove(plugin)?;
        }
    }
    for text in &notes {
        tell(&note(args.json, text))?;
    }
    if uninstall.dry_run {
        return answer(&note(args.json, "nothing was changed (--dry-run)"), 0);
    }
    // A copy that says nothing else than what is there now is of no use.
    for (copy, file) in record
        .files
        .iter()
        .filter_map(|c| Some((c.copy.as_ref()?, &c.file)))
    {
        if fs::read(copy).ok() == fs::read(file).ok() {
            remove(copy)?;
        }
    }
    state
        .write::<InstallRecord>(None)
        .map_err(SlurmError::from)?;
    if lock.is_some() {
        state.clear();
    }
    let text = "uninstalled\nThen:\n    systemctl restart slurmctld     on the controller: it has the plugin loaded until then; jobs run on\n    \
                systemctl restart slurmd        on every node, when it suits; jobs run on";
    let quotes = held_quotes(&slurm).map_or_else(String::new, |file| {
        let file = file.display();
        format!(
            "\n    rm -f {file}     on the controller, once it is restarted: quotes that were held"
        )
    });
    answer(&note(args.json, &format!("{text}{quotes}")), 0)
}

fn step(args: &Common, text: &str) -> String {
    match args.json {
        true => format!("{}\n", json!({"step": text})),
        false => format!("{text}\n"),
    }
}

/// Plugins that are there: those that install copied, and others of their names.
fn plugins(slurm: &Slurm, record: &InstallRecord) -> Vec<PathBuf> {
    let named = Which::BOTH
        .into_iter()
        .flat_map(|which| (slurm.plugin_dirs.iter()).map(move |dir| dir.join(which.file())));
    let mut all: Vec<PathBuf> = record.plugins.iter().cloned().chain(named).collect();
    all.retain(|file| file.exists());
    all.sort();
    all.dedup();
    all
}

/// Quotes that are held for some minutes more, of the slurmctld that has the plugin loaded until it is restarted.
fn held_quotes(slurm: &Slurm) -> Option<PathBuf> {
    let state = slurm.conf.as_ref()?.get("StateSaveLocation")?;
    Some(Path::new(state).join(QUOTES_FILE)).filter(|file| file.exists())
}

/// The lines that name Libra, as they are to be found.
fn lines(slurm: &Slurm) -> Vec<String> {
    let named = slurm.conf.as_ref().and_then(names_plugin);
    let named = named.map(|line| {
        let value = line.get("JobSubmitPlugins").unwrap_or_default();
        format!("  {}: libra in JobSubmitPlugins={value}", line.place())
    });
    let stacked = slurm.stack.iter().filter(|entry| entry.is_libra());
    let stacked = stacked.map(|entry| format!("  {}: {}", entry.place(), entry.plugin));
    named.into_iter().chain(stacked).collect()
}

/// Jobs that have a commitment and have not ended.
fn held() -> Result<Vec<String>, SlurmError> {
    let jobs = queue()?.into_iter().map(|owned| owned.job);
    let live =
        jobs.filter(|job| job.state != State::Ended && job.admin_comment.starts_with(PREFIX));
    Ok(live.map(|job| job.name()).collect())
}

fn some(jobs: &[String]) -> String {
    let shown = jobs.iter().take(20).cloned().collect::<Vec<_>>().join(" ");
    match jobs.len() {
        n if n > 20 => format!("{shown} and {} more", n - 20),
        _ => shown,
    }
}

/// A file as it is, and as it becomes: None if install made it.
struct Restored {
    file: PathBuf,
    now: String,
    after: Option<String>,
}

/// The files as they are and as they become: what was before where nobody wrote since, else without Libra's words. Beside it,
/// what stays.
fn edits(
    slurm: &Slurm,
    record: &InstallRecord,
) -> Result<(Vec<Restored>, Vec<String>), SlurmError> {
    let (mut edits, mut notes) = (Vec::new(), Vec::new());
    let real = |file: &PathBuf| fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    let conf = slurm.conf.iter().flat_map(|conf| &conf.files).map(real);
    let stack = slurm.stack.iter().map(|entry| real(&entry.file));
    let mut files: Vec<PathBuf> = (record.files.iter().map(|c| c.file.clone()))
        .chain(conf)
        .chain(stack)
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    for file in files {
        // A file that somebody else has, and that is no text, is none of ours.
        let Some(now) = text(&file).ok().flatten() else {
            continue;
        };
        let change = record.change(&file);
        let untouched = change.filter(|change| change.after == now);
        let after = match untouched {
            Some(change) => change.before.clone(),
            None => {
                let failed = |why| SlurmError::Edit {
                    file: file.clone(),
                    why,
                };
                let mut text = now.clone();
                for word in ["libra", "job_submit/libra"] {
                    text = edit::without_word(&text, "JobSubmitPlugins", word).map_err(failed)?;
                }
                if change.is_some_and(|c| c.after.contains("PrologFlags"))
                    && text.contains("PrologFlags")
                {
                    notes.push(format!(
                        "{} was changed since, so PrologFlags stays there as it is",
                        file.display()
                    ));
                }
                Some(edit::without_plugin(&text))
            }
        };
        if after.as_ref() != Some(&now) {
            edits.push(Restored { file, now, after });
        }
    }
    Ok((edits, notes))
}

fn write(edit: &Restored) -> Result<(), Failure> {
    let Some(after) = &edit.after else {
        return remove(&edit.file);
    };
    rewrite(&edit.file, after.as_bytes()).map_err(|error| {
        let file = edit.file.clone();
        SlurmError::File { file, error }.into()
    })
}

fn remove(file: &Path) -> Result<(), Failure> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let file = file.to_path_buf();
            Err(SlurmError::File { file, error }.into())
        }
        _ => Ok(()),
    }
}
