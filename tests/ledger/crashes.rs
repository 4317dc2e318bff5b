//! Every point before and after each write, rename and commit of the money's way: each kills the process once, and the books balance.
//!
//! The points are those of `crates/accounts/src/crash.rs`; they are listed by a run that is not killed, so a new one is tried without a change here.

use crate::LedgerPaths;
use libra_accounts::backup::backup;
use libra_accounts::flush::flush;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::{Act, Live, Payout};
use libra_accounts::names::AccountName;
use libra_accounts::{identity, restore};
use libra_units::money::Money;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Names the directory of the test to the process that is killed.
const DIRECTORY: &str = "LIBRA_TEST_CRASHES";

/// Points there are at least, by their names: one that nobody passes any more is to be noticed.
const NAMES: usize = 23;

fn place(directory: &Path) -> LedgerPaths {
    LedgerPaths {
        ledger: directory.join("accounts/ledger.sqlite"),
        live: directory.join("live"),
    }
}

fn act(at: i64) -> Act<'static> {
    Act {
        at: 1_800_000_000_000 + at,
        by: "test",
        note: "",
    }
}

/// Everything that is done with money, once. What was acknowledged is told.
fn everything(directory: &Path) {
    let place = place(directory);
    let done = |what: &str| {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(directory.join("done"));
        std::io::Write::write_all(&mut log.expect("a log"), format!("{what}\n").as_bytes())
            .expect("told");
    };
    let (a, p) = (
        AccountName::parse("user:a").expect("a name"),
        AccountName::parse("project:p").expect("a name"),
    );
    std::fs::create_dir(directory.join("accounts")).expect("a directory");
    let identity = Ledger::make(&place.ledger, act(0).at).expect("made");
    identity::note(&place.ledger, identity).expect("noted");
    done("made");
    let (mut live, ledger) = (place.open(), place.history());
    live.set_account(&a, None, act(1)).expect("made");
    live.set_account(&p, None, act(2)).expect("made");
    done("accounts");
    live.deposit(&a, Money(1000), (None, None), act(3))
        .expect("paid in");
    done("deposit 1000");
    live.deposit(&p, Money(500), (None, Some(1_800_000_100)), act(4))
        .expect("paid in");
    done("deposit 500");
    flush(&live, &ledger).expect("written");
    done("written");
    let copy = directory.join("copy");
    backup(&live, &ledger, &copy, act(5).at).expect("copied");
    done("copied");
    live.transfer(&p, &a, Money(50), act(6)).expect("moved");
    done("transfer 50");
    let id = live.account(&a, act(7).at).expect("is there").id;
    live.hold("t:1", id, Money(300), act(7)).expect("held");
    done("hold 300");
    live.hold("t:2", id, Money(20), act(8)).expect("held");
    done("hold 20");
    let payout = Payout {
        of: None,
        charge: Money(200),
        overrun: Money(0),
        compensation: Money(0),
    };
    live.settle("t:1", 0, payout, act(9)).expect("settled");
    done("settle 200");
    flush(&live, &ledger).expect("written");
    live.sweep(act(200_000)).expect("swept");
    live.name_job("t:2", "2.server").expect("named");
    done("swept");
    drop((live, ledger));
    // The ledger is lost, and brought back.
    std::fs::rename(&place.ledger, directory.join("lost")).expect("lost");
    for more in ["-wal", "-shm"] {
        let mut path = place.ledger.clone().into_os_string();
        path.push(more);
        let _ = std::fs::remove_file(path);
    }
    done("lost");
    bring_back(directory);
    done("restored");
    // A boot.
    flush(&place.open(), &place.history()).expect("written");
    std::fs::remove_dir_all(&place.live).expect("gone");
    done("boot");
    drop(place.open());
    done("all");
}

fn bring_back(directory: &Path) {
    let place = place(directory);
    let staged = restore::stage(&directory.join("copy"), &place.ledger).expect("laid down");
    let paths = (place.live.as_path(), place.ledger.as_path());
    restore::install(&staged, paths, false, act(300_000)).expect("restored");
}

