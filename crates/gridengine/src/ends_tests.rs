use super::*;
use crate::records::Detail;
use libra_accounts::settlement::{Settlement, settle};
use libra_config::Overrun;

const SUBMITTED: f64 = 1000.5;
const PATIENCE: f64 = 20.0;

fn commitment(count: u32) -> Commitment {
    let line = format!(
        "v=1:token=17:submitted={SUBMITTED}:estimate=100:deadline=200:budget=150:type=hard:penalty=0:price=105:\
         chunks=1:processors=1:memory=0:scatter=0:count={count}:payer=user/ann:at=n1*{count}*0.525"
    );
    Commitment::parse(&line).expect("ours")
}

/// A queue with one job, number 7, and the file that says how it ends.
struct Queue {
    ends: Ends,
    records: Records,
    counts: Counts,
}

impl Queue {
    fn new(tasks: Option<(u32, u32)>) -> Queue {
        let mut ends = Ends::default();
        let count = if tasks.is_some() { 3 } else { 1 };
        ends.watch(7, Watched::new(commitment(count), tasks));
        Queue {
            ends,
            records: Records::default(),
            counts: Counts::EMPTY,
        }
    }

    /// A list of `at`, in which these tasks run since then and these wait.
    fn list(&mut self, at: f64, running: &[(u32, f64)], waiting: &[u32], held: bool) {
        self.records.taken = at;
        self.records.jobs.clear();
        self.records.details.clear();
        if running.is_empty() && waiting.is_empty() {
            return;
        }
        let is_array = self
            .ends
            .jobs()
            .get(&7)
            .is_some_and(|job| job.tasks.is_some());
        let listed = Listed {
            is_array,
            running: running.iter().map(|(task, _)| *task).collect(),
            waiting: waiting.iter().copied().collect(),
            held: waiting.iter().copied().filter(|_| held).collect(),
        };
        self.records.jobs.insert(7, listed);
        let detail = Detail {
            user: 1001,
            commitment: Some(Ok(commitment(if is_array { 3 } else { 1 }))),
            tasks: (1, 1),
            asked: None,
            started: running.iter().copied().collect(),
        };
        self.records.details.insert(7, detail);
    }

    fn round(&mut self, runs: Vec<Run>) -> Vec<(Ended, String)> {
        let found = self
            .ends
            .round(&self.records, runs, PATIENCE, &mut self.counts);
        for (ended, _) in &found {
            self.ends.settled(ended);
        }
        found
    }

    /// The one end that there is now.
    fn end(&mut self, runs: Vec<Run>) -> (End, String) {
        let found = self.round(runs);
        assert_eq!(found.len(), 1, "{found:?}");
        (found[0].0.end, found[0].1.clone())
    }
}

/// It has run from then to then.
fn run(started: i64, ended: i64) -> Run {
    Run {
        job: 7,
        task: None,
        started,
        ended,
        is_taken_back: false,
        failed: 0,
        exit: 0,
        is_measured: true,
        is_over_limit: false,
        cpu: 50.0,
    }
}

fn paid(end: &End) -> Settlement {
    settle(
        105.0,
        &commitment(1).request.terms,
        0.05,
        0.525,
        end,
        Overrun::Free,
    )
}

#[test]
fn a_job_ends_when_it_is_gone_and_its_record_is_there() {
    let mut queue = Queue::new(None);
    queue.list(1002.0, &[], &[1], false);
    assert!(queue.round(Vec::new()).is_empty());
    queue.list(1010.0, &[(1, 1003.0)], &[], false);
    assert!(queue.round(Vec::new()).is_empty());
    // The record may be there before the list knows.
    assert!(queue.round(vec![run(1003, 1103)]).is_empty());
    queue.list(1104.0, &[], &[], false);
    let (end, line) = queue.end(Vec::new());
    assert_eq!(
        (end.how, end.took, end.waited),
        (HowEnded::Itself, 102.5, Some(2.5))
    );
    assert_eq!(end.used, Some(50.0));
    assert_eq!(
        line,
        "job 7 met its deadline: ended after 1m43s of 3m20s, used 50 s of the estimated 1m40s, price 105"
    );
    assert_eq!(queue.counts.ended(Outcome::Met), 1);
    assert_eq!(queue.ends.take_changed(), [(7, None)], "it is settled");
    assert!(queue.round(Vec::new()).is_empty(), "once");
    assert!(queue.ends.since().is_infinite());
}

#[test]
fn the_record_comes_later_or_not_at_all() {
    let mut queue = Queue::new(None);
    queue.list(1010.0, &[(1, 1003.0)], &[], false);
    queue.round(Vec::new());
    queue.list(1060.0, &[], &[], false);
    assert!(queue.round(Vec::new()).is_empty());
    queue.records.taken += PATIENCE + RAN - 1.0;
    assert!(queue.round(Vec::new()).is_empty());
    queue.records.taken += 2.0;
    let (end, line) = queue.end(Vec::new());
    assert_eq!((end.how, end.used), (HowEnded::Cancelled, None));
    assert!(
        line.starts_with("job 7 is gone, and the accounting file does not say how"),
        "{line}"
    );
    assert_eq!(queue.counts.ended(Outcome::Unknown), 1);
    // For the time that it was seen to run.
    let part = (1010.0 - 1003.0) / 200.0;
    assert!((paid(&end).charge - 105.0 * part).abs() < 1e-6, "{end:?}");
}

