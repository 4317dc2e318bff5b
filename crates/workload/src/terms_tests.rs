//! The model's draws: their means, their bounds, and that each depends on nothing but its own.

use super::*;
use proptest::prelude::*;

fn record(number: u32, submit: f64, run_time: f64, estimate: f64, processors: i32) -> SwfRecord {
    SwfRecord {
        run_time,
        requested: processors,
        requested_time: estimate,
        ..SwfRecord::unknown(number, submit)
    }
}

fn make(records: &[SwfRecord], model: &TermsModel) -> Vec<Job> {
    jobs(records, model, 1, Some(128), Leniency::Strict)
        .expect("jobs")
        .jobs
}

/// 20,000 jobs of 1000 s, one a second.
fn many() -> Vec<SwfRecord> {
    (1..=20_000)
        .map(|n| record(n, f64::from(n), 1000.0, 2000.0, 1))
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
    sum / count
}

#[test]
fn what_is_taken_from_the_log() {
    let mut one = record(7, 500.0, 100.0, 250.0, 4);
    (one.user, one.queue, one.wait, one.requested_memory) = (3, 2, 20.0, 1024.0);
    let mut two = record(9, 560.0, 50.0, -1.0, -1);
    two.allocated = 8;
    let never = record(8, 510.0, 0.0, 10.0, 1);
    let records = [record(6, 400.0, -1.0, 5.0, 1), one, never, two];
    let model = TermsModel {
        memory: true,
        arrival_delay_factor: 0.5,
        ..TermsModel::default()
    };
    let made = jobs(&records, &model, 1, None, Leniency::Strict).expect("jobs");
    assert_eq!(made.never_ran, 2);
    let [a, b] = made.jobs[..] else {
        panic!("{made:?}")
    };
    assert_eq!((a.number, a.submit, a.run_time), (7, 0.0, 100.0));
    assert_eq!((a.processors, a.user, a.queue), (4, 3, 2));
    assert_eq!(
        (a.logged_wait, a.memory, a.terms.estimate),
        (20.0, 1 << 20, 250.0)
    );
    // 60 s later, at half the delays; field 5 for the processors; no estimate: the run time.
    assert_eq!((b.submit, b.processors, b.terms.estimate), (30.0, 8, 50.0));
    assert_eq!((b.user, b.queue, b.memory), (0, -1, 0));
    assert_eq!(b.terms.budget, f64::INFINITY);
    assert_eq!(b.terms.penalty_rate, 0.0);
    let model = TermsModel {
        memory: false,
        ..model
    };
    assert_eq!(make(&records, &model)[0].memory, 0);
}

#[test]
fn estimates_of_every_accuracy() {
    let over = record(1, 0.0, 100.0, 300.0, 1);
    let under = record(2, 0.0, 100.0, 60.0, 1);
    for (estimates, a, b) in [
        (Estimates::Trace, 300.0, 60.0),
        (Estimates::Exact, 100.0, 100.0),
        (Estimates::Inaccuracy(0.0), 100.0, 100.0),
        (Estimates::Inaccuracy(0.25), 150.0, 90.0),
        (Estimates::Inaccuracy(1.0), 300.0, 60.0),
        (Estimates::Inaccuracy(5.0), 1100.0, SHORTEST),
    ] {
        assert_eq!(estimate(&over, estimates), a, "{estimates:?}");
        assert_eq!(estimate(&under, estimates), b, "{estimates:?}");
    }
    for (text, expected) in [
        ("trace", Estimates::Trace),
        ("Exact", Estimates::Exact),
        ("0.4", Estimates::Inaccuracy(0.4)),
        ("40%", Estimates::Inaccuracy(0.4)),
    ] {
        assert_eq!(text.parse(), Ok(expected));
    }
    for text in ["", "some", "-1", "nan", "%", "1e9"] {
        let error = text.parse::<Estimates>().expect_err(text);
        assert!(error.contains("'trace', 'exact'"), "{error}");
    }
}