/// As the process that is killed: everything. As a test: the same, and the books balance.
#[test]
fn runs() {
    match std::env::var_os(DIRECTORY) {
        Some(directory) => everything(Path::new(&directory)),
        None => {
            let directory = tempfile::tempdir().expect("a directory");
            everything(directory.path());
            assert_balanced(directory.path());
        }
    }
}

fn run(directory: &Path, at: usize) -> ExitStatus {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "crashes::runs", "--nocapture"])
        .env(DIRECTORY, directory)
        .env("LIBRA_CRASH_LOG", directory.join("points"))
        .env("LIBRA_CRASH_AT", at.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("starts")
}

/// Somebody comes afterwards, and does what the messages say: whatever was acknowledged is there, whatever was not is whole or absent.
fn assert_balanced(directory: &Path) {
    let place = place(directory);
    let told = std::fs::read_to_string(directory.join("done")).unwrap_or_default();
    let has = |what: &str| told.lines().any(|line| line == what);
    if !place.ledger.exists() && !has("made") {
        // `init` can be done again: what is half made is not in its way.
        assert_eq!(identity::noted(&place.ledger).expect("reads"), None);
        Ledger::make(&place.ledger, 0).expect("made");
    }
    let open = || Live::open(&place.live, &place.ledger, Duration::from_secs(120));
    if has("lost") && !has("restored") {
        // Either it was brought back as a whole, or it is refused and can be brought back.
        if open().is_err() {
            bring_back(directory);
        }
    }
    place.assert_sound();
    let live = open().expect("opens");
    let find = |name: &str| {
        let name = AccountName::parse(name).expect("a name");
        live.account(&name, act(10).at)
            .map(|found| (found.balance().0, found.held.0))
    };
    // What a and p have after so many steps.
    type Has = (i64, i64);
    let steps: [(&str, Has, Has); 7] = [
        ("accounts", (0, 0), (0, 0)),
        ("deposit 1000", (1000, 0), (0, 0)),
        ("deposit 500", (1000, 0), (500, 0)),
        ("transfer 50", (1050, 0), (450, 0)),
        ("hold 300", (1050, 300), (450, 0)),
        ("hold 20", (1050, 320), (450, 0)),
        ("settle 200", (850, 20), (450, 0)),
    ];
    let Some(last) = steps.iter().rposition(|(what, ..)| has(what)) else {
        return;
    };
    let now = (
        find("user:a").expect("is there"),
        find("project:p").expect("is there"),
    );
    // The step after the last that was acknowledged may be there; all of what expired later goes at once.
    let mut may: Vec<_> = steps[last..(last + 2).min(steps.len())]
        .iter()
        .map(|(_, a, p)| (*a, *p))
        .collect();
    if last + 1 == steps.len() {
        may.push(((850, 20), (0, 0)));
    }
    if has("swept") {
        may = vec![((850, 20), (0, 0))];
    }
    assert!(
        may.contains(&now),
        "{now:?} is none of {may:?} after {told}"
    );
}

#[test]
fn the_books_balance_after_a_kill_at_each_point() {
    let directory = tempfile::tempdir().expect("a directory");
    // Past the last point: it lists them all.
    assert!(run(directory.path(), usize::MAX).success());
    assert_balanced(directory.path());
    let points = std::fs::read_to_string(directory.path().join("points")).expect("points");
    let points: Vec<&str> = points.lines().collect();
    let mut killed: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        let directory = tempfile::tempdir().expect("a directory");
        let status = run(directory.path(), index + 1);
        assert_eq!(status.signal(), Some(9), "{point}: {status}");
        let passed = std::fs::read_to_string(directory.path().join("points")).expect("points");
        assert_eq!(passed.lines().last(), Some(*point));
        assert_balanced(directory.path());
        *killed.entry(point).or_default() += 1;
    }
    for (point, count) in &killed {
        println!("| {point} | {count} |");
    }
    assert!(
        killed.len() >= NAMES,
        "only {} points: {killed:?}",
        killed.len()
    );
}
