//! A third batch system, made here alone: what it has to bring is in `spool.rs`, and everything else is what PBS and Slurm use.

#[path = "../web/client.rs"]
#[expect(dead_code, reason = "its other callers are in tests/web")]
mod client;
mod spool;

use client::Page;
use libra_core::decision::class::Class;
use libra_page::listener::ListenAddress;
use libra_page::serve::{Content, Input, Options, Told, serve};
use libra_page::system::submission::{Submission, Submitted};
use libra_page::system::{Site, System};
use spool::{Job, Spool};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

fn site(directory: &Path) -> Site {
    Site {
        libra: env!("CARGO_BIN_EXE_libra").into(),
        config: None,
        state: directory.to_path_buf(),
        home: directory.to_path_buf(),
        files: directory.to_path_buf(),
        templates: None,
        classes: [Class::Deadline; 2],
    }
}

fn wanted(estimate: &str, deadline: &str, budget: &str) -> Submission {
    Submission {
        estimate: estimate.to_string(),
        deadline: deadline.to_string(),
        budget: budget.to_string(),
        ..Submission::default()
    }
}

fn job(wanted: &Submission, quote: Option<&str>) -> Job {
    Job {
        user: "ann".to_string(),
        wanted: wanted.clone(),
        quote: quote.map(str::to_string),
    }
}

#[test]
fn what_a_question_is_answered_a_submission_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let spool = Spool::new(site(directory.path()), 1);
    let half = wanted("100h", "200h", "1000000");
    let quote = spool.ask(&half, "ask").expect("an answer");
    assert!(quote.accepted, "{quote:?}");
    assert!(quote.curve.len() > 10, "the price over deadlines");
    assert_eq!(spool.jobs().expect("jobs"), [], "nothing is queued");
    let (id, committed) = spool.send(&job(&half, None)).expect("accepted");
    assert_eq!(
        (committed.price, committed.commitment.share_on("")),
        (quote.price, quote.share.expect("a share"))
    );
    let refused = spool.send(&job(&half, None)).expect_err("the node is full");
    assert!(
        refused.starts_with("refused (share)")
            && refused.contains("accepted now would be: deadline="),
        "{refused}"
    );
    assert_eq!(spool.ask(&half, "ask").expect("an answer").text, refused);
    spool.end(std::slice::from_ref(&id)).expect("it ends");
    assert!(spool.ask(&half, "ask").expect("an answer").accepted);
}

#[test]
fn a_held_quote_is_used_once_and_for_what_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let spool = Spool::new(site(directory.path()), 1);
    let half = wanted("100h", "200h", "1000000");
    let held = spool
        .ask(&half, "hold:10m")
        .expect("an answer")
        .held
        .expect("it is held");
    let refused = spool
        .send(&job(&half, None))
        .expect_err("its share is reserved");
    assert!(refused.starts_with("refused (share)"), "{refused}");
    let other = spool.send(&job(&wanted("100h", "300h", "1000000"), Some(&held.number)));
    assert!(other.expect_err("it was for 200 h").contains("deadline"));
    spool
        .send(&job(&half, Some(&held.number)))
        .expect("accepted");
    spool
        .send(&job(&half, Some(&held.number)))
        .expect_err("it is used up");
    assert_eq!(spool.jobs().expect("jobs").len(), 1);
}

#[test]
fn what_was_committed_is_known_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let half = wanted("100h", "200h", "1000000");
    let spool = Spool::new(site(directory.path()), 1);
    spool.send(&job(&half, None)).expect("accepted");
    let committed = |spool: &Spool| spool.cluster().expect("nodes").nodes[0].committed;
    let before = committed(&spool);
    drop(spool);
    let spool = Spool::new(site(directory.path()), 1);
    // What a job needs that waits grows by what it waited.
    assert!((committed(&spool) - before).abs() < 0.01, "{before}");
    spool.send(&job(&half, None)).expect_err("the node is full");
}

