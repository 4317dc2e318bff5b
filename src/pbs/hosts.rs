//! The execution hosts' side: a job begins, its processes come, it ends.
//!
//! Each event is a process of its own that opens the host anew: what there is to know is in the registry
//! and in the kernel's cgroups.
//!
//! Invariant: a job that PBS runs here is in the registry from before its first process to its end; one
//! that PBS does not have any more is ended at the next `exechost_periodic`.

use super::records::progress_line;
use super::server::{accept, accept_and_log, refuse};
use super::{BadEvent, exec_vnode, list, need, number, text};
use crate::cgroup::VersionChoice;
use crate::host::batch::BatchJob;
use crate::host::{Host, HostError, clock};
use crate::sold::Sold;
use serde_json::{Map, Value, json};

/// A job younger than this is not taken for a leftover, in seconds: PBS may just be starting it.
const YOUNG: f64 = 30.0;

/// Answers one event of an execution hook.
///
/// # Errors
/// When the event cannot be understood. What goes wrong on the host is in the answer: `"verdict": "fault"`.
pub fn answer(host: &Host, event: &Value) -> Result<Value, BadEvent> {
    let now = number(event, "now")?;
    let kind = need(event, "event")?;
    let job = &event["job"];
    if kind == "exechost_periodic" {
        return Ok(look_after(host, event, now));
    }
    let id = need(job, "id")?;
    let Some(line) = text(job, "sold") else {
        return Ok(accept());
    };
    let done = match kind {
        "execjob_begin" => begin(host, job, id, line, need(event, "host")?, now),
        "execjob_launch" | "execjob_attach" => attach(host, id, job),
        "execjob_epilogue" | "execjob_end" | "execjob_abort" => {
            end(host, id, text(event, "host").unwrap_or_default(), now)
        }
        other => return Err(BadEvent(format!("there is no event '{other}'"))),
    };
    Ok(done.unwrap_or_else(|error| fault(id, &error)))
}

/// An answer for what went wrong: the site's rule says whether the job goes on without a cap.
fn fault(id: &str, error: &HostError) -> Value {
    json!({"verdict": "fault", "text": format!("job {id}: {error}")})
}

fn begin(
    host: &Host,
    job: &Value,
    id: &str,
    line: &str,
    name: &str,
    now: f64,
) -> Result<Value, HostError> {
    let sold = match Sold::parse(line) {
        Ok(sold) => sold,
        Err(error) => return Ok(refuse(format!("libra: job {id}: {error}"))),
    };
    let shape = &sold.request.shape;
    let places = exec_vnode::parse(text(job, "exec_vnode").unwrap_or_default());
    let total: u32 = places.iter().map(|(_, chunks)| chunks).sum();
    let here: Vec<&(String, u32)> = (places.iter())
        .filter(|(vnode, _)| exec_vnode::is_on_host(vnode, name))
        .collect();
    if here.is_empty() {
        return Ok(json!({"verdict": "fault", "text": format!(
            "job {id} has no chunk on {name}: it runs on {}",
            text(job, "exec_vnode").unwrap_or("no node")
        )}));
    }
    // A chunk of PBS's is a part of a judged one where the job is packed.
    let slots = here
        .iter()
        .map(|(_, chunks)| u64::from(*chunks))
        .sum::<u64>()
        * shape.slots()
        / u64::from(total.max(1));
    let share = here
        .iter()
        .fold(0.0f64, |most, (vnode, _)| most.max(sold.share_on(vnode)));
    let batch = BatchJob {
        id: id.to_string(),
        request: sold.request,
        slots: u32::try_from(slots.max(1)).unwrap_or(u32::MAX),
        share,
        price: sold.price,
        elapsed: (now - sold.submitted).clamp(0.0, 1e10),
        user: number(job, "user").map_or(0, |user| user as u32),
    };
    let unenforced = match host.begin(&batch) {
        // It began here before and PBS starts it anew, without an end in between.
        Err(HostError::Id { .. }) if host.usage(id).is_ok() => {
            host.end(id)?;
            host.begin(&batch)?
        }
        other => other?,
    };
    Ok(match unenforced {
        None => accept(),
        Some(reason) if host.config().cgroup.version == VersionChoice::Off => {
            accept_and_log(format!("job {id} runs without a cap: {reason}"))
        }
        // The site wants a cap: its rule for faults says whether the job begins without one.
        Some(reason) => {
            json!({"verdict": "fault", "text": format!("job {id} has no cap: {reason}")})
        }
    })
}

fn attach(host: &Host, id: &str, job: &Value) -> Result<Value, HostError> {
    let pid = job["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let Some(pid) = pid.filter(|pid| *pid > 1) else {
        return Ok(json!({"verdict": "fault", "text": format!("job {id}: no process was named")}));
    };
    host.attach(id, pid)?;
    Ok(accept())
}

fn end(host: &Host, id: &str, name: &str, now: f64) -> Result<Value, HostError> {
    match host.end(id) {
        // Epilogue, end and abort come in different company; the first of them ends it.
        Err(HostError::UnknownJob(_)) => Ok(accept()),
        Err(error) => Err(error),
        Ok(entry) => {
            let used = entry.ending.as_ref().map_or(0.0, |ending| ending.used);
            let each = used / f64::from(entry.slots.max(1));
            Ok(json!({
                "verdict": "accept",
                "progress": progress_line(name, each, now),
                "log": [format!("job {id} used {used:.1} processor seconds here")],
            }))
        }
    }
}

/// Shares taken anew where no agent does it, leftovers ended, and how far each job is, for the server.
fn look_after(host: &Host, event: &Value, now: f64) -> Value {
    let mut log = Vec::new();
    let name = text(event, "host").unwrap_or_default();
    let here: Vec<&str> = list(event, "jobs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let known = host.registry().all().unwrap_or_default();
    for entry in known.iter().filter(|entry| entry.is_live()) {
        // Only what a batch system began, and nothing that it may just be starting.
        let Some(begun) = entry.begun else { continue };
        let young = clock::since_boot() - begun < YOUNG;
        if !young && !here.contains(&entry.id.as_str()) {
            match host.end(&entry.id) {
                Ok(_) => log.push(format!("job {} was left over, ended", entry.id)),
                Err(error) => log.push(format!("job {} is left over: {error}", entry.id)),
            }
        }
    }
    if let Err(error) = host.adjust() {
        log.push(format!("shares were not taken anew: {error}"));
    }
    let mut progress = Map::new();
    for id in here {
        if let Ok(usage) = host.usage(id) {
            progress.insert(id.to_string(), progress_line(name, usage.cput, now).into());
        }
    }
    json!({"verdict": "accept", "log": log, "progress": progress})
}
