//! `libra`: the command line, which reads arguments, asks the crates and prints; it decides nothing.
//!
//! [`args`] is what can be typed (help, man pages and completions come from it),
//! one module for each command, [`terms`] for what `run` and `quote` share, [`show`] for what they
//! print.

mod account;
mod agent;
mod args;
mod cancel;
mod complete;
mod config;
mod generate;
mod metrics;
mod qsub;
mod quote;
mod reproduce;
mod run;
mod show;
mod simulate;
mod status;
mod terms;
mod trace;
mod web;
mod workload;

use args::{Args, Command};
use clap::Parser;
use libra_administration::{gridengine, pbs, slurm};
use libra_config::ConfigError;
use libra_core::decision::service::ClassError;
use libra_host::HostError;
use libra_terminal::say;
use libra_workload::write::Target;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit codes of libra itself. A job's own code passes through.
mod exit {
    /// Wrong arguments or configuration.
    pub const USAGE: u8 = 2;
    /// The job was refused.
    pub const REFUSED: u8 = 3;
    /// There is no such job, or it has ended.
    pub const NO_JOB: u8 = 4;
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
    Administration(libra_administration::Failure),
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
    /// A margin that was learned.
    #[error("{0}; a host of control keeps it beside its libra.toml, as root")]
    Keep(String),
}

/// What both have is the same thing.
impl From<libra_administration::Failure> for Failure {
    fn from(failure: libra_administration::Failure) -> Failure {
        match failure {
            libra_administration::Failure::Usage(text) => Failure::Usage(text),
            libra_administration::Failure::Config(error) => Failure::Config(error),
            libra_administration::Failure::Host(error) => Failure::Host(error),
            libra_administration::Failure::Output(error) => Failure::Output(error),
            other => Failure::Administration(other),
        }
    }
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
            Failure::Host(
                HostError::Quote(_)
                | HostError::Class(ClassError::NotOffered(_) | ClassError::NotHeld(_)),
            ) => exit::REFUSED,
            Failure::Host(HostError::Class(_)) => exit::USAGE,
            Failure::Host(HostError::UnknownJob(_)) => exit::NO_JOB,
            Failure::Account(failure) => failure.code(),
            Failure::Host(_)
            | Failure::Administration(_)
            | Failure::Web(_)
            | Failure::Output(_)
            | Failure::Generate { .. }
            | Failure::Script(_)
            | Failure::File { .. }
            | Failure::Write { .. }
            | Failure::Keep(_) => exit::FAILED,
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
        Command::Pbs { command } => pbs::pbs(command, &args.common()).map_err(Failure::from),
        Command::Slurm { command } => slurm::slurm(command, &args.common()).map_err(Failure::from),
        Command::Gridengine { command } => {
            gridengine::gridengine(command, &args.common()).map_err(Failure::from)
        }
        Command::Web(web) => web::web(web, &args),
        Command::Account(account) => account::account(account, &args),
        Command::Config { command } => config::config(command, &args),
        Command::Complete(complete) => complete::complete(complete, &args),
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
