//! One job of this host, as its file in the registry holds it.

use libra_cgroup::GroupRecord;
use libra_core::decision::class::Class;
use libra_core::decision::job::{Request, Terms};
use libra_units::in_one_line;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The only version so far.
pub const VERSION: u32 = 1;

/// What the name of a job's group begins with.
pub(super) const GROUP_PREFIX: &str = "job-";

/// The name of a job's cgroup.
pub(super) fn group_name(id: &str) -> String {
    format!("{GROUP_PREFIX}{id}")
}

/// How a job's first process ended, where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Exit {
    /// Exit code, where no signal ended it.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// From what wait(2) says.
    pub fn of_wait(status: i32) -> Exit {
        let status = ExitStatus::from_raw(status);
        Exit {
            code: status.code(),
            signal: status.signal(),
        }
    }

    /// Returns true if it ended by a signal or with an exit code other than 0.
    pub fn has_failed(&self) -> bool {
        self.signal.is_some() || self.code.is_some_and(|code| code != 0)
    }
}

/// What makes an entry a quote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EntryQuote {
    /// By which a job comes with it.
    pub number: String,
    /// Until when, seconds since boot.
    pub until: f64,
}

/// A process that cannot be mistaken for a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Process {
    /// Process number.
    pub pid: i32,
    /// Clock ticks after boot at which it started.
    pub start: u64,
}

impl Process {
    /// The process of this number, if there is one now and it can be looked at.
    pub fn find(pid: i32) -> Option<Process> {
        Process::read(pid).ok().flatten()
    }

    /// None: there is no such process. An error: it could not be found out.
    fn read(pid: i32) -> std::io::Result<Option<Process>> {
        let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
            // It ends while it is read: ESRCH.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(libc::ESRCH) =>
            {
                // It may be there and not to be seen: `/proc` with `hidepid`, and no right to trace others.
                return match kill(Pid::from_raw(pid), None) {
                    Err(Errno::ESRCH) => Ok(None),
                    // No number of a process: the kernel takes these for groups.
                    _ if pid <= 0 => Ok(None),
                    _ => Err(error),
                };
            }
            other => other?,
        };
        let parse = || {
            // The name, in parentheses, may hold anything, also parentheses.
            let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
            let state = fields.next()?;
            if state == "Z" || state == "X" {
                return None;
            }
            let start = fields.nth(18)?.parse().ok()?;
            Some(Process { pid, start })
        };
        Ok(parse())
    }

    /// Returns true if it has been stopped (SIGSTOP, Ctrl-Z).
    pub fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = stat
            .rfind(')')
            .and_then(|end| stat[end + 1..].trim_start().chars().next());
        matches!(state, Some('T' | 't'))
    }

    /// Returns true if others' processes are kept from this one's eyes.
    pub fn are_hidden() -> bool {
        Process::read(1).is_err()
    }

    /// This process.
    pub fn this() -> Option<Process> {
        Process::find(std::process::id() as i32)
    }

    /// Returns true if it still runs. Where that cannot be found out (too many open files, `/proc` that hides it), it is taken to: a
    /// job that runs must not be ended for our own troubles.
    pub fn is_alive(&self) -> bool {
        Process::read(self.pid).map_or(true, |found| found == Some(*self))
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Accepted, its share reserved; it is about to start.
    Reserved,
    /// It runs.
    Running,
    /// It has ended, and processes of it are still there that even SIGKILL does not end (frozen, or
    /// in an uninterruptible wait). Its share stays reserved until they are gone.
    Ending,
    /// It has ended; kept for a while for `libra status`.
    Ended,
}

/// How a job ended, whenever that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// By itself, with exit code 0.
    Finished,
    /// By itself with another exit code, by a signal, or it could not be executed.
    Failed,
    /// Somebody asked for its end.
    Cancelled,
    /// The control loop asked for its end, see [`Stopped`].
    Stopped,
    /// Nobody saw how: whoever watched over it was killed, or that is for its batch system to know.
    Unknown,
}

