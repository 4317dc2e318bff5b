//! `libra qsub`: what the real qsub gets of it and what the user sees. [`front`] runs it before an
//! executable that writes down what it was given; [`real`] before OpenPBS's own qsub, where that is
//! installed, without a server.

mod front;
#[path = "../program.rs"]
mod program;
mod real;

use std::path::Path;
use std::process::{Command, Output};

/// `libra qsub` with these arguments, before the qsub of this configuration.
fn libra_qsub<Word: AsRef<std::ffi::OsStr>>(conf: &Path, arguments: &[Word]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_libra"));
    command.arg("qsub").args(arguments);
    surround(&mut command, conf);
    command
}

/// Nothing of the surroundings of these tests changes what qsub does.
fn surround(command: &mut Command, conf: &Path) {
    command
        .env("PBS_CONF_FILE", conf)
        .env("LC_ALL", "C")
        .env_remove("PBS_EXEC")
        .env_remove("PBS_DPREFIX")
        .env_remove("PBS_JOBID")
        .env_remove("POSIXLY_CORRECT");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exit code, output and errors, to be compared.
fn all(output: &Output) -> (Option<i32>, String, String) {
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}
