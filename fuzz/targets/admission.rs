//! What users submit to a batch system, shown by PBS's hooks or by Slurm's plugin.

use super::{NOW, amount, refused, text, words};
use libra_batch::quote::line::MARK;
use libra_batch::words::signed;
use libra_config::Config;
use libra_core::book::{Book, Snapshot};
use libra_core::commitment::Commitment;
use libra_core::decision::class_defaults::{ClassDefaults, ClassLine};
use libra_pbs::LONGEST_TEXT;
use libra_pbs::server::Server;
use libra_pbs::{TERMS, records};
use libra_slurm::array::JobCommitment;
use libra_slurm::controller::{Answer, Controller};
use libra_slurm::gres::Gres;
use libra_slurm::options;
use libra_slurm::problem::Problem;
use libra_slurm::records::{Memory, Node, Partition, Records};
use libra_slurm::submission::{Asked, Submission};
use serde_json::{Value, json};
use std::collections::HashSet;

/// What PBS's hooks show, one event a line, to a server that knows two nodes.
pub fn pbs_events(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let mut server = Server::new(&Config::default());
    let node = |name: &str| json!({"name": name, "share": "2.0", "mem": "8gb", "up": true, "resources": {"host": name}});
    let known =
        json!({"event": "records", "now": NOW, "nodes": [node("n1"), node("n2")], "jobs": []});
    server
        .answer(&known)
        .expect("these records are well-formed");
    let mut issued = HashSet::new();
    // What others say was committed, and what nodes have, is believed: then it need not fit.
    let mut believed = false;
    for line in text.lines().take(64) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let commitment = event["job"]["commitment"].as_str().map(str::trim);
        believed |= commitment.is_some_and(|commitment| !issued.contains(commitment));
        believed |= event.get("nodes").is_some() || event.get("jobs").is_some();
        let before = server.book().job_count();
        let answer = match server.answer(&event) {
            Ok(answer) => answer,
            Err(error) => {
                refused(&error);
                continue;
            }
        };
        answered(&answer);
        let resources = &answer["resources"];
        if let Some(line) = resources["libra_terms"]
            .as_str()
            .filter(|line| *line != "-")
        {
            let commitment = Commitment::parse(line).expect("our own line");
            assert_eq!(commitment.line(), line);
            assert!(
                commitment
                    .places
                    .iter()
                    .all(|place| server.book().committed_shares(&place.node).is_some())
            );
            issued.insert(line.to_string());
            let select = resources["select"].as_str().unwrap_or_default();
            if event["event"] == "queuejob" {
                super::select::ours(select);
                assert!(
                    server.book().has_token(commitment.token),
                    "committed and not kept"
                );
            }
        }
        if event["event"] == "queuejob"
            && answer["verdict"] == "refuse"
            && event["job"]["quote"].is_null()
        {
            assert!(server.book().job_count() <= before, "refused and kept");
        }
        for name in ["n1", "n2"] {
            if let (Some((committed, has)), false) =
                (server.book().committed_shares(name), believed)
            {
                assert!(
                    committed <= has * 1.000_001,
                    "{name} has {has}, {committed} are committed"
                );
            }
        }
    }
    sound(server.book());
    // Of the same records a restart makes a book as well.
    for line in text.lines().take(8) {
        if let Ok(event) = serde_json::from_str::<Value>(line) {
            let (snapshot, problems) = records::snapshot(&event, NOW, true);
            let mut book = Book::new(libra_rules::admission(&Config::default()), 30.0);
            if book.rebuild(&snapshot).is_ok() {
                sound(&book);
            }
            problems.iter().for_each(|problem| words(problem, 1000, ""));
        }
    }
    for key in TERMS {
        let _ = libra_wording::terms::key_with_class(key).expect("a key of ours");
    }
}

/// A hook knows what to do with it.
fn answered(answer: &Value) {
    assert!(answer.is_object(), "{answer}");
    for line in answer["log"].as_array().into_iter().flatten() {
        words(&line.as_str().expect("a text"), 64 * 1024, "");
    }
    if answer.get("wants").is_some() || answer.get("check").is_some() {
        return;
    }
    match answer["verdict"].as_str() {
        Some("accept") => {}
        Some("refuse") => said(answer["text"].as_str().expect("a text"), LONGEST_TEXT),
        other => panic!("{other:?}"),
    }
}

/// A refusal whose lines are all ours: what a user has typed is a part of a line. The answer to a question is one.
fn said(text: &str, most: usize) {
    words(&text, most, "\n");
    let ours = |line: &str| line.starts_with("libra:") || line.starts_with(MARK);
    assert!(text.lines().all(ours), "{text}");
}

/// All numbers of a book are numbers, and its snapshot makes the same book.
fn sound(book: &Book) {
    let snapshot = book.snapshot();
    for node in &snapshot.nodes {
        amount(node.processors);
        amount(node.committed);
    }
    for job in &snapshot.jobs {
        job.request.check().expect("in range");
        amount(job.price);
        for place in &job.places {
            amount(place.cput);
            assert!(
                (0.0..=1.0).contains(&place.share) && (0.0..=1.0).contains(&place.committed_share)
            );
        }
    }
    let written = serde_json::to_vec(&snapshot).expect("JSON");
    let again: Snapshot = serde_json::from_slice(&written).expect("reads");
    let mut other = Book::new(*book.admission(), f64::INFINITY);
    let problems = other.rebuild(&again).expect("rebuilds");
    assert_eq!(problems, []);
    assert_eq!(other.job_count(), book.job_count());
    assert_eq!(other.node_count(), book.node_count());
}

