//! Classes of service: whole processors, from acceptance to end.

use super::*;

const PRICES: &str = "[admission]\nestimate-margin = '0%'\n[slurm]\nstart-delay = '4s'\n[class]\ndedicated-price = 2.0\nimmediate-price = 3.0\n";

/// On the first node.
fn on_n1(submission: Submission) -> Submission {
    Submission {
        required_nodes: vec!["n1".to_string()],
        ..submission
    }
}

fn in_class(class: &str, submission: Submission) -> Submission {
    let mut submission = on_n1(submission);
    let option = ("sla_class".to_string(), class.to_string());
    submission.options.push(option);
    submission
}

/// It starts now or not at all: an estimate of an hour, and no deadline.
fn immediate() -> Submission {
    let mut submission = in_class("immediate", asks("3600", "0", "100000"));
    submission.options.remove(1);
    submission
}

#[test]
fn a_dedicated_job_keeps_its_processor_through_progress_and_a_restart() {
    let mut queue = Queue::new(PRICES);
    let dedicated = in_class("dedicated", asks("100", "1000", "100000"));
    let accepted = queue.accept(&dedicated, START);
    assert!(
        (accepted.quote).starts_with(
            "accepted: a whole processor on n1 from now on, finished in 16m40s at the latest, for 200."
        ),
        "{}",
        accepted.quote
    );
    assert!(accepted.commitment.contains(":class=dedicated:"));
    assert!(
        accepted.commitment.ends_with(":at=n1*1*1"),
        "{}",
        accepted.commitment
    );
    let job = queue.enqueue(&accepted);
    let poll = queue.poll(START + 1.0);
    assert!(
        poll.log
            .iter()
            .any(|line| line.contains("100 % of a processor")),
        "{:?}",
        poll.log
    );
    queue.run(job, &["n1"], START + 2.0);
    for after in [3.0, 90.0, 900.0, 1100.0] {
        queue.poll(START + after);
        assert_eq!(queue.committed()["n1"], 1.0, "after {after} s");
    }
    assert!(
        queue
            .refuse(&on_n1(asks("1", "1000", "100")), START + 1100.0)
            .contains("refused (share)")
    );
    // What slurmctld has on record makes the same of a new book.
    let config = Config::from_toml(&whole_processors(PRICES)).expect("a configuration");
    queue.controller = Controller::new(&config, START + 1101.0);
    queue.poll(START + 1102.0);
    assert_eq!(queue.committed()["n1"], 1.0);
}

#[test]
fn an_immediate_job_has_no_deadline_anywhere() {
    let mut queue = Queue::new(PRICES);
    let accepted = queue.accept(&immediate(), START);
    // Three times what an hour costs at full speed; twice its estimate in minutes.
    assert_eq!(
        accepted.quote,
        "accepted: a whole processor on n1 from now on, for 10803 of 100000 credits"
    );
    assert_eq!(accepted.time_limit, 120);
    let job = queue.enqueue(&accepted);
    let poll = queue.poll(START + 1.0);
    assert!(
        poll.log
            .iter()
            .any(|line| line.ends_with("credits, without a deadline")),
        "{:?}",
        poll.log
    );
    queue.run(job, &["n1"], START + 2.0);
    queue.poll(START + 3.0);
    let ended = queue.job(job);
    (ended.state, ended.ended) = (State::Ended, START + 50.0);
    let poll = queue.poll(START + 51.0);
    assert!(
        poll.log.iter().any(|line| line.starts_with(&format!(
            "job {job} is done: ended after 50 s of 1h00m, price 10803"
        ))),
        "{:?}",
        poll.log
    );
    assert_eq!(poll.counts.ended(Outcome::Finished), 1);
    assert_eq!(queue.committed()["n1"], 0.0);
    // A partition that ends jobs sooner does not take it.
    queue.records.partitions[0].longest = Some(30);
    queue.poll(START + 52.0);
    let said = queue.refuse(&immediate(), START + 52.0);
    assert!(
        said.contains("ends jobs after 30m00s and the estimate is 1h00m"),
        "{said}"
    );
}

