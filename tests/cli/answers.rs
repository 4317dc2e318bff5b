//! What is said: verdicts, errors, warnings, tables, help.

use crate::support::{Site, stderr};
use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn a_quote_says_price_share_and_verdict_or_what_would_be_accepted() {
    let site = Site::new("[node]\nprocessors = 1");
    let quote = |terms: &str| {
        let output = site.libra(&["quote", "-W", terms]).output().expect("libra");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = quote("deadline=20,budget=15,estimate=10");
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("52.5 % of a processor") && text.contains("10.5 of 15"),
        "{text}"
    );

    let (code, text) = quote("deadline=20,budget=10,estimate=10");
    assert_eq!(code, Some(3));
    assert!(
        text.contains("refused (budget)") && text.contains("budget=10.5"),
        "{text}"
    );

    let (code, text) = quote("deadline=8,budget=15,estimate=10");
    assert_eq!(code, Some(3));
    assert!(
        text.contains("refused (deadline)") && text.contains("deadline=10.5"),
        "{text}"
    );

    let output = site
        .libra(&[
            "quote",
            "--json",
            "--estimate=10",
            "--deadline=1m",
            "--budget=unlimited",
        ])
        .output()
        .expect("libra");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["verdict"], "accepted");
    assert_eq!(json["budget"], Value::Null);
    assert!((json["share"].as_f64().expect("share") - 0.175).abs() < 1e-12);
}

#[test]
fn a_deadline_below_the_estimate_is_refused_or_conditional_as_the_site_says() {
    for policy in ["libra-adaptive", "libra-risk"] {
        let site = |above: &str| {
            Site::new(&format!(
                "[node]\nprocessors = 1\n[admission]\npolicy = '{policy}'\n{above}"
            ))
        };
        let quote = |site: &Site| -> (Option<i32>, Value) {
            let asked = ["quote", "--json", "-W", "deadline=10,budget=50,estimate=20"];
            let output = site.libra(&asked).output().expect("libra");
            let json = serde_json::from_slice(&output.stdout).expect("JSON");
            (output.status.code(), json)
        };
        let (code, json) = quote(&site(""));
        assert_eq!((code, &json["verdict"]), (Some(3), &"refused".into()));
        assert_eq!(json["category"], "deadline", "{json}");
        let offer = json["counter_offers"][0]["deadline"].as_f64();
        assert!(
            offer.is_some_and(|offer| (20.0..=21.5).contains(&offer)),
            "{json}"
        );
        let taking = site("estimate-above-deadline = 'conditional'");
        let (code, json) = quote(&taking);
        assert_eq!((code, &json["verdict"]), (Some(0), &"conditional".into()));
        let text = json["text"].as_str().expect("a text");
        assert!(
            text.starts_with("conditional: ")
                && text.contains("if it needs less than its estimate of 20 s"),
            "{text}"
        );
    }
}

