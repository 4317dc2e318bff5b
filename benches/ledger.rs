//! What accounts cost: holding and settling, writing down, and how long a submission is kept for it.
//!
//! `cargo bench --bench ledger [-- DIRECTORY]`: the live state is in /dev/shm, the ledger in DIRECTORY (or the temporary one), whose
//! disk counts.

use libra_accounts::flush::flush;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::{Act, Live, Payout};
use libra_accounts::names::AccountName;
use libra_units::money::Money;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Jobs of each measurement.
const JOBS: usize = 20_000;
/// Movements of a job: a hold, a charge and a release.
const MOVEMENTS: f64 = 3.0;
/// Names the place to a second process.
const PLACE: &str = "LIBRA_BENCH_LEDGER";

struct LedgerPaths {
    _directories: Option<(tempfile::TempDir, tempfile::TempDir)>,
    ledger: PathBuf,
    live: PathBuf,
}

impl LedgerPaths {
    fn new(disk: Option<&Path>) -> LedgerPaths {
        let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let disk = match disk {
            Some(disk) => tempfile::tempdir_in(disk),
            None => tempfile::tempdir(),
        };
        let disk = disk.expect("a directory");
        Ledger::make(&disk.path().join("ledger.sqlite"), act().at).expect("made");
        LedgerPaths {
            ledger: disk.path().join("ledger.sqlite"),
            live: memory.path().join("live"),
            _directories: Some((memory, disk)),
        }
    }

    fn open(&self) -> Live {
        Live::open(&self.live, &self.ledger, Duration::from_secs(10)).expect("opens")
    }
}

fn act() -> Act<'static> {
    Act {
        at: 1_800_000_000_000,
        by: "bench",
        note: "met its deadline",
    }
}

fn name(number: usize) -> AccountName {
    AccountName::User(format!("user{number}"))
}

/// So many accounts with money.
fn fill(live: &mut Live, accounts: usize) {
    for number in 0..accounts {
        live.set_account(&name(number), None, act()).expect("made");
        let much = Money(1_000_000_000_000);
        live.deposit(&name(number), much, (None, None), act())
            .expect("paid in");
    }
}

/// Processor time of this thread, seconds.
fn processor() -> f64 {
    let now = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID.now();
    now.map_or(0.0, |now| Duration::from(now).as_secs_f64())
}

/// What an admission does while it has the lock: seconds by the clock and of the processor. Then the job's end.
fn job(live: &mut Live, key: &str, account: usize) -> (f64, f64) {
    let (began, used) = (Instant::now(), processor());
    let payer = live.account(&name(account), act().at).expect("is there");
    assert!(payer.available().is_some_and(|have| have > Money(500)));
    live.hold(key, payer.id, Money(500), act()).expect("held");
    let held = (began.elapsed().as_secs_f64(), processor() - used);
    let payout = Payout {
        of: None,
        charge: Money(300),
        overrun: Money(0),
        compensation: Money(0),
    };
    live.settle(key, 0, payout, act()).expect("settled");
    held
}

/// Times of the holds by the clock, of the processor, and all of it, in seconds; sorted.
fn jobs(live: &mut Live, prefix: &str, accounts: usize) -> (Vec<f64>, Vec<f64>, f64) {
    let began = Instant::now();
    let times = (0..JOBS).map(|number| {
        // Not one after the other: neighbours lie on the same page.
        let account = number.wrapping_mul(7919) % accounts;
        job(live, &format!("{prefix}:{number}"), account)
    });
    let (mut clock, mut processor): (Vec<f64>, Vec<f64>) = times.unzip();
    let took = began.elapsed().as_secs_f64();
    clock.sort_by(f64::total_cmp);
    processor.sort_by(f64::total_cmp);
    (clock, processor, took)
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize] * 1e6
}

fn main() {
    if let Some(place) = std::env::var_os(PLACE) {
        let place = PathBuf::from(place);
        let place = LedgerPaths {
            _directories: None,
            ledger: place.with_extension("ledger"),
            live: place,
        };
        let (clock, ..) = jobs(&mut place.open(), &std::process::id().to_string(), 1000);
        println!(
            "  one of them: hold, µs: median {:.1}, p99 {:.0}, longest {:.0}",
            quantile(&clock, 0.5),
            quantile(&clock, 0.99),
            quantile(&clock, 1.0)
        );
        return;
    }
    let disk = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let disk = disk.map(PathBuf::from);
    println!(
        "accounts   hold, µs: median    p99   (processor: median   p99)   movements/s   written down/s   bytes a job"
    );
    for accounts in [1, 1000, 100_000] {
        let place = LedgerPaths::new(disk.as_deref());
        let mut live = place.open();
        let ledger = Ledger::open(&place.ledger).expect("opens");
        fill(&mut live, accounts);
        flush(&live, &ledger).expect("written down");
        let before = std::fs::metadata(&place.ledger).map_or(0, |found| found.len());
        let (clock, processor, took) = jobs(&mut live, "t", accounts);
        let began = Instant::now();
        let written = flush(&live, &ledger).expect("written down");
        let down = began.elapsed().as_secs_f64();
        drop(ledger);
        let after = std::fs::metadata(&place.ledger).map_or(0, |found| found.len());
        println!(
            "{accounts:8}   {:16.1} {:6.0}   {:18.1} {:5.0}    {:11.0}   {:14.0}   {:11.0}",
            quantile(&clock, 0.5),
            quantile(&clock, 0.99),
            quantile(&processor, 0.5),
            quantile(&processor, 0.99),
            JOBS as f64 * MOVEMENTS / took,
            written as f64 / down,
            after.saturating_sub(before) as f64 / JOBS as f64
        );
        // After a boot.
        drop(live);
        std::fs::remove_dir_all(&place.live).expect("gone");
        let began = Instant::now();
        drop(place.open());
        println!(
            "           made anew of {} accounts and {} movements in {:.2} s",
            accounts,
            accounts + 3 * JOBS,
            began.elapsed().as_secs_f64()
        );
    }
    together(disk.as_deref());
}

/// Two processes at once, and a third that writes down.
fn together(disk: Option<&Path>) {
    let directories = LedgerPaths::new(disk);
    let place = LedgerPaths {
        _directories: None,
        ledger: directories.live.with_extension("ledger"),
        live: directories.live.clone(),
    };
    Ledger::make(&place.ledger, act().at).expect("made");
    let mut live = place.open();
    fill(&mut live, 1000);
    let ledger = Ledger::open(&place.ledger).expect("opens");
    flush(&live, &ledger).expect("written down");
    let began = Instant::now();
    let mut children: Vec<_> = (0..2)
        .map(|_| {
            Command::new(std::env::current_exe().expect("this program"))
                .env(PLACE, &place.live)
                .stdin(Stdio::null())
                .spawn()
                .expect("starts")
        })
        .collect();
    while !children.is_empty() {
        children.retain_mut(|child| match child.try_wait().expect("waits") {
            Some(status) => {
                assert!(status.success(), "a process failed");
                false
            }
            None => true,
        });
        flush(&live, &ledger).expect("written down");
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "two processes and a writer, 1000 accounts: {:.0} movements/s",
        2.0 * JOBS as f64 * MOVEMENTS / took
    );
}
