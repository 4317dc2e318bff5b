//! What comes out: compared with the references in `tests/data/simulate`, with itself, and by reason.

use super::{printed, simulate, text};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Compares with the file of this name. `LIBRA_KEEP=1` writes it anew: look at what changed.
fn as_reference(name: &str, found: &str) {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/data/simulate")
        .join(name);
    if std::env::var_os("LIBRA_KEEP").is_some() {
        fs::write(&path, found).expect("the file");
    }
    let reference = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    for (line, (reference, found)) in reference.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, reference, "{name}: line {}", line + 1);
    }
    assert_eq!(found.lines().count(), reference.lines().count(), "{name}");
}

fn lines_of_json(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

const QUEUES: &str = "fifo,easy,edf";
const SHARES: &str = "libra,libra-sla,libra-risk,libra-adaptive";

/// As in the papers: deadlines of the run time, each slot on its own.
const PAPERS: &[&str] = &["--deadline-model", "run", "--coupled", "never"];

fn measures_and_outcomes_are_as_the_reference(name: &str, policies: &str, model: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut measures = vec!["LOG", "--policy", policies, "--format", "json"];
    measures.extend(model);
    let all = printed(directory.path(), &measures);
    as_reference(&format!("{name}.json"), &all);
    let mut outcomes = vec![
        "LOG",
        "--policy",
        policies,
        "--first",
        "60",
        "--soft",
        "--arrival-delay-factor",
        "0.3",
        "--outcomes",
        "o.csv",
    ];
    outcomes.extend(model);
    printed(directory.path(), &outcomes);
    let outcomes = fs::read_to_string(directory.path().join("o.csv")).expect("written");
    as_reference(&format!("{name}.csv"), &outcomes);
}

#[test]
fn the_queues_are_as_the_reference() {
    measures_and_outcomes_are_as_the_reference("queues", QUEUES, PAPERS);
}

#[test]
fn the_shares_are_as_the_reference() {
    measures_and_outcomes_are_as_the_reference("shares", SHARES, PAPERS);
}

#[test]
fn aroma_is_as_the_reference() {
    measures_and_outcomes_are_as_the_reference("aroma", "aroma", PAPERS);
}

#[test]
fn queues_that_know_deadlines_are_as_the_reference() {
    let policies = "easy-drop,edf-backfill,conservative";
    measures_and_outcomes_are_as_the_reference("baselines", policies, PAPERS);
}

/// By the defaults: deadlines of the estimate, jobs of more than one processor coupled.
#[test]
fn shares_of_coupled_jobs_are_as_the_reference() {
    measures_and_outcomes_are_as_the_reference("coupled", SHARES, &[]);
}

/// What was used is said, and makes a difference where it should.
#[test]
fn models_are_named_in_text_json_and_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |arguments: &[&str]| {
        let mut all = vec![
            "LOG",
            "--policy",
            "easy,libra-adaptive",
            "--seeds",
            "1",
            "--report",
            "page.html",
        ];
        all.extend(arguments);
        let table = printed(directory.path(), &all);
        all.push("--json");
        let json = lines_of_json(&printed(directory.path(), &all));
        let page = fs::read_to_string(directory.path().join("page.html")).expect("a page");
        (table, json, page)
    };
    let met = |json: &[Value], line: usize| json[line]["fulfilled"].as_u64().expect("a count");
    let (table, default, page) = run(&[]);
    let head = table.lines().next().expect("a line");
    assert!(
        head.ends_with("; deadlines: estimate; coupled: multi-processor"),
        "{head}"
    );
    assert_eq!(default[0]["coupled"], "multi-processor");
    assert_eq!(default[0]["deadline_model"], "estimate");
    assert_eq!(default[0]["infeasible"], 0.0);
    assert!(page.contains("at the pace of the slowest") && page.contains("deadline / estimate"));
    let (table, never, page) = run(&["--coupled", "never"]);
    assert!(table.contains("; coupled: never"), "{table}");
    assert_eq!(never[0]["coupled"], "never");
    assert!(page.contains("each slot makes its own way"));
    // Queues do not know of slots that wait; shares do.
    assert_eq!(met(&default, 0), met(&never, 0));
    assert!(met(&default, 1) <= met(&never, 1));
    assert_ne!(default[1]["mean_slowdown"], never[1]["mean_slowdown"]);
    let (table, spin, page) = run(&["--waiting", "spin"]);
    assert!(
        table.contains("multi-processor, waiting slots spin"),
        "{table}"
    );
    assert!(page.contains("a slot that waits uses up its time"));
    assert_eq!(
        (&spin[0]["waiting"], &default[0]["waiting"]),
        (&"spin".into(), &"block".into())
    );
    assert_ne!(spin[1]["mean_slowdown"], default[1]["mean_slowdown"]);
    let (_, always, _) = run(&["--coupled", "always"]);
    assert_eq!(met(&always, 1), met(&default, 1));
    for (model, options, said) in [
        ("run", &[][..], "deadline / run time"),
        (
            "slack",
            &["--slack", "90m"],
            "exponential length, mean 1h30m",
        ),
        (
            "clock",
            &["--clock-times", "7:30,fri-12:00"],
            "the clock times 7:30,fri-12:00",
        ),
    ] {
        let mut arguments = vec!["--deadline-model", model];
        arguments.extend(options);
        let (table, json, page) = run(&arguments);
        assert!(table.contains(&format!("; deadlines: {model};")), "{table}");
        assert_eq!(json[0]["deadline_model"], model);
        assert!(page.contains(said), "{model}");
        assert_ne!(met(&json, 0), met(&default, 0), "{model}");
    }
    let (table, json, page) = run(&["--deadline-model", "run", "--infeasible", "0.25"]);
    assert!(
        table.contains("; deadlines: run, infeasible 0.25;"),
        "{table}"
    );
    assert_eq!(json[0]["infeasible"], 0.25);
    assert!(page.contains("25 % of the jobs: half of the run time or more"));
    // A quarter of 500 cannot end in time under anything.
    assert!(met(&json, 0) < 400 && met(&json, 1) < 400, "{json:?}");
}

