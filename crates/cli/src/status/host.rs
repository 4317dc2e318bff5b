//! The jobs of this host, as `libra status` shows them.

use libra_accounts::names::user_name;
use libra_administration::status::schema::{Job, Node, Status, deadline_status, rank};
use libra_administration::status::sort::Sort;
use libra_config::System;
use libra_host::entry::{Conclusion, Phase, Stopped};
use libra_host::report::{HostReport, JobReport};
use std::collections::BTreeMap;

/// Sorts them; those that have ended come last, the latest first.
pub fn sort(jobs: &mut [JobReport], by: Sort) {
    let state = |job: &JobReport| rank(&state(job));
    jobs.sort_by(|a, b| {
        let ended = |job: &JobReport| job.phase == Phase::Ended;
        let order = match (ended(a), ended(b)) {
            (true, true) => b.ended.unwrap_or(0.0).total_cmp(&a.ended.unwrap_or(0.0)),
            _ => ended(a).cmp(&ended(b)),
        };
        order.then_with(|| match by {
            Sort::Usual => std::cmp::Ordering::Equal,
            Sort::Deadline => a.left_seconds.total_cmp(&b.left_seconds),
            Sort::State => state(a).cmp(&state(b)),
            Sort::Share => b.share.total_cmp(&a.share),
        })
    });
}

/// A state as JSON has it.
pub fn state(job: &JobReport) -> String {
    job.state.replace(' ', "_")
}

/// Adds the host to what is shown as JSON. `now`: Unix time.
pub fn add_to(report: HostReport, now: f64, status: &mut Status) {
    status.processors = Some(report.processors);
    status.committed = Some(report.committed);
    let live = (report.jobs.iter()).filter(|job| job.phase != Phase::Ended);
    status.nodes.push(Node {
        system: System::Local.name(),
        node: report.node.clone(),
        state: "up".to_string(),
        processors: report.processors,
        committed: report.committed,
        jobs: live.count(),
        enforced: Some(report.enforced),
        enforcement: Some(report.enforcement),
    });
    let mut users: BTreeMap<u32, Option<String>> = BTreeMap::new();
    for job in report.jobs {
        let user = (users.entry(job.user)).or_insert_with(|| user_name(job.user));
        let user = user.clone().unwrap_or_else(|| job.user.to_string());
        status.jobs.push(shown(job, &report.node, user, now));
    }
}

fn shown(job: JobReport, node: &str, user: String, now: f64) -> Job {
    let live = job.conclusion.is_none();
    Job {
        system: System::Local.name(),
        class: Some(job.class.word()),
        suspended: live.then_some(job.suspended),
        state: state(&job),
        id: job.id,
        name: job.name,
        command: Some(job.command),
        user: Some(user),
        uid: Some(job.user),
        nodes: vec![node.to_string()],
        phase: match job.phase {
            Phase::Reserved => "reserved",
            Phase::Running => "running",
            Phase::Ending => "ending",
            Phase::Ended => "ended",
        },
        deadline_status: job.deadline_status.map(deadline_status),
        slots: Some(job.slots),
        share: job.share,
        needed_share: live.then_some(job.needed_share),
        price: job.price,
        submitted: job.submitted,
        deadline: job.submitted + job.deadline_seconds,
        ended: job.ended,
        held_until: job.held_seconds.map(|left| now + left),
        starts_by: None,
        goes_on_by: None,
        estimate_seconds: job.estimate_seconds,
        used_seconds: job.used_seconds,
        deadline_seconds: job.deadline_seconds,
        elapsed_seconds: job.elapsed_seconds,
        left_seconds: job.left_seconds,
        slack_seconds: live
            .then(|| job.left_seconds - (job.estimate_seconds - job.used_seconds).max(0.0)),
        conclusion: job.conclusion.map(conclusion),
        in_time: job.in_time,
        reason: job.reason.map(|Stopped::Overrun| "overrun"),
        exit_code: job.exit_code,
        signal: job.signal,
        enforced: Some(job.enforced),
        orphaned: Some(job.orphaned),
        started: Some(job.started),
    }
}

fn conclusion(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Finished => "finished",
        Conclusion::Failed => "failed",
        Conclusion::Cancelled => "cancelled",
        Conclusion::Stopped => "stopped",
        Conclusion::Unknown => "unknown",
    }
}