#[test]
fn where_less_than_a_processor_is_free_a_deadline_is_offered() {
    let mut queue = Queue::new(PRICES);
    queue.accept(&on_n1(asks("500", "1004", "100000")), START);
    let whole = in_class("dedicated", asks("100", "1004", "100000"));
    let said = queue.refuse(&whole, START);
    assert!(
        said.starts_with("libra: refused (share): needs 1 CPU until its deadline; the best node, n1, has 0.5 free"),
        "{said}"
    );
    assert!(
        said.contains("--sla-class=deadline (costs 100.1)"),
        "{said}"
    );
    let said = queue.refuse(&immediate(), START);
    assert!(
        !said.contains("--sla-class"),
        "nothing that needs a deadline: {said}"
    );
    queue.accept(&in_class("deadline", asks("100", "1004", "100000")), START);
}

#[test]
fn what_cannot_be_had_is_said() {
    let mut queue = Queue::new(PRICES);
    let waits = "class=immediate starts at once or is refused, and this job may not start yet";
    let with_quote = |quote: &str| {
        let mut submission = in_class("dedicated", asks("10", "1000", "1000"));
        let option = ("sla_quote".to_string(), quote.to_string());
        submission.options.push(option);
        submission
    };
    for (submission, said) in [
        (
            Submission {
                held: true,
                ..immediate()
            },
            waits,
        ),
        (
            Submission {
                begin: Some(START + 100.0),
                ..immediate()
            },
            waits,
        ),
        (
            Submission {
                dependency: Some("afterok:7".to_string()),
                ..immediate()
            },
            waits,
        ),
        (
            in_class("best-effort", Submission::default()),
            "class=best-effort: in a batch system a job without terms",
        ),
        (
            with_quote("hold:1m"),
            "a quote cannot be held for class=dedicated",
        ),
        (
            with_quote("1nb2f5c-e3p1whfwb3bxw4dp"),
            "a quote cannot be held for class=dedicated",
        ),
        (
            in_class("dedicated", asks("2000", "1000", "100000")),
            "refused (deadline)",
        ),
    ] {
        let text = queue.refuse(&submission, START);
        assert!(text.contains(said), "{text}");
    }
    assert_eq!(queue.committed()["n1"], 0.0);
    let mut without = Queue::new("[class]\nimmediate = false\n");
    let text = without.refuse(&immediate(), START);
    assert!(
        text.contains("class=immediate is not offered here"),
        "{text}"
    );
}

#[test]
fn a_dedicated_job_that_may_not_start_yet_is_asked_for_anew() {
    let mut queue = Queue::new(PRICES);
    let held = Submission {
        held: true,
        ..in_class("dedicated", asks("100", "1000", "100000"))
    };
    let accepted = queue.accept(&held, START);
    assert!(
        accepted.quote.starts_with("deferred: "),
        "{}",
        accepted.quote
    );
    assert!(
        accepted.commitment.contains(":class=dedicated:deferred=1:"),
        "{}",
        accepted.commitment
    );
    assert_eq!(queue.committed()["n1"], 0.0);
}

#[test]
fn a_question_is_answered_in_its_class() {
    let mut queue = Queue::new(PRICES);
    let mut question = immediate();
    question.options.retain(|(option, _)| option != "budget");
    question
        .options
        .push(("sla_quote".to_string(), "ask".to_string()));
    let Answer::Answered(line) = queue.controller.submit(&question, START) else {
        panic!("it was a question");
    };
    let quote = libra_batch::quote::Quote::find(&line).expect("an answer");
    assert!(quote.accepted && quote.curve.is_empty(), "{quote:?}");
    assert_eq!((quote.price, quote.needs), (10803.0, Some(10803.0)));
}
