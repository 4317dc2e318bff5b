use super::server::Server;
use libra_batch::quote::{Quote, find_dropped};
use libra_config::Config;
use libra_core::commitment::Commitment;
use libra_core::decision::refusal::Category;
use serde_json::{Value, json};

const NOW: f64 = 1_790_000_000.0;

fn server() -> Server {
    let config = "[admission]\nestimate-margin = '0%'\nmost-quotes = 2\n";
    let mut server = Server::new(&Config::from_toml(config).expect("our own text"));
    let node = |name: &str| json!({"name": name, "share": "1", "up": true, "resources": {"arch": "linux"}});
    let records = json!({"event": "records", "nodes": [node("n1"), node("n2")], "jobs": []});
    ask(&mut server, records, NOW);
    server
}

fn ask(server: &mut Server, mut event: Value, now: f64) -> Value {
    event["now"] = now.into();
    server
        .answer(&event)
        .unwrap_or_else(|error| panic!("{event}: {error}"))
}

fn job(deadline: &str) -> Value {
    json!({"terms": {"estimate": "10", "deadline": deadline, "budget": "10.6"}, "user": "ann"})
}

fn with(mut job: Value, key: &str, value: &str) -> Value {
    job[key] = value.into();
    job
}

fn submit(server: &mut Server, job: Value, now: f64) -> Value {
    ask(server, json!({"event": "queuejob", "job": job}), now)
}

fn quoted(server: &mut Server, job: Value, order: &str, now: f64) -> Quote {
    let answer = submit(server, with(job, "quote", order), now);
    assert_eq!(answer["verdict"], "refuse", "{answer}");
    let text = answer["text"].as_str().expect("a text");
    assert!(text.len() < 3172, "{}", text.len());
    Quote::find(text).unwrap_or_else(|| panic!("no quote: {text}"))
}

fn refused(answer: &Value, part: &str) {
    assert_eq!(answer["verdict"], "refuse", "{answer}");
    let text = answer["text"].as_str().expect("a text");
    assert!(text.starts_with("libra: ") && text.contains(part), "{text}");
}

#[test]
fn a_question_is_answered_as_a_submission_and_never_queued() {
    let mut server = server();
    for (job, accepted) in [
        (job("20"), true),
        (job("12"), false),
        (job("5"), false),
        (with(job("20"), "array", "1-2"), false),
        (with(job("20"), "select", "1:ncpus=1:arch=mips"), false),
    ] {
        let quote = quoted(&mut server, job.clone(), "1", NOW);
        assert_eq!(quote.accepted, accepted, "{quote:?}");
        assert!(quote.curve.len() >= 24, "{quote:?}");
        assert_eq!(server.book().job_count(), 0);
        let answer = submit(&mut server, job, NOW);
        assert_eq!(answer["verdict"] == "accept", accepted, "{answer}");
        let said = match accepted {
            true => answer["resources"]["libra_info"].clone(),
            false => answer["text"].clone(),
        };
        let said = said.as_str().expect("a text").replace("libra: ", "");
        assert_eq!(quote.text, said);
        // Nothing of it is to be seen by the next one.
        server = self::server();
    }
}

#[test]
fn what_is_wrong_with_a_question_is_said() {
    let mut server = server();
    for (job, order, part) in [
        (job("soon"), "ask", "deadline: 'soon'"),
        (job("20"), "maybe", "'maybe' is not the number of a quote"),
        (job("20"), "hold:1h", "at most 10m"),
        (with(job("20"), "hold", "u"), "hold:1m", "may not start yet"),
    ] {
        let answer = submit(&mut server, with(job, "quote", order), NOW);
        refused(&answer, part);
    }
}

#[test]
fn a_held_quote_is_used_once_by_its_user_for_its_job() {
    let mut server = server();
    let quote = quoted(&mut server, job("20"), "hold:5m", NOW);
    let held = quote.held.expect("it is held");
    assert!(
        quote
            .text
            .contains(&format!("qsub -W quote={}", held.number)),
        "{}",
        quote.text
    );
    assert_eq!(held.until, NOW + 300.0);
    // Its half is taken, and three more halves are all that there is.
    for _ in 0..3 {
        assert_eq!(submit(&mut server, job("20"), NOW)["verdict"], "accept");
    }
    let now = NOW + 25.0;
    let mut use_it = |job: Value| submit(&mut server, with(job, "quote", &held.number), now);
    refused(&use_it(with(job("20"), "user", "bob")), "no quote");
    refused(
        &use_it(job("25")),
        "deadline from submission is 25 and the quote's 20",
    );
    refused(&use_it(with(job("20"), "array", "1-2")), "an array of 2");
    let answer = use_it(job("20"));
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(answer["resources"]["libra_quote"], Value::Null);
    assert_eq!(answer["resources"]["libra_price"], "10.5");
    let line = answer["resources"]["libra_terms"].as_str().expect("a line");
    assert_eq!(Commitment::parse(line).expect("ours").submitted, now);
    refused(&use_it(job("20")), "was used or given back");
}

#[test]
fn it_expires_and_can_be_given_back() {
    let mut server = server();
    let number = |quote: Quote| quote.held.expect("it is held").number;
    let first = number(quoted(&mut server, job("20"), "hold:1m", NOW));
    let second = number(quoted(&mut server, job("20"), "hold:5m", NOW));
    let third = submit(&mut server, with(job("20"), "quote", "hold:5m"), NOW);
    refused(&third, "2 quotes of yours");
    let drop = json!({"user": "ann", "quote": format!("drop:{second}"), "terms": {}});
    let answer = submit(&mut server, drop.clone(), NOW);
    let dropped = find_dropped(answer["text"].as_str().expect("a text"));
    assert_eq!(dropped, Some(second));
    refused(&submit(&mut server, drop, NOW), "no quote");
    let late = submit(&mut server, with(job("20"), "quote", &first), NOW + 90.0);
    refused(&late, "expired 30 s ago");
    assert_eq!(server.book().job_count(), 0);
}

#[test]
fn waiting_jobs_are_looked_for_before_a_question_is_refused() {
    let mut server = server();
    for id in ["1.s", "2.s", "3.s", "4.s"] {
        let commitment = submit(&mut server, job("20"), NOW);
        let named = json!({"id": id, "commitment": commitment["resources"]["libra_terms"]});
        ask(
            &mut server,
            json!({"event": "postqueuejob", "job": named}),
            NOW,
        );
    }
    let question = with(job("20"), "quote", "ask");
    let answer = submit(&mut server, question.clone(), NOW);
    assert_eq!(
        answer["check"].as_array().map(Vec::len),
        Some(4),
        "{answer}"
    );
    let answer = submit(&mut server, with(question, "checked", "yes"), NOW);
    let quote = Quote::find(answer["text"].as_str().expect("a text")).expect("a quote");
    assert_eq!(quote.category, Some(Category::Share));
    let unread = Server::new(&Config::default())
        .answer(&json!({"event": "queuejob", "now": NOW, "job": {"quote": "ask"}}));
    assert_eq!(unread.expect("an answer")["wants"], "records");
}
