//! The command line: [`args`] is what can be typed (help, man pages and completions come from it),
//! one module for each command, [`terms`] for what `run` and `quote` share, [`show`] for what they
//! print, [`table`] for what `status` prints.

mod agent;
mod args;
mod cancel;
mod config;
mod generate;
mod quote;
mod run;
mod show;
mod status;
mod table;
mod terms;

use args::{Args, Command};
use clap::Parser;
use libra::config::{Config, ConfigError};
use libra::host::HostError;
use std::path::Path;
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
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::Config(_) => exit::USAGE,
            Failure::Host(_) | Failure::Output(_) => exit::FAILED,
        }
    }
}

type Done = Result<ExitCode, Failure>;

pub fn main() -> ExitCode {
    let args = Args::parse();
    let level = match (&args.command, args.verbose) {
        (Command::Agent(_), 0) => "info",
        (_, 0) => "error",
        (_, 1) => "info",
        (_, _) => "debug",
    };
    env_logger::Builder::from_env(env_logger::Env::new().filter_or("LIBRA_LOG", level))
        .format_target(false)
        .init();
    let done = match &args.command {
        Command::Run(run) => run::run(run, &args),
        Command::Quote(quote) => quote::quote(quote, &args),
        Command::Status(status) => status::status(status, &args),
        Command::Cancel(cancel) => cancel::cancel(cancel, &args),
        Command::Agent(agent) => agent::agent(agent, &args),
        Command::Config { command } => config::config(command, &args),
        Command::Generate(generate) => generate::generate(generate),
    };
    match done {
        Ok(code) => code,
        // Who reads our output has gone, as `head` does: that is no failure worth words.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("libra: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// Where the configuration is when nobody says.
const CONFIG_FILE: &str = "/etc/libra/libra.toml";

/// The configuration: the file that was named, or the site's, or the defaults.
fn load_config(args: &Args) -> Result<Config, ConfigError> {
    match &args.config {
        Some(path) => Config::from_file(path),
        None if Path::new(CONFIG_FILE).exists() => Config::from_file(Path::new(CONFIG_FILE)),
        None => Ok(Config::default()),
    }
}
