//! Which ledger is believed beside which live state: older ones, copies, other places.

use super::*;

/// All files of a database, as a copy that somebody makes of it by hand.
fn copy_of(path: &std::path::Path) -> PathBuf {
    let copy = path.with_extension("copy");
    let ledger = Ledger::open(path).expect("opens");
    ledger
        .try_(|c| c.execute("VACUUM INTO ?1", [copy.to_string_lossy()]))
        .expect("a copy");
    copy
}

fn put_back(copy: &std::path::Path, ledger: &std::path::Path) {
    for more in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(ledger::with(ledger, more));
    }
    std::fs::copy(copy, ledger).expect("put there");
}

#[test]
fn an_older_ledger_is_refused_and_the_live_state_stays() {
    let place = LedgerPaths::new();
    let mut live = place.open();
    live.set_account(&user("a"), None, at(0)).expect("made");
    live.deposit(&user("a"), credits(1), (None, None), at(0))
        .expect("paid in");
    place.check(&live);
    let copy = copy_of(&place.ledger);
    live.deposit(&user("a"), credits(2), (None, None), at(1))
        .expect("paid in");
    place.check(&live);
    let ledger = Ledger::open(&place.ledger).expect("opens");
    put_back(&copy, &place.ledger);
    let open = || Live::open(&place.live, &place.ledger, Duration::from_secs(60));
    let error = open().err().expect("older");
    assert!(matches!(error, AccountsError::Ledger { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("older") && said.contains("account restore"),
        "{said}"
    );
    // Who has both open notices, and loses nothing.
    live.deposit(&user("a"), credits(4), (None, None), at(3))
        .expect("the live state is there");
    assert!(flush(&live, &ledger).is_err());
    assert!(flush::is_outdated(&live, &ledger).expect("reads"));
    assert_eq!(live.journal(0, 9).expect("reads").len(), 1);
    assert_eq!(available(&live, "a", 4), credits(7));
}

#[test]
fn a_ledger_of_an_older_boot_is_refused() {
    let place = LedgerPaths::new();
    drop(place.open());
    let copy = copy_of(&place.ledger);
    std::fs::remove_dir_all(&place.live).expect("a boot");
    drop(place.open());
    put_back(&copy, &place.ledger);
    let open = || Live::open(&place.live, &place.ledger, Duration::from_secs(60));
    let said = open().err().expect("older").to_string();
    assert!(said.contains("is older than the live state"), "{said}");
}

#[test]
fn a_live_state_that_another_one_was_made_beside_goes_when_the_ledger_has_all_of_it() {
    let place = LedgerPaths::new();
    let mut live = place.open();
    live.set_account(&user("a"), None, at(0)).expect("made");
    // From another place, of the same ledger.
    let elsewhere = place.live.with_file_name("elsewhere");
    drop(Live::open(&elsewhere, &place.ledger, Duration::from_secs(60)).expect("opens"));
    let open = || Live::open(&place.live, &place.ledger, Duration::from_secs(60));
    let said = open().err().expect("not written down").to_string();
    assert!(
        said.contains("has 1 entries that are not in the ledger"),
        "{said}"
    );
    let there = live.path.clone();
    live.forget_journal(i64::MAX / 2).expect("given up");
    live.connection
        .execute("UPDATE meta SET value = 0 WHERE key = 'written'", [])
        .expect("as if it were in the ledger");
    drop(live);
    let new = open().expect("opens");
    assert_ne!(new.path, there);
    assert!(!there.exists());
    place.check(&new);
}

#[test]
fn a_live_state_in_its_old_place_is_written_down_and_made_anew() {
    let place = LedgerPaths::new();
    let old = place.live.with_file_name("old");
    let mut live = Live::open(&old, &place.ledger, Duration::from_secs(60)).expect("opens");
    live.set_account(&user("a"), None, at(0)).expect("made");
    live.deposit(&user("a"), credits(3), (None, None), at(0))
        .expect("paid in");
    drop(live);
    let patience = (Duration::from_secs(60), Duration::from_secs(60));
    let open = |old: &std::path::Path| {
        Live::open_or_move(
            &place.live,
            &place.at,
            patience,
            crate::ledger::Claim::Own,
            Some(old),
        )
    };
    let live = open(&old).expect("moved");
    assert_eq!(available(&live, "a", 1), credits(3));
    assert!(!old.exists());
    place.check(&live);
    drop(live);
    open(&old).expect("nothing to move");
}

#[test]
fn a_ledger_that_was_made_before_ledgers_were_noted_is_taken_for_this_hosts_once() {
    let place = LedgerPaths::new();
    let ledger = Ledger::open(&place.ledger).expect("opens");
    ledger
        .try_(|c| c.execute("DELETE FROM meta WHERE key = 'created'", []))
        .expect("as it was");
    assert_eq!(ledger.which().expect("reads").created, None);
    assert!(ledger.note_as_own().expect("noted"));
    assert!(!ledger.note_as_own().expect("is noted"));
    drop(place.open());
    // Another one in its place, after a boot.
    std::fs::remove_dir_all(&place.live).expect("a boot");
    let copy = place.ledger.with_extension("away");
    std::fs::rename(&place.ledger, copy).expect("away");
    // What the old one has in its log would be taken for the new one's.
    let said = Ledger::make(&place.ledger, NOW)
        .expect_err("its log is there")
        .to_string();
    assert!(
        said.contains("-wal") && said.contains("move it away"),
        "{said}"
    );
    drop(ledger);
    for more in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(ledger::with(&place.ledger, more));
    }
    Ledger::make(&place.ledger, NOW).expect("made");
    let open = || Live::open(&place.live, &place.ledger, Duration::from_secs(60));
    let said = open().err().expect("another").to_string();
    assert!(said.contains("is another ledger ("), "{said}");
    assert!(!place.live.exists(), "nothing was made for it");
}
