//! Logs that were made: their load, their users, what a seed means.

use super::*;
use crate::swf;
use libra_wording::refusal::out_of_range;
use std::collections::BTreeMap;

fn records(model: &Synthetic) -> Vec<SwfRecord> {
    model.make().expect("a log").records().collect()
}

fn offered(records: &[SwfRecord], nodes: u32) -> f64 {
    let work: f64 = records
        .iter()
        .map(|r| r.run_time * f64::from(r.requested))
        .sum();
    let span = records[records.len() - 1].submit - records[0].submit;
    work / (span * f64::from(nodes))
}

#[test]
fn the_load_is_what_was_asked_for() {
    for (nodes, load) in [(128, 0.7), (64, 1.5), (1000, 0.05)] {
        let model = Synthetic {
            jobs: 5000,
            nodes,
            load: Some(load),
            ..Synthetic::default()
        };
        let made = model.make().expect("a log");
        let found = offered(&records(&model), nodes);
        assert!((found / load - 1.0).abs() < 1e-3, "{found} {load}");
        assert_eq!(made.load(), Some(found));
    }
}

#[test]
fn a_seed_fixes_the_log_and_options_change_only_their_own() {
    let base = Synthetic {
        jobs: 2000,
        ..Synthetic::default()
    };
    let first = records(&base);
    assert_eq!(records(&base), first);
    let other = records(&Synthetic { seed: 2, ..base });
    assert_ne!(other, first);
    let loaded = records(&Synthetic {
        load: Some(0.5),
        ..base
    });
    let exact = records(&Synthetic {
        requests: Requests::Exact,
        ..base
    });
    let lonely = records(&Synthetic { users: 1, ..base });
    for index in 0..2000 {
        assert_eq!(exact[index].requested_time, first[index].run_time);
        assert_eq!(lonely[index].user, 1);
        for log in [&exact, &lonely] {
            assert_eq!(log[index].submit, first[index].submit);
            assert_eq!(log[index].run_time, first[index].run_time);
        }
    }
    // Another load may change the order a bit, not the jobs.
    let mut sizes = [first, loaded].map(|log| {
        let mut jobs: Vec<(i32, u64)> = log
            .iter()
            .map(|r| (r.requested, r.run_time as u64))
            .collect();
        jobs.sort_unstable();
        jobs
    });
    let [a, b] = &mut sizes;
    assert_eq!(a, b);
}

#[test]
fn what_is_made_is_a_log() {
    let model = Synthetic {
        jobs: 20_000,
        users: 10,
        ..Synthetic::default()
    };
    let records = records(&model);
    let mut users = BTreeMap::new();
    let mut last = 0.0;
    for (record, number) in records.iter().zip(1..) {
        let mut line = Vec::new();
        record.write(&mut line);
        assert_eq!(swf::parse(&line).as_ref(), Ok(record));
        assert_eq!(record.number, number);
        assert!(record.submit >= last && record.run_time >= 1.0);
        assert!((1..=128).contains(&record.requested));
        assert!(record.requested_time >= record.run_time);
        assert!(ROUND.contains(&(record.requested_time as u32 / 60)));
        last = record.submit;
        *users.entry(record.user).or_insert(0) += 1;
    }
    // 1 + 1/2 + ... + 1/10 = 2.929: the first has 34.1 % of the jobs, the tenth 3.41 %.
    assert_eq!(users.len(), 10);
    let part = |user: i32| f64::from(users[&user]) / 20_000.0;
    assert!((part(1) - 0.3414).abs() < 0.015, "{users:?}");
    assert!((part(10) - 0.0341).abs() < 0.006, "{users:?}");
}

#[test]
fn round_estimates() {
    assert_eq!(round_estimate(100.0, 1.0), 300.0);
    assert_eq!(round_estimate(100.0, 0.25), 600.0);
    assert_eq!(round_estimate(3600.0, 1.0), 3600.0);
    assert_eq!(round_estimate(3601.0, 1.0), 5400.0);
    assert_eq!(round_estimate(100.0, 0.0), 172_800.0);
    // exp(12) s, the longest run time, is less than two days.
    assert_eq!(round_estimate(162_754.0, 0.9), 172_800.0);
}

#[test]
fn options_out_of_range_are_named() {
    let error = |model: Synthetic| out_of_range(&model.make().expect_err("out of range"));
    let base = Synthetic::default();
    assert_eq!(
        error(Synthetic { jobs: 0, ..base }),
        "jobs is 0, expected 1 to 100000000"
    );
    assert!(error(Synthetic { nodes: 0, ..base }).contains("nodes is 0"));
    assert!(error(Synthetic { users: 0, ..base }).contains("users is 0"));
    for load in [0.0, -1.0, f64::NAN, 101.0] {
        let model = Synthetic {
            load: Some(load),
            ..base
        };
        assert!(error(model).contains("load is"), "{load}");
    }
}

#[test]
fn a_log_of_one_job_has_no_load() {
    let model = Synthetic {
        jobs: 1,
        load: Some(0.7),
        ..Synthetic::default()
    };
    let made = model.make().expect("a log");
    assert_eq!((made.load(), made.records().count()), (None, 1));
    let header = made.header("libra workload --jobs 1");
    assert!(header.contains(&"Note: Made by: libra workload --jobs 1".to_string()));
    assert!(header.iter().any(|line| line.contains("synthetic")));
}