#[test]
fn deadlines_have_the_papers_means() {
    let jobs = make(&many(), &TermsModel::default());
    let factors: Vec<f64> = jobs.iter().map(|job| job.terms.deadline / 1000.0).collect();
    // Two normals, mean 4 with deviation 1 and mean 16 with deviation 4; they hardly overlap at 8:
    // four deviations above the one (3e-5) and two below the other (2.3 %). So of all jobs about
    // 0.2 + 0.8 × 0.023 = 21.8 % are below 8.
    let low = factors.iter().filter(|f| **f < 8.0).count() as f64 / 20_000.0;
    assert!((low - 0.218).abs() < 0.012, "{low}");
    // 0.2 × 4 + 0.8 × 16 = 13.6, with a deviation of about 6 / sqrt(20000) = 0.043.
    let all = mean(factors.iter().copied());
    assert!((all - 13.6).abs() < 0.17, "{all}");
    assert!(
        jobs.iter()
            .all(|j| j.terms.deadline_type == DeadlineType::Hard)
    );
    let urgent = TermsModel {
        high_urgency: 1.0,
        ..TermsModel::default()
    };
    let factors: Vec<f64> = make(&many(), &urgent)
        .iter()
        .map(|job| job.terms.deadline / 1000.0)
        .collect();
    let all = mean(factors.iter().copied());
    assert!((all - 4.0).abs() < 0.03, "{all}");
    let variance = mean(factors.iter().map(|f| (f - all).powi(2)));
    assert!((variance - 1.0).abs() < 0.05, "{variance}");
}

#[test]
fn no_deadline_is_shorter_than_the_run_time_and_a_bit() {
    let model = TermsModel {
        high_urgency: 1.0,
        deadline_factor: 1.0,
        ..TermsModel::default()
    };
    let jobs = make(&many(), &model);
    let shortest = jobs.iter().filter(|j| j.terms.deadline == 1050.0).count();
    // Below 1.05 is a fifth of a deviation above the mean: 57.9 %.
    assert!((11_300..11_900).contains(&shortest), "{shortest}");
    assert!(jobs.iter().all(|j| j.terms.deadline >= 1050.0));
}

#[test]
fn budgets_and_penalties_follow_the_urgency() {
    let model = TermsModel::libra_sla();
    let jobs = make(&many(), &model);
    let (hard, soft): (Vec<&Job>, Vec<&Job>) = jobs
        .iter()
        .partition(|job| job.terms.deadline_type == DeadlineType::Hard);
    assert!((3800..4200).contains(&hard.len()), "{}", hard.len());
    let budgets = |jobs: &[&Job]| mean(jobs.iter().map(|job| job.terms.budget));
    let rates = |jobs: &[&Job]| mean(jobs.iter().map(|job| job.terms.penalty_rate));
    let deadlines = |jobs: &[&Job]| mean(jobs.iter().map(|job| job.terms.deadline));
    for (value, expected) in [
        (budgets(&hard), 7000.0),
        (budgets(&soft), 1000.0),
        (rates(&hard), 0.4),
        (rates(&soft), 0.1),
        (deadlines(&hard), 4000.0),
        (deadlines(&soft), 28_000.0),
    ] {
        // A quarter of the mean over the root of 4000 jobs is 0.4 %.
        assert!((value / expected - 1.0).abs() < 0.02, "{value} {expected}");
    }
}

#[test]
fn changing_one_value_leaves_all_other_draws() {
    let records = many();
    let base = make(&records, &TermsModel::default());
    let change = |change: fn(&mut TermsModel)| {
        let mut model = TermsModel::default();
        change(&mut model);
        make(&records, &model)
    };
    let deadlines = |jobs: &[Job]| -> Vec<f64> { jobs.iter().map(|j| j.terms.deadline).collect() };
    assert_eq!(
        deadlines(&change(|m| m.arrival_delay_factor = 0.1)),
        deadlines(&base)
    );
    assert_eq!(
        deadlines(&change(|m| m.estimates = Estimates::Exact)),
        deadlines(&base)
    );
    assert_eq!(
        deadlines(&change(|m| m.budget = TermsModel::libra_sla().budget)),
        deadlines(&base)
    );
    // Twice the ratio: the urgent jobs' deadlines stay, all others double exactly.
    let doubled = change(|m| m.deadline_ratio = 8.0);
    let stayed = base
        .iter()
        .zip(&doubled)
        .filter(|(a, b)| a.terms.deadline == b.terms.deadline)
        .count();
    assert!((3800..4200).contains(&stayed), "{stayed}");
    assert!(base.iter().zip(&doubled).all(|(a, b)| {
        let (a, b) = (a.terms.deadline, b.terms.deadline);
        a == b || a * 2.0 == b || a == 1050.0
    }));
    // More urgent jobs: who was urgent stays so.
    let more = change(|m| m.high_urgency = 0.5);
    assert!(
        base.iter()
            .zip(&more)
            .all(|(a, b)| b.terms.deadline <= a.terms.deadline)
    );
    // Another part of the log: the same jobs have the same terms.
    assert_eq!(
        deadlines(&make(&records[19_000..], &TermsModel::default())),
        deadlines(&base)[19_000..]
    );
    let other = jobs(&records, &TermsModel::default(), 2, None, Leniency::Strict).expect("jobs");
    assert_ne!(deadlines(&other.jobs), deadlines(&base));
}

