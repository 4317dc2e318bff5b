//! Files that somebody else has written: logs, libra.toml.

use super::{NOW, amount, words};
use libra_config::Config;
use libra_core::book::Book;
use libra_core::decision::job::{Request, Terms};
use libra_core::decision::node::NodeSpec;
use libra_pbs::server::Server;
use libra_slurm::controller::Controller;
use libra_workload::read::{Leniency, read_from};
use libra_workload::swf::{self, SwfRecord};

/// A log, plain or compressed, strictly and leniently.
pub fn swf_log(input: &[u8]) {
    let mut jobs = 0;
    for line in input.split(|byte| *byte == b'\n') {
        match swf::parse(line.trim_ascii()) {
            Ok(record) => {
                jobs += 1;
                in_range(&record);
                let mut written = Vec::new();
                record.write(&mut written);
                let again = swf::parse(written.trim_ascii_end());
                assert_eq!(again, Ok(record), "{}", String::from_utf8_lossy(&written));
            }
            Err(error) => words(&error, 400, ""),
        }
    }
    // A small file can unpack to gigabytes; those are read elsewhere, with a limit of the test's own.
    if input.starts_with(&[0x1f, 0x8b]) {
        return;
    }
    let [strict, lenient] =
        [Leniency::Strict, Leniency::Lenient].map(|leniency| read_from(input, "input", leniency));
    for log in [&strict, &lenient].into_iter().flatten() {
        let ordered = log
            .records
            .windows(2)
            .all(|pair| pair[0].submit <= pair[1].submit);
        assert!(ordered && !log.records.is_empty());
        assert!(log.records.len() <= jobs);
        assert!(log.never_ran() <= log.records.len());
        log.records.iter().for_each(in_range);
        // A job of which nobody knows when it was submitted is left out.
        log.records.iter().for_each(|record| amount(record.submit));
    }
    for error in [&strict, &lenient]
        .into_iter()
        .filter_map(|read| read.as_ref().err())
    {
        words(error, 1000, "");
    }
    // Who is taken at his word is taken the same where more is forgiven.
    if let (Ok(strict), lenient) = (strict, lenient) {
        assert_eq!(lenient.ok(), Some(strict));
    }
}

fn in_range(record: &SwfRecord) {
    for value in [
        record.submit,
        record.wait,
        record.run_time,
        record.cpu_time,
        record.used_memory,
        record.requested_time,
        record.requested_memory,
        record.think_time,
    ] {
        assert!(
            value.is_finite() && (value >= 0.0 || value == swf::UNKNOWN),
            "{record:?}"
        );
    }
    assert!(record.submit <= swf::LONGEST && record.run_time <= swf::LONGEST);
    assert!(record.processors().is_none_or(|processors| processors >= 1));
}

/// libra.toml, and a job that is judged by it.
pub fn configuration(input: &[u8]) {
    let Some(text) = super::text(input) else {
        return;
    };
    let config = match Config::from_toml(text) {
        Ok(config) => config,
        Err(error) => {
            // It has a line of the file in it.
            words(&error, 4000, "\n");
            return;
        }
    };
    assert_eq!(
        Config::from_toml(text).ok().as_ref(),
        Some(&config),
        "twice the same"
    );
    amount(config.provisional_seconds());
    amount(libra_rules::quote_limits(&config).longest);
    let _ = (
        libra_rules::cgroup_settings(&config),
        libra_rules::spare_in_rounds(&config),
    );
    let left = config.node.reserve.leaves(8.0);
    assert!((0.0..=8.0).contains(&left), "{left} of 8 processors");
    let _ = (Server::new(&config), Controller::new(&config, NOW));
    let mut book = Book::new(
        libra_rules::admission(&config),
        config.provisional_seconds(),
    );
    let spec = NodeSpec {
        processors: left,
        rating: 1.0,
        memory: NodeSpec::MEMORY_UNLIMITED,
    };
    book.set_node("n1", spec, true).expect("a node");
    let request = Request::single(Terms::hard(10.0, 20.0, f64::INFINITY));
    for _ in 0..20 {
        if let Ok(admitted) = book.admit(&request, NOW) {
            amount(admitted.price);
            for place in &admitted.places {
                assert!((0.0..=1.0).contains(&place.share));
            }
        }
    }
    amount(book.price_now(&request));
    let committed = book.committed("n1").expect("it is there");
    amount(committed);
    if config.admission.policy.shares_add_up() {
        assert!(committed <= left * 1.000_001, "{committed} of {left}");
    }
}
