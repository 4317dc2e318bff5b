//! Bad arguments: what is said, and that nothing is left behind.

use super::{simulate, text};
use std::fs;
use std::path::Path;

fn fails(directory: &Path, arguments: &[&str], code: i32, parts: &[&str]) {
    let output = simulate(directory, arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    for part in parts {
        assert!(
            error.contains(part),
            "{arguments:?}: no '{part}' in: {error}"
        );
    }
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    let left: Vec<_> = fs::read_dir(directory).expect("the directory").collect();
    assert!(left.is_empty(), "{arguments:?}: {left:?}");
}

#[test]
fn what_is_wrong_is_said_with_what_is_right() {
    let directory = tempfile::tempdir().expect("a directory");
    let fails = |arguments: &[&str], parts: &[&str]| fails(directory.path(), arguments, 2, parts);
    fails(
        &["LOG", "--policy", "esay"],
        &["'esay'", "nearest: 'easy'", "recorded, fifo, easy"],
    );
    fails(
        &["LOG", "--policy", "libra-dedicate"],
        &["nearest: 'libra-dedicated'"],
    );
    fails(&["LOG", "--policy", "edf,edf"], &["'edf' is there twice"]);
    fails(&["LOG", "--policy", "edf,"], &["there is no policy ''"]);
    fails(
        &["LOG", "--sweep", "nodes=1,2", "--sweep", "nodes=3"],
        &["--sweep", "multiple times"],
    );
    fails(
        &["LOG", "--sweep", "high-urgency=0.5,1.5"],
        &["--sweep high-urgency: 1.5, expected a fraction from 0 to 1"],
    );
    fails(
        &["LOG", "--sweep", "nodes=0"],
        &["--sweep nodes: 0, expected nodes, from 1"],
    );
    fails(
        &["LOG", "--sweep", "speed=1"],
        &["no parameter 'speed'", "deadline-factor"],
    );
    fails(&["LOG", "--sweep", "nodes"], &["no '='", "FROM..TO..STEP"]);
    fails(
        &["LOG", "--nodes", "0"],
        &["--nodes: 0, expected nodes, from 1 to 1000000"],
    );
    fails(
        &["LOG", "--processors-per-node", "0"],
        &["--processors-per-node: 0, expected processors, from 1"],
    );
    fails(
        &["LOG", "--nodes", "3"],
        &["processors and the machine has 3", "--lenient"],
    );
    fails(&["LOG", "--sweep", "nodes=64,3"], &["the machine has 3"]);
    fails(
        &["LOG", "--deadline-factor", "0"],
        &["--deadline-factor: 0, expected more than 0"],
    );
    fails(
        &["LOG", "--budget-ratio", "-1"],
        &["--budget-ratio: -1, expected"],
    );
    fails(
        &["LOG", "--estimate-margin", "-1"],
        &["--estimate-margin: -1, expected"],
    );
    fails(
        &["LOG", "--suspend", "sometimes"],
        &["--suspend", "memory, never"],
    );
    for more in [&[][..], &["--estimate-margin", "0.05"]] {
        let line = [&["LOG", "--jobs-per-processor", "0"], more].concat();
        fails(
            &line,
            &["--jobs-per-processor: 0, expected jobs, from 1 to 65536"],
        );
    }
    fails(
        &["LOG", "--estimates", "guess"],
        &["--estimates", "'trace', 'exact'"],
    );
    fails(
        &["LOG", "--policy", "libra-gang", "--nodes", "4"],
        &[
            "processors and the machine has 4; simulate a larger machine, or leave such jobs out with --lenient",
        ],
    );
    fails(
        &["LOG", "--infeasible", "2"],
        &["--infeasible: 2, expected a part of the jobs from 0 to 1, such as 0.1"],
    );
    fails(
        &["LOG", "--deadline-model", "slack", "--slack", "-1h"],
        &["--slack: '-1h' is not a duration", "0 or more"],
    );
    fails(
        &["LOG", "--slack", "1h"],
        &[
            "--slack: deadlines of the model 'estimate' have no such value",
            "choose 'slack'",
        ],
    );
    fails(
        &["LOG", "--deadline-model", "clock", "--deadline-factor", "2"],
        &[
            "--deadline-factor: deadlines of the model 'clock'",
            "choose 'estimate' or 'run'",
        ],
    );
    fails(
        &[
            "LOG",
            "--deadline-model",
            "slack",
            "--sweep",
            "deadline-ratio=1,2",
        ],
        &["--sweep deadline-ratio: deadlines of the model 'slack'"],
    );
    fails(
        &["LOG", "--deadline-model", "clock", "--clock-times", "25:00"],
        &[
            "--clock-times: '25:00' is no clock time, expected H:MM",
            "mon-8:00",
        ],
    );
    fails(
        &["LOG", "--clock-times", "8:00"],
        &[
            "--clock-times: deadlines of the model 'estimate'",
            "choose 'clock'",
        ],
    );
    fails(
        &["LOG", "--deadline-model", "fair"],
        &["'fair'", "run, estimate, slack, clock"],
    );
    fails(
        &["LOG", "--coupled", "sometimes"],
        &["'sometimes'", "never, multi-processor, always"],
    );
    fails(
        &["LOG", "--deadline-model", "slack", "--sweep", "slack=0,-5"],
        &["--sweep slack: -5, expected seconds from 0"],
    );
    fails(&["LOG", "--first", "0"], &["--first", "from 1 up"]);
    fails(
        &["LOG", "--first", "1", "--last", "1"],
        &["cannot be used with"],
    );
    fails(
        &["LOG", "--outcomes", "o", "--sweep", "nodes=64"],
        &["cannot be used with"],
    );
    fails(
        &["LOG", "--outcomes", "o", "--seeds", "2"],
        &["--outcomes", "one seed"],
    );
    fails(
        &["LOG", "--outcomes", "o", "--report", "o"],
        &["the same file"],
    );
    fails(
        &["LOG", "--sla", "nowhere.csv"],
        &["nowhere.csv: cannot be read"],
    );
    fails(&["nowhere.swf"], &["nowhere.swf: cannot be opened"]);
    // A new file is gone again where nothing came of it.
    fails(
        &[
            "nowhere.swf",
            "--report",
            "page.html",
            "--outcomes",
            "o.csv",
        ],
        &["nowhere.swf"],
    );
}

/// Said before the log is read: this one cannot be.
#[test]
fn a_file_that_cannot_be_written_is_said_before_the_work() {
    let directory = tempfile::tempdir().expect("a directory");
    for option in ["--report", "--outcomes"] {
        for file in ["no/such/directory/file", "."] {
            let parts = [format!("{file}: cannot be opened for writing")];
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            fails(
                directory.path(),
                &["nowhere.swf", option, file],
                125,
                &parts,
            );
        }
    }
}

#[test]
fn a_file_that_is_there_stays_as_it_is_where_nothing_came_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("page.html");
    fs::write(&page, "an older page").expect("a file");
    let output = simulate(
        directory.path(),
        &["LOG", "--nodes", "1", "--report", "page.html"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&page).expect("there"), "an older page");
}

