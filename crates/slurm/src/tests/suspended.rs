//! Dedicated jobs that stand still for others, as slurmctld sees them.

use super::super::array::{going_on_by, has_gone_on};
use super::super::orders::Order;
use super::deferred::poll;
use super::planned::{dedicated, is_told, planned, runs};
use super::*;

const MEMORY: &str = "[admission]\nestimate-margin = '0%'\n[slurm]\nstart-delay = '0s'\n[class]\nsuspend = 'memory'\n";

/// A poll, after which Slurm has done what it was told; what that was.
fn obeyed(queue: &mut Queue, now: f64) -> Vec<Order> {
    let orders = poll(queue, now).orders;
    for order in &orders {
        match *order {
            Order::Suspend(id) => queue.job(id).suspended = true,
            Order::Resume(id) => queue.job(id).suspended = false,
        }
    }
    orders
}

/// One that is due so many seconds after the start stands still, and another one runs; their numbers.
fn one_stands_still(deadline: &str) -> (Queue, u32, u32) {
    let mut queue = Queue::new(MEMORY);
    let first = runs(&mut queue, &dedicated("100", deadline), START);
    let other = planned(&mut queue, &dedicated("50", "80"), START + 10.0);
    poll(&mut queue, START + 10.5);
    assert_eq!(obeyed(&mut queue, START + 11.0), [Order::Suspend(first)]);
    assert!(is_told(&mut queue, other, START + 11.5).is_some());
    queue.run(other, &["n1"], START + 12.0);
    (queue, first, other)
}

#[test]
fn one_with_time_stands_still_and_goes_on() {
    let mut queue = Queue::new(MEMORY);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    let other = planned(&mut queue, &dedicated("50", "80"), START + 10.0);
    // It is marked first, so that whoever reads the records knows it.
    let told = poll(&mut queue, START + 10.5);
    assert!(told.orders.is_empty() && told.again, "{told:?}");
    assert_eq!(
        going_on_by(&queue.job(first).admin_comment).map(|mark| mark.by),
        Some(START + 65.0)
    );
    assert_eq!(
        queue.job(first).comment,
        "libra: suspended for a job with an earlier deadline: it goes on in 55 s at the latest, and its own deadline holds, 16m40s after its submission"
    );
    assert!(!told.rewrites[0].starts());
    assert_eq!(is_told(&mut queue, other, START + 11.0), None);
    queue.job(first).suspended = true;
    let begun = is_told(&mut queue, other, START + 11.5);
    assert_eq!(begun, Some(vec!["n1".to_string()]));
    queue.run(other, &["n1"], START + 12.0);
    assert_eq!(obeyed(&mut queue, START + 13.0), []);
    let job = queue.job(other);
    (job.state, job.ended) = (State::Ended, START + 40.0);
    assert_eq!(obeyed(&mut queue, START + 41.0), [Order::Resume(first)]);
    // The mark goes when it runs.
    assert!(
        going_on_by(&queue.job(first).admin_comment)
            .map(|mark| mark.by)
            .is_some()
    );
    assert_eq!(obeyed(&mut queue, START + 41.2), []);
    assert_eq!(
        going_on_by(&queue.job(first).admin_comment).map(|mark| mark.by),
        None
    );
    assert!(
        queue
            .job(first)
            .comment
            .contains("goes on; its own deadline holds")
    );
    let quiet = poll(&mut queue, START + 42.0);
    assert!(
        quiet.rewrites.is_empty() && !quiet.again && quiet.log.is_empty(),
        "{quiet:?}"
    );
    assert_eq!(queue.committed()["n1"], 1.0);
}

