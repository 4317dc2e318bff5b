//! Jobs that an administrator lets wait, and those past their deadlines.

use super::super::records::Rewrite;
use super::*;

/// slurmctld has on record what it was told.
fn written(queue: &mut Queue, rewrites: &[Rewrite]) {
    for rewrite in rewrites {
        let told = Change {
            job: rewrite.job.to_string(),
            by_administrator: true,
            admin_comment: Some(rewrite.admin_comment.clone()),
            ..Change::default()
        };
        assert_eq!(
            queue.controller.change(&told, START),
            Ok(None),
            "its own record"
        );
        let job = queue.job(rewrite.job);
        job.admin_comment = rewrite.admin_comment.clone().into();
        job.comment = rewrite.comment.clone();
        job.waits |= rewrite.hold;
    }
}

fn poll(queue: &mut Queue, now: f64) -> super::super::poll::Poll {
    let poll = queue.poll(now);
    written(queue, &poll.rewrites);
    poll
}

/// A job of half a processor on n1 that waits, a second after its submission.
fn waiting(queue: &mut Queue, node: &str) -> u32 {
    let on = Submission {
        required_nodes: vec![node.to_string()],
        ..asks("50", "100", "1000")
    };
    let accepted = queue.accept(&on, START);
    let id = queue.enqueue(&accepted);
    queue.poll(START + 1.0);
    id
}

#[test]
fn a_held_job_gives_its_share_back_and_is_asked_anew() {
    let mut queue = Queue::new(EXACT);
    let id = waiting(&mut queue, "n1");
    assert_eq!(queue.committed()["n1"], 0.505);
    queue.job(id).waits = true;
    queue.job(id).comment = "mine".to_string();
    let held = poll(&mut queue, START + 2.0);
    assert_eq!((held.dropped.len(), held.rewrites.len()), (1, 1));
    assert!(
        held.log[0].contains("is held: its share is free"),
        "{:?}",
        held.log
    );
    assert!(queue.job(id).comment.starts_with("mine | libra: held: "));
    assert_eq!(queue.committed()["n1"], 0.0);
    // Nothing is said twice, and nothing is gone.
    let again = poll(&mut queue, START + 3.0);
    assert!(again.log.is_empty() && again.rewrites.is_empty() && again.dropped.is_empty());
    // Somebody else's now.
    let other = Submission {
        required_nodes: vec!["n1".to_string()],
        ..asks("80", "100", "1000")
    };
    let other = queue.accept(&other, START + 4.0);
    let other = queue.enqueue(&other);
    queue.run(other, &["n1"], START + 4.0);
    queue.poll(START + 5.0);
    // Released: there is no room, so it is held again and told so.
    queue.job(id).waits = false;
    let no_room = poll(&mut queue, START + 6.0);
    assert!(
        no_room.rewrites[0].hold && queue.job(id).waits,
        "{no_room:?}"
    );
    let comment = &queue.job(id).comment;
    assert!(
        comment.starts_with("mine | libra: refused (share): "),
        "{comment}"
    );
    assert_eq!(comment.matches("libra:").count(), 1, "{comment}");
    assert_eq!(queue.committed()["n1"], 0.8);
    // There is room: less time is left, so the share is larger, and it is a commitment of its own.
    queue.job(other).state = State::Ended;
    queue.job(other).ended = START + 20.0;
    queue.poll(START + 20.0);
    queue.job(id).waits = false;
    let commitment = poll(&mut queue, START + 20.0);
    assert!(!commitment.rewrites[0].hold, "{commitment:?}");
    let line = queue.job(id).admin_comment.to_string();
    assert!(
        line.starts_with("libra:v=1:") && line.contains(":was="),
        "{line}"
    );
    assert_eq!(queue.committed()["n1"], 0.625);
    let quiet = poll(&mut queue, START + 21.0);
    assert!(
        quiet.log.is_empty() && quiet.rewrites.is_empty(),
        "{quiet:?}"
    );
    // Past its deadline there is nothing to ask for.
    queue.job(id).waits = true;
    poll(&mut queue, START + 22.0);
    queue.job(id).waits = false;
    poll(&mut queue, START + 100.0);
    let comment = &queue.job(id).comment;
    assert!(
        comment.contains("refused (deadline): it was held past"),
        "{comment}"
    );
}

#[test]
fn one_that_runs_before_it_was_asked_gets_what_there_is() {
    let mut queue = Queue::new(EXACT);
    let (first, second) = (waiting(&mut queue, "n1"), waiting(&mut queue, "n2"));
    for id in [first, second] {
        queue.job(id).waits = true;
    }
    poll(&mut queue, START + 2.0);
    let other = Submission {
        required_nodes: vec!["n2".to_string()],
        ..asks("80", "100", "1000")
    };
    let other = queue.accept(&other, START + 3.0);
    queue.enqueue(&other);
    queue.run(first, &["n1"], START + 3.0);
    queue.run(second, &["n2"], START + 3.0);
    poll(&mut queue, START + 4.0);
    assert!(queue.job(first).admin_comment.starts_with("libra:v=1:"));
    let committed = queue.committed();
    assert!(
        committed["n1"] > 0.5 && committed["n2"] < 0.9,
        "{committed:?}"
    );
    let second = queue.job(second);
    assert!(second.admin_comment.starts_with("libra-nothing:v=1:"));
    assert!(
        second
            .comment
            .contains("runs without a promise: refused (share)")
    );
    // It stays so, and its record is still nobody's to change.
    assert!(poll(&mut queue, START + 5.0).rewrites.is_empty());
    let wiped = Change {
        job: "2".to_string(),
        by_administrator: true,
        admin_comment: Some(String::new()),
        ..Change::default()
    };
    assert!(queue.controller.change(&wiped, START).is_err());
}