impl Conclusion {
    /// How a job has ended, in a word. `in_time`: by its deadline; None if none was promised.
    pub fn state(self, in_time: Option<bool>) -> &'static str {
        match (self, in_time) {
            (Conclusion::Cancelled, _) => "cancelled",
            (Conclusion::Stopped, _) => "stopped",
            (Conclusion::Failed, _) => "failed",
            (Conclusion::Finished, None) => "finished",
            (Conclusion::Finished, Some(true)) => "met",
            (Conclusion::Unknown, None | Some(true)) => "ended",
            (Conclusion::Finished | Conclusion::Unknown, Some(false)) => "missed",
        }
    }
}

/// Why the control loop ended a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// It had used so many times its estimate that the site ends it (`agent.past-deadline`).
    Overrun,
}

impl Stopped {
    /// In words, as a part of a sentence about the job.
    pub fn in_words(self) -> &'static str {
        match self {
            Stopped::Overrun => {
                "it was past its deadline and had used as many times its estimate as this site allows (agent.past-deadline)"
            }
        }
    }
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ending {
    /// Seconds since boot.
    pub at: f64,
    /// By its deadline, and nothing is known that would say that it was not done.
    pub met: bool,
    /// Processor seconds used, all slots.
    pub used: f64,
    /// Exit code, where it is known and no signal ended it.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// It was cancelled.
    pub cancelled: bool,
    /// Its end was found out afterwards: whoever watched over it was killed.
    pub found: bool,
}

/// Largest number of seconds or credits of an entry, far beyond any that is written.
const MOST: f64 = 1e18;

/// Longest text of a command that is kept, in bytes.
const LONGEST_COMMAND: usize = 1024;

