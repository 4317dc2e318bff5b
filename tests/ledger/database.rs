//! The ledger in a real PostgreSQL: processes and the server killed at any instant, and what is typed.

use crate::kills::{compare, kill, wait_until};
use crate::postgres::Server;
use crate::site::{BIN, Site};
use crate::worker::{self, Random};
use crate::{DATABASE, LedgerPaths};
use std::fs;
use std::process::Child;
use std::time::Duration;

/// Kills of the server.
const KILLS: u64 = 8;

#[test]
fn a_server_that_is_killed_under_load_loses_and_doubles_nothing() {
    let Some(mut server) = Server::begin() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    fs::write(directory.join(DATABASE), server.database()).expect("written");
    let place = LedgerPaths::below(directory);
    worker::prepare(directory);
    let mut random = Random(20_261_128);
    let mut next = 0;
    for round in 0..KILLS {
        let names = [next + 1, next + 2];
        next += 2;
        let mut children: Vec<Child> = names.map(|name| worker::start(directory, name)).into();
        let done = |name| {
            let text = fs::read_to_string(worker::log(directory, name)).unwrap_or_default();
            text.matches("\ndone ").count()
        };
        let some = 10 + random.below(30) as usize;
        for name in names {
            wait_until("workers have done something", || done(name) >= some);
        }
        server.kill();
        // They go on within the lease, and are refused after it.
        std::thread::sleep(Duration::from_micros(random.below(50_000)));
        server.begin_again();
        let before = done(names[0]);
        wait_until("they go on", || done(names[0]) > before + 5);
        // And some with a power failure of all hosts at once.
        let all = round % 3 == 2;
        if all {
            server.kill();
        }
        for child in &mut children {
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
            kill(child);
        }
        if all {
            server.begin_again();
            fs::remove_dir_all(&place.live).expect("gone");
        }
        place.assert_sound();
        compare(&place, directory, &names, all);
    }
}

#[test]
fn what_is_typed_is_the_same_as_with_a_file() {
    let Some(server) = Server::begin() else {
        return;
    };
    let mut site = Site::new();
    let string = server.database();
    site.keep_in(&string);
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!(code, 125);
    assert!(err.contains("libra account init"), "{err}");
    let made = site.done(&["init"]);
    assert!(made.contains("is made") && made.contains(&string), "{made}");
    assert!(site.done(&["init"]).contains("there already"));
    assert!(!site.path("accounts/ledger.sqlite").exists());
    assert!(site.path("accounts.id").exists());
    site.done(&["create", "bin"]);
    site.done(&[
        "deposit",
        "bin",
        "12.5",
        "--note",
        "it's \"one\"; DROP SCHEMA libra",
    ]);
    site.done(&["create", "project:chem", "--member", "bin"]);
    site.serve();
    let (code, out, err) = site.user(BIN, &["transfer", "bin", "project:chem", "2.5"]);
    assert_eq!(code, 0, "{out}{err}");
    let sums = "SELECT sum(amount), count(*) FROM libra.movement WHERE kind = 'transfer'";
    assert_eq!(server.sql(&string, sums), "2500000|1");
    let statement = site.done(&["statement", "bin"]);
    assert!(statement.contains("DROP SCHEMA"), "{statement}");
    let checked = site.done(&["check"]);
    assert!(
        checked.contains("live state and ledger say the same"),
        "{checked}"
    );
    for (words, tool) in [
        (["backup", "/nowhere/copy"], "pg_dump"),
        (["restore", "/nowhere/copy"], "pg_restore"),
    ] {
        let (code, _, err) = site.root(&words);
        assert_eq!(code, 125);
        assert!(err.contains(tool) && err.contains(&string), "{err}");
        assert_eq!(err.trim().lines().count(), 1, "{err}");
    }
    assert_eq!(site.end_service(), Some(0));
    server.kill();
    let (code, out, _) = site.root(&["check"]);
    assert_eq!(code, 1);
    assert!(out.contains("cannot be reached"), "{out}");
    let (code, _, err) = site.root(&["deposit", "bin", "1"]);
    assert_eq!(code, 125);
    assert!(
        err.contains("cannot be reached") && err.trim().lines().count() == 1,
        "{err}"
    );
}

#[test]
fn another_host_has_the_accounts_when_a_person_says_so() {
    let Some(server) = Server::begin() else {
        return;
    };
    let [mut first, mut second] = [Site::new(), Site::new()];
    let string = server.database();
    for site in [&mut first, &mut second] {
        let (_, _, err) = site.root(&["init", "--take-over"]);
        assert!(err.contains("is for a ledger in a database"), "{err}");
        site.keep_in(&string);
        site.done(&["init"]);
    }
    first.done(&["create", "bin"]);
    first.done(&["deposit", "bin", "5"]);
    // Both are one host here, by its name.
    server.sql(
        &string,
        "UPDATE libra.lease SET until = until + 86400000, host = 'elsewhere'",
    );
    for words in [["balance", "bin"].as_slice(), &["init", "--take-over"]] {
        let (code, _, err) = second.root(words);
        assert_eq!(code, 125, "{err}");
        assert!(err.contains("it admits with it"), "{err}");
    }
    server.sql(&string, "UPDATE libra.lease SET until = 0");
    second.done(&["init"]);
    let (code, _, err) = second.root(&["balance", "bin"]);
    assert_eq!(code, 125, "{err}");
    assert!(err.contains("libra account init --take-over"), "{err}");
    second.done(&["init", "--take-over"]);
    let balance = second.done(&["balance", "bin"]);
    assert!(balance.contains('5'), "{balance}");
}

#[test]
fn a_password_does_not_stand_where_everybody_can_read_it() {
    let mut site = Site::new();
    site.keep_in("host=db password=geheim");
    let (code, _, err) = site.root(&["balance"]);
    assert_ne!(code, 0);
    assert!(err.contains("passfile") && !err.contains("geheim"), "{err}");
}
