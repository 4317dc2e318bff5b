use super::*;
use libra_workload::read::{Leniency, read};
use std::path::Path;

/// The log, where it is.
fn log() -> Option<Vec<SwfRecord>> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("../shared/traces/SDSC-SP2-1998-4.2-cln.swf.gz");
    if !path.exists() {
        eprintln!("not run: {} is not there", path.display());
        return None;
    }
    Some(
        read(&path, Leniency::Strict)
            .expect("the log is sound")
            .records,
    )
}

/// A job of a log: submitted, waited, ran, used, on so many processors.
fn record(number: u32, times: [f64; 4], processors: i32) -> SwfRecord {
    let [submit, wait, run_time, cpu_time] = times;
    SwfRecord {
        wait,
        run_time,
        cpu_time,
        requested: processors,
        ..SwfRecord::unknown(number, submit)
    }
}

#[test]
fn parts_are_counted_from_the_first_job() {
    let day = 86_400.0;
    let records = [0.0, 1.0, 2.0, 2.5].map(|d| record(1, [d * day + 7.0, 0.0, 1.0, 1.0], 1));
    assert_eq!(Excerpt::Jobs(3).of(&records).len(), 3);
    assert_eq!(Excerpt::Jobs(9).of(&records).len(), 4);
    assert_eq!(Excerpt::Days(2.0).of(&records).len(), 3);
    assert_eq!(Excerpt::Days(2.0).of(&[]).len(), 0);
}

#[test]
fn jobs_take_their_processor_time_or_their_run_time() {
    let records = [
        record(1, [100.0, 3.0, 20.0, 15.0], 2),
        record(2, [110.0, 0.0, -1.0, -1.0], 2), // never ran
        record(3, [120.0, 0.0, 30.0, -1.0], 2), // processor time not known
    ];
    let times = |times| -> Vec<(f64, f64, f64)> {
        let jobs = jobs(&records, times).unwrap();
        jobs.iter()
            .map(|job| (job.submit, job.run_time, job.terms.deadline))
            .collect()
    };
    assert_eq!(
        times(Times::Processor),
        [(0.0, 15.0, 75.0), (20.0, 30.0, 150.0)]
    );
    assert_eq!(times(Times::Run), [(0.0, 20.0, 100.0), (20.0, 30.0, 150.0)]);
}

#[test]
fn other_logs_are_refused_with_a_reason() {
    let large = [record(4, [0.0, 0.0, 1.0, 1.0], 129)];
    let error = jobs(&large, Times::Run).unwrap_err();
    assert!(error.to_string().starts_with("job 4 has 129 processors"));
    let unknown = [record(5, [0.0, 0.0, 1.0, 1.0], -1)];
    assert_eq!(
        jobs(&unknown, Times::Run).unwrap_err(),
        Unfit::NoProcessors(5)
    );
    let error = run(&large, &mut || 0.0).unwrap_err();
    assert!(error.to_string().starts_with("the log has 1 jobs"));
}

#[test]
fn waits_are_means_of_those_that_ran() {
    // 128 processors each: the second waits for 10 s of processor time, by run times for 20 s.
    let records = [
        record(1, [0.0, 4.0, 20.0, 10.0], 128),
        record(2, [0.0, 8.0, 20.0, 10.0], 128),
        record(3, [0.0, 900.0, 0.0, -1.0], 128),
    ];
    let waits = waits(&records, Excerpt::Jobs(3)).unwrap();
    assert_eq!((waits.jobs, waits.logged), (2, 6.0));
    assert_eq!((waits.dedicated, waits.dedicated_run_times), (5.0, 10.0));
}

#[test]
fn a_case_counts_by_class() {
    let queue = |mut record: SwfRecord, queue| {
        record.queue = queue;
        record
    };
    // All want all processors, at 0. Class 1 is due at 50 and 5 s; class 2 must start by 5.
    let records = [
        queue(record(1, [0.0, 0.0, 10.0, 10.0], 128), 2), // dedicated: 0 to 10
        queue(record(2, [0.0, 0.0, 10.0, 10.0], 128), 3), // starts at 10
        queue(record(3, [0.0, 0.0, 1.0, 1.0], 128), 3),   // due at 5: the dedicated one stops
        queue(record(4, [0.0, 0.0, 2.0, 2.0], 128), 4),
    ];
    let mut ticks = 0.0;
    let mut clock = || {
        ticks += 0.25;
        ticks
    };
    let case = case(&records, Excerpt::Jobs(4), true, &mut clock).unwrap();
    assert_eq!(case.classes.map(|class| class.jobs), [2, 0, 1, 1]);
    assert_eq!(case.all.refused, 0);
    assert_eq!(case.all.broken, 0);
    assert_eq!(case.stopped, 1);
    // One tick of the clock for each search.
    assert_eq!(case.all.mapping_time, 0.25);
    assert_eq!(case.classes[1].mapping_time, 0.0);
    assert_eq!(case.classes[2].wait, 0.0);
}

/// The numbers of the log, as an independent program has them for Table 1 (2874 and 6478 s: there
/// the order of equally good hosts is another), and the paper's statements.
#[test]
fn the_paper_s_tables_on_the_log() {
    let Some(records) = log() else { return };
    let experiment = run(&records, &mut || 0.0).unwrap();
    let [short, _, long, long_days] = &experiment.table_1[..] else {
        panic!("Table 1 has four columns");
    };
    assert_eq!((short.jobs, long.jobs), (8943, 31_774));
    assert!((short.logged - 10_286.0).abs() < 1.0, "{}", short.logged);
    assert!((long.logged - 14_066.0).abs() < 1.0, "{}", long.logged);
    let ratio = |waits: &Waits| waits.dedicated / waits.logged;
    assert!((ratio(short) - 0.28).abs() < 0.01, "{}", ratio(short));
    assert!((ratio(long) - 0.46).abs() < 0.01, "{}", ratio(long));
    // The paper's 35000 jobs in 249 days have 4202 s.
    assert!(
        (long_days.dedicated - 4202.0).abs() < 420.0,
        "{long_days:?}"
    );
    // By run times the independent program has 0.82 and 0.87.
    let by_run_times = |waits: &Waits| waits.dedicated_run_times / waits.logged;
    assert!((by_run_times(short) - 0.82).abs() < 0.01);
    assert!((by_run_times(long) - 0.87).abs() < 0.01);

    for case in &experiment.table_2 {
        assert_eq!(case.all.broken, 0, "{case:?}");
        assert_eq!(case.classes[2].refused + case.classes[3].refused, 0);
    }
    let verdict = |start: &str| {
        let found = experiment
            .statements
            .iter()
            .find(|s| s.text.starts_with(start));
        found
            .unwrap_or_else(|| panic!("no statement '{start}'"))
            .verdict
    };
    assert_eq!(verdict("With all jobs dedicated"), Verdict::Holds);
    assert_eq!(verdict("That is because"), Verdict::HoldsInPart);
    assert_eq!(verdict("Jobs wait longer"), Verdict::Holds);
    assert_eq!(verdict("Every accepted job"), Verdict::Holds);
    assert_eq!(verdict("Jobs of classes 3 and 4"), Verdict::Holds);
}
