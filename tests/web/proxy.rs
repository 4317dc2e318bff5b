//! Behind a proxy that logs users in: whose header is believed, by which way, and that pages work below any path.

use crate::client::{Answer, encoded};
use crate::support::{Site, command};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};

/// A page at a socket, as a proxy has it.
struct Proxied {
    directory: tempfile::TempDir,
    web: Child,
    input: Option<ChildStdin>,
    socket: PathBuf,
    told: Value,
}

fn me() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid());
    user.expect("users").expect("a user").name
}

impl Proxied {
    fn new(options: &[&str]) -> Proxied {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let text = format!(
            "[cgroup]\nroot = \"libra-proxytest-{}\"\n[registry]\ndirectory = \"{}\"\n",
            std::process::id(),
            directory.path().join("registry").display()
        );
        std::fs::write(directory.path().join("libra.toml"), text).expect("a configuration");
        std::fs::create_dir(directory.path().join("work")).expect("a directory");
        let socket = directory.path().join("socket");
        let words = ["--json", "web", "--system", "local", "--end-with-input"];
        let mut web = command(&directory, &words)
            .args(["--user-header", "X-Remote-User", "--socket"])
            .arg(&socket)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("libra web");
        let mut line = String::new();
        let out = web.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        Proxied {
            input: web.stdin.take(),
            directory,
            web,
            socket,
            told: serde_json::from_str(&line).expect("JSON"),
        }
    }

    fn raw(&self, request: &str) -> Answer {
        let mut stream = UnixStream::connect(&self.socket).expect("a connection");
        // It may answer and close before all is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::read(&bytes)
    }

    fn get(&self, path: &str, head: &str) -> Answer {
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: portal.example\r\n{head}Connection: close\r\n\r\n"
        ))
    }

    fn post(&self, path: &str, head: &str, fields: &[(&str, &str)]) -> Answer {
        let pairs = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value)));
        let body = pairs.collect::<Vec<_>>().join("&");
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: portal.example\r\n{head}Content-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    }

    /// What it leads to.
    fn way(&self, path: &str) -> String {
        let answer = self.get(path, &named(&me()));
        assert_eq!(answer.status, 303, "{path}: {answer:?}");
        answer.header("location").expect("a way on").to_string()
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        let _ = self.web.kill();
        let _ = self.web.wait();
    }
}

fn named(user: &str) -> String {
    format!("X-Remote-User: {user}\r\n")
}

#[test]
fn whom_the_proxy_names_is_in_and_nobody_else() {
    let page = Proxied::new(&[]);
    assert_eq!(page.told["system"], "local");
    assert_eq!(page.told["base"], "/");
    assert_eq!(page.told["url"], Value::Null, "there is no token");
    let mode = std::fs::metadata(&page.socket)
        .expect("it")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let me = me();
    let shown = page.get("/submit", &named(&me));
    assert_eq!(shown.status, 200, "{shown:?}");
    assert_eq!(
        shown.header("set-cookie"),
        None,
        "nothing that could be stolen"
    );
    let beside = format!("{}{}", named("somebody"), named(&me));
    for (head, says) in [
        (String::new(), "does not say by"),
        (named("somebody"), "that you are somebody"),
        (beside, "there twice"),
        (named(&format!("{me},{me}")), "that you are"),
        (format!("X-Forwarded-User: {me}\r\n"), "does not say by"),
        ("Cookie: libra=0\r\n".to_string(), "does not say by"),
    ] {
        for path in ["/submit", "/?token=0", "/jobs", "/nothing"] {
            let answer = page.get(path, &head);
            assert_eq!(answer.status, 403, "{head} {path}");
            assert!(answer.body.contains(says), "{says}: {}", answer.body);
        }
    }
}

#[test]
fn a_form_needs_its_word_and_its_origin_behind_a_proxy_too() {
    let page = Proxied::new(&["--base", "/pun/sys/libra"]);
    let me = me();
    let word = page.get("/pun/sys/libra/submit", &named(&me)).field("word");
    let own = "Origin: https://portal.example\r\n";
    let work = page.directory.path().join("work").display().to_string();
    let form = |word: &str, head: &str| {
        let fields = [("word", word), ("directory", &work), ("script", "true\n")];
        page.post(
            "/pun/sys/libra/submit",
            &format!("{}{head}", named(&me)),
            &fields,
        )
    };
    for (word, head) in [
        (word.as_str(), ""),
        (&word, "Origin: https://evil.example\r\n"),
        (&word, "Origin: null\r\n"),
        ("0", own),
        ("", own),
    ] {
        let answer = form(word, head);
        assert_eq!(answer.status, 403, "{head}: {answer:?}");
        assert!(answer.body.contains("Nothing was done"), "{}", answer.body);
    }
    // Looked at and found wanting: it has no terms.
    let answer = form(&word, own);
    assert_ne!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("name=\"estimate\""), "{}", answer.body);
}

