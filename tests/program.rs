//! Programs that a test writes and then runs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable file, by a child. Written by this process it might not start (ETXTBSY): whatever another thread forks meanwhile has
/// the file open for writing too, until its own exec, and on a busy machine that may take a while.
pub fn write(path: &Path, content: &[u8]) {
    let mut child = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(content).expect("read by it");
    drop(input);
    let status = child.wait().expect("a child");
    assert!(status.success(), "{}: {status}", path.display());
}
