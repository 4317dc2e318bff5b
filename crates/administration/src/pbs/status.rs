//! `libra pbs status`: what is committed on which node, and how every job with terms stands.
//!
//! PBS's own records, read as the hooks read them after a restart ([`libra_pbs::records`]): what is shown is
//! what the next admission would count with.

use super::PbsError;
use super::found::shown;
use super::server::Pbs;
use crate::status::Report;
use crate::{Common, Failure};
use libra_config::{System, site};
use libra_core::book::Book;
use libra_core::commitment::Commitment;
use libra_pbs::server::Server;
use libra_system::clock::{self, local_time};
use serde_json::{Map, Value, json};

/// As PBS's own records have it.
pub fn report(args: &Common) -> Result<Report, Failure> {
    let pbs = Pbs::find()?;
    let (jobs, nodes) = (pbs.jobs_with_terms()?, pbs.nodes()?);
    let mut event = json!({"event": "records", "now": clock::unix_time()});
    event["nodes"] = nodes
        .iter()
        .map(|(name, node)| node_record(name, node))
        .collect();
    event["jobs"] = jobs.iter().map(|(id, job)| job_record(id, job)).collect();
    let mut server = Server::new(&site::load(args.config.as_deref())?);
    let read = server.answer(&event).map_err(|error| PbsError::Command {
        command: "qstat -f -t -F json".to_string(),
        answer: error.to_string(),
    })?;
    let problems = (read["not_taken"].as_array().into_iter().flatten())
        .filter_map(|line| Some(line.as_str()?.to_string()))
        .collect();
    Ok(of_book(server.book(), &nodes, &jobs, problems))
}

/// A node as the hooks show it.
fn node_record(name: &str, node: &Value) -> Value {
    let available = &node["resources_available"];
    let text = |key: &str| available.get(key).map(shown);
    let state = node["state"].as_str().unwrap_or_default();
    json!({
        "name": name,
        "share": text("libra_share"),
        "rating": text("libra_rating"),
        "mem": text("mem"),
        "up": state.split(',').all(|word| word == "free"),
    })
}

/// A job as the hooks show it.
fn job_record(id: &str, job: &Value) -> Value {
    let text = |value: &Value| (!value.is_null()).then(|| shown(value));
    json!({
        "id": id,
        "state": job["job_state"],
        "commitment": text(&job["Resource_List"]["libra_terms"]).filter(|line| line != "-"),
        "exec_vnode": job["exec_vnode"],
        "array": text(&job["array_indices_submitted"]),
        "remaining": text(&job["array_indices_remaining"]),
        "substate": job["substate"].as_str().and_then(|number| number.parse::<f64>().ok()).or(job["substate"].as_f64()),
        "start": job["Execution_Time"].as_str().and_then(local_time),
        "held": (job["Hold_Types"].as_str()).filter(|kinds| *kinds != "n"),
        "progress": text(&job["resources_used"]["libra_progress"]),
    })
}

const NOTHING: &str =
    "no node of this PBS server shares its processors; 'libra pbs install' declares them";

fn of_book(
    book: &Book,
    nodes: &Map<String, Value>,
    jobs: &Map<String, Value>,
    problems: Vec<String>,
) -> Report {
    let state = |name: &str| {
        let state = nodes.get(name).and_then(|node| node["state"].as_str());
        state.unwrap_or("gone").to_string()
    };
    let owner = |id: &str| {
        let parent = id.split('[').next().unwrap_or_default();
        let job = jobs.get(id).or_else(|| {
            let of_parent = |known: &&String| known.split('[').next() == Some(parent);
            jobs.keys()
                .find(of_parent)
                .and_then(|known| jobs.get(known))
        })?;
        let owner = job["Job_Owner"].as_str()?.split('@').next()?;
        Some(owner.to_string())
    };
    let mut report = Report::of(System::Pbs, book, &state, &owner, problems, NOTHING);
    for (id, job) in jobs {
        let line = job["Resource_List"]["libra_terms"].as_str();
        let commitment = line.and_then(|line| Commitment::parse(line.trim_matches('\'')).ok());
        let waits = matches!(job["job_state"].as_str(), Some("Q" | "H" | "W"));
        // Of an array that waits there is one record.
        let is_subjob = id.contains('[') && !id.contains("[]");
        match commitment {
            Some(commitment) if commitment.deferred && waits && !is_subjob => {
                report.add_deferred(System::Pbs, id, &commitment, owner(id));
            }
            _ => {}
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::paint::Paint;
    use crate::status::room::Room;
    use crate::status::schema::Status;

    #[test]
    fn what_pbs_says_becomes_two_tables() {
        let line = "v=1:token=1:submitted=1000:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
                    chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*0.5";
        let nodes = json!({
            "n1": {"state": "free", "resources_available": {"libra_share": 2, "mem": "8gb", "libra_node": "True"}},
            "n2": {"state": "down,offline", "resources_available": {"libra_share": "1.5"}},
            "n3": {"state": "free", "resources_available": {"ncpus": 2}},
        });
        let jobs = json!({"7.s": {
            "Job_Owner": "ann@x", "job_state": "R", "exec_vnode": "(n1:libra_share=0.5)",
            "Resource_List": {"libra_terms": line},
            "resources_used": {"libra_progress": "'{\"n1\": \"4@1010\"}'"},
        }});
        let deferred = line.replace(":at=", ":deferred=1:at=");
        let mut jobs = jobs;
        jobs["8.s"] = json!({"Job_Owner": "bob@x", "job_state": "H", "Hold_Types": "s", "Resource_List": {"libra_terms": deferred}});
        let (nodes, jobs) = (
            nodes.as_object().expect("nodes"),
            jobs.as_object().expect("jobs"),
        );
        let mut event = json!({"event": "records", "now": 1010.0});
        event["nodes"] = nodes
            .iter()
            .map(|(name, node)| node_record(name, node))
            .collect();
        event["jobs"] = jobs.iter().map(|(id, job)| job_record(id, job)).collect();
        let config = libra_config::Config::from_toml("[admission]\nestimate-margin = '0%'")
            .expect("a configuration");
        let mut server = Server::new(&config);
        server.answer(&event).expect("an answer");
        let report = of_book(server.book(), nodes, jobs, Vec::new());
        // 6 of 10 s are left to do in 10 s: 60 %, and 4 s of slack.
        assert_eq!(
            report.text(&Room::unlimited(Paint::Plain)),
            "NODE  STATE         COMMITTED                                JOBS\n\
             n1    free          0.6 of 2   [######--------------]  30 %  1\n\
             n2    down,offline  0 of 1.5   [--------------------]   0 %  0\n\
             \n\
             JOB  USER  NODE  SHARE  USED         LEFT  SLACK  STATE\n\
             8.s  bob   -     0 %    0 s of 10 s  10 s  0 s    deferred\n\
             7.s  ann   n1    60 %   4 s of 10 s  10 s  4 s    on track\n"
        );
        let mut status = Status::default();
        report.add_to(&mut status);
        let job = &status.jobs[1];
        assert_eq!(
            (job.system, job.state.as_str(), job.slack_seconds),
            ("pbs", "on_track", Some(4.0))
        );
        assert_eq!(
            (job.submitted, job.deadline, job.price),
            (1000.0, 1020.0, 10.5)
        );
    }
}
