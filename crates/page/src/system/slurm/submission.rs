//! A submission as sbatch's options.

use super::super::command::Call;
use super::super::submission::Submission;
use super::super::{Problem, check_directory};
use libra_units::memory;

/// `sbatch` with what was asked for.
///
/// # Errors
/// The directory is none.
pub fn sbatch(wanted: &Submission) -> Result<Call, Problem> {
    let directory = check_directory(&wanted.directory)?;
    let one_task = if wanted.processors.is_empty() {
        ""
    } else {
        "1"
    };
    // Slurm's M are mebibytes, and what it has looked at is a number of them.
    let memory = memory::parse(&wanted.memory).map_or_else(
        |_| String::new(),
        |bytes| format!("{}M", bytes.div_ceil(1 << 20)),
    );
    let export = match wanted.environment.as_str() {
        "" => String::new(),
        // Besides what sbatch takes along anyway.
        variables => format!("ALL,{variables}"),
    };
    let mail = if wanted.mail.is_empty() {
        ""
    } else {
        "END,FAIL"
    };
    let more = [
        // On one node, as `libra quote` asks for them.
        ("ntasks", one_task),
        ("cpus-per-task", wanted.processors.as_str()),
        ("partition", &wanted.queue),
        ("job-name", &wanted.name),
        ("chdir", &wanted.directory),
        ("account", &wanted.project),
        ("mem", &memory),
        ("gpus-per-node", &wanted.gpus),
        ("array", &wanted.array),
        ("export", &export),
        ("mail-user", &wanted.mail),
        ("mail-type", mail),
    ];
    // Slurm has a deadline of its own, and might have classes one day.
    let name = |term| match term {
        "deadline" => "sla-deadline",
        "class" => "sla-class",
        term => term,
    };
    Ok(Call::new("sbatch")
        .arg("--parsable")
        .args(wanted.options(name, &more))
        .directory(directory)
        .input(&wanted.script))
}