#[test]
fn a_seed_means_the_same_for_ever() {
    let records: Vec<SwfRecord> = (1..=3).map(|n| record(n, 0.0, 100.0, -1.0, 1)).collect();
    let terms: Vec<String> = make(&records, &TermsModel::libra_sla())
        .iter()
        .map(|job| {
            let t = job.terms;
            format!("{:.6} {:.6} {:.8}", t.deadline, t.budget, t.penalty_rate)
        })
        .collect();
    assert_eq!(terms, GOLDEN);
}

/// As first computed; nothing may change them.
const GOLDEN: [&str; 3] = [
    "2618.006645 132.954276 0.01509325",
    "315.575838 931.109408 0.03909923",
    "2609.663613 93.661150 0.00970012",
];

#[test]
fn jobs_that_cannot_run_are_an_error_or_left_out() {
    let records = [
        record(1, 0.0, 10.0, 10.0, 4),
        record(2, 1.0, 10.0, 10.0, 129),
        record(3, 2.0, 10.0, 10.0, -1),
    ];
    let model = TermsModel::default();
    let error = |records: &[SwfRecord]| {
        jobs(records, &model, 1, Some(128), Leniency::Strict)
            .expect_err("an error")
            .to_string()
    };
    assert_eq!(
        error(&records),
        "job 2 asks for 129 processors and the machine has 128; simulate a larger machine, or leave \
         such jobs out with --lenient"
    );
    assert_eq!(
        error(&[record(1, 0.0, -1.0, 1.0, 1)]),
        "none of the 1 jobs can be simulated: each one never ran, or was left out"
    );
    let made = jobs(&records, &model, 1, Some(128), Leniency::Lenient).expect("one");
    assert_eq!(
        (made.jobs.len(), made.too_large, made.no_processors),
        (1, 1, 1)
    );
}

#[test]
fn a_model_out_of_range_is_named() {
    let error = |change: fn(&mut TermsModel)| {
        let mut model = TermsModel::libra_sla();
        change(&mut model);
        out_of_range(&model.check().expect_err("out of range"))
    };
    assert_eq!(
        error(|m| m.high_urgency = 1.5),
        "high_urgency is 1.5, expected a fraction from 0 to 1"
    );
    assert!(error(|m| m.deadline_factor = 0.0).contains("deadline_factor is 0"));
    assert!(error(|m| m.deadline_ratio = f64::NAN).contains("deadline_ratio is NaN"));
    assert!(error(|m| m.arrival_delay_factor = -1.0).contains("arrival_delay_factor"));
    assert!(error(|m| m.estimates = Estimates::Inaccuracy(-0.5)).contains("inaccuracy"));
    assert_eq!(TermsModel::default().check(), Ok(()));
    assert_eq!(TermsModel::libra_sla().check(), Ok(()));
}

proptest! {
    #[test]
    fn every_job_has_terms_that_can_be_judged(
        (number, run_time, estimate) in (any::<u32>(), 1e-9..1e10f64, -1.0..1e10f64),
        (factor, ratio, spread) in (1e-6..1e6f64, 1e-6..1e6f64, 0.0..10.0f64),
        seed in any::<u64>(),
    ) {
        let amounts = Some(Amounts { factor, ratio, spread });
        let model = TermsModel {
            deadline_factor: factor,
            deadline_ratio: ratio,
            deadline_spread: spread,
            budget: amounts,
            penalty: amounts,
            ..TermsModel::libra_sla()
        };
        let records = [record(number, 0.0, run_time, estimate, 1)];
        let made = jobs(&records, &model, seed, None, Leniency::Strict).expect("a job");
        prop_assert_eq!(made.jobs[0].terms.check(), Ok(()));
    }
}