/// The measures can be counted from the outcomes.
#[test]
fn outcomes_and_measures_agree() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [
        "LOG",
        "--policy",
        QUEUES,
        "--soft",
        "--estimates",
        "trace",
        "--json",
        "--outcomes",
        "o.csv.gz",
    ];
    let measures = lines_of_json(&printed(directory.path(), &arguments));
    let packed = fs::File::open(directory.path().join("o.csv.gz")).expect("written");
    let mut csv = String::new();
    let mut reader = flate2::read::GzDecoder::new(packed);
    reader.read_to_string(&mut csv).expect("gzip");
    let rows: Vec<Vec<&str>> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 3 * 500);
    for measures in measures {
        let of_policy = || rows.iter().filter(|row| row[1] == measures["policy"]);
        let count =
            |column: usize, value: &str| of_policy().filter(|row| row[column] == value).count();
        assert_eq!(measures["submitted"], of_policy().count());
        let ran = count(3, "accepted") + count(3, "conditional");
        assert_eq!(measures["accepted"], ran);
        assert_eq!(measures["conditional"], count(3, "conditional"));
        let late = |decision: &str| {
            let rows = of_policy().filter(|row| row[3] == decision);
            rows.filter(|row| row[8] == "no").count()
        };
        assert_eq!(measures["late"], late("accepted"));
        assert_eq!(measures["conditional_late"], late("conditional"));
        assert_eq!(measures["rejected"], count(3, "refused"));
        assert_eq!(measures["fulfilled"], count(8, "yes"));
        let utility: f64 = of_policy()
            .map(|row| row[9].parse::<f64>().expect("a number"))
            .sum();
        let told = measures["utility"].as_f64().expect("budgets are limited");
        assert!(
            (utility - told).abs() <= 1e-9 * utility.abs(),
            "{utility} {told}"
        );
        for row in of_policy() {
            let number = |column: usize| row[column].parse::<f64>().expect("a number");
            if row[3] != "refused" {
                assert!(number(5) >= number(2) && number(6) > number(5), "{row:?}");
                assert_eq!(row[8] == "yes", number(6) <= number(7) + 1e-6, "{row:?}");
                assert!(!row[11].is_empty(), "{row:?}");
            }
        }
    }
}

#[test]
fn the_same_command_writes_the_same_bytes_on_any_number_of_threads() {
    let run = |arguments: &[&str], threads: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let mut all = vec![
            "LOG",
            "--policy",
            QUEUES,
            "--threads",
            threads,
            "--report",
            "page.html",
        ];
        all.extend(arguments);
        let mut files = vec![printed(directory.path(), &all)];
        for file in ["page.html", "o.csv"] {
            let path = directory.path().join(file);
            files.push(fs::read_to_string(path).unwrap_or_default());
        }
        files
    };
    for arguments in [
        &["--outcomes", "o.csv"][..],
        &["--seeds", "3", "--json"],
        &[
            "--seeds",
            "2",
            "--sweep",
            "arrival-delay-factor=0.2,0.4,...,1",
        ],
    ] {
        let one = run(arguments, "1");
        assert_eq!(one, run(arguments, "1"));
        assert_eq!(one, run(arguments, "2"));
        assert!(one[1].contains("</html>"));
    }
    let other = |seed| run(&["--seed", seed, "--json"], "1")[0].clone();
    assert_ne!(other("1"), other("2"));
}

