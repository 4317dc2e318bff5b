use super::controller::{Answer, Controller};
use super::records::{Node, Partition, Records};
use super::submission::Submission;
use libra_batch::quote::Quote;
use libra_batch::quote::line::find_dropped;
use libra_config::Config;
use libra_core::commitment::Commitment;

const NOW: f64 = 1_790_000_000.0;

fn records(now: f64) -> Records {
    let node = |name: &str| Node {
        name: name.to_string(),
        processors: 1,
        memory: 1024,
        up: true,
        unknown: false,
        answers: true,
        up_since: 0.0,
        features: Vec::new(),
        gres: Vec::new(),
    };
    let partition = |name: &str, longest| Partition {
        name: name.to_string(),
        nodes: vec!["n1".to_string(), "n2".to_string()],
        shared: true,
        jobs_per_processor: 8,
        longest,
        default: name == "main",
        up: true,
        one_user: false,
        default_memory: None,
    };
    Records {
        taken: now,
        jobs: Vec::new(),
        nodes: vec![node("n1"), node("n2")],
        partitions: vec![partition("main", None), partition("short", Some(1))],
        ..Records::default()
    }
}

fn controller() -> Controller {
    controller_after(None, NOW).0
}

/// One that finds this written down, and what its first poll says.
fn controller_after(written: Option<&str>, now: f64) -> (Controller, Vec<String>) {
    let config =
        "[admission]\nestimate-margin = '0%'\nmost-quotes = 2\n[slurm]\nstart-delay = '0s'\n";
    let config = format!("{config}\n[node]\nreserve = '0%'\n");
    let config = Config::from_toml(&config).expect("our own text");
    let mut controller = Controller::new(&config, now);
    controller.take_written_quotes(written.map(str::to_string));
    let poll = controller.poll(&records(now), now).expect("a poll");
    (controller, poll.log)
}

fn job(deadline: &str, quote: &str) -> Submission {
    let mut options = vec![
        ("estimate".to_string(), "10".to_string()),
        ("sla_deadline".to_string(), deadline.to_string()),
        ("budget".to_string(), "10.6".to_string()),
    ];
    if !quote.is_empty() {
        options.push(("sla_quote".to_string(), quote.to_string()));
    }
    Submission {
        user: 7,
        options,
        ..Submission::default()
    }
}

fn refused(controller: &mut Controller, job: &Submission, now: f64) -> String {
    match controller.submit(job, now) {
        Answer::Refuse(not) => not.text,
        Answer::Answered(line) => line,
        other => panic!("not refused: {other:?}"),
    }
}

fn quoted(controller: &mut Controller, job: &Submission, now: f64) -> Quote {
    let text = refused(controller, job, now);
    assert!(text.starts_with("libra-quote: {"), "{text}");
    Quote::find(&text).unwrap_or_else(|| panic!("no quote: {text}"))
}