#[test]
fn wrong_arguments_and_configurations_are_named() {
    let site = Site::new("");
    for (arguments, part) in [
        (
            // A price needs no budget; a job does.
            &["run", "-W", "deadline=20,estimate=10", "--", "true"][..],
            "budget is missing",
        ),
        (&["quote", "-W", "colour=blue"], "no 'colour'"),
        (
            &["quote", "-W", "deadline=1:30,budget=1,estimate=1"],
            "HH:MM:SS",
        ),
        (
            &["quote", "-W", "deadline=1,budget=1,estimate=1", "-p", "0"],
            "processors_per_chunk is 0",
        ),
        (
            &[
                "quote",
                "-W",
                "deadline=1,budget=1,estimate=1",
                "--memory",
                "much",
            ],
            "--memory",
        ),
        (&["run", "-W", "deadline=1,budget=1,estimate=1"], "COMMAND"),
    ] {
        let output = site.libra(arguments).output().expect("libra");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            stderr(&output).contains(part),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    let bad = site.path("bad.toml");
    fs::write(&bad, "[pricing]\nalpah = 2\n").expect("a file");
    let output = site
        .libra(&["config", "check", &bad.display().to_string()])
        .output()
        .expect("libra");
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(
        text.contains("bad.toml") && text.contains("line 2") && text.contains("alpah"),
        "{text}"
    );
}

#[test]
fn help_pages_and_completions_come_from_one_source() {
    let site = Site::new("");
    let directory = site.path("generated");
    for what in ["man", "completions"] {
        let output = site
            .libra(&["generate", what, &directory.display().to_string()])
            .output()
            .expect("libra");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let page = fs::read_to_string(directory.join("libra-run.1")).expect("a man page");
    for part in [
        "deadline",
        ".SH EXAMPLES",
        ".SH \"EXIT STATUS\"",
        "127  the program",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let help = site.libra(&["run", "--help"]).output().expect("libra");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.contains("Exit status:") && help.contains("Examples:"),
        "{help}"
    );
    for name in [
        "libra.1",
        "libra-quote.1",
        "libra-agent.1",
        "libra.bash",
        "_libra",
        "libra.fish",
    ] {
        assert!(directory.join(name).exists(), "{name}");
    }
}

#[test]
fn a_check_warns_of_what_is_valid_and_will_not_do() {
    let site = Site::new("");
    let check = |text: &str, more: &[&str]| {
        let file = site.path("check.toml");
        fs::write(&file, text).expect("a file");
        let output = site
            .libra(&["config", "check", &file.display().to_string()])
            .args(more)
            .output()
            .expect("libra");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said, stderr(&output))
    };
    for (text, part) in [
        (
            "[node]\nprocessors = 5000.5",
            "warning: node.processors is 5000.5 and this host has ",
        ),
        (
            "[cgroup]\nroot = \"/\"",
            "warning: shares are NOT enforced: cgroup.root is '/'",
        ),
    ] {
        let (code, said, _) = check(text, &[]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(part), "{said}");
        let (_, said, _) = check(text, &["--json"]);
        let json: Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(json["warnings"].as_array().map(Vec::len), Some(1), "{said}");
    }
    let (_, said, _) = check("", &[]);
    assert!(!said.contains("warning"), "{said}");

    for directory in ["/dev/null", "/dev/null/below"] {
        let text = format!("[registry]\ndirectory = \"{directory}\"");
        let (code, _, error) = check(&text, &[]);
        assert_eq!(code, Some(2));
        assert!(
            error.contains("registry.directory is '/dev/null"),
            "{error}"
        );
        let (code, said, _) = check(&text, &["--json"]);
        let json: Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(
            (code, &json["valid"]),
            (Some(2), &Value::Bool(false)),
            "{said}"
        );
    }
}

#[test]
fn an_empty_variable_is_as_good_as_none_and_a_wrong_one_is_not() {
    let check = |variable: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_libra"));
        let output = command
            .args(["config", "check"])
            .env("LIBRA_CONFIG", variable)
            .output();
        output.expect("libra")
    };
    assert!(
        !stderr(&check("")).contains("--config"),
        "{}",
        stderr(&check(""))
    );
    let output = check("/nonexistent/libra.toml");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("/nonexistent/libra.toml"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_cannot_be_a_job_is_told_from_one_that_is_not_there() {
    let site = Site::new("");
    let cancel = |id: &str| {
        let output = site.libra(&["cancel", id]).output().expect("libra");
        (output.status.code(), stderr(&output))
    };
    for (id, part) in [
        ("", "a job id is missing"),
        ("../lock", "cannot be"),
        ("a\nb", "cannot be"),
    ] {
        let (code, said) = cancel(id);
        assert!(code == Some(2) && said.contains(part), "{id}: {said}");
    }
    let (code, said) = cancel("99");
    assert!(code == Some(4) && said.contains("no job 99"), "{said}");
    let run = site
        .run("deadline=60000,budget=9000,estimate=1000", "true")
        .output()
        .expect("libra");
    assert!(run.status.success());
    let (code, said) = cancel("1");
    assert!(
        code == Some(4) && said.contains("job 1 has ended already"),
        "{said}"
    );
}

#[test]
fn a_piped_status_is_not_cut() {
    let site = Site::new("");
    let script = format!("true {}", "argument ".repeat(60));
    let run = site
        .run("deadline=60000,budget=9000,estimate=1000", &script)
        .output()
        .expect("libra");
    assert!(run.status.success());
    let output = site.libra(&["status"]).output().expect("libra");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(script.trim_end()), "{said}");
}