#[test]
fn a_sweep_has_a_line_for_each_value_and_policy() {
    let directory = tempfile::tempdir().expect("a directory");
    let sweep = [
        "LOG",
        "--sweep",
        "nodes=64..192..64",
        "--policy",
        "easy,edf",
    ];
    let table = printed(directory.path(), &sweep);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2 + 3 * 2, "{table}");
    assert!(lines[1].starts_with("NODES  POLICY"), "{table}");
    assert!(lines[7].trim_start().starts_with("192  edf"), "{table}");
    let mut json = sweep.to_vec();
    json.extend(["--format", "json", "--seeds", "2"]);
    let json = lines_of_json(&printed(directory.path(), &json));
    assert_eq!(json.len(), 6);
    assert_eq!(json[5]["sweep"]["parameter"], "nodes");
    assert_eq!(json[5]["sweep"]["value"], 192.0);
    assert_eq!(json[5]["nodes"], 192);
    assert_eq!(json[5]["seeds"], 2);
    assert!(json[5]["standard_deviation"]["mean_slowdown"].is_number());
    // More nodes, more jobs in time.
    let met = |line: usize| json[line]["fulfilled"].as_f64().expect("a number");
    assert!(met(0) < met(2) && met(2) < met(4), "{json:?}");
}

#[test]
fn terms_given_by_the_site_count() {
    let directory = tempfile::tempdir().expect("a directory");
    let every_job = (1..=500).map(|job| format!("{job},100d,1000000\n"));
    let csv: String = std::iter::once("job,deadline,budget\n".to_string())
        .chain(every_job)
        .collect();
    fs::write(directory.path().join("terms.csv"), csv).expect("a file");
    let arguments = ["LOG", "--policy", "fifo", "--sla", "terms.csv", "--json"];
    let line = &lines_of_json(&printed(directory.path(), &arguments))[0];
    assert_eq!(line["fulfilled"], 500);
    assert_eq!(line["utility"], 500.0 * 1e6);
    fs::write(directory.path().join("terms.csv"), "job,deadline\n777,1h\n").expect("a file");
    let output = simulate(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(
        error.contains("terms.csv: line 2: there is no job 777"),
        "{error}"
    );
}

#[test]
fn what_is_left_out_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = fs::read_to_string(super::synthetic()).expect("the log");
    log += "this is not a job\n";
    fs::write(directory.path().join("log.swf"), log).expect("a file");
    let strict = simulate(directory.path(), &["log.swf"]);
    assert_eq!(strict.status.code(), Some(2));
    assert!(text(&strict.stderr).contains("log.swf: line 518"));
    let arguments = [
        "log.swf",
        "--lenient",
        "--nodes",
        "20",
        "--report",
        "page.html",
    ];
    let lenient = simulate(directory.path(), &arguments);
    let said = text(&lenient.stderr);
    assert_eq!(lenient.status.code(), Some(0), "{said}");
    assert!(
        said.contains("1 line left out") && said.contains("line 518"),
        "{said}"
    );
    assert!(said.contains("larger than the machine"), "{said}");
    let page = fs::read_to_string(directory.path().join("page.html")).expect("a page");
    assert!(
        page.contains("left out: larger than the machine"),
        "not in the page"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_the_page_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_libra"))
        .arg("simulate")
        .arg(super::synthetic())
        .args(["--report", "page.html"])
        .current_dir(directory.path())
        .env("LIBRA_CONFIG", "/dev/null")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("libra");
    drop(child.stdout.take());
    assert!(child.wait().expect("libra").success());
    let page = fs::read_to_string(directory.path().join("page.html")).expect("a page");
    assert!(page.ends_with("</html>\n"));
}

/// What the documentation shows is what is printed.
#[test]
fn the_documentation_shows_what_is_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/simulator.md");
    let docs = fs::read_to_string(docs).expect("the documentation");
    let mut shown = 0;
    for example in docs.split("\n    $ libra ").skip(1) {
        let example = example.split("\n\n").next().unwrap_or(example);
        let (command, expected) = example.split_once('\n').expect("an answer");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_libra"))
            .args(command.split(' '))
            .current_dir(directory.path())
            .env("LIBRA_CONFIG", "/dev/null")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("libra");
        let expected: Vec<&str> = expected
            .lines()
            .map(|line| line.get(4..).unwrap_or(""))
            .collect();
        assert_eq!(
            text(&output.stdout).lines().collect::<Vec<_>>(),
            expected,
            "{command}"
        );
        shown += 1;
    }
    assert_eq!(shown, 5);
}
