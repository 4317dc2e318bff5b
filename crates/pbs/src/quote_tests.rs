use super::LONGEST_TEXT;
use super::server::Server;
use libra_batch::quote::Quote;
use libra_batch::quote::line::find_dropped;
use libra_batch::quote::parts::AnswerPart;
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

fn budget(mut job: Value, credits: &str) -> Value {
    job["terms"]["budget"] = credits.into();
    job
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
    assert!(text.len() <= LONGEST_TEXT, "{}", text.len());
    Quote::find(text).unwrap_or_else(|| panic!("no quote: {text}"))
}

/// What `libra quote` is answered, which joins the parts; and how many there were.
fn quoted_whole(server: &mut Server, job: Value, order: &str, now: f64) -> (Quote, usize) {
    let ask = |server: &mut Server, order: String| {
        let answer = submit(server, with(job.clone(), "quote", &order), now);
        let text = answer["text"].as_str().expect("a text").to_string();
        assert!(text.len() <= LONGEST_TEXT, "{}", text.len());
        format!("qsub: {text}\n")
    };
    let said = ask(server, format!("parts:{order}"));
    let Some(first) = AnswerPart::find(&said) else {
        return (Quote::find(&said).expect("an answer"), 1);
    };
    let mut whole = first.text;
    for number in 2..=first.parts {
        let said = ask(server, format!("part:{number}:{}", first.key));
        whole.push_str(&AnswerPart::find(&said).expect("a part").text);
    }
    (Quote::find(&whole).expect("an answer"), first.parts)
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
        let short = quoted(&mut server, job.clone(), "1", NOW);
        let (quote, parts) = quoted_whole(&mut server, job.clone(), "1", NOW);
        assert!(parts > 1, "{quote:?}");
        assert_eq!(quote.accepted, accepted, "{quote:?}");
        assert_eq!((short.accepted, &short.text), (accepted, &quote.text));
        assert_eq!(short.price, quote.price);
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
fn nothing_of_a_long_answer_is_lost_in_parts_and_a_key_is_of_one_user() {
    let mut server = Server::new(&Config::default());
    let node = |index: u32| json!({"name": format!("a-host-with-a-long-name-{index}"), "share": "1", "up": true});
    let nodes: Vec<Value> = (0..200).map(node).collect();
    let records = json!({"event": "records", "nodes": nodes, "jobs": []});
    ask(&mut server, records, NOW);
    let wide = |deadline| {
        let job = with(job(deadline), "select", "150:ncpus=1");
        with(job, "place", "scatter")
    };
    let (quote, parts) = quoted_whole(&mut server, budget(wide("20"), "9999"), "ask", NOW);
    let named = quote
        .node
        .as_deref()
        .map_or(0, |nodes| nodes.split('+').count());
    assert_eq!((quote.accepted, named), (true, 150));
    assert!(quote.curve.len() >= 24 && parts > 5, "{parts}");
    let short = quoted(&mut server, budget(wide("20"), "9999"), "ask", NOW);
    assert!(short.node.is_some_and(|nodes| nodes.ends_with("+...")));
    // A held one is known by every part.
    let question = with(budget(wide("20"), "9999"), "quote", "parts:hold:5m");
    let answer = submit(&mut server, question, NOW);
    let first = AnswerPart::find(answer["text"].as_str().expect("a text")).expect("a part");
    assert!(first.held && first.parts > 5);
    let part = |user: &str, number: usize, key: &str| {
        let order = format!("part:{number}:{key}");
        json!({"user": user, "quote": order, "terms": {}})
    };
    let key = first.key;
    assert_eq!(
        submit(&mut server, part("ann", 2, &key), NOW)["verdict"],
        "refuse"
    );
    for (job, now) in [
        (part("bob", 2, &key), NOW),
        (part("ann", 99, &key), NOW),
        (part("ann", 2, &key), NOW + 61.0),
    ] {
        refused(&submit(&mut server, job, now), "ask again");
    }
    refused(
        &submit(&mut server, part("ann", 2, "7"), NOW),
        "is not a part",
    );
    let used = with(budget(wide("20"), "9999"), "quote", &key);
    assert_eq!(submit(&mut server, used, NOW + 61.0)["verdict"], "accept");
}

#[test]
fn no_refusal_is_longer_than_qsub_has_room_for() {
    let mut server = server();
    for letter in ["x", "€", "\u{1f40e}", "\u{7f}"] {
        let long = |count: usize| letter.repeat(count);
        let conditions: Vec<String> = (0..40).map(|n| format!("r{n}={}", long(60))).collect();
        for job in [
            with(
                job("20"),
                "select",
                &format!("1:ncpus=1:{}", conditions.join(":")),
            ),
            with(job("20"), "select", &long(9000)),
            with(job("20"), "array", &long(9000)),
            with(job("20"), "quote", &long(9000)),
            with(job(&long(9000)), "user", &long(900)),
        ] {
            let answer = submit(&mut server, job, NOW);
            refused(&answer, "");
            let text = answer["text"].as_str().expect("a text");
            assert!(text.len() <= LONGEST_TEXT, "{}", text.len());
            assert!(
                text.lines().all(|line| line.starts_with("libra: ")),
                "{text}"
            );
        }
    }
    let hooks = include_str!("../../../pbs-hooks/common.py");
    assert!(hooks.contains(&format!("\nLONGEST_TEXT = {LONGEST_TEXT}\n")));
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
