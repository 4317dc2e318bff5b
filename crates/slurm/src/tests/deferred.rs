//! Jobs that may not start yet.

use super::super::poll::Poll;
use super::super::records::WaitingFor;
use super::super::waiting::{KEPT, asked_begin, groups};
use super::*;
use libra_accounts::settlement::HowEnded;

/// slurmctld has on record what it was told: the tasks of an array each by itself, from then on.
pub(super) fn written(queue: &mut Queue, poll: &Poll) {
    for rewrite in &poll.rewrites {
        let told = Change {
            job: rewrite.name(),
            by_administrator: true,
            admin_comment: Some(rewrite.admin_comment.clone()),
            begin: rewrite.begin.map(|begin| begin as f64),
            ..Change::default()
        };
        assert_eq!(
            queue.controller.change(&told, START),
            Ok(None),
            "its own record"
        );
        let deferred = super::super::array::is_deferred(&rewrite.admin_comment);
        let jobs = queue.records.jobs.iter_mut();
        for job in jobs.filter(|job| job.id == rewrite.job) {
            job.admin_comment = rewrite.admin_comment.clone().into();
            job.comment = rewrite.comment.clone();
            job.waits |= rewrite.hold;
            job.kept = match rewrite.begin {
                None => job.kept,
                Some(begin) => begin > KEPT,
            };
            job.deferred = job.deferred.take().filter(|_| deferred);
        }
    }
}

pub(super) fn poll(queue: &mut Queue, now: f64) -> Poll {
    let poll = queue.poll(now);
    written(queue, &poll);
    poll
}

/// Submits what may not start yet; its number. It waits for its user unless it has a time.
fn enqueue(queue: &mut Queue, submission: &Submission, now: f64) -> u32 {
    let accepted = queue.accept(submission, now);
    assert!(accepted.nodes.is_empty() && !accepted.hold);
    assert!(accepted.quote.starts_with("deferred: "), "{accepted:?}");
    let begin = asked_begin(accepted.begin.expect("a time") as f64, now).expect("Libra's own");
    let id = queue.enqueue(&accepted);
    let job = queue.job(id);
    (job.kept, job.waits) = (true, submission.held);
    job.deferred = Some(Box::new(WaitingFor {
        begin,
        partition: "main".to_string(),
        required_nodes: submission.required_nodes.clone(),
        ..WaitingFor::default()
    }));
    id
}

fn held(estimate: &str, deadline: &str) -> Submission {
    Submission {
        held: true,
        ..asks(estimate, deadline, "1000")
    }
}

/// Somebody else has most of a node.
fn fill(queue: &mut Queue, node: &str, now: f64) -> u32 {
    let on = Submission {
        required_nodes: vec![node.to_string()],
        ..asks("90", "100", "1000")
    };
    let accepted = queue.accept(&on, now);
    let id = queue.enqueue(&accepted);
    queue.run(id, &[node], now);
    poll(queue, now);
    id
}

#[test]
fn it_holds_nothing_and_is_confirmed_when_it_may_start() {
    let mut queue = Queue::new(EXACT);
    let id = enqueue(&mut queue, &held("30", "100"), START);
    let first = poll(&mut queue, START + 1.0);
    assert!(
        first.rewrites.is_empty() && first.log.is_empty(),
        "{first:?}"
    );
    assert!(
        queue
            .committed()
            .values()
            .all(|committed| *committed == 0.0)
    );
    // The first three are full: it goes where there is room, whoever was first.
    for node in ["n1", "n2", "n3"] {
        fill(&mut queue, node, START + 2.0);
    }
    queue.job(id).waits = false;
    let now = START + 40.0;
    let confirmed = poll(&mut queue, now);
    let [rewrite] = &confirmed.rewrites[..] else {
        panic!("{confirmed:?}");
    };
    assert_eq!(rewrite.nodes, ["n4"]);
    assert_eq!((rewrite.begin, rewrite.hold), (Some(now as u64), false));
    assert!(rewrite.comment.contains("accepted: 50 %"), "{rewrite:?}");
    assert_eq!(queue.committed()["n4"], 0.5);
    let commitment = JobCommitment::parse(&queue.job(id).admin_comment);
    let commitment = commitment.expect("ours").expect("read").commitment;
    assert_eq!(
        (commitment.submitted, commitment.request.terms.deadline),
        (now, 60.0)
    );
    let quiet = poll(&mut queue, now + 1.0);
    assert!(
        quiet.rewrites.is_empty() && quiet.log.is_empty(),
        "{quiet:?}"
    );
    // Held from now on, it gives its share back as any other, and what its environment names stays known.
    queue.job(id).waits = true;
    poll(&mut queue, now + 2.0);
    assert!(queue.job(id).admin_comment.starts_with("libra-held:"));
    let was = queue
        .job(id)
        .admin_comment
        .split(":was=")
        .nth(1)
        .map(str::to_string);
    // It was its user who held it, at the same moment.
    queue.poll(now + 2.5);
    let change = |what| Change {
        job: id.to_string(),
        holds: true,
        committed_properties: vec![what],
        ..Change::default()
    };
    assert_eq!(queue.controller.change(&change("Priority"), now), Ok(None));
    assert!(queue.controller.change(&change("StartTime"), now).is_err());
    queue.job(id).waits = false;
    poll(&mut queue, now + 3.0);
    let line = &queue.job(id).admin_comment;
    assert_eq!(line.split(":was=").nth(1).map(str::to_string), was);
}

