//! A PostgreSQL server for tests: in a temporary directory, at a socket there and nowhere else, of a user without rights. It ends, and its
//! directory goes, with the process that began it, however that ends.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nothing takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(300);

/// Watches over a server.
const WATCH: &str = include_str!("postgres.sh");

/// A server.
pub struct Server {
    directory: PathBuf,
    bin: PathBuf,
    watch: Child,
    /// The watch ends the server when this is closed.
    orders: Option<ChildStdin>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed may have left it stopped.
        self.signal_all(nix::sys::signal::Signal::SIGCONT);
        drop(self.orders.take());
        let _ = self.watch.wait();
    }
}

/// Where the programs are, the newest first.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<(u32, PathBuf)> = (versions.flatten())
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            let bin = version.path().join("bin");
            bin.join("initdb").exists().then_some((number, bin))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, bin)| bin)
}

impl Server {
    /// Begins one. None if there is no PostgreSQL here; that is said.
    pub fn begin() -> Option<Server> {
        let Some(bin) = programs() else {
            eprintln!(
                "not run: no PostgreSQL in /usr/lib/postgresql (scripts/bootstrap test installs it)"
            );
            return None;
        };
        // The name of a socket has 107 bytes at most.
        let directory = tempfile::Builder::new()
            .prefix("libra-pg-")
            .tempdir_in("/tmp");
        let directory = directory.expect("a directory").keep();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("its mode");
        let (mut command, user) = match nix::unistd::geteuid().is_root() {
            true => {
                let user = ["postgres", "nobody"].into_iter();
                let user =
                    user.filter_map(|name| nix::unistd::User::from_name(name).ok().flatten());
                let user = user.into_iter().next().expect("a user without rights");
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={}", user.uid));
                command.arg(format!("--regid={}", user.gid));
                command.args(["--clear-groups", "bash"]);
                (command, Some(user))
            }
            false => (Command::new("bash"), None),
        };
        if let Some(user) = user {
            let (uid, gid) = (Some(user.uid.as_raw()), Some(user.gid.as_raw()));
            std::os::unix::fs::chown(&directory, uid, gid).expect("given away");
        }
        let mut watch = command
            .args(["-c", WATCH, "watch"])
            .args([&directory, &bin])
            .current_dir("/")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("bash");
        let orders = watch.stdin.take();
        let server = Server {
            directory,
            bin,
            watch,
            orders,
        };
        server.wait_until_it_answers();
        Some(server)
    }

    /// A connection string for a database of this server.
    pub fn string(&self, database: &str) -> String {
        format!(
            "host={} user=libra dbname={database}",
            self.directory.display()
        )
    }

    /// A new database, and the connection string for it.
    pub fn database(&self) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("d{}_{number}", std::process::id());
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.string(&name)
    }

    fn psql(&self, string: &str, statement: &str) -> std::process::Output {
        Command::new(self.bin.join("psql"))
            .args([
                "-XAtq",
                "-v",
                "ON_ERROR_STOP=1",
                "-d",
                string,
                "-c",
                statement,
            ])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .expect("psql")
    }

    /// What a statement brings, in a database that is named or whose connection string is given.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let string = match database.contains('=') {
            true => database.to_string(),
            false => self.string(database),
        };
        let done = self.psql(&string, statement);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{statement}: {said}");
        String::from_utf8_lossy(&done.stdout).trim().to_string()
    }

    fn wait_until_it_answers(&self) {
        let begun = Instant::now();
        while !self
            .psql(&self.string("postgres"), "SELECT 1")
            .status
            .success()
        {
            assert!(self.directory.exists(), "no server: see what initdb says");
            let log = || fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "no server: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn pid(&self) -> Option<nix::unistd::Pid> {
        let text = fs::read_to_string(self.directory.join("server")).ok()?;
        text.trim().parse().ok().map(nix::unistd::Pid::from_raw)
    }

    /// The server and its processes.
    fn processes(&self) -> Vec<nix::unistd::Pid> {
        let Some(server) = self.pid() else {
            return Vec::new();
        };
        let children = format!("/proc/{server}/task/{server}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        let children = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        [server]
            .into_iter()
            .chain(children.map(nix::unistd::Pid::from_raw))
            .collect()
    }

    /// All of it stands still, or goes on.
    pub fn signal_all(&self, signal: nix::sys::signal::Signal) {
        for process in self.processes() {
            let _ = nix::sys::signal::kill(process, signal);
        }
    }

    /// Killed as by a power failure of its machine: all its processes at once. Begins again when it is told to.
    pub fn kill(&self) {
        self.signal_all(nix::sys::signal::Signal::SIGKILL);
    }

    /// Begins again after it was killed, and answers when this returns.
    pub fn begin_again(&mut self) {
        let begun = Instant::now();
        // One that comes too soon finds that the last process of the one before is still there, and ends.
        loop {
            let before = self.pid();
            let orders = self.orders.as_mut().expect("not ended");
            orders.write_all(b"begin\n").expect("the watch reads");
            while self.pid() == before {
                assert!(begun.elapsed() < PATIENCE, "no server begins");
                std::thread::sleep(Duration::from_millis(5));
            }
            let is_there = || {
                let pid = self.pid().map_or(0, nix::unistd::Pid::as_raw);
                Path::new(&format!("/proc/{pid}/stat")).exists()
            };
            let answers = || {
                self.psql(&self.string("postgres"), "SELECT 1")
                    .status
                    .success()
            };
            while is_there() && begun.elapsed() < PATIENCE {
                if answers() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(begun.elapsed() < PATIENCE, "no server begins");
        }
    }
}