#[test]
fn a_restart_knows_who_gave_his_share_back() {
    let mut queue = Queue::new(EXACT);
    let id = waiting(&mut queue, "n1");
    queue.job(id).waits = true;
    poll(&mut queue, START + 2.0);
    let config = Config::from_toml(&whole_processors(EXACT)).expect("ours");
    queue.controller = Controller::new(&config, START + 3.0);
    poll(&mut queue, START + 3.0);
    assert_eq!(queue.committed()["n1"], 0.0);
    queue.job(id).waits = false;
    poll(&mut queue, START + 4.0);
    assert!(queue.committed()["n1"] > 0.5);
}

#[test]
fn past_its_deadline_a_waiting_job_holds_nothing_until_it_runs() {
    let mut queue = Queue::new(EXACT);
    let id = waiting(&mut queue, "n1");
    let late = poll(&mut queue, START + 100.0);
    assert!(
        late.log[0].contains("waits past its deadline"),
        "{:?}",
        late.log
    );
    assert!(late.rewrites.is_empty() && late.dropped.is_empty());
    assert_eq!(queue.committed()["n1"], 0.0);
    assert!(poll(&mut queue, START + 101.0).log.is_empty());
    queue.run(id, &["n1"], START + 102.0);
    poll(&mut queue, START + 103.0);
    assert!(queue.committed()["n1"] > 0.0);
}

#[test]
fn an_array_keeps_its_own_while_it_is_held() {
    let mut queue = Queue::new(EXACT);
    let array = Submission {
        array: Some("1-2".to_string()),
        required_nodes: vec!["n2".to_string()],
        ..asks("25", "100", "1000")
    };
    let array = queue.accept(&array, START + 1.0);
    let array = queue.enqueue(&array);
    queue.poll(START + 2.0);
    let before = queue.committed()["n2"];
    queue.job(array).waits = true;
    let held = poll(&mut queue, START + 3.0);
    assert!(
        held.rewrites.is_empty() && held.dropped.is_empty(),
        "{held:?}"
    );
    assert!(before > 0.5 && queue.committed()["n2"] >= before);
}

/// `scontrol requeuehold` by its owner: else a node is kept for ever, for the price of the seconds that it ran.
#[test]
fn a_job_that_was_requeued_and_is_held_holds_nothing() {
    let mut queue = Queue::new(EXACT);
    let id = waiting(&mut queue, "n1");
    queue.run(id, &["n1"], START + 2.0);
    queue.poll(START + 2.0);
    let job = queue.job(id);
    (job.state, job.nodes, job.restarts) = (State::Pending, Vec::new(), 1);
    // Slurm lets it begin some time later: that is no hold.
    job.waits = true;
    assert_eq!(poll(&mut queue, START + 4.0).rewrites, []);
    assert!(queue.committed()["n1"] > 0.5);
    queue.job(id).held = true;
    let held = poll(&mut queue, START + 5.0);
    assert!(
        !held.rewrites[0].starts(),
        "nobody but its owner lets it go"
    );
    assert!(
        held.dropped.is_empty(),
        "it has used some of what it pays for"
    );
    let comment = &queue.job(id).comment;
    assert!(
        comment.starts_with("libra: held after it was requeued: "),
        "{comment}"
    );
    assert!(queue.job(id).admin_comment.starts_with("libra:v=1:"));
    assert_eq!(queue.committed()["n1"], 0.0);
    assert_eq!(
        poll(&mut queue, START + 6.0),
        super::super::poll::Poll::default()
    );
    let other = Submission {
        required_nodes: vec!["n1".to_string()],
        ..asks("80", "100", "1000")
    };
    let other = queue.accept(&other, START + 7.0);
    queue.enqueue(&other);
    let release = Change {
        job: id.to_string(),
        committed_properties: vec!["Priority"],
        holds: true,
        ..Change::default()
    };
    assert_eq!(queue.controller.change(&release, START + 7.0), Ok(None));
    // Released it is there again, and nobody else is promised what it may use.
    (queue.job(id).held, queue.job(id).waits) = (false, false);
    poll(&mut queue, START + 8.0);
    assert!(queue.committed()["n1"] > 1.3);
}

/// Its owner has spent what he had, and has requeued what was paid for.
#[test]
fn a_job_that_runs_once_more_and_is_not_paid_for_has_no_promise() {
    let mut queue = Queue::new(EXACT);
    let id = waiting(&mut queue, "n1");
    queue.job(id).restarts = 1;
    queue.controller.take_unpaid([id, 99].into());
    let told = poll(&mut queue, START + 2.0);
    assert_eq!((told.rewrites.len(), told.dropped.len()), (1, 0));
    let job = queue.job(id);
    assert!(job.admin_comment.starts_with("libra-nothing:v=1:"));
    let comment = &job.comment;
    assert!(comment.contains("does not cover another run"), "{comment}");
    assert_eq!(queue.committed()["n1"], 0.0);
    let quiet = poll(&mut queue, START + 3.0);
    assert!(
        quiet.log.is_empty() && quiet.rewrites.is_empty(),
        "{quiet:?}"
    );
}
