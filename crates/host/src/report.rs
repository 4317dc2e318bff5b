//! How the jobs of this host stand: plain data for `libra status`.

use super::entry::{Conclusion, Phase, Stopped};
use super::{Host, HostError};
use libra_core::decision::class::Class;
use libra_core::decision::share::DeadlineStatus;
use libra_system::clock;

/// One job.
#[derive(Debug, Clone)]
pub struct JobReport {
    /// Id.
    pub id: String,
    /// What its user calls it.
    pub name: Option<String>,
    /// What runs.
    pub command: String,
    /// User number of the owner.
    pub user: u32,
    /// How far it has come.
    pub phase: Phase,
    /// How it stands, or how it ended, in a word or two.
    pub state: &'static str,
    /// How it stands against its deadline. None when it has ended.
    pub deadline_status: Option<DeadlineStatus>,
    /// Slots.
    pub slots: u32,
    /// Share per slot now held, in processors.
    pub share: f64,
    /// Share per slot that it needs from now on, in processors.
    pub needed_share: f64,
    /// Seconds of the estimate, per slot; infinite where there is none.
    pub estimate_seconds: f64,
    /// Processor seconds used, per slot.
    pub used_seconds: f64,
    /// When it was submitted, Unix time.
    pub submitted: f64,
    /// When it ended, Unix time.
    pub ended: Option<f64>,
    /// Seconds from submission to deadline; infinite where there is none.
    pub deadline_seconds: f64,
    /// Seconds since submission; of an ended job, when it ended.
    pub elapsed_seconds: f64,
    /// Seconds left until the deadline; negative when it has passed, infinite where there is none.
    pub left_seconds: f64,
    /// Credits.
    pub price: f64,
    /// Its share is held by a cgroup.
    pub enforced: bool,
    /// Its class of service.
    pub class: Class,
    /// It has been suspended: the others leave it nothing.
    pub suspended: bool,
    /// Whoever watched over it is gone; the control loop looks after it.
    pub orphaned: bool,
    /// It was started.
    pub started: bool,
    /// Seconds for which it is still held, if it is a quote; its deadline counts from its submission.
    pub held_seconds: Option<f64>,
    /// How it ended, whenever that was; this and what follows is none while it has not ended.
    pub conclusion: Option<Conclusion>,
    /// It ended by its deadline, however it ended; none if nothing was promised.
    pub in_time: Option<bool>,
    /// Why the control loop ended it, where it did.
    pub reason: Option<Stopped>,
    /// Exit code, where it is known and no signal ended it.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
}

impl JobReport {
    /// How it stands, or how it ended, in a word or two.
    fn state(&self) -> &'static str {
        match self.conclusion {
            Some(conclusion) => conclusion.state(self.in_time),
            None if self.held_seconds.is_some() => "quoted",
            None if self.phase == Phase::Reserved => "starting",
            None => match self.deadline_status {
                Some(DeadlineStatus::AtRisk) => "at risk",
                Some(DeadlineStatus::Overrun) => "overrun",
                Some(DeadlineStatus::Late) => "late",
                _ if self.suspended => "suspended",
                _ if self.orphaned => "orphaned",
                _ if self.class == Class::BestEffort => "running",
                _ => "on track",
            },
        }
    }
}

/// The host.
#[derive(Debug, Clone)]
pub struct HostReport {
    /// Host name.
    pub node: String,
    /// Processors that jobs may share.
    pub processors: f64,
    /// Processors committed.
    pub committed: f64,
    /// Whether shares are enforced.
    pub enforced: bool,
    /// How, or why not, in words.
    pub enforcement: String,
    /// Jobs, in order of submission.
    pub jobs: Vec<JobReport>,
}

