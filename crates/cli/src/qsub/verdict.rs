//! What Libra decided about a job: the hook on the server writes it into a resource.

use libra_system::spawn::spawn_inside;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::unistd::getuid;
use serde_json::Value;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// A server that takes longer is not waited for: the job is there, whatever is said about it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The id of a job, if this is what the line is: `12.server`, `12[].server`.
pub fn job_id(line: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'@');
    (text.starts_with(|first: char| first.is_ascii_digit()) && plain).then_some(text)
}

/// Returns true if anybody can read what is said. Who submits many jobs may want to save what qstat takes.
pub fn can_be_read() -> bool {
    let named = |path: &str| std::fs::metadata(path).ok().map(|data| data.rdev());
    let said = std::fs::metadata("/proc/self/fd/2").ok();
    let null = said.filter(|data| data.file_type().is_char_device());
    null.is_none_or(|data| Some(data.rdev()) != named("/dev/null"))
}

/// Asks the server, by the qstat beside this qsub, what Libra said about the job. None if it
/// said nothing or the server does not answer.
pub fn ask(qsub: &Path, job: &str, at: Option<&[u8]>, mask: SigSet) -> Option<String> {
    let qstat = qsub.with_file_name("qstat");
    let job = match at {
        Some(server) => format!("{job}@{}", std::str::from_utf8(server).ok()?),
        None => job.to_string(),
    };
    let mut command = Command::new(qstat);
    command
        .args(["-f", "-F", "json", &job])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mark = PathBuf::from(format!("{MARKS}/.pbs_last_query_{}", getuid()));
    not_lately(&mark);
    let mut child = spawn_inside(&mut command, Vec::new(), mask).ok()?;
    let mut output = child.stdout.take()?;
    let mut text = Vec::new();
    let start = Instant::now();
    let mut buffer = [0; 8192];
    let complete = loop {
        let left = PATIENCE.saturating_sub(start.elapsed());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Err(nix::errno::Errno::EINTR) => continue,
            Ok(1..) => {}
            _ => break false,
        }
        match output.read(&mut buffer) {
            Ok(0) | Err(_) => break true,
            Ok(length) => text.extend_from_slice(&buffer[..length]),
        }
    };
    if !complete {
        let _ = child.kill();
    }
    let _ = child.wait();
    // What we have asked shall not make the user's own next qstat wait either.
    not_lately(&mark);
    info(&text)
}

/// Where qstat leaves an empty file of its user's whenever it is used, by whose time it knows those who ask over and over: it makes them wait for a
/// fifth of a second where that was in the same second. A submission asks once.
const MARKS: &str = "/var/tmp";

/// Sets the mark of the last query two seconds back, if it is what qstat makes: an empty file of ours in a directory where everybody may write.
fn not_lately(mark: &Path) {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits())
        .open(mark);
    // There is none yet, or it is somebody else's: qstat decides.
    let Ok(file) = opened else { return };
    let is_mark = file
        .metadata()
        .is_ok_and(|data| data.is_file() && data.len() == 0 && data.uid() == getuid().as_raw());
    let before = SystemTime::now().checked_sub(Duration::from_secs(2));
    if let Some(before) = before.filter(|_| is_mark) {
        let _ = file.set_modified(before);
    }
}

/// `Resource_List.libra_info` of the one job in qstat's answer.
fn info(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let info = match serde_json::from_str::<Value>(&text) {
        Ok(answer) => {
            let job = answer.get("Jobs")?.as_object()?.values().next()?.clone();
            match job.get("Resource_List")?.get("libra_info")? {
                Value::String(info) => info.clone(),
                // qstat writes what looks like a number as one.
                other => other.to_string(),
            }
        }
        // qstat does not escape everything in other fields.
        Err(_) => {
            let (_, rest) = text.split_once("\"libra_info\":\"")?;
            let line = rest.lines().next()?.trim_end().trim_end_matches(',');
            let value: Value = serde_json::from_str(&format!("\"{line}")).ok()?;
            value.as_str()?.to_string()
        }
    };
    let plain: String = info
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let plain = plain.trim();
    (!plain.is_empty()).then(|| plain.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_jobs() {
        for (line, id) in [
            ("12.server", Some("12.server")),
            ("12[].server", Some("12[].server")),
            ("12.server\r", Some("12.server")),
            ("qsub: waiting", None),
            ("", None),
            ("12 jobs", None),
            ("-f", None),
        ] {
            assert_eq!(job_id(line.as_bytes()), id, "{line}");
        }
    }

    #[test]
    fn the_mark_of_the_last_query_is_set_back_where_it_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let modified = |path: &Path| path.metadata().unwrap().modified().unwrap();
        let mark = directory.path().join("mark");
        std::fs::write(&mark, "").unwrap();
        let before = modified(&mark);
        not_lately(&mark);
        let now = SystemTime::now();
        assert!(modified(&mark) + Duration::from_secs(2) <= now);
        assert!(modified(&mark) + Duration::from_secs(2) >= before);
        let other = directory.path().join("other");
        std::fs::write(&other, "text").unwrap();
        let link = directory.path().join("link");
        std::fs::write(directory.path().join("empty"), "").unwrap();
        std::os::unix::fs::symlink("empty", &link).unwrap();
        for kept in [&other, &link] {
            let before = modified(kept);
            not_lately(kept);
            assert_eq!(modified(kept), before, "{}", kept.display());
        }
        not_lately(&directory.path().join("none"));
    }

    #[test]
    fn what_qstat_answers() {
        let jobs = |list: &str| {
            format!(
                "{{\n  \"Jobs\":{{\n    \"1.s\":{{\n      \"Resource_List\":{{\n        {list}\n      }}}}}}\n}}\n"
            )
        };
        for (answer, expected) in [
            (
                jobs("\"libra_info\":\"accepted: n1\",\n\"x\":1"),
                Some("accepted: n1"),
            ),
            (
                jobs("\"libra_info\":\"a \\\"b\\\"\\nc\""),
                Some("a \"b\" c"),
            ),
            (jobs("\"libra_info\":5"), Some("5")),
            (jobs("\"libra_info\":\"\""), None),
            (jobs("\"x\":1"), None),
            // Not JSON: somebody's variable holds a quote.
            (
                jobs("\"v\":\"\"\",\n\"libra_info\":\"accepted: n1\",\n\"x\":1"),
                Some("accepted: n1"),
            ),
            (
                jobs("\"v\":\"\"\",\n\"libra_info\":\"accepted: n1\""),
                Some("accepted: n1"),
            ),
            (String::new(), None),
            ("{}".to_string(), None),
        ] {
            assert_eq!(info(answer.as_bytes()).as_deref(), expected, "{answer}");
        }
    }
}
