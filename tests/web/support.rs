//! A `libra web` of its own for each test, and a client that sends what it is told to, byte for byte.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static SITES: AtomicU32 = AtomicU32::new(0);

/// A host of its own with a page.
pub struct Site {
    pub directory: tempfile::TempDir,
    web: Child,
    /// `http://127.0.0.1:PORT/PREFIX/?token=TOKEN`
    pub url: String,
}

impl Site {
    pub fn new() -> Site {
        Site::with(&[])
    }

    pub fn with(options: &[&str]) -> Site {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "[cgroup]\nroot = \"libra-webtest-{}-{number}\"\n[registry]\ndirectory = \"{}\"\n[agent]\ninterval = \"100ms\"\ngrace = \"1s\"\n",
            std::process::id(),
            directory.path().join("registry").display()
        );
        fs::write(directory.path().join("libra.toml"), text).expect("a configuration");
        fs::create_dir(directory.path().join("work")).expect("a directory");
        let (web, url) = start(&directory, options);
        Site {
            directory,
            web,
            url,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn libra(&self, words: &[&str]) -> Command {
        command(&self.directory, words)
    }

    pub fn jobs(&self) -> Vec<Value> {
        let done = self.libra(&["status", "--json"]).output().expect("libra");
        let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        report["jobs"].as_array().expect("jobs").clone()
    }

    /// `127.0.0.1:PORT`
    pub fn address(&self) -> &str {
        self.url.split('/').nth(2).expect("an address")
    }

    /// `/PREFIX/`
    pub fn base(&self) -> String {
        format!("/{}/", self.url.split('/').nth(3).expect("a path"))
    }

    pub fn token(&self) -> &str {
        self.url.split("token=").nth(1).expect("a token")
    }

    /// Sends this request, whatever it is, and reads the answer to its end.
    pub fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address()).expect("a connection");
        let patience = Duration::from_secs(60);
        stream
            .set_read_timeout(Some(patience))
            .expect("a time limit");
        // It may answer and close before all is sent.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::read(&bytes)
    }

    /// A GET with these lines of the head.
    pub fn get(&self, path: &str, head: &str) -> Answer {
        let host = self.address();
        self.raw(
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{head}Connection: close\r\n\r\n")
                .as_bytes(),
        )
    }

    /// Comes in with the token.
    pub fn enter(&self) -> Browser<'_> {
        let answer = self.get(&format!("{}?token={}", self.base(), self.token()), "");
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_string();
        let mut browser = Browser {
            site: self,
            cookie,
            word: String::new(),
        };
        browser.word = browser.get("submit").field("word");
        browser
    }

    /// Waits for its end by itself; the exit code.
    pub fn ended(&mut self, patience: Duration) -> Option<i32> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Some(status) = self.web.try_wait().expect("a child") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    pub fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(self.web.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("our child");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for job in self.jobs() {
            if job["phase"] != "ended" {
                let id = job["id"].as_str().unwrap_or_default().to_string();
                let _ = self.libra(&["cancel", &id]).output();
            }
        }
        let _ = self.web.kill();
        let _ = self.web.wait();
    }
}

pub fn command(directory: &tempfile::TempDir, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_libra"));
    command
        .arg("--config")
        .arg(directory.path().join("libra.toml"))
        .args(words)
        .current_dir(directory.path().join("work"))
        .env("HOME", directory.path().join("home"))
        .env_remove("XDG_STATE_HOME")
        .env_remove("LIBRA_LOG")
        .stdin(Stdio::null());
    command
}

fn start(directory: &tempfile::TempDir, options: &[&str]) -> (Child, String) {
    let mut web = command(directory, &["--json", "web", "--system", "local"])
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .expect("libra web");
    let mut line = String::new();
    let out = web.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let json: Value = serde_json::from_str(&line).expect("JSON");
    (web, json["url"].as_str().expect("an address").to_string())
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    fn read(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let head = lines.filter_map(|line| line.split_once(": "));
        Answer {
            status: status.unwrap_or(0),
            head: head
                .map(|(k, v)| (k.to_lowercase(), v.to_string()))
                .collect(),
            body: body.to_string(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a field of a form in it.
    pub fn field(&self, name: &str) -> String {
        let at = self.body.split(&format!("name=\"{name}\" value=\"")).nth(1);
        let value = at.and_then(|rest| rest.split('"').next());
        value
            .unwrap_or_else(|| panic!("no field {name}: {}", self.body))
            .to_string()
    }

    /// The key of the job that it leads to.
    pub fn key(&self) -> String {
        let to = self
            .header("location")
            .unwrap_or_else(|| panic!("no way on: {self:?}"));
        to.strip_prefix("job?id=")
            .unwrap_or_else(|| panic!("not to a job: {to}"))
            .to_string()
    }
}

/// Somebody who came in.
pub struct Browser<'a> {
    pub site: &'a Site,
    pub cookie: String,
    pub word: String,
}

impl Browser<'_> {
    pub fn get(&self, page: &str) -> Answer {
        let path = format!("{}{page}", self.site.base());
        self.site
            .get(&path, &format!("Cookie: {}\r\n", self.cookie))
    }

    /// A form, with an own Origin and the session's word.
    pub fn post(&self, page: &str, fields: &[(&str, &str)]) -> Answer {
        let origin = format!("Origin: http://{}\r\n", self.site.address());
        self.post_as(page, &origin, &[fields, &[("word", &self.word)]].concat())
    }

    /// A form, and these lines of the head.
    pub fn post_as(&self, page: &str, head: &str, fields: &[(&str, &str)]) -> Answer {
        let pairs = fields
            .iter()
            .map(|(k, v)| format!("{}={}", encoded(k), encoded(v)));
        let body = pairs.collect::<Vec<_>>().join("&");
        self.site.raw(
            format!(
                "POST {}{page} HTTP/1.1\r\nHost: {}\r\n{head}Cookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                self.site.base(),
                self.site.address(),
                self.cookie,
                body.len()
            )
            .as_bytes(),
        )
    }

    /// The fields of a good submission, with these in place of its own.
    pub fn submit(&self, changes: &[(&str, &str)]) -> Answer {
        let work = self.site.path("work").display().to_string();
        let good = [
            ("script", "echo hello\n"),
            ("estimate", "5"),
            ("deadline", "60"),
            ("budget", "100"),
            ("processors", "1"),
            ("name", "test"),
            ("directory", work.as_str()),
        ];
        let own = good
            .iter()
            .filter(|(name, _)| !changes.iter().any(|(other, _)| other == name));
        let fields: Vec<(&str, &str)> = own.chain(changes).copied().collect();
        self.post("submit", &fields)
    }

    /// Waits until a job's output has this text.
    pub fn output(&self, key: &str, text: &str) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.get(&format!("output?id={key}&from=0"));
            let json: Value =
                serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
            if json["text"]
                .as_str()
                .is_some_and(|shown| shown.contains(text))
            {
                return json;
            }
            assert!(Instant::now() < end, "waited for {text} in {json}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

pub fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Answer {
    /// The value of the first button of this name.
    pub fn field_of_button(&self, name: &str) -> String {
        self.field(name).replace("&#39;", "'")
    }
}
