//! `libra workload`, `libra trace import` and `libra trace margin`: what they write, and what they say of bad input.

use libra_workload::import::PROMISED;
use libra_workload::read::{Leniency, read};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SYNTHETIC: &str = include_str!("../data/synthetic.swf");

fn libra(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_libra"))
        .args(arguments)
        .env_remove("LIBRA_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("libra");
    let mut pipe = child.stdin.take().expect("a pipe");
    // A command that fails at once does not read.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    child.wait_with_output().expect("libra")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fails(arguments: &[&str], input: &str, code: i32, message: &str) {
    let output = libra(arguments, input);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.contains(message), "{arguments:?}: {error}");
}

/// The log that other tests use is made by the command in its header, to the last byte.
#[test]
fn the_synthetic_log_can_be_made_again() {
    let line = SYNTHETIC.lines().nth(2).expect("a header");
    let command = line.split_once("libra ").expect("the command").1;
    let arguments: Vec<&str> = command.split(' ').collect();
    let output = libra(&arguments, "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), SYNTHETIC);
    let other = libra(
        &["workload", "--jobs", "500", "--nodes", "64", "--seed", "2"],
        "",
    );
    assert_ne!(text(&other.stdout), SYNTHETIC);
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/synthetic.swf");
    let log = read(&path, Leniency::Strict).expect("a log");
    assert_eq!((log.records.len(), log.never_ran()), (500, 0));
    assert_eq!(log.header.max_processors(), Some(64));
}

#[test]
fn a_synthetic_log_goes_where_it_is_told_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a.swf.gz").display().to_string();
    let arguments = ["workload", "--jobs", "50", "--load", "0.5", "-o", &file];
    let output = libra(&arguments, "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(
        said.contains("a.swf.gz: 50 jobs for 128 nodes, load 0.500"),
        "{said}"
    );
    assert!(fs::read(&file).expect("a file").starts_with(&[0x1f, 0x8b]));
    let log = read(Path::new(&file), Leniency::Strict).expect("a log");
    assert_eq!(log.records.len(), 50);
    let output = libra(&[&arguments[..], &["--json"]].concat(), "");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["jobs"], &json["nodes"]), (&50.into(), &128.into()));
}

#[test]
fn wrong_options_are_named() {
    for (arguments, message) in [
        (&["--jobs", "0"][..], "--jobs is 0, expected 1 to 100000000"),
        (&["--jobs", "many"], "'many' for '--jobs"),
        (&["--nodes", "0"], "--nodes is 0, expected 1 to 1048576"),
        (&["--users", "0"], "--users is 0"),
        (
            &["--load", "0"],
            "--load is 0, expected a part of the machine",
        ),
        (&["--load", "nan"], "--load is NaN"),
        (&["--estimates", "good"], "'good' for '--estimates"),
    ] {
        fails(&[&["workload"], arguments].concat(), "", 2, message);
    }
    fails(
        &["workload", "-o", "/nonexistent/a.swf"],
        "",
        125,
        "/nonexistent/a.swf: cannot be written",
    );
    fails(
        &["workload", "-o", "/dev/full"],
        "",
        125,
        "/dev/full: cannot be written",
    );
}

const HEADER: &str = "JobID|User|Submit|Start|End|State|ReqCPUS|TimelimitRaw\n";

#[test]
fn records_become_a_log() {
    let records = format!(
        "{HEADER}7|anna|2027-07-01T08:00:00|2027-07-01T08:01:00|2027-07-01T09:01:00|COMPLETED|4|120\n\
         7.batch||2027-07-01T08:01:00|2027-07-01T08:01:00|2027-07-01T09:01:00|COMPLETED|4|\n\
         9|ben|2027-07-01T08:30:00|Unknown|Unknown|PENDING|4|120\n"
    );
    let output = libra(
        &["trace", "import", "-", "--timezone", "Europe/Berlin"],
        &records,
    );
    let log = text(&output.stdout);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(
        log.lines().last(),
        Some("7 0 60 3600 -1 -1 -1 4 7200 -1 1 1 -1 -1 -1 -1 -1 -1")
    );
    // 2027-07-01T08:00 in Berlin is 06:00 UTC.
    for line in [
        "; UnixStartTime: 1814421600",
        "; User: 1 anna",
        "; MaxProcs: 4",
        "; TimeZoneString: Europe/Berlin",
    ] {
        assert!(log.lines().any(|l| l == line), "{line}: {log}");
    }
    for line in [
        "1 jobs, 0 of which never ran; 1 users, 0 groups, 0 queues",
        "left out: 1 jobs that were waiting or running",
        "left out: 1 lines of steps, or of arrays as a whole",
    ] {
        assert!(said.lines().any(|l| l == line), "{line}: {said}");
    }
    let output = libra(&["trace", "import", "-", "--anonymous", "--json"], &records);
    assert!(!text(&output.stdout).contains("anna"));
    let json: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!((&json["jobs"], &json["not_ended"]), (&1.into(), &1.into()));
}

