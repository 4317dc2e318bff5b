//! Files of terms, good and bad.

use super::*;
use crate::read::Leniency;
use crate::terms::{TermsModel, jobs};
use libra_core::decision::job::DeadlineType;

fn log() -> Vec<SwfRecord> {
    (1..=4)
        .map(|number| SwfRecord {
            run_time: if number == 4 { -1.0 } else { 100.0 },
            requested: 1,
            requested_time: 200.0,
            ..SwfRecord::unknown(number, 0.0)
        })
        .collect()
}

fn made(records: &[SwfRecord]) -> Vec<Job> {
    let model = TermsModel::default();
    jobs(records, &model, 1, None, Leniency::Strict)
        .expect("jobs")
        .jobs
}

#[test]
fn columns_in_any_order_blank_cells_quotes_and_crlf() {
    let text = "\u{feff}Deadline,job,budget,penalty-rate,deadline_type,estimate\r\n\
                1h30m,1,unlimited,0.5,soft,\"00:02:00\"\r\n\
                \r\n\
                ,\"3\" , 42.5,,,\r\n\
                90,4,1,,,\r\n";
    let sla = parse(text, "sla.csv").expect("a file of terms");
    assert_eq!(sla.len(), 3);
    let drawn = made(&log());
    let mut given = drawn.clone();
    assert_eq!(sla.apply(&log(), &mut given).expect("all there"), 2);
    let expected = Terms {
        estimate: 120.0,
        deadline: 5400.0,
        budget: f64::INFINITY,
        deadline_type: DeadlineType::Soft,
        penalty_rate: 0.5,
        class: libra_core::decision::class::Class::Deadline,
    };
    assert_eq!(given[0].terms, expected);
    assert_eq!(given[1], drawn[1]);
    let third = Terms {
        budget: 42.5,
        ..drawn[2].terms
    };
    assert_eq!(given[2].terms, third);
    // A part of the log without the listed jobs: nothing to give, no error.
    let mut second = drawn[1..2].to_vec();
    assert_eq!(sla.apply(&log(), &mut second).expect("all there"), 0);
}

#[test]
fn what_is_wrong_has_its_line_and_column() {
    for (text, message) in [
        ("", "sla.csv: is empty; the first line names the columns"),
        ("\r\n\n", "is empty"),
        (
            "job,colour\n",
            "line 1, column 2 (colour): there is no such column; there are job, deadline, budget, \
             deadline_type, penalty_rate, estimate, coupled, separated by commas",
        ),
        (
            "job;deadline\n",
            "column 1 (job;deadline): there is no such column",
        ),
        (
            "job,deadline,Job\n",
            "line 1, column 3 (Job): is there twice",
        ),
        ("deadline\n5\n", "line 1: the column 'job' is missing"),
        (
            "job,deadline\n1\n",
            "line 2: 1 cells, expected 2, as many as the header has",
        ),
        ("job,deadline\n1,2,3\n", "line 2: 3 cells"),
        (
            "job,deadline\n1,20\n\n1,30\n",
            "line 4, column 1 (job): job 1 was already given in line 2",
        ),
        (
            "job\nten\n",
            "line 2, column 1 (job): 'ten' is not the number of a job",
        ),
        ("job\n-1\n", "'-1' is not the number"),
        ("job,deadline\n,5\n", "'' is not the number"),
        (
            "job,deadline\n1,soon\n",
            "line 2, column 2 (deadline): 'soon' is not a duration",
        ),
        (
            "job,deadline\n1,0\n",
            "line 2, column 2 (deadline): '0', expected seconds, from 0.001 to 10000000000",
        ),
        (
            "job,estimate\n1,99999999999\n",
            "column 2 (estimate): '99999999999', expected",
        ),
        (
            "job,budget\n1,much\n",
            "column 2 (budget): 'much' is not a number of credits",
        ),
        ("job,budget\n1,-5\n", "'-5' is not a number of credits"),
        (
            "job,deadline_type\n1,firm\n",
            "'firm' is neither 'hard' nor 'soft'",
        ),
        (
            "job,deadline\n1,\"20\n",
            "line 2: a double quote is not closed",
        ),
        (
            "job,deadline\n\"1\"2,20\n",
            "line 2: after a closing double quote a comma",
        ),
    ] {
        let error = parse(text, "sla.csv").expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn a_job_that_is_not_in_the_log() {
    let sla = parse("job,deadline\n4,20\n99,20\n77,20\n", "sla.csv").expect("a file");
    let error = sla.apply(&log(), &mut []).expect_err("no job 99");
    assert_eq!(
        error.to_string(),
        "sla.csv: line 3: there is no job 99 in the log; expected a number of its field 1"
    );
    let mut twice = log();
    twice[1].number = 4;
    let error = sla.apply(&twice, &mut []).expect_err("two jobs 4");
    assert!(
        error
            .to_string()
            .contains("line 2: there are two jobs 4 in the log"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("/nonexistent/sla.csv")).expect_err("no file");
    assert!(
        error
            .to_string()
            .contains("/nonexistent/sla.csv: cannot be read"),
        "{error}"
    );
}

#[test]
fn cells_with_quotes() {
    assert_eq!(
        cells(r#"a, "b,c" ,"d""e",,"#).expect("cells"),
        ["a", "b,c", "d\"e", "", ""]
    );
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(job|deadline|budget|[0-9]|[,;\"\\r\\n .:-]|\\PC){0,60}") {
        let _ = parse(&text, "sla.csv");
        let _ = parse(&format!("job,deadline,budget\n{text}"), "sla.csv");
    }
}

#[test]
fn who_is_coupled_can_be_given() {
    let sla = parse("job,coupled\n1,Yes\n2,no\n3,\n", "sla.csv").expect("a file of terms");
    let mut jobs = made(&log());
    (jobs[1].coupled, jobs[2].coupled) = (true, true);
    assert_eq!(sla.apply(&log(), &mut jobs).expect("all there"), 3);
    let coupled: Vec<bool> = jobs.iter().map(|job| job.coupled).collect();
    assert_eq!(coupled, [true, false, true]);
    let error = parse("job,coupled\n1,maybe\n", "sla.csv").expect_err("neither");
    let expected = "sla.csv: line 2, column 2 (coupled): 'maybe', expected yes or no";
    assert_eq!(error.to_string(), expected);
}
