//! Live state, journal and ledger together, on real files.

use super::flush::flush;
use super::ledger::{BANK, Claim, INCOME, Ledger, Location};
use super::live::{Act, Live, Payout};
use super::lots::{FOR_EVER, Overdraft};
use super::names::AccountName;
use super::*;
use libra_units::money::{MICRO, Money};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

/// Tests that are the same for a file and for a database.
macro_rules! of_both {
    ($($test:ident,)*) => {
        mod in_file {
            $(#[test] fn $test() { super::$test(super::LedgerPaths::new()); })*
        }
        mod in_database {
            $(#[test] fn $test() {
                if let Some(place) = super::LedgerPaths::in_database() {
                    super::$test(place);
                }
            })*
        }
    };
}

mod holds;
mod leases;
mod ledgers;

const NOW: i64 = 1_800_000_000_000;

fn at(seconds: i64) -> Act<'static> {
    Act {
        at: NOW + seconds * 1000,
        by: "root",
        note: "",
    }
}

fn credits(amount: i64) -> Money {
    Money(amount * MICRO)
}

#[path = "../../../tests/postgres.rs"]
mod postgres;

/// The server that all tests but those that kill theirs share. None if there is no PostgreSQL here.
pub(super) fn server() -> Option<&'static postgres::Server> {
    static SHARED: OnceLock<Option<postgres::Server>> = OnceLock::new();
    SHARED.get_or_init(postgres::Server::begin).as_ref()
}

struct LedgerPaths {
    _directory: tempfile::TempDir,
    ledger: PathBuf,
    live: PathBuf,
    at: Location,
}

impl LedgerPaths {
    fn new() -> LedgerPaths {
        LedgerPaths::with("")
    }

    /// None if there is no database here.
    fn in_database() -> Option<LedgerPaths> {
        Some(LedgerPaths::with(&server()?.database()))
    }

    /// `database`: a connection string, or nothing for a file.
    fn with(database: &str) -> LedgerPaths {
        let directory = tempfile::tempdir().expect("a directory");
        let home = directory.path().join("accounts");
        std::fs::create_dir(&home).expect("a directory");
        let ledger = home.join("ledger.sqlite");
        let at = Location::in_database(&ledger, database);
        Ledger::make(&at, NOW).expect("made");
        LedgerPaths {
            ledger,
            live: directory.path().join("live"),
            at,
            _directory: directory,
        }
    }

    /// What a configuration says of it.
    fn config(&self) -> libra_config::Config {
        let text = format!(
            "[accounts]\nmode = \"on\"\nledger = \"{}\"\nlive = \"{}\"\ndatabase = \"{}\"\n",
            self.ledger.display(),
            self.live.display(),
            self.at.database().unwrap_or_default()
        );
        libra_config::Config::from_toml(&text).expect("valid")
    }

    fn open(&self) -> Live {
        let live = Live::open(&self.live, &self.at, Duration::from_secs(60)).expect("opens");
        live.count_on_it()
    }

    /// Everything written down; then ledger and live state say the same, and the sum is zero.
    fn check(&self, live: &Live) {
        let ledger = Ledger::open(&self.at).expect("opens");
        flush(live, &ledger).expect("writes");
        let of = |rows: Vec<(i64, i64, Money, Money)>| -> BTreeMap<(i64, i64), (i64, i64)> {
            rows.into_iter()
                .map(|(account, lot, free, held)| ((account, lot), (free.0, held.0)))
                .filter(|(_, money)| *money != (0, 0))
                .collect()
        };
        let (now, past) = (
            of(live.balances().expect("reads")),
            of(ledger.balances().expect("reads")),
        );
        assert_eq!(now, past);
        assert_eq!(now.values().map(|(free, held)| free + held).sum::<i64>(), 0);
    }
}

of_both! {
    a_job_from_deposit_to_charge,
    subjobs_are_settled_one_by_one_and_once_even_over_a_boot,
    deposits_expire_and_pay_in_their_order,
    projects_transfers_overdrafts_closing,
    an_older_live_state_does_not_write_any_more,
    movements_stay_as_they_are,
    a_slow_writer_does_not_bring_back_what_was_changed_since,
    a_step_waits_no_longer_than_it_may_and_says_for_what,
    what_cannot_be_counted_is_refused_and_hurts_nobody,
    deposits_that_cannot_be_counted_together_are_refused,
    closing_pays_what_is_owed_out_of_what_is_there,
}

fn user(name: &str) -> AccountName {
    AccountName::User(name.to_string())
}

