//! A job from its submission to its end, and what comes between.

use super::*;

#[test]
fn nothing_is_judged_before_the_queue_was_read() {
    let mut controller = Controller::new(&Config::default(), START);
    let job = asks("10", "20", "100");
    assert_eq!(controller.submit(&job, START), Answer::NotReady);
    assert_eq!(
        controller.submit(&Submission::default(), START),
        Answer::Pass
    );
    // Nodes that slurmctld has not heard of yet would refuse everything.
    let mut records = Records {
        taken: START + 1.0,
        nodes: vec![Node {
            up: false,
            unknown: true,
            answers: true,
            up_since: 0.0,
            ..node("n1", 1)
        }],
        partitions: vec![partition("main", &["n1"])],
        ..Records::default()
    };
    controller.poll(&records, START + 1.0).expect("a poll");
    assert_eq!(controller.submit(&job, START + 1.0), Answer::NotReady);
    records.taken = START + 11.0;
    controller.poll(&records, START + 11.0).expect("a poll");
    assert!(matches!(
        controller.submit(&job, START + 11.0),
        Answer::Refuse(_)
    ));
}

#[test]
fn an_accepted_job_is_pinned_and_told() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    assert_eq!(accepted.nodes, ["n1"]);
    assert_eq!(accepted.partition, "main");
    assert_eq!((accepted.node_count, accepted.hold), (1, false));
    // Deadline and estimate: half a minute.
    assert_eq!(accepted.time_limit, 1);
    assert!(
        accepted
            .quote
            .starts_with("accepted: 50 % of a processor on n1, finished in 20 s")
    );
    assert_eq!(
        accepted.admin_comment,
        format!("libra:{}", accepted.commitment)
    );
    // Best fit: the fullest node that takes it.
    assert_eq!(queue.accept(&asks("4", "20", "100"), START).nodes, ["n1"]);
    assert_eq!(queue.accept(&asks("10", "20", "100"), START).nodes, ["n2"]);
    let refused = queue.refuse(&asks("10", "20", "10"), START);
    assert!(
        refused.contains("refused (budget)") && refused.contains("--budget="),
        "{refused}"
    );
    let refused = queue.refuse(&asks("10", "8", "100"), START);
    assert!(
        refused.contains("refused (deadline)") && refused.contains("--sla-deadline="),
        "{refused}"
    );
}

#[test]
fn the_life_of_a_job() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    assert_eq!(queue.committed()["n1"], 0.5);
    let id = queue.enqueue(&accepted);
    let poll = queue.poll(START + 1.0);
    assert!(
        poll.log[0].starts_with("job 1: 50 % of a processor"),
        "{:?}",
        poll.log
    );
    queue.run(id, &["n1"], START + 1.0);
    queue.poll(START + 2.0);
    // It began a second late.
    assert!((queue.committed()["n1"] - 10.0 / 19.0).abs() < 0.03);
    // Requeued: it begins anew, with less time.
    let job = queue.job(id);
    (job.state, job.nodes) = (State::Pending, Vec::new());
    queue.poll(START + 6.0);
    assert!((queue.committed()["n1"] - 10.0 / 14.0).abs() < 0.06);
    queue.run(id, &["n1"], START + 7.0);
    queue.poll(START + 8.0);
    let job = queue.job(id);
    (job.state, job.ended) = (State::Ended, START + 19.0);
    let poll = queue.poll(START + 19.5);
    assert_eq!(
        poll.log,
        ["job 1 met its deadline: ended after 19 s of 20 s, price 10.5"]
    );
    assert_eq!(queue.committed()["n1"], 0.0);
    // Slurm shows it for some minutes more.
    assert!(queue.poll(START + 21.0).log.is_empty());
}

#[test]
fn a_job_may_start_late() {
    let mut queue =
        Queue::new("[admission]\nestimate-margin = '0%'\n[slurm]\nstart-delay = '4s'\n");
    // Sixteen seconds are left when it starts.
    let accepted = queue.accept(&asks("8", "20", "100"), START);
    assert!(
        accepted
            .quote
            .contains("50 % of a processor on n1, finished in 20 s"),
        "{}",
        accepted.quote
    );
    let id = queue.enqueue(&accepted);
    queue.poll(START + 3.0);
    assert_eq!(queue.committed()["n1"], 0.5);
    queue.run(id, &["n1"], START + 3.5);
    queue.poll(START + 3.6);
    assert!(queue.committed()["n1"] < 0.49);
    let reason = queue.refuse(&asks("8", "11", "100"), START + 4.0);
    assert!(
        reason.contains("would need 12 s; the deadline is 11 s"),
        "{reason}"
    );
    assert!(reason.contains("--sla-deadline=12 "), "{reason}");
    queue.accept(&asks("8", "12", "100"), START + 4.0);
    let reason = queue.refuse(&asks("8", "3", "100"), START + 4.0);
    assert!(reason.contains("--sla-deadline=12 "), "{reason}");
}

