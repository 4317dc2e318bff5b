//! The execution hosts' side: a job begins, its processes come, it ends.
//!
//! Each event is a process of its own that opens the host anew: what there is to know is in the registry
//! and in the kernel's cgroups.
//!
//! What is committed comes from PBS's own record of the job: mom has it from pbs_server, and its resource can be written by managers and
//! operators alone. All the same no line takes from others what they were promised ([`Host::begin`]), and one that no Libra has
//! written is no promise.
//!
//! Invariants: a job that PBS runs here with a promise is in the registry from before its first process to its end, and any other job has
//! a group of its own for as long; one that PBS does not have any more is ended at the next `exechost_periodic`.

use super::records::{end_line, progress_line};
use super::server::{accept, accept_and_log, refuse};
use super::{BadEvent, exec_vnode, list, need, number, text};
use libra_core::commitment::Commitment;
use libra_host::entry::Exit;
use libra_host::session::{Begun, Starting};
use libra_host::{Host, HostError};
use libra_metrics::Rejection;
use libra_system::clock::since_boot;
use libra_wording::errors;
use serde_json::{Map, Value, json};

/// A job that was younger than this when PBS listed its jobs is not taken for a leftover, in seconds: PBS may just have been starting it.
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
        return Ok(readjust(host, event, now));
    }
    let id = need(job, "id")?;
    let done = match kind {
        "execjob_begin" => {
            let name = need(event, "host")?;
            match text(job, "commitment") {
                Some(line) => begin(host, job, id, line, name, now),
                None => begin_without_terms(host, job, id, name, accept()),
            }
        }
        "execjob_launch" | "execjob_attach" => attach(host, id, job, kind == "execjob_attach"),
        "execjob_epilogue" | "execjob_end" | "execjob_abort" => {
            end(host, id, job, text(event, "host").unwrap_or_default(), now)
        }
        "execjob_postsuspend" => suspend(host, id),
        "execjob_preresume" => resume(host, id),
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
    let commitment = match Commitment::parse(line) {
        Ok(commitment) => commitment,
        // Written by a Libra that this host does not understand: as good as a promise, and not to be kept here.
        Err(error) if Commitment::is_of_another_version(line) => {
            let problem = errors::not_committed(&error);
            return Ok(refuse(format!("libra: job {id}: {problem}")));
        }
        Err(error) => {
            host.reject_claim(Rejection::Unrecorded)?;
            let problem = errors::not_committed(&error);
            let answer = accept_and_log(format!(
                "job {id} claims what is not committed to it: {problem}; it gets what a job without terms gets"
            ));
            return begin_without_terms(host, job, id, name, answer);
        }
    };
    let shape = &commitment.request.shape;
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
        .saturating_mul(shape.slots())
        / u64::from(total.max(1));
    let share = here.iter().fold(0.0f64, |most, (vnode, _)| {
        most.max(commitment.share_on(vnode))
    });
    let starting = Starting {
        id,
        commitment: &commitment,
        slots,
        share,
        user: number(job, "user").map_or(0, |user| user as u32),
    };
    let begun = match host.begin_committed(&starting, now)? {
        Begun::Held => accept(),
        Begun::NoRoom(reason) => begin_without_terms(host, job, id, name, accept_and_log(reason))?,
        Begun::Uncapped(reason) => accept_and_log(format!("job {id} runs without a cap: {reason}")),
        // The site's rule for faults says whether the job begins without one.
        Begun::Unenforced(reason) => {
            json!({"verdict": "fault", "text": format!("job {id} has no cap: {reason}")})
        }
    };
    Ok(with_processors(begun, shape.slots()))
}

/// With the processors that the job asked for, on all its hosts. PBS itself has written down none: those that are shared are no `ncpus`.
fn with_processors(mut answer: Value, processors: u64) -> Value {
    answer["used"] = json!({"ncpus": processors});
    answer
}

/// A job that was promised nothing, or claims what nobody has promised it.
fn begin_without_terms(
    host: &Host,
    job: &Value,
    id: &str,
    name: &str,
    answer: Value,
) -> Result<Value, HostError> {
    let exec_vnode = text(job, "exec_vnode").unwrap_or_default();
    let here = exec_vnode::processors(exec_vnode, Some(name));
    host.begin_without_terms(id, here.max(1) as f64)?;
    let in_all = exec_vnode::processors(exec_vnode, None);
    Ok(with_processors(answer, in_all))
}

