//! Programs run for the page: an argument vector and never a shell's line, a time limit, and no more output than is
//! reasonable.

use super::Problem;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that a program may take: a batch system's clients try for minutes while their server is gone.
const PATIENCE: Duration = Duration::from_secs(40);

/// The time between two looks whether a program has ended.
const LOOK: Duration = Duration::from_millis(3);

/// The most that is read of what a program prints, in bytes.
const MOST: u64 = 64 << 20;

/// How a program ended, and what it printed.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// Its exit status; none where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Output {
    /// It ended with 0.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// What it said was wrong: standard error, else standard output, else its exit status.
    pub fn complaint(&self) -> String {
        let said = [&self.err, &self.out].map(|text| text.trim());
        match said.into_iter().find(|text| !text.is_empty()) {
            Some(text) => text.to_string(),
            None => match self.code {
                Some(code) => format!("it ended with exit status {code} and said nothing"),
                None => "a signal ended it".to_string(),
            },
        }
    }
}

/// A program about to be run.
#[derive(Debug)]
pub struct Call {
    program: OsString,
    arguments: Vec<OsString>,
    input: String,
    directory: Option<OsString>,
    variables: Vec<(&'static str, &'static str)>,
}

impl Call {
    /// A program: a path, or a name to be looked up in PATH.
    pub fn new(program: impl AsRef<OsStr>) -> Call {
        Call {
            program: program.as_ref().to_os_string(),
            arguments: Vec::new(),
            input: String::new(),
            directory: None,
            variables: Vec::new(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Call {
        self.arguments.push(argument.as_ref().to_os_string());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Call {
        let more = arguments.into_iter().map(|a| a.as_ref().to_os_string());
        self.arguments.extend(more);
        self
    }

    /// What it reads on standard input; nothing unless given.
    #[must_use]
    pub fn input(mut self, text: &str) -> Call {
        self.input = text.to_string();
        self
    }

    /// The directory that it runs in.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Call {
        self.directory = Some(directory.as_os_str().to_os_string());
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn variable(mut self, name: &'static str, value: &'static str) -> Call {
        self.variables.push((name, value));
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It could not be started, or did not end in time and was killed. A program that fails is no error here.
    pub fn run(self) -> Result<Output, Problem> {
        self.run_within(PATIENCE)
    }

    fn run_within(self, patience: Duration) -> Result<Output, Problem> {
        let name = Path::new(&self.program)
            .file_name()
            .unwrap_or(&self.program)
            .to_string_lossy()
            .into_owned();
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut child = command
            .spawn()
            .map_err(|error| Problem::new(format!("{name} cannot be started: {error}")))?;
        let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let input = self.input;
        // Nobody waits for these threads when the program is killed: what it started may hold the pipes open.
        std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        let (out, err) = (reader(out), reader(err));
        let end = Instant::now() + patience;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Err(error) => {
                    return Err(Problem::new(format!(
                        "{name} cannot be waited for: {error}"
                    )));
                }
                Ok(None) if Instant::now() > end => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(Problem::new(format!(
                        "{name} did not answer within {} s and was ended; try again later",
                        patience.as_secs()
                    )));
                }
                Ok(None) => std::thread::sleep(LOOK),
            }
        };
        let text = |from: std::sync::mpsc::Receiver<Vec<u8>>| {
            let left = end.saturating_duration_since(Instant::now());
            let bytes = from
                .recv_timeout(left.max(Duration::from_secs(1)))
                .unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (out, err) = (text(out), text(err));
        Ok(Output {
            code: status.code(),
            out,
            err,
        })
    }
}

fn reader(from: Option<impl Read + Send + 'static>) -> std::sync::mpsc::Receiver<Vec<u8>> {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.by_ref().take(MOST).read_to_end(&mut bytes);
            // What is more is read too, lest the program stands still for ever.
            let _ = std::io::copy(&mut from, &mut std::io::sink());
        }
        let _ = send.send(bytes);
    });
    receive
}

/// Is there a program of this name in PATH?
pub fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(name)))
}

/// Is this a file that may be executed?
pub fn is_executable(path: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_no_line_of_a_shell() {
        let done = Call::new("printf")
            .args(["%s|", "a b; echo x", "$(id)", "-n"])
            .run()
            .expect("printf");
        assert_eq!(done.out, "a b; echo x|$(id)|-n|");
        assert!(done.is_success());
    }

    #[test]
    fn what_does_not_end_is_ended_and_what_is_missing_is_said() {
        let late = Call::new("sleep")
            .arg("60")
            .run_within(Duration::from_millis(50));
        assert!(
            late.expect_err("late")
                .to_string()
                .contains("sleep did not answer")
        );
        let missing = Call::new("libra-has-no-such-program").run();
        let said = missing.expect_err("not there").to_string();
        assert!(said.contains("cannot be started"), "{said}");
    }

    #[test]
    fn input_and_complaints() {
        let done = Call::new("sh")
            .args(["-c", "cat; echo wrong >&2; exit 3"])
            .input("given")
            .run()
            .expect("sh");
        assert_eq!((done.out.as_str(), done.code), ("given", Some(3)));
        assert_eq!(done.complaint(), "wrong");
        let silent = Call::new("false").run().expect("false");
        assert!(silent.complaint().contains("exit status 1"));
    }
}
