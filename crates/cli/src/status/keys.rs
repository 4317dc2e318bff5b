//! Keys that are pressed while `libra status --watch` shows the jobs, read one by one, without a line's end.
//!
//! The terminal is another one only while a key is waited for, so that it is as it was however this ends: by `q`, by an error, and by the
//! signals that end a program, also while a batch system does not answer.

use libra_administration::status::sort::Sort;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpgrp, read, tcgetpgrp};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Stdin, stdin};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Show it anew.
    Show,
    /// Show it anew, in this order.
    Sort(Sort),
    /// End.
    Quit,
}

/// A terminal whose keys are read.
pub struct Keys {
    terminal: Stdin,
    before: Termios,
    signals: SignalFd,
    waited_for: SigSet,
}

impl Keys {
    /// The terminal that standard input is; None if it is none, or its keys cannot be read.
    pub fn of_input() -> Option<Keys> {
        let terminal = stdin();
        if !terminal.is_terminal() {
            return None;
        }
        let before = tcgetattr(&terminal).ok()?;
        let mut waited_for = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            waited_for.add(signal);
        }
        let signals =
            SignalFd::with_flags(&waited_for, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
                .ok()?;
        Some(Keys {
            terminal,
            before,
            signals,
            waited_for,
        })
    }

    /// A program in the background is stopped where it reads the terminal, or changes it.
    fn is_in_foreground(&self) -> bool {
        tcgetpgrp(&self.terminal) == Ok(getpgrp())
    }

    /// Has keys come one by one and unseen.
    fn take(&self) {
        if !self.is_in_foreground() {
            return;
        }
        let mut modes = self.before.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &modes);
    }

    fn give_back(&self) {
        if self.is_in_foreground() {
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
        }
    }

    /// Waits for a key, no longer than `patience`. Ends the process where a signal asks for it.
    pub fn wait(&self, patience: Duration) -> Next {
        if self.waited_for.thread_block().is_err() {
            std::thread::sleep(patience);
            return Next::Show;
        }
        self.take();
        let pressed = self.pressed(patience);
        self.give_back();
        let _ = self.waited_for.thread_unblock();
        match pressed {
            Ok(next) => next,
            Err(signal) => {
                // It ends the process, as it would have without keys.
                let _ = raise(signal);
                Next::Quit
            }
        }
    }

    /// A key, or the signal that came instead.
    fn pressed(&self, patience: Duration) -> Result<Next, Signal> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut ready = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            if self.is_in_foreground() {
                ready.push(PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN));
            }
            let milliseconds = left.as_millis().min(3_600_000);
            let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
            let found = poll(&mut ready, timeout);
            let pressed = ready.get(1).is_some_and(|keys| keys.any() == Some(true));
            if let Ok(Some(signal)) = self.signals.read_signal() {
                return Err(Signal::try_from(signal.ssi_signo as i32).unwrap_or(Signal::SIGTERM));
            }
            if found == Ok(0) {
                return Ok(Next::Show);
            }
            if pressed {
                let mut bytes = [0; 64];
                match read(&self.terminal, &mut bytes) {
                    Ok(0) => return Ok(Next::Quit),
                    Ok(count) => {
                        let keys = bytes.get(..count).unwrap_or_default();
                        if let Some(next) = keys.iter().find_map(|key| meaning(*key)) {
                            return Ok(next);
                        }
                    }
                    // A terminal that is gone; who has it says so by a signal.
                    Err(_) => std::thread::sleep(left.min(Duration::from_secs(1))),
                }
            }
        }
    }
}

/// What a key means; None if nothing.
fn meaning(key: u8) -> Option<Next> {
    match char::from(key.to_ascii_lowercase()) {
        'q' => Some(Next::Quit),
        ' ' => Some(Next::Show),
        key => {
            let chosen = Sort::KEYS.iter().find(|(of, _)| *of == key)?;
            Some(Next::Sort(chosen.1))
        }
    }
}

/// The keys, in a line below the table.
pub fn help(sort: Sort) -> String {
    let keys = Sort::KEYS.map(|(key, of)| match of == sort {
        true => format!("{key} [{}]", of.word()),
        false => format!("{key} {}", of.word()),
    });
    format!("q quit   sort by: {}", keys.join("  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_line_says() {
        let line = help(Sort::Deadline);
        assert_eq!(
            line,
            "q quit   sort by: u usual  d [deadline]  s state  h share"
        );
        assert_eq!(meaning(b'q'), Some(Next::Quit));
        assert_eq!(meaning(b'D'), Some(Next::Sort(Sort::Deadline)));
        assert_eq!(meaning(b'x'), None);
        assert_eq!(meaning(0x1b), None);
    }
}
