//! What execution daemons start in the place of a shepherd, in the directory of the task.

use super::{GridEngineError, PATIENCE, cell, file_error, poll};
use crate::Common;
use crate::Done;
use libra_config::site;
use libra_gridengine::commands::Cell;
use libra_gridengine::records;
use libra_gridengine::shepherd::{Placed, Task, end_after, place};
use libra_gridengine::starts;
use libra_host::Host;
use libra_system::{clock, spawn};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A qmaster that does not answer is asked again for so long: it has just sent this job.
const ASKED: Duration = Duration::from_secs(60);

/// Grid Engine's own.
const SHEPHERD: &str = "sge_shepherd";

/// With it a shepherd keeps what it does out of its job's files. Daemons give it to Grid Engine's own, but to no other: interactive tasks
/// break without it.
const IN_BACKGROUND: &str = "-bg";

/// Exit code where a task must not run.
const REFUSED: u8 = 1;

pub fn shepherd(log: Option<&Path>, args: &Common) -> Done {
    let cell = cell();
    let mut name = SHEPHERD.to_string();
    match prepare(&cell, log, args) {
        Ok((_, Placed::Refused(problem))) => {
            log::error!("{problem}");
            return Ok(ExitCode::from(REFUSED));
        }
        // As daemons call it.
        Ok((job, _)) => name = format!("{SHEPHERD}-{job}"),
        // What it is about is not known, so that nothing can have been promised to it.
        Err(problem) => log::error!("a task runs as Grid Engine started it: {problem}"),
    }
    let program = cell.program(SHEPHERD).map_err(GridEngineError::from)?;
    let error = Command::new(&program).arg0(name).arg(IN_BACKGROUND).exec();
    Err(GridEngineError::File {
        file: program,
        error,
    }
    .into())
}

/// Number of the job, and where its task is now.
fn prepare(cell: &Cell, log: Option<&Path>, args: &Common) -> Result<(u32, Placed), String> {
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(here.join("config"))
        .map_err(|error| format!("{}: {error}", here.join("config").display()))?;
    let task = Task::read(&text).map_err(|error| error.to_string())?;
    let above = if task.is_further { 2 } else { 1 };
    let active_jobs = here.ancestors().nth(above).unwrap_or(&here).to_path_buf();
    let host = site::load_unattended(args.config.as_deref())
        .map_err(|error| error.to_string())
        .and_then(|config| Host::open(config).map_err(|error| error.to_string()));
    let host = match host {
        Ok(host) => host,
        Err(problem) => return refused(cell, &task, problem),
    };
    let pid = std::process::id() as i32;
    let ask = |job: u32| ask(cell, job);
    let watch = |name: &str| {
        let watch = Watch {
            job: name,
            shepherd: pid,
            is_further: task.is_further,
            active_jobs: &active_jobs,
        };
        watch.start(log, args).map_err(|error| error.to_string())
    };
    let placed = place(
        &host,
        &task,
        pid,
        &active_jobs,
        &ask,
        &watch,
        &clock::unix_time,
    );
    Ok((task.job, placed))
}

/// Without a configuration nobody can hold a job to its share, nor knows what its site wants then: a promise that nobody keeps is not begun.
fn refused(cell: &Cell, task: &Task, problem: String) -> Result<(u32, Placed), String> {
    let detail = ask(cell, task.job)?;
    match detail.and_then(|detail| detail.commitment) {
        Some(Ok(_)) => {
            let problem = format!("job {} is not held to its share: {problem}", task.name());
            Ok((task.job, Placed::Refused(problem)))
        }
        _ => Err(problem),
    }
}

/// What qmaster has on record of a job.
fn ask(cell: &Cell, job: u32) -> Result<Option<records::Detail>, String> {
    let until = Instant::now() + ASKED;
    loop {
        let asked = (cell
            .run("qstat", &["-xml", "-j", &job.to_string()], PATIENCE)
            .map_err(|error| error.to_string()))
        .and_then(|text| records::details(&text).map_err(|error| error.to_string()))
        .and_then(|mut details| {
            let mut detail = details.remove(&job);
            confirm(cell, job, detail.as_mut()).map_err(|error| error.to_string())?;
            Ok(detail)
        });
        match asked {
            Ok(detail) => return Ok(detail),
            Err(problem) if Instant::now() >= until => return Err(problem),
            Err(_) => thread::sleep(Duration::from_millis(500)),
        }
    }
}

/// What is committed to a job whose promise was deferred is what its hosts say.
fn confirm(
    cell: &Cell,
    job: u32,
    detail: Option<&mut records::Detail>,
) -> Result<(), GridEngineError> {
    let Some(Some(Ok(commitment))) = detail.map(|detail| &mut detail.commitment) else {
        return Ok(());
    };
    if commitment.deferred {
        let hosts = poll::hosts(cell, PATIENCE)?;
        let starts = hosts.into_iter().map(|host| (host.name, host.starts));
        if let Some(confirmed) = starts::committed(job, commitment, &starts.collect()) {
            *commitment = confirmed;
        }
    }
    Ok(())
}

/// A process that waits for the end of a shepherd.
pub struct Watch<'a> {
    /// As the registry calls it.
    pub job: &'a str,
    pub shepherd: i32,
    pub is_further: bool,
    pub active_jobs: &'a Path,
}

impl Watch<'_> {
    /// Starts it, as nobody's child: the shepherd would be told of its end.
    fn start(&self, log: Option<&Path>, args: &Common) -> Result<(), GridEngineError> {
        let mut command = self.command(log, args)?;
        command.arg("--detach");
        let status = command
            .status()
            .map_err(file_error(Path::new("/proc/self/exe")))?;
        match status.success() {
            true => Ok(()),
            false => Err(GridEngineError::Records(format!(
                "nobody waits for the end of job {}: {status}",
                self.job
            ))),
        }
    }

    fn command(&self, log: Option<&Path>, args: &Common) -> Result<Command, GridEngineError> {
        let program = std::env::current_exe().map_err(file_error(Path::new("/proc/self/exe")))?;
        let mut command = Command::new(program);
        if let Some(config) = &args.config {
            command.arg("--config").arg(config);
        }
        command.args(["gridengine", "watch", "--job", self.job, "--shepherd"]);
        command
            .arg(self.shepherd.to_string())
            .arg("--active-jobs")
            .arg(self.active_jobs);
        if self.is_further {
            command.arg("--further");
        }
        if let Some(log) = log {
            command.arg("--log").arg(log);
        }
        command
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }

    pub fn detach(&self, log: Option<&Path>, args: &Common) -> Done {
        let mut command = self.command(log, args)?;
        let started = spawn::in_session_of_its_own(&mut command).spawn();
        started.map_err(file_error(Path::new("/proc/self/exe")))?;
        Ok(ExitCode::SUCCESS)
    }

    pub fn wait(&self, args: &Common) -> Done {
        let host = Host::open(site::load_unattended(args.config.as_deref())?)?;
        end_after(
            &host,
            self.job,
            self.shepherd,
            self.is_further,
            self.active_jobs,
        )?;
        Ok(ExitCode::SUCCESS)
    }
}
