//! A process that does random operations on accounts until it is killed, and writes into a file what it is about to do and what
//! was done. What is written to a file stays when the process that wrote it is killed.

use crate::LedgerPaths;
use libra_accounts::AccountsError;
use libra_accounts::flush::flush;
use libra_accounts::live::{Act, Payout};
use libra_accounts::names::AccountName;
use libra_accounts::unix_millis;
use libra_units::money::Money;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Names the directory of the test to a worker.
const DIRECTORY: &str = "LIBRA_TEST_LEDGER";
/// Its name; also where its random numbers begin.
const NAME: &str = "LIBRA_TEST_WORKER";

pub const ACCOUNTS: [&str; 3] = ["user:a", "user:b", "project:p"];

/// Numbers enough for this (Knuth's multiplier).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Starts one; it runs this test program again.
pub fn start(directory: &Path, name: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "worker::works", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(NAME, name.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("starts")
}

/// Where a worker writes what it does.
pub fn log(directory: &Path, name: u64) -> PathBuf {
    directory.join(format!("log-{name}"))
}

/// As a worker: until it is killed. As a test: a few operations.
#[test]
fn works() {
    match (std::env::var_os(DIRECTORY), std::env::var(NAME)) {
        (Some(directory), Ok(name)) => work(
            Path::new(&directory),
            name.parse().expect("a number"),
            u64::MAX,
        ),
        _ => {
            let directory = tempfile::tempdir().expect("a directory");
            prepare(directory.path());
            work(directory.path(), 1, 60);
            LedgerPaths::below(directory.path()).assert_sound();
            let told = std::fs::read_to_string(log(directory.path(), 1)).expect("a log");
            assert!(told.contains("done"), "{told}");
        }
    }
}

/// Accounts with something in them.
pub fn prepare(directory: &Path) {
    let place = LedgerPaths::below(directory);
    place.make();
    let mut live = place.open();
    for name in ACCOUNTS {
        let name = AccountName::parse(name).expect("a name");
        let act = Act {
            at: unix_millis(),
            by: "test",
            note: "first",
        };
        live.set_account(&name, None, act).expect("made");
        live.deposit(&name, Money(1000), (None, None), act)
            .expect("paid in");
    }
}

fn work(directory: &Path, name: u64, most: u64) {
    let place = LedgerPaths::below(directory);
    let mut random = Random(name.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut told = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log(directory, name))
        .expect("a log");
    let (mut live, mut ledger) = (place.open(), place.history());
    let mut holds: Vec<(String, i64)> = Vec::new();
    for number in 0..most {
        let id = format!("{name}-{number}");
        let account = |random: &mut Random| {
            AccountName::parse(ACCOUNTS[random.below(3) as usize]).expect("a name")
        };
        let amount = 1 + random.below(40) as i64;
        let at = unix_millis();
        let act = Act {
            at,
            by: "test",
            note: &id,
        };
        // As the thread does that writes down, beside who admits. Nothing to do for a file.
        if live.may_admit().is_err() || number % 16 == 0 {
            let renewed = live.renew(&ledger);
            assert!(renewed.as_ref().err().is_none_or(is_away), "{renewed:?}");
        }
        // Each line in one piece. What is refused changes nothing and is not told.
        let mut tell = |words: String| write_all(&mut told, &words);
        match random.below(10) {
            0 | 1 => {
                let until = (random.below(3) == 0).then(|| at / 1000 + 3600);
                tell(format!("begin deposit {id} {amount}\n"));
                let done = live.deposit(&account(&mut random), Money(amount), (None, until), act);
                match done {
                    Ok(()) => tell(format!("done {id}\n")),
                    // A database that does not answer.
                    Err(error) => refused(&error, &mut tell, &id),
                }
            }
            2 => {
                let (from, to) = (account(&mut random), account(&mut random));
                tell(format!("begin transfer {id} {amount}\n"));
                match live.transfer(&from, &to, Money(amount), act) {
                    Ok(()) => tell(format!("done {id}\n")),
                    Err(error) => refused(&error, &mut tell, &id),
                }
            }
            3..=5 => {
                let account = live.account(&account(&mut random), at).expect("is there");
                tell(format!("begin hold {id} {amount}\n"));
                match live.hold(&id, account.id, Money(amount), act) {
                    Ok(new) => {
                        assert!(new);
                        tell(format!("done {id}\n"));
                        holds.push((id, amount));
                    }
                    Err(error) => refused(&error, &mut tell, &id),
                }
            }
            6..=8 => {
                let Some((key, held)) = holds.pop() else {
                    continue;
                };
                let payout = Payout {
                    of: None,
                    charge: Money(random.below(held as u64 + 1) as i64),
                    overrun: Money(0),
                    compensation: Money(random.below(3) as i64),
                };
                let charge = payout.charge.0;
                tell(format!(
                    "begin settle {key} {held} {charge} {}\n",
                    payout.compensation.0
                ));
                let paid = live.settle(&key, 0, payout, act).expect("settles");
                assert!(paid.is_some(), "{key} was held and not settled");
                tell(format!("done {key} settle\n"));
            }
            _ => match random.below(4) {
                0 => (live, ledger) = (place.open(), place.history()),
                _ => match flush(&live, &ledger) {
                    Ok(_) => tell(format!("flushed {id}\n")),
                    Err(error) => assert!(is_away(&error), "{error}"),
                },
            },
        }
    }
}

fn refused(error: &AccountsError, tell: &mut impl FnMut(String), id: &str) {
    assert!(error.is_refusal() || is_away(error), "{error}");
    tell(format!("refused {id}\n"));
}

/// A database that was killed.
fn is_away(error: &AccountsError) -> bool {
    matches!(error, AccountsError::Unreachable { .. })
}

fn write_all(told: &mut File, words: &str) {
    told.write_all(words.as_bytes()).expect("told");
}
