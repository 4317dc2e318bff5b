//! `libra`: the command line, which reads arguments, asks the crates and prints; it decides nothing.
//!
//! [`args`] is what can be typed (help, man pages and completions come from it),
//! one module for each command, [`terms`] for what `run` and `quote` share, [`show`] for what they
//! print, [`table`] for what `status` prints.

mod account;
mod agent;
mod args;
mod book_status;
mod cancel;
mod command;
mod config;
mod findings;
mod generate;
mod gridengine;
mod install_state;
mod metrics;
mod pbs;
mod qsub;
mod quote;
mod replace;
mod reproduce;
mod run;
mod show;
mod simulate;
mod slurm;
mod status;
mod table;
mod terms;
mod trace;
mod web;
mod workload;

use args::{Args, Command};
use clap::Parser;
use libra_config::{Config, ConfigError, last};
use libra_host::HostError;
use libra_workload::write::Target;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit codes of libra itself. A job's own code passes through.
mod exit {
    /// Wrong arguments or configuration.
    pub const USAGE: u8 = 2;
    /// The job was refused.
    pub const REFUSED: u8 = 3;
    /// Something on this host failed.
    pub const FAILED: u8 = 125;
    /// The program was found and could not be executed.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// The program was not found.
    pub const NOT_FOUND: u8 = 127;
}

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Pbs(#[from] pbs::PbsError),
    #[error(transparent)]
    Slurm(#[from] slurm::SlurmError),
    #[error(transparent)]
    GridEngine(#[from] gridengine::GridEngineError),
    #[error(transparent)]
    Web(libra_page::system::Problem),
    #[error(transparent)]
    Account(#[from] account::AccountFailure),
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
    #[error("cannot write into {directory}: {error}; name a directory that can be written")]
    Generate {
        directory: PathBuf,
        error: std::io::Error,
    },
    #[error("the script cannot be handed over: {0}")]
    Script(std::io::Error),
    #[error("{file}: cannot be opened for writing: {error}; name another file")]
    File {
        file: PathBuf,
        error: std::io::Error,
    },
    #[error("{file}: cannot be written: {error}; what is there is not complete")]
    Write {
        file: PathBuf,
        error: std::io::Error,
    },
}

impl Failure {
    /// A log that could not be written.
    fn log(target: &Target, error: std::io::Error) -> Failure {
        match target {
            Target::Output => Failure::Output(error),
            Target::File(file) => Failure::Write {
                file: file.clone(),
                error,
            },
        }
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::Config(_) => exit::USAGE,
            Failure::Host(HostError::Quote(_)) => exit::REFUSED,
            Failure::Account(failure) => failure.code(),
            Failure::Host(_)
            | Failure::Pbs(_)
            | Failure::Slurm(_)
            | Failure::GridEngine(_)
            | Failure::Web(_)
            | Failure::Output(_)
            | Failure::Generate { .. }
            | Failure::Script(_)
            | Failure::File { .. }
            | Failure::Write { .. } => exit::FAILED,
        }
    }
}

type Done = Result<ExitCode, Failure>;

fn main() -> ExitCode {
    if let Some(words) = qsub::called(std::env::args_os()) {
        return end(qsub::qsub(words));
    }
    let args = Args::parse();
    let level = match (&args.command, args.verbose) {
        (Command::Agent(_), 0) => "info",
        (Command::Account(account), 0) if account.serves() => "info",
        (Command::Gridengine { command }, 0) if command.log().is_some() => "info",
        (_, 0) => "error",
        (_, 1) => "info",
        (_, _) => "debug",
    };
    let mut logger =
        env_logger::Builder::from_env(env_logger::Env::new().filter_or("LIBRA_LOG", level));
    if let Command::Gridengine { command } = &args.command {
        if let Some(file) = command.log().and_then(own_log) {
            logger.target(env_logger::Target::Pipe(Box::new(file)));
        }
    }
    logger.format_target(false).init();
    let done = match &args.command {
        Command::Run(run) => run::run(run, &args),
        Command::Quote(quote) => quote::quote(quote, &args),
        Command::Qsub(_) => Err(Failure::Usage(
            "the options of 'libra qsub' are qsub's; write 'libra qsub' with none before it".into(),
        )),
        Command::Status(status) => status::status(status, &args),
        Command::Cancel(cancel) => cancel::cancel(cancel, &args),
        Command::Agent(agent) => agent::agent(agent, &args),
        Command::Simulate(simulate) => simulate::simulate(simulate, &args),
        Command::Reproduce(reproduce) => reproduce::reproduce(reproduce, &args),
        Command::Workload(workload) => workload::workload(workload, &args),
        Command::Trace { command } => trace::trace(command, &args),
        Command::Pbs { command } => pbs::pbs(command, &args),
        Command::Slurm { command } => slurm::slurm(command, &args),
        Command::Gridengine { command } => gridengine::gridengine(command, &args),
        Command::Web(web) => web::web(web, &args),
        Command::Account(account) => account::account(account, &args),
        Command::Config { command } => config::config(command, &args),
        Command::Generate(generate) => generate::generate(generate),
    };
    end(done)
}

/// A log of its own, where it can be written: else standard error has it.
fn own_log(file: &Path) -> Option<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW);
    options.open(file).ok()
}