/// The clocks went back at 03:00 on 2026-10-25: 02:30 came twice, and the first is taken. So a job
/// that started in the second 02:10 after a submission in the first 02:50 seems to have started
/// before; it did not wait.
#[test]
fn hours_that_come_twice_or_not_at_all() {
    let records = format!(
        "{HEADER}1|a|2026-10-25T01:30:00|2026-10-25T02:30:00|2026-10-25T03:30:00|COMPLETED|1|\n\
         2|a|2026-10-25T02:50:00|2026-10-25T02:10:00|2026-10-25T02:20:00|COMPLETED|1|\n"
    );
    let output = libra(
        &["trace", "import", "-", "--timezone", "Europe/Berlin"],
        &records,
    );
    let log = text(&output.stdout);
    let jobs: Vec<&str> = log.lines().filter(|line| !line.starts_with(';')).collect();
    // 01:30 to the first 02:30: an hour; to 03:30: two hours more.
    assert!(jobs[0].starts_with("1 0 3600 7200 "), "{log}");
    assert!(jobs[1].starts_with("2 4800 0 600 "), "{log}");
}

#[test]
fn records_that_cannot_be_read_are_named() {
    let import = ["trace", "import", "-"];
    for (input, message) in [
        ("", "no job that has ended in 0 lines"),
        (
            "prose\n",
            "standard input: looks neither like what 'sacct --parsable2' prints",
        ),
        ("JobID|User\n", "line 1: the column Submit"),
        (
            &format!("{HEADER}1|a\n"),
            "standard input: line 2: 2 columns, expected 8",
        ),
        (
            "01/31/2027 09:00:00;E;1.s;user=a\n",
            "standard input: line 1: ctime and qtime are missing",
        ),
        ("\u{fd}7zXZ", "looks neither"),
    ] {
        fails(&import, input, 2, message);
    }
    fails(
        &["trace", "import", "-", "--timezone", "Mars/Olympus"],
        "",
        2,
        "there is no time zone 'Mars/Olympus'",
    );
    fails(&["trace", "import"], "", 2, "FILE");
    fails(
        &["trace", "import", "/nonexistent"],
        "",
        2,
        "/nonexistent: cannot be opened",
    );
    fails(
        &["trace", "import", "/"],
        "",
        2,
        "/: is a directory; name the files in it",
    );
    fails(
        &["trace", "import", "-", "--processors", "0"],
        "",
        2,
        "'0' for '--processors",
    );
    let input = format!(
        "{HEADER}1|a\n2|a|2027-07-01T08:00:00|2027-07-01T08:01:00|2027-07-01T09:01:00|FAILED|1|\n"
    );
    let output = libra(&["trace", "import", "-", "--lenient"], &input);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("left out: standard input: line 2: 2 columns"),
        "{said}"
    );
    assert!(
        said.contains("left out: 1 lines that could not be read"),
        "{said}"
    );
}

#[test]
fn help_says_what_to_run() {
    let output = libra(&["trace", "import", "--help"], "");
    let help = text(&output.stdout);
    for part in [
        "sacct --allusers",
        "accounting/202701*",
        "Exit status:",
        "Europe/Berlin",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    let output = libra(&["workload", "--help"], "");
    let help = text(&output.stdout);
    assert!(
        help.contains("Examples:") && help.contains("--load"),
        "{help}"
    );
}

/// A log of jobs estimated at 100 s that run so long; an estimate of -1 is none.
fn log_of(jobs: impl IntoIterator<Item = (f64, i32)>) -> String {
    let line = |(number, (run_time, estimate))| {
        let number: usize = number;
        format!("{number} {number} 0 {run_time} 1 -1 -1 1 {estimate} -1 1 1 1 -1 -1 -1 -1 -1\n")
    };
    jobs.into_iter().enumerate().map(line).collect()
}

#[test]
fn a_margin_is_proposed_with_what_it_rests_on() {
    // Ten of 400 jobs need a tenth more; four of them may.
    let run_time = |at: usize| if at % 40 == 0 { 110.0 } else { 80.0 };
    let log = log_of((0..400).map(|at| (run_time(at), 100)));
    let output = libra(&["trace", "margin", "-"], &log);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("400 jobs ran and had an estimate (0 never ran, 0 had none)"));
    assert!(said.contains("estimate-margin = \"10%\""), "{said}");
    assert!(said.contains("The first two thirds of the log propose 10 %; 0.0 % of the last third"));
    let output = libra(&["--json", "trace", "margin", "--last", "350", "-"], &log);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["jobs"], &json["margin"]), (&350.into(), &0.1.into()));
    assert_eq!(json["exceeding"][1]["margin"], 0.05);
    assert_eq!(json["exceeded_in_last_third"], 0.0);
}

