//! Counting, keeping, and what is written of it.

use super::families::{ALL, Kind};
use super::figures::{show_cluster, show_counts, show_host};
use super::files::{Files, read};
use super::*;
use libra_config::System;
use libra_core::book::figures::{ClusterFigures, Holds, MOST_NODES, NodeFigures};
use libra_core::decision::refusal::Category;
use std::time::Duration;

const NOON: f64 = 1_790_000_400.0;

fn microseconds(number: u64) -> Duration {
    Duration::from_micros(number)
}

fn some_counts() -> Counts {
    let mut counts = Counts::EMPTY;
    counts.accept(1, microseconds(9));
    counts.accept(3, microseconds(150));
    counts.refuse(Category::Share, microseconds(10));
    counts.refuse(Category::Share, microseconds(200_000));
    counts.refuse(Category::NoTerms, microseconds(11));
    counts.end(Outcome::Met);
    counts.end_many(Outcome::Late, 2);
    counts.withdrawn = 1;
    counts.reject(Rejection::Capacity);
    counts
}

fn some_cluster(nodes: usize) -> ClusterFigures {
    ClusterFigures {
        provisional: 1,
        waiting: 2,
        running: 3,
        suspended: 0,
        late: 1,
        open: nodes as u64 - 1,
        closed: 1,
        processors: 2.0 * nodes as f64,
        committed: 0.525 * nodes as f64,
        nodes: (0..nodes.min(MOST_NODES))
            .map(|number| NodeFigures {
                name: format!("node-{number}"),
                processors: 2.0,
                committed: 0.525,
            })
            .collect(),
        holds: Holds::new(true, Some((2, 10.5))),
    }
}

fn whole_page() -> Page {
    let mut page = Page::new();
    show_host(
        &mut page,
        &HostFigures {
            jobs: Some(figures::HostJobs::default()),
            ..HostFigures::default()
        },
    );
    show_counts(&mut page, System::Slurm, &some_counts());
    show_counts(&mut page, System::Local, &some_counts());
    show_cluster(&mut page, System::Slurm, &some_cluster(2), NOON);
    page
}

#[test]
fn accounts_that_cannot_be_read_are_told_from_none() {
    for (holds, reachable, number) in [
        (Holds::new(false, None), None, None),
        (Holds::new(true, None), Some("0"), None),
        (Holds::new(true, Some((2, 10.5))), Some("1"), Some("2")),
    ] {
        let mut page = Page::new();
        let figures = ClusterFigures {
            holds,
            ..ClusterFigures::default()
        };
        show_cluster(&mut page, System::Pbs, &figures, NOON);
        let text = page.text(Format::OpenMetrics);
        let value = |name: &str| {
            let line = format!("{name}{{system=\"pbs\"}} ");
            text.lines()
                .find_map(|found| found.strip_prefix(line.as_str()))
        };
        assert_eq!(value("libra_accounts_reachable"), reachable, "{holds:?}");
        assert_eq!(value("libra_holds"), number, "{holds:?}");
    }
}

#[test]
fn every_category_has_a_count_of_its_own() {
    for category in Category::ALL {
        let mut counts = Counts::EMPTY;
        counts.refuse_many(category, 3);
        for other in Category::ALL {
            assert_eq!(counts.refused(other), if other == category { 3 } else { 0 });
        }
        assert_eq!(Category::of_word(category.word()), Some(category));
    }
}

#[test]
fn outcomes() {
    assert_eq!(Outcome::of(9.0, 10.0, false), Outcome::Met);
    assert_eq!(Outcome::of(9.0, 10.0, true), Outcome::Cancelled);
    for (took, cut_short, ended) in [
        (9.0, false, Outcome::Failed),
        (9.0, true, Outcome::Cancelled),
        (11.0, false, Outcome::Late),
    ] {
        assert_eq!(Outcome::of(took, 10.0, cut_short).but_failed(true), ended);
    }
    // Whoever ends a job that is late ends a late job.
    assert_eq!(Outcome::of(11.0, 10.0, true), Outcome::Late);
    let mut counts = Counts::EMPTY;
    counts.vanish(3, 2);
    assert_eq!(counts.ended(Outcome::Cancelled), 2);
    assert_eq!(counts.ended(Outcome::Unknown), 1);
}

