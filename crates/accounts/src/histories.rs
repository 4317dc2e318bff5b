//! Random histories of everything that can happen to accounts, by two processes in turn, with crashes between.
//!
//! After each step: the sum is zero, no free money is below its floor, the live state is what ledger and journal say, and the
//! balances are those that the answers add up to. At the end statements open, move and close as they should.

use super::check::check;
use super::flush::flush;
use super::ledger::{Ledger, Location};
use super::live::{Act, Live, Payout};
use super::lots::{FOR_EVER, Overdraft};
use super::movement::Event;
use super::names::AccountName;
use super::perform::statement;
use super::tests::server;
use super::*;
use libra_units::money::Money;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const START: i64 = 1_800_000_000_000;
const ACCOUNTS: [&str; 4] = ["user:a", "user:b", "project:p", "project:q"];

/// Something happens; small numbers choose accounts, holds and processes.
#[derive(Debug, Clone)]
enum Step {
    Create(usize, Option<i64>),
    Member(usize, bool),
    Deposit(usize, i64, Option<i64>, Option<i64>),
    Transfer(usize, usize, i64),
    Hold(u8, usize, i64),
    Settle {
        key: u8,
        part: u32,
        of: Option<i64>,
        charge: i64,
        overrun: i64,
        compensation: i64,
    },
    Close(usize),
    Sweep,
    Wait(i64),
    Flush,
    /// Killed after the ledger has it and before the journal has forgotten it.
    HalfFlush,
    /// A process has read the journal, and goes on writing it down at the next `SlowFlush`.
    SlowRead,
    SlowFlush,
    /// Killed, and started again.
    Restart,
    /// All is written down, and memory is lost.
    Boot,
    /// Memory is lost before that.
    PowerFailure,
}

fn step() -> impl Strategy<Value = Step> {
    let account = 0..ACCOUNTS.len();
    let amount = 1..50_i64;
    prop_oneof![
        2 => (account.clone(), proptest::option::of(0..40_i64)).prop_map(|(a, o)| Step::Create(a, o)),
        1 => (account.clone(), any::<bool>()).prop_map(|(a, may)| Step::Member(a, may)),
        4 => (account.clone(), amount.clone(), proptest::option::of(0..60_i64), proptest::option::of(1..90_i64))
            .prop_map(|(a, m, from, until)| Step::Deposit(a, m, from, until)),
        2 => (account.clone(), account.clone(), amount.clone()).prop_map(|(a, b, m)| Step::Transfer(a, b, m)),
        6 => (0..12_u8, account.clone(), 0..60_i64).prop_map(|(k, a, m)| Step::Hold(k, a, m)),
        6 => (0..12_u8, 0..3_u32, proptest::option::of(1..30_i64), 0..60_i64, 0..20_i64, 0..10_i64)
            .prop_map(|(key, part, of, charge, overrun, compensation)| Step::Settle { key, part, of, charge, overrun, compensation }),
        1 => account.prop_map(Step::Close),
        1 => Just(Step::Sweep),
        2 => (1..50_i64).prop_map(Step::Wait),
        2 => Just(Step::Flush),
        1 => Just(Step::HalfFlush),
        1 => Just(Step::SlowRead),
        1 => Just(Step::SlowFlush),
        1 => Just(Step::Restart),
        1 => Just(Step::Boot),
        1 => Just(Step::PowerFailure),
    ]
}

/// What the answers add up to: total money of each account that was made, how much is held by key.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    total: BTreeMap<String, i64>,
    held: BTreeMap<String, (usize, i64)>,
    floor: BTreeMap<usize, i64>,
}

struct World {
    place: tempfile::TempDir,
    at: Location,
    processes: Vec<(Live, Ledger)>,
    slow: Vec<(i64, Event)>,
    now: i64,
    model: Model,
    written: Model,
}

impl World {
    /// `database`: a connection string, or nothing for a file.
    fn new(database: &str) -> World {
        let place = tempfile::tempdir().expect("a directory");
        let at = Location::in_database(&place.path().join("ledger.sqlite"), database);
        Ledger::make(&at, START).expect("made");
        let mut world = World {
            place,
            at,
            processes: Vec::new(),
            slow: Vec::new(),
            now: START,
            model: Model::default(),
            written: Model::default(),
        };
        world.restart();
        world
    }

