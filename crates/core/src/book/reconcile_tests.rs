use super::*;
use crate::decision::admission::Admission;
use crate::decision::job::{Request, Terms};
use crate::decision::share::DeadlineStatus;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn node(name: &str, processors: f64) -> NodeRecord {
    NodeRecord {
        name: name.to_string(),
        processors,
        rating: 1.0,
        memory: None,
        consumables: Vec::new(),
        available: true,
        committed: 0.0,
    }
}

fn book() -> Book {
    let mut book = Book::new(Admission::default(), 30.0);
    assert!(
        book.set_nodes(&[node("n1", 1.0), node("n2", 2.0)])
            .is_empty()
    );
    book
}

fn half() -> Request {
    Request::single(Terms::hard(10.0, 20.0, 100.0))
}

fn enter(book: &mut Book, id: &str, now: f64) {
    let admitted = book.admit(&half(), now).expect("there is room");
    book.bind(admitted.token, id, now).expect("just given");
}

#[test]
fn a_job_that_nobody_saw_go_is_gone_and_one_that_nobody_saw_come_is_there() {
    let mut book = book();
    enter(&mut book, "1", 0.0);
    let mut records = book.snapshot();
    records.now = 5.0;
    records.jobs[0].id = Some("2".to_string());
    records.jobs[0].token = 0;
    let differences = book.reconcile(&records, 6.0).expect("recent");
    assert_eq!(differences.vanished, ["1"]);
    assert_eq!(differences.found, ["2"]);
    assert!(!book.contains("1") && book.contains("2"));
}

#[test]
fn what_happened_since_the_records_were_taken_stands() {
    let mut book = book();
    enter(&mut book, "1", 0.0);
    let mut records = book.snapshot();
    records.now = 5.0;
    book.ended("1", 6.0).expect("it is there");
    enter(&mut book, "2", 7.0);
    let differences = book.reconcile(&records, 8.0).expect("recent");
    assert_eq!(differences, Differences::default());
    assert!(!book.contains("1") && book.contains("2"));
    let old = book.reconcile(&records, 5.0 + OLDEST_RECORDS + 1.0);
    assert!(matches!(old, Err(BookError::TooOld(_))));
}

#[test]
fn progress_is_taken_as_of_when_it_was_measured() {
    let mut book = book();
    enter(&mut book, "1", 0.0);
    book.started("1", 0.0).expect("known");
    let mut records = book.snapshot();
    records.now = 10.0;
    records.jobs[0].places[0].cput = 2.0;
    book.reconcile(&records, 11.0).expect("recent");
    // Half a processor was counted with, a fifth it had. By 11 s it is taken to have 2.5 s: 7.5 are left for 9.
    let share = book.places("1").expect("known")[0].share;
    assert!((share - 7.5 / 9.0).abs() < 1e-9, "{share}");
    // Started again since: what it had before says nothing.
    book.requeued("1", 12.0).expect("known");
    book.started("1", 13.0).expect("known");
    records.now = 12.5;
    book.reconcile(&records, 14.0).expect("recent");
    let place = &book.places("1").expect("known")[0];
    assert_eq!(place.deadline_status, DeadlineStatus::AtRisk);
}

#[test]
fn a_node_that_is_gone_takes_no_jobs_and_keeps_what_it_has() {
    let mut book = book();
    enter(&mut book, "1", 0.0);
    let mut records = book.snapshot();
    records.nodes.retain(|node| node.name == "n2");
    book.reconcile(&records, 0.5).expect("recent");
    assert_eq!(book.committed("n1"), Ok(0.5));
    enter(&mut book, "2", 2.0);
    assert_eq!(book.places("2").expect("known")[0].node, "n2");
}

#[test]
fn committed_shares_count_where_the_batch_system_counts_them() {
    let mut book = book();
    book.reserve_committed_share(true);
    enter(&mut book, "1", 0.0);
    book.started("1", 0.0).expect("known");
    book.progress("1", None, 9.0, 10.0).expect("known");
    // It needs 0.1, and 0.5 is committed to it.
    assert_eq!(book.committed("n1"), Ok(0.5));
    assert_eq!(book.committed_shares("n1"), Some((0.5, 1.0)));
    let mut rebuilt = Book::new(Admission::default(), 30.0);
    rebuilt.reserve_committed_share(true);
    assert!(
        rebuilt
            .rebuild(&book.snapshot())
            .expect("our own")
            .is_empty()
    );
    assert_eq!(rebuilt.committed("n1"), Ok(0.5));
}

