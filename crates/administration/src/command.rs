//! Commands of a batch system, run as child processes with a time limit: with their server gone, some try for minutes.

use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two polls of a command: has it ended?
const POLL: Duration = Duration::from_millis(2);

/// After its end the rest of what it printed is waited for, until nothing comes for so long.
const AFTER: Duration = Duration::from_secs(2);

/// How a command ended, and what it printed.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

/// Why there is no output.
#[derive(Debug)]
pub enum NoOutput {
    /// It could not be started.
    Start(std::io::Error),
    /// It did not end in time, and was killed.
    Late,
    /// Its end could not be waited for.
    Wait(std::io::Error),
}

/// Runs a command to its end; kills it when `patience` is over. What it leaves running is not waited for, whatever that has open.
pub fn run(command: &mut Command, input: &str, patience: Duration) -> Result<Output, NoOutput> {
    run_at_most(command, input, patience, usize::MAX)
}

/// As [`run`]; of what it prints on either way some `most` bytes are kept.
pub fn run_at_most(
    command: &mut Command,
    input: &str,
    patience: Duration,
    most: usize,
) -> Result<Output, NoOutput> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(NoOutput::Start)?;
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_string();
        std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let out = child.stdout.take().map(|out| Printed::follow(out, most));
    let err = child.stderr.take().map(|err| Printed::follow(err, most));
    let end = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Err(error) => return Err(NoOutput::Wait(error)),
            Ok(None) if Instant::now() > end => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(NoOutput::Late);
            }
            Ok(None) => std::thread::sleep(POLL),
        }
    };
    let text =
        |printed: Option<Printed>| printed.map_or_else(String::new, |printed| printed.text(end));
    Ok(Output {
        status,
        out: text(out),
        err: text(err),
    })
}

/// What a command prints, read by a thread: it may leave a process that has its output open (ssh does, for connections that are shared).
struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Closed when there is nothing more to read.
    ended: Receiver<()>,
}

impl Printed {
    fn follow(mut from: impl Read + Send + 'static, most: usize) -> Printed {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (open, ended) = mpsc::channel();
        let read = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let _open: Sender<()> = open;
            let mut some = [0; 8192];
            while let Ok(count @ 1..) = from.read(&mut some) {
                let mut bytes = read.lock().unwrap_or_else(PoisonError::into_inner);
                if bytes.len() < most {
                    bytes.extend_from_slice(&some[..count]);
                }
            }
        });
        Printed { bytes, ended }
    }

    /// What it has printed until its end. As long as more comes it is waited for, at most until `end` and a moment.
    fn text(self, end: Instant) -> String {
        let length = || {
            self.bytes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .len()
        };
        let mut before = length();
        while let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(AFTER) {
            let now = length();
            if now == before || Instant::now() > end {
                break;
            }
            before = now;
        }
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: u64) -> Result<Output, NoOutput> {
        run(
            Command::new("sh").args(["-c", script]),
            "given",
            Duration::from_secs(patience),
        )
    }

    #[test]
    fn it_is_told_and_heard() {
        let said = shell("cat; echo said >&2; exit 3", 60).expect("it ends");
        assert_eq!(
            (said.out.as_str(), said.err.as_str(), said.status.code()),
            ("given", "said\n", Some(3))
        );
    }

    #[test]
    fn what_it_leaves_running_is_not_waited_for() {
        let began = Instant::now();
        let said = shell("sleep 300 & echo $!", 60).expect("it ends");
        assert!(began.elapsed() < Duration::from_secs(100));
        let left: i32 = said.out.trim().parse().expect("a process");
        let kill = |pid| {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL)
        };
        kill(left).expect("it runs");
    }

    #[test]
    fn more_than_is_wanted_is_read_and_left_out() {
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 10000000 /dev/zero"]);
        let said = run_at_most(&mut command, "", Duration::from_secs(60), 100_000);
        let said = said.expect("it ends");
        assert!(said.status.success() && said.out.len() < 200_000);
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        assert!(matches!(shell("exec sleep 300", 0), Err(NoOutput::Late)));
    }
}
