//! Every text that crosses a border of trust, and what has to hold for whatever somebody sends.
//!
//! One function per border. It may return when the input is refused; it panics when an input is taken that does not
//! mean the same once it is written down again, or that leaves a value out of its range. `fuzz/run` drives them with
//! AFL++; `tests/fuzz.rs` replays what is kept in `fuzz/corpus`, in every `make test`.

use libra_accounts::names::AccountName;
use libra_accounts::request::Request as AccountsRequest;
use libra_config::Config;
use libra_core::sold::Sold;
use libra_host::entry::Entry;
use libra_page::form::{self, Fields};
use libra_page::system::Kind;
use libra_pbs::server::Server;
use libra_pbs::{exec_vnode, select};
use libra_slurm::array::SoldJob;
use libra_slurm::submission::Submission as SlurmSubmission;
use libra_units::money::Money;
use libra_units::{duration, indices, memory};
use libra_wording::terms;
use libra_workload::read::{Leniency, read_from};
use libra_workload::swf;
use serde_json::{Value, json};

/// A border: its name, which is also its directory in `fuzz/corpus`, and what is done with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All borders.
pub const TARGETS: &[Target] = &[
    ("commitment", commitment),
    ("registry-entry", registry_entry),
    ("pbs-events", pbs_events),
    ("pbs-select", pbs_select),
    ("accounts-request", accounts_request),
    ("terms", terms_list),
    ("values", values),
    ("swf", swf_log),
    ("configuration", configuration),
    ("web-form", web_form),
    ("slurm-submission", slurm_submission),
];

/// The time that inputs are judged at.
const NOW: f64 = 1_700_000_000.0;

fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// The line that travels with a job, and the admin comment that Slurm keeps it in.
fn commitment(input: &[u8]) {
    let Some(text) = text(input) else { return };
    if let Ok(sold) = Sold::parse(text) {
        assert!(
            sold.places
                .iter()
                .all(|place| (0.0..=1.0).contains(&place.share))
        );
        let again = Sold::parse(&sold.line()).expect("a line that was written is read");
        assert_eq!(again, sold);
        let first: u64 = (sold.plan(0).iter())
            .map(|place| u64::from(place.chunks))
            .sum();
        assert!(first <= u64::from(sold.request.shape.chunks));
        let _ = sold.plan(u32::MAX);
        assert!((0.0..=1.0).contains(&sold.share_on("n1")));
    }
    if let Some(Ok(job)) = SoldJob::parse(text) {
        let _ = job.number_of(u32::MAX);
        let again = SoldJob::parse(&job.comment()).expect("it is a comment of ours");
        assert_eq!(again, Ok(job));
    }
}

/// A file of the registry.
fn registry_entry(input: &[u8]) {
    let Ok(entry) = serde_json::from_slice::<Entry>(input) else {
        return;
    };
    let _ = (
        entry.planned_terms(),
        entry.memory(),
        entry.due(),
        entry.is_live(),
    );
    // What JSON has no number for is written as null.
    if let Ok(written) = serde_json::to_vec(&entry) {
        let _ = serde_json::from_slice::<Entry>(&written);
    }
}

/// What PBS's hooks show, one event a line, to a server that knows two nodes.
fn pbs_events(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let mut server = Server::new(&Config::default());
    let node = |name: &str| json!({"name": name, "share": "2.0", "mem": "8gb", "up": true, "resources": {"host": name}});
    let known =
        json!({"event": "records", "now": NOW, "nodes": [node("n1"), node("n2")], "jobs": []});
    server
        .answer(&known)
        .expect("these records are well-formed");
    for line in text.lines().take(64) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if let Ok(answer) = server.answer(&event) {
            assert!(answer.is_object(), "{answer}");
        }
    }
}

/// `select`, `place` and the old ways to ask, a line each, and `exec_vnode`.
fn pbs_select(input: &[u8]) {
    let Some(text) = text(input) else { return };
    for (vnode, _) in exec_vnode::parse(text) {
        let _ = exec_vnode::is_on_host(&vnode, "n1");
    }
    let mut lines = text
        .lines()
        .map(|line| Some(line).filter(|l| !l.is_empty()));
    let mut next = || lines.next().flatten();
    let (select, place, ncpus, mem, nodes) = (next(), next(), next(), next(), next());
    let _ = select::parse(select, place, ncpus, mem, nodes);
    let plain = select::Plain {
        select,
        place,
        ncpus,
        mem,
        nodes,
    };
    let _ = (plain.kept_off(), plain.best_effort(), plain.left_alone());
}

/// What a client of the accounts' socket sends.
fn accounts_request(input: &[u8]) {
    let Ok(request) = serde_json::from_slice::<AccountsRequest>(input) else {
        return;
    };
    let written = serde_json::to_vec(&request).expect("a request can be written");
    let again: AccountsRequest = serde_json::from_slice(&written).expect("and read");
    assert_eq!(again, request);
}