/// `tree`: it runs already, and may have started others.
fn attach(host: &Host, id: &str, job: &Value, tree: bool) -> Result<Value, HostError> {
    let pid = job["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let Some(pid) = pid.filter(|pid| *pid > 1) else {
        return Ok(json!({"verdict": "fault", "text": format!("job {id}: no process was named")}));
    };
    match host.attach(id, pid, tree) {
        Err(HostError::UnknownJob(_)) => host.attach_without_terms(id, pid, tree)?,
        other => drop(other?),
    }
    Ok(accept())
}

/// PBS has stopped the sessions of the job's tasks here. What has a session of its own, as the processes of an MPI job have, would run on. Its processors are
/// others' meanwhile.
fn suspend(host: &Host, id: &str) -> Result<Value, HostError> {
    let left = host.suspend_all(id)?;
    host.note_suspended(id, true)?;
    Ok(match left {
        Some(left) if !left.is_empty() => accept_and_log(format!(
            "job {id} is suspended, and {} of its processes run until they come back from the kernel",
            left.len()
        )),
        _ => accept(),
    })
}

/// PBS is about to let the job go on.
fn resume(host: &Host, id: &str) -> Result<Value, HostError> {
    host.note_suspended(id, false)?;
    if let Err(error) = host.resume_all(id) {
        host.note_suspended(id, true)?;
        return Err(error);
    }
    Ok(accept())
}

/// PBS's exit status: that of the job's script (128 and the signal that ended its shell), 256 and the signal by which PBS ended it, or less
/// than 0 where PBS itself failed.
fn exit(status: i64) -> Exit {
    match status {
        257..=511 => Exit {
            signal: i32::try_from(status - 256).ok(),
            code: None,
        },
        _ => Exit {
            code: i32::try_from(status).ok(),
            signal: None,
        },
    }
}

fn end(host: &Host, id: &str, job: &Value, name: &str, now: f64) -> Result<Value, HostError> {
    match host.end_as(id, job["exit"].as_i64().map(exit)) {
        // Epilogue, end and abort come in different company; the first of them ends it.
        Err(HostError::UnknownJob(_)) => Ok(match host.end_without_terms(id)? {
            Some(used) => accept_and_log(used_here(id, used)),
            None => accept(),
        }),
        Err(error) => Err(error),
        Ok(entry) => {
            let used = entry.ending.as_ref().map_or(0.0, |ending| ending.used);
            let each = used / f64::from(entry.slots.max(1));
            let ended = entry.ending.as_ref().map(|ending| ending.at);
            let ran = (ended.zip(entry.started)).map(|(at, started)| (at - started).max(0.0));
            Ok(json!({
                "verdict": "accept",
                "progress": end_line(name, each, now, ran),
                "log": [used_here(id, used)],
            }))
        }
    }
}

fn used_here(id: &str, used: f64) -> String {
    format!("job {id} used {used:.1} processor seconds here")
}

