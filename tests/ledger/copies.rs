//! `libra account backup` and `restore`.

use crate::site::Site;
use std::fs;
use std::os::unix::fs::MetadataExt;

fn site() -> Site {
    let site = Site::new();
    site.done(&["init"]);
    site.done(&["create", "alice"]);
    site.done(&["deposit", "alice", "10", "--until", "2999-12-31"]);
    site
}

fn balance(site: &Site, name: &str) -> f64 {
    site.json(&["balance", name])[0]["balance"]
        .as_f64()
        .expect("a number")
}

fn lose(site: &Site) {
    for more in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(site.path(&format!("accounts/ledger.sqlite{more}")));
    }
}

#[test]
fn a_copy_is_made_while_others_write_and_replaces_nothing_but_a_copy() {
    let site = site();
    let copy = site.path("copy");
    let name = copy.to_string_lossy().into_owned();
    let said = site.done(&["backup", &name]);
    assert!(
        said.contains("is a copy of") && said.contains("1 movements"),
        "{said}"
    );
    assert_eq!(fs::metadata(&copy).expect("there").mode() & 0o777, 0o600);
    site.done(&["deposit", "alice", "1"]);
    assert!(site.done(&["backup", &name]).contains("2 movements"));
    let text = site.path("text");
    fs::write(&text, "something else").expect("written");
    for (name, part) in [
        (
            text.to_string_lossy().into_owned(),
            "not a copy of a ledger",
        ),
        (
            site.path("accounts/ledger.sqlite")
                .to_string_lossy()
                .into_owned(),
            "the ledger itself",
        ),
        (
            site.path("accounts").to_string_lossy().into_owned(),
            "is not a file",
        ),
        ("/nonexistent/copy".to_string(), "No such file"),
    ] {
        let (code, _, err) = site.root(&["backup", &name]);
        assert_eq!((code, err.contains(part)), (125, true), "{name}: {err}");
    }
    assert_eq!(fs::read_to_string(&text).expect("reads"), "something else");
    // Nothing is left beside it.
    let beside = fs::read_dir(site.path("")).expect("reads").flatten();
    let left: Vec<_> = beside
        .filter(|entry| entry.file_name().to_string_lossy().contains(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let (code, _, err) = site.user(crate::site::NOBODY, &["backup", "/tmp/mine"]);
    assert_eq!(
        (code, err.contains("only root and the owner")),
        (3, true),
        "{err}"
    );
}

#[test]
fn with_the_live_state_a_copy_brings_back_everything_that_accounts_have() {
    let site = site();
    let copy = site.path("copy").to_string_lossy().into_owned();
    site.done(&["backup", &copy]);
    // What the copy does not know of: money, an account, a member, a validity, a change.
    site.done(&["deposit", "alice", "2.5", "--note", "later"]);
    site.done(&[
        "create",
        "project:chem",
        "--member",
        "alice",
        "--overdraft",
        "7",
    ]);
    site.done(&["deposit", "project:chem", "40", "--until", "2998-12-31"]);
    site.done(&["transfer", "project:chem", "alice", "1.25"]);
    let before = site.done(&["balance"]);
    let list = site.done(&["list"]);
    // There is nothing to bring back.
    let (code, _, err) = site.root(&["restore", &copy]);
    assert_eq!(
        (code, err.contains("nothing to bring back")),
        (125, true),
        "{err}"
    );
    lose(&site);
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!((code, err.contains("is not there")), (125, true), "{err}");
    let said = site.done(&["restore", &copy]);
    assert!(
        said.contains("not in it: the 6 entries from number 4 on"),
        "{said}"
    );
    assert!(said.contains("movements 'restored'"), "{said}");
    assert_eq!(site.done(&["balance"]), before);
    assert_eq!(site.done(&["list"]), list);
    assert!(site.done(&["check"]).starts_with("ok"));
    let told = site.done(&["statement", "alice"]);
    assert!(
        told.contains("restored") && told.contains("not in the copy that was restored"),
        "{told}"
    );
    // Of the ledger alone, after a boot, it is the same.
    fs::remove_dir_all(site.path("live")).expect("a boot");
    assert_eq!(site.done(&["balance"]), before);
    assert_eq!(site.done(&["list"]), list);
    assert!(site.done(&["check"]).starts_with("ok"));
    site.done(&["deposit", "alice", "1"]);
    assert!(site.done(&["check"]).starts_with("ok"));
}

#[test]
fn without_a_live_state_what_is_missing_is_said() {
    let site = site();
    let copy = site.path("copy").to_string_lossy().into_owned();
    site.done(&["backup", &copy]);
    site.done(&["deposit", "alice", "2"]);
    lose(&site);
    fs::remove_dir_all(site.path("live")).expect("a boot");
    let said = site.done(&["restore", &copy]);
    assert!(
        said.contains("what happened after its last movement, 20"),
        "{said}"
    );
    assert!(said.contains("there is no live state"), "{said}");
    assert_eq!(balance(&site, "alice"), 10.0);
    assert!(site.done(&["check"]).starts_with("ok"));
}

#[test]
fn a_ledger_that_was_cut_off_is_laid_aside() {
    let site = site();
    let copy = site.path("copy").to_string_lossy().into_owned();
    site.done(&["backup", &copy]);
    site.done(&["deposit", "alice", "3"]);
    let path = site.path("accounts/ledger.sqlite");
    let whole = fs::read(&path).expect("reads");
    fs::write(&path, &whole[..whole.len() / 2]).expect("cut");
    assert_eq!(site.root(&["check"]).0, 1);
    let said = site.done(&["restore", &copy]);
    assert!(
        said.contains("what was there is now") && said.contains(".before-"),
        "{said}"
    );
    assert_eq!(balance(&site, "alice"), 13.0);
    assert!(site.done(&["check"]).starts_with("ok"));
}

#[test]
fn what_is_no_copy_of_this_ledger_is_refused_and_changes_nothing() {
    let (site, other) = (site(), site());
    let foreign = site.path("foreign").to_string_lossy().into_owned();
    other.done(&["deposit", "alice", "500"]);
    other.done(&["backup", &foreign]);
    let copy = site.path("copy");
    site.done(&["backup", &copy.to_string_lossy()]);
    let whole = fs::read(&copy).expect("reads");
    let bad = site.path("bad");
    fs::write(&bad, &whole[..whole.len() - 4096]).expect("cut");
    let empty = site.path("empty");
    fs::write(&empty, "").expect("empty");
    lose(&site);
    for (file, part) in [
        (bad.to_string_lossy().into_owned(), "damaged or cut off"),
        (empty.to_string_lossy().into_owned(), "is empty"),
        (foreign.clone(), "is a copy of another ledger"),
        ("/nonexistent/copy".to_string(), "No such file"),
    ] {
        let (code, _, err) = site.root(&["restore", &file]);
        assert_eq!(code, 125, "{file}: {err}");
        assert!(err.contains(part) && err.contains(&file), "{file}: {err}");
        assert!(!site.path("accounts/ledger.sqlite").exists(), "{file}");
        assert!(
            !site.path("accounts/ledger.sqlite.restoring").exists(),
            "{file}"
        );
    }
    // Where that is what is wanted, nothing is thrown away.
    let said = site.done(&["restore", "--replace", &foreign]);
    assert!(said.contains(".live-before-"), "{said}");
    assert_eq!(balance(&site, "alice"), 510.0);
    assert!(site.done(&["check"]).starts_with("ok"));
}
