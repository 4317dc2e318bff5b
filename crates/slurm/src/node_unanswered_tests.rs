//! A slurmctld that does not answer in time, and the tasks that ask it then.

use super::super::claim::{ControllerRecord, JobRecord};
use super::tests::{LINE, OFF, Sleeper, job, join, open, prolog, recorded, rejected, task_of};
use super::*;
use nix::sys::stat::{Mode, umask};
use std::cell::Cell;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

/// A slurmctld that says nothing, and that nobody asks for longer than so.
fn silent(most: Duration) -> impl Fn(u32, Duration) -> Option<ControllerRecord> {
    move |_, patience| {
        let least = most - Duration::from_secs(30).min(most);
        assert!((least..=most).contains(&patience), "{patience:?}");
        None
    }
}

#[test]
fn a_slurmctld_that_does_not_answer_is_a_fault() {
    for (rule, runs) in [("refuse", false), ("admit", true)] {
        let directory = tempfile::tempdir().expect("a directory");
        let host = open(
            directory.path(),
            &format!("{OFF}[slurm]\non-fault = '{rule}'\n"),
        );
        let said = super::prolog(&host, &job(Some(LINE)), &silent(PROLOG_ASKS), 1000.0)
            .expect_err("unasked");
        assert!(said.contains("scontrol ping"), "{said}");
        let task = Sleeper::new();
        for has_terms in [false, true] {
            let task = Task {
                has_terms,
                ..task_of("12", task.pid())
            };
            // Where it runs all the same it does so at once.
            let most = if runs { PROLOG_ASKS } else { TASK_ASKS };
            match super::join(&host, &task, &silent(most), 1000.0) {
                Joined::LeftAlone if runs => {}
                Joined::Refused(said) if !runs => assert!(said.contains("scontrol ping"), "{said}"),
                other => panic!("{rule}: {other:?}"),
            }
        }
        assert_eq!(rejected(&host), (0, 0));
    }
}

#[test]
fn what_a_prolog_is_not_told_in_time_its_tasks_ask() {
    let sleeper = Sleeper::new();
    let task = task_of("12", sleeper.pid());
    let unanswered = || {
        let directory = tempfile::tempdir().expect("a directory");
        let host = open(directory.path(), OFF);
        // A question that nobody answers is asked once, whoever else is on record here.
        let asked = Cell::new(0);
        let silent = |_: u32, _: Duration| {
            asked.set(asked.get() + 1);
            None
        };
        let little = LINE.replace("n1*1*0.525", "n1*1*0.1");
        prolog(
            &host,
            &Starting {
                name: "11",
                ..job(Some(&little))
            },
            1000.0,
        )
        .expect("begun");
        // Long enough ago for slurmctld to be asked whether it has it still.
        let mut other = host.registry().read("11").expect("read").expect("there");
        other.begun = other.begun.map(|begun| begun - 11.0);
        host.registry().write(&other).expect("written");
        let said = super::prolog(&host, &job(Some(LINE)), &silent, 1000.0).expect_err("unasked");
        assert!(said.ends_with("its tasks wait and try again"), "{said}");
        assert_eq!(asked.get(), 1);
        (directory, host)
    };
    let nobody = |_: u32, _: Duration| panic!("nothing is to be asked");
    // Held, as by its prolog: by the first task for all.
    let (_directory, host) = unanswered();
    let joined = super::join(&host, &task, &recorded(LINE, 1), 1000.0);
    assert!(matches!(joined, Joined::Held(_)), "{joined:?}");
    let entry = host.registry().read("12").expect("read").expect("there");
    assert!(entry.is_live() && entry.share == 0.525, "{entry:?}");
    let joined = super::join(&host, &task, &nobody, 1000.0);
    assert!(matches!(joined, Joined::Held(_)), "{joined:?}");
    assert_eq!(rejected(&host), (0, 0));
    assert!(epilog(&host, "12").expect("ended").is_some());
    // After its end nobody asks any more for a task without options.
    assert_eq!(
        super::join(&host, &task_of("13", sleeper.pid()), &nobody, 1000.0),
        Joined::LeftAlone
    );
    // A claim that is not on record is rejected once, and a promise that was given back is none.
    let of = |change: &dyn Fn(JobRecord) -> JobRecord| {
        recorded(LINE, 1)(12, PROLOG_ASKS).map(|record| match record {
            ControllerRecord::Job(record) => ControllerRecord::Job(change(record)),
            other => other,
        })
    };
    let given_back = of(&|record| JobRecord {
        admin_comment: format!("libra-nothing:{LINE}"),
        ..record
    });
    for (record, times) in [(Some(ControllerRecord::Unknown), 1), (given_back, 0)] {
        let (_directory, host) = unanswered();
        let told = |_: u32, _: Duration| record.clone();
        assert_eq!(super::join(&host, &task, &told, 1000.0), Joined::LeftAlone);
        assert_eq!(
            super::join(&host, &task, &nobody, 1000.0),
            Joined::LeftAlone
        );
        assert_eq!(rejected(&host), (times, 0));
    }
    // slurmctld was killed while it started it: it starts it anew, and once is enough.
    let (_directory, host) = unanswered();
    let waits = of(&|record| JobRecord {
        is_running: false,
        ..record
    });
    let refused = super::join(&host, &task, &|_, _| waits.clone(), 1000.0);
    assert!(
        matches!(&refused, Joined::Refused(said) if said.contains("does not run")),
        "{refused:?}"
    );
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let joined = super::join(&host, &task, &nobody, 1000.0);
    assert!(matches!(joined, Joined::Held(_)), "{joined:?}");
}