fn pay(charge: i64, compensation: i64) -> Payout {
    Payout {
        of: None,
        charge: credits(charge),
        overrun: Money::ZERO,
        compensation: credits(compensation),
    }
}

fn available(live: &Live, name: &str, seconds: i64) -> Money {
    live.account(&user(name), NOW + seconds * 1000)
        .expect("is there")
        .available()
        .expect("limited")
}

fn a_job_from_deposit_to_charge(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    live.deposit(&user("alice"), credits(100), (None, None), at(0))
        .expect("paid in");
    let alice = live.account(&user("alice"), NOW).expect("is there").id;
    assert!(live.hold("t:1-1", alice, credits(30), at(1)).expect("held"));
    // The same again is the same hold.
    assert!(
        !live
            .hold("t:1-1", alice, credits(30), at(2))
            .expect("known")
    );
    assert_eq!(available(&live, "alice", 2), credits(70));
    assert!(matches!(
        live.hold("t:1-2", alice, credits(71), at(2)),
        Err(AccountsError::Short { .. })
    ));
    // What was refused left nothing behind.
    assert!(live.hold("t:1-2", alice, credits(70), at(2)).expect("held"));
    let paid = live
        .settle("t:1-1", 0, pay(20, 0), at(3))
        .expect("settled")
        .expect("once");
    assert_eq!(paid.charge, credits(20));
    assert_eq!(
        live.settle("t:1-1", 0, pay(20, 0), at(4)).expect("known"),
        None
    );
    assert!(
        !live
            .hold("t:1-1", alice, credits(30), at(5))
            .expect("over for good")
    );
    assert_eq!(available(&live, "alice", 5), credits(10));
    // A late one is paid out.
    live.settle("t:1-2", 0, pay(0, 5), at(6)).expect("settled");
    assert_eq!(available(&live, "alice", 6), credits(85));
    place.check(&live);
    let income = live.account(&AccountName::Income, NOW).expect("is there");
    assert_eq!((income.id, income.balance()), (INCOME, credits(15)));
    assert_eq!(
        live.account(&AccountName::Bank, NOW)
            .expect("is there")
            .balance(),
        credits(-100)
    );

    // After a boot it is made of the ledger.
    std::fs::remove_dir_all(&place.live).expect("gone");
    let mut live = place.open();
    assert_eq!(available(&live, "alice", 7), credits(85));
    assert!(
        !live
            .hold("t:1-1", alice, credits(30), at(8))
            .expect("known for good")
    );
    place.check(&live);
}

fn subjobs_are_settled_one_by_one_and_once_even_over_a_boot(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("bob"), None, at(0)).expect("made");
    live.deposit(&user("bob"), credits(10), (None, None), at(0))
        .expect("paid in");
    let bob = live.account(&user("bob"), NOW).expect("is there").id;
    live.hold("t:2-1", bob, credits(9), at(1)).expect("held");
    let third = Payout {
        of: Some(credits(3)),
        ..pay(2, 0)
    };
    assert!(
        live.settle("t:2-1", 5, third, at(2))
            .expect("settled")
            .is_some()
    );
    place.check(&live);
    std::fs::remove_dir_all(&place.live).expect("gone");
    let mut live = place.open();
    assert!(
        live.settle("t:2-1", 5, third, at(3))
            .expect("known")
            .is_none()
    );
    assert!(
        live.settle("t:2-1", 6, third, at(3))
            .expect("settled")
            .is_some()
    );
    assert_eq!(live.holds("t:").expect("reads")[0].amount, credits(3));
    assert!(
        live.settle("t:2-1", 7, third, at(3))
            .expect("settled")
            .is_some()
    );
    assert_eq!(live.holds("t:").expect("reads"), vec![]);
    assert_eq!(available(&live, "bob", 4), credits(4));
    place.check(&live);
}

