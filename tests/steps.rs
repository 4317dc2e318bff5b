//! What `scripts/test` shows of a step that failed: what failed, and little else.

use std::io::Write;
use std::path::Path;
use std::process::Command;

fn shown(printed: &str) -> Vec<String> {
    failures(&[], printed)
}

fn failures(options: &[&str], printed: &str) -> Vec<String> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(printed.as_bytes()).expect("it is written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/failures");
    let output = Command::new(script)
        .args(options)
        .arg(file.path())
        .output()
        .expect("scripts/failures");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn of_a_long_line_both_ends() {
    let command = format!("Command '[{}]'", "'a word', ".repeat(40));
    let printed = format!(
        "FAILED test_x.X.test_y (0.1 s)\n{command} returned non-zero exit status 10.\nok test_x.X.test_z (0.1 s)\n"
    );
    let lines = shown(&printed);
    let line = lines
        .iter()
        .find(|line| line.starts_with("Command"))
        .unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(
        line.ends_with("returned non-zero exit status 10.") && line.len() == 200,
        "{line}"
    );
}

/// So many tests of cargo that passed, and what they said.
fn passed(tests: usize) -> String {
    let ok: String = (0..tests)
        .map(|n| format!("test good_{n} ... ok\n"))
        .collect();
    let said: String = (0..tests)
        .map(|n| format!("---- good_{n} stdout ----\n{n} accepted, none failed\n\n"))
        .collect();
    format!("running {tests} tests\n{ok}\nsuccesses:\n\n{said}\nsuccesses:\n    good_0\n\n")
}

#[test]
fn of_cargo_the_failed_test_and_what_it_said() {
    let printed = format!(
        "   Compiling libra v0.1.0\n{}test result: ok. 500 passed; 0 failed\n\n\
         {}failures:\n\n---- bad stdout ----\nthread 'bad' panicked at tests/x.rs:1:1:\n{}the end\n\n\
         failures:\n    bad\n\ntest result: FAILED. 500 passed; 1 failed\n\n\
         error: test failed, to rerun pass `--test x`\n\n{}test result: ok. 500 passed; 0 failed\n",
        passed(500),
        passed(500),
        "a line of a list\n".repeat(400),
        passed(500),
    );
    let lines = shown(&printed);
    for wanted in [
        "thread 'bad' panicked at tests/x.rs:1:1:",
        "the end",
        "    bad",
        "error: test failed, to rerun pass `--test x`",
    ] {
        assert!(
            lines.iter().any(|line| line == wanted),
            "{wanted}: {lines:#?}"
        );
    }
    assert!(lines.len() <= 100, "{} lines", lines.len());
    assert!(
        !lines.iter().any(|line| line.contains("good")),
        "{lines:#?}"
    );
}

#[test]
fn of_the_suites_each_failed_test_up_to_the_next_verdict() {
    let lines = shown(
        "ok test_node.Tasks.test_one (1.0 s)\n\n  used 0.600\n\
         FAILED test_node.Tasks.test_two (181.3 s)\nTraceback (most recent call last):\n\
         TimeoutError: after 180 s still not: it prints again\n\
         -- test_node.Tasks: 190 s\nok test_node.Tasks.test_three (1.0 s)\n2 passed, 1 failed, in 190 s\n",
    );
    assert_eq!(
        lines,
        [
            "FAILED test_node.Tasks.test_two (181.3 s)",
            "Traceback (most recent call last):",
            "TimeoutError: after 180 s still not: it prints again",
        ]
    );
}

#[test]
fn the_names_of_all_that_failed_come_first() {
    let failed = |name: usize| {
        format!(
            "FAILED test_node.Tasks.test_{name} (1.0 s)\n{}ok test_node.Tasks.test_good (1.0 s)\n",
            "of its log\n".repeat(60)
        )
    };
    let lines = shown(&(0..2).map(failed).collect::<String>());
    assert_eq!(
        lines[..3],
        [0, 1, 0].map(|name| format!("FAILED test_node.Tasks.test_{name} (1.0 s)"))
    );
    let lines = shown(&(0..50).map(failed).collect::<String>());
    assert_eq!((lines.len(), lines[20].as_str()), (100, "[30 more]"));
}

#[test]
fn of_the_compiler_its_errors_and_of_anything_else_the_last_lines() {
    let lines = shown(
        "   Compiling a\nerror[E0425]: cannot find value `x`\n --> src/lib.rs:1:1\n\n   Compiling b\n",
    );
    assert_eq!(
        lines,
        ["error[E0425]: cannot find value `x`", " --> src/lib.rs:1:1"]
    );
    let lines = shown(&(0..1000).map(|n| format!("line {n}\n")).collect::<String>());
    assert_eq!(
        (lines.len(), lines.last().map(String::as_str)),
        (30, Some("line 999"))
    );
}

#[test]
fn of_each_failed_test_its_name_and_why_in_one_line() {
    let suite = "ok test_node.Tasks.test_one (1.0 s)\n\
         FAILED test_node.Tasks.test_two (181.3 s)\nTraceback (most recent call last):\n  File \"x.py\", line 3\n    f()\n\
         TimeoutError: after 180 s still not: it prints again\nthe log of slurmctld:\nslurmctld: error: it is late\n\
         ok test_node.Tasks.test_three (1.0 s)\n\
         FAILED in Open OnDemand, 3 s after it began\nTraceback (most recent call last):\n\
         subprocess.CalledProcessError: exit 3\n2 passed, 2 failed, in 190 s\n";
    assert_eq!(
        failures(&["--each"], suite),
        [
            "test_node.Tasks.test_two: TimeoutError: after 180 s still not: it prints again",
            "in Open OnDemand, 3 s after it began: subprocess.CalledProcessError: exit 3",
        ]
    );
    let cargo = format!(
        "{}failures:\n\n---- bad stdout ----\nsaid before\n\nthread 'bad' panicked at tests/x.rs:1:1:\nassertion failed: it holds\nnote: run with\n\n\
         ---- worse::case stdout ----\nError: \"no file\"\n\n---- worst stdout ----\n\nfailures:\n    bad\n    worse::case\n    worst\n\ntest result: FAILED. 500 passed; 3 failed\n",
        passed(3)
    );
    assert_eq!(
        failures(&["--each"], &cargo),
        [
            "bad: assertion failed: it holds",
            "worse::case: Error: \"no file\"",
            "worst",
        ]
    );
}
