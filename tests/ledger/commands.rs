//! `libra account` as root types it.

use crate::site::{BIN, Site};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

#[test]
fn a_month_of_an_account() {
    let site = Site::new();
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!(code, 125);
    assert!(err.contains("libra account init"), "{err}");
    site.done(&["init"]);
    assert!(site.done(&["init"]).contains("there already"));
    site.done(&["create", "alice"]);
    site.done(&[
        "create",
        "project:chem",
        "--member",
        "alice",
        "--member",
        "bob",
        "--overdraft",
        "10",
    ]);
    site.done(&["create", "project:chem", "--no-member", "bob"]);
    site.done(&["create", "user:rich", "--overdraft", "unlimited"]);
    site.done(&["deposit", "alice", "12.5", "--note", "a grant, \"small\""]);
    site.done(&["deposit", "user:alice", "4", "--until", "2999-12-31"]);
    site.done(&["deposit", "alice", "3", "--from", "2999-01-01T08:00"]);
    site.done(&[
        "transfer",
        "alice",
        "project:chem",
        "5.25",
        "--note",
        "ours",
    ]);

    let balance = &site.json(&["balance", "alice"])[0];
    assert_eq!(
        *balance,
        json!({
            "account": "user:alice", "balance": 11.25, "held": 0, "available": 11.25, "overdraft": 0,
            // What expires first paid first.
            "deposits": [{"left": 11.25, "until": null}],
            "later": [{"left": 3, "from": 32_472_172_800_i64, "until": null}],
            "closed": false,
        })
    );
    let rich = &site.json(&["balance", "rich"])[0];
    assert_eq!(
        (&rich["available"], &rich["overdraft"]),
        (&json!("unlimited"), &json!("unlimited"))
    );
    let all = site.json(&["balance"]);
    let names: Vec<&str> = all
        .iter()
        .filter_map(|one| one["account"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "project:chem",
            "site:bank",
            "site:income",
            "user:alice",
            "user:rich"
        ]
    );
    assert_eq!(all[0]["members"], json!(["alice"]));
    assert_eq!(all[0]["deposits"].as_array().map(Vec::len), Some(2));

    let told = &site.json(&["statement", "alice"])[0];
    assert_eq!(
        keys(told),
        [
            "account",
            "closing",
            "from",
            "movements",
            "opening",
            "pending",
            "to"
        ]
    );
    assert_eq!(
        (&told["opening"], &told["closing"]),
        (&json!(0), &json!(14.25))
    );
    let movements = told["movements"].as_array().expect("movements");
    assert_eq!(
        keys(&movements[0]),
        [
            "amount", "at", "balance", "by", "held", "job", "kind", "note", "other"
        ]
    );
    let kinds: Vec<(&Value, &Value)> = movements
        .iter()
        .map(|one| (&one["kind"], &one["amount"]))
        .collect();
    assert_eq!(
        kinds,
        [
            (&json!("deposit"), &json!(12.5)),
            (&json!("deposit"), &json!(4)),
            (&json!("deposit"), &json!(3)),
            (&json!("transfer"), &json!(-5.25)),
        ]
    );
    assert!(movements.iter().all(|one| one["by"] == "root"));
    let before = &site.json(&["statement", "alice", "--month", "2020-02"])[0];
    assert_eq!(
        (&before["from"], &before["to"]),
        (&json!(1_580_515_200), &json!(1_583_020_800))
    );
    assert_eq!(
        (&before["closing"], &before["movements"]),
        (&json!(0), &json!([]))
    );
    let csv = site.done(&["statement", "alice", "--csv"]);
    assert!(csv.contains("\"a grant, \"\"small\"\"\""), "{csv}");
    let text = site.done(&["statement", "project:chem"]);
    assert!(
        text.contains("from user:alice, ours") && text.contains("closing balance"),
        "{text}"
    );

    assert!(site.done(&["check"]).starts_with("ok"));
    site.done(&["close", "alice"]);
    let (code, _, err) = site.root(&["deposit", "alice", "1"]);
    assert_eq!((code, err.contains("closed")), (3, true), "{err}");
    assert!(site.done(&["create", "alice"]).contains("open again"));
    assert!(site.done(&["list"]).contains("project:chem  open"));
    assert!(site.done(&["check"]).starts_with("ok"));
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let mut site = Site::new();
    site.done(&["init"]);
    site.done(&["create", "alice"]);
    let before = site.done(&["balance"]);
    for (words, code, part) in [
        (&["deposit", "alice", "0"][..], 2, "more than 0"),
        (&["deposit", "alice", "-3"], 2, "-3"),
        (&["deposit", "alice", "1.0000001"], 2, "6 digits"),
        (&["deposit", "alice", "NaN"], 2, "NaN"),
        (&["deposit", "alice", "9999999999999"], 2, "10^12"),
        (&["deposit", "alice", "1", "--until", "soon"], 2, "--until"),
        (
            &["deposit", "alice", "1", "--until", "2020-01-01"],
            3,
            "later end",
        ),
        (
            &["deposit", "alice", "1", "--note", "two\nlines"],
            3,
            "line breaks",
        ),
        (&["deposit", "bob", "1"], 3, "libra account create user:bob"),
        (&["deposit", "site:income", "1"], 3, "the site's own"),
        (&["deposit", "group:x", "1"], 3, "user:NAME or project:NAME"),
        (
            &["deposit", "../alice", "1"],
            3,
            "user:NAME or project:NAME",
        ),
        (&["transfer", "alice", "bob", "1"], 3, "no account user:bob"),
        (&["transfer", "alice", "alice", "1"], 3, "itself"),
        (&["create", "alice", "--member", "root"], 3, "not a project"),
        (&["create", "alice", "--overdraft", "much"], 2, "unlimited"),
        (&["close", "site:bank"], 3, "the site's own"),
        (&["balance", "bob"], 3, "no account user:bob"),
        (&["statement", "alice", "--month", "11/2026"], 2, "2026-11"),
        (&["export"], 2, "--ood"),
    ] {
        let (got, out, err) = site.root(words);
        assert_eq!(got, code, "{words:?}: {out}{err}");
        assert!(err.contains(part), "{words:?}: {err}");
    }
    assert_eq!(site.done(&["balance"]), before);
    site.configure("off", "");
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!(code, 2);
    let file = site.path("libra.toml");
    let said = format!(
        "accounts are off; accounts.mode in {} turns them on",
        file.display()
    );
    assert!(err.contains(&said), "{err}");
    assert!(site.done(&["init"]).contains("accounts are off"));
}