#[test]
fn bad_values_are_said_and_nothing_is_queued() {
    let directory = tempfile::tempdir().expect("a directory");
    let spool = Spool::new(site(directory.path()), 1);
    let mut no_processors = wanted("1h", "2h", "100");
    no_processors.processors = "0".to_string();
    for (wanted, quote, said) in [
        (wanted("soon", "2h", "1"), None, "'soon'"),
        (wanted("", "2h", "1"), None, "estimate is missing"),
        (no_processors, None, "processors=0"),
        (wanted("1h", "2h", "100"), Some("hold:never"), "quote: "),
        (
            wanted("1h", "2h", "100"),
            Some("drop:0000000-0000000000000000"),
            "quote 0000000",
        ),
    ] {
        let answer = spool.send(&job(&wanted, quote)).expect_err("refused");
        assert!(answer.contains(said), "{said}: {answer}");
    }
    assert_eq!(spool.jobs().expect("jobs"), []);
}

/// The page knows nothing of this system but what it says of itself.
#[test]
fn the_page_submits_to_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let spool = Spool::new(site(directory.path()), 1);
    let (tell, told) = mpsc::channel();
    let options = Options {
        place: ListenAddress::Address("127.0.0.1:0".parse().expect("an address")),
        content: Content::Own {
            system: Box::new(spool),
            user: "ann".to_string(),
            history: None,
        },
        idle: Duration::from_secs(6000),
        hosts: Vec::new(),
        base: String::new(),
        proxy: None,
        input: Input::Nothing,
    };
    // It ends with the test program.
    std::thread::spawn(move || {
        serve(options, &|what| {
            let _ = tell.send(what);
        })
    });
    let Ok(Told::Address(url)) = told.recv_timeout(client::PATIENCE) else {
        panic!("the page tells no address");
    };
    let page = Page {
        url,
        work: directory.path().to_path_buf(),
    };
    let browser = page.enter();
    let form = browser.get("submit");
    assert!(
        form.body.contains("jobs go to a directory") && form.body.contains("#SPOOL"),
        "{form:?}"
    );
    let terms = [
        ("estimate", "100h"),
        ("deadline", "200h"),
        ("budget", "1000000"),
    ];
    let price = browser.post(
        "quote",
        &[&terms[..], &[("script", "true"), ("directory", "/")]].concat(),
    );
    assert!(price.body.contains("52.5 % of a processor"), "{price:?}");
    let key = browser.submit(&terms).key();
    let queued = std::fs::read_dir(directory.path().join("queue")).expect("its directory");
    let names: Vec<_> = queued
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, [key.as_str()]);
    assert!(browser.get("jobs").body.contains(&key));
    let full = browser.submit(&terms);
    assert!(
        full.body.contains("refused") || full.body.contains("Refused"),
        "{full:?}"
    );
    let cluster = browser.get("cluster");
    assert!(cluster.body.contains("n1"), "{cluster:?}");
    let chosen = format!("job.{key}");
    let asked = browser.post("cancel", &[(&chosen, "on")]);
    assert!(asked.body.contains("This job ends now"), "{asked:?}");
    let gone = browser.post("cancel", &[(&chosen, "on"), ("sure", "yes")]);
    assert_eq!(gone.status, 303, "{gone:?}");
    assert_eq!(
        std::fs::read_dir(directory.path().join("queue"))
            .expect("its directory")
            .count(),
        0
    );
}

#[test]
fn a_refusal_of_the_system_is_one_on_the_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let spool = Spool::new(site(directory.path()), 1);
    let said = spool.submit(&wanted("1h", "2h", "1"));
    let Ok(Submitted::Refused(quote)) = said else {
        panic!("{said:?}");
    };
    assert_eq!(quote.reason, "budget");
    assert!(
        quote.offers.iter().any(|offer| offer.budget.is_some()),
        "{quote:?}"
    );
}