fn deposits_expire_and_pay_in_their_order(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("eve"), None, at(0)).expect("made");
    let seconds = NOW / 1000;
    live.deposit(&user("eve"), credits(50), (None, None), at(0))
        .expect("paid in");
    live.deposit(
        &user("eve"),
        credits(20),
        (None, Some(seconds + 100)),
        at(0),
    )
    .expect("paid in");
    live.deposit(
        &user("eve"),
        credits(7),
        (Some(seconds + 200), Some(seconds + 300)),
        at(0),
    )
    .expect("paid in");
    assert!(
        live.deposit(&user("eve"), credits(1), (None, Some(seconds)), at(0))
            .is_err()
    );
    let eve = live.account(&user("eve"), NOW).expect("is there").id;
    assert_eq!(available(&live, "eve", 0), credits(70));
    live.hold("t:3-1", eve, credits(15), at(1)).expect("held");
    // 5 of the 20 are left, and gone at 100 s; what was held of them is still there for the job.
    assert_eq!(available(&live, "eve", 99), credits(55));
    assert_eq!(available(&live, "eve", 100), credits(50));
    live.sweep(at(101)).expect("swept");
    live.settle("t:3-1", 0, pay(10, 0), at(110))
        .expect("settled");
    live.sweep(at(111)).expect("swept");
    place.check(&live);
    assert_eq!(available(&live, "eve", 111), credits(50));
    assert_eq!(available(&live, "eve", 250), credits(57));
    // 100 = 50 + 20 + 7 in, 10 charged, 10 expired.
    assert_eq!(
        live.account(&AccountName::Bank, NOW)
            .expect("is there")
            .balance(),
        credits(-67)
    );
    let ledger = Ledger::open(&place.at).expect("opens");
    let kinds: Vec<String> = ledger
        .rows(eve, 0, i64::MAX)
        .expect("reads")
        .into_iter()
        .map(|row| row.kind)
        .collect();
    assert_eq!(
        kinds,
        [
            "deposit", "deposit", "deposit", "hold", "expiry", "charge", "release", "expiry"
        ]
    );
}

fn projects_transfers_overdrafts_closing(place: LedgerPaths) {
    let mut live = place.open();
    let chem = AccountName::Project("chem".to_string());
    live.set_account(&chem, None, at(0)).expect("made");
    live.set_account(&user("alice"), Some(Overdraft::To(credits(5))), at(0))
        .expect("made");
    live.set_member(&chem, "alice", true, at(0)).expect("in");
    assert!(live.set_member(&user("alice"), "bob", true, at(0)).is_err());
    assert!(live.set_member(&chem, "no such/name", true, at(0)).is_err());
    live.deposit(&chem, credits(10), (None, None), at(0))
        .expect("paid in");
    assert!(
        live.transfer(&chem, &user("alice"), credits(11), at(1))
            .is_err()
    );
    assert!(live.transfer(&chem, &chem, credits(1), at(1)).is_err());
    live.transfer(&chem, &user("alice"), credits(4), at(1))
        .expect("moved");
    assert_eq!(available(&live, "alice", 1), credits(9));
    let alice = live.account(&user("alice"), NOW).expect("is there").id;
    live.hold("t:4-1", alice, credits(9), at(2)).expect("held");
    assert!(live.close(&user("alice"), at(3)).is_err());
    live.settle("t:4-1", 0, pay(9, 0), at(3)).expect("settled");
    assert!(live.close(&user("alice"), at(4)).is_err(), "it owes 5");
    assert_eq!(live.close(&chem, at(4)).expect("closed"), credits(6));
    assert!(matches!(
        live.deposit(&chem, credits(1), (None, None), at(5)),
        Err(AccountsError::Closed(_))
    ));
    place.check(&live);
    assert!(live.set_account(&AccountName::Bank, None, at(6)).is_err());
    assert_eq!(
        live.members(live.account(&chem, NOW).expect("is there").id)
            .expect("reads"),
        ["alice"]
    );
    let _ = (BANK, FOR_EVER);
}

fn an_older_live_state_does_not_write_any_more(place: LedgerPaths) {
    let mut old = place.open();
    old.set_account(&user("a"), None, at(0)).expect("made");
    std::fs::remove_dir_all(&place.live).expect("gone");
    let new = place.open();
    let ledger = Ledger::open(&place.at).expect("opens");
    assert!(flush(&old, &ledger).is_err());
    assert!(flush::is_outdated(&old, &ledger).expect("reads"));
    assert!(!flush::is_outdated(&new, &ledger).expect("reads"));
    place.check(&new);
}

fn movements_stay_as_they_are(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("a"), None, at(0)).expect("made");
    live.deposit(&user("a"), credits(1), (None, None), at(0))
        .expect("paid in");
    place.check(&live);
    let ledger = Ledger::open(&place.at).expect("opens");
    for change in ["UPDATE movement SET amount = 2", "DELETE FROM movement"] {
        let changed = ledger.each(change, &[], &mut |_| Ok(()));
        let said = changed.expect_err(change).to_string();
        assert!(said.contains("movements are never"), "{said}");
    }
}

