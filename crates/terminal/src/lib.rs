//! What commands print. Whoever reads it may go at any time, as `head` does, and nobody may be there to read complaints.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Prints a verdict and ends with its code, also when who should read it has gone.
///
/// # Errors
/// When standard output cannot be written for another reason.
pub fn answer<E: From<io::Error>>(text: &str, code: u8) -> Result<ExitCode, E> {
    match tell(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::from(code)),
    }
}

/// Prints at once: a step is to be read before it is run.
///
/// # Errors
/// When standard output cannot be written.
pub fn tell(text: &str) -> Result<(), io::Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Says something on standard error, as far as that can be written: a job must not fail because
/// nobody can read about it.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A line about what was done, or an object with the text of it.
pub fn note(json: bool, text: &str) -> String {
    match json {
        true => format!("{}\n", serde_json::json!({"text": text})),
        false => format!("{text}\n"),
    }
}