#[test]
fn before_its_time_and_after_a_restart_it_waits() {
    let mut queue = Queue::new(EXACT);
    let later = Submission {
        begin: Some(START + 30.0),
        ..asks("30", "100", "1000")
    };
    let id = enqueue(&mut queue, &later, START);
    let begin = queue.job(id).deferred.as_ref().map(|waiting| waiting.begin);
    assert_eq!(begin, Some(START + 30.0));
    for now in [START + 1.0, START + 29.0] {
        assert!(poll(&mut queue, now).rewrites.is_empty());
    }
    let config = Config::from_toml(&whole_processors(EXACT)).expect("ours");
    queue.controller = Controller::new(&config, START + 29.5);
    poll(&mut queue, START + 29.6);
    assert!(
        queue
            .committed()
            .values()
            .all(|committed| *committed == 0.0)
    );
    assert_eq!(poll(&mut queue, START + 30.0).rewrites.len(), 1);
}

#[test]
fn after_a_restart_it_is_not_given_what_a_quote_holds() {
    let mut queue = Queue::new(EXACT);
    for node in ["n1", "n2", "n3"] {
        fill(&mut queue, node, START);
    }
    let id = enqueue(&mut queue, &held("60", "100"), START);
    let mut quoted = asks("60", "100", "1000");
    (quoted.options).push(("sla-quote".to_string(), "hold:5m".to_string()));
    let answer = queue.controller.submit(&quoted, START);
    assert!(matches!(answer, Answer::Answered(_)), "{answer:?}");
    let written = queue.controller.changed_quotes(START);
    // It may start as soon as there is a book again.
    queue.job(id).waits = false;
    let config = Config::from_toml(&whole_processors(EXACT)).expect("ours");
    queue.controller = Controller::new(&config, START + 1.0);
    queue.controller.take_written_quotes(written);
    poll(&mut queue, START + 2.0);
    assert_eq!(queue.committed()["n4"], 0.6);
}

#[test]
fn without_room_it_is_told_once_and_given_back_at_last() {
    let mut queue = Queue::new(EXACT);
    let on = Submission {
        required_nodes: vec!["n1".to_string()],
        ..held("40", "100")
    };
    let id = enqueue(&mut queue, &on, START);
    fill(&mut queue, "n1", START + 1.0);
    queue.job(id).waits = false;
    let waits = poll(&mut queue, START + 10.0);
    assert!(waits.rewrites[0].begin.is_none() && queue.job(id).kept);
    let comment = queue.job(id).comment.clone();
    assert!(comment.contains("if it begins within 59"), "{comment}");
    assert!(poll(&mut queue, START + 20.0).rewrites.is_empty());
    // Its node is down: that may end.
    queue.records.nodes[0].up = false;
    assert!(poll(&mut queue, START + 30.0).rewrites.is_empty());
    let lost = poll(&mut queue, START + 61.0);
    let [rewrite] = &lost.rewrites[..] else {
        panic!("{lost:?}");
    };
    assert!(rewrite.hold && rewrite.begin.is_some() && lost.dropped.len() == 1);
    assert!(
        queue
            .job(id)
            .admin_comment
            .starts_with("libra-nothing:v=1:")
    );
    assert!(
        queue
            .job(id)
            .comment
            .contains("its deferred promise is given back: refused (")
    );
    // Released it runs without one.
    queue.job(id).waits = false;
    let after = poll(&mut queue, START + 62.0);
    assert!(
        after.rewrites.is_empty() && after.dropped.is_empty(),
        "{after:?}"
    );
}