#[test]
fn an_acceptance_without_a_job_is_taken_back() {
    let mut queue = Queue::new(EXACT);
    queue.accept(&asks("10", "20", "100"), START);
    queue.poll(START + 4.9);
    assert!(queue.committed()["n1"] >= 0.5);
    let poll = queue.poll(START + 5.1);
    assert_eq!(poll.log, ["1 acceptances have no job, taken back"]);
    assert_eq!(queue.committed()["n1"], 0.0);
}

#[test]
fn a_test_holds_its_share_for_a_moment_only() {
    let mut queue = Queue::new(EXACT);
    let mut test = asks("10", "20", "100");
    test.without_session = true;
    queue.accept(&test, START);
    let from_elsewhere = queue.accept(&test, START);
    queue.enqueue(&from_elsewhere);
    assert_eq!(queue.committed()["n1"], 1.0);
    let poll = queue.poll(START + 0.2);
    assert_eq!(poll.log.len(), 1, "{:?}", poll.log);
    // The one that has a job after all keeps its share.
    assert_eq!(queue.controller.book().job_count(), 1);
    // Who tests on and on would keep others out; jobs of theirs are jobs, and others test as they like.
    let text = queue.refuse(&test, START + 0.3);
    assert!(text.contains("test again in 2 s"), "{text}");
    test.user += 1;
    queue.accept(&test, START + 0.3);
    test.user -= 1;
    test.without_session = false;
    queue.poll(START + 0.5);
    queue.accept(&test, START + 0.5);
}

#[test]
fn a_job_that_slurm_runs_elsewhere_counts_there() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    let id = queue.enqueue(&accepted);
    queue.poll(START + 0.1);
    queue.run(id, &["n3"], START + 0.1);
    let poll = queue.poll(START + 0.2);
    assert_eq!(poll.log, ["job 1 runs on n3, not where it was planned"]);
    let committed = queue.committed();
    assert_eq!(committed["n1"], 0.0);
    assert!(committed["n3"] > 0.49);
}

#[test]
fn a_commitment_stays() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    queue.records.jobs.push(SlurmJob {
        id: 1,
        array: None,
        state: State::Running,
        admin_comment: String::new().into(),
        nodes: Vec::new(),
        comment: String::new(),
        held: false,
        waits: false,
        kept: false,
        deferred: None,
        pinned: false,
        started: START,
        ended: 0.0,
        cut_short: false,
        failed: false,
        how: libra_accounts::settlement::HowEnded::Itself,
        restarts: 0,
        ran: 0.0,
        suspended: false,
        changed: 0.0,
        user: 1,
        component: false,
    });
    queue.next = 2;
    queue.poll(START + 0.1);
    let ask = |queue: &Queue, job: &str, what: &[&'static str]| {
        let change = Change {
            job: job.to_string(),
            committed_properties: what.to_vec(),
            ..Change::default()
        };
        queue.controller.change(&change, START)
    };
    // Its job has no number here yet.
    let answer = ask(&queue, "2", &["TimeLimit"]);
    assert!(answer.is_err_and(|reason| reason.contains("only just submitted")));
    assert_eq!(ask(&queue, "1", &["TimeLimit"]), Ok(None));
    let root_wipes = |queue: &Queue, job: &str| {
        let change = Change {
            job: job.to_string(),
            by_administrator: true,
            admin_comment: Some(String::new()),
            ..Change::default()
        };
        queue.controller.change(&change, START)
    };
    assert!(root_wipes(&queue, "2").is_err());
    assert_eq!(root_wipes(&queue, "1"), Ok(None));
    let id = queue.enqueue(&accepted);
    assert_eq!(id, 2);
    queue.poll(START + 0.2);
    // Its second component, by its own number or by that of a first one without a commitment.
    for job in ["2", "2_1-3", "2+0", "1+1"] {
        let answer = ask(&queue, job, &["TimeLimit"]);
        assert!(answer.is_err_and(|reason| reason.contains("TimeLimit belongs to the commitment")));
        assert_eq!(ask(&queue, job, &[]), Ok(None));
    }
    // slurmctld takes all of these for job 2.
    for job in ["+2", " 2", "02", "4294967298"] {
        let answer = ask(&queue, job, &["TimeLimit"]);
        assert!(
            answer.is_err_and(|reason| reason.contains("may be any job")),
            "{job}"
        );
        assert!(root_wipes(&queue, job).is_err(), "{job}");
        assert_eq!(ask(&queue, job, &[]), Ok(None));
    }
    let root = |admin_comment: Option<&str>, comment: Option<&str>| {
        let change = Change {
            job: "2".to_string(),
            by_administrator: true,
            committed_properties: vec!["NodeList"],
            admin_comment: admin_comment.map(str::to_string),
            comment: comment.map(str::to_string),
            ..Change::default()
        };
        queue.controller.change(&change, START)
    };
    assert_eq!(root(None, Some("libra:budget=1")), Ok(None));
    assert!(root(Some("mine"), None).is_err());
    assert!(root(Some(""), None).is_err());
    let comment = Change {
        job: "1".to_string(),
        comment: Some("libra:budget=1".to_string()),
        ..Change::default()
    };
    assert!(queue.controller.change(&comment, START).is_err());
}

