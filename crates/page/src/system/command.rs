//! Programs run for the page: an argument vector and never a shell's line, a time limit, and no more output than is
//! reasonable.

use super::{Problem, executable};
use nix::pty::openpty;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest that a program may take: a batch system's clients try for minutes while their server is gone.
const PATIENCE: Duration = Duration::from_secs(40);

/// The time between two polls of a program: has it ended?
const POLL: Duration = Duration::from_millis(3);

/// What has printed a job's id and goes on, since its script says that it is to wait for the job's end, is waited for so long.
const AFTER_ID: Duration = Duration::from_secs(2);

/// What has ended may have left its output open in something that it started: so long that is read on.
const AFTER_END: Duration = Duration::from_secs(1);

/// The most that is read of what a program prints, in bytes.
const MOST: usize = 64 << 20;

/// How a program ended, and what it printed.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// Its exit status; None if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// It did not end in time and was ended; the rest is what it had printed by then.
    pub late: bool,
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
    variables: Vec<(&'static str, String)>,
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
    pub fn variable(mut self, name: &'static str, value: &str) -> Call {
        self.variables.push((name, value.to_string()));
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It could not be started, or did not end in time and was killed. A program that fails is no error here.
    pub fn run(self) -> Result<Output, Problem> {
        self.run_within(PATIENCE)
    }

    /// Runs what makes a job and prints its id. One that does not end in time is no error here, since the job may be there:
    /// what it printed until then tells.
    ///
    /// # Errors
    /// It could not be started: there is no job.
    pub fn run_to_submit(self) -> Result<Output, Problem> {
        self.watch(PATIENCE, Some(AFTER_ID))
    }

    /// As [`Call::run`], for one that may take longer.
    ///
    /// # Errors
    /// As there.
    pub fn run_within(self, patience: Duration) -> Result<Output, Problem> {
        let name = self.name();
        let done = self.watch(patience, None)?;
        match done.late {
            true => Err(Problem::new(format!(
                "{name} did not answer within {} s and was ended; try again later",
                patience.as_secs()
            ))),
            false => Ok(done),
        }
    }

    /// The name of the program, without its directory.
    fn name(&self) -> String {
        let name = Path::new(&self.program).file_name();
        let name = name.unwrap_or(&self.program);
        name.to_string_lossy().into_owned()
    }

    /// `after_id`: standard output is a line with an id, and after so long nothing more is expected.
    fn watch(self, patience: Duration, after_id: Option<Duration>) -> Result<Output, Problem> {
        let name = self.name();
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut terminal = None;
        if after_id.is_some() {
            // Into a pipe, sbatch writes when it ends: a line that it has printed would be lost with it. Where there are no
            // pseudo-terminals (some containers), that is how it is.
            if let Ok(pair) = openpty(None, None) {
                command.stdout(pair.slave);
                terminal = Some(pair.master);
            }
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut child = executable::spawn(&mut command)
            .map_err(|error| Problem::new(format!("{name} cannot be started: {error}")))?;
        // With it our own end of the terminal that it writes to, lest that never ends.
        drop(command);
        let (stdin, err) = (child.stdin.take(), child.stderr.take());
        let input = self.input;
        // Nobody waits for these threads when the program is killed: what it started may hold the pipes open.
        std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        let out = match terminal {
            Some(master) => Printed::from(master),
            None => child
                .stdout
                .take()
                .map_or_else(Printed::default, |out| Printed::from(OwnedFd::from(out))),
        };
        let err = err.map_or_else(Printed::default, |err| Printed::from(OwnedFd::from(err)));
        let mut end = Instant::now() + patience;
        let mut has_id = false;
        let (code, late) = loop {
            match child.try_wait() {
                Ok(Some(status)) => break (status.code(), false),
                Ok(None) if Instant::now() > end => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break (None, true);
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => {
                    return Err(Problem::new(format!(
                        "{name} cannot be waited for: {error}"
                    )));
                }
            }
            if let Some(wait) = after_id.filter(|_| !has_id && out.has_line()) {
                has_id = true;
                end = end.min(Instant::now() + wait);
            }
        };
        let left = end.saturating_duration_since(Instant::now());
        let read_until = Instant::now() + left.max(AFTER_END);
        Ok(Output {
            code,
            out: out.text(read_until),
            err: err.text(read_until),
            late,
        })
    }
}

/// What a program has printed so far.
#[derive(Debug, Clone, Default)]
struct Printed(Arc<(Mutex<Bytes>, Condvar)>);

#[derive(Debug, Default)]
struct Bytes {
    bytes: Vec<u8>,
    ended: bool,
}

impl Printed {
    /// Reads on a thread of its own.
    fn from(descriptor: OwnedFd) -> Printed {
        let printed = Printed::default();
        let here = printed.clone();
        std::thread::spawn(move || {
            let mut from = File::from(descriptor);
            let mut part = vec![0; 64 << 10];
            loop {
                // A terminal that nobody writes to any more fails.
                let count = match from.read(&mut part) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(_) => break,
                };
                let mut known = here.lock();
                // What is more is read too, lest the program stands still for ever.
                let room = MOST.saturating_sub(known.bytes.len());
                known.bytes.extend_from_slice(&part[..count.min(room)]);
            }
            here.lock().ended = true;
            here.0.1.notify_all();
        });
        printed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Bytes> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if there is a whole line.
    fn has_line(&self) -> bool {
        self.lock().bytes.contains(&b'\n')
    }

    /// All of it, or what is there by then.
    fn text(&self, until: Instant) -> String {
        let left = until.saturating_duration_since(Instant::now());
        let known = self
            .0
            .1
            .wait_timeout_while(self.lock(), left, |known| !known.ended);
        let (known, _) = known.unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&known.bytes).into_owned()
    }
}

/// Returns true if there is a program of this name in PATH.
pub fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(name)))
}

/// Returns true if this is a file that may be executed.
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
            .arg("1000")
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
    fn an_id_that_was_printed_is_not_lost_with_who_printed_it() {
        // As sbatch does with --wait: through a buffer that is written when it is full, or at a line's end of a terminal.
        let buffered = "import sys, time; print('said', file=sys.stderr, flush=True); print(7); time.sleep(1000)";
        let wait = Some(Duration::from_millis(100));
        let patience = Duration::from_secs(120);
        let done = Call::new("python3").args(["-c", buffered]);
        let done = done.watch(patience, wait).expect("python3");
        assert_eq!((done.out.trim(), done.late), ("7", true), "{done:?}");
        assert_eq!(done.err, "said\n");
        // What has started something that goes on is not waited for, and nothing that it said is lost.
        let done = Call::new("sh").args(["-c", "sleep 1000 & echo 7; exit 3"]);
        let begin = Instant::now();
        let wait = Some(Duration::from_secs(5));
        let done = done.watch(patience, wait).expect("sh");
        assert_eq!(
            (done.out.trim(), done.late, done.code),
            ("7", false, Some(3))
        );
        assert!(begin.elapsed() < Duration::from_secs(900));
        let silent = Call::new("sleep").arg("1000");
        let silent = silent.watch(Duration::from_millis(50), None);
        assert!(silent.is_ok_and(|done| done.late && done.out.is_empty()));
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
