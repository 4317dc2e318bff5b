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

/// Partitions `main`, `mpi` and `now`, of which the last two have a class.
fn by_partition() -> Queue {
    let mut queue = Queue::new(
        "[admission]\nestimate-margin = '0%'\n[class]\nseveral = 'dedicated'\n[class.queues]\nmpi = 'dedicated'\nnow = 'immediate'\nthreads = 'deadline'\n",
    );
    for name in ["mpi", "now", "threads"] {
        let more = partition(name, &["n1", "n2", "n3", "n4"]);
        queue.records.partitions.push(more);
    }
    queue.poll(START);
    queue
}

#[test]
fn a_job_that_names_no_class_has_that_of_its_partition_or_its_processors() {
    let mut queue = by_partition();
    let asks = asks("10", "1000", "100000");
    for (partition, tasks, processors, class) in [
        (None, None, None, ""),
        (None, Some(2), None, "dedicated"),
        (Some("mpi"), None, None, "dedicated"),
        (Some("now"), Some(1), None, "immediate"),
        (Some("threads"), Some(2), None, ""),
        // Those agree: one by its own line, the other for the job's processors.
        (Some("mpi,main"), Some(2), None, "dedicated"),
        (Some("main,threads"), None, None, ""),
        // What is no partition of Libra's is none that it goes to.
        (Some("mpi,elsewhere"), None, None, "dedicated"),
    ] {
        let submission = Submission {
            partition: partition.map(str::to_string),
            tasks,
            processors_per_task: processors,
            ..asks.clone()
        };
        let line = queue.accept(&submission, START).commitment;
        let expected = match class {
            "" => !line.contains(":class="),
            class => line.contains(&format!(":class={class}:")),
        };
        assert!(expected, "{partition:?} {tasks:?}: {line}");
        queue = by_partition();
    }
    let component = Submission {
        component: Some(0),
        ..asks
    };
    let line = queue.accept(&component, START).commitment;
    assert!(line.contains(":class=dedicated:"), "{line}");
}

#[test]
fn a_refusal_says_which_line_made_a_job_of_its_class() {
    let mut queue = by_partition();
    let of = |partition: &str, submission: Submission| Submission {
        partition: Some(partition.to_string()),
        ..submission
    };
    let hour = || asks("3600", "7200", "100000");
    let by_mpi =
        "class=dedicated by class.queues.mpi of the site's configuration, as it names none";
    let mut without_deadline = of("mpi", hour());
    without_deadline.options.remove(1);
    let mut hold = of("mpi", hour());
    (hold.options).push(("sla_quote".to_string(), "hold:5m".to_string()));
    for (submission, said) in [
        (
            without_deadline,
            "deadline is missing; class=dedicated needs it: that is what it is promised; give it as --sla-deadline=… (class=dedicated by class.queues.mpi",
        ),
        (hold, by_mpi),
        (of("mpi", asks("3600", "60", "100000")), by_mpi),
        (
            Submission {
                held: true,
                ..of("now", hour())
            },
            "class=immediate by class.queues.now of the site's configuration",
        ),
        (
            of("main,mpi", hour()),
            "it may go to main or to mpi and names no class: in main it has class=deadline, in mpi class=dedicated \
             ([class] of the site's configuration); name a class as --sla-class=…, or one of them alone",
        ),
    ] {
        let text = queue.refuse(&submission, START);
        assert!(text.contains(said), "{text}");
    }
    let named = in_class("deadline", of("main,mpi", hour()));
    queue.accept(&named, START);
}

#[test]
fn an_offer_of_one_processor_keeps_the_class_that_several_have() {
    let mut queue = by_partition();
    // Three of the four nodes are held by others for longer than the job may wait.
    for node in ["n1", "n2", "n3"] {
        let other = Submission {
            required_nodes: vec![node.to_string()],
            ..in_class("dedicated", asks("5000", "10000", "100000"))
        };
        let other = Submission {
            required_nodes: vec![node.to_string()],
            ..other
        };
        queue.accept(&other, START);
    }
    let two = Submission {
        tasks: Some(2),
        ..asks("1000", "2500", "100000")
    };
    let text = queue.refuse(&two, START);
    assert!(
        text.contains("-n 1 --estimate=2000 --sla-class=dedicated (costs "),
        "{text}"
    );
    let one = Submission {
        tasks: Some(1),
        ..in_class("dedicated", asks("2000", "2500", "100000"))
    };
    let one = Submission {
        required_nodes: Vec::new(),
        ..one
    };
    queue.accept(&one, START);
}

#[test]
fn a_quote_says_the_class_and_its_line() {
    let mut queue = by_partition();
    let mut question = Submission {
        partition: Some("mpi".to_string()),
        ..asks("10", "1000", "100000")
    };
    (question.options).push(("sla_quote".to_string(), "ask".to_string()));
    let Answer::Answered(line) = queue.controller.submit(&question, START) else {
        panic!("it was a question");
    };
    let quote = libra_batch::quote::Quote::find(&line).expect("an answer");
    assert_eq!(quote.class.word(), "dedicated");
    assert_eq!(quote.class_line.as_deref(), Some("class.queues.mpi"));
    assert!(
        quote.text.ends_with(
            "\nclass=dedicated by class.queues.mpi of the site's configuration, as it names none"
        ),
        "{}",
        quote.text
    );
    let json = quote.json("slurm");
    assert_eq!(
        (&json["class"], &json["class_line"]),
        (&"dedicated".into(), &"class.queues.mpi".into())
    );
}
