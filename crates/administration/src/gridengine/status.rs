//! `libra gridengine status`: what is committed on which host, and how every job with terms stands.
//!
//! qmaster's own records, taken into a book as a verifier does after a restart: what is shown is what the next admission would count with.

use super::poll::poll;
use super::{GridEngineError, PATIENCE, cell};
use crate::status::Report;
use crate::{Common, Failure};
use libra_config::{System, site};
use libra_core::book::Book;
use libra_gridengine::records::Records;
use libra_wording::errors;

const NOTHING: &str =
    "this cell has no execution host that is heard of; 'libra gridengine check' says more";

/// As qmaster's own records have it.
pub fn report(args: &Common) -> Result<Report, Failure> {
    let config = site::load(args.config.as_deref())?;
    let mut records = Records::default();
    poll(&cell(), &mut records, PATIENCE)?;
    let (snapshot, mut problems) = records.snapshot(&|count| config.node.reserve.leaves(count));
    let mut book = Book::new(
        libra_rules::batch_admission(&config),
        config.provisional_seconds(),
    );
    let untaken = (book.rebuild(&snapshot))
        .map_err(|error| GridEngineError::Records(errors::book(&error)))?;
    problems.extend(untaken.iter().map(errors::untaken));
    let state = |name: &str| {
        let host = records.hosts.iter().find(|host| host.name == name);
        let in_service = host.is_some_and(|host| host.queues.iter().any(|queue| queue.in_service));
        if in_service { "up" } else { "down" }.to_string()
    };
    let owner = |id: &str| {
        let number: u32 = id.split('.').next()?.parse().ok()?;
        let user = records.details.get(&number)?.user;
        let found = nix::unistd::User::from_uid(user.into()).ok().flatten();
        Some(found.map_or_else(|| user.to_string(), |user| user.name))
    };
    let mut report = Report::of(System::GridEngine, &book, &state, &owner, problems, NOTHING);
    let waiting = (records.jobs.iter()).filter(|(_, job)| job.running.is_empty());
    for (number, _) in waiting {
        let commitment = records.commitment(*number);
        if let Some(commitment) = commitment.filter(|commitment| commitment.deferred) {
            let id = number.to_string();
            report.add_deferred(System::GridEngine, &id, &commitment, owner(&id));
        }
    }
    Ok(report)
}