fn a_slow_writer_does_not_bring_back_what_was_changed_since(place: LedgerPaths) {
    let mut live = place.open();
    let ledger = Ledger::open(&place.at).expect("opens");
    let chem = AccountName::Project("chem".to_string());
    live.set_account(&chem, Some(Overdraft::To(credits(5))), at(0))
        .expect("made");
    live.set_member(&chem, "eve", true, at(0)).expect("in");
    // One process has read this, and is stopped for a while.
    let old = live.journal(0, 100).expect("reads");
    flush(&live, &ledger).expect("writes");
    live.set_account(&chem, Some(Overdraft::To(credits(1))), at(1))
        .expect("changed");
    live.set_member(&chem, "eve", false, at(1)).expect("out");
    flush(&live, &ledger).expect("writes");
    ledger
        .exclusively(|| ledger.write(&old))
        .expect("nothing to do");
    std::fs::remove_dir_all(&place.live).expect("gone");
    let live = place.open();
    let found = live.account(&chem, NOW).expect("is there");
    assert_eq!(found.overdraft, Overdraft::To(credits(1)));
    assert_eq!(live.members(found.id).expect("reads"), Vec::<String>::new());
}

fn a_step_waits_no_longer_than_it_may_and_says_for_what(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("a"), None, at(0)).expect("made");
    // Opening asks a database as well, and may take its time.
    let patience = (Duration::from_secs(60), Duration::from_millis(50));
    let mut other = Live::open_within(&place.live, &place.at, patience, Claim::Own).expect("opens");
    live.connection
        .execute_batch("BEGIN IMMEDIATE")
        .expect("held");
    let error = other
        .deposit(&user("a"), credits(1), (None, None), at(0))
        .expect_err("locked");
    assert!(matches!(error, AccountsError::Locked { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("is locked by another process, waited 0.05 s"),
        "{said}"
    );
}

fn what_cannot_be_counted_is_refused_and_hurts_nobody(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("a"), None, at(0)).expect("made");
    let much = Money::parse("1000000000000").expect("the most that can be typed");
    for _ in 0..4 {
        live.deposit(&user("a"), much, (None, None), at(0))
            .expect("paid in");
    }
    let refused = live.deposit(&user("a"), much, (None, None), at(0));
    assert!(
        matches!(refused, Err(AccountsError::Unsound(_))),
        "{refused:?}"
    );
    assert_eq!(available(&live, "a", 1), Money(4 * much.0));
    place.check(&live);
    assert!(
        live.deposit(&user("a"), Money::ZERO, (None, None), at(0))
            .is_err()
    );
}

fn deposits_that_cannot_be_counted_together_are_refused(place: LedgerPaths) {
    let mut live = place.open();
    let much = Money(3_000_000_000_000_000_000);
    let until = (None, Some(NOW / 1000 + 100));
    for (name, counts) in [("a", true), ("b", false), ("c", false)] {
        live.set_account(&user(name), None, at(0)).expect("made");
        let paid = live.deposit(&user(name), much, until, at(0));
        assert_eq!(paid.is_ok(), counts, "{paid:?}");
    }
    place.check(&live);
    let ledger = Ledger::open(&place.at).expect("opens");
    let bank = live.account(&AccountName::Bank, NOW).expect("is there");
    let told = perform::statement(&live, &ledger, &bank, (0, i64::MAX), true).expect("reads");
    assert_eq!(told.closing, Money(-much.0));
    let below = live.set_account(&user("a"), Some(Overdraft::To(Money(-1))), at(0));
    assert!(matches!(below, Err(AccountsError::Unsound(_))), "{below:?}");
}

fn closing_pays_what_is_owed_out_of_what_is_there(place: LedgerPaths) {
    let mut live = place.open();
    let a = user("a");
    live.set_account(&a, Some(Overdraft::To(credits(50))), at(0))
        .expect("made");
    let id = live.account(&a, NOW).expect("is there").id;
    live.hold("t:1", id, credits(30), at(0)).expect("held");
    live.settle("t:1", 0, pay(30, 0), at(1)).expect("settled");
    assert!(live.close(&a, at(2)).is_err(), "it owes 30");
    live.deposit(&a, credits(40), (None, Some(NOW / 1000 + 100)), at(3))
        .expect("paid in");
    // A job that costs nothing can bring a compensation: its account stays.
    live.hold("t:2", id, Money::ZERO, at(4)).expect("held");
    assert!(live.close(&a, at(5)).is_err());
    live.settle("t:2", 0, pay(0, 0), at(6)).expect("settled");
    assert_eq!(live.close(&a, at(7)).expect("closed"), credits(10));
    let found = live.account(&a, NOW + 8000).expect("is there");
    assert_eq!((found.closed, found.free), (true, vec![]));
    place.check(&live);
    let ledger = Ledger::open(&place.at).expect("opens");
    let sound = check::check(&live, &ledger, NOW).expect("reads");
    assert_eq!((sound.problems, sound.notes), (vec![], vec![]));
}
