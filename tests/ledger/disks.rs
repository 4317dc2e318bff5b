//! Full disks, real ones: small file systems in memory. They take root to mount.

use crate::{LedgerPaths, worker};
use libra_accounts::flush::flush;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::{Act, Live, Payout};
use libra_accounts::names::AccountName;
use libra_accounts::payments::Payments;
use libra_config::Config;
use libra_units::money::Money;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A file system of so many KiB, until it is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, size: u32) -> Small {
        std::fs::create_dir_all(at).expect("a directory");
        let output = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size}k,mode=755"),
                "libra-test",
            ])
            .arg(at)
            .output()
            .expect("mount");
        assert!(
            output.status.success(),
            "this test needs root, to mount a small file system: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Small(at.to_path_buf())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Fills what is left of a file system.
fn fill(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    let mut file = std::fs::File::create(&path).expect("a file");
    // The last write may fail in the middle; what was written stays.
    while file.write_all(&[1; 4096]).is_ok() {}
    path
}

fn act(at: i64) -> Act<'static> {
    Act {
        at,
        by: "test",
        note: "",
    }
}

const NOW: i64 = 1_800_000_000_000;

fn pay(charge: i64) -> Payout {
    Payout {
        of: None,
        charge: Money(charge),
        overrun: Money(0),
        compensation: Money(0),
    }
}

#[test]
fn with_a_full_disk_admission_goes_on_and_nothing_is_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Small::mount(&directory.path().join("disk"), 16_384);
    let place = LedgerPaths {
        ledger: disk.0.join("ledger.sqlite"),
        live: directory.path().join("live"),
    };
    place.make();
    let mut live = place.open();
    let ledger = place.history();
    let alice = AccountName::parse("user:alice").expect("a name");
    live.set_account(&alice, None, act(NOW)).expect("made");
    live.deposit(&alice, Money(1_000_000), (None, None), act(NOW))
        .expect("paid in");
    flush(&live, &ledger).expect("there is room yet");
    let filler = fill(&disk.0, "filler");
    let id = live.account(&alice, NOW).expect("is there").id;
    let mut failed = 0;
    for number in 0..3000 {
        let key = format!("t:{number}");
        assert!(live.hold(&key, id, Money(5), act(NOW)).expect("held"));
        live.settle(&key, 0, pay(2), act(NOW)).expect("settled");
        if number % 500 == 499 {
            let said = flush(&live, &ledger)
                .expect_err("the disk is full")
                .to_string();
            assert!(
                said.contains("ledger.sqlite") && said.contains("full"),
                "{said}"
            );
            failed += 1;
        }
    }
    assert_eq!(failed, 6);
    // A process that comes now can admit as well.
    let mut other = Live::open(&place.live, &place.ledger, Duration::from_secs(60)).expect("opens");
    assert!(other.hold("t:other", id, Money(5), act(NOW)).expect("held"));
    drop(other);
    // All of them end, but for the live state. What SQLite kept beside the ledger for them goes, and somebody else takes its room.
    drop((live, ledger));
    let more = fill(&disk.0, "more");
    let mut alone = Live::open(&place.live, &place.ledger, Duration::from_secs(60)).expect("opens");
    assert!(alone.hold("t:alone", id, Money(5), act(NOW)).expect("held"));
    let said = Ledger::open(&place.ledger)
        .err()
        .expect("nobody has it open, and there is no room to share it");
    let said = said.to_string();
    assert!(
        said.contains("ledger.sqlite") && said.contains("may be full"),
        "{said}"
    );
    let there = Ledger::open_briefly(&place.ledger, Duration::from_secs(60)).expect("opens");
    assert!(there.newest().expect("is read").is_some());
    drop(there);
    // As a batch system's plugin that starts now: it admits, cannot write down, and does when there is room.
    let rules = format!(
        "[accounts]\nmode = 'on'\nledger = '{}'\nlive = '{}'\n",
        place.ledger.display(),
        place.live.display()
    );
    let rules = Config::from_toml(&rules).expect("rules");
    let payments = Payments::open(&rules, "t", false).expect("opens");
    let payments = payments.expect("the rules have accounts");
    assert!(payments.payer("alice", None, NOW as f64 / 1000.0).is_ok());
    assert!(!payments.is_stale());
    let said = payments.flush().expect_err("no room").to_string();
    assert!(said.contains("may be full"), "{said}");
    std::fs::remove_file(filler).expect("room");
    std::fs::remove_file(more).expect("room");
    payments.flush().expect("room");
    let found = alone.account(&alice, NOW).expect("is there");
    assert_eq!(
        (found.balance(), found.held),
        (Money(1_000_000 - 3000 * 2), Money(10))
    );
    let ledger = place.history();
    assert_eq!(
        flush(&alone, &ledger).expect("room"),
        0,
        "all is written down"
    );
    drop((alone, ledger, payments));
    place.assert_sound();
    std::fs::remove_dir_all(&place.live).expect("gone");
    let live = place.open();
    let found = live.account(&alice, NOW).expect("is there");
    assert_eq!(found.balance(), Money(1_000_000 - 3000 * 2));
    assert_eq!(found.held, Money(10));
    place.assert_sound();
}

