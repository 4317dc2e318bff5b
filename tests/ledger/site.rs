//! A site with accounts: a configuration, a program that every user can start, and a service.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// A user of every Debian: name, number, and number of the group of the same name.
#[derive(Clone, Copy)]
pub struct User(pub &'static str, pub u32);

pub const ROOT: User = User("root", 0);
pub const NOBODY: User = User("nobody", 65534);
pub const DAEMON: User = User("daemon", 1);
pub const BIN: User = User("bin", 2);

pub struct Site {
    directory: tempfile::TempDir,
    program: PathBuf,
    service: Option<Child>,
}

impl Site {
    pub fn new() -> Site {
        let directory = tempfile::tempdir().expect("a directory");
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), all).expect("for everybody");
        let mut site = Site {
            program: directory.path().join("libra"),
            directory,
            service: None,
        };
        // Where it was built not everybody may look.
        let built = PathBuf::from(env!("CARGO_BIN_EXE_libra"));
        if fs::hard_link(&built, &site.program).is_err() {
            crate::program::write(&site.program, &fs::read(&built).expect("libra"));
        }
        site.configure("on", "daemon");
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn configure(&mut self, mode: &str, administrators: &str) {
        let text = format!(
            "[accounts]\nmode = \"{mode}\"\nledger = \"{}\"\nlive = \"{}\"\nsocket = \"{}\"\nadministrators = \"{administrators}\"\n",
            self.path("accounts/ledger.sqlite").display(),
            self.path("live").display(),
            self.path("run/socket").display(),
        );
        fs::write(self.path("libra.toml"), text).expect("a configuration");
    }

    /// The ledger is in this database, to which the ledger's owner connects.
    pub fn keep_in(&mut self, database: &str) {
        self.configure_also(&format!("database = \"{database}\"\n"));
    }

    /// Adds to the configuration's last section.
    pub fn configure_also(&mut self, lines: &str) {
        let file = self.path("libra.toml");
        let text = fs::read_to_string(&file).expect("a configuration");
        fs::write(&file, text + lines).expect("a configuration");
    }

    fn command(&self, words: &[&str]) -> Command {
        self.command_by("libra.toml", words)
    }

    fn command_by(&self, configuration: &str, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--config")
            .arg(self.path(configuration))
            .arg("account")
            .args(words)
            .env_remove("LIBRA_LOG")
            .env("TZ", "UTC")
            .current_dir("/")
            .stdin(Stdio::null());
        // Of this month: nobody asks in the first minutes of one for what was done in the last ones of another.
        if words.contains(&"statement") && !words.contains(&"--month") {
            command.env("TZ", where_the_day_is_young());
        }
        command
    }

    /// As root: exit code, standard output, standard error.
    pub fn root(&self, words: &[&str]) -> (i32, String, String) {
        told(self.command(words).output().expect("libra"))
    }

    /// As another user.
    pub fn user(&self, user: User, words: &[&str]) -> (i32, String, String) {
        let output = self.command(words).uid(user.1).gid(user.1).output();
        told(output.expect("libra; these tests need root, to be other users"))
    }

    /// As another user, with the configuration of another host that is in this file.
    pub fn user_by(
        &self,
        configuration: &str,
        user: User,
        words: &[&str],
    ) -> (i32, String, String) {
        let mut command = self.command_by(configuration, words);
        let output = command.uid(user.1).gid(user.1).output();
        told(output.expect("libra; these tests need root, to be other users"))
    }

    /// As root, and done.
    pub fn done(&self, words: &[&str]) -> String {
        let (code, out, err) = self.root(words);
        assert_eq!(code, 0, "{words:?}: {out}{err}");
        out
    }

    /// As root: one JSON object a line.
    pub fn json(&self, words: &[&str]) -> Vec<Value> {
        let text = self.done(&[words, &["--json"]].concat());
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("JSON")
    }

    /// `libra run` as root, on a node of which nothing is enforced: exit code, standard output, standard error.
    pub fn run(&self, words: &[&str]) -> (i32, String, String) {
        let mut text = fs::read_to_string(self.path("libra.toml")).expect("a configuration");
        let registry = self.path("registry");
        text.push_str(&format!(
            "[cgroup]\nversion = \"off\"\n[registry]\ndirectory = \"{}\"\n",
            registry.display()
        ));
        // In one step: several may be started at once.
        let mut new = tempfile::NamedTempFile::new_in(self.directory.path()).expect("a file");
        std::io::Write::write_all(&mut new, text.as_bytes()).expect("a configuration");
        new.persist(self.path("run.toml")).expect("a configuration");
        let mut command = Command::new(&self.program);
        command
            .arg("--config")
            .arg(self.path("run.toml"))
            .arg("run")
            .args(words)
            .current_dir("/");
        told(command.stdin(Stdio::null()).output().expect("libra"))
    }

    pub fn serve(&mut self) {
        let child = self
            .command(&["serve"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("libra");
        self.service = Some(child);
        self.wait_for_service();
    }

    fn wait_for_service(&self) {
        let begun = Instant::now();
        let socket = self.path("run/socket");
        // Everybody may connect a moment later than there is somebody who listens.
        let is_for_all = || fs::metadata(&socket).is_ok_and(|file| file.mode() & 0o777 == 0o666);
        while UnixStream::connect(&socket).is_err() || !is_for_all() {
            assert!(begun.elapsed() < Duration::from_secs(300), "no service");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn service(&mut self) -> &mut Child {
        self.service.as_mut().expect("serves")
    }

    /// SIGTERM; the exit code.
    pub fn end_service(&mut self) -> Option<i32> {
        let mut child = self.service.take().expect("serves");
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("told");
        child.wait().expect("ends").code()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut child) = self.service.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A time zone in which it is after three in the morning now, so that no day, and no month, has begun since the test has.
fn where_the_day_is_young() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let hour = (now.expect("after 1970").as_secs() / 3600 % 24) as i64;
    // Hours that clocks there are behind those of Greenwich.
    format!("<YOUNG>{}", hour - 3)
}

fn told(output: Output) -> (i32, String, String) {
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}