#[test]
fn the_ledger_is_in_a_directory_of_its_own_for_who_admits() {
    let site = Site::new();
    let home = site.path("accounts");
    // Something else is in there: nothing is touched.
    fs::create_dir(&home).expect("a directory");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("for everybody");
    fs::write(home.join("other"), "x").expect("a file");
    let (code, _, err) = site.root(&["init", "--owner", BIN.0]);
    assert_eq!(code, 125);
    assert!(
        err.contains("others use it") && err.contains("accounts.ledger"),
        "{err}"
    );
    let found = fs::metadata(&home).expect("there");
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o755));
    fs::remove_dir_all(&home).expect("gone");

    let (code, _, err) = site.root(&["init", "--owner", "no-such-user"]);
    assert_eq!((code, err.contains("SlurmUser")), (2, true), "{err}");
    site.done(&["init", "--owner", BIN.0]);
    site.done(&["create", "alice"]);
    site.done(&["deposit", "alice", "1"]);
    // What root does there is the owner's.
    for path in [home.clone(), home.join("ledger.sqlite"), site.path("live")] {
        let found = fs::metadata(&path).expect("there");
        assert_eq!(found.uid(), BIN.1, "{}", path.display());
        assert_eq!(found.mode() & 0o077, 0, "{}", path.display());
    }
    for entry in fs::read_dir(site.path("live")).expect("reads").flatten() {
        let found = entry.metadata().expect("there");
        assert_eq!((found.uid(), found.mode() & 0o077), (BIN.1, 0), "{entry:?}");
    }
    assert!(site.user(BIN, &["check"]).1.starts_with("ok"));
    assert!(site.done(&["init"]).contains("of user bin alone"));
    let (code, _, err) = site.root(&["init", "--owner", "root"]);
    assert_eq!(code, 125);
    assert!(
        err.contains("belongs to bin") && err.contains("chown -R root"),
        "{err}"
    );
}