fn deadlines_of(model: &TermsModel) -> Vec<f64> {
    let jobs = make(&many(), model);
    jobs.iter().map(|job| job.terms.deadline).collect()
}

#[test]
fn deadlines_of_the_estimate_and_of_slack_have_their_means() {
    // 1000 s of run time, 2000 s of estimate: the same draws, twice as long.
    let of_run = deadlines_of(&TermsModel::default());
    let model = |deadlines| TermsModel {
        deadlines,
        ..TermsModel::default()
    };
    let of_estimate = deadlines_of(&model(DeadlineModel::Estimate));
    for (run, estimate) in of_run.iter().zip(&of_estimate) {
        assert_eq!(2.0 * run, *estimate);
    }
    // Mean 2000 + 3600; the deviation of the mean is 3600 / sqrt(20000) = 25.
    let of_slack = deadlines_of(&model(DeadlineModel::Slack(3600.0)));
    let mean = mean(of_slack.iter().copied());
    assert!((mean - 5600.0).abs() < 100.0, "{mean}");
    assert!(of_slack.iter().all(|deadline| *deadline >= 2000.0));
    // A half is below the median, ln 2 of the mean.
    let below = of_slack
        .iter()
        .filter(|d| **d < 2000.0 + 3600.0 * 2f64.ln());
    let below = below.count() as f64 / 20_000.0;
    assert!((below - 0.5).abs() < 0.015, "{below}");
    assert!(
        deadlines_of(&model(DeadlineModel::Slack(0.0)))
            .iter()
            .all(|d| *d == 2000.0)
    );
}

#[test]
fn deadlines_by_the_clock_are_at_its_times() {
    // The first job comes on Wednesday at 13:30; each draws one of three times.
    let start = 2.0 * 86_400.0 + 13.5 * 3600.0;
    let model = TermsModel {
        deadlines: DeadlineModel::Clock(Default::default()),
        second_of_week: start,
        ..TermsModel::default()
    };
    let mut found = [0u32; 3];
    for job in make(&many(), &model) {
        assert!(job.terms.deadline >= job.terms.estimate);
        let due = start + job.due();
        let (day, hour) = (
            (due / 86_400.0).floor() % 7.0,
            due.rem_euclid(86_400.0) / 3600.0,
        );
        let at = |expected: f64| (hour - expected).abs() < 1e-6;
        assert!(at(18.0) || at(8.0), "{day} {hour}");
        found[0] += u32::from(at(18.0));
        found[1] += u32::from(at(8.0));
        found[2] += u32::from(at(8.0) && day == 0.0);
    }
    // A third each, and those by Monday are all at 8:00: 20,000 s end before the next day's 8:00.
    for (found, expected) in found.iter().zip([6667.0, 13_333.0, 6667.0]) {
        assert!(
            (f64::from(*found) - expected).abs() < 300.0,
            "{found} {expected}"
        );
    }
}

#[test]
fn infeasible_deadlines_are_shorter_than_the_run_time() {
    let model = |infeasible| TermsModel {
        infeasible,
        ..TermsModel::default()
    };
    let usual = deadlines_of(&model(0.0));
    let some = deadlines_of(&model(0.1));
    let short = some.iter().filter(|deadline| **deadline < 1000.0).count();
    assert!((1850..2150).contains(&short), "{short}");
    for (usual, deadline) in usual.iter().zip(&some) {
        assert!(*deadline == *usual || (500.0..1000.0).contains(deadline));
    }
    assert!(
        deadlines_of(&model(1.0))
            .iter()
            .all(|deadline| *deadline < 1000.0)
    );
    for wrong in [-0.1, 1.1, 2.0, f64::NAN] {
        let error = model(wrong).check().expect_err("no part");
        assert_eq!(error.field, "infeasible");
    }
}

#[test]
fn jobs_are_coupled_as_the_model_says() {
    let records = [record(1, 0.0, 10.0, 10.0, 1), record(2, 0.0, 10.0, 10.0, 2)];
    for (which, expected) in [
        (Coupled::Never, [false, false]),
        (Coupled::MultiProcessor, [false, true]),
        (Coupled::Always, [true, true]),
    ] {
        let model = TermsModel {
            coupled: which,
            ..TermsModel::default()
        };
        let coupled: Vec<bool> = make(&records, &model)
            .iter()
            .map(|job| job.coupled)
            .collect();
        assert_eq!(coupled, expected, "{}", which.name());
    }
}
