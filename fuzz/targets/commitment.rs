//! What is committed, as it travels with a job and as a host keeps it.

use super::{alike, amount, refused, taken, text};
use libra_core::commitment::Commitment;
use libra_host::entry::Entry;
use libra_slurm::array::JobCommitment;
use libra_slurm::claim::ControllerRecord;
use libra_wording::errors::not_committed;

/// The line that travels with a job, the admin comment that Slurm keeps it in, and what slurmctld says of a job.
pub fn commitment(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match Commitment::parse(text) {
        Ok(commitment) => whole(&commitment),
        Err(error) => refused(&not_committed(&error)),
    }
    match JobCommitment::parse(text) {
        Some(Ok(job)) => {
            whole(&job.commitment);
            assert!(job.tasks.windows(2).all(|pair| pair[0] < pair[1]));
            for (number, task) in job.tasks.iter().enumerate() {
                assert_eq!(job.number_of(*task) as usize, number, "each its own part");
            }
            let again = JobCommitment::parse(&job.comment()).expect("it is a comment of ours");
            assert_eq!(again, Ok(job));
        }
        Some(Err(error)) => refused(&error),
        None => {}
    }
    if let Some(record) = ControllerRecord::from_text(text) {
        assert_eq!(ControllerRecord::from_text(&record.to_text()), Some(record));
    }
}

fn whole(commitment: &Commitment) {
    taken(&commitment.request.terms);
    commitment.request.shape.check().expect("a shape in range");
    amount(commitment.price);
    amount(commitment.submitted);
    assert!(commitment.count >= 1, "nothing was committed");
    // Each job of an array has a token of its own, and the book takes them up to 2^53.
    assert!(commitment.token.checked_add(u64::from(commitment.count)) <= Some(1 << 54));
    for place in &commitment.places {
        assert!((0.0..=1.0).contains(&place.share));
        assert!(place.chunks >= 1, "a place of nothing");
    }
    let line = commitment.line();
    // The batch systems give these a meaning.
    let special = |c: char| c.is_control() || c.is_whitespace() || ",\"'".contains(c);
    assert!(!line.contains(special), "{line:?}");
    assert_eq!(Commitment::parse(&line).as_ref(), Ok(commitment));
    let chunks = |plan: Vec<libra_core::commitment::NodeCommitment>| -> u64 {
        plan.iter().map(|place| u64::from(place.chunks)).sum()
    };
    let each = u64::from(commitment.request.shape.chunks);
    for part in (0..commitment.count.min(16)).chain([commitment.count - 1]) {
        assert_eq!(chunks(commitment.plan(part)), each, "part {part}");
    }
    assert_eq!(
        chunks(commitment.plan(commitment.count)),
        0,
        "there is no more"
    );
    assert_eq!(chunks(commitment.plan(u32::MAX)), 0);
    assert!((0.0..=1.0).contains(&commitment.share_on("n1")));
    assert!((0.0..=1.0).contains(&commitment.share_on("")));
}

/// A file of the registry.
pub fn registry_entry(input: &[u8]) {
    let entry = match Entry::from_json(input) {
        Ok(entry) => entry,
        Err(problem) => return refused(&problem),
    };
    taken(&entry.request.terms);
    for value in [entry.price, entry.submitted, entry.delay, entry.due()] {
        amount(value);
    }
    assert!((0.0..=1.0).contains(&entry.share));
    assert!(entry.slots >= 1);
    // What all processors of it would be promised.
    amount(entry.share * f64::from(entry.slots));
    amount(entry.planned_terms().estimate);
    assert_eq!(entry.conclusion().is_some(), entry.ending.is_some());
    assert_eq!(entry.in_time().is_some(), entry.ending.is_some());
    let _ = (entry.memory(), entry.is_live());
    assert!(entry.is_same(&entry));
    let written = serde_json::to_value(&entry).expect("an entry can be written");
    let again = Entry::from_json(written.to_string().as_bytes()).expect("and read");
    let again = serde_json::to_value(again).expect("an entry can be written");
    assert!(alike(&written, &again), "{written} {again}");
}
