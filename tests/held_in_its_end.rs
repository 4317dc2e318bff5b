//! A process that is killed and does not end yet, for tests of what becomes of it meanwhile: a tracer holds it where it has run its last
//! instruction and has still all of its memory.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

/// PTRACE_SEIZE with PTRACE_O_TRACEEXIT; the kernel lets it go when the tracer ends.
const TRACER: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
assert libc.ptrace(0x4206, pid, None, 0x40) == 0, os.strerror(ctypes.get_errno())
print('traced', flush=True)
status = os.waitpid(pid, 0x40000000)[1]
assert status >> 8 == 5 | 6 << 8, status
print('held', flush=True)
sys.stdin.read()
";

/// Who holds it.
pub struct Held {
    tracer: Child,
    stdin: Option<ChildStdin>,
    said: BufReader<std::process::ChildStdout>,
}

impl Held {
    /// Begins to trace a process, which runs on.
    pub fn trace(pid: i32) -> Held {
        let mut tracer = Command::new("python3")
            .args(["-c", TRACER, &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let stdin = tracer.stdin.take();
        let said = BufReader::new(tracer.stdout.take().expect("piped"));
        let mut held = Held {
            tracer,
            stdin,
            said,
        };
        held.says("traced");
        held
    }

    /// Waits until it is in its end.
    pub fn wait(&mut self) {
        self.says("held");
    }

    /// Lets it end.
    pub fn let_go(mut self) {
        drop(self.stdin.take());
        assert!(self.tracer.wait().expect("its end").success());
    }

    fn says(&mut self, expected: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("readable");
        assert_eq!(line.trim(), expected);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
    }
}
