//! Planned starts of dedicated jobs, as slurmctld sees them.

use super::super::records::WaitingFor;
use super::super::waiting::{KEPT, asked_begin};
use super::deferred::poll;
use super::*;
use libra_core::commitment::Commitment;

const EXACT: &str = "[admission]\nestimate-margin = '0%'\n[slurm]\nstart-delay = '4s'\n";

pub(super) fn dedicated(estimate: &str, deadline: &str) -> Submission {
    let mut submission = Submission {
        required_nodes: vec!["n1".to_string()],
        ..asks(estimate, deadline, "100000")
    };
    let class = ("sla_class".to_string(), "dedicated".to_string());
    submission.options.push(class);
    submission
}

/// It is accepted and runs; its number.
pub(super) fn runs(queue: &mut Queue, submission: &Submission, now: f64) -> u32 {
    let accepted = queue.accept(submission, now);
    assert!(accepted.quote.starts_with("accepted: "), "{accepted:?}");
    let id = queue.enqueue(&accepted);
    poll(queue, now);
    queue.run(id, &["n1"], now);
    poll(queue, now);
    id
}

/// It is accepted, and waits for its planned start; its number.
pub(super) fn planned(queue: &mut Queue, submission: &Submission, now: f64) -> u32 {
    let accepted = queue.accept(submission, now);
    assert!(accepted.quote.starts_with("planned: "), "{accepted:?}");
    assert!(accepted.nodes.is_empty() && !accepted.hold);
    let begin = asked_begin(accepted.begin.expect("a time") as f64, now).expect("Libra's own");
    let id = queue.enqueue(&accepted);
    let job = queue.job(id);
    job.kept = true;
    job.deferred = Some(Box::new(WaitingFor {
        begin,
        partition: "main".to_string(),
        required_nodes: submission.required_nodes.clone(),
        ..WaitingFor::default()
    }));
    id
}

fn known(queue: &mut Queue, id: u32) -> Commitment {
    let comment = queue.job(id).admin_comment.clone();
    let known = JobCommitment::parse(&comment).expect("ours");
    known.expect("readable").commitment
}

pub(super) fn is_told(queue: &mut Queue, id: u32, now: f64) -> Option<Vec<String>> {
    let told = poll(queue, now);
    let rewrite = told.rewrites.into_iter().find(|one| one.job == id)?;
    assert_eq!(rewrite.begin, Some(now as u64), "{rewrite:?}");
    Some(rewrite.nodes)
}

#[test]
fn it_waits_in_its_place_and_begins_when_it_is_due() {
    let mut queue = Queue::new(EXACT);
    runs(&mut queue, &dedicated("100", "1000"), START);
    let accepted = queue.accept(&dedicated("50", "300"), START);
    assert_eq!(
        accepted.quote.split(", for ").next(),
        Some(
            "planned: a whole processor on n1, or elsewhere sooner: begins in 1m44s at the latest, finished in 5m00s at the latest"
        )
    );
    assert!(accepted.begin > Some(KEPT));
    // Its job does not come: its place is free again.
    queue.poll(START + 40.0);
    assert_eq!(queue.controller.book().job_count(), 1);
    let id = planned(&mut queue, &dedicated("50", "300"), START + 40.0);
    let first = poll(&mut queue, START + 41.0);
    assert!(
        first.log[0].contains(&format!("job {id}: planned for ")),
        "{first:?}"
    );
    assert_eq!(known(&mut queue, id).starts_by, Some(START + 104.0));
    // Behind it only, and not in its time.
    let text = queue.refuse(&dedicated("50", "150"), START + 50.0);
    assert!(text.contains("refused (share)"), "{text}");
    let share = Submission {
        required_nodes: vec!["n1".to_string()],
        ..asks("1", "500", "1000")
    };
    queue.refuse(&share, START + 50.0);
    // The one before it outlives its estimate.
    assert_eq!(is_told(&mut queue, id, START + 103.0), None);
    let now = START + 104.0;
    assert_eq!(is_told(&mut queue, id, now), Some(vec!["n1".to_string()]));
    let begun = known(&mut queue, id);
    assert!(!begun.deferred && begun.starts_by.is_none());
    // It is due when it was, and costs what it was told.
    assert_eq!(
        begun.submitted + begun.request.terms.deadline,
        START + 340.0
    );
    assert_eq!(queue.committed()["n1"], 2.0);
    let told = poll(&mut queue, now + 1.0);
    assert!(told.rewrites.is_empty() && told.log.is_empty(), "{told:?}");
}

#[test]
fn it_begins_sooner_and_elsewhere() {
    let mut queue = Queue::new(EXACT);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    let id = planned(&mut queue, &dedicated("50", "300"), START);
    poll(&mut queue, START + 1.0);
    let price = known(&mut queue, id).price;
    let job = queue.job(first);
    (job.state, job.ended) = (State::Ended, START + 10.0);
    let now = START + 11.0;
    assert_eq!(is_told(&mut queue, id, now), Some(vec!["n1".to_string()]));
    assert_eq!(known(&mut queue, id).price, price);
    assert_eq!(queue.committed()["n1"], 1.0);
}

#[test]
fn what_slurmctld_does_not_take_is_told_again() {
    let mut queue = Queue::new(EXACT);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    let id = planned(&mut queue, &dedicated("50", "300"), START);
    poll(&mut queue, START + 1.0);
    let job = queue.job(first);
    (job.state, job.ended) = (State::Ended, START + 10.0);
    let mut told = Vec::new();
    for after in 11..60 {
        let now = START + f64::from(after);
        if queue.poll(now).rewrites.iter().any(|one| one.job == id) {
            told.push(after);
        }
        // Its processors are its own meanwhile, or are kept for it.
        queue.refuse(&dedicated("70", "75"), now);
    }
    assert_eq!(told, [11, 43]);
}

