//! Classes of jobs that name none: by queue, by processors.

use crate::server::Server;
use crate::tests::{ask, config, node, submit, terms, text, with};
use libra_batch::quote::Quote;
use serde_json::{Value, json};

const CLASSES: &str = "[class]\nseveral = 'dedicated'\n[class.queues]\nmpi = 'dedicated'\nnow = 'immediate'\nthreads = 'deadline'\n";

/// One with a default queue of this name, and a queue that sends jobs to `mpi`.
fn server(default: &str) -> Server {
    let mut server = Server::new(&config(CLASSES));
    let queues = json!({"submit": {"routes": true, "destinations": "mpi"}});
    let records = json!({"event": "records", "nodes": [node("n1", "4"), node("n2", "4")], "jobs": [],
        "site": {"default_queue": default, "name": "s"}, "queues": queues});
    ask(&mut server, records, 1000.0);
    server
}

fn class(answer: &Value) -> String {
    let line = answer["resources"]["libra_terms"].as_str();
    let line = line.unwrap_or_else(|| panic!("{answer}"));
    let class = line.split(':').find_map(|pair| pair.strip_prefix("class="));
    class.unwrap_or("deadline").to_string()
}

#[test]
fn a_job_that_names_no_class_has_that_of_its_queue_or_its_processors() {
    for (default, queue, select, expected) in [
        ("work", "", "1:ncpus=1", "deadline"),
        ("work", "", "1:ncpus=2", "dedicated"),
        ("work", "", "2:ncpus=1", "dedicated"),
        ("mpi", "", "1:ncpus=1", "dedicated"),
        ("mpi", "work", "1:ncpus=1", "deadline"),
        ("work", "now@s", "1:ncpus=1", "immediate"),
        ("work", "threads", "1:ncpus=4", "deadline"),
        // It is submitted there, wherever it is sent.
        ("work", "submit", "1:ncpus=1", "deadline"),
    ] {
        let job = with(terms("10", "1000", "100000"), "select", select);
        let answer = submit(&mut server(default), with(job, "queue", queue), 1000.0);
        assert_eq!(class(&answer), expected, "{default} {queue} {select}");
    }
    let mut named = with(terms("10", "1000", "100000"), "queue", "mpi");
    named["terms"]["class"] = "deadline".into();
    assert_eq!(
        class(&submit(&mut server("work"), named, 1000.0)),
        "deadline"
    );
}

#[test]
fn a_refusal_and_a_quote_say_which_line_made_a_job_of_its_class() {
    let by = "class=dedicated by class.queues.mpi of the site's configuration, as it names none";
    let mut server = server("mpi");
    let missing = json!({"terms": {"estimate": "10", "budget": "100"}});
    let said = submit(&mut server, missing, 1000.0);
    let said = text(&said);
    assert!(
        said.contains("deadline is missing; class=dedicated needs it") && said.contains(by),
        "{said}"
    );
    let late = submit(&mut server, terms("100", "50", "100000"), 1000.0);
    let lines: Vec<&str> = text(&late).split('\n').collect();
    assert_eq!(lines[1], format!("libra: {by}"), "{lines:?}");
    let question = with(terms("10", "1000", "100000"), "quote", "ask");
    let answer = submit(&mut server, question, 1000.0);
    let quote = Quote::find(text(&answer)).expect("an answer");
    assert_eq!(quote.class.word(), "dedicated");
    assert_eq!(quote.class_line.as_deref(), Some("class.queues.mpi"));
    let hold = with(terms("10", "1000", "100000"), "quote", "hold:5m");
    let said = submit(&mut server, hold, 1000.0);
    assert!(
        text(&said).contains("cannot be held for class=dedicated") && text(&said).contains(by),
        "{said}"
    );
}

#[test]
fn an_offer_of_one_processor_keeps_the_class_that_several_have() {
    let mut server = server("work");
    // Seven of eight processors.
    for ncpus in ["4", "3"] {
        let job = with(
            terms("5000", "10000", "100000"),
            "select",
            &format!("1:ncpus={ncpus}"),
        );
        assert_eq!(class(&submit(&mut server, job, 1000.0)), "dedicated");
    }
    let two = with(terms("1000", "2500", "100000"), "select", "1:ncpus=2");
    let said = submit(&mut server, two, 1000.0);
    let offer = "-l select=1:ncpus=1 -W estimate=2000,class=dedicated (costs ";
    assert!(text(&said).contains(offer), "{said}");
}