/// A command as it is kept: cut, since a command line may have megabytes.
pub fn shown_command(command: &str) -> String {
    let mut end = command.len().min(LONGEST_COMMAND);
    while !command.is_char_boundary(end) {
        end -= 1;
    }
    command[..end].to_string()
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Entry {
    /// Version of this format, 1.
    pub version: u32,
    /// Id, also the name of its file and of its cgroup.
    pub id: String,
    /// The boot whose clock the times are of.
    pub boot: String,
    /// User number of the owner.
    pub user: u32,
    /// What its user calls it, for everybody to see; None if it has no name but its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What runs, for people.
    pub command: String,
    /// As committed: the estimate without margin.
    pub request: Request,
    /// Slots on this host.
    pub slots: u32,
    /// Margin that the estimate was planned with.
    pub estimate_margin: f64,
    /// Seconds after its deadline that were accepted for it (LibraSLA).
    #[serde(default)]
    pub delay: f64,
    /// Credits.
    pub price: f64,
    /// The account that pays; None if nobody does here.
    #[serde(default)]
    pub payer: Option<String>,
    /// Share per slot that was committed, in processors.
    pub share: f64,
    /// Seconds since boot.
    pub submitted: f64,
    /// Seconds since 1970, for people.
    pub submitted_unix: f64,
    /// How far it has come.
    pub phase: Phase,
    /// When a batch system announced it here, seconds since boot.
    #[serde(default)]
    pub begun: Option<f64>,
    /// Seconds since boot.
    pub started: Option<f64>,
    /// Who watches over it; None if a batch system does.
    pub supervisor: Option<Process>,
    /// Its first process.
    pub leader: Option<Process>,
    /// Its cgroup, made here, or adopted from its batch system; None if nothing is enforced.
    pub group: Option<GroupRecord>,
    /// Its cgroup is about to be made; whoever finds the entry so looks whether it was.
    #[serde(default)]
    pub making_group: bool,
    /// Why its processes run and are held to no share, where they are in a group of its batch system's that could not be adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unenforced: Option<String>,
    /// It is no job, but a held quote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<EntryQuote>,
    /// Somebody asked for its end.
    pub cancelled: bool,
    /// The control loop asked for its end, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// How its batch script ended, where the batch system said so before the job's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Somebody has sent a signal that ends jobs: it is not suspended any more, so that it can heed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_to_end: bool,
    /// Since when its batch system has it suspended for the sake of another job, seconds since boot; None if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<f64>,
    /// Seconds that it stood still so before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stood_still: f64,
    /// Its end.
    pub ending: Option<Ending>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Entry {
    /// Reads a file's content.
    ///
    /// # Errors
    /// What is wrong with it, in a few words.
    pub fn from_json(text: &[u8]) -> Result<Entry, String> {
        let entry: Entry =
            serde_json::from_slice(text).map_err(|error| in_one_line(&error.to_string()))?;
        entry.check()?;
        Ok(entry)
    }

    /// Checks that it can be what was written here. A number of a damaged file that is out of its range would get into the shares of all jobs.
    fn check(&self) -> Result<(), String> {
        let problem = |what: &str| Err(format!("its '{what}' is out of range"));
        self.request
            .check()
            .map_err(|error| libra_wording::refusal::out_of_range(&error))?;
        if self.slots == 0 {
            return problem("slots");
        }
        if !(0.0..=1.0).contains(&self.share) {
            return problem("share");
        }
        let amount = |value: f64| value.is_finite() && value >= 0.0;
        for (what, value) in [
            ("estimate-margin", self.estimate_margin),
            ("delay", self.delay),
            ("price", self.price),
        ] {
            if !amount(value) || value > MOST {
                return problem(what);
            }
        }
        let used = self.ending.as_ref().map_or(0.0, |ending| ending.used);
        if !amount(used) {
            return problem("used");
        }
        let ended = self.ending.as_ref().map_or(0.0, |ending| ending.at);
        let until = self.quote.as_ref().map_or(0.0, |quote| quote.until);
        let times = [self.submitted, self.submitted_unix, ended, until];
        let began = [
            self.begun,
            self.started,
            self.suspended,
            Some(self.stood_still),
        ];
        let began = began.into_iter().flatten();
        match times
            .into_iter()
            .chain(began)
            .all(|time| time.abs() <= MOST)
        {
            true => Ok(()),
            false => problem("times"),
        }
    }

    /// The terms that shares are planned with.
    pub fn planned_terms(&self) -> Terms {
        let mut terms = self.request.terms;
        terms.estimate *= 1.0 + self.estimate_margin;
        terms
    }

    /// Memory reserved on this host, in bytes.
    pub fn memory(&self) -> u64 {
        let chunks = self.slots / self.request.shape.processors_per_chunk.max(1);
        self.request
            .shape
            .memory_per_chunk
            .saturating_mul(u64::from(chunks))
    }

    /// When it must be finished, seconds since boot.
    pub fn due(&self) -> f64 {
        self.submitted + self.request.terms.deadline
    }

    /// Its class of service.
    pub fn class(&self) -> Class {
        self.request.terms.class
    }

    /// Returns true if it is promised to end by a deadline.
    pub fn has_promised_end(&self) -> bool {
        self.request.terms.promises_end()
    }

    /// Returns true if it may be suspended: it is promised nothing, it runs, and nobody has asked for its end.
    pub(super) fn may_be_suspended(&self) -> bool {
        let asked = self.cancelled || self.asked_to_end || self.stopped.is_some();
        self.class() == Class::BestEffort && self.phase == Phase::Running && !asked
    }

    /// Returns true if that is the same run of the same job. A batch system may give an id again.
    pub fn is_same(&self, other: &Entry) -> bool {
        self.id == other.id
            && self.boot == other.boot
            && (self.submitted - other.submitted).abs() < 1e-3
    }

    /// How it ended; None while it has not. Of an entry of any age: it is told by what has been written ever since.
    pub fn conclusion(&self) -> Option<Conclusion> {
        let ending = self.ending.as_ref()?;
        Some(match (ending.exit_code, ending.signal) {
            _ if ending.cancelled => Conclusion::Cancelled,
            _ if self.stopped.is_some() => Conclusion::Stopped,
            _ if self.started.is_none() && self.begun.is_none() => Conclusion::Failed,
            (Some(0), _) => Conclusion::Finished,
            (Some(_), _) | (_, Some(_)) => Conclusion::Failed,
            (None, None) => Conclusion::Unknown,
        })
    }

    /// Returns true if it ended by its deadline, however it ended. None while it has not, and of a job that none was promised to.
    pub fn in_time(&self) -> Option<bool> {
        let ending = self.ending.as_ref().filter(|_| self.has_promised_end())?;
        Some(ending.at <= self.due())
    }

    /// It holds a share.
    pub fn is_live(&self) -> bool {
        self.phase != Phase::Ended
    }
}