#[test]
fn a_full_disk_is_said_and_the_results_are_printed() {
    if !Path::new("/dev/full").exists() {
        eprintln!("not run: there is no /dev/full");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let output = simulate(directory.path(), &["LOG", "--report", "/dev/full"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("/dev/full: cannot be written"));
    assert!(text(&output.stdout).contains("POLICY"));
    let output = simulate(directory.path(), &["LOG", "--outcomes", "/dev/full"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("/dev/full: cannot be written"));
}

#[test]
fn a_log_without_a_machine_asks_for_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = fs::read_to_string(super::synthetic()).expect("the log");
    let jobs: String = log
        .lines()
        .filter(|line| !line.starts_with(';'))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(directory.path().join("bare.swf"), jobs).expect("a file");
    let output = simulate(directory.path(), &["bare.swf"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("neither MaxNodes nor MaxProcs") && error.contains("--nodes"),
        "{error}"
    );
    let with = super::printed(
        directory.path(),
        &["bare.swf", "--nodes", "32", "--processors-per-node", "2"],
    );
    assert!(with.contains("on 32 nodes of 2 processors"), "{with}");
    super::printed(directory.path(), &["bare.swf", "--sweep", "nodes=64,128"]);
}

/// Never single processors where the header tells of nodes.
#[test]
fn nodes_that_are_not_alike_are_all_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = fs::read_to_string(super::synthetic()).expect("the log");
    let jobs = log.lines().filter(|line| !line.starts_with(';'));
    let mut uneven = "; MaxNodes: 30\n; MaxProcs: 128\n".to_string();
    jobs.for_each(|line| uneven += &format!("{line}\n"));
    fs::write(directory.path().join("uneven.swf"), &uneven).expect("a file");
    let printed = |arguments: &[&str]| super::printed(directory.path(), arguments);
    let table = printed(&["uneven.swf", "--policy", "easy", "--report", "page.html"]);
    assert!(
        table.contains("on 30 nodes of 4 or 5 processors"),
        "{table}"
    );
    let page = fs::read_to_string(directory.path().join("page.html")).expect("a page");
    assert!(page.contains("30 nodes of 4 processors, 8 of them of one more"));
    let json = printed(&["uneven.swf", "--policy", "easy", "--json"]);
    assert!(
        json.contains("\"nodes\":30,\"processors_per_node\":4,\"processors\":128"),
        "{json}"
    );
    let given = [
        "uneven.swf",
        "--policy",
        "easy",
        "--processors-per-node",
        "5",
    ];
    assert!(printed(&given).contains("on 30 nodes of 5 processors"));
    let output = simulate(directory.path(), &["uneven.swf", "--nodes", "20"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("not alike (MaxNodes 30, MaxProcs 128)")
            && error.contains("--processors-per-node"),
        "{error}"
    );
}
