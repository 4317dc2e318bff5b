//! `libra slurm install`: copies the plugins, says or writes the lines that name them.

use super::check::{self, Site};
use super::conf::words;
use super::edit;
use super::plugin::{Binary, Version, Which};
use super::plugstack::SPANK;
use super::record::{Changed, InstallRecord};
use super::{NOT_DONE, SlurmError, build, judge};
use crate::Common;
use crate::args::SlurmInstallArgs;
use crate::findings::Level;
use crate::install_state::InstallState;
use crate::replace::{replace, rewrite};
use crate::{Done, Failure};
use libra_terminal::{answer, note, tell};
use serde_json::json;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A plugin that comes to its place.
struct Copy {
    which: Which,
    from: PathBuf,
    to: PathBuf,
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "install -m 644 {} {}    (by rename: who has the old one loaded keeps it)",
            self.from.display(),
            self.to.display()
        )
    }
}

/// A line that has to be in a file of Slurm's.
struct Wanted {
    file: PathBuf,
    /// The line that it takes the place of; at the end where there is none.
    instead: Option<usize>,
    line: String,
    change: Change,
}

enum Change {
    /// A word more in a list.
    Word(&'static str, &'static str),
    /// A line at the end.
    Line,
}

impl Wanted {
    fn apply(&self, text: &str) -> Result<String, String> {
        match self.change {
            Change::Word(key, word) => edit::with_word(text, key, word),
            Change::Line => Ok(edit::appended(text, &self.line)),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.instead {
            Some(number) => write!(f, "  {file}, in line {number}:\n    {}", self.line),
            None => write!(f, "  {file}, at the end:\n    {}", self.line),
        }
    }
}

pub fn install(install: &SlurmInstallArgs, args: &Common) -> Done {
    let mut settings = install.settings.clone();
    if let Some(tree) = &install.build {
        settings.plugins = Some(build::of_tree(tree, None, None)?);
    }
    let mut site = check::examine(&settings, args);
    if !install.dry_run && !nix::unistd::geteuid().is_root() {
        site.basis
            .problem("user: only root may write into Slurm's directories; run it as root");
    }
    tell(&site.basis.shown(args.json, Level::Warning))?;
    let copies = copies(&site);
    if site.basis.worst() == Level::Problem {
        return renew(install, args, &site, copies);
    }
    let wanted = wanted(&site);
    if install.edit && !wanted.is_empty() && site.slurm.configless() {
        tell(&note(
            args.json,
            "nothing was changed: these files are copies from the controller; run it with --edit there",
        ))?;
        return Ok(ExitCode::from(NOT_DONE));
    }
    let edits = match install.edit {
        true => edits(&wanted)?,
        false => Vec::new(),
    };
    if copies.is_empty() && wanted.is_empty() {
        return answer(&note(args.json, "nothing to do"), 0);
    }
    if !install.dry_run {
        let state = InstallState::of(&settings.state, &site.slurm.cluster(), "slurm");
        let _lock = state.lock().map_err(SlurmError::from)?;
        state.tidy();
        carry_out(args, &copies, &edits, &state)?;
    } else {
        for copy in &copies {
            tell(&step(args, &copy.to_string()))?;
        }
        for edit in &edits {
            tell(&step(args, &shown(edit)))?;
        }
    }
    if !install.edit && !wanted.is_empty() {
        tell(&note(args.json, &to_write(&site, &wanted)))?;
    }
    tell(&note(args.json, &then(&site, &copies, &wanted)))?;
    let text = match (install.dry_run, install.edit || wanted.is_empty()) {
        (true, _) => "nothing was changed (--dry-run)",
        (false, true) => "installed; 'libra slurm check' after that says whether it is sound",
        (false, false) => {
            "the plugins are there; the lines are yours to write, or run it again with --edit"
        }
    };
    answer(&note(args.json, text), 0)
}

/// Where there are problems nothing is installed. But a plugin that is there for another Slurm is replaced, whatever else is wrong: slurmctld does not
/// start with it.
fn renew(install: &SlurmInstallArgs, args: &Common, site: &Site, copies: Vec<Copy>) -> Done {
    let stale: Vec<Copy> = (copies.into_iter())
        .filter(|copy| is_stale(copy, site))
        .collect();
    if stale.is_empty() || !nix::unistd::geteuid().is_root() {
        tell(&note(
            args.json,
            "nothing was changed; 'libra slurm check' shows all that was looked at",
        ))?;
        return Ok(ExitCode::from(NOT_DONE));
    }
    let said = match install.dry_run {
        true => {
            for copy in &stale {
                tell(&step(args, &copy.to_string()))?;
            }
            "nothing was changed (--dry-run); with these problems only plugins would be that are there for another Slurm"
        }
        false => {
            let state = InstallState::of(&install.settings.state, &site.slurm.cluster(), "slurm");
            let _lock = state.lock().map_err(SlurmError::from)?;
            state.tidy();
            carry_out(args, &stale, &[], &state)?;
            "only the plugins that were there for another Slurm were replaced; mend the problems above and run it again"
        }
    };
    tell(&note(args.json, said))?;
    Ok(ExitCode::from(NOT_DONE))
}

/// Whether a plugin is there which this Slurm does not load.
fn is_stale(copy: &Copy, site: &Site) -> bool {
    let built = (Binary::read(&copy.to).ok()).and_then(|there| there.version);
    let slurm = site.slurm.version();
    (built.zip(slurm))
        .is_some_and(|(built, (slurm, _))| !copy.which.fits(Version::of(built), slurm))
}

fn step(args: &Common, text: &str) -> String {
    match args.json {
        true => format!("{}\n", json!({"step": text})),
        false => format!("{text}\n"),
    }
}

/// The plugins that are not there as they should be.
fn copies(site: &Site) -> Vec<Copy> {
    let as_it_should_be = |from: &Path, to: &Path| {
        let mode = fs::metadata(to).map(|m| (m.mode() & 0o777, m.uid()));
        mode.is_ok_and(|mode| mode == (0o644, 0)) && fs::read(from).ok() == fs::read(to).ok()
    };
    (site.sources.iter())
        .filter_map(|(which, from)| {
            let to = site.slurm.place(*which)?;
            (!as_it_should_be(from, &to)).then(|| Copy {
                which: *which,
                from: from.clone(),
                to,
            })
        })
        .collect()
}

/// The lines that Slurm's files lack.
fn wanted(site: &Site) -> Vec<Wanted> {
    let slurm = &site.slurm;
    let (Some(conf), Some(main)) = (&slurm.conf, &slurm.conf_file) else {
        return Vec::new();
    };
    let mut wanted = Vec::new();
    let mut word = |key: &'static str, word: &'static str| {
        let there = conf.line(key);
        let old = there.and_then(|line| line.get(key)).unwrap_or_default();
        let mut list = words(old);
        list.push(word);
        wanted.push(Wanted {
            file: there.map_or_else(|| main.clone(), |line| line.file.clone()),
            instead: there.map(|line| line.number),
            line: format!("{key}={}", list.join(",")),
            change: Change::Word(key, word),
        });
    };
    if judge::names_plugin(conf).is_none() {
        word("JobSubmitPlugins", "libra");
    }
    if !judge::prolog_at_once(conf) {
        word("PrologFlags", "Alloc");
    }
    let stacked = slurm.stack.iter().any(|entry| entry.is_libra());
    if let (false, Some(file)) = (stacked, &slurm.plugstack) {
        // A plugin in a directory that slurm.conf does not name needs its whole path.
        let place = slurm.place(Which::Spank);
        let named = slurm.get("PluginDir").is_none_or(|list| {
            let dir = place.as_deref().and_then(Path::parent);
            list.split(':').any(|d| Some(Path::new(d)) == dir)
        });
        let plugin = match (named, &place) {
            (false, Some(place)) => place.display().to_string(),
            _ => SPANK.to_string(),
        };
        wanted.push(Wanted {
            file: file.clone(),
            instead: None,
            line: format!("optional {plugin} config={}", site.config_file.display()),
            change: Change::Line,
        });
    }
    wanted
}

/// The files as they are and as they become.
fn edits(wanted: &[Wanted]) -> Result<Vec<Changed>, SlurmError> {
    let mut edits: Vec<Changed> = Vec::new();
    for line in wanted {
        // A link stays one: what it points to is changed.
        let file = fs::canonicalize(&line.file).unwrap_or_else(|_| line.file.clone());
        let failed = |why: String| SlurmError::Edit {
            file: file.clone(),
            why,
        };
        if let Some(edit) = edits.iter_mut().find(|edit| edit.file == file) {
            edit.after = line.apply(&edit.after).map_err(failed)?;
            continue;
        }
        let before = text(&file)?;
        let after = line
            .apply(before.as_deref().unwrap_or_default())
            .map_err(failed)?;
        let copy = before.is_some().then(|| copy_of(&file));
        edits.push(Changed {
            file,
            before,
            after,
            copy,
        });
    }
    Ok(edits)
}

/// The text of a file that is to be changed; None if it is not there.
pub fn text(file: &Path) -> Result<Option<String>, SlurmError> {
    match fs::read(file) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| SlurmError::Edit {
                file: file.to_path_buf(),
                why: "it is not all UTF-8".to_string(),
            }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SlurmError::File {
            file: file.to_path_buf(),
            error,
        }),
    }
}