    fn restart(&mut self) {
        self.processes.clear();
        let (ledger, live) = (&self.at, self.place.path().join("live"));
        for _ in 0..2 {
            self.processes.push((
                Live::open(&live, ledger, Duration::from_secs(60))
                    .expect("opens")
                    .count_on_it(),
                Ledger::open(ledger).expect("opens"),
            ));
        }
    }

    fn lose_memory(&mut self) {
        // Both are still there when it goes, as processes are that nobody told.
        std::fs::remove_dir_all(self.place.path().join("live")).expect("gone");
        self.restart();
    }

    fn total(&mut self, account: usize, change: i64) {
        let name = ACCOUNTS[account].to_string();
        *self.model.total.entry(name).or_default() += change;
    }

    fn take(&mut self, which: usize, step: &Step) {
        let at = Act {
            at: self.now,
            by: "test",
            note: "",
        };
        let name = |account: usize| AccountName::parse(ACCOUNTS[account]).expect("a name");
        let (live, ledger) = &mut self.processes[which];
        match *step {
            Step::Create(account, overdraft) => {
                let limit = overdraft.map(|limit| Overdraft::To(Money(limit)));
                live.set_account(&name(account), limit, at).expect("made");
                let floor = self.model.floor.entry(account).or_default();
                *floor = (*floor).min(-overdraft.unwrap_or(0));
                self.total(account, 0);
            }
            Step::Member(account, may) => {
                let _ = live.set_member(&name(account), "a", may, at);
            }
            Step::Deposit(account, amount, from, until) => {
                let seconds = |later: i64| self.now / 1000 + later;
                let validity = (from.map(seconds), until.map(seconds));
                if live
                    .deposit(&name(account), Money(amount), validity, at)
                    .is_ok()
                {
                    self.total(account, amount);
                }
            }
            Step::Transfer(from, to, amount) => {
                let moved = live.transfer(&name(from), &name(to), Money(amount), at);
                if moved.is_ok() {
                    self.total(from, -amount);
                    self.total(to, amount);
                }
            }
            Step::Hold(key, account, amount) => {
                let key = format!("t:{key}");
                let Ok(found) = live.account(&name(account), self.now) else {
                    return;
                };
                let known = live.knows(&key).expect("reads");
                match live.hold(&key, found.id, Money(amount), at) {
                    Ok(new) => {
                        assert_eq!(new, !known);
                        if new {
                            assert!(found.available().is_none_or(|have| have >= Money(amount)));
                            self.model.held.insert(key, (account, amount));
                        }
                    }
                    Err(error) => assert!(error.is_refusal(), "{error}"),
                }
            }
            Step::Settle {
                key,
                part,
                of,
                charge,
                overrun,
                compensation,
            } => {
                let key = format!("t:{key}");
                let payout = Payout {
                    of: of.map(Money),
                    charge: Money(charge),
                    overrun: Money(overrun),
                    compensation: Money(compensation),
                };
                let Some(paid) = live.settle(&key, part, payout, at).expect("settles") else {
                    return;
                };
                let (account, held) = self.model.held.remove(&key).expect("was held");
                let of = paid.of.expect("always said").0;
                assert!(paid.charge.0 <= of && of <= held, "{paid:?} of {held}");
                assert!(paid.overrun.0 <= overrun);
                if held > of {
                    self.model.held.insert(key, (account, held - of));
                }
                let change = paid.compensation.0 - paid.charge.0 - paid.overrun.0;
                self.total(account, change);
            }
            Step::Close(account) => {
                if live.close(&name(account), at).is_ok() {
                    self.model.total.insert(ACCOUNTS[account].to_string(), 0);
                }
            }
            Step::Sweep => {
                let before = self.model.total.clone();
                live.sweep(at).expect("sweeps");
                self.model.total = totals(live, &self.model);
                for (name, total) in &self.model.total {
                    assert!(*total <= before[name], "{name}");
                }
            }
            Step::Wait(seconds) => self.now += seconds * 1000,
            Step::Flush => {
                flush(live, ledger).expect("writes");
                self.written = self.model.clone();
            }
            Step::HalfFlush => {
                let entries = live.journal(0, usize::MAX).expect("reads");
                ledger
                    .exclusively(|| ledger.write(&entries))
                    .expect("writes");
                self.written = self.model.clone();
            }
            Step::SlowRead => self.slow = live.journal(0, usize::MAX).expect("reads"),
            Step::SlowFlush => {
                // It still has the live state that it read this from, or does nothing.
                ledger
                    .exclusively(|| ledger.write(&self.slow))
                    .expect("writes");
                self.slow.clear();
                // That may be more than before, and less than all: only a flush says where it stands.
                flush(live, ledger).expect("writes");
                self.written = self.model.clone();
            }
            Step::Restart => self.restart(),
            Step::Boot => {
                flush(live, ledger).expect("writes");
                self.written = self.model.clone();
                self.slow.clear();
                self.lose_memory();
            }
            Step::PowerFailure => {
                self.slow.clear();
                self.lose_memory();
                self.model = self.written.clone();
            }
        }
    }