#[test]
fn one_that_was_deleted_while_it_waited_pays_nothing() {
    let mut queue = Queue::new(None);
    queue.list(1003.0, &[], &[1], false);
    queue.round(Vec::new());
    queue.list(1004.0, &[], &[], false);
    assert!(queue.round(Vec::new()).is_empty());
    queue.records.taken += PATIENCE;
    let (end, line) = queue.end(Vec::new());
    assert_eq!((end.how, paid(&end).charge), (HowEnded::NeverBegan, 0.0));
    assert!(line.starts_with("job 7 never began"), "{line}");
    assert_eq!(queue.counts.ended(Outcome::Cancelled), 1);
}

#[test]
fn who_was_not_there_does_not_say_that_it_never_began() {
    let mut queue = Queue::new(None);
    let mut watched = Watched::new(commitment(1), None);
    watched.seen = Seen::Running;
    queue.ends = Ends::default();
    queue.ends.watch(7, watched);
    queue.list(1100.0, &[], &[], false);
    assert!(queue.round(Vec::new()).is_empty());
    queue.records.taken += PATIENCE + RAN;
    let (end, line) = queue.end(Vec::new());
    assert!(
        line.contains("the accounting file does not say how"),
        "{line}"
    );
    assert_eq!(queue.counts.ended(Outcome::Unknown), 1);
    // What is in doubt is free.
    assert_eq!(paid(&end).charge, 0.0);
}

#[test]
fn one_that_qmaster_did_not_queue_is_withdrawn() {
    let mut queue = Queue::new(None);
    queue.list(1001.0, &[], &[], false);
    assert!(queue.round(Vec::new()).is_empty(), "it may come yet");
    queue.records.taken = 1003.0;
    assert!(queue.round(Vec::new()).is_empty());
    queue.records.taken += PATIENCE;
    let (end, line) = queue.end(Vec::new());
    assert_eq!(end.how, HowEnded::NeverBegan);
    assert_eq!(line, "job 7 was accepted, and qmaster did not queue it");
    assert_eq!(
        (
            queue.counts.withdrawn,
            queue.counts.ended(Outcome::Cancelled)
        ),
        (1, 0)
    );
}

#[test]
fn grid_engines_reasons_are_read_as_they_are_meant() {
    let of = |failed, exit, is_measured, is_over_limit| {
        how_ended(&Run {
            failed,
            exit,
            is_measured,
            is_over_limit,
            ..run(1003, 1103)
        })
    };
    use HowEnded::*;
    for (failed, exit, is_measured, is_over_limit, how) in [
        (0, 0, true, false, Itself),
        (0, 3, true, false, Itself),
        // qdel, and qdel -f.
        (100, 137, true, false, Cancelled),
        (0, 0, false, false, Cancelled),
        // A program that crashes.
        (100, 139, true, false, Itself),
        // h_rt, h_cpu.
        (37, 137, true, false, TimeLimit),
        (100, 137, true, true, TimeLimit),
        (100, 152, true, true, TimeLimit),
        // Its output cannot be written; its host's own trouble.
        (26, 0, false, false, NeverBegan),
        (30, 100, true, false, Itself),
        (8, 0, false, false, NodeFailure),
        (19, 0, false, false, NodeFailure),
        (15, 0, true, false, Itself),
    ] {
        assert_eq!(
            of(failed, exit, is_measured, is_over_limit),
            how,
            "{failed} {exit}"
        );
    }
    let never = Run {
        is_measured: false,
        ..run(0, 0)
    };
    assert_eq!(how_ended(&never), NeverBegan);
}

#[test]
fn a_run_that_was_taken_back_is_no_end_and_is_not_forgotten() {
    let mut queue = Queue::new(None);
    queue.list(1003.0, &[(1, 1003.0)], &[], false);
    queue.round(Vec::new());
    queue.list(1073.0, &[(1, 1003.0)], &[], false);
    let taken_back = Run {
        is_taken_back: true,
        failed: 25,
        is_measured: false,
        ..run(0, 0)
    };
    assert!(queue.round(vec![taken_back]).is_empty());
    queue.list(1075.0, &[], &[1], false);
    assert!(queue.round(Vec::new()).is_empty());
    queue.list(1300.0, &[(1, 1298.0)], &[], false);
    assert!(queue.round(Vec::new()).is_empty());
    queue.list(1304.0, &[], &[], false);
    let last = Run {
        cpu: 1.0,
        ..run(1298, 1303)
    };
    let (end, _) = queue.end(vec![last]);
    // 70 s at its share, which nobody has measured.
    assert_eq!(end.used, Some(1.0 + 70.0 * 0.525));
    assert_eq!((end.waited, end.restarted), (None, true));
    // Its user may have taken it back: it is late, and nobody is paid for that.
    let paid = paid(&end);
    assert!(paid.charge > 0.0 && paid.compensation == 0.0, "{paid:?}");
}

