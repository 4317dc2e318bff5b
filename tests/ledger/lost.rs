//! The ledger is gone, empty, cut off or another one: nothing that needs money is done, and nothing is lost by that.

use crate::LedgerPaths;
use crate::site::{BIN, Site};
use libra_accounts::flush::is_outdated;
use libra_accounts::live::Live;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A site whose alice has 90.75 credits, of which some are written down.
fn site() -> Site {
    let site = Site::new();
    site.done(&["init"]);
    site.done(&["create", "alice"]);
    site.done(&["create", "root"]);
    site.done(&["deposit", "alice", "90.75"]);
    site.done(&["deposit", "root", "50"]);
    site
}

fn ledger(site: &Site) -> PathBuf {
    site.path("accounts/ledger.sqlite")
}

fn files(site: &Site) -> Vec<PathBuf> {
    let file = |more: &str| site.path(&format!("accounts/ledger.sqlite{more}"));
    ["", "-wal", "-shm"].map(file).to_vec()
}

/// All refuse, check fails, and the live state is as it was.
fn assert_refused(site: &Site, part: &str) {
    let live = live_states(site);
    for words in [
        &["balance"][..],
        &["deposit", "alice", "1"],
        &["create", "bob"],
        &["statement", "alice"],
        &["transfer", "root", "alice", "1"],
        &["backup", "/nonexistent/copy"],
    ] {
        let (code, out, err) = site.root(words);
        assert_eq!(code, 125, "{words:?}: {out}{err}");
        assert!(
            err.contains(part) && err.contains("account restore FILE"),
            "{words:?}: {err}"
        );
    }
    let (code, out, _) = site.root(&["check"]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("problem") && out.contains(part) && !out.contains("ok  "),
        "{out}"
    );
    let (code, out, _) = site.root(&["check", "--json"]);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &found["sound"]), (1, &Value::Bool(false)));
    let (code, _, err) = site.run(&["-W", "deadline=20,budget=20,estimate=1", "--", "true"]);
    assert_eq!(code, 3, "{err}");
    assert!(
        err.contains("accounting unavailable") && err.contains(part),
        "{err}"
    );
    // Twice: nobody made one by the way.
    assert_eq!(live_states(site), live);
}

fn live_states(site: &Site) -> Vec<PathBuf> {
    let entries = fs::read_dir(site.path("live")).map(|entries| entries.flatten().collect());
    let entries: Vec<fs::DirEntry> = entries.unwrap_or_default();
    let mut found: Vec<PathBuf> = (entries.iter().map(fs::DirEntry::path))
        .filter(|path| path.extension().is_some_and(|e| e == "sqlite"))
        .collect();
    found.sort();
    found
}

fn balance(site: &Site, name: &str) -> f64 {
    site.json(&["balance", name])[0]["balance"]
        .as_f64()
        .expect("a number")
}

#[test]
fn a_ledger_that_is_gone_is_said_and_the_live_state_stays() {
    let site = site();
    let copy = site.path("away");
    for path in files(&site).iter().filter(|path| path.exists()) {
        fs::create_dir_all(&copy).expect("a directory");
        fs::rename(path, copy.join(path.file_name().expect("a name"))).expect("away");
    }
    assert_refused(&site, "is not there");
    assert!(!ledger(&site).exists());
    assert_eq!(live_states(&site).len(), 1);
    // Not by init either, live state or not.
    let (code, _, err) = site.root(&["init"]);
    assert_eq!(code, 125);
    assert!(
        err.contains("this host has had a ledger there") && err.contains("accounts.id"),
        "{err}"
    );
    for entry in fs::read_dir(&copy).expect("reads").flatten() {
        fs::rename(entry.path(), site.path("accounts").join(entry.file_name())).expect("back");
    }
    assert!(site.done(&["check"]).starts_with("ok"));
    assert_eq!(balance(&site, "alice"), 90.75);
}

#[test]
fn a_disk_that_is_not_mounted_is_a_ledger_that_is_not_there() {
    let site = site();
    let away = site.path("disk");
    fs::rename(site.path("accounts"), &away).expect("unmounted");
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!((code, err.contains("mount its disk")), (125, true), "{err}");
    fs::create_dir(site.path("accounts")).expect("where it would be mounted");
    assert_refused(&site, "is not there");
    fs::remove_dir(site.path("accounts")).expect("nothing was made there");
    fs::rename(&away, site.path("accounts")).expect("mounted");
    assert_eq!(balance(&site, "alice"), 90.75);
}

#[test]
fn an_empty_ledger_and_one_that_is_cut_off_are_none() {
    let site = site();
    let whole = fs::read(ledger(&site)).expect("reads");
    assert!(
        whole.len() > 8192,
        "all of it is in the file, none in its log"
    );
    let there = |bytes: &[u8]| {
        for path in files(&site) {
            let _ = fs::remove_file(path);
        }
        fs::write(ledger(&site), bytes).expect("written");
    };
    there(b"");
    assert_refused(&site, "is empty");
    there(&whole[..4096]);
    assert_refused(&site, "is damaged or cut off");
    there(&whole[..whole.len() - 4096]);
    assert_refused(&site, "is damaged or cut off");
    there(b"this is not a ledger, and longer than the header of one would be; so it says more than it has to: 0123456789");
    assert_refused(&site, "is damaged or cut off");
    there(&whole);
    assert_eq!(balance(&site, "alice"), 90.75);
    assert!(site.done(&["check"]).starts_with("ok"));
}