#[test]
fn one_with_options_that_nothing_came_of_asks_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let sleeper = Sleeper::new();
    let task = Task {
        has_terms: true,
        ..task_of("12", sleeper.pid())
    };
    let asked = Cell::new(0);
    let unknown = |_: u32, _: Duration| {
        asked.set(asked.get() + 1);
        Some(ControllerRecord::Unknown)
    };
    for _ in 0..3 {
        let left = super::join(&host, &task, &unknown, 1000.0);
        assert_eq!(left, Joined::LeftAlone);
    }
    assert_eq!((asked.get(), rejected(&host)), (1, (0, 0)));
    // The next job of this number has a prolog, or this one's end is known.
    epilog(&host, "12").expect("ended");
    let held = super::join(&host, &task, &recorded(LINE, 1), 1000.0);
    assert!(matches!(held, Joined::Held(_)), "{held:?}");
}

#[test]
fn an_entry_of_another_boot_is_no_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let mut entry = host.registry().read("12").expect("read").expect("there");
    entry.boot = "another".to_string();
    host.registry().write(&entry).expect("written");
    super::prolog(&host, &job(Some(LINE)), &|_, _| None, 1000.0).expect_err("unasked");
    let sleeper = Sleeper::new();
    let held = join(&host, "12", sleeper.pid());
    assert!(matches!(held, Joined::Held(_)), "{held:?}");
}

#[test]
fn what_a_task_writes_is_not_for_its_user() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    // What other tests make meanwhile is more open than it would be.
    let before = umask(Mode::empty());
    let written = notes::Note::WithoutShare.write(&host, "12", "");
    umask(before);
    written.expect("written");
    let mode = |path: &str| {
        let path = host.registry().directory().join(path);
        std::fs::metadata(path).expect("there").permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("without-share"), mode("without-share/12")),
        (0o755, 0o600)
    );
    // Nothing that a name leads to elsewhere is written.
    let (elsewhere, link) = (directory.path().join("elsewhere"), "without-share/13");
    std::fs::write(&elsewhere, "as it was").expect("written");
    symlink(&elsewhere, host.registry().directory().join(link)).expect("linked");
    notes::Note::WithoutShare
        .write(&host, "13", "")
        .expect_err("a link");
    assert_eq!(
        std::fs::read_to_string(&elsewhere).expect("there"),
        "as it was"
    );
}

#[test]
fn what_a_locked_registry_keeps_a_prolog_from_its_tasks_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let lock = host.registry().lock().expect("free");
    let brief = open(directory.path(), OFF).patient_for(Duration::from_millis(100));
    let said = prolog(&brief, &job(Some(LINE)), 1000.0).expect_err("locked");
    assert!(
        said.contains("/lock has been locked") && said.ends_with("try again"),
        "{said}"
    );
    drop(lock);
    let sleeper = Sleeper::new();
    let held = join(&host, "12", sleeper.pid());
    assert!(matches!(held, Joined::Held(_)), "{held:?}");
}

#[test]
fn tasks_ask_one_after_the_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let never = |_: u32, _: Duration| None;
    super::prolog(&host, &job(Some(LINE)), &never, 1000.0).expect_err("unasked");
    let sleeper = Sleeper::new();
    let pid = sleeper.pid();
    let (asking, asked) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let host = open(directory.path(), OFF);
                let ask = |_: u32, _: Duration| {
                    assert_eq!(asking.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::sleep(Duration::from_millis(20));
                    asking.fetch_sub(1, Ordering::SeqCst);
                    // The first two hear nothing.
                    match asked.fetch_add(1, Ordering::SeqCst) < 2 {
                        true => None,
                        false => recorded(LINE, 1)(12, PROLOG_ASKS),
                    }
                };
                super::join(&host, &task_of("12", pid), &ask, 1000.0)
            });
        }
    });
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let joined = join(&host, "12", pid);
    assert!(matches!(joined, Joined::Held(_)), "{joined:?}");
}