#[test]
fn an_array_is_entered_whole_or_not_at_all() {
    let mut book = book();
    let mut all = half();
    all.shape.chunks = 6;
    let admitted = book
        .admit_set(&all, &half(), 6, None, 0.0)
        .expect("6 × 0.5 on 3 processors");
    assert_eq!(book.job_count(), 6);
    for number in 0..6 {
        book.bind(admitted.token + number, &format!("a{number}"), 0.0)
            .expect("tokens follow");
    }
    assert_eq!(
        (book.committed("n1"), book.committed("n2")),
        (Ok(1.0), Ok(2.0))
    );
    book.admit_set(&all, &half(), 6, None, 0.0)
        .expect_err("it is full");
    assert_eq!(book.job_count(), 6);
    book.swap("a0", "a5").expect("both there");
    assert_eq!(
        (book.committed("n1"), book.committed("n2")),
        (Ok(1.0), Ok(2.0))
    );
    book.ended("a0", 1.0).expect("there");
    book.moved("a1", &[("n2".to_string(), 1)], 1.0)
        .expect("a node");
    book.moved("a1", &[("n2".to_string(), 2)], 1.0)
        .expect_err("it has one chunk");
    assert_eq!(book.job_count(), 5);
}

#[test]
fn only_the_nodes_that_are_allowed_are_asked() {
    let mut book = book();
    let admitted = book
        .admit_among(&half(), Some(&[0, u32::MAX]), 0.0)
        .expect("n2 has room");
    assert_eq!(admitted.places[0].node, 1);
    book.admit_among(&half(), Some(&[0]), 0.0)
        .expect_err("a shorter list says no");
}

#[derive(Debug, Clone)]
enum Event {
    Submit,
    Start(usize),
    End(usize),
    Requeue(usize),
    /// The batch system deletes a job and tells nobody.
    Delete(usize),
    /// Somebody notes what the batch system has.
    Record,
    /// The note arrives.
    Deliver,
    Wait(f64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Submit),
        2 => (0usize..8).prop_map(Event::Start),
        2 => (0usize..8).prop_map(Event::End),
        1 => (0usize..8).prop_map(Event::Requeue),
        2 => (0usize..8).prop_map(Event::Delete),
        2 => Just(Event::Record),
        2 => Just(Event::Deliver),
        3 => (0.001f64..2.0).prop_map(Event::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is noted when and arrives when: no job that the batch system has is lost, none that it
    /// told about comes back, and after a note of how things are now the book has exactly what it has.
    #[test]
    fn the_book_follows_the_batch_system(events in proptest::collection::vec(event(), 1..60)) {
        let mut book = book();
        let mut pbs: BTreeMap<String, JobRecord> = BTreeMap::new();
        let mut ended: BTreeSet<String> = BTreeSet::new();
        let (mut now, mut number, mut note) = (0.0f64, 0, None::<Snapshot>);
        let take = |pbs: &BTreeMap<String, JobRecord>, now: f64| Snapshot {
            consumables: Vec::new(),
            version: 1,
            now,
            nodes: vec![node("n1", 1.0), node("n2", 2.0)],
            jobs: pbs.values().cloned().collect(),
        };
        for event in events {
            let nth = |n: usize| pbs.keys().nth(n % pbs.len().max(1)).cloned();
            match event {
                Event::Wait(seconds) => now += seconds,
                Event::Submit => {
                    if let Ok(admitted) = book.admit(&half(), now) {
                        number += 1;
                        let id = format!("j{number}");
                        book.bind(admitted.token, &id, now).expect("just given");
                        let snapshot = book.snapshot();
                        let record = snapshot.jobs.iter().find(|job| job.id.as_ref() == Some(&id));
                        let mut record = record.cloned().expect("just entered");
                        record.token = 0;
                        pbs.insert(id, record);
                    }
                }
                Event::Start(n) => if let Some(id) = nth(n) {
                    pbs.get_mut(&id).expect("it is there").phase = Phase::Running;
                    // One that a late note has not brought yet is not known.
                    let _ = book.started(&id, now);
                },
                Event::Requeue(n) => if let Some(id) = nth(n) {
                    pbs.get_mut(&id).expect("it is there").phase = Phase::Bound;
                    let _ = book.requeued(&id, now);
                },
                Event::End(n) => if let Some(id) = nth(n) {
                    pbs.remove(&id);
                    ended.insert(id.clone());
                    let _ = book.ended(&id, now);
                },
                Event::Delete(n) => if let Some(id) = nth(n) {
                    pbs.remove(&id);
                },
                Event::Record => note = Some(take(&pbs, now)),
                Event::Deliver => if let Some(note) = note.take() {
                    now += 0.001;
                    let differences = book.reconcile(&note, now).expect("recent");
                    prop_assert!(differences.problems.is_empty(), "{differences:?}");
                },
            }
            for id in pbs.keys() {
                prop_assert!(book.contains(id), "{id} was lost");
            }
            for id in &ended {
                prop_assert!(!book.contains(id), "{id} came back");
            }
        }
        now += 1.0;
        let last = take(&pbs, now);
        book.reconcile(&last, now).expect("recent");
        let has: BTreeSet<String> = book.snapshot().jobs.into_iter().filter_map(|job| job.id).collect();
        prop_assert_eq!(has, pbs.keys().cloned().collect::<BTreeSet<_>>());
        for (id, record) in &pbs {
            let running = book.snapshot().jobs.iter().any(|job| job.id.as_ref() == Some(id) && job.phase == Phase::Running);
            prop_assert_eq!(running, record.phase == Phase::Running, "{}", id);
        }
    }
}