#[test]
fn nobody_is_suspended_where_the_site_does_not_want_it_or_for_a_test() {
    let never = MEMORY.replace("memory", "never");
    let mut queue = Queue::new(&never);
    runs(&mut queue, &dedicated("100", "1000"), START);
    queue.refuse(&dedicated("50", "80"), START + 10.0);
    let mut queue = Queue::new(MEMORY);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    let test = Submission {
        without_session: true,
        ..dedicated("50", "80")
    };
    let accepted = queue.accept(&test, START + 10.0);
    assert!(accepted.quote.starts_with("planned: "), "{accepted:?}");
    for after in 0..60 {
        let told = poll(&mut queue, START + 10.0 + 0.1 * f64::from(after));
        assert!(
            told.rewrites.is_empty() && told.orders.is_empty(),
            "{told:?}"
        );
    }
    assert_eq!(queue.committed()["n1"], 1.0);
    assert_eq!(queue.controller.book().goes_on_by(&first.to_string()), None);
    // What is asked is what is answered.
    let mut question = dedicated("50", "80");
    question
        .options
        .push(("sla-quote".to_string(), "ask".to_string()));
    match queue.controller.submit(&question, START + 20.0) {
        Answer::Answered(line) => assert!(line.contains("planned"), "{line}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_restart_finds_who_stands_still_and_an_administrators_own_stay() {
    let (mut queue, first, other) = one_stands_still("1000");
    let config = Config::from_toml(&whole_processors(MEMORY)).expect("a configuration");
    queue.controller = Controller::new(&config, START + 30.0);
    poll(&mut queue, START + 45.0);
    let name = first.to_string();
    assert_eq!(
        queue.controller.book().goes_on_by(&name),
        Some(START + 65.0)
    );
    assert_eq!(queue.committed()["n1"], 1.0);
    // Somebody lets it go on before its time: it stands still again.
    queue.job(first).suspended = false;
    assert_eq!(obeyed(&mut queue, START + 46.0), [Order::Suspend(first)]);
    // The other one outlives its estimate; it is due and goes on by right.
    assert_eq!(obeyed(&mut queue, START + 64.0), []);
    assert_eq!(obeyed(&mut queue, START + 65.0), [Order::Resume(first)]);
    poll(&mut queue, START + 66.0);
    // Whom an administrator suspends nobody of ours lets go on, nor is it made to.
    queue.job(first).suspended = true;
    assert_eq!(obeyed(&mut queue, START + 67.0), []);
    let job = queue.job(other);
    (job.state, job.ended) = (State::Ended, START + 68.0);
    assert_eq!(obeyed(&mut queue, START + 69.0), []);
    queue.refuse(&dedicated("50", "80"), START + 70.0);
}

#[test]
fn one_that_was_suspended_by_somebody_else_meanwhile_keeps_its_processors() {
    let mut queue = Queue::new(MEMORY);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    let other = planned(&mut queue, &dedicated("50", "80"), START + 10.0);
    queue.job(first).suspended = true;
    let mut log = Vec::new();
    for after in 11..60 {
        let told = poll(&mut queue, START + f64::from(after));
        assert_eq!(told.orders, []);
        log.extend(told.log);
    }
    assert!(
        log.iter()
            .any(|line| line.contains("was suspended by somebody else")),
        "{log:?}"
    );
    let given_back = format!("job {other}: its planned promise is given back");
    assert!(
        log.last().is_some_and(|line| line.starts_with(&given_back)),
        "{log:?}"
    );
    assert_eq!(
        going_on_by(&queue.job(first).admin_comment).map(|mark| mark.by),
        None
    );
    assert_eq!(queue.committed()["n1"], 1.0);
}

#[test]
fn what_slurm_does_not_obey_is_told_again_more_and_more_rarely() {
    let mut queue = Queue::new(MEMORY);
    let first = runs(&mut queue, &dedicated("100", "2000"), START);
    let other = planned(&mut queue, &dedicated("50", "80"), START + 10.0);
    poll(&mut queue, START + 10.5);
    let mut told = Vec::new();
    for tenth in 0..300 {
        let after = 11.0 + 0.1 * f64::from(tenth);
        let poll = poll(&mut queue, START + after);
        if poll.orders == [Order::Suspend(first)] {
            told.push(after.round() as u32);
        }
        assert!(queue.job(other).deferred.is_some(), "it has not begun");
    }
    assert_eq!(told, [11, 12, 14, 18, 26]);
    // It could not be kept, and nobody stands still.
    let job = queue.job(other);
    (job.state, job.ended, job.cut_short) = (State::Ended, START + 45.0, true);
    let quiet = poll(&mut queue, START + 46.0);
    // It may be obeyed late, and would go on by its mark.
    assert_eq!((quiet.orders, quiet.rewrites.len()), (Vec::new(), 0));
    let quiet = poll(&mut queue, START + 72.0);
    assert_eq!((quiet.orders, quiet.rewrites.len()), (Vec::new(), 1));
    assert_eq!(
        going_on_by(&queue.job(first).admin_comment).map(|mark| mark.by),
        None
    );
}

#[test]
fn one_that_will_be_late_is_said_to_be_once() {
    let (mut queue, first, _) = one_stands_still("200");
    poll(&mut queue, START + 13.0);
    // Slurm does not let it go on: it has done 11 s of its hundred, and 89 are left.
    let mut said = Vec::new();
    for after in 60..160 {
        let told = poll(&mut queue, START + f64::from(after));
        let late = told.log.iter().filter(|line| line.contains("WILL BE LATE"));
        said.extend(late.cloned());
    }
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(queue.job(first).comment.contains("IT WILL BE LATE, by "));
    let mark = going_on_by(&queue.job(first).admin_comment);
    assert!(mark.is_some_and(|mark| mark.late));
}

#[test]
fn a_restart_before_anything_was_written_finds_another_way() {
    let mut queue = Queue::new(MEMORY);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    let other = planned(&mut queue, &dedicated("50", "200"), START + 10.0);
    // It would be planned behind the first one; nobody has to stand still.
    assert_eq!(queue.controller.book().goes_on_by(&first.to_string()), None);
    let urgent = planned(&mut queue, &dedicated("30", "80"), START + 11.0);
    // slurmctld is killed, and who takes over has the records of then.
    let config = Config::from_toml(&whole_processors(MEMORY)).expect("a configuration");
    queue.controller = Controller::new(&config, START + 11.5);
    poll(&mut queue, START + 22.0);
    let mut orders = Vec::new();
    for after in 23..60 {
        orders.extend(obeyed(&mut queue, START + f64::from(after)));
        let begun = queue.job(urgent).deferred.is_none();
        if begun {
            break;
        }
    }
    assert_eq!(orders, [Order::Suspend(first)]);
    assert!(queue.job(urgent).deferred.is_none() && queue.job(other).deferred.is_some());
}

#[test]
fn one_that_is_taken_back_into_its_queue_is_not_held_for_it() {
    let (mut queue, first, _) = one_stands_still("1000");
    poll(&mut queue, START + 13.0);
    // Slurm holds what it has suspended, and lets it be held in its queue.
    let job = queue.job(first);
    (job.state, job.suspended, job.held, job.waits) = (State::Pending, false, true, true);
    (job.restarts, job.started, job.ran) = (1, 0.0, 0.0);
    let told = poll(&mut queue, START + 14.0);
    let rewrite = (told.rewrites.iter())
        .find(|one| one.job == first)
        .expect("told");
    assert!(rewrite.release && going_on_by(&rewrite.admin_comment).is_none());
    assert_eq!(going_on_by(&queue.job(first).admin_comment), None);
    assert!(queue.controller.book().contains(&first.to_string()));
    let job = queue.job(first);
    (job.held, job.waits) = (false, false);
    assert_eq!(poll(&mut queue, START + 15.0).rewrites, []);
}

#[test]
fn what_an_administrator_suspends_has_its_time_left() {
    let mut queue = Queue::new(MEMORY);
    let first = runs(&mut queue, &dedicated("100", "1000"), START);
    poll(&mut queue, START + 10.0);
    queue.job(first).suspended = true;
    poll(&mut queue, START + 40.0);
    poll(&mut queue, START + 70.0);
    queue.job(first).suspended = false;
    poll(&mut queue, START + 70.0);
    // It has done 10 s, or a second less as far as Slurm's whole seconds say, and 90 are left.
    let accepted = queue.accept(&dedicated("50", "300"), START + 70.0);
    assert!(
        accepted.quote.contains("begins in 91 s at the latest"),
        "{accepted:?}"
    );
}

/// A poll, after which Slurm has done what it was told and has written down when; what that was.
fn written(queue: &mut Queue, now: f64) -> Vec<Order> {
    let orders = obeyed(queue, now);
    for order in &orders {
        let (Order::Suspend(id) | Order::Resume(id)) = *order;
        queue.job(id).changed = now.floor();
    }
    orders
}

/// What Slurm was told from one second to the next, and did; with when.
fn told_in(queue: &mut Queue, seconds: std::ops::Range<u32>) -> Vec<(u32, Order)> {
    let mut told = Vec::new();
    for after in seconds {
        let orders = written(queue, START + f64::from(after));
        told.extend(orders.into_iter().map(|order| (after, order)));
    }
    told
}

/// One that was told to go on 41 s after the start, when it had stood still for another one.
fn one_goes_on() -> (Queue, u32) {
    let (mut queue, first, other) = one_stands_still("1000");
    queue.job(first).changed = START + 11.0;
    queue.records.nodes[0].up_since = START - 100.0;
    let job = queue.job(other);
    (job.state, job.ended) = (State::Ended, START + 40.0);
    assert_eq!(written(&mut queue, START + 41.0), [Order::Resume(first)]);
    assert_eq!(written(&mut queue, START + 42.0), []);
    assert_eq!(going_on_by(&queue.job(first).admin_comment), None);
    assert!(has_gone_on(&queue.job(first).admin_comment));
    (queue, first)
}

#[test]
fn what_a_node_may_not_have_heard_is_said_once_more() {
    let (mut queue, first) = one_goes_on();
    // Its slurmd is not there for longer than slurmctld tries.
    queue.records.nodes[0].answers = false;
    assert_eq!(told_in(&mut queue, 43..150), []);
    assert!(has_gone_on(&queue.job(first).admin_comment));
    // It is back, and its clock is wrong.
    queue.records.nodes[0].answers = true;
    queue.records.nodes[0].up_since = 7.0;
    assert_eq!(told_in(&mut queue, 150..156), []);
    // Whoever finds it suspended knows that it is to go on; and the one order does not overtake the other.
    assert!(going_on_by(&queue.job(first).admin_comment).is_some());
    let told = told_in(&mut queue, 156..300);
    assert_eq!(
        told,
        [(160, Order::Suspend(first)), (165, Order::Resume(first))]
    );
    let comment = &queue.job(first).admin_comment;
    assert!(going_on_by(comment).is_none() && !has_gone_on(comment));
    assert!(queue.job(first).comment.contains("goes on"));
    assert_eq!(queue.committed()["n1"], 1.0);
}

#[test]
fn who_was_cut_off_for_a_while_is_told_once_more() {
    let (mut queue, first) = one_goes_on();
    queue.records.nodes[0].answers = false;
    assert_eq!(told_in(&mut queue, 43..100), []);
    queue.records.nodes[0].answers = true;
    let told = told_in(&mut queue, 100..400);
    assert_eq!(
        told,
        [(109, Order::Suspend(first)), (114, Order::Resume(first))]
    );
}

#[test]
fn after_a_restart_of_slurmctld_who_may_not_have_heard_is_told_as_well() {
    let (mut queue, first) = one_goes_on();
    queue.controller = Controller::new(&queue.config, START + 50.0);
    queue.records.nodes[0].up_since = 0.0;
    assert_eq!(told_in(&mut queue, 50..60), []);
    // It was started since.
    queue.records.nodes[0].up_since = START + 45.0;
    let told = told_in(&mut queue, 60..200);
    assert_eq!(
        told,
        [(70, Order::Suspend(first)), (75, Order::Resume(first))]
    );
    // One that stands still for long has heard so.
    let (mut queue, first, _) = one_stands_still("1000");
    queue.job(first).changed = START - 500.0;
    queue.controller = Controller::new(&queue.config, START + 20.0);
    queue.records.nodes[0].up_since = START - 100.0;
    assert_eq!(told_in(&mut queue, 20..40), []);
}

#[test]
fn what_was_heard_is_not_said_again() {
    let (mut queue, first) = one_goes_on();
    // Nothing is known of it for a moment.
    queue.records.nodes[0].up_since = 0.0;
    assert_eq!(told_in(&mut queue, 43..60), []);
    queue.records.nodes[0].up_since = START - 100.0;
    assert_eq!(told_in(&mut queue, 60..170), []);
    assert!(!has_gone_on(&queue.job(first).admin_comment));
    queue.records.nodes[0].up_since = START + 170.0;
    assert_eq!(told_in(&mut queue, 171..300), []);
    // Nor to one that Libra has told nothing.
    queue.job(first).changed = START + 301.0;
    queue.records.nodes[0].up_since = START + 302.0;
    assert_eq!(told_in(&mut queue, 303..400), []);
}

#[test]
fn what_an_administrator_suspends_soon_after_stays_so() {
    let (mut queue, first) = one_goes_on();
    let job = queue.job(first);
    (job.suspended, job.changed) = (true, START + 50.0);
    queue.records.nodes[0].up_since = START + 52.0;
    assert_eq!(told_in(&mut queue, 50..300), []);
    assert!(queue.job(first).suspended);
}

#[test]
fn what_slurm_does_not_do_is_tried_a_few_times() {
    let (mut queue, first) = one_goes_on();
    queue.records.nodes[0].up_since = START + 50.0;
    let told: Vec<Order> = (50..600)
        .flat_map(|after| poll(&mut queue, START + f64::from(after)).orders)
        .collect();
    assert!(
        (1..=12).contains(&told.len()) && told.iter().all(|order| *order == Order::Suspend(first)),
        "{told:?}"
    );
    let comment = &queue.job(first).admin_comment;
    assert!(going_on_by(comment).is_none() && !has_gone_on(comment));
}

#[test]
fn what_slurm_does_late_is_undone() {
    let (mut queue, first) = one_goes_on();
    queue.records.nodes[0].up_since = START + 50.0;
    let order = (51..70).find_map(|after| {
        let orders = poll(&mut queue, START + f64::from(after)).orders;
        orders.first().map(|order| (after, *order))
    });
    let (at, order) = order.expect("an order");
    assert_eq!(order, Order::Suspend(first));
    // slurmctld was busy.
    for after in 1..40 {
        poll(&mut queue, START + f64::from(at + after));
    }
    let job = queue.job(first);
    (job.suspended, job.changed) = (true, START + f64::from(at + 40));
    let told = told_in(&mut queue, at + 40..at + 60);
    assert_eq!(told, [(at + 45, Order::Resume(first))]);
}

#[test]
fn a_node_does_one_thing_after_the_other() {
    let (mut queue, first, other) = one_stands_still("1000");
    queue.job(first).changed = START + 11.0;
    let job = queue.job(other);
    (job.state, job.ended) = (State::Ended, START + 13.0);
    // It has its processors again, and is told so when it certainly stands still.
    assert_eq!(written(&mut queue, START + 14.0), []);
    assert_eq!(written(&mut queue, START + 16.0), [Order::Resume(first)]);
    // Until it certainly goes on it cannot be made to stand still.
    queue.records.taken = START + 20.0;
    assert_eq!(written(&mut queue, START + 20.0), []);
    queue.refuse(&dedicated("50", "80"), START + 20.5);
    assert_eq!(written(&mut queue, START + 21.0), []);
    let accepted = queue.accept(&dedicated("50", "80"), START + 21.5);
    assert!(accepted.quote.starts_with("planned: "), "{accepted:?}");
}

#[test]
fn who_may_run_though_it_is_to_stand_still_is_told_again() {
    let (mut queue, first, _) = one_stands_still("1000");
    queue.job(first).changed = START + 11.0;
    assert_eq!(told_in(&mut queue, 12..14), []);
    queue.records.nodes[0].up_since = START + 13.0;
    let told = told_in(&mut queue, 14..40);
    assert_eq!(
        told,
        [(19, Order::Resume(first)), (24, Order::Suspend(first))]
    );
    assert!(queue.job(first).suspended);
}