#[test]
fn what_a_host_takes_to_find_out_that_it_cannot_begin_a_job_costs_nothing() {
    let failed = |failed| Run {
        failed,
        is_measured: false,
        ..run(1043, 1043)
    };
    // Its output cannot be written; its prolog fails.
    for code in [26, 8] {
        let mut queue = Queue::new(None);
        for at in [1003.0, 1043.0] {
            queue.list(at, &[(1, 1003.0)], &[], false);
            assert!(queue.round(Vec::new()).is_empty());
        }
        queue.list(1045.0, &[], &[1], true);
        assert!(queue.round(vec![failed(code)]).is_empty());
        // It is deleted then.
        queue.list(1100.0, &[], &[], false);
        let (end, _) = queue.end(Vec::new());
        assert_eq!(
            (end.used, paid(&end).charge),
            (None, 0.0),
            "{code}: {end:?}"
        );
    }
    // It is begun again, and runs.
    let mut queue = Queue::new(None);
    for at in [1003.0, 1043.0] {
        queue.list(at, &[(1, 1003.0)], &[], false);
        queue.round(Vec::new());
    }
    queue.list(1045.0, &[], &[1], true);
    queue.round(vec![failed(26)]);
    queue.list(1061.0, &[(1, 1060.0)], &[], false);
    queue.round(Vec::new());
    queue.list(1120.0, &[], &[], false);
    let (end, _) = queue.end(vec![run(1060, 1110)]);
    assert_eq!((end.how, end.used), (HowEnded::Itself, Some(50.0)));
}

#[test]
fn one_that_is_started_anew_between_two_lists_is_seen_by_its_start() {
    let mut queue = Queue::new(None);
    for (at, started) in [(1003.0, 1003.0), (1053.0, 1003.0), (1056.0, 1055.0)] {
        queue.list(at, &[(1, started)], &[], false);
        assert!(queue.round(Vec::new()).is_empty());
    }
    queue.list(1060.0, &[], &[], false);
    let (end, _) = queue.end(vec![run(1055, 1058)]);
    assert_eq!((end.used, end.restarted), (Some(50.0 + 50.0 * 0.525), true));
}

#[test]
fn who_holds_his_own_job_is_not_paid_for_its_delay() {
    let late = |held| {
        let mut queue = Queue::new(None);
        queue.list(1003.0, &[], &[1], held);
        queue.round(Vec::new());
        let changed = queue.ends.take_changed();
        assert_eq!(changed[0].1.map(|watched| watched.held), Some(held));
        queue.list(1250.0, &[(1, 1250.0)], &[], false);
        queue.round(Vec::new());
        queue.list(1290.0, &[], &[], false);
        let (end, line) = queue.end(vec![run(1250, 1289)]);
        assert!(line.contains("missed its deadline"), "{line}");
        assert_eq!(queue.counts.ended(Outcome::Late), 1);
        paid(&end)
    };
    // The site's delay of a hard deadline costs nothing; of a job that was held nobody knows whose it was.
    assert_eq!(late(false).charge, 0.0);
    assert_eq!(late(true).reason, "late, for what it used");
    assert!(late(true).charge > 50.0);
}

#[test]
fn each_task_of_an_array_ends_for_itself() {
    let mut queue = Queue::new(Some((1, 1)));
    queue.list(1003.0, &[(1, 1003.0), (2, 1003.0)], &[3], false);
    queue.round(Vec::new());
    let of = |task| Run {
        task: Some(task),
        ..run(1003, 1053)
    };
    queue.list(1060.0, &[(1, 1003.0)], &[], false);
    let found = queue.round(vec![of(2)]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0.name.as_str(), found[0].0.part), ("7.2", 1));
    let changed = queue.ends.take_changed();
    let watched = changed[0].1.expect("the others");
    assert_eq!(watched.settled, BTreeSet::from([1]));
    // The third one was deleted while it waited.
    queue.list(1060.0 + PATIENCE, &[(1, 1003.0)], &[], false);
    let found = queue.round(Vec::new());
    assert_eq!((found.len(), found[0].0.end.how), (1, HowEnded::NeverBegan));
    queue.list(1090.0, &[], &[], false);
    let found = queue.round(vec![of(1), of(9)]);
    assert_eq!(found[0].0.name, "7.1");
    assert_eq!(queue.ends.take_changed(), [(7, None)]);
}

#[test]
fn who_has_lost_its_files_finds_jobs_in_the_queue() {
    let mut queue = Queue::new(None);
    queue.ends = Ends::default();
    queue.list(1100.0, &[(1, 1003.0)], &[], false);
    assert!(queue.round(Vec::new()).is_empty());
    let changed = queue.ends.take_changed();
    assert!(matches!(changed[..], [(7, Some(_))]), "{changed:?}");
    queue.list(1110.0, &[], &[], false);
    // A record of another job that had this number is none of it.
    assert!(queue.round(vec![run(100, 200)]).is_empty());
    let (end, _) = queue.end(vec![run(1003, 1108)]);
    assert_eq!(end.how, HowEnded::Itself);
}