#[test]
fn a_question_is_answered_as_a_submission_and_never_queued() {
    for (deadline, partition, array) in [
        ("20", None, None),
        ("12", None, None),
        ("5", None, None),
        ("70", Some("short"), None),
        ("20", Some("short,main"), None),
        ("40", None, Some("1-4")),
        ("20", None, Some("1-9")),
    ] {
        let mut controller = controller();
        let mut question = job(deadline, "ask");
        question.partition = partition.map(str::to_string);
        question.array = array.map(str::to_string);
        let quote = quoted(&mut controller, &question, NOW);
        assert_eq!(controller.book().job_count(), 0);
        assert!(quote.curve.len() >= 24, "{quote:?}");
        let submission = Submission {
            options: job(deadline, "").options,
            ..question
        };
        match controller.submit(&submission, NOW) {
            Answer::Accept(accepted) => {
                assert!(quote.accepted, "{quote:?}");
                assert_eq!(quote.text, accepted.quote);
                let commitment = Commitment::parse(&accepted.commitment).expect("ours");
                assert_eq!(quote.price, commitment.price * f64::from(commitment.count));
            }
            Answer::Refuse(not) => {
                assert!(!quote.accepted, "{quote:?}");
                assert_eq!(quote.category, not.verdict.category());
                let signed: Vec<String> = (quote.text.lines())
                    .map(|line| format!("libra: {line}"))
                    .collect();
                assert_eq!(signed.join("\n"), not.text);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A job that whole processors are planned for, behind what runs on a node.
fn plan_a_start(controller: &mut Controller) -> String {
    let mut dedicated = job("1000", "");
    dedicated.options[2].1 = "100".to_string();
    dedicated
        .options
        .push(("sla_class".to_string(), "dedicated".to_string()));
    match controller.submit(&dedicated, NOW) {
        Answer::Accept(accepted) => accepted.commitment,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_held_is_where_nobody_begins_before_it_would_be_done() {
    let mut controller = controller();
    for _ in 0..2 {
        let mut half = job("100", "");
        half.options[0].1 = "60".to_string();
        half.options[2].1 = "100".to_string();
        let answer = controller.submit(&half, NOW);
        assert!(matches!(answer, Answer::Accept(_)), "{answer:?}");
    }
    let first = Commitment::parse(&plan_a_start(&mut controller)).expect("ours");
    assert_eq!(first.places[0].node, "n1");
    let node = |quote: &Quote| quote.node.clone();
    let asked = quoted(&mut controller, &job("90", "ask"), NOW);
    let held = quoted(&mut controller, &job("90", "hold:5m"), NOW);
    assert_eq!(node(&asked), Some("n1".to_string()));
    assert_eq!(node(&held), Some("n2".to_string()));
    let number = held.held.expect("it is held").number;
    match controller.submit(&job("90", &number), NOW + 290.0) {
        Answer::Accept(accepted) => {
            assert_eq!(accepted.nodes, ["n2"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_wrong_with_a_question_is_said() {
    let mut controller = controller();
    for (deadline, quote, part) in [
        ("soon", "ask", "--sla-deadline: 'soon'"),
        ("20", "maybe", "--sla-quote: 'maybe' is not the number"),
        ("20", "hold:1h", "at most 10m"),
    ] {
        let text = refused(&mut controller, &job(deadline, quote), NOW);
        assert!(text.starts_with("libra: ") && text.contains(part), "{text}");
    }
    let mut part_of_one = job("20", "ask");
    part_of_one.component = Some(0);
    assert!(refused(&mut controller, &part_of_one, NOW).contains("heterogeneous"));
}

#[test]
fn a_held_quote_is_used_once_by_its_user_for_its_job() {
    let mut controller = controller();
    let quote = quoted(&mut controller, &job("20", "hold:5m"), NOW);
    let number = quote.held.expect("it is held").number;
    assert!(
        quote.text.contains(&format!("sbatch --sla-quote={number}")),
        "{}",
        quote.text
    );
    for _ in 0..3 {
        let answer = controller.submit(&job("20", ""), NOW);
        assert!(matches!(answer, Answer::Accept(_)), "{answer:?}");
    }
    assert!(refused(&mut controller, &job("20", ""), NOW).contains("share"));
    // Polls of the queue take back acceptances without a job, and not what is held.
    controller
        .poll(&records(NOW + 20.0), NOW + 20.0)
        .expect("a poll");
    assert_eq!(controller.book().job_count(), 1);
    let now = NOW + 25.0;
    let mut other = job("20", &number);
    other.user = 8;
    assert!(refused(&mut controller, &other, now).contains("no quote"));
    let text = refused(&mut controller, &job("25", &number), now);
    assert!(
        text.contains("deadline from submission is 25 and the quote's 20"),
        "{text}"
    );
    let mut elsewhere = job("20", &number);
    elsewhere.partition = Some("main".to_string());
    let text = refused(&mut controller, &elsewhere, now);
    assert!(
        text.contains("its partition is main and the quote's none"),
        "{text}"
    );
    let mut test = job("20", &number);
    test.without_session = true;
    let text = refused(&mut controller, &test, now);
    assert!(text.contains("stands, for 10.5"), "{text}");
    let Answer::Accept(accepted) = controller.submit(&job("20", &number), now) else {
        panic!("a test used it up");
    };
    let commitment = Commitment::parse(&accepted.commitment).expect("ours");
    assert_eq!((commitment.price, commitment.submitted), (10.5, now));
    assert!(controller.book().has_token(commitment.token));
    let text = refused(&mut controller, &job("20", &number), now);
    assert!(text.contains("was used or given back"), "{text}");
    // Accepted and never queued, it is taken back as any other is.
    controller
        .poll(&records(now + 6.0), now + 6.0)
        .expect("a poll");
    assert_eq!(controller.book().job_count(), 0);
}

#[test]
fn it_expires_and_can_be_given_back() {
    let mut controller = controller();
    let mut hold = |order: &str| {
        let quote = quoted(&mut controller, &job("20", order), NOW);
        quote.held.expect("it is held").number
    };
    let (first, second) = (hold("hold:1m"), hold("hold:5m"));
    assert!(refused(&mut controller, &job("20", "hold:5m"), NOW).contains("2 quotes of yours"));
    let drop = Submission {
        user: 7,
        comment: Some(format!("libra:quote=drop:{second}")),
        ..Submission::default()
    };
    let text = refused(&mut controller, &drop, NOW);
    assert_eq!(find_dropped(&text), Some(second));
    assert!(refused(&mut controller, &drop, NOW).contains("no quote"));
    let text = refused(&mut controller, &job("20", &first), NOW + 90.0);
    assert!(text.contains("expired 30 s ago"), "{text}");
    assert_eq!(controller.book().job_count(), 0);
}

#[test]
fn an_array_is_held_whole() {
    let mut controller = controller();
    let mut question = job("40", "hold:5m");
    question.array = Some("1-4".to_string());
    question.options[2].1 = "100".to_string();
    let number = quoted(&mut controller, &question, NOW)
        .held
        .expect("held")
        .number;
    assert_eq!(controller.book().job_count(), 4);
    let mut with_it = question.clone();
    with_it.options[3].1 = number;
    let Answer::Accept(accepted) = controller.submit(&with_it, NOW + 100.0) else {
        panic!("not accepted");
    };
    assert_eq!(accepted.nodes, ["n1"]);
    assert!(
        accepted.commitment.ends_with("tasks=1-4"),
        "{}",
        accepted.commitment
    );
    assert_eq!(controller.book().job_count(), 4);
}

#[test]
fn a_held_quote_outlives_the_controller() {
    let mut before = controller();
    let held = quoted(&mut before, &job("20", "hold:5m"), NOW);
    let mut array = job("40", "hold:5m");
    array.array = Some("1-2".to_string());
    array.options[2].1 = "100".to_string();
    let of_array = quoted(&mut before, &array, NOW);
    let text = before.changed_quotes(NOW).expect("changed");
    assert_eq!(before.changed_quotes(NOW), None);

    let (mut after, log) = controller_after(Some(&text), NOW + 60.0);
    assert_eq!(log[0], "2 quotes are held as before");
    assert_eq!(after.book().job_count(), 3);
    let number = held.held.expect("held").number;
    array.options[3].1 = of_array.held.expect("held").number;
    for submission in [job("20", &number), array] {
        let Answer::Accept(accepted) = after.submit(&submission, NOW + 60.0) else {
            panic!("{:?}", after.submit(&submission, NOW + 60.0));
        };
        let commitment = Commitment::parse(&accepted.commitment).expect("ours");
        assert_eq!(commitment.submitted, NOW + 60.0);
        let again = refused(&mut after, &submission, NOW + 60.0);
        assert!(again.contains("was used or given back"), "{again}");
    }
    assert_eq!(after.changed_quotes(NOW + 61.0).as_deref(), Some(""));
}

#[test]
fn what_is_no_list_of_quotes_is_said_and_costs_nothing_else() {
    let mut before = controller();
    quoted(&mut before, &job("20", "hold:5m"), NOW);
    let good = before.changed_quotes(NOW).expect("changed");
    let one = good.replacen("[{", "[{\"user\": 5}, {", 1);
    for (text, count, part) in [
        ("", 0, "are lost"),
        ("[]", 0, "expected 'version'"),
        ("{\"version\": 2, \"quotes\": []}", 0, "of version 2"),
        ("{\"version\": 1, \"quotes\": 5}", 0, "a list of 'quotes'"),
        (one.as_str(), 1, "a held quote is lost"),
        (&good[..good.len() / 2], 0, "are lost"),
    ] {
        let (after, log) = controller_after(Some(text), NOW);
        let log = log.join("; ");
        assert!(log.contains(part), "{text}: {log}");
        assert_eq!(after.book().job_count(), count, "{text}");
    }
}