/// The name of the copy beside a file.
fn copy_of(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_os_string();
    name.push(".before-libra");
    file.with_file_name(name)
}

fn shown(edit: &Changed) -> String {
    let before = edit.before.as_deref().unwrap_or_default();
    difference(&edit.file, before, &edit.after)
}

/// A change as its lines.
pub fn difference(file: &Path, before: &str, after: &str) -> String {
    let mut lines = vec![format!("in {}:", file.display())];
    let changed = edit::difference(before, after);
    lines.extend(changed.iter().map(|line| format!("    {line}")));
    lines.join("\n")
}

/// Copies, then writes lines: never a line for a plugin that is not there yet.
fn carry_out(
    args: &Common,
    copies: &[Copy],
    edits: &[Changed],
    state: &InstallState,
) -> Result<(), Failure> {
    let mut record: InstallRecord = state.read().map_err(SlurmError::from)?.unwrap_or_default();
    record.version = VERSION.to_string();
    let failed = |file: &Path| {
        let file = file.to_path_buf();
        move |error| SlurmError::File { file, error }
    };
    for copy in copies {
        tell(&step(args, &copy.to_string()))?;
        record.add_plugin(&copy.to);
        state.write(Some(&record)).map_err(SlurmError::from)?;
        let bytes = fs::read(&copy.from).map_err(failed(&copy.from))?;
        replace(&copy.to, &bytes, 0o644).map_err(failed(&copy.to))?;
    }
    for edit in edits {
        tell(&step(args, &shown(edit)))?;
        // An older copy is of what was there before the first change.
        let known = record
            .change(&edit.file)
            .is_some_and(|old| Some(&old.after) == edit.before.as_ref());
        if let (Some(copy), Some(before), false) = (&edit.copy, &edit.before, known) {
            let mode = fs::metadata(&edit.file).map_or(0o644, |m| m.mode() & 0o777);
            replace(copy, before.as_bytes(), mode).map_err(failed(copy))?;
        }
        record.add_change(edit.clone());
        state.write(Some(&record)).map_err(SlurmError::from)?;
        let written = match edit.before {
            Some(_) => rewrite(&edit.file, edit.after.as_bytes()),
            None => replace(&edit.file, edit.after.as_bytes(), 0o644),
        };
        written.map_err(failed(&edit.file))?;
    }
    Ok(())
}