/// The list that users give with `-W`.
fn terms_list(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let Ok(partial) = terms::parse(text, &terms::deadline_as_duration) else {
        return;
    };
    let Ok(terms) = partial.complete() else {
        return;
    };
    assert!(terms.estimate > 0.0 && terms.estimate.is_finite());
    assert!(terms.deadline > 0.0 && terms.deadline.is_finite());
    assert!(terms.budget >= 0.0);
    assert!(terms.penalty_rate >= 0.0);
}

/// Durations, memory, lists of indices, amounts of money, names of accounts.
fn values(input: &[u8]) {
    let Some(text) = text(input) else { return };
    if let Ok(seconds) = duration::parse(text) {
        assert!(seconds >= 0.0 && seconds.is_finite());
        let _ = (duration::show(seconds), duration::exact(seconds));
    }
    if let Ok(bytes) = memory::parse(text) {
        let _ = memory::show(bytes);
    }
    if let Ok(list) = indices::parse(text) {
        assert_eq!(
            indices::parse(&indices::show(&list)).as_ref(),
            Ok(&list),
            "{text}"
        );
    }
    if let Ok(money) = Money::parse(text) {
        assert_eq!(
            Money::parse(&money.exact()).ok(),
            Some(money),
            "{}",
            money.exact()
        );
    }
    if let Ok(name) = AccountName::parse(text) {
        assert_eq!(AccountName::parse(&name.to_string()).ok(), Some(name));
    }
}

/// A log, plain or compressed, strictly and leniently.
fn swf_log(input: &[u8]) {
    for line in input.split(|byte| *byte == b'\n') {
        if let Ok(record) = swf::parse(line) {
            let mut written = Vec::new();
            record.write(&mut written);
            let again = swf::parse(written.trim_ascii_end()).expect("a record that was written");
            let mut once_more = Vec::new();
            again.write(&mut once_more);
            assert_eq!(written, once_more);
        }
    }
    // A small file can unpack to gigabytes; those are read elsewhere, with a limit of the test's own.
    if !input.starts_with(&[0x1f, 0x8b]) {
        for leniency in [Leniency::Strict, Leniency::Lenient] {
            let _ = read_from(input, "input", leniency);
        }
    }
}

/// libra.toml.
fn configuration(input: &[u8]) {
    let Some(text) = text(input) else { return };
    if let Ok(config) = Config::from_toml(text) {
        let _ = (
            libra_rules::admission(&config),
            libra_rules::quote_limits(&config),
            libra_rules::cgroup_settings(&config),
            libra_rules::spare_in_rounds(&config),
            config.provisional_seconds(),
        );
    }
}

/// Fields of the page's form, a line each as `name=value`, and an offer that is taken.
fn web_form(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let fields: Fields = (text.split('\u{1}'))
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let typed = form::typed(&fields);
    for kind in [Kind::Local, Kind::Slurm, Kind::Pbs] {
        if let Ok(wanted) = form::checked(&typed, kind) {
            for value in [
                &wanted.name,
                &wanted.estimate,
                &wanted.deadline,
                &wanted.budget,
                &wanted.queue,
            ] {
                assert!(!value.starts_with('-'), "{value:?} is an option");
                assert!(
                    !value.chars().any(char::is_control),
                    "{value:?} ends a line"
                );
            }
        }
    }
    if let Some(offer) = fields.get("offer") {
        let _ = form::take(&mut typed.clone(), offer);
    }
}

/// A submission of Slurm's: option values, comment, array, features and sizes, a line each.
fn slurm_submission(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let mut lines = text.lines().map(str::to_string);
    let mut next = || lines.next().filter(|line| !line.is_empty());
    let mut submission = SlurmSubmission {
        comment: next(),
        array: next(),
        features: next(),
        ..SlurmSubmission::default()
    };
    let mut size = || next().and_then(|line| line.parse::<u32>().ok());
    (submission.tasks, submission.least_nodes) = (size(), size());
    (
        submission.tasks_per_node,
        submission.processors_per_task,
        submission.time_limit,
    ) = (size(), size(), size());
    for name in [
        "estimate",
        "sla-deadline",
        "budget",
        "penalty-rate",
        "sla-quote",
    ] {
        if let Some(value) = next() {
            submission.options.push((name.to_string(), value));
        }
    }
    let _ = (submission.has_terms(), submission.quote());
    if let Ok(asked) = submission.read(NOW) {
        assert!(asked.array.windows(2).all(|pair| pair[0] < pair[1]));
    }
    if let Ok(shape) = submission.shape(64) {
        assert!(shape.chunks >= 1 && shape.processors_per_chunk >= 1);
    }
}
