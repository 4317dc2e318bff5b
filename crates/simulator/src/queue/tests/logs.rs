//! On real logs, where they are at hand: what an independent simulator found with the papers'
//! workload model, and the textbook.

use super::textbook::Textbook;
use super::{Told, run};
use crate::queue::{Easy, Edf, Fifo};
use crate::{Machine, Scheduler};
use libra_workload::Job;
use libra_workload::read::{Leniency, Subset, read};
use libra_workload::terms::{Estimates, TermsModel, jobs};
use std::path::Path;

/// The last so many jobs of a log, those of them that ran.
fn last(log: &str, count: usize, nodes: u32, model: &TermsModel, seed: u64) -> Option<Vec<Job>> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("../shared/traces")
        .join(log);
    if !path.exists() {
        eprintln!("not run: there is no {log}");
        return None;
    }
    let log = read(&path, Leniency::Strict).expect("a log of the archive");
    let part = Subset::Last(count).of(&log.records);
    let made = jobs(part, model, seed, Some(nodes), Leniency::Strict);
    Some(made.expect("jobs that fit").jobs)
}

/// Percent of the jobs that ended by their deadline.
fn fulfilled(scheduler: impl Scheduler, jobs: &[Job], nodes: u32) -> f64 {
    let told = run(scheduler, jobs, &Machine::uniform(nodes as usize, 1));
    let met = told
        .iter()
        .filter(
            |told| matches!(told, Told::Ended(index, _, finish, _) if jobs[*index].met_by(*finish)),
        )
        .count();
    100.0 * met as f64 / jobs.len() as f64
}

#[test]
fn easy_fulfils_as_many_as_an_independent_simulator_found() {
    for (log, nodes, expected) in [
        ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, [75.0, 66.0]),
        ("KTH-SP2-1996-2.1-cln.swf.gz", 100, [88.0, 85.0]),
        ("CTC-SP2-1996-3.1-cln.swf.gz", 338, [89.0, 86.0]),
        ("HPC2N-2002-2.2-cln.swf.gz", 240, [98.0, 95.0]),
    ] {
        for (high_urgency, expected) in [0.2, 0.8].into_iter().zip(expected) {
            let model = TermsModel {
                high_urgency,
                ..TermsModel::default()
            };
            let Some(jobs) = last(log, 3000, nodes, &model, 1) else {
                continue;
            };
            let found = fulfilled(Easy, &jobs, nodes);
            // Ten seeds lie within 1 point of their mean.
            assert!((found - expected).abs() < 2.0, "{log}: {found} %");
        }
    }
}

#[test]
fn edf_fulfils_as_many_as_an_independent_simulator_found() {
    let exact = TermsModel {
        estimates: Estimates::Exact,
        ..TermsModel::default()
    };
    if let Some(jobs) = last("SDSC-SP2-1998-4.2-cln.swf.gz", 3000, 128, &exact, 1) {
        let found = fulfilled(Edf, &jobs, 128);
        assert!((found - 85.0).abs() < 3.0, "{found} %");
    }
}

#[test]
fn real_jobs_as_the_textbook() {
    let model = TermsModel {
        // A longer queue than the log had.
        arrival_delay_factor: 0.6,
        ..TermsModel::default()
    };
    if let Some(jobs) = last("SDSC-SP2-1998-4.2-cln.swf.gz", 400, 128, &model, 1) {
        let machine = Machine::uniform(128, 1);
        assert!(run(Fifo, &jobs, &machine) == run(Textbook::Fifo, &jobs, &machine));
        assert!(run(Edf, &jobs, &machine) == run(Textbook::Edf, &jobs, &machine));
        assert!(run(Easy, &jobs, &machine) == run(Textbook::Easy, &jobs, &machine));
    }
}
