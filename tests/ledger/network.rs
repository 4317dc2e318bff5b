//! Users on other hosts ask the service over the network, known by a real MUNGE: what they may, and what others try.

use crate::site::{BIN, DAEMON, NOBODY, ROOT, Site, User};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// A munged of one test, with a key of its own.
struct Munged {
    directory: tempfile::TempDir,
    child: Child,
}

impl Munged {
    /// With the key of a site; None if MUNGE is not installed.
    fn start(key: &str) -> Option<Munged> {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("set");
        fs::write(at("key"), key.repeat(64)).expect("a key");
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600)).expect("set");
        let mut command = Command::new("munged");
        command.args(["--foreground", "--force"]);
        for (option, name) in [
            ("--key-file", "key"),
            ("--socket", "socket"),
            ("--pid-file", "pid"),
            ("--log-file", "log"),
            ("--seed-file", "seed"),
        ] {
            command.arg(option).arg(at(name));
        }
        let quiet = command.stdin(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = quiet.stdout(Stdio::null()).spawn() else {
            println!("not run: munged is not installed (scripts/bootstrap test)");
            return None;
        };
        let munged = Munged { directory, child };
        let begun = Instant::now();
        while UnixStream::connect(munged.socket()).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(120), "no munged");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(munged)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// A credential of this user.
    fn credential(&self, user: User, reader: User, text: &str) -> String {
        let reader = reader.1.to_string();
        let mut command = Command::new("munge");
        command.arg("--socket").arg(self.socket());
        command.args(["--restrict-uid", &reader, "--string", text]);
        let done = command.uid(user.1).gid(user.1).output().expect("munge");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout)
            .expect("text")
            .trim()
            .to_string()
    }

    fn stop(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of the loopback that no other test has.
fn address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let (process, port) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!(
        "127.{}.{}.{}:{}",
        64 + process / 65536 % 64,
        process / 256 % 256,
        process % 256,
        6821 + port
    )
}

/// A host with the ledger, which is bin's, and another one without.
struct Hosts {
    site: Site,
    munged: Munged,
    address: String,
}

impl Hosts {
    fn new() -> Option<Hosts> {
        let munged = Munged::start("ours")?;
        let (mut site, address) = (Site::new(), address());
        let socket = munged.socket();
        site.configure_also(&format!(
            "listen = '{address}'\nmunge-socket = '{}'\n",
            socket.display()
        ));
        site.done(&["init", "--owner", BIN.0]);
        for words in [
            &["create", "nobody"][..],
            &["deposit", "nobody", "10"],
            &["create", "user:games"],
            &["create", "project:theirs", "--member", "games"],
        ] {
            site.done(words);
        }
        site.serve();
        // It listens there a moment later.
        let begun = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(300), "no service");
            std::thread::sleep(Duration::from_millis(10));
        }
        let hosts = Hosts {
            site,
            munged,
            address,
        };
        hosts.login_host(&[&hosts.address], BIN.0);
        Some(hosts)
    }

    /// The configuration of a host that asks these.
    fn login_host(&self, servers: &[&str], owner: &str) {
        let text = format!(
            "[accounts]\nmode = 'on'\nledger = '/nowhere/libra/ledger.sqlite'\nservers = {servers:?}\nowner = '{owner}'\nmunge-socket = '{}'\n",
            self.munged.socket().display()
        );
        fs::write(self.site.path("login.toml"), text).expect("a configuration");
    }

    fn login(&self, user: User, words: &[&str]) -> (i32, String, String) {
        self.site.user_by("login.toml", user, words)
    }

    /// What somebody on the network is answered, who sends what is made of the number that the connection has been greeted with.
    fn answer(&self, make: impl FnOnce(&str) -> String) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("connects");
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .expect("set");
        let mut lines = BufReader::new(stream.try_clone().expect("cloned"));
        let mut greeting = String::new();
        lines.read_line(&mut greeting).expect("greeted");
        let number = greeting.trim().rsplit(' ').next().expect("a number");
        // It may have heard enough before all of it is sent.
        let _ = stream.write_all(make(number).as_bytes());
        let mut line = String::new();
        let _ = lines.read_line(&mut line);
        line
    }
}

const NUMBER: &str = "0123456789abcdef0123456789abcdef";