impl Host {
    /// How everything stands now. Changes nothing.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn report(&self) -> Result<HostReport, HostError> {
        let now = clock::since_boot();
        let mut committed = 0.0;
        let mut jobs = Vec::new();
        for entry in self.registry.all()? {
            if entry.boot != self.boot || entry.is_expired_quote(now) {
                continue;
            }
            let terms = entry.request.terms;
            let slots = f64::from(entry.slots.max(1));
            let mut job = JobReport {
                id: entry.id.clone(),
                name: entry.name.clone(),
                command: self.registry.command(&entry.id, &entry.command),
                user: entry.user,
                phase: entry.phase,
                state: "",
                deadline_status: None,
                slots: entry.slots,
                share: 0.0,
                needed_share: 0.0,
                estimate_seconds: known(terms.estimate, terms.has_estimate()),
                used_seconds: 0.0,
                submitted: entry.submitted_unix,
                ended: (entry.ending.as_ref())
                    .map(|ending| entry.submitted_unix + ending.at - entry.submitted),
                deadline_seconds: known(terms.deadline, terms.has_deadline()),
                elapsed_seconds: 0.0,
                left_seconds: 0.0,
                price: entry.price,
                enforced: entry.group.is_some(),
                class: entry.class(),
                suspended: false,
                orphaned: false,
                started: entry.started.is_some(),
                held_seconds: (entry.quote.as_ref()).map(|quote| (quote.until - now).max(0.0)),
                conclusion: entry.conclusion(),
                in_time: entry.in_time(),
                reason: entry.stopped.filter(|_| entry.ending.is_some()),
                exit_code: entry.ending.as_ref().and_then(|ending| ending.exit_code),
                signal: entry.ending.as_ref().and_then(|ending| ending.signal),
            };
            let until = match &entry.ending {
                Some(ending) => {
                    job.used_seconds = ending.used / slots;
                    if entry.is_live() {
                        // It could not be ended; admission counts it as well.
                        committed += slots * self.progress(&entry, now).need.share;
                    }
                    ending.at
                }
                None => {
                    let progress = self.progress(&entry, now);
                    let share = progress.need.share;
                    committed += slots * share;
                    // Nothing is promised that one of best effort could be late for.
                    let status = Some(progress.need.deadline_status);
                    job.deadline_status = status.filter(|_| job.class != Class::BestEffort);
                    job.used_seconds = progress.used / slots;
                    job.suspended = progress.suspended || entry.suspended.is_some();
                    job.share = match job.suspended {
                        true => 0.0,
                        false => progress.held_share,
                    };
                    job.needed_share = share;
                    job.orphaned = entry.supervisor.is_some_and(|process| !process.is_alive());
                    match entry.quote {
                        Some(_) => entry.submitted,
                        None => now,
                    }
                }
            };
            job.elapsed_seconds = until - entry.submitted;
            job.left_seconds = known(entry.due() - until, terms.has_deadline());
            job.state = job.state();
            jobs.push(job);
        }
        Ok(HostReport {
            node: self.machine.name.clone(),
            processors: self.machine.spec.processors,
            committed,
            enforced: self.unenforced().is_none(),
            enforcement: self.enforcement(),
            jobs,
        })
    }
}

/// Infinite where there is none.
fn known(seconds: f64, has: bool) -> f64 {
    if has { seconds } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Ending;
    use super::*;

    /// What `libra status` has of a job that is in the registry as this says.
    fn told(change: impl Fn(&mut super::super::entry::Entry)) -> JobReport {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[cgroup]\nversion = \"off\"\n[registry]\ndirectory = \"{}\"",
            directory.path().join("registry").display()
        );
        let config = libra_config::Config::from_toml(&text).expect("our own text");
        let host = Host::open(config).expect("a host");
        let mut entry = super::super::tests::entry(&host, "1");
        entry.phase = Phase::Ended;
        entry.started = Some(entry.submitted);
        entry.ending = Some(Ending {
            at: entry.submitted + 1.0,
            met: true,
            used: 1.0,
            exit_code: Some(0),
            signal: None,
            cancelled: false,
            found: false,
        });
        change(&mut entry);
        let _lock = host.registry.lock().expect("free");
        host.registry.write(&entry).expect("written");
        host.report().expect("a report").jobs.remove(0)
    }

    #[test]
    fn how_and_when_it_ended_are_two_facts() {
        let late = |entry: &mut super::super::entry::Entry| {
            let due = entry.due();
            entry.ending.as_mut().expect("ended").at = due + 1.0;
        };
        let exit = |entry: &mut super::super::entry::Entry, code, signal| {
            let ending = entry.ending.as_mut().expect("ended");
            (ending.exit_code, ending.signal) = (code, signal);
        };
        let cases: [(&str, Conclusion, bool, JobReport); 9] = [
            ("met", Conclusion::Finished, true, told(|_| {})),
            ("missed", Conclusion::Finished, false, told(late)),
            // As older versions wrote them: 'met' by their time alone.
            (
                "failed",
                Conclusion::Failed,
                true,
                told(|e| exit(e, Some(127), None)),
            ),
            (
                "failed",
                Conclusion::Failed,
                true,
                told(|e| exit(e, None, Some(9))),
            ),
            (
                "failed",
                Conclusion::Failed,
                false,
                told(|e| {
                    exit(e, Some(3), None);
                    late(e);
                }),
            ),
            (
                "ended",
                Conclusion::Unknown,
                true,
                told(|e| exit(e, None, None)),
            ),
            (
                "missed",
                Conclusion::Unknown,
                false,
                told(|e| {
                    exit(e, None, None);
                    late(e);
                }),
            ),
            (
                "cancelled",
                Conclusion::Cancelled,
                true,
                told(|e| {
                    e.ending.as_mut().expect("ended").cancelled = true;
                }),
            ),
            (
                "stopped",
                Conclusion::Stopped,
                false,
                told(|e| {
                    e.stopped = Some(Stopped::Overrun);
                    exit(e, None, Some(15));
                    late(e);
                }),
            ),
        ];
        for (state, conclusion, in_time, job) in cases {
            assert_eq!(
                (job.state, job.conclusion, job.in_time),
                (state, Some(conclusion), Some(in_time)),
                "{job:?}"
            );
        }
    }
}