#[test]
fn pages_are_below_the_path_that_the_proxy_has() {
    let me = me();
    let page = Proxied::new(&["--base", "/pun/sys/libra/"]);
    assert_eq!(page.told["base"], "/pun/sys/libra/");
    assert_eq!(page.way("/pun/sys/libra/"), "submit");
    assert_eq!(
        page.way("/pun/sys/libra"),
        "libra/submit",
        "relative to what is before it"
    );
    for path in [
        "submit",
        "jobs",
        "cluster",
        "account",
        "style.css",
        "script.js",
    ] {
        let answer = page.get(&format!("/pun/sys/libra/{path}"), &named(&me));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        for link in ["href=\"/", "src=\"/", "action=\"/"] {
            assert!(!answer.body.contains(link), "{path} has {link}");
        }
    }
    for path in ["/submit", "/", "/pun/sys/librarian/submit", "/pun/sys"] {
        assert_eq!(page.get(path, &named(&me)).status, 404, "{path}");
    }
    let root = Proxied::new(&["--host", "portal.example"]);
    assert_eq!(root.way("/"), "submit");
    let other = named(&me);
    let other = root.raw(&format!(
        "GET /submit HTTP/1.1\r\nHost: other.example\r\n{other}Connection: close\r\n\r\n"
    ));
    assert!(other.body.contains("Not by this name"), "{other:?}");
}

#[test]
fn over_tcp_no_header_names_anybody() {
    let site = Site::with(&["--base", "/a/b"]);
    let base: Vec<&str> = site.url.split('/').collect();
    assert_eq!((base[3], base[4]), ("a", "b"), "{}", site.url);
    for header in ["X-Remote-User", "X-Forwarded-User", "Remote-User"] {
        for path in [
            "/a/b/submit".to_string(),
            format!("/a/b/{}/submit", base[5]),
        ] {
            let answer = site.get(&path, &format!("{header}: {}\r\n", me()));
            assert_eq!(answer.status, 403, "{header} {path}");
            assert!(answer.body.contains("No session"), "{}", answer.body);
        }
    }
    let entered = site.get(&format!("/a/b/{}/?token={}", base[5], site.token()), "");
    assert_eq!(entered.header("location"), Some("submit"), "{entered:?}");
}

#[test]
fn members_of_a_group_see_the_overview_and_nobody_else_does() {
    let user = |uid| nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid));
    let (Ok(Some(one)), Ok(Some(other))) = (user(1), user(65534)) else {
        panic!("this machine has no users of these numbers")
    };
    let group = nix::unistd::Group::from_gid(one.gid);
    let group = group.expect("groups").expect("a group").name;
    let page = Proxied::new(&["--overview", "--viewers", &group]);
    for (name, status) in [(&me(), 200), (&one.name, 200), (&other.name, 403)] {
        let answer = page.get("/jobs", &named(name));
        assert_eq!(answer.status, status, "{name}: {answer:?}");
    }
    // A page of jobs is its owner's, whatever group anybody belongs to.
    let page = Proxied::new(&[]);
    assert_eq!(page.get("/jobs", &named(&one.name)).status, 403);
}

#[test]
fn what_would_let_others_in_is_refused_by_name() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(directory.path().join("work")).expect("a directory");
    std::fs::write(directory.path().join("libra.toml"), "").expect("a configuration");
    let open = directory.path().join("open");
    std::fs::create_dir(&open).expect("a directory");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).expect("a mode");
    let open = open.join("s").display().to_string();
    for (options, says) in [
        (&["--user-header", "X-Remote-User"][..], "never over TCP"),
        (
            &["--user-header", "X-Remote-User", "--listen", "127.0.0.1:0"],
            "never over TCP",
        ),
        (
            &["--user-header", "Host", "--socket", "s"],
            "such as X-Remote-User",
        ),
        (
            &["--user-header", "a b", "--socket", "s"],
            "such as X-Remote-User",
        ),
        (
            &[
                "--user-header",
                "X-U",
                "--socket",
                "s",
                "--proxy-user",
                "no such user",
            ],
            "no user of this name",
        ),
        (&["--proxy-user", "root", "--socket", "s"], "--user-header"),
        (
            &[
                "--user-header",
                "X-U",
                "--socket",
                &open,
                "--proxy-user",
                "nobody",
            ],
            "others may write",
        ),
        (
            &["--user-header", "X-U", "--socket", "s", "--viewers", "root"],
            "--overview",
        ),
        (&["--overview", "--viewers", "root"], "--user-header"),
        (
            &[
                "--overview",
                "--user-header",
                "X-U",
                "--socket",
                "s",
                "--viewers",
                "no such group",
            ],
            "no group of this name",
        ),
        (&["--base", "pun"], "expected a path"),
        (&["--base", "/a/../b"], "expected a path"),
        (&["--base", "/a{b}"], "expected a path"),
    ] {
        let done = command(&directory, &["web", "--system", "local"])
            .args(options)
            .output()
            .expect("libra");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(says), "{options:?}: {said}");
        assert!(
            matches!(done.status.code(), Some(2 | 125)),
            "{options:?}: {said}"
        );
    }
}

#[test]
fn it_ends_with_whoever_has_started_it() {
    let mut page = Proxied::new(&[]);
    assert_eq!(page.get("/submit", &named(&me())).status, 200);
    drop(page.input.take());
    let status = page.web.wait().expect("a child");
    assert!(status.success(), "{status}");
    assert!(!page.socket.exists(), "the socket is left behind");
}