fn to_write(site: &Site, wanted: &[Wanted]) -> String {
    let lines: Vec<String> = wanted.iter().map(Wanted::to_string).collect();
    let whose = match site.slurm.configless() {
        true => " on the controller, from which these files come",
        false => ", in the files that all hosts of the cluster have alike",
    };
    format!("To be written{whose}:\n{}", lines.join("\n"))
}

/// What to do afterwards.
fn then(site: &Site, copies: &[Copy], wanted: &[Wanted]) -> String {
    let submit = copies.iter().any(|copy| copy.which == Which::JobSubmit);
    let mut lines = vec!["Then:".to_string()];
    if submit || !wanted.is_empty() {
        lines.push(
            "    systemctl restart slurmctld     on the controller: it loads job_submit plugins when it starts; jobs run on"
                .to_string(),
        );
    }
    if !wanted.is_empty()
        && (site.slurm.configless() || site.slurm.get("SlurmctldParameters").is_some())
    {
        lines.push(
            "    scontrol reconfigure            hosts without files of their own get the new ones"
                .to_string(),
        );
    }
    if !wanted.is_empty() {
        lines.push(
            "    systemctl restart slurmd        on every node: it asks for plugins with a prolog when it starts; jobs run on"
                .to_string(),
        );
    }
    if lines.len() == 1 {
        lines.push("    nothing, where slurmd runs with the plugin already: prologs, tasks and clients load it anew each time".to_string());
    }
    lines.join("\n")
}