#[test]
fn buckets_are_as_documented() {
    let mut histogram = Histogram::EMPTY;
    for time in [1, 10, 11, 100_000, 100_001, 60_000_000] {
        histogram.observe(microseconds(time));
    }
    let buckets: Vec<(f64, u64)> = histogram.cumulative().collect();
    assert_eq!(buckets[0], (1e-5, 2));
    assert_eq!(buckets[1], (2e-5, 3));
    assert_eq!(buckets[12], (0.1, 4));
    assert_eq!(buckets[13], (0.2, 5));
    assert_eq!(buckets[20], (50.0, 5));
    assert_eq!(buckets[21], (f64::INFINITY, 6));
    assert_eq!(histogram.count(), 6);
    assert!((histogram.seconds() - 60.200023).abs() < 1e-9);
    assert_eq!(Histogram::from_json(&histogram.to_json()), histogram);
}

#[test]
fn counts_of_a_version_with_fewer_buckets_are_kept() {
    let older = serde_json::json!({
        "buckets": [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1], "seconds": 3.5});
    let histogram = Histogram::from_json(&older);
    let buckets: Vec<(f64, u64)> = histogram.cumulative().collect();
    assert_eq!((buckets[0].1, buckets[12].1), (7, 9));
    assert_eq!((buckets[20].1, buckets[21].1), (9, 10));
    assert_eq!((histogram.count(), histogram.seconds()), (10, 3.5));
    // Of a later one nobody knows what they mean.
    let later = serde_json::json!({"buckets": vec![1; 40], "seconds": 3.5});
    assert_eq!(Histogram::from_json(&later).count(), 0);
}

#[test]
fn a_record_comes_back_as_it_was_written() {
    let mut record = StoredCounts::new("one");
    record.add(&some_counts(), NOON);
    record.add(&some_counts(), NOON + 3600.0);
    let json = record.to_json(System::Pbs, NOON);
    let again = StoredCounts::from_json(&json, System::Pbs).expect("ours");
    assert_eq!(again.totals, record.totals);
    assert_eq!(again.to_json(System::Pbs, NOON), json);
    let first = &json["hours"][0];
    assert_eq!(first["hour"], 1_789_999_200);
    assert_eq!(first["accepted"], 4);
    assert_eq!(first["late"], 2);
    assert_eq!(first["cancelled"], serde_json::Value::Null);
    assert_eq!(first["refused"]["share"], 2);
    assert!(StoredCounts::from_json(&json, System::Slurm).is_err());
    assert!(StoredCounts::from_json(&serde_json::json!({"version": 2}), System::Pbs).is_err());
}

#[test]
fn history_is_fourteen_days_and_no_more() {
    let mut record = StoredCounts::new("one");
    let mut one = Counts::EMPTY;
    one.accept(1, microseconds(1));
    for hour in 0..1000 {
        record.add(&one, NOON + 3600.0 * f64::from(hour));
    }
    assert_eq!(record.totals.accepted, 1000);
    assert_eq!(record.hours().count(), 337);
    // What each submission of `libra run` reads and writes.
    let begun = std::time::Instant::now();
    let text = record.to_json(System::Local, NOON).to_string();
    let value = serde_json::from_str(&text).expect("JSON");
    let again = StoredCounts::from_json(&value, System::Local).expect("ours");
    println!("{} bytes in {:?}", text.len(), begun.elapsed());
    assert_eq!(again.hours().count(), 337);
    assert!(text.len() < 40_000);
    // A clock that was days ahead for a while leaves nothing behind.
    record.add(&one, NOON);
    assert_eq!(record.hours().count(), 1);
}

#[test]
fn totals_of_before_are_added_once() {
    let mut before = StoredCounts::new("before the reboot");
    before.add(&some_counts(), NOON - 3600.0);
    let mut record = StoredCounts::new("after");
    record.add(&some_counts(), NOON);
    record.continue_from(&before, NOON);
    record.continue_from(&before, NOON);
    assert_eq!(record.totals.accepted, 8);
    assert_eq!(record.hours().count(), 2);
    let same = record.clone();
    record.continued = false;
    record.continue_from(&same, NOON);
    assert_eq!(record.totals.accepted, 8);
}