    fn check(&mut self) {
        let (live, ledger) = &self.processes[0];
        let found = check(live, ledger, self.now).expect("reads");
        assert_eq!(found.problems, Vec::<String>::new());
        assert_eq!(totals(live, &self.model), self.model.total);
        for (account, lot, free, held) in live.balances().expect("reads") {
            assert!(held >= Money::ZERO);
            if account > ledger::INCOME {
                let accounts = live.accounts(self.now).expect("reads");
                let found = accounts.iter().find(|found| found.id == account);
                let name = &found.expect("is there").name;
                let index = ACCOUNTS.iter().position(|other| other == name);
                let floor = match lot {
                    FOR_EVER => self.model.floor[&index.expect("one of these")],
                    _ => 0,
                };
                assert!(free.0 >= floor, "{name} has {free:?} of lot {lot}");
            }
        }
        let open: BTreeMap<String, i64> = live
            .holds("t:")
            .expect("reads")
            .into_iter()
            .filter(|hold| hold.amount > Money::ZERO)
            .map(|hold| (hold.key, hold.amount.0))
            .collect();
        let expected = self.model.held.iter();
        let expected: BTreeMap<String, i64> = expected
            .map(|(key, (_, amount))| (key.clone(), *amount))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        assert_eq!(open, expected);
    }

    /// Two periods that meet, with and without holds.
    fn statements(&mut self) {
        let (live, ledger) = &self.processes[1];
        flush(live, ledger).expect("writes");
        let middle = START + (self.now - START) / 2;
        for account in live.accounts(self.now).expect("reads") {
            for holds in [false, true] {
                let period = |period| {
                    let told = statement(live, ledger, &account, period, holds).expect("reads");
                    let mut balance = told.opening;
                    for line in &told.lines {
                        balance.0 += line.amount.0;
                        assert_eq!(line.balance, balance);
                    }
                    assert_eq!(balance, told.closing);
                    told
                };
                let (first, second) = (period((0, middle)), period((middle, i64::MAX)));
                assert_eq!(first.opening, Money::ZERO);
                assert_eq!(first.closing, second.opening);
                if let Some(total) = self.model.total.get(&account.name) {
                    assert_eq!(second.closing.0, *total, "{}", account.name);
                }
                let pending: i64 = second.pending.iter().map(|hold| hold.amount.0).sum();
                assert_eq!(pending, account.held.0);
                if holds {
                    let lines = first.lines.iter().chain(&second.lines);
                    assert_eq!(lines.map(|line| line.held.0).sum::<i64>(), account.held.0);
                }
            }
        }
    }
}

/// Free and held money of all accounts that the model knows.
fn totals(live: &Live, model: &Model) -> BTreeMap<String, i64> {
    let accounts = live.accounts(START).expect("reads");
    let balances = live.balances().expect("reads");
    let total = |name: &String| {
        let found = accounts.iter().find(|found| found.name == *name);
        let id = found.expect("is there").id;
        let of = balances.iter().filter(|(account, ..)| *account == id);
        of.map(|(_, _, free, held)| free.0 + held.0).sum::<i64>()
    };
    let names = model.total.keys();
    names.map(|name| (name.clone(), total(name))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_history_is_sound(steps in proptest::collection::vec((0..2_usize, step()), 1..80)) {
        play("", &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_history_is_sound_in_a_database(steps in proptest::collection::vec((0..2_usize, step()), 1..80)) {
        if let Some(server) = server() {
            play(&server.database(), &steps);
        }
    }
}

fn play(database: &str, steps: &[(usize, Step)]) {
    let mut world = World::new(database);
    for (which, step) in steps {
        world.take(*which, step);
        world.check();
    }
    world.statements();
}