fn end(done: Done) -> ExitCode {
    match done {
        Ok(code) => code,
        // Who reads our output has gone, as `head` does: that is no failure worth words.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            say(format_args!("libra: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}

/// Says something on standard error, as far as that can be written: a job must not fail because
/// nobody can read about it.
fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a verdict and ends with its code, also when who should read it has gone.
fn answer(text: &str, code: u8) -> Done {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::from(code)),
    }
}

/// Prints at once: a step is to be read before it is run.
fn tell(text: &str) -> Result<(), std::io::Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A line about what was done.
fn note(args: &Args, text: &str) -> String {
    match args.json {
        true => format!("{}\n", serde_json::json!({"text": text})),
        false => format!("{text}\n"),
    }
}

/// Where the site's configuration is.
const CONFIG_FILE: &str = "/etc/libra/libra.toml";

/// The configuration: the file that was named, or the site's, or the defaults.
fn load_config(args: &Args) -> Result<Config, ConfigError> {
    let named = named_config(args.config.as_deref(), std::env::var_os("LIBRA_CONFIG"));
    match named {
        Some(path) => Config::from_file(&path),
        None => Ok(site_config(Path::new(CONFIG_FILE))?.config),
    }
}

/// The file that was named: by an option, else by the environment, where empty is not set.
fn named_config(option: Option<&Path>, environment: Option<OsString>) -> Option<PathBuf> {
    option.map(Path::to_path_buf).or_else(|| {
        environment
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    })
}

/// The site's configuration; the defaults where there never was one. One that is there and cannot be
/// read is an error: with the defaults in its place other jobs would be admitted.
fn site_config(path: &Path) -> Result<last::Read, ConfigError> {
    let found = last::read(path)?;
    if let Some(gone) = &found.gone {
        log::error!("{gone}");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_names_no_configuration() {
        let named = |option: Option<&str>, variable: Option<&str>| {
            named_config(option.map(Path::new), variable.map(OsString::from))
        };
        assert_eq!(named(None, None), None);
        assert_eq!(named(None, Some("")), None);
        assert_eq!(named(None, Some("/a")), Some("/a".into()));
        assert_eq!(named(Some("/b"), Some("/a")), Some("/b".into()));
    }

    #[test]
    fn only_a_site_configuration_that_is_not_there_gives_the_defaults() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        let read = site_config(&file).expect("no file, no error");
        assert_eq!(read.config, Config::default());
        std::fs::write(&file, "[node]\nrating = 2.0\n").expect("a file");
        assert_ne!(site_config(&file).expect("valid").config, Config::default());
        // A directory that may not be looked into gives another error than "not found", as this does.
        let hidden = site_config(&file.join("libra.toml")).expect_err("not to be seen");
        assert!(hidden.to_string().contains("cannot be read"), "{hidden}");
    }
}
