//! `libra workload`: writes a synthetic log.

use super::args::{Args, Estimates, WorkloadArgs};
use super::{Done, Failure};
use libra_terminal::answer;
use libra_wording::refusal::out_of_range;
use libra_workload::synthetic::{Requests, Synthetic};
use libra_workload::write::{Target, write};
use serde_json::json;
use std::process::ExitCode;

pub fn workload(workload: &WorkloadArgs, args: &Args) -> Done {
    let model = Synthetic {
        jobs: workload.jobs,
        nodes: workload.nodes,
        load: workload.load,
        seed: workload.seed,
        users: workload.users,
        requests: match workload.estimates {
            Estimates::Round => Requests::Round,
            Estimates::Exact => Requests::Exact,
        },
    };
    let log = model
        .make()
        .map_err(|error| Failure::Usage(format!("--{}", out_of_range(&error))))?;
    let header = log.header(&command(workload));
    let target = Target::named(workload.output.as_deref());
    write(&target, &header, log.records()).map_err(|error| Failure::log(&target, error))?;
    let Target::File(path) = target else {
        return Ok(ExitCode::SUCCESS);
    };
    let text = match (args.json, log.load()) {
        (true, load) => json!({
            "file": path.display().to_string(),
            "jobs": workload.jobs,
            "nodes": workload.nodes,
            "load": load,
        })
        .to_string(),
        (false, Some(load)) => format!(
            "{}: {} jobs for {} nodes, load {load:.3}",
            path.display(),
            workload.jobs,
            workload.nodes
        ),
        (false, None) => format!("{}: {} jobs at once", path.display(), workload.jobs),
    };
    answer(&(text + "\n"), 0)
}

/// The command that makes this log again, whatever was left to the defaults.
fn command(workload: &WorkloadArgs) -> String {
    let WorkloadArgs {
        jobs,
        nodes,
        load,
        seed,
        users,
        estimates,
        output: _,
    } = workload;
    let load = load.map_or(String::new(), |load| format!(" --load {load}"));
    let estimates = match estimates {
        Estimates::Round => "round",
        Estimates::Exact => "exact",
    };
    format!(
        "libra workload --jobs {jobs} --nodes {nodes}{load} --seed {seed} --users {users} --estimates {estimates}"
    )
}
