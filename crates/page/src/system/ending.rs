//! How a job has ended, in plain words. Pure, but for looking whether an interpreter is there.

use nix::sys::signal::Signal;
use std::path::Path;

/// An exit code: `exit code 3`, and what the shell means by those that it gives itself.
pub fn exit_code(code: i64) -> String {
    let why = match code {
        126 => "a program cannot be executed".to_string(),
        127 => "a program, or what the first line of a script names, was not found".to_string(),
        // Of a program that a signal has ended a shell says so.
        129..=192 => match name(code - 128) {
            Some(name) => format!("a program was ended by {name}{}", meaning(code - 128)),
            None => String::new(),
        },
        _ => String::new(),
    };
    match why.as_str() {
        "" => format!("exit code {code}"),
        why => format!("exit code {code}: {why}"),
    }
}

/// A signal: `ended by signal 15, SIGTERM: asked to end`.
pub fn signal(number: i64) -> String {
    match name(number) {
        Some(name) => format!("ended by signal {number}, {name}{}", meaning(number)),
        None => format!("ended by signal {number}"),
    }
}

/// A state in which a batch system has ended a job, in small letters as it calls it; others as they are.
pub fn state(state: &str) -> String {
    let meaning = match state {
        "timeout" => "its time limit was reached",
        "out_of_memory" => "it used more memory than it was given",
        "node_fail" => "its node failed",
        "boot_fail" => "its node did not boot",
        "preempted" => "another job needed its place",
        "deadline" => "the deadline of its batch system was reached",
        other => return other.to_string(),
    };
    format!("{}: {meaning}", state.replace('_', " "))
}

fn name(number: i64) -> Option<&'static str> {
    let number = i32::try_from(number).ok()?;
    Signal::try_from(number).ok().map(Signal::as_str)
}

/// What is meant, behind a colon; nothing for signals that mean what a program makes of them.
fn meaning(number: i64) -> &'static str {
    let signal = i32::try_from(number).ok().map(Signal::try_from);
    match signal {
        Some(Ok(Signal::SIGHUP)) => ": its terminal was closed",
        Some(Ok(Signal::SIGINT)) => ": interrupted",
        Some(Ok(Signal::SIGABRT)) => ": it gave up by itself (abort)",
        Some(Ok(Signal::SIGKILL)) => ": killed, by somebody or for want of memory",
        Some(Ok(Signal::SIGSEGV | Signal::SIGBUS)) => ": it used memory that it does not have",
        Some(Ok(Signal::SIGFPE)) => ": a calculation without a result",
        Some(Ok(Signal::SIGPIPE)) => ": nobody read its output",
        Some(Ok(Signal::SIGTERM)) => ": asked to end",
        Some(Ok(Signal::SIGXCPU)) => ": its limit of processor time was reached",
        Some(Ok(Signal::SIGXFSZ)) => ": its limit of a file's size was reached",
        _ => "",
    }
}

/// What the first line of a script names to read it, if that is not there on this host.
pub fn missing_interpreter(script: &str) -> Option<&str> {
    let first = script.lines().next()?.strip_prefix("#!")?;
    let interpreter = first.split_ascii_whitespace().next()?;
    (!Path::new(interpreter).exists()).then_some(interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_signals() {
        for (code, said) in [
            (0, "exit code 0"),
            (3, "exit code 3"),
            (126, "exit code 126: a program cannot be executed"),
            (
                137,
                "exit code 137: a program was ended by SIGKILL: killed, by somebody or for want of memory",
            ),
            (192, "exit code 192"),
            (255, "exit code 255"),
        ] {
            assert_eq!(exit_code(code), said);
        }
        assert_eq!(signal(15), "ended by signal 15, SIGTERM: asked to end");
        assert_eq!(signal(10), "ended by signal 10, SIGUSR1");
        assert_eq!(signal(40), "ended by signal 40");
        assert_eq!(signal(i64::MAX), format!("ended by signal {}", i64::MAX));
    }

    #[test]
    fn states_of_batch_systems() {
        assert_eq!(
            state("out_of_memory"),
            "out of memory: it used more memory than it was given"
        );
        assert_eq!(state("revoked"), "revoked");
    }

    #[test]
    fn an_interpreter_is_there_or_is_named() {
        assert_eq!(missing_interpreter("#!/bin/sh -e\n"), None);
        assert_eq!(missing_interpreter("echo\n"), None);
        assert_eq!(
            missing_interpreter("#! /opt/none/bin/python3 -u\nx"),
            Some("/opt/none/bin/python3")
        );
        assert_eq!(
            missing_interpreter("#!/bin/sh\r\n"),
            None,
            "lines() takes both ends of lines"
        );
        assert_eq!(missing_interpreter("#!"), None);
    }
}
