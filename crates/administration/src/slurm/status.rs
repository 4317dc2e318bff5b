//! `libra slurm status`: what is committed on which node, and how every job with terms stands.
//!
//! Slurm's own records, taken into a book as the plugin does after a restart ([`libra_slurm::records`]): what is shown is what
//! the next admission would count with.

use super::SlurmError;
use super::found::{PATIENCE, run};
use super::jobs::{self, Named, Owned};
use crate::status::Report;
use crate::{Common, Failure};
use libra_config::{Config, System, site};
use libra_core::book::Book;
use libra_slurm::records::{Records, State, snapshot};
use libra_system::clock;
use libra_wording::errors;
use std::collections::BTreeMap;

const NOTHING: &str = "no partition of this cluster shares its processors (OverSubscribe=FORCE:20), or none that [slurm] partitions \
     of the configuration names; 'libra slurm check' says more";

/// As Slurm's own records have it.
pub fn report(args: &Common) -> Result<Report, Failure> {
    let config = site::load(args.config.as_deref())?;
    let (records, owners, states) = poll()?;
    Ok(of_records(&config, &records, &owners, &states)?)
}

fn asked(command: &'static str) -> Result<String, SlurmError> {
    let mut words = command.split(' ');
    let name = words.next().unwrap_or_default();
    let arguments: Vec<&str> = words.collect();
    run(name, &arguments, PATIENCE).map_err(|answer| SlurmError::Command {
        command: command.to_string(),
        answer,
    })
}

/// Jobs that are queued or run.
pub(crate) fn queue() -> Result<Vec<Owned>, SlurmError> {
    let unreadable = |command: &str| {
        let command = command.to_string();
        move |answer| SlurmError::Command { command, answer }
    };
    // A Slurm built without a JSON library has none, and 23.02 without an accounting database breaks off in the middle of a job. A controller that is
    // down does not answer the other way either.
    match asked("squeue --json") {
        Err(error) if error.to_string().contains("no answer") => return Err(error),
        Ok(text) if !jobs::says_errors(&text) => {
            return jobs::from_json(&text).map_err(unreadable("squeue --json"));
        }
        _ => {}
    }
    let text = asked("scontrol -d -o show job")?;
    jobs::from_text(&text).map_err(unreadable("scontrol -d -o show job"))
}

/// Names of owners, by jobs' names and arrays' numbers.
pub(crate) type Owners = BTreeMap<String, String>;

/// Who owns what.
pub(crate) fn owners(jobs: &[Owned]) -> Owners {
    let mut owners = Owners::new();
    for Owned { job, user, .. } in jobs {
        let array = job.array.as_ref().map(|array| array.array.to_string());
        for name in [Some(job.name()), array].into_iter().flatten() {
            owners.insert(name, user.clone());
        }
    }
    owners
}

fn poll() -> Result<(Records, Owners, Vec<Named>), SlurmError> {
    let taken = clock::unix_time();
    let jobs = queue()?;
    let states = jobs::nodes(&asked("scontrol -o show node")?);
    let partitions = jobs::partitions(&asked("scontrol -a -o show partition")?);
    let owners = owners(&jobs);
    let records = Records {
        taken,
        jobs: jobs.into_iter().map(|owned| owned.at(taken)).collect(),
        nodes: states.iter().map(|(node, _)| node.clone()).collect(),
        partitions,
        ..Records::default()
    };
    Ok((records, owners, states))
}

/// The report, with what could not be taken into the book.
pub(crate) fn of_records(
    config: &Config,
    records: &Records,
    owners: &Owners,
    states: &[Named],
) -> Result<Report, SlurmError> {
    let ours = &config.slurm.partitions;
    let is_libra = |node: &str| {
        let partitions = records.partitions.iter().filter(|p| match ours.is_empty() {
            true => p.shared,
            false => ours.contains(&p.name),
        });
        partitions
            .into_iter()
            .any(|p| p.nodes.iter().any(|n| n == node))
    };
    let (mut snapshot, mut problems) = snapshot(records, &is_libra);
    // As the plugin counts, and every node: what is kept for the system is nobody's.
    for node in &mut snapshot.nodes {
        node.processors = config.node.reserve.leaves(node.processors);
    }
    let mut book = Book::new(
        libra_rules::batch_admission(config),
        config.provisional_seconds(),
    );
    let untaken = (book.rebuild(&snapshot)).map_err(|error| SlurmError::Command {
        command: "squeue --json".to_string(),
        answer: errors::book(&error),
    })?;
    problems.extend(untaken.iter().map(errors::untaken));
    let state = |name: &str| {
        let found = states.iter().find(|(node, _)| node.name == name);
        found.map_or_else(|| "gone".to_string(), |(_, state)| state.clone())
    };
    let owner = |id: &str| {
        let array = id.split('_').next().unwrap_or(id);
        owners.get(id).or_else(|| owners.get(array)).cloned()
    };
    let mut report = Report::of(System::Slurm, &book, &state, &owner, problems, NOTHING);
    for job in records
        .jobs
        .iter()
        .filter(|job| job.state == State::Pending)
    {
        match job.admin_comment.commitment() {
            Some(Ok(known)) if known.commitment.deferred => {
                let id = job.name();
                report.add_deferred(System::Slurm, &id, &known.commitment, owner(&id));
            }
            _ => {}
        }
    }
    Ok(report)
}