#[test]
fn another_ledger_is_refused_with_and_without_a_live_state() {
    let (site, other) = (site(), site());
    let replace = |from: &Path| {
        for path in files(&site) {
            let _ = fs::remove_file(path);
        }
        fs::copy(from, ledger(&site)).expect("there");
    };
    let own = site.path("own");
    fs::copy(ledger(&site), &own).expect("kept");
    replace(&ledger(&other));
    assert_refused(&site, "is another ledger");
    // After a boot the note beside its directory still says so.
    let aside = site.path("live-aside");
    fs::rename(site.path("live"), &aside).expect("a boot");
    assert_refused(&site, "than this host's");
    fs::rename(&aside, site.path("live")).expect("back");
    // Without the note the live state does.
    let note = fs::read(site.path("accounts.id")).expect("noted");
    fs::remove_file(site.path("accounts.id")).expect("gone");
    let (code, _, err) = site.root(&["init"]);
    assert_eq!(
        (code, err.contains("is another ledger")),
        (125, true),
        "{err}"
    );
    fs::write(site.path("accounts.id"), note).expect("back");
    replace(&own);
    assert_eq!(balance(&site, "alice"), 90.75);
}

#[test]
fn a_ledger_that_goes_while_the_service_runs_stops_it_from_taking_money() {
    let mut site = site();
    site.serve();
    assert_eq!(site.user(crate::site::DAEMON, &["balance"]).0, 0);
    let away = site.path("accounts/away");
    fs::rename(ledger(&site), &away).expect("away");
    let (code, _, err) = site.user(crate::site::DAEMON, &["deposit", "alice", "5"]);
    assert_eq!(code, 125, "{err}");
    assert!(err.contains("is not there"), "{err}");
    fs::rename(&away, ledger(&site)).expect("back");
    let (code, _, err) = site.user(crate::site::DAEMON, &["deposit", "alice", "5"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(site.end_service(), Some(0));
    assert_eq!(balance(&site, "alice"), 95.75);
}

#[test]
fn a_place_that_is_somebody_elses_or_open_to_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let site = site();
    let live = site.path("live");
    fs::remove_dir_all(&live).expect("a boot");
    // Somebody was there first.
    fs::create_dir(&live).expect("squatted");
    std::os::unix::fs::chown(&live, Some(BIN.1), Some(BIN.1)).expect("bin's");
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!(code, 125);
    assert!(
        err.contains("belongs to user 2") && err.contains("accounts.live"),
        "{err}"
    );
    std::os::unix::fs::chown(&live, Some(0), Some(0)).expect("root's");
    fs::set_permissions(&live, fs::Permissions::from_mode(0o777)).expect("open");
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!((code, err.contains("mode 777")), (125, true), "{err}");
    fs::remove_dir(&live).expect("gone");
    // A link to somewhere else is no directory.
    std::os::unix::fs::symlink("/tmp", &live).expect("a link");
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!(
        (code, err.contains("is not a directory")),
        (125, true),
        "{err}"
    );
    fs::remove_file(&live).expect("gone");
    assert_eq!(balance(&site, "alice"), 90.75);
    // And its file.
    let state = live_states(&site).remove(0);
    fs::set_permissions(&state, fs::Permissions::from_mode(0o666)).expect("open");
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!(
        (code, err.contains("nobody else can write to")),
        (125, true),
        "{err}"
    );
    let elsewhere = site.path("elsewhere.sqlite");
    fs::rename(&state, &elsewhere).expect("away");
    std::os::unix::fs::symlink(&elsewhere, &state).expect("a link");
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!(
        (code, err.contains("nobody else can write to")),
        (125, true),
        "{err}"
    );
}

#[test]
fn who_does_not_admit_makes_no_live_state_where_another_host_has_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = LedgerPaths::below(directory.path());
    here.make();
    let first = here.open();
    let there = LedgerPaths {
        ledger: here.ledger.clone(),
        live: directory.path().join("live-of-another-host"),
    };
    let second = there.open();
    let present = |paths: &LedgerPaths| {
        Live::open_present(
            &paths.live,
            &paths.ledger,
            (Duration::from_secs(120), Duration::from_secs(120)),
        )
    };
    let error = present(&here).err().expect("another host's counts");
    assert!(
        error
            .to_string()
            .contains("another host has made its own since"),
        "{error}"
    );
    let outdated = |live: &Live| is_outdated(live, &here.history()).expect("reads");
    assert_eq!((outdated(&first), outdated(&second)), (true, false));
    assert!(present(&there).is_ok());
    // Who admits here again.
    let again = here.open();
    assert_eq!((outdated(&second), outdated(&again)), (true, false));
    assert!(present(&here).is_ok());
}
