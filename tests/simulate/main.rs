//! `libra simulate`: what comes out of a small log, what is said of bad arguments, and that the same
//! command writes the same bytes.

mod arguments;
mod results;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn synthetic() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/synthetic.swf")
}

/// `libra simulate` with these arguments; `LOG` stands for the synthetic log.
fn simulate(directory: &Path, arguments: &[&str]) -> Output {
    let log = synthetic();
    let arguments = arguments.iter().map(|argument| match *argument {
        "LOG" => log.as_os_str(),
        other => other.as_ref(),
    });
    Command::new(env!("CARGO_BIN_EXE_libra"))
        .arg("simulate")
        .args(arguments)
        .current_dir(directory)
        .env_remove("LIBRA_LOG")
        // No site's configuration: an empty file has the defaults.
        .env("LIBRA_CONFIG", "/dev/null")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .expect("libra")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it prints where nothing is wrong.
fn printed(directory: &Path, arguments: &[&str]) -> String {
    let output = simulate(directory, arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    assert_eq!(error, "", "{arguments:?}");
    text(&output.stdout)
}
