//! Processes that are killed at any instant: what was acknowledged is there, nothing is there twice or by half.

use crate::LedgerPaths;
use crate::worker::{self, ACCOUNTS, Random};
use libra_accounts::live::Act;
use libra_accounts::names::AccountName;
use libra_units::money::Money;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Kills of workers, at least.
const KILLS: u64 = 240;

/// An operation of a worker, of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    what: String,
    numbers: Vec<i64>,
    done: bool,
    /// Its worker has written everything down since.
    flushed: bool,
}

/// What a worker's log says, by operation; `settle` has the key of its hold and a mark.
fn told(directory: &Path, name: u64) -> BTreeMap<String, Told> {
    let text = std::fs::read_to_string(worker::log(directory, name)).unwrap_or_default();
    let mut all: BTreeMap<String, Told> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let key = |id: &str, settle: bool| match settle {
            true => format!("{id} settle"),
            false => id.to_string(),
        };
        match words.as_slice() {
            ["begin", what, id, numbers @ ..] => {
                let numbers = numbers.iter().map(|n| n.parse().expect("a number"));
                let told = Told {
                    what: what.to_string(),
                    numbers: numbers.collect(),
                    done: false,
                    flushed: false,
                };
                all.insert(key(id, *what == "settle"), told);
            }
            ["done", id, rest @ ..] => {
                all.get_mut(&key(id, !rest.is_empty())).expect("begun").done = true;
            }
            ["refused", id] => {
                all.remove(*id);
            }
            ["flushed", _] => all.values_mut().for_each(|told| told.flushed |= told.done),
            other => panic!("{other:?}"),
        }
    }
    all
}

/// Sums of the ledger's movements, by kind, and by note or by hold.
fn movements(place: &LedgerPaths) -> BTreeMap<(String, String), i64> {
    let ledger = place.history();
    let mut sums = BTreeMap::new();
    for account in ACCOUNTS {
        let id = ledger.account(account).expect("reads").expect("is there");
        for row in ledger.rows(id, 0, i64::MAX).expect("reads") {
            let which = match row.kind.as_str() {
                "charge" | "release" | "compensation" => row.hold.clone().expect("of a hold"),
                _ => row.note.clone(),
            };
            let amount = match row.kind.as_str() {
                // Once for who pays and once for who is paid.
                "transfer" => row.free.0.max(0),
                "hold" => row.held.0,
                _ => (row.free.0 + row.held.0).abs().max(row.free.0.abs()),
            };
            *sums.entry((row.kind.clone(), which)).or_default() += amount;
        }
    }
    sums
}

/// Compares logs and ledger. `lost`: what was not written down may be missing, all of it.
pub fn compare(place: &LedgerPaths, directory: &Path, names: &[u64], lost: bool) {
    let sums = movements(place);
    let of = |kind: &str, which: &str| {
        let key = (kind.to_string(), which.to_string());
        sums.get(&key).copied().unwrap_or(0)
    };
    for name in names {
        let mut unanswered = 0;
        for (key, told) in told(directory, *name) {
            let id = key.split(' ').next().expect("an id");
            let (has, should) = match told.what.as_str() {
                "settle" => (
                    vec![of("charge", id), of("release", id), of("compensation", id)],
                    vec![
                        told.numbers[1],
                        told.numbers[0] - told.numbers[1],
                        told.numbers[2],
                    ],
                ),
                what => (vec![of(what, id)], told.numbers.clone()),
            };
            let none = has.iter().all(|amount| *amount == 0);
            match (told.done, none) {
                (true, true) => assert!(
                    lost && !told.flushed,
                    "{key} was done and is not there: {told:?}"
                ),
                (false, true) => {}
                _ => assert_eq!(has, should, "{key}: {told:?}"),
            }
            unanswered += u32::from(!told.done);
        }
        assert!(
            unanswered <= 1,
            "worker {name} has {unanswered} operations under way"
        );
    }
}

/// Nothing takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(600);

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn kill(child: &mut Child) {
    // It runs until it is killed: one that has ended has failed.
    assert_eq!(child.try_wait().expect("waits"), None, "a worker failed");
    child.kill().expect("kills");
    child.wait().expect("ends");
}

