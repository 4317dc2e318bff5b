//! Commands of a batch system, run as child processes with a time limit: with their server gone, some try for minutes.

use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time between two polls of a command: has it ended?
const POLL: Duration = Duration::from_millis(2);

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

/// Runs a command to its end; kills it when `patience` is over.
pub fn run(command: &mut Command, input: &str, patience: Duration) -> Result<Output, NoOutput> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(NoOutput::Start)?;
    let stdin = child.stdin.take();
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let read = |from: Option<&mut dyn Read>| {
        let mut bytes = Vec::new();
        let _ = from.map(|from| from.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        let out = scope.spawn(|| read(out.as_mut().map(|o| o as &mut dyn Read)));
        let err = scope.spawn(|| read(err.as_mut().map(|e| e as &mut dyn Read)));
        let end = Instant::now() + patience;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Err(error) => break Err(NoOutput::Wait(error)),
                Ok(None) if Instant::now() > end => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break Err(NoOutput::Late);
                }
                Ok(None) => std::thread::sleep(POLL),
            }
        };
        let out = out.join().unwrap_or_default();
        let err = err.join().unwrap_or_default();
        status.map(|status| Output { status, out, err })
    })
}