#[test]
fn what_can_never_start_and_what_is_late_give_their_promises_back() {
    let mut queue = Queue::new(EXACT);
    let (never, late) = (
        enqueue(&mut queue, &held("10", "100"), START),
        enqueue(&mut queue, &held("10", "50"), START),
    );
    queue.job(never).deferred.as_mut().expect("it waits").never = true;
    let given_back = poll(&mut queue, START + 1.0);
    let [rewrite] = &given_back.rewrites[..] else {
        panic!("{given_back:?}");
    };
    // Slurm says why it does not start.
    assert!(!rewrite.hold && rewrite.begin.is_none() && queue.job(never).kept);
    let lost = poll(&mut queue, START + 50.0);
    assert!(lost.rewrites[0].hold && lost.rewrites[0].job == late);
    let comment = &queue.job(late).comment;
    assert!(
        comment.contains("its deadline passed before it could start"),
        "{comment}"
    );
}

#[test]
fn an_array_is_confirmed_whole_and_each_task_told_its_node() {
    let mut queue = Queue::new(EXACT);
    let array = Submission {
        array: Some("1-3".to_string()),
        ..held("60", "100")
    };
    let id = enqueue(&mut queue, &array, START);
    assert!(
        poll(&mut queue, START + 1.0).pins.is_empty(),
        "it is its user's to release"
    );
    queue.job(id).waits = false;
    // One was cancelled meanwhile.
    queue.job(id).array.as_mut().expect("an array").tasks = vec![1, 3];
    let confirmed = poll(&mut queue, START + 2.0);
    let told: Vec<(String, &[String])> = (confirmed.rewrites.iter())
        .map(|rewrite| (rewrite.name(), &rewrite.nodes[..]))
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!([&told[0].0, &told[1].0], ["1_[1]", "1_[3]"]);
    assert_ne!(told[0].1, told[1].1);
    let known = JobCommitment::parse(&queue.job(id).admin_comment);
    let known = known.expect("ours").expect("read");
    assert_eq!((known.commitment.count, &known.tasks[..]), (2, &[1, 3][..]));
    assert_eq!(groups(&known).len(), 2);
    let book = queue.controller.book();
    assert!(book.contains("1_1") && book.contains("1_3") && book.job_count() == 2);
    assert!(poll(&mut queue, START + 3.0).rewrites.is_empty());
}

#[test]
fn users_change_when_it_is_asked_for_and_nothing_else() {
    let mut queue = Queue::new(EXACT);
    let change = |queue: &Queue, by_administrator, begin: Option<f64>, what: &[&'static str]| {
        let change = Change {
            job: "1".to_string(),
            by_administrator,
            holds: true,
            begin,
            committed_properties: what.to_vec(),
            ..Change::default()
        };
        queue.controller.change(&change, START + 2.0)
    };
    enqueue(&mut queue, &held("10", "100"), START);
    // Nobody knows yet which job it is.
    for by_administrator in [false, true] {
        let early = change(&queue, by_administrator, Some(START + 9.0), &["StartTime"]);
        assert!(early.is_err_and(|reason| reason.contains("only just submitted")));
    }
    assert!(!poll(&mut queue, START + 1.0).again);
    for by_administrator in [false, true] {
        let ask = |begin| change(&queue, by_administrator, Some(begin), &["StartTime"]);
        assert_eq!(ask(START + 9.0), Ok(Some(START as u64 + 9 + KEPT)));
        assert_eq!(ask(START - 9.0), Ok(Some(START as u64 + 2 + KEPT)));
        assert!(ask(START + 100.0).is_err_and(|reason| reason.contains("before its deadline")));
    }
    let years = change(&queue, true, Some(START + 2000.0 * 86400.0), &["StartTime"]);
    assert!(years.is_err_and(|reason| reason.contains("at most 1500 days")));
    assert_eq!(
        change(&queue, false, None, &["Dependency", "Priority"]),
        Ok(None)
    );
    assert!(change(&queue, false, None, &["Dependency", "TimeLimit"]).is_err());
}

#[test]
fn what_has_no_job_and_what_is_cancelled_hold_nothing() {
    let mut queue = Queue::new(EXACT);
    queue.accept(&held("10", "100"), START);
    assert!(poll(&mut queue, START + 1.0).again);
    let dropped = poll(&mut queue, START + 6.0);
    assert_eq!((dropped.dropped.len(), dropped.again), (1, false));
    let id = enqueue(&mut queue, &held("10", "100"), START + 6.0);
    poll(&mut queue, START + 7.0);
    let job = queue.job(id);
    (job.state, job.ended, job.deferred) = (State::Ended, START + 8.0, None);
    let told = |poll: Poll| poll.counts.ended(Outcome::Cancelled);
    assert_eq!(
        [8.0, 9.0].map(|after| told(poll(&mut queue, START + after))),
        [1, 0]
    );
}