#[test]
fn what_was_acknowledged_is_there_once_whenever_processes_are_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let place = LedgerPaths::below(directory);
    worker::prepare(directory);
    place.assert_sound();
    let mut random = Random(20_261_121);
    let mut names: Vec<u64> = Vec::new();
    let mut kills = 0;
    while kills < KILLS {
        let count = 2 + random.below(3);
        let mut children: Vec<Child> = Vec::new();
        let mut fresh = Vec::new();
        for _ in 0..count {
            let name = names.len() as u64 + fresh.len() as u64 + 1;
            children.push(worker::start(directory, name));
            fresh.push(name);
        }
        // Until the first has done some operations: in a time they would be many on one machine, and none on another.
        let some = random.below(16) as usize;
        let log = worker::log(directory, fresh[0]);
        wait_until("a worker has done something", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            !text.is_empty() && text.matches("\ndone ").count() >= some
        });
        // One after the other, so that those who are left go on after a death.
        for child in &mut children {
            std::thread::sleep(Duration::from_micros(random.below(30_000)));
            kill(child);
            kills += 1;
        }
        names.extend(&fresh);
        // Sometimes with what is in memory, sometimes without.
        let lost = random.below(4) == 0;
        if lost {
            std::fs::remove_dir_all(&place.live).expect("gone");
        }
        place.assert_sound();
        compare(&place, directory, &fresh, lost);
    }
    let sums = movements(&place);
    for kind in [
        "deposit",
        "transfer",
        "hold",
        "charge",
        "release",
        "compensation",
    ] {
        let count = sums.keys().filter(|(k, _)| k == kind).count();
        assert!(count > 20, "only {count} of {kind}: nothing was tested");
    }
}

#[test]
fn a_live_state_that_was_half_made_is_made_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let place = LedgerPaths::below(directory);
    worker::prepare(directory);
    {
        // Enough that making it takes a while.
        let mut live = place.open();
        for number in 0..4000 {
            let name = AccountName::parse(&format!("user:u{number}")).expect("a name");
            let act = Act {
                at: 1_800_000_000_000,
                by: "test",
                note: "",
            };
            live.set_account(&name, None, act).expect("made");
            live.deposit(&name, Money(7), (None, None), act)
                .expect("paid in");
        }
    }
    place.assert_sound();
    let expected = place.open().balances().expect("reads");
    let mut random = Random(7);
    let (mut half, mut name) = (0, 1000);
    let mut enough_rounds = Instant::now();
    // Again until enough of them were met in the middle of it; who looks seldom, on a busy machine, comes late more often.
    for round in 0.. {
        if round >= 60 && half >= 5 {
            break;
        }
        if round <= 60 {
            enough_rounds = Instant::now();
        }
        assert!(
            enough_rounds.elapsed() < PATIENCE,
            "only {half} of {round} were killed while making it"
        );
        std::fs::remove_dir_all(&place.live).expect("gone");
        let mut children: Vec<Child> = (0..2)
            .map(|more| worker::start(directory, name + more))
            .collect();
        name += 2;
        let new = place.live.join("live.new");
        let begun = Instant::now();
        // Until it is being made; it may have been made between two polls.
        let logged = || (0..2).any(|more| worker::log(directory, name - 2 + more).exists());
        while !new.exists() && !logged() {
            assert!(begun.elapsed() < PATIENCE, "nobody makes it");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        for child in &mut children {
            kill(child);
        }
        half += u32::from(new.exists());
        // Workers that came so far have done something already.
        let begun =
            worker::log(directory, name - 2).exists() || worker::log(directory, name - 1).exists();
        place.assert_sound();
        if !begun && half == 1 {
            assert_eq!(place.open().balances().expect("reads"), expected);
        }
    }
}

/// What SQLite leaves behind when it is cut off in the middle of writing: its log, cut anywhere.
#[test]
fn a_log_that_was_cut_off_loses_whole_steps_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let place = LedgerPaths::below(directory);
    worker::prepare(directory);
    let mut child = worker::start(directory, 1);
    let wal = |path: &Path| {
        let mut path = path.as_os_str().to_owned();
        path.push("-wal");
        std::path::PathBuf::from(path)
    };
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    wait_until("the log of the ledger has something to cut off", || {
        size(&wal(&place.ledger)) >= 100_000
    });
    kill(&mut child);
    let log = std::fs::read(wal(&place.ledger)).expect("the log of the ledger");
    let ledger = std::fs::read(&place.ledger).expect("the ledger");
    let mut random = Random(3);
    for _ in 0..40 {
        // A power failure: memory is gone, and the end of the log was not on the disk.
        std::fs::remove_dir_all(&place.live).expect("gone");
        let _ = std::fs::remove_file(directory.join("ledger.sqlite-shm"));
        let cut = random.below(log.len() as u64) as usize;
        std::fs::write(&place.ledger, &ledger).expect("written");
        std::fs::write(wal(&place.ledger), &log[..cut]).expect("written");
        place.assert_sound();
    }
}
