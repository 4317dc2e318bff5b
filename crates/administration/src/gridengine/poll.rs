//! qmaster's records, by its own commands.

use super::GridEngineError;
use super::settings::value;
use libra_gridengine::commands::Cell;
use libra_gridengine::records::{self, Allocation, Detail, Environment, Host, Records};
use libra_gridengine::starts::START;
use libra_system::clock;
use libra_xml::XmlError;
use std::collections::HashMap;
use std::time::Duration;

/// Details of so many jobs are asked for at once.
const AT_ONCE: usize = 200;

/// Brings records up to date. `within`: how long each command may take.
pub fn poll(cell: &Cell, records: &mut Records, within: Duration) -> Result<(), GridEngineError> {
    let hosts = hosts(cell, within)?;
    let unreadable = |error| GridEngineError::Answer("qstat", error);
    let taken = clock::unix_time();
    let jobs = cell.run("qstat", &["-xml", "-u", "*"], within)?;
    let jobs = records::list(&jobs).map_err(unreadable)?;
    (records.hosts, records.jobs) = (hosts, jobs);
    records.forget();
    for some in records.wanted().chunks(AT_ONCE) {
        let found = match details(cell, some, within)? {
            Ok(found) => found,
            // One that cannot be read must not hide the others.
            Err(_) => {
                let mut found = HashMap::new();
                for number in some {
                    match details(cell, &[*number], within)? {
                        Ok(one) => found.extend(one),
                        Err(error) => log::warn!("job {number} is not known: {error}"),
                    }
                }
                found
            }
        };
        for gone in some.iter().filter(|number| !found.contains_key(number)) {
            records.jobs.remove(gone);
        }
        records.details.extend(found);
    }
    // Last of all: what failed before has changed nothing that counts.
    records.taken = taken;
    Ok(())
}

/// Hosts with their queues, and what may start there. A cell without that complex has no host with a value of it.
pub fn hosts(cell: &Cell, within: Duration) -> Result<Vec<Host>, GridEngineError> {
    let hosts = cell.run("qhost", &["-q", "-F", START, "-xml"], within)?;
    records::hosts(&hosts).map_err(|error| GridEngineError::Answer("qhost", error))
}

/// What is known of these jobs, or why the answer cannot be read.
fn details(
    cell: &Cell,
    jobs: &[u32],
    within: Duration,
) -> Result<Result<HashMap<u32, Detail>, XmlError>, GridEngineError> {
    let numbers: Vec<String> = jobs.iter().map(u32::to_string).collect();
    let text = cell.run("qstat", &["-xml", "-j", &numbers.join(",")], within)?;
    Ok(records::details(&text))
}

/// Parallel environments, as qconf lists them.
pub fn environments(cell: &Cell, within: Duration) -> HashMap<String, Environment> {
    let names = cell.run("qconf", &["-spl"], within).unwrap_or_default();
    let mut environments = HashMap::new();
    for name in names.lines().map(str::trim).filter(|name| !name.is_empty()) {
        let Ok(text) = cell.run("qconf", &["-sp", name], within) else {
            continue;
        };
        let allocation = match value(&text, "allocation_rule").map(str::parse::<u32>) {
            Some(Ok(each @ 1..)) => Allocation::Each(each),
            _ => Allocation::Anyhow,
        };
        // It fails where no queue has it.
        let instances = cell
            .run("qselect", &["-pe", name], within)
            .unwrap_or_default();
        let instances = instances
            .lines()
            .map(|line| line.trim().to_string())
            .collect();
        environments.insert(
            name.to_string(),
            Environment {
                allocation,
                instances,
            },
        );
    }
    environments
}