#[test]
fn a_job_that_comes_and_goes_between_two_polls() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("16", "20", "100"), START);
    let id = queue.enqueue(&accepted);
    let job = queue.job(id);
    (job.state, job.cut_short, job.ended) = (State::Ended, true, START + 0.5);
    let poll = queue.poll(START + 1.0);
    assert_eq!(queue.controller.book().job_count(), 0);
    assert!(
        poll.log.iter().any(|line| line
            .starts_with("job 1 was ended before it was done: ended after 0.5 s of 20 s")),
        "{:?}",
        poll.log
    );
    // An array that was cancelled as a whole; one task of it had begun.
    let mut array = asks("5", "20", "100");
    array.array = Some("1-3".to_string());
    let accepted = queue.accept(&array, START + 1.0);
    let id = queue.enqueue(&accepted);
    let mut task = queue.job(id).clone();
    queue.job(id).state = State::Ended;
    queue.job(id).array = Some(ArrayTasks {
        array: id,
        tasks: Vec::new(),
    });
    task.id = 99;
    task.array = Some(ArrayTasks {
        array: id,
        tasks: vec![2],
    });
    task.state = State::Running;
    task.nodes = vec!["n1".to_string()];
    task.started = START + 1.0;
    queue.records.jobs.push(task);
    queue.poll(START + 2.0);
    assert_eq!(queue.controller.book().job_count(), 1);
    assert!(queue.controller.book().contains(&format!("{id}_2")));
}

#[test]
fn a_poll_can_be_prepared_apart() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    queue.enqueue(&accepted);
    queue.records.taken = START + 1.0;
    // Other partitions were wanted when it was prepared: the next poll puts it right.
    let mut prepared = Prepared::new(&queue.records, &["other".to_string()]);
    queue
        .controller
        .take(&mut prepared, START + 1.0)
        .expect("a poll");
    queue.poll(START + 2.0);
    assert_eq!(queue.controller.book().job_count(), 1);
    assert!(queue.committed()["n1"] > 0.49);
    queue.accept(&asks("10", "20", "100"), START + 2.0);
}

#[test]
fn ends_are_counted_and_acceptances_that_came_to_nothing() {
    let mut queue = Queue::new("");
    let (asked, late) = (asks("10", "1000", "999"), asks("10", "20", "999"));
    let accepted = [
        queue.accept(&asked, START),
        queue.accept(&asked, START),
        queue.accept(&late, START),
    ];
    let jobs = accepted.each_ref().map(|accepted| queue.enqueue(accepted));
    assert!(accepted.iter().all(|accepted| accepted.count == 1));
    // This one has no job.
    queue.accept(&asked, START + 1.0);
    let poll = queue.poll(START + 1.5);
    assert!(poll.counts.is_empty(), "{:?}", poll.counts);
    for (id, cut_short, ended) in [
        (jobs[0], false, 30.0),
        (jobs[1], true, 30.0),
        (jobs[2], true, 30.0),
    ] {
        let job = queue.job(id);
        (job.state, job.cut_short, job.ended) = (State::Ended, cut_short, START + ended);
    }
    let counts = queue.poll(START + 31.0).counts;
    let mut expected = libra_metrics::Counts::EMPTY;
    for outcome in [Outcome::Met, Outcome::Cancelled, Outcome::Late] {
        expected.end(outcome);
    }
    expected.withdrawn = 1;
    assert_eq!(counts, expected);
    // Slurm shows them for a while.
    assert!(queue.poll(START + 32.0).counts.is_empty());
    let figures = queue.controller.book().figures(START + 32.0);
    assert_eq!((figures.waiting, figures.running, figures.late), (0, 0, 0));
    assert!(figures.nodes.iter().all(|node| node.committed == 0.0));
}
