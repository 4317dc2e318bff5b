//! Users ask the service: what they may, what they may not, and what they try.

use crate::site::{BIN, DAEMON, NOBODY, Site};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Accounts for everybody; the ledger is bin's, members of daemon administer.
fn site() -> Site {
    let mut site = Site::new();
    site.done(&["init", "--owner", BIN.0]);
    for words in [
        &["create", "nobody"][..],
        &["deposit", "nobody", "10"],
        &["create", "daemon"],
        &["create", "user:games"],
        &["deposit", "games", "10"],
        &["create", "project:ours", "--member", "nobody"],
        &["deposit", "project:ours", "30"],
        &["create", "project:theirs", "--member", "games"],
    ] {
        site.done(words);
    }
    site.serve();
    site
}

#[test]
fn users_see_and_give_away_what_is_theirs() {
    let mut site = site();
    let (code, out, err) = site.user(NOBODY, &["balance", "--json"]);
    assert_eq!(code, 0, "{err}");
    let names: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["account"].clone())
        .collect();
    assert_eq!(names, ["user:nobody", "project:ours"]);
    assert_eq!(site.user(NOBODY, &["statement", "project:ours"]).0, 0);
    assert_eq!(site.user(NOBODY, &["list"]).0, 0);
    let (code, out, err) = site.user(NOBODY, &["transfer", "nobody", "games", "2.5"]);
    assert_eq!(
        (code, out.contains("2.5 credits moved")),
        (0, true),
        "{err}"
    );
    let (code, _, err) = site.user(NOBODY, &["transfer", "nobody", "games", "8"]);
    assert_eq!(
        (code, err.contains("7.5 credits available")),
        (3, true),
        "{err}"
    );

    for words in [
        &["balance", "games"][..],
        &["balance", "site:income"],
        &["balance", "project:theirs"],
        &["balance", "project:none"],
        &["statement", "project:theirs"],
        &["transfer", "games", "nobody", "1"],
        &["transfer", "project:ours", "nobody", "1"],
        &["deposit", "nobody", "1"],
        &["create", "project:mine"],
        &["create", "project:theirs", "--member", "nobody"],
        &["close", "games"],
        &["check"],
    ] {
        let (code, out, err) = site.user(NOBODY, words);
        assert_eq!((code, out.as_str()), (3, ""), "{words:?}: {err}");
        assert!(
            err.contains("members of the group daemon may"),
            "{words:?}: {err}"
        );
    }
    // Nobody learns which projects there are.
    let refusal = |name: &str| {
        let err = site.user(NOBODY, &["balance", name]).2;
        err.replace(name, "X")
    };
    assert_eq!(refusal("project:theirs"), refusal("project:none"));
    let (code, _, err) = site.user(NOBODY, &["serve"]);
    assert_eq!(
        (code, err.contains("only root and the owner")),
        (3, true),
        "{err}"
    );

    // An administrator, by the system's groups; what is done has that name.
    assert_eq!(site.user(DAEMON, &["deposit", "games", "1"]).0, 0);
    assert_eq!(
        site.user(DAEMON, &["create", "project:new", "--member", "games"])
            .0,
        0
    );
    assert!(site.user(DAEMON, &["check"]).1.starts_with("ok"));
    let told = &site.json(&["statement", "games"])[0];
    let by: Vec<&str> = told["movements"]
        .as_array()
        .expect("movements")
        .iter()
        .filter_map(|one| one["by"].as_str())
        .collect();
    assert_eq!(by, ["root", "nobody", "daemon"]);
    assert_eq!(site.end_service(), Some(0));
    let (code, _, err) = site.user(NOBODY, &["balance"]);
    assert_eq!(code, 125);
    assert!(err.contains("systemctl start libra-accounts"), "{err}");
}

fn connect(site: &Site) -> UnixStream {
    let stream = UnixStream::connect(site.path("run/socket")).expect("connects");
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .expect("a timeout");
    stream
}

fn answer(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .expect("an answer");
    line
}