/// Shares taken anew where no agent does it, leftovers ended, and how far each job is, for the server.
fn readjust(host: &Host, event: &Value, now: f64) -> Value {
    let mut log = Vec::new();
    let name = text(event, "host").unwrap_or_default();
    let here: Vec<&str> = list(event, "jobs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    // On a busy host the list may be old when it comes here, and what began since is not on it.
    let listed = number(event, "listed").unwrap_or_else(|_| since_boot());
    let is_left_over =
        |id: &str, age: f64| age - (since_boot() - listed) >= YOUNG && !here.contains(&id);
    let left_over = host.end_left_over(&mut |entry, age| is_left_over(&entry.id, age));
    match left_over {
        Ok(lines) => log.extend(
            lines
                .into_iter()
                .map(|line| line.unwrap_or_else(|line| line)),
        ),
        Err(error) => log.push(format!("leftovers were not looked for: {error}")),
    }
    log.extend(host.end_left_over_without_terms(&is_left_over));
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

#[cfg(test)]
mod tests {
    use super::*;
    use libra_config::Config;

    const LINE: &str = "v=1:token=17:submitted=1000:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
                        chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*0.525";

    fn begins(host: &Host, id: &str, line: &str) -> Value {
        let job = json!({"id": id, "commitment": line, "exec_vnode": "(n1:ncpus=1)", "user": 1000});
        let event = json!({"event": "execjob_begin", "now": 1000.0, "host": "n1", "job": job});
        answer(host, &event).expect("an event")
    }

    #[test]
    fn how_a_job_ended_is_known() {
        use libra_host::entry::Conclusion;
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[registry]\ndirectory = '{}'\n[cgroup]\nversion = 'off'\n",
            directory.path().join("registry").display()
        );
        let host = Host::open(Config::from_toml(&text).expect("our own")).expect("a registry");
        for (number, (exit, concluded)) in [
            (json!(0), Conclusion::Finished),
            (json!(3), Conclusion::Failed),
            (json!(265), Conclusion::Failed),
            (json!(-29), Conclusion::Failed),
            (json!(null), Conclusion::Unknown),
        ]
        .into_iter()
        .enumerate()
        {
            let id = format!("{number}.s");
            begins(&host, &id, LINE);
            let job = json!({"id": id, "commitment": LINE, "exit": exit});
            let event =
                json!({"event": "execjob_epilogue", "now": 1001.0, "host": "n1", "job": job});
            answer(&host, &event).expect("an event");
            let entry = host.registry().read(&id).expect("read").expect("there");
            assert_eq!(entry.conclusion(), Some(concluded), "{exit}");
        }
    }

    #[test]
    fn a_host_keeps_to_the_margin_that_was_promised() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[admission]\nestimate-margin = '7%'\n[registry]\ndirectory = '{}'\n[cgroup]\nversion = 'off'\n",
            directory.path().join("registry").display()
        );
        let host = Host::open(Config::from_toml(&text).expect("our own")).expect("a registry");
        for (id, line, margin) in [
            ("1.s", LINE.replace(":at=", ":margin=0.25:at="), 0.25),
            // Of a Libra that did not write it.
            ("2.s", LINE.to_string(), 0.07),
        ] {
            begins(&host, id, &line);
            let entry = host.registry().read(id).expect("read").expect("there");
            assert_eq!(entry.estimate_margin, margin, "{id}");
        }
    }

    #[test]
    fn what_began_after_the_list_was_made_is_no_leftover() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[registry]\ndirectory = '{}'\n[cgroup]\nversion = 'off'\n",
            directory.path().join("registry").display()
        );
        let host = Host::open(Config::from_toml(&text).expect("our own")).expect("a registry");
        let before = since_boot();
        begins(&host, "1.s", LINE);
        let lives = || {
            let entry = host.registry().read("1.s").expect("read").expect("there");
            entry.is_live()
        };
        // Nobody waits here: the hook's process is shown an age that it has not.
        for (listed, ended) in [
            (before, false),
            (before + YOUNG - 1.0, false),
            (before + YOUNG + 60.0, true),
        ] {
            let event = json!({"event": "exechost_periodic", "now": 1000.0, "host": "n1", "jobs": [], "listed": listed});
            answer(&host, &event).expect("an event");
            assert_eq!(!lives(), ended, "{listed}");
        }
    }

    #[test]
    fn no_line_takes_from_others_or_ends_a_job() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[node]\nprocessors = 1\n[registry]\ndirectory = '{}'\n[cgroup]\nversion = 'off'\n",
            directory.path().join("registry").display()
        );
        let host = Host::open(Config::from_toml(&text).expect("our own")).expect("a registry");
        let share = |id: &str| {
            let entry = host.registry().read(id).expect("read");
            entry.map(|entry| entry.share * f64::from(entry.slots))
        };
        assert_eq!(begins(&host, "1.s", LINE)["verdict"], "accept");
        assert_eq!(share("1.s"), Some(0.525));
        for (id, line) in [
            ("2.s", "forged".to_string()),
            ("3.s", LINE.replace("price=10.5", "price=nan")),
            ("4.s", LINE.replace("processors=1", "processors=65536")),
        ] {
            let said = begins(&host, id, &line);
            assert_eq!(said["verdict"], "accept", "{said}");
            let log = said["log"][0].as_str().expect("a line for the log");
            assert!(log.contains("what a job without terms gets"), "{log}");
            assert_eq!(share(id), None);
        }
        begins(&host, "5.s", &LINE.replace("*0.525", "*1"));
        let left = share("5.s").expect("begun");
        assert!((left - 0.475).abs() < 1e-6, "{left}");
        assert_eq!(share("1.s"), Some(0.525));
        let counted = host.counts().expect("read").expect("counted").totals;
        let rejected = Rejection::ALL.map(|rejection| counted.rejected(rejection));
        assert_eq!(rejected, [2, 2]);
        // What a newer Libra has committed is not given away unseen.
        let newer = begins(&host, "6.s", "v=2:token=1");
        assert_eq!(newer["verdict"], "refuse");
    }
}