const BALANCE: &str = r#"{"do":"balance","account":null}"#;

fn question(connection: &str, request: &str) -> String {
    format!("libra accounts 1 question {connection} {NUMBER}\n{request}")
}

#[test]
fn users_on_another_host_may_what_they_may_on_this_one() {
    let Some(hosts) = Hosts::new() else { return };
    let (code, out, err) = hosts.login(NOBODY, &["balance", "--json"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("user:nobody") && !out.contains("games"),
        "{out}"
    );
    let (code, out, err) = hosts.login(NOBODY, &["transfer", "nobody", "games", "2.5"]);
    assert!(code == 0 && out.contains("2.5 credits moved"), "{out}{err}");
    let (code, _, err) = hosts.login(NOBODY, &["transfer", "nobody", "games", "8"]);
    assert!(code == 3 && err.contains("7.5 credits available"), "{err}");
    for words in [
        &["balance", "games"][..],
        &["transfer", "games", "nobody", "1"],
        &["deposit", "nobody", "1"],
        &["check"],
    ] {
        let (code, _, err) = hosts.login(NOBODY, words);
        assert!(
            code == 3 && err.contains("members of the group daemon may"),
            "{words:?}: {err}"
        );
    }
    // An administrator, and root: MUNGE's key is in root's hands on all hosts.
    assert_eq!(hosts.login(DAEMON, &["deposit", "games", "1"]).0, 0);
    assert!(hosts.login(ROOT, &["check"]).1.starts_with("ok"));
    assert!(hosts.login(ROOT, &["list"]).1.contains("project:theirs"));
    let statement = hosts.site.done(&["statement", "games"]);
    assert!(
        statement.contains(" nobody") && statement.contains(" daemon"),
        "{statement}"
    );
    // What needs the files is told where they are.
    for words in [
        &["backup", "/tmp/none"][..],
        &["restore", "/tmp/none"],
        &["serve"],
    ] {
        let (code, _, err) = hosts.login(ROOT, words);
        assert!(
            code == 125 && err.contains(&format!("do it on that of {}", hosts.address)),
            "{err}"
        );
    }
}

#[test]
fn what_others_have_written_is_refused_and_the_service_goes_on() {
    let Some(hosts) = Hosts::new() else { return };
    let munged = &hosts.munged;
    let deposit = r#"{"do":"deposit","account":"nobody","amount":5000000,"from":null,"until":null,"note":""}"#;
    let mut heard = String::new();
    let answer = hosts.answer(|connection| {
        heard = munged.credential(NOBODY, BIN, &question(connection, BALANCE)) + "\n";
        heard.clone()
    });
    assert!(answer.starts_with("MUNGE:"), "{answer}");
    // Once more, by whoever has heard it; and before it has come there.
    assert!(hosts.answer(|_| heard).contains("Replayed credential"));
    let elsewhere = question(&"f".repeat(32), BALANCE);
    let elsewhere = munged.credential(NOBODY, BIN, &elsewhere) + "\n";
    let answer = hosts.answer(|_| elsewhere);
    assert!(
        answer.contains("a question that was put on another connection"),
        "{answer}"
    );
    // A user's name is not in it; whose it is stands in the credential.
    let answer = hosts
        .answer(|connection| munged.credential(NOBODY, BIN, &question(connection, deposit)) + "\n");
    assert!(answer.starts_with("MUNGE:"), "{answer}");
    type Make<'a> = Box<dyn Fn(&str) -> String + 'a>;
    let by = |reader: User, text: &'static str| -> Make<'_> {
        Box::new(move |_| munged.credential(NOBODY, reader, text))
    };
    let made: [(Make<'_>, &str); 9] = [
        (
            Box::new(|connection| {
                let sound = munged.credential(NOBODY, BIN, &question(connection, BALANCE));
                let other = if &sound[40..41] == "x" { "y" } else { "x" };
                format!("{}{other}{}", &sound[..40], &sound[41..])
            }),
            "unmunge: ",
        ),
        (
            Box::new(|connection| {
                munged.credential(NOBODY, BIN, &question(connection, BALANCE))[..60].to_string()
            }),
            "unmunge: ",
        ),
        (
            Box::new(|connection| munged.credential(NOBODY, ROOT, &question(connection, BALANCE))),
            "Unauthorized credential",
        ),
        (
            by(BIN, "for somebody else"),
            "not a question about accounts",
        ),
        (
            by(BIN, r#"{"do":"check"}"#),
            "not a question about accounts",
        ),
        (Box::new(|_| r#"{"do":"check"}"#.to_string()), "unmunge: "),
        (Box::new(|_| String::new()), "unmunge: "),
        (
            Box::new(|_| "MUNGE:".to_string() + &"A".repeat(200_000) + ":"),
            "a line of at most",
        ),
        (
            Box::new(|connection| {
                munged.credential(NOBODY, BIN, &question(connection, r#"{"do":"rob"}"#))
            }),
            "MUNGE:",
        ),
    ];
    for (number, (make, said)) in made.iter().enumerate() {
        let answer = hosts.answer(|connection| make(connection) + "\n");
        assert!(answer.contains(said), "{number}: {answer}");
    }
    // Another site's key.
    let Some(other) = Munged::start("theirs") else {
        return;
    };
    let answer = hosts
        .answer(|connection| other.credential(ROOT, BIN, &question(connection, deposit)) + "\n");
    assert!(answer.contains("Invalid credential"), "{answer}");
    let (code, out, _) = hosts.login(NOBODY, &["balance", "nobody", "--json"]);
    assert!(
        code == 0 && out.contains("\"balance\":10"),
        "nobody has deposited: {out}"
    );
    assert!(hosts.site.done(&["check"]).starts_with("ok"));
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let Some(hosts) = Hosts::new() else { return };
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(&hosts.address).expect("connects"))
        .collect();
    assert_eq!(hosts.login(NOBODY, &["balance"]).0, 0);
    // The oldest had to go.
    let mut first = &silent[0];
    first
        .set_read_timeout(Some(Duration::from_secs(120)))
        .expect("set");
    let ended = first.read_to_end(&mut Vec::new());
    let late = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    assert!(!ended.as_ref().is_err_and(late), "it is kept");
}

/// A server that says these lines to each question, and ends the connection.
fn says(lines: impl Fn(&str) -> Vec<String> + Send + 'static) -> String {
    let listener = TcpListener::bind(address()).expect("bound");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.write_all(format!("libra accounts 1 greeting {NUMBER}\n").as_bytes());
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            for answer in lines(line.trim_end()) {
                let _ = stream.write_all(format!("{answer}\n").as_bytes());
            }
        }
    });
    address
}

/// What a user reads who reads a credential.
fn read_by(socket: &Path, user: User, credential: &str) -> String {
    let mut command = Command::new("unmunge");
    command.arg("--socket").arg(socket).args(["--keys", "UID"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.uid(user.1).gid(user.1).spawn().expect("unmunge");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(credential.as_bytes()).expect("written");
    drop(input);
    let done = child.wait_with_output().expect("ended");
    String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
}

#[test]
fn an_answer_of_somebody_else_is_none() {
    let Some(hosts) = Hosts::new() else { return };
    // What it asks is read by the ledger's owner alone.
    let socket = hosts.munged.socket();
    let (tells, told) = std::sync::mpsc::channel();
    let curious = says(move |question| {
        let _ = tells.send(question.to_string());
        Vec::new()
    });
    hosts.login_host(&[&curious], BIN.0);
    let (code, _, err) = hosts.login(NOBODY, &["transfer", "nobody", "games", "1"]);
    assert_eq!(code, 125);
    assert!(
        err.contains("ended without an answer; whether it was done is not known"),
        "{err}"
    );
    let question = told.recv_timeout(Duration::from_secs(120)).expect("asked");
    for user in [DAEMON, NOBODY] {
        let read = read_by(&socket, user, &question);
        assert!(
            read.contains("Unauthorized") && !read.contains("transfer"),
            "{read}"
        );
    }
    assert!(read_by(&socket, BIN, &question).contains("\"do\":\"transfer\""));

    let answer = |number: &str| {
        format!(
            "libra accounts 1 answer {number} 1 of 1\n{{\"done\":{{\"text\":\"all is well\",\"warning\":null}}}}"
        )
    };
    for (said, expected) in [
        // By a user who listens where the service should.
        (
            hosts.munged.credential(DAEMON, NOBODY, &answer(NUMBER)),
            "from user id 1",
        ),
        // The owner's, to another question.
        (
            hosts.munged.credential(BIN, NOBODY, &answer(NUMBER)),
            "an answer to another question",
        ),
        // Or for another user.
        (
            hosts.munged.credential(BIN, DAEMON, &answer(NUMBER)),
            "Unauthorized credential",
        ),
        (
            "220 mail ready".to_string(),
            "what it answers cannot be believed",
        ),
        (
            "unanswered: \u{1b}[2Jno".to_string(),
            "says '\u{fffd}[2Jno'",
        ),
    ] {
        let server = says(move |_| vec![said.clone()]);
        hosts.login_host(&[&server], BIN.0);
        let (code, out, err) = hosts.login(NOBODY, &["balance"]);
        assert_eq!((code, out.as_str()), (125, ""), "{err}");
        assert!(err.contains(expected), "{expected}: {err}");
    }
}

#[test]
fn the_next_server_is_asked_where_one_is_silent_and_what_is_wrong_is_said() {
    let Some(mut hosts) = Hosts::new() else {
        return;
    };
    let silent = says(|_| Vec::new());
    let nobody_there = address();
    hosts.login_host(&[&nobody_there, &silent, &hosts.address], BIN.0);
    assert_eq!(hosts.login(NOBODY, &["balance"]).0, 0);
    // A change is never asked for twice.
    let (code, _, err) = hosts.login(NOBODY, &["transfer", "nobody", "games", "1"]);
    assert!(
        code == 125 && err.contains("whether it was done is not known"),
        "{err}"
    );
    hosts.login_host(&[&nobody_there, &hosts.address], BIN.0);
    assert_eq!(
        hosts.login(NOBODY, &["transfer", "nobody", "games", "1"]).0,
        0
    );
    hosts.login_host(&[&nobody_there], BIN.0);
    let (code, _, err) = hosts.login(NOBODY, &["balance"]);
    assert!(
        code == 125 && err.contains("does 'libra account serve' listen there (accounts.listen)?"),
        "{err}"
    );
    // Whose ledger it is has to be known.
    hosts.login_host(&[&hosts.address], "");
    let (code, _, err) = hosts.login(NOBODY, &["balance"]);
    assert!(
        code == 125 && err.contains("Unauthorized credential"),
        "{err}"
    );
    hosts.login_host(&[&hosts.address], "no-such-user");
    let (code, _, err) = hosts.login(NOBODY, &["balance"]);
    assert!(
        code == 125 && err.contains("there is no such user on this host"),
        "{err}"
    );
    // MUNGE is not there any more.
    hosts.login_host(&[&hosts.address], BIN.0);
    hosts.munged.stop();
    let (code, _, err) = hosts.login(NOBODY, &["balance"]);
    assert!(code == 125 && err.contains("socket"), "{err}");
    assert!(
        hosts
            .answer(|_| "MUNGE:AAAA:\n".to_string())
            .starts_with("unanswered: ")
    );
    // The service's own host needs none.
    assert_eq!(hosts.site.user(NOBODY, &["balance"]).0, 0);
    assert_eq!(hosts.site.end_service(), Some(0));
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused() {
    let mut site = Site::new();
    for (lines, said) in [
        (
            "listen = 'control:6821'",
            "accounts.listen is 'control:6821', expected '' or an address and a port",
        ),
        (
            "servers = ['control']",
            "accounts.servers has 'control', expected a host and a port",
        ),
        ("servers = [':6821']", "expected a host and a port"),
        ("servers = ['control:0']", "expected a host and a port"),
        ("munge-socket = 'munge'", "expected '' or an absolute path"),
    ] {
        site.configure("on", "");
        site.configure_also(lines);
        let (code, _, err) = site.root(&["balance"]);
        assert!(code == 2 && err.contains(said), "{lines}: {code} {err}");
    }
    let taken = TcpListener::bind(address()).expect("bound");
    let address = taken.local_addr().expect("bound");
    site.configure("on", "");
    site.configure_also(&format!("listen = '{address}'\n"));
    site.done(&["init", "--owner", BIN.0]);
    let (code, _, err) = site.root(&["serve"]);
    let said = format!("accounts.listen is {address}: Address already in use");
    assert!(code == 125 && err.contains(&said), "{err}");
}