#[test]
fn logs_that_propose_no_margin_are_errors() {
    let margin = ["trace", "margin", "-"];
    fails(&margin, "", 2, "no job in 0 lines");
    let never = log_of((0..400).map(|_| (-1.0, 100)));
    fails(&margin, &never, 2, "none of the 400 jobs of the log ran");
    let unknown = log_of((0..400).map(|_| (50.0, -1)));
    fails(
        &margin,
        &unknown,
        2,
        "none of the 400 jobs that ran has an estimate",
    );
    let few = log_of((0..299).map(|_| (50.0, 100)));
    fails(&margin, &few, 2, "only 299 jobs ran and had an estimate");
    fails(&margin, "1 2 three\n", 2, "line 1");
    fails(
        &["trace", "margin", "/nowhere/log.swf"],
        "",
        2,
        "/nowhere/log.swf",
    );
    fails(&["trace", "margin", "--last", "0", "-"], "", 2, "--last");
}

#[test]
fn a_margin_that_is_kept_is_followed_within_its_bounds() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("libra.toml");
    let kept = directory.path().join("learned-margin.toml");
    let of_config = config.to_string_lossy().into_owned();
    let keep = ["--config", &of_config, "trace", "margin", "--keep", "-"];
    let checked = || {
        let output = libra(&["--config", &of_config, "--json", "config", "check"], "");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["estimate_margin"].as_f64().expect("a number")
    };
    let run_time = |at: usize| if at % 40 == 0 { 120.0 } else { 80.0 };
    let plain = log_of((0..400).map(|at| (run_time(at), 100)));
    let log = format!("; {PROMISED}\n{plain}");
    fails(&keep, &plain, 2, "libra trace import --promised");
    fs::write(&config, "[admission]\nestimate-margin = '7%'\n").expect("a file");
    let output = libra(&keep, &log);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("a margin of its own, 7 %"), "{said}");
    assert!(
        fs::read_to_string(&kept)
            .expect("kept")
            .contains("margin = \"20%\"")
    );
    assert_eq!(checked(), 0.07);
    let learned = "[admission]\nestimate-margin = 'learned'\n";
    fs::write(&config, learned).expect("a file");
    assert_eq!(checked(), 0.2);
    fs::write(
        &config,
        format!("{learned}learned-margin-bounds = ['0%', '15%']\n"),
    )
    .expect("a file");
    assert_eq!(checked(), 0.15);
    // A file that somebody has spoilt is said, and written anew.
    fs::write(&kept, "twenty percent\n").expect("a file");
    fails(
        &["--config", &of_config, "config", "check"],
        "",
        2,
        "learned-margin.toml",
    );
    let output = libra(&[&["--json"], &keep[..]].concat(), &log);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["margin_that_counts"], 0.15);
    assert_eq!(json["kept"], kept.to_string_lossy().as_ref());
    // A link stays one, also to what is not there yet.
    fs::remove_file(&kept).expect("ours");
    std::os::unix::fs::symlink("shared.toml", &kept).expect("a link");
    fails(
        &["--config", &of_config, "config", "check"],
        "",
        2,
        "learned-margin.toml",
    );
    assert_eq!(libra(&keep, &log).status.code(), Some(0));
    assert!(kept.is_symlink() && directory.path().join("shared.toml").is_file());
    // Where nothing is proposed, what was learned stays.
    let few = log_of((0..299).map(|_| (50.0, 100)));
    fails(&keep, &format!("; {PROMISED}\n{few}"), 2, "only 299 jobs");
    assert_eq!(checked(), 0.15);
    fails(
        &[
            "--config",
            "/nowhere/libra.toml",
            "trace",
            "margin",
            "--keep",
            "-",
        ],
        &log,
        125,
        "cannot write /nowhere/learned-margin.toml",
    );
}