#[test]
fn after_a_restart_the_plan_is_that_of_the_records() {
    let mut queue = Queue::new(EXACT);
    runs(&mut queue, &dedicated("100", "1000"), START);
    let id = planned(&mut queue, &dedicated("50", "300"), START);
    poll(&mut queue, START + 1.0);
    let config = Config::from_toml(&whole_processors(EXACT)).expect("a configuration");
    queue.controller = Controller::new(&config, START + 60.0);
    poll(&mut queue, START + 75.0);
    assert_eq!(queue.controller.book().planned(), [id.to_string()]);
    let text = queue.refuse(&dedicated("50", "90"), START + 76.0);
    assert!(text.contains("refused (share)"), "{text}");
    assert_eq!(is_told(&mut queue, id, START + 103.0), None);
    assert!(is_told(&mut queue, id, START + 105.0).is_some());
}

#[test]
fn whose_user_keeps_it_from_beginning_loses_its_place() {
    let mut queue = Queue::new(EXACT);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    let id = planned(&mut queue, &dedicated("50", "300"), START);
    poll(&mut queue, START + 1.0);
    queue.job(id).waits = true;
    poll(&mut queue, START + 2.0);
    let after = known(&mut queue, id);
    assert!(after.deferred && after.starts_by.is_none());
    assert!(queue.controller.book().planned().is_empty());
    let told = poll(&mut queue, START + 3.0);
    assert!(told.rewrites.is_empty() && told.log.is_empty(), "{told:?}");
    // Released, it is asked for like any other that was deferred.
    let job = queue.job(first);
    (job.state, job.ended) = (State::Ended, START + 10.0);
    queue.job(id).waits = false;
    assert!(is_told(&mut queue, id, START + 12.0).is_some());
}

#[test]
fn one_that_is_cancelled_is_told_once_and_holds_nothing() {
    let mut queue = Queue::new(EXACT);
    runs(&mut queue, &dedicated("100", "1000"), START);
    let id = planned(&mut queue, &dedicated("50", "300"), START);
    poll(&mut queue, START + 1.0);
    let job = queue.job(id);
    (job.state, job.ended, job.cut_short) = (State::Ended, START + 5.0, true);
    let told = poll(&mut queue, START + 6.0);
    assert_eq!(told.log.len(), 1, "{told:?}");
    assert_eq!(told.counts.ended(Outcome::Cancelled), 1);
    assert!(poll(&mut queue, START + 7.0).log.is_empty());
    assert!(queue.controller.book().planned().is_empty());
}

#[test]
fn its_nodes_are_gone_when_it_is_due() {
    let mut queue = Queue::new(EXACT);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    let id = planned(&mut queue, &dedicated("50", "300"), START);
    poll(&mut queue, START + 1.0);
    queue.records.nodes[0].up = false;
    assert_eq!(is_told(&mut queue, id, START + 110.0), None);
    let told = poll(&mut queue, START + 140.0);
    assert!(
        told.log[0].contains("its start is overdue"),
        "{:?}",
        told.log
    );
    // It is said once.
    assert!(poll(&mut queue, START + 141.0).log.is_empty());
    queue.records.nodes[0].up = true;
    assert!(is_told(&mut queue, id, START + 142.0).is_some());
    // Nobody knows when one is done that should be: nothing is planned behind it.
    let late = queue.refuse(&dedicated("50", "300"), START + 143.0);
    assert!(late.contains("refused (share)"), "{late}");
    let job = queue.job(first);
    (job.state, job.ended) = (State::Ended, START + 142.5);
    poll(&mut queue, START + 143.0);
    // Another has none any more.
    let other = planned(&mut queue, &dedicated("50", "300"), START + 143.0);
    poll(&mut queue, START + 144.0);
    queue.records.nodes[0].up = false;
    let told = poll(&mut queue, START + 400.0);
    assert!(
        (told.log.iter()).any(|line| line.contains("its planned promise is given back")),
        "{:?}",
        told.log
    );
    assert!(queue.job(other).waits && queue.controller.book().planned().is_empty());
}

#[test]
fn what_is_asked_is_what_is_answered() {
    let mut queue = Queue::new(EXACT);
    runs(&mut queue, &dedicated("100", "1000"), START);
    let mut question = dedicated("50", "300");
    question
        .options
        .push(("sla-quote".to_string(), "ask".to_string()));
    let line = match queue.controller.submit(&question, START + 1.0) {
        Answer::Answered(line) => line,
        other => panic!("{other:?}"),
    };
    let accepted = queue.accept(&dedicated("50", "300"), START + 1.0);
    assert!(line.contains(&accepted.quote), "{line}");
    // Arrays and parts of a job are not planned.
    let mut array = dedicated("50", "3000");
    array.array = Some("0-1".to_string());
    queue.refuse(&array, START + 1.0);
}

#[test]
fn one_that_came_while_the_records_were_read_keeps_its_place() {
    let mut queue = Queue::new(EXACT);
    runs(&mut queue, &dedicated("100", "1000"), START);
    let other = planned(&mut queue, &dedicated("50", "500"), START + 10.0);
    let waiting = queue.job(other).deferred.as_mut().expect("it waits");
    waiting.begin = START + 10.4;
    poll(&mut queue, START + 10.2);
    assert!(queue.job(other).admin_comment.contains(":starts-by="));
    // Who asks for a later begin has none.
    let waiting = queue.job(other).deferred.as_mut().expect("it waits");
    waiting.begin = START + 200.0;
    poll(&mut queue, START + 11.0);
    assert!(!queue.job(other).admin_comment.contains(":starts-by="));
}
