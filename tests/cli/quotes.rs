//! Quotes on this host: scripts, drawings, and held ones.

use crate::support::{Site, quiet, stderr, wait_for};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

const TERMS: &str = "deadline=20,budget=15,estimate=10";

fn done(command: &mut Command) -> Output {
    command.output().expect("libra")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn hold(site: &Site, time: &str, terms: &str) -> String {
    let output = done(&mut site.libra(&["quote", "--json", "--hold", time, "-W", terms]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json = json(&output);
    json["quote"].as_str().expect("a number").to_string()
}

fn use_it(site: &Site, number: &str, terms: &str) -> Output {
    let arguments = ["run", "--quote", number, "-W", terms, "--", "true"];
    done(&mut site.libra(&arguments))
}

#[test]
fn a_script_of_either_kind_is_quoted_and_the_command_line_wins() {
    let site = Site::new("[node]\nprocessors = 2");
    let pbs = "#!/bin/sh\n#PBS -l select=1:ncpus=2 -W deadline=20,budget=30,estimate=10\necho\n";
    let slurm =
        "#!/bin/sh\n#SBATCH -c 2 --estimate=10 --sla-deadline=20\n#SBATCH --budget=30\necho\n";
    for (name, text) in [("pbs.sh", pbs), ("slurm.sh", slurm)] {
        let script = site.path(name);
        fs::write(&script, text).expect("a script");
        let script = script.display().to_string();
        let quote = |more: &[&str]| {
            let mut arguments = vec!["quote", "--system", "local", "--json", script.as_str()];
            arguments.extend(more);
            done(&mut site.libra(&arguments))
        };
        let found = json(&quote(&["an argument"]));
        assert_eq!(found["verdict"], "accepted", "{found}");
        assert_eq!(
            (&found["price"], &found["slots"]),
            (&21.0.into(), &2.into())
        );
        assert_eq!(found["system"], "local");
        let points = found["curve"].as_array().expect("a curve");
        assert!((24..=40).contains(&points.len()));
        let asked = points.iter().find(|point| point["deadline"] == 20.0);
        assert_eq!(asked.expect("the asked one")["price"], 21.0);
        let output = quote(&["--deadline", "8"]);
        assert_eq!(output.status.code(), Some(3));
        let found = json(&output);
        assert_eq!(found["category"], "deadline");
        assert_eq!(found["counter_offers"][0]["deadline_seconds"], 10.5);
        assert_eq!(
            found["counter_offers"][0]["text"],
            "deadline=10.5 (costs 21.90)"
        );
    }
    let both = site.path("both.sh");
    fs::write(
        &both,
        "#PBS -W deadline=20,budget=30,estimate=10\n#SBATCH --budget=1\n",
    )
    .expect("a script");
    // Also where those lines have no estimate: whose command is here decides.
    let output = done(&mut site.libra(&["quote", "--system=local", &both.display().to_string()]));
    assert!(
        stderr(&output).contains("#PBS and #SBATCH lines: the #"),
        "{}",
        stderr(&output)
    );
    fs::write(&both, "#PBS -W deadline=soon\n").expect("a script");
    for (arguments, part) in [
        (
            ["quote", "--system=local", &both.display().to_string()],
            "line 1: -W: deadline: 'soon'",
        ),
        (
            ["quote", "--system=local", "/nonexistent.sh"],
            "/nonexistent.sh: cannot be read",
        ),
    ] {
        let output = done(&mut site.libra(&arguments));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

#[test]
fn the_price_is_drawn_where_it_is_asked_for() {
    let site = Site::new("[node]\nprocessors = 1");
    let file = site.path("price.svg");
    let mut command = site.libra(&["quote", "--chart", "-W", TERMS, "--svg"]);
    let output = done(command.arg(&file).env("LC_ALL", "C"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("# asked: 20 s") && text.is_ascii(), "{text}");
    let svg = fs::read_to_string(&file).expect("a drawing");
    assert!(
        svg.starts_with("<svg") && svg.contains("prefers-color-scheme:dark"),
        "{svg}"
    );
    let plain = done(&mut site.libra(&["quote", "-W", TERMS]));
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("asked:"));
    let nowhere = done(&mut site.libra(&["quote", "-W", TERMS, "--svg", "/nonexistent/x.svg"]));
    assert_eq!(nowhere.status.code(), Some(125));
}

#[test]
fn a_held_quote_outlives_its_program_and_is_used_once_for_what_it_was() {
    let _quiet = quiet();
    let site = Site::new("[node]\nprocessors = 1");
    let number = hold(&site, "10m", TERMS);
    let refused = done(&mut site.libra(&["quote", "-W", TERMS]));
    assert_eq!(
        refused.status.code(),
        Some(3),
        "its share is taken: {refused:?}"
    );
    let job = &site.jobs()[0];
    assert_eq!(job["phase"], "reserved");
    let left = job["left_seconds"].as_f64().expect("seconds");
    assert!((left - 20.0).abs() < 1e-6, "its time stands still: {left}");
    let table = done(&mut site.libra(&["status"]));
    assert!(
        String::from_utf8_lossy(&table.stdout).contains("quoted"),
        "{table:?}"
    );
    let other = use_it(&site, &number, "deadline=30,budget=15,estimate=10");
    assert_eq!(other.status.code(), Some(3));
    let said = stderr(&other);
    assert!(
        said.contains("deadline from submission is 30 and the quote's 20"),
        "{said}"
    );
    let used = use_it(&site, &number, TERMS);
    assert_eq!(used.status.code(), Some(0), "{}", stderr(&used));
    assert!(
        stderr(&used).contains("for 10.5 of 15 credits"),
        "{}",
        stderr(&used)
    );
    let again = use_it(&site, &number, TERMS);
    assert_eq!(again.status.code(), Some(3));
    assert!(
        stderr(&again).contains("was used or given back"),
        "{}",
        stderr(&again)
    );
    site.assert_nothing_left();
}

#[test]
fn of_many_who_use_a_quote_at_once_one_does() {
    let _quiet = quiet();
    let site = Site::new("[node]\nprocessors = 1");
    let number = hold(&site, "10m", TERMS);
    let children: Vec<_> = (0..12)
        .map(|_| {
            let arguments = ["run", "-q", "--quote", &number, "-W", TERMS, "--", "true"];
            site.libra(&arguments).spawn().expect("libra")
        })
        .collect();
    let codes: Vec<_> = (children.into_iter())
        .map(|mut child| child.wait().expect("a child").code())
        .collect();
    assert_eq!(
        codes.iter().filter(|code| **code == Some(0)).count(),
        1,
        "{codes:?}"
    );
    assert_eq!(
        codes.iter().filter(|code| **code == Some(3)).count(),
        11,
        "{codes:?}"
    );
    site.assert_nothing_left();
}

#[test]
fn it_expires_is_given_back_and_has_limits() {
    let site =
        Site::new("[node]\nprocessors = 1\n[admission]\nmost-quotes = 2\nlongest-quote = '1h'");
    let small = "deadline=100,budget=15,estimate=10";
    let first = hold(&site, "1h", small);
    let second = hold(&site, "1h", small);
    for (time, part) in [
        ("10s", "2 quotes of yours are held already"),
        ("2h", "at most 1h00m"),
        ("0", "more than 0 s"),
        ("soon", "--hold: 'soon'"),
    ] {
        let output = done(&mut site.libra(&["quote", "--hold", time, "-W", small]));
        assert!(matches!(output.status.code(), Some(2 | 3)));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    for number in [&first, &second] {
        let dropped = done(&mut site.libra(&["quote", "--drop", number]));
        assert!(dropped.status.success(), "{}", stderr(&dropped));
        let dropped = done(&mut site.libra(&["quote", "--drop", number]));
        assert_eq!(dropped.status.code(), Some(3));
    }
    // Alone: beside limits that need it to be there it would have to outlast them, on a slow machine too.
    let short = hold(&site, "1s", small);
    wait_for("it to expire", || site.jobs().is_empty());
    let late = use_it(&site, &short, small);
    assert!(stderr(&late).contains("expired"), "{}", stderr(&late));
    // Whoever looks next has removed it.
    let files = fs::read_dir(site.path("registry/jobs")).expect("a registry");
    assert_eq!(files.count(), 0);
    let cancelled = hold(&site, "1h", small);
    let id = site.jobs()[0]["id"].as_str().expect("an id").to_string();
    assert!(done(&mut site.libra(&["cancel", &id])).status.success());
    assert_eq!(use_it(&site, &cancelled, small).status.code(), Some(3));
}