#[test]
fn memory_that_is_full_is_said_and_no_step_is_done_by_half() {
    let directory = tempfile::tempdir().expect("a directory");
    let memory = Small::mount(&directory.path().join("memory"), 512);
    let place = LedgerPaths {
        ledger: directory.path().join("ledger.sqlite"),
        live: memory.0.join("live"),
    };
    let alice = AccountName::parse("user:alice").expect("a name");
    place.make();
    let mut live = place.open();
    live.set_account(&alice, None, act(NOW)).expect("made");
    live.deposit(&alice, Money(1_000_000), (None, None), act(NOW))
        .expect("paid in");
    let id = live.account(&alice, NOW).expect("is there").id;
    let mut held = 0;
    let said = loop {
        match live.hold(&format!("t:{held}"), id, Money(5), act(NOW)) {
            Ok(new) => assert!(new),
            Err(error) => break error.to_string(),
        }
        held += 1;
        assert!(held < 100_000, "it is never full");
    };
    assert!(said.contains("live") && said.contains("full"), "{said}");
    let found = live.account(&alice, NOW).expect("reads");
    assert_eq!(found.held, Money(5 * held));
    // Room again, as when somebody else's files go.
    let more = Command::new("mount")
        .args(["-o", "remount,size=65536k"])
        .arg(&memory.0)
        .status();
    assert!(more.expect("mount").success());
    assert!(live.hold("t:more", id, Money(5), act(NOW)).expect("held"));
    drop(live);
    place.assert_sound();
}

#[test]
fn memory_that_is_full_while_the_live_state_is_made_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    worker::prepare(directory.path());
    let place = LedgerPaths::below(directory.path());
    place.assert_sound();
    std::fs::remove_dir_all(&place.live).expect("gone");
    let memory = Small::mount(&directory.path().join("memory"), 64);
    let filler = fill(&memory.0, "filler");
    let small = LedgerPaths {
        ledger: place.ledger.clone(),
        live: memory.0.join("live"),
    };
    let open = || Live::open(&small.live, &small.ledger, Duration::from_secs(60));
    let said = open().err().expect("no room").to_string();
    assert!(said.contains("memory/live"), "{said}");
    std::fs::remove_file(filler).expect("room");
    let more = Command::new("mount")
        .args(["-o", "remount,size=65536k"])
        .arg(&memory.0)
        .status();
    assert!(more.expect("mount").success());
    assert!(open().is_ok());
    small.assert_sound();
    let ledger = Ledger::open(&small.ledger).expect("opens");
    assert!(ledger.account("user:a").expect("reads").is_some());
}
