//! What is set aside for a job that waits, while accounts cannot be written: it stays, and so does the job's place.

use super::deferred_tests::{Job, Plain, accepted, confirm, job, server};
use super::{AdmissionServer, Committed, NotBegun};
use crate::front_end::FrontEnd;
use libra_accounts::budget_gate::BudgetGate;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::{Act, Live};
use libra_accounts::names::AccountName;
use libra_config::{Config, OnFault};
use libra_core::commitment::Commitment;
use libra_core::decision::admission::Admission;
use libra_core::decision::class::Class;
use libra_core::decision::service::{ClassAdmission, ClassRules};
use libra_units::money::Money;
use rusqlite::Connection;
use std::path::PathBuf;
use std::time::Duration;

const NOW: f64 = 1_800_000_000.0;

/// Accounts of which ann has so many credits.
struct Accounts {
    directory: tempfile::TempDir,
}

impl Accounts {
    fn new(credits: &str) -> Accounts {
        let accounts = Accounts {
            directory: tempfile::tempdir().expect("a directory"),
        };
        let (ledger, at) = (accounts.path("ledger"), (NOW * 1e3) as i64);
        Ledger::make(&ledger, at).expect("made");
        let patience = Duration::from_secs(60);
        let mut live = Live::open(&accounts.path("live"), &ledger, patience).expect("opens");
        let (ann, credits) = (AccountName::User("ann".to_string()), Money::parse(credits));
        let (by, note) = ("root", "");
        let act = Act { at, by, note };
        live.set_account(&ann, None, act).expect("made");
        live.deposit(&ann, credits.expect("money"), (None, None), act)
            .expect("paid in");
        accounts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn pay_for(&self, server: &mut AdmissionServer) {
        let text = format!(
            "[accounts]\nmode = 'on'\nledger = '{}'\nlive = '{}'\n",
            self.path("ledger").display(),
            self.path("live").display()
        );
        let config = Config::from_toml(&text).expect("valid");
        server.gate = BudgetGate::open(&config, "slurm", OnFault::Refuse, false);
        assert!(server.gate.is_on() && !server.gate.is_broken());
    }

    /// Nobody can write while this is kept.
    fn lock(&self) -> Connection {
        let files = std::fs::read_dir(self.path("live")).expect("reads");
        let file = (files.map(|file| file.expect("reads").path()))
            .find(|file| file.extension().is_some_and(|end| end == "sqlite"))
            .expect("the live state");
        let connection = Connection::open(file).expect("opens");
        connection.execute_batch("BEGIN IMMEDIATE").expect("locked");
        connection
    }
}

/// This alone is held for.
fn is_held_for(server: &mut AdmissionServer, commitment: &Commitment) {
    let payments = server.gate.payments().expect("open");
    let holds = payments.open_holds().expect("reads");
    assert_eq!(holds.len(), 1, "{holds:?}");
    assert_eq!(holds[0].key, payments.key(commitment));
}

#[test]
fn a_deferred_job_keeps_what_is_set_aside_for_it() {
    let (mut server, accounts) = (server(), Accounts::new("1000"));
    accounts.pay_for(&mut server);
    let deferred = accepted(&mut server, &job(30.0, 100.0, Some(0.0)), NOW);
    let locked = accounts.lock();
    let not = confirm(&mut server, &deferred, NOW + 10.0).expect_err("nobody pays");
    assert!(not.begin_within.is_some(), "it waits on");
    drop(locked);
    assert_eq!(server.book.job_count(), 0);
    is_held_for(&mut server, &deferred.commitment);
    let confirmed = confirm(&mut server, &deferred, NOW + 11.0).expect("paid for");
    is_held_for(&mut server, &confirmed.commitment);
}

fn begin(
    server: &mut AdmissionServer,
    planned: &Committed,
    now: f64,
) -> Result<Committed, Box<NotBegun<super::deferred_tests::Bad>>> {
    let specification = (Plain.specification(&server.book, &job(1.0, 1.0, None), false, now))
        .expect("it is always read");
    let commitment = &planned.commitment;
    (server.begin(&Plain, "2", commitment, &specification, None, "ann", now)).map_err(Box::new)
}

#[test]
fn a_planned_job_keeps_its_place_and_what_is_set_aside_for_it() {
    let (mut server, accounts) = (server(), Accounts::new("1000"));
    let classes = ClassAdmission {
        admission: Admission::default(),
        rules: ClassRules::default(),
    };
    server.book.set_admission(classes);
    let dedicated = |estimate, deadline| {
        let mut job: Job = job(estimate, deadline, None);
        job.terms.class = Class::Dedicated;
        job
    };
    let runs = accepted(&mut server, &dedicated(50.0, 100.0), NOW);
    let token = runs.commitment.token;
    server.book.bind(token, "1", NOW).expect("given just now");
    accounts.pay_for(&mut server);
    let planned = accepted(&mut server, &dedicated(20.0, 200.0), NOW);
    let token = planned.commitment.token;
    server.book.bind(token, "2", NOW).expect("given just now");
    let starts_by = planned.commitment.starts_by.expect("planned");
    server.book.ended("1", NOW + 20.0).expect("there");
    // It could begin sooner, and it could when it is due: nobody else has its processor meanwhile.
    for now in [NOW + 20.0, starts_by, starts_by + 1.0] {
        let locked = accounts.lock();
        let not = begin(&mut server, &planned, now).expect_err("nobody pays");
        assert_eq!(*not, NotBegun::Waits);
        drop(locked);
        assert_eq!(server.book.starts_by("2"), Some(starts_by));
        is_held_for(&mut server, &planned.commitment);
    }
    let begun = begin(&mut server, &planned, starts_by + 2.0).expect("paid for");
    assert!(!begun.commitment.deferred && server.book.starts_by("2").is_none());
    is_held_for(&mut server, &begun.commitment);
}