#[test]
fn what_is_no_request_is_refused_and_the_service_goes_on() {
    let mut site = site();
    for (sent, part) in [
        ("\n", "not understood"),
        ("{\n", "not understood"),
        ("{\"do\":\"check\",\"by\":\"root\"}\n", "not understood"),
        ("{\"do\":\"balance\",\"account\":7}\n", "not understood"),
        (
            "{\"do\":\"deposit\",\"account\":\"daemon\",\"amount\":-5,\"from\":null,\"until\":null,\"note\":\"\"}\n",
            "more than 0",
        ),
        (
            "{\"do\":\"transfer\",\"from\":\"games\",\"to\":\"daemon\",\"amount\":-5,\"note\":\"\"}\n",
            "more than 0",
        ),
        (
            "{\"do\":\"statement\",\"account\":\"games\",\"from\":-9223372036854775808,\"to\":9223372036854775807,\"holds\":true}\n",
            "movements\":[],\"x",
        ),
    ] {
        let mut stream = connect(&site);
        stream.write_all(sent.as_bytes()).expect("sent");
        let got = answer(&stream);
        assert!(
            got.contains(part) || got.starts_with("{\"statement\""),
            "{sent}: {got}"
        );
    }
    let mut stream = connect(&site);
    let _ = stream.write_all(&[b'x'; 80_000]);
    assert!(answer(&stream).contains("at most 65536 bytes"));
    let mut stream = connect(&site);
    stream.write_all(&[0xff, 0xfe, b'\n']).expect("sent");
    assert!(answer(&stream).contains("not understood"));
    // One and a part of the next in one piece: the first is answered, so it has read the part too.
    let mut stream = connect(&site);
    let request = b"{\"do\":\"balance\",\"account\":\"games\"}\n";
    stream
        .write_all(&[&request[..], &request[..10]].concat())
        .expect("sent");
    let mut lines = BufReader::new(&stream).lines();
    let mut is_answered = || {
        let line = lines.next().expect("an answer").expect("reads");
        assert!(line.contains("user:games"), "{line}");
    };
    is_answered();
    (&stream).write_all(&request[10..]).expect("sent");
    is_answered();
    assert_eq!(site.user(NOBODY, &["balance"]).0, 0);
    assert!(site.done(&["check"]).starts_with("ok"));
    assert_eq!(site.service().try_wait().expect("waits"), None);
}

/// Returns true if the service has closed this connection (POLLHUP, which is told unasked). What it has sent stays unread.
fn is_closed(stream: &UnixStream) -> bool {
    let mut asked = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    poll(&mut asked, PollTimeout::ZERO).expect("polled") > 0
}

/// Others are answered while these are still connected: so nobody waited for them. On a machine so busy that the service has given them up
/// before that, once more.
fn others_are_answered_beside(
    site: &mut Site,
    what: &str,
    begin: impl Fn(&Site) -> Vec<UnixStream>,
) -> Vec<UnixStream> {
    for _ in 0..10 {
        let slow = begin(site);
        assert_eq!(site.user(NOBODY, &["balance"]).0, 0);
        if !slow.iter().any(is_closed) {
            return slow;
        }
    }
    panic!("nobody was ever answered before {what} had been given up");
}

#[test]
fn a_slow_client_keeps_nobody_else_waiting() {
    let mut site = site();
    // Four that say nothing, all root's here: a fifth of the same user is told so. They are taken in the order in which they came.
    let silent = others_are_answered_beside(&mut site, "four silent clients", |site| {
        loop {
            let silent: Vec<UnixStream> = (0..4).map(|_| connect(site)).collect();
            let told = answer(&connect(site));
            if !silent.iter().any(is_closed) {
                assert!(told.contains("busy"), "{told}");
                return silent;
            }
        }
    });
    // After a while they are left alone.
    let mut rest = Vec::new();
    (&silent[0])
        .read_to_end(&mut rest)
        .expect("closed by the service");
    drop(silent);
    // One that asks and never reads.
    others_are_answered_beside(&mut site, "one that does not read", |site| {
        let mut deaf = connect(site);
        let request = b"{\"do\":\"balance\",\"account\":null}\n".repeat(200);
        deaf.set_write_timeout(Some(Duration::from_millis(200)))
            .expect("a timeout");
        let _ = deaf.write_all(&request);
        vec![deaf]
    });
    assert_eq!(site.service().try_wait().expect("waits"), None);
}

#[test]
fn a_service_that_was_killed_starts_again_and_two_never_serve() {
    let mut site = site();
    let (code, _, err) = site.root(&["serve"]);
    assert_eq!((code, err.contains("served already")), (125, true), "{err}");
    site.service().kill().expect("killed");
    site.service().wait().expect("ended");
    assert!(site.path("run/socket").exists());
    site.serve();
    assert_eq!(site.user(NOBODY, &["balance"]).0, 0);
    // Memory is lost while it serves, or somebody removed it. Its directory is root's to make.
    for entry in std::fs::read_dir(site.path("live"))
        .expect("reads")
        .flatten()
    {
        std::fs::remove_file(entry.path()).expect("gone");
    }
    assert_eq!(site.user(DAEMON, &["deposit", "nobody", "1"]).0, 0);
    assert!(site.user(DAEMON, &["check"]).1.starts_with("ok"));
    let (_, out, _) = site.user(NOBODY, &["balance", "nobody", "--json"]);
    let balance: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(balance["balance"], 11);
    // It is not root any more.
    let pid = site.service().id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("reads");
    let uids = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .expect("a line");
    assert_eq!(
        uids.split_whitespace().skip(1).collect::<Vec<_>>(),
        ["2"; 4]
    );
    assert_eq!(site.end_service(), Some(0));
}