#[test]
fn every_family_is_on_a_page_and_keeps_the_conventions() {
    let text = whole_page().text(Format::OpenMetrics);
    for family in ALL {
        assert!(
            text.contains(&format!("\n{}", family.sample_name())),
            "{}",
            family.name
        );
        assert!(
            family.name.starts_with("libra_") && family.help.ends_with('.'),
            "{}",
            family.name
        );
        assert!(family.unit.is_empty() || family.name.ends_with(&format!("_{}", family.unit)));
        assert!(!family.name.ends_with("_total") && !family.name.ends_with("_info"));
        let same = ALL.iter().filter(|other| other.name == family.name).count();
        assert_eq!(same, 1, "{}", family.name);
    }
    assert!(text.ends_with("\n# EOF\n"));
    assert!(text.contains("# TYPE libra_jobs_accepted counter\n"));
    assert!(text.contains("# UNIT libra_decision_seconds seconds\n"));
    assert!(text.contains("libra_jobs_accepted_total{system=\"slurm\"} 4\n"));
    assert!(
        text.contains("libra_submissions_refused_total{system=\"slurm\",reason=\"share\"} 2\n")
    );
    assert!(text.contains("libra_decision_seconds_bucket{system=\"slurm\",le=\"0.00001\"} 2\n"));
    // Hosts count them, not those who admit.
    let rejected: Vec<&str> = (text.lines())
        .filter(|line| line.starts_with("libra_host_claims_rejected_total"))
        .collect();
    assert_eq!(
        rejected,
        [
            "libra_host_claims_rejected_total{reason=\"unrecorded\"} 0",
            "libra_host_claims_rejected_total{reason=\"capacity\"} 1",
        ]
    );
    let older = whole_page().text(Format::Prometheus);
    assert!(older.contains("# TYPE libra_jobs_accepted_total counter\n"));
    assert!(!older.contains("# EOF") && !older.contains("# UNIT"));
}

#[test]
fn documentation_and_dashboard_know_the_metrics_and_no_others() {
    let guide = include_str!("../../../docs/metrics.md");
    let dashboard = include_str!("../../../packaging/grafana/libra.json");
    let rules = include_str!("../../../packaging/prometheus/libra.rules.yml");
    let parsed: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
    assert!(
        parsed["panels"]
            .as_array()
            .is_some_and(|panels| panels.len() >= 7)
    );
    let samples: Vec<String> = (ALL.iter())
        .flat_map(|family| match family.kind {
            Kind::Histogram => ["_bucket", "_count", "_sum"]
                .map(|end| format!("{}{end}", family.name))
                .to_vec(),
            _ => vec![family.sample_name()],
        })
        .collect();
    for family in ALL {
        let row = format!("| `{}` |", family.sample_name());
        assert!(guide.contains(&row), "docs/metrics.md has no row {row}");
    }
    let users = include_str!("../../../docs/user-guide.md");
    for category in libra_core::decision::refusal::Category::ALL {
        let word = category.word();
        assert!(
            guide.contains(&format!("`{word}`")),
            "docs/metrics.md does not have {word}"
        );
        let row = format!("| `{word}` |");
        assert!(users.contains(&row), "docs/user-guide.md has no row {row}");
    }
    let alerts: Vec<&str> = (rules.lines())
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() >= 10, "{alerts:?}");
    for alert in &alerts {
        let row = format!("| `{alert}` |");
        assert!(guide.contains(&row), "docs/metrics.md has no row {row}");
    }
    let named = guide
        .lines()
        .filter_map(|line| line.strip_prefix("| `Libra")?.split('`').next());
    for name in named {
        let known = alerts.contains(&format!("Libra{name}").as_str());
        assert!(known, "docs/metrics.md: there is no alert Libra{name}");
    }
    let places = [
        ("docs/metrics.md", guide),
        ("the dashboard", dashboard),
        ("the rules", rules),
    ];
    for (place, text) in places {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("libra_")) {
            let known = samples.iter().any(|sample| sample == word)
                || ALL.iter().any(|family| family.name == word);
            assert!(known, "{place}: there is no {word}");
        }
    }
}

#[test]
fn a_large_cluster_makes_no_large_file() {
    for name in ["node-", &"\"".repeat(250)] {
        let mut cluster = some_cluster(20_000);
        for (number, node) in cluster.nodes.iter_mut().enumerate() {
            node.name = format!("{name}{number}");
        }
        let mut page = Page::new();
        show_counts(&mut page, System::Slurm, &some_counts());
        show_cluster(&mut page, System::Slurm, &cluster, NOON);
        let text = page.text(Format::Prometheus);
        assert!(text.len() < 60_000, "{}", text.len());
        assert!(text.contains("libra_processors{system=\"slurm\"} 40000\n"));
        let unlisted = text
            .lines()
            .find(|line| line.starts_with("libra_nodes_unlisted{"));
        let unlisted = unlisted.and_then(|line| line.rsplit(' ').next());
        assert!(unlisted.expect("a line").parse::<u64>().expect("a number") > 19_000);
    }
}