fn node(name: &str, processors: u32) -> Node {
    Node {
        name: name.to_string(),
        processors,
        memory: 8192,
        up: true,
        unknown: false,
        answers: true,
        up_since: 0.0,
        features: vec!["big".to_string(), "fast".to_string()],
        gres: Gres::list("gpu:tesla:2(S:0),gpu:fake:1,tape:4"),
    }
}

/// Submissions of Slurm's, with \u{1} between two: option values, comment, array, features, sizes and names, a line each; to a
/// cluster of three nodes.
pub fn slurm_submission(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let mut controller = Controller::new(&Config::default(), NOW - 100.0);
    let names = ["n1", "n2", "n3"];
    let records = Records {
        taken: NOW - 1.0,
        jobs: Vec::new(),
        nodes: names.iter().map(|name| node(name, 4)).collect(),
        partitions: vec![Partition {
            name: "main".to_string(),
            nodes: names.iter().map(ToString::to_string).collect(),
            shared: true,
            jobs_per_processor: 20,
            longest: None,
            default: true,
            up: true,
            one_user: false,
            default_memory: None,
        }],
        licenses: vec![("matlab".to_string(), 4)],
        ..Records::default()
    };
    controller.poll(&records, NOW - 1.0).expect("a poll");
    for text in text.split('\u{1}').take(16) {
        let submission = submission(text);
        each_part(&submission);
        match controller.submit(&submission, NOW) {
            Answer::Accept(accepted) => {
                let commitment = JobCommitment::parse(&accepted.admin_comment);
                let commitment = commitment.expect("ours").expect("our own line");
                assert_eq!(commitment.line(), accepted.commitment);
                let (asked, _) = read(&submission).expect("it was taken");
                let asked = asked.array;
                assert_eq!(commitment.commitment.count as usize, asked.len().max(1));
                said(&signed(std::slice::from_ref(&accepted.quote)), 1000);
                assert!(accepted.time_limit >= 1 && accepted.node_count >= 1);
                assert!(
                    accepted
                        .nodes
                        .iter()
                        .all(|node| names.contains(&node.as_str()))
                );
                let budget = commitment.commitment.request.terms.budget;
                assert!(
                    commitment.commitment.price <= budget * 1.000_001,
                    "{accepted:?}"
                );
            }
            Answer::Refuse(not) => said(&not.text, 2100),
            Answer::Answered(line) => said(&line, 8000),
            Answer::Pass | Answer::PassWithout(_) => assert!(!submission.has_terms()),
            Answer::NotReady => panic!("its records were read"),
        }
        for name in names {
            let committed = controller.book().committed(name).expect("it is there");
            assert!(committed <= 4.0 * 1.000_001, "{committed} of 4 on {name}");
            let more = controller.book().overdrawn(name);
            assert_eq!(more, None, "{name} has less of it than is promised");
        }
    }
    sound(controller.book());
}

fn submission(text: &str) -> Submission {
    let mut lines = text.lines().map(str::to_string);
    let mut next = || lines.next().filter(|line| !line.is_empty());
    let mut submission = Submission {
        comment: next(),
        array: next(),
        features: next(),
        ..Submission::default()
    };
    let mut size = || next().and_then(|line| line.parse::<u32>().ok());
    (submission.tasks, submission.least_nodes) = (size(), size());
    (
        submission.tasks_per_node,
        submission.processors_per_task,
        submission.time_limit,
    ) = (size(), size(), size());
    for name in [
        "estimate",
        "sla-deadline",
        "budget",
        "penalty-rate",
        "sla-quote",
    ] {
        if let Some(value) = next() {
            submission.options.push((name.to_string(), value));
        }
    }
    let list = |line: Option<String>| -> Vec<String> {
        let names = line.unwrap_or_default();
        names
            .split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_string)
            .collect()
    };
    (submission.required_nodes, submission.excluded_nodes) = (list(next()), list(next()));
    submission.partition = next();
    let number = |line: Option<String>| line.and_then(|line| line.parse::<u64>().ok());
    submission.memory = number(next()).map(Memory::PerNode);
    if let Some(memory) = number(next()) {
        submission.memory = Some(Memory::PerProcessor(memory));
    }
    submission.component = number(next()).map(|component| component as u32);
    let gres = &mut submission.gres;
    (gres.per_node, gres.per_job, gres.per_task) = (next(), next(), next());
    submission.licenses = next();
    submission
}

/// On a site that says nothing of classes.
fn read(submission: &Submission) -> Result<(Asked, Option<ClassLine>), Problem> {
    submission.read(&ClassDefaults::default(), &[], NOW)
}

/// What the plugins ask of a submission one by one.
fn each_part(submission: &Submission) {
    let _ = submission.quote();
    match read(submission) {
        Ok((asked, _)) => {
            super::taken(&asked.terms);
            assert!(asked.array.windows(2).all(|pair| pair[0] < pair[1]));
            let count = submission.array.is_some();
            assert_eq!(count, !asked.array.is_empty());
        }
        Err(problem) => refused(&problem),
    }
    match submission.shape(64) {
        Ok(shape) => assert!(shape.chunks >= 1 && shape.processors_per_chunk >= 1),
        Err(problem) => refused(&problem),
    }
    for (number, (_, value)) in submission.options.iter().enumerate() {
        if let Err(problem) = options::check(number, value) {
            refused(&problem);
        }
    }
}
