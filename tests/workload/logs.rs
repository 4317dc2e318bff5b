//! Four logs of the Parallel Workloads Archive, against the figures that were counted in them by
//! other means. They are not in the tree; without them these tests say so and pass.

use libra_workload::read::{Leniency, Log, Subset, read};
use libra_workload::swf::SwfRecord;
use libra_workload::terms::{TermsModel, jobs};
use std::path::Path;

/// A log of the archive, or None if it is not there.
fn log(name: &str) -> Option<Log> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("../shared/traces")
        .join(format!("{name}.swf.gz"));
    if !path.exists() {
        eprintln!("not run: {} is not there", path.display());
        return None;
    }
    Some(read(&path, Leniency::Strict).expect("a log of the archive"))
}

/// Jobs, and means: seconds between submissions, run time, processors, requested time; jobs with
/// run time > requested time > 0, and jobs that never ran.
struct Figures(usize, f64, f64, f64, f64, usize, usize);

fn check(name: &str, records: &[SwfRecord], figures: &Figures) {
    let Figures(count, arrival, run_time, processors, requested_time, over, never) = *figures;
    assert_eq!(records.len(), count, "{name}");
    let mean = |of: fn(&SwfRecord) -> f64| records.iter().map(of).sum::<f64>() / count as f64;
    let span = records[count - 1].submit - records[0].submit;
    for (what, is, expected, digits) in [
        ("inter-arrival", span / (count - 1) as f64, arrival, 0.005),
        ("run time", mean(|r| r.run_time), run_time, 0.005),
        (
            "processors",
            mean(|r| r.processors().map_or(-1.0, f64::from)),
            processors,
            0.0005,
        ),
        (
            "requested time",
            mean(|r| r.requested_time),
            requested_time,
            0.05,
        ),
    ] {
        assert!(
            (is - expected).abs() <= digits * 1.01,
            "{name}, {what}: {is}, expected {expected}"
        );
    }
    let ran_over = |r: &&SwfRecord| r.requested_time > 0.0 && r.run_time > r.requested_time;
    assert_eq!(records.iter().filter(ran_over).count(), over, "{name}");
    assert_eq!(records.iter().filter(|r| !r.ran()).count(), never, "{name}");
}

#[test]
fn four_logs_have_the_figures_that_were_counted_in_them() {
    for (name, machine, all, last_3000, last_1000) in [
        (
            "SDSC-SP2-1998-4.2-cln",
            128,
            Figures(59_715, 1055.30, 6687.37, 13.754, 17_389.9, 4134, 5681),
            Figures(3000, 2131.14, 8880.12, 17.485, 20_695.1, 242, 278),
            Figures(1000, 2276.31, 10_609.76, 18.333, 24_340.9, 89, 102),
        ),
        (
            "CTC-SP2-1996-3.1-cln",
            338,
            Figures(77_222, 379.42, 11_277.12, 10.985, 24_396.6, 7174, 17),
            Figures(3000, 410.44, 11_912.97, 11.635, 27_247.5, 249, 2),
            Figures(1000, 376.78, 9539.56, 11.604, 29_144.5, 55, 0),
        ),
        (
            "KTH-SP2-1996-2.1-cln",
            100,
            Figures(28_476, 1010.14, 8871.85, 7.650, 13_662.9, 475, 8),
            Figures(3000, 1315.87, 14_176.52, 6.177, 21_610.2, 124, 0),
            Figures(1000, 1303.77, 10_204.53, 7.558, 15_514.8, 36, 0),
        ),
        (
            "HPC2N-2002-2.2-cln",
            240,
            Figures(202_871, 538.48, 17_024.25, 6.335, 44_899.3, 14_817, 0),
            Figures(3000, 939.83, 18_964.68, 7.288, 61_015.3, 626, 0),
            Figures(1000, 2249.83, 46_530.37, 6.621, 163_857.7, 98, 0),
        ),
    ] {
        let Some(log) = log(name) else { return };
        assert_eq!(log.header.max_processors(), Some(machine), "{name}");
        assert!(log.header.unix_start_time().is_some(), "{name}");
        check(name, &log.records, &all);
        check(name, Subset::Last(3000).of(&log.records), &last_3000);
        check(name, Subset::Last(1000).of(&log.records), &last_1000);
        let made = jobs(
            &log.records,
            &TermsModel::default(),
            1,
            Some(machine),
            Leniency::Strict,
        )
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        // One job of KTH SP2 ran for a second on nobody knows how many processors.
        let without_processors = usize::from(name.starts_with("KTH"));
        assert_eq!(made.no_processors, without_processors, "{name}");
        let left = made.jobs.len() + made.never_ran + made.no_processors;
        assert_eq!(left, log.records.len(), "{name}");
        assert_eq!(made.never_ran, log.never_ran(), "{name}");
    }
}

/// The papers' subset: of the last 3000 jobs of SDSC SP2, 2722 ran.
#[test]
fn the_papers_jobs() {
    let Some(log) = log("SDSC-SP2-1998-4.2-cln") else {
        return;
    };
    let model = TermsModel::default();
    let records = Subset::Last(3000).of(&log.records);
    let made = jobs(records, &model, 1, Some(128), Leniency::Strict).expect("jobs");
    assert_eq!((made.jobs.len(), made.never_ran), (2722, 278));
    assert!(made.jobs.iter().all(|job| job.terms.check().is_ok()));
    // 20 % with mean 4 and 80 % with mean 16 run times: 13.6; its deviation is 6 / sqrt(2722) = 0.12.
    let factors = made
        .jobs
        .iter()
        .map(|job| job.terms.deadline / job.run_time);
    let mean = factors.sum::<f64>() / 2722.0;
    assert!((mean - 13.6).abs() < 0.5, "{mean}");
}