/// slurmctld refuses to change what is over: its record has the deferred promise for ever.
#[test]
fn what_is_over_when_it_is_confirmed_is_told_and_holds_nothing() {
    let mut queue = Queue::new(EXACT);
    let array = Submission {
        array: Some("1-3".to_string()),
        ..held("30", "100")
    };
    for (submission, jobs) in [(held("30", "100"), 1), (array, 3)] {
        let id = enqueue(&mut queue, &submission, START);
        poll(&mut queue, START + 1.0);
        queue.job(id).waits = false;
        assert!(!queue.poll(START + 2.0).rewrites.is_empty());
        assert_eq!(queue.controller.book().job_count(), jobs);
        let job = queue.job(id);
        (job.state, job.ended, job.deferred) = (State::Ended, START + 2.0, None);
        job.how = HowEnded::NeverBegan;
        let told = poll(&mut queue, START + 3.0);
        assert_eq!(told.counts.ended(Outcome::Cancelled), jobs as u64);
        let line = format!("job {id} was ended before it was done: it was over when");
        assert!(
            told.log.iter().any(|said| said.starts_with(&line)),
            "{told:?}"
        );
        assert_eq!(queue.controller.book().job_count(), 0);
        assert!(poll(&mut queue, START + 4.0).log.is_empty());
    }
}

#[test]
fn one_that_ran_before_its_record_was_written_is_judged() {
    let mut queue = Queue::new(EXACT);
    let id = enqueue(&mut queue, &held("30", "100"), START);
    poll(&mut queue, START + 1.0);
    queue.run(id, &["n1"], START + 2.0);
    queue.job(id).deferred = None;
    assert!(!queue.poll(START + 3.0).rewrites.is_empty());
    let job = queue.job(id);
    (job.state, job.ended, job.how) = (State::Ended, START + 4.0, HowEnded::Itself);
    let told = poll(&mut queue, START + 5.0);
    assert_eq!(told.counts.ended(Outcome::Met), 1, "{told:?}");
    assert!(
        told.log
            .iter()
            .any(|said| said.starts_with(&format!("job {id} met its deadline")))
    );
    assert_eq!(queue.controller.book().job_count(), 0);
}

#[test]
fn one_that_runs_all_the_same_gets_what_there_is() {
    let mut queue = Queue::new(EXACT);
    let ids = [0, 1].map(|_| enqueue(&mut queue, &held("30", "100"), START));
    poll(&mut queue, START + 1.0);
    fill(&mut queue, "n2", START + 2.0);
    for (id, node) in ids.into_iter().zip(["n1", "n2"]) {
        queue.run(id, &[node], START + 3.0);
        queue.job(id).deferred = None;
    }
    poll(&mut queue, START + 4.0);
    assert!(
        queue
            .job(ids[0])
            .comment
            .contains("(its promise was deferred)")
    );
    assert!(queue.committed()["n1"] > 0.3);
    assert!(
        queue
            .job(ids[1])
            .admin_comment
            .starts_with("libra-nothing:")
    );
}

#[test]
fn a_begin_time_that_slurm_takes_away_is_given_again() {
    let mut queue = Queue::new(EXACT);
    let id = enqueue(&mut queue, &held("30", "100"), START);
    poll(&mut queue, START + 1.0);
    (queue.job(id).kept, queue.job(id).waits) = (false, false);
    let again = poll(&mut queue, START + 2.0);
    assert_eq!(again.rewrites[0].begin, Some(START as u64 + 2 + KEPT));
    assert!(queue.job(id).kept && again.rewrites.len() == 1, "{again:?}");
    let confirmed = poll(&mut queue, START + 3.0);
    assert_eq!(confirmed.rewrites[0].begin, Some(START as u64 + 3));
}

#[test]
fn what_slurmctld_took_in_part_is_told_again() {
    let mut queue = Queue::new(EXACT);
    let id = enqueue(&mut queue, &held("30", "100"), START);
    poll(&mut queue, START + 1.0);
    queue.job(id).waits = false;
    poll(&mut queue, START + 2.0);
    queue.job(id).kept = true;
    let again = poll(&mut queue, START + 3.0);
    assert!(
        again.rewrites[0].begin.is_some() && !queue.job(id).kept,
        "{again:?}"
    );
    assert_eq!(again.rewrites[0].nodes, ["n1"]);
    assert!(poll(&mut queue, START + 4.0).rewrites.is_empty());
}