#[test]
fn a_check_finds_what_somebody_changed_by_hand() {
    let site = Site::new();
    site.done(&["init"]);
    site.done(&["create", "alice"]);
    site.done(&["deposit", "alice", "10"]);
    let live = fs::read_dir(site.path("live")).expect("reads").flatten();
    let live = live.map(|entry| entry.path());
    let live = live
        .into_iter()
        .find(|path| path.extension().is_some_and(|e| e == "sqlite"));
    let file = rusqlite::Connection::open(live.expect("a live state")).expect("opens");
    file.execute(
        "UPDATE pocket SET free = free + 5000000 WHERE account > 2",
        [],
    )
    .expect("changed");
    drop(file);
    let (code, out, _) = site.root(&["check"]);
    assert_eq!(code, 1);
    assert!(out.contains("have 5 credits, not 0"), "{out}");
    assert!(
        out.contains("user:alice has 15 free and 0 held in the live state, 10 and 0 by the ledger"),
        "{out}"
    );
    let (code, out, _) = site.root(&["check", "--json"]);
    assert_eq!(code, 1);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(found["sound"], false);
    // What it says helps.
    assert!(
        out.contains(&format!("remove {}", site.path("live").display())),
        "{out}"
    );
    fs::remove_dir_all(site.path("live")).expect("gone");
    assert!(site.done(&["check"]).starts_with("ok"));
    assert_eq!(site.json(&["balance", "alice"])[0]["balance"], 10);
}

/// By the description of version 1 in Open OnDemand's documentation, and what its dashboard does with it.
#[test]
fn the_export_is_what_open_ondemand_reads() {
    let site = Site::new();
    site.done(&["init"]);
    site.done(&["create", "alice"]);
    site.done(&["deposit", "alice", "12.75"]);
    site.done(&[
        "create",
        "project:chem",
        "--member",
        "alice",
        "--member",
        "bob",
    ]);
    site.done(&["create", "rich", "--overdraft", "unlimited"]);
    let file = site.path("balances.json");
    fs::write(&file, "old").expect("a file");
    site.done(&["export", "--ood", &file.to_string_lossy()]);
    let found = fs::metadata(&file).expect("there");
    assert_eq!(
        found.mode() & 0o777,
        0o644,
        "the dashboard runs as its user"
    );
    let text = fs::read_to_string(&file).expect("reads");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(keys(&value), ["balances", "config", "timestamp", "version"]);
    assert_eq!(value["version"], 1);
    assert!(value["timestamp"].is_u64());
    assert!(value["config"]["unit"].is_string() && value["config"]["project_type"].is_string());
    let balances = value["balances"].as_array().expect("balances");
    for balance in balances {
        assert!(
            balance["user"].is_string() && balance["value"].is_i64(),
            "{balance}"
        );
        let project = balance.get("project");
        assert!(project.is_none_or(Value::is_string), "{balance}");
        assert!(
            keys(balance).len() == 2 + usize::from(project.is_some()),
            "{balance}"
        );
    }
    assert!(balances.contains(&json!({"user": "alice", "value": 12})));
    assert!(balances.contains(&json!({"user": "bob", "project": "chem", "value": 0})));
    assert!(!text.contains("rich"), "who has no limit is never short");
    assert_eq!(site.done(&["export", "--ood"]).lines().count(), 1);
}

#[test]
fn a_command_that_cannot_be_executed_leaves_no_hold() {
    let site = Site::new();
    site.done(&["init"]);
    site.done(&["create", "root"]);
    site.done(&["deposit", "root", "20"]);
    let terms = ["-W", "deadline=2000,budget=20,estimate=10", "--"];
    let (code, _, err) = site.run(&[&terms[..], &["/nonexistent"]].concat());
    assert_eq!(code, 127, "{err}");
    let balance = &site.json(&["balance", "root"])[0];
    assert_eq!(
        (&balance["held"], &balance["available"]),
        (&json!(0), &json!(20))
    );
    let (code, _, err) = site.run(&[&terms[..], &["true"]].concat());
    assert_eq!(code, 0, "{err}");
    let balance = &site.json(&["balance", "root"])[0];
    assert_eq!(balance["held"], json!(0));
    assert!(balance["available"].as_f64() < Some(20.0), "{balance}");
}