#[test]
fn only_what_a_system_may_say_is_merged() {
    let mut page = Page::new();
    show_counts(&mut page, System::Local, &Counts::EMPTY);
    let before = page.text(Format::OpenMetrics).lines().count();
    let bad = "libra_jobs{system=\"local\",state=\"running\"} 7\n\
        libra_jobs{system=\"pbs\",state=\"running\"} 7\n\
        libra_jobs{system=\"slurm\",state=\"running\"} many\n\
        libra_jobs{system=\"slurm\",state=\"run} 7\n\
        libra_jobs{system=\"slurm\",state=\"running\"} 7 1790000000\n\
        libra_jobs{system=\"slurm\"state=\"running\"} 7\n\
        node_load1 3\n\
        libra_colour{system=\"slurm\"} 1\n\
        libra_jobs{system=\"slurm\"} NaN\n\
        {} 1\n";
    page.merge(bad, System::Slurm);
    assert_eq!(page.text(Format::OpenMetrics).lines().count(), before);
    let mut other = Page::new();
    show_counts(&mut other, System::Slurm, &some_counts());
    let mut odd = some_cluster(1);
    odd.nodes[0].name = "a\\b\"c\nd} 5,e=\"".to_string();
    show_cluster(&mut other, System::Slurm, &odd, NOON);
    let text = other.text(Format::Prometheus);
    page.merge(&text, System::Slurm);
    page.merge(&text, System::Slurm);
    let merged = page.text(Format::Prometheus);
    let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    let mut local = Page::new();
    show_counts(&mut local, System::Local, &Counts::EMPTY);
    assert_eq!(
        samples(&merged),
        samples(&text) + samples(&local.text(Format::Prometheus))
    );
    for line in text.lines() {
        assert!(merged.contains(line), "{line}");
    }
}

#[test]
fn files_are_written_when_due_carried_on_and_complained_about_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().display().to_string();
    let mut files = Files::new(System::Slurm);
    files.add(&some_counts(), NOON);
    assert!(!files.is_due(NOON));
    assert_eq!(files.configure(&path, 10.0, NOON), None);
    assert!(files.is_due(NOON));
    assert_eq!(files.write(&some_cluster(2), NOON), None);
    assert!(!files.is_due(NOON + 9.0) && files.is_due(NOON + 10.0) && files.is_due(NOON - 60.0));
    let prom = read(&directory.path().join("slurm.prom"));
    assert!(
        prom.expect("readable")
            .expect("there")
            .contains("accepted_total{system=\"slurm\"} 4\n")
    );
    // Another process, which had counted something before it was told where to write.
    let mut next = Files::new(System::Slurm);
    next.add(&some_counts(), NOON);
    assert_eq!(next.configure(&path, 10.0, NOON), None);
    assert_eq!(next.record().totals.accepted, 8);
    assert_eq!(next.record().series, files.record().series);
    // Nothing half written, nothing else.
    let mut names: Vec<_> = (std::fs::read_dir(directory.path()).expect("ours"))
        .map(|file| file.expect("a file").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["slurm.json", "slurm.prom"]);
    // A file in the place of the directory.
    std::fs::write(directory.path().join("file"), "").expect("ours");
    let mut astray = Files::new(System::Slurm);
    let first = astray.configure(&format!("{path}/file"), 10.0, NOON);
    let said: Vec<String> = (0..3)
        .filter_map(|_| astray.write(&some_cluster(1), NOON))
        .chain(first)
        .collect();
    assert_eq!(said.len(), 1, "{said:?}");
    // One that is no record any more.
    std::fs::write(directory.path().join("slurm.json"), "{").expect("ours");
    let mut anew = Files::new(System::Slurm);
    let said = anew.configure(&path, 10.0, NOON).expect("a line");
    assert!(
        said.contains("slurm.json") && said.contains("from 0"),
        "{said}"
    );
    assert_eq!(
        anew.write(&some_cluster(1), NOON).as_deref(),
        Some("metrics are written again")
    );
}

#[test]
fn a_link_is_not_followed_and_a_pipe_not_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let (target, link) = (
        directory.path().join("target"),
        directory.path().join("slurm.prom.new"),
    );
    std::fs::write(&target, "kept").expect("ours");
    std::os::unix::fs::symlink(&target, &link).expect("ours");
    assert!(read(&link).is_err());
    files::replace(&directory.path().join("slurm.prom"), "new").expect("written");
    assert_eq!(std::fs::read_to_string(&target).expect("there"), "kept");
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).expect("ours");
    assert!(read(&pipe).is_err());
}
