//! One qmgr for many directives.
//!
//! Every command of PBS takes a reserved port for its connection, and the kernel keeps a used one back for
//! a minute: hundreds of commands in a row wait for each other. A qmgr that reads directives from its
//! input has one connection. It prints nothing when a directive has worked, so each is followed by a word
//! that is none: qmgr's own complaint about it says that it has come so far.

use super::PbsError;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The word that is no directive.
const MARK: &str = "libra-so-far";

/// A running qmgr. It ends with this value, also when this process is killed.
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    errors: Receiver<String>,
    patience: Duration,
}

impl Session {
    /// Starts qmgr.
    pub fn start(qmgr: &Path, patience: Duration) -> Result<Session, PbsError> {
        let failed = |error: std::io::Error| PbsError::Command {
            command: qmgr.display().to_string(),
            answer: error.to_string(),
        };
        let mut child = Command::new(qmgr)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (send, errors) = channel();
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Session {
            input: child.stdin.take(),
            child,
            errors,
            patience,
        })
    }

    /// Carries a directive out and waits until that is done.
    pub fn run(&mut self, directive: &str) -> Result<(), PbsError> {
        let failed = |answer: String| PbsError::Command {
            command: format!("qmgr -c '{directive}'"),
            answer,
        };
        let written = match &mut self.input {
            Some(input) => writeln!(input, "{directive}\n{MARK}").and_then(|()| input.flush()),
            None => Ok(()),
        };
        let end = Instant::now() + self.patience;
        let mut said = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.errors.recv_timeout(left) {
                Ok(line) if line.contains(MARK) => break,
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = written.map_or_else(|error| error.to_string(), |()| String::new());
                    said.push(format!("qmgr has ended {ended}"));
                    return Err(failed(errors(&said, true)));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    return Err(failed(no_answer(self.patience)));
                }
            }
        }
        match errors(&said, false) {
            none if none.is_empty() => Ok(()),
            answer => Err(failed(answer)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The end of its input is the end of qmgr.
        self.input = None;
        let end = Instant::now() + self.patience;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What to say of a command that did not end.
pub fn no_answer(patience: Duration) -> String {
    format!(
        "no answer within {} s; the server may be down or busy",
        patience.as_secs()
    )
}

/// What is an error in what qmgr said: remarks begin with other words.
pub fn errors(said: &[String], all: bool) -> String {
    let lines = said.iter().map(|line| line.trim());
    let lines = lines.filter(|line| all || line.starts_with("qmgr"));
    lines.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A qmgr made of this script; who asks it waits so long.
    fn speaking(script: &str, patience: Duration) -> (tempfile::TempDir, Session) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("qmgr");
        // By a child: what another test forks has a file that is written here open until its own exec, and it could not be executed.
        let written = Command::new("sh")
            .args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""])
            .arg(&file)
            .arg(format!("#!/bin/sh\n{script}"))
            .status();
        assert!(written.expect("a shell").success());
        let session = Session::start(&file, patience).expect("a shell");
        (directory, session)
    }

    #[test]
    fn errors_belong_to_their_directive_and_remarks_are_none() {
        let (_directory, mut session) = speaking(
            "while read line; do case $line in\n\
             bad) echo 'qmgr obj=bad svr=default: Duplicate entry' >&2;;\n\
             note) echo \"hook 'x' contents overwritten\" >&2;;\n\
             libra-so-far) printf \"qmgr: Illegal operation: $line\\nTry 'help' if you\\n\" >&2;;\n\
             end) exit;;\nesac; done",
            Duration::from_secs(120),
        );
        session.run("good").expect("works");
        session.run("note").expect("works");
        let error = session.run("bad").expect_err("an error").to_string();
        assert_eq!(
            error,
            "qmgr -c 'bad': qmgr obj=bad svr=default: Duplicate entry"
        );
        session.run("good").expect("goes on");
        let error = session.run("end").expect_err("gone").to_string();
        assert!(error.contains("has ended"), "{error}");
    }

    #[test]
    fn a_qmgr_that_says_nothing_is_given_up() {
        let (_directory, mut session) = speaking("exec sleep 1000", Duration::from_millis(500));
        let error = session.run("x").expect_err("no answer").to_string();
        assert!(error.contains("no answer within"), "{error}");
    }
}
