//! The control loop of a host: every job's share taken anew, again and again.
//!
//! Invariants:
//! - One process at a time runs it, the one that has the registry's leadership: the agent, or any
//!   `libra run` where there is no agent. If that one is killed, the next takes over.
//! - Nothing is remembered that could not be found again: what is kept here is open files and
//!   what was written last.
//! - A round that fails for one job goes on with the others.
//! - Who stands still is known by the kernel alone, and each round says anew who is to: whoever leads next finds them there. Who
//!   stops leading lets those go on whom nobody else would.

mod dying;
mod open_files;

use super::ending::signal_job;
use super::entry::{Entry, Phase, Process, Stopped};
use super::registry::{Leadership, Stamp};
use super::{Host, HostError, on_node, used};
use libra_cgroup::{Frozen, Group, KilledGroups, Signal};
use libra_core::decision::allotment::Claim;
use libra_core::decision::class::Class;
use libra_core::decision::node::JobOnNode;
use libra_core::decision::policy::Policy;
use libra_core::decision::service::{Entitlement, Hold, entitlement};
use libra_core::decision::share::DeadlineStatus;
use libra_core::decision::suspension::{BestEffort, share_out};
use libra_system::clock;
use open_files::{Room, keep_what_fits};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

/// Rounds after which a process that answers to its number is looked at more closely: the number
/// may have been given to another one.
const CLOSE_CHECK: u64 = 64;
/// Rounds between two searches for processes of a job that have left its group, or more where there are many jobs.
const OUTSIDE_CHECK: u64 = 16;
/// Rounds between two searches for ended jobs to forget.
const FORGET: u64 = 32;
/// A directory changed less than this before it was read may change again under the same time stamp.
const SETTLED: Duration = Duration::from_millis(50);
/// A share is raised when it falls short by this part, and lowered when it is too large by that one.
///
/// The kernel refills a quota whenever it is written, so every write gives the job up to one period
/// more than its share: written at each round, a job of 4 s ended after 2.8 s. A share that is a little
/// too large harms less than that, one that is too small breaks a promise.
const RAISE: f64 = 0.01;
const LOWER: f64 = 0.05;

/// What one round did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Round {
    /// Jobs that hold a share.
    pub jobs: usize,
    /// Shares that were changed.
    pub adjusted: usize,
    /// Jobs of best effort that stand still.
    pub suspended: usize,
    /// Files that somebody else had changed, written again.
    pub drifted: usize,
    /// Jobs found over and cleaned up.
    pub ended: usize,
}

/// Processor seconds that one uses that goes on, within so many seconds: more than what watches over stopped processes does.
const RUNS_AGAIN: f64 = 0.05;
const RUNS_AGAIN_WITHIN: f64 = 2.0;

/// Seconds that a batch system may take to stop what it says to be suspended: Slurm asks processes to stop by SIGTSTP, and stops them two seconds later.
const STOPS_WITHIN: f64 = 5.0;

pub(super) struct Watched {
    pub(super) entry: Entry,
    group: Option<Group>,
    /// Processors over all slots, as last written.
    given: f64,
    pub(super) deadline_status: DeadlineStatus,
    /// Share per slot that it needs from now on.
    pub(super) needed: f64,
    /// Seconds that its group was throttled by the last round; none before it was asked.
    throttled: Option<f64>,
    /// Processor seconds of its group when they were last read.
    used: f64,
    /// The kernel's own count was all of it when it was last checked.
    whole: bool,
    /// It gets nothing but what others leave.
    yields: bool,
    /// Since when it stands still, seconds since boot, as far as this loop knows; None while it goes on.
    pub(super) suspended: Option<f64>,
    /// Of one that its batch system has suspended: what it had used then, seconds since boot and processor seconds.
    still_at: Option<(f64, f64)>,
    /// When this loop asked for its end, seconds since boot.
    stopped: Option<f64>,
    /// All of its processes are killed: nothing holds it while it ends.
    killed: bool,
}

/// The loop's state between two rounds.
pub struct ControlLoop<'a> {
    host: &'a Host,
    leadership: Leadership,
    pub(super) watched: HashMap<String, Watched>,
    pub(super) measures_throttling: bool,
    pub(super) throttled: f64,
    read_at: Option<SystemTime>,
    /// The files of live jobs as they were when they were read.
    seen: HashMap<String, Stamp>,
    rounds: u64,
    killed: KilledGroups,
    /// Jobs of which the files are opened for each use, see [`open_files`].
    closed: usize,
    /// Files that were found changed by somebody else, since the start.
    pub drifts: u64,
}

impl<'a> ControlLoop<'a> {
    /// Takes the loop over, unless somebody else runs it.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn try_lead(host: &'a Host) -> Result<Option<ControlLoop<'a>>, HostError> {
        let leadership = host.registry().try_lead()?;
        if leadership.is_some() {
            host.hold_ceiling();
        }
        Ok(leadership.map(|leadership| ControlLoop {
            host,
            leadership,
            watched: HashMap::new(),
            measures_throttling: false,
            throttled: 0.0,
            read_at: None,
            seen: HashMap::new(),
            rounds: 0,
            killed: KilledGroups::default(),
            closed: 0,
            drifts: 0,
        }))
    }

    /// One round.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn round(&mut self) -> Result<Round, HostError> {
        self.rounds += 1;
        self.read_registry()?;
        let now = clock::since_boot();
        if self.rounds % FORGET == 0 {
            self.host.hold_ceiling();
            let lock = self.host.registry.lock()?;
            self.host.registry.sweep(&lock)?;
            self.host.forget(&lock, now)?;
        }
        let mut round = Round::default();
        let (mut over, mut overrun, mut gone_on) = (Vec::new(), Vec::new(), Vec::new());
        let mut claims = Vec::with_capacity(self.watched.len());
        let mut best_effort = Vec::with_capacity(self.watched.len());
        let jobs = self.watched.len();
        for (index, (id, watched)) in self.watched.iter_mut().enumerate() {
            if self.host.seems_over(watched, self.rounds + index as u64) {
                over.push(id.clone());
            }
            let turn = self.rounds + index as u64;
            let close = turn % CLOSE_CHECK == 0;
            watched.notice_killed(dying::turn(self.rounds, index, jobs));
            round.drifted += watched.notice_drift(id);
            if turn % dying::between(OUTSIDE_CHECK, jobs) == 0 {
                watched.put_back();
            }
            watched.notice_frozen(now);
            let (job, Entitlement { need, hold }) = self.host.entitlement_of(watched, close, now);
            watched.notice(need.deadline_status);
            if watched.has_gone_on(now) {
                gone_on.push(id.clone());
            }
            let (rule, rating) = (
                libra_rules::past_deadline(&self.host.config),
                self.host.machine.spec.rating,
            );
            let yields = hold == Hold::WhatIsLeft;
            let is_best_effort = watched.entry.class() == Class::BestEffort;
            watched.notice_yielding(yields && !is_best_effort);
            watched.needed = need.share;
            best_effort.push(is_best_effort.then(|| BestEffort {
                suspended: watched.suspended.map(|since| now - since),
                submitted: watched.entry.submitted,
                can_be: watched.entry.may_be_suspended(),
            }));
            if rule.ends(&job, need, watched.entry.request.terms.estimate, rating) {
                overrun.push(id.clone());
            }
            if self.measures_throttling {
                self.throttled += watched.throttled_since();
            }
            claims.push(Claim {
                yields,
                // Who began with what others had left takes nothing from them.
                whole: hold == Hold::Whole && watched.entry.has_whole_share(),
                outlived: watched.entry.has_outlived(now, rating)
                    || watched.entry.suspended.is_some(),
                ..Claim::new(&job, need, watched.entry.share)
            });
        }
        round.jobs = claims.len();
        let policy = libra_rules::admission(&self.host.config).policy;
        let mut given = Vec::with_capacity(claims.len());
        let mut suspended = Vec::new();
        share_out(
            (
                policy.shortage(),
                libra_rules::spare_in_rounds(&self.host.config),
            ),
            &claims,
            &best_effort,
            self.host.machine.spec.processors,
            &mut given,
            &mut suspended,
        );
        // Who is to make room does so before others get more.
        for (watched, _) in (self.watched.values_mut().zip(&suspended))
            .filter(|(watched, suspended)| **suspended && !watched.killed)
        {
            round.suspended += 1;
            watched.suspend(now);
        }
        for (((id, watched), processors), suspended) in
            self.watched.iter_mut().zip(given).zip(suspended)
        {
            if watched.killed {
                watched.let_end(self.host.machine.spec.processors);
                continue;
            }
            // It uses nothing as it is, and whoever ends it need not wait for its share.
            if suspended && watched.can_freeze() {
                continue;
            }
            if !suspended {
                watched.resume();
            }
            let enough = watched.given >= processors * (1.0 - RAISE)
                && watched.given <= processors * (1.0 + LOWER);
            if enough {
                continue;
            }
            let limits = self.host.limits_of(&watched.entry, processors);
            match watched.group.as_mut().map(|group| group.set(&limits)) {
                Some(Ok(written)) => {
                    watched.given = processors;
                    round.adjusted += usize::from(written > 0);
                }
                Some(Err(error)) if error.is_gone() => {}
                Some(Err(error)) => log::warn!("job {id}: {error}"),
                None => watched.given = processors,
            }
        }
        self.help_killed();
        self.drifts += round.drifted as u64;
        for id in gone_on {
            if let Err(error) = self.host.note_suspended(&id, false) {
                log::warn!("job {id}: {error}");
            }
        }
        for id in overrun {
            if let Err(error) = self.stop(&id, now) {
                log::warn!("job {id}: {error}");
            }
        }
        for id in over {
            match self.end(&id) {
                Ok(true) => round.ended += 1,
                Ok(false) => {}
                Err(error) => log::warn!("job {id}: {error}"),
            }
        }
        Ok(round)
    }

    /// Reads what has changed in the registry since the last round.
    fn read_registry(&mut self) -> Result<(), HostError> {
        let changed = self.host.registry.changed()?;
        if self.read_at == Some(changed) {
            return Ok(());
        }
        let (mut live, mut seen) = (HashSet::new(), HashMap::new());
        let mut room = Room::beside(&self.watched);
        for (id, stamp) in self.host.registry.stamps()? {
            if self.seen.get(&id) == Some(&stamp)
                && self.watched.get(&id).is_some_and(Watched::is_open)
            {
                live.insert(id.clone());
                seen.insert(id, stamp);
                continue;
            }
            let entry = match self.host.registry.read(&id) {
                Ok(Some(entry)) => entry,
                Ok(None) => continue,
                Err(error) => {
                    log::error!("{error}");
                    continue;
                }
            };
            seen.insert(id, stamp);
            if !entry.is_live() || entry.boot != self.host.boot {
                continue;
            }
            live.insert(entry.id.clone());
            match self.watched.get_mut(&entry.id) {
                Some(watched) if watched.entry.group == entry.group => {
                    if !watched.is_open() {
                        watched.group = self.host.group_of(&entry).unwrap_or_default();
                        room.keep(&mut watched.group);
                    }
                    watched.entry = entry;
                }
                _ => {
                    let mut group = self.host.group_of(&entry).unwrap_or_else(|error| {
                        log::warn!("job {}: {error}", entry.id);
                        None
                    });
                    room.keep(&mut group);
                    let watched = Watched {
                        group,
                        // Whatever the kernel holds, somebody may have changed it meanwhile: all of it is compared once.
                        given: f64::NAN,
                        deadline_status: DeadlineStatus::OnTrack,
                        needed: entry.share,
                        throttled: None,
                        used: 0.0,
                        whole: false,
                        yields: false,
                        suspended: None,
                        still_at: None,
                        stopped: None,
                        killed: false,
                        entry,
                    };
                    self.watched.insert(watched.entry.id.clone(), watched);
                }
            }
        }
        self.seen = seen;
        self.watched.retain(|id, _| live.contains(id));
        let closed = keep_what_fits(&mut self.watched);
        open_files::tell(self.closed, closed, self.watched.len());
        self.closed = closed;
        let settled = SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|age| age > SETTLED);
        // A group that could not be opened (too many open files) is tried again.
        let all_open =
            self.host.enforcer().is_none() || self.watched.values().all(Watched::is_open);
        self.read_at = (settled && all_open).then_some(changed);
        Ok(())
    }

    /// Asks a job to end that is past all that the site allows, and kills it when it has not done so after the grace.
    fn stop(&mut self, id: &str, now: f64) -> Result<(), HostError> {
        let Some(watched) = self.watched.get_mut(id) else {
            return Ok(());
        };
        let grace = self.host.config.agent.grace.0;
        let signals: &[Signal] = match watched.stopped {
            None => {
                let _lock = self.host.registry.lock()?;
                // Whoever watches over it reads there why it ended.
                let entry = self.host.registry.read(id)?;
                let Some(mut entry) = entry.filter(|entry| entry.is_same(&watched.entry)) else {
                    return Ok(());
                };
                if entry.phase != Phase::Running {
                    return Ok(());
                }
                entry.stopped = Some(Stopped::Overrun);
                self.host.registry.write(&entry)?;
                watched.entry = entry;
                watched.stopped = Some(now);
                log::warn!("job {id} is ended: {}", Stopped::Overrun.in_words());
                // A stopped process takes its SIGTERM only when it goes on.
                &[Signal::SIGTERM, Signal::SIGCONT]
            }
            Some(asked) if now - asked >= grace => &[Signal::SIGKILL],
            Some(_) => return Ok(()),
        };
        for &signal in signals {
            signal_job(&watched.entry, watched.group.as_ref(), signal)?;
        }
        Ok(())
    }

    /// Ends a job that is over, if a check under the lock agrees.
    fn end(&mut self, id: &str) -> Result<bool, HostError> {
        let lock = self.host.registry.lock()?;
        let Some(mut entry) = self.host.registry.read(id)? else {
            return Ok(false);
        };
        if !entry.is_live()
            || !self
                .host
                .settle_one(&lock, &mut entry, clock::since_boot())?
        {
            return Ok(false);
        }
        if entry.is_live() {
            // Some of its processes do not go; the next round tries again.
            return Ok(false);
        }
        if entry.quote.is_some() {
            log::info!("quote {id} is held no longer");
        } else {
            let met = entry.ending.is_some_and(|ending| ending.met);
            log::info!(
                "job {id} is over, found by the control loop; deadline {}",
                if met { "met" } else { "missed" }
            );
        }
        self.watched.remove(id);
        Ok(true)
    }

    /// Returns true if this process still leads. One that stands in for a stopped leader steps back when that
    /// one goes on.
    pub fn still_leads(&self) -> bool {
        self.host.registry.still_leads(&self.leadership)
    }
}

impl Drop for ControlLoop<'_> {
    /// Whoever watches over a job takes the loop over; of one that nobody does, nobody might.
    fn drop(&mut self) {
        if !self.still_leads() {
            return;
        }
        for watched in self.watched.values_mut() {
            let supervisor = watched.entry.supervisor;
            if !supervisor.is_some_and(|process| process.is_alive() && !process.is_stopped()) {
                watched.resume();
            }
        }
    }
}

impl Watched {
    /// Its group is open, or it has none.
    fn is_open(&self) -> bool {
        self.group.is_some() || self.entry.group.is_none()
    }

    /// Processor seconds used so far. Whether processes were moved to other accounting groups costs a
    /// read all of them, so it is asked only now and then where it was not so before.
    fn used(&mut self, close: bool) -> f64 {
        if let Some(group) = &self.group {
            if self.whole && !close {
                if let Ok(Some(seconds)) = group.counted() {
                    self.used = seconds;
                    return seconds;
                }
            }
            match group.usage() {
                Ok(usage) => {
                    self.whole = usage.complete;
                    self.used = usage.seconds;
                }
                // It has used no less than the last time.
                Err(error) => log::debug!("job {}: {error}", self.entry.id),
            }
            return self.used;
        }
        used(&self.entry, None)
    }

    /// Only root can leave its group, by itself or by somebody else's doing.
    fn put_back(&self) {
        let id = &self.entry.id;
        match self.group.as_ref().map(Group::put_back) {
            Some(Ok(moved)) if !moved.is_empty() => {
                log::warn!("job {id}: processes {moved:?} had left its cgroup; put back");
            }
            Some(Err(error)) => log::debug!("job {id}: {error}"),
            _ => {}
        }
    }

    /// Returns true if its batch system had it suspended for another job, and it has run since: nobody says so here when it is let go on.
    fn has_gone_on(&mut self, now: f64) -> bool {
        let Some(since) = self
            .entry
            .suspended
            .filter(|since| now - since > STOPS_WITHIN)
        else {
            self.still_at = None;
            return false;
        };
        let (seen, used) = *self.still_at.get_or_insert((now, self.used));
        if now - seen.max(since) > RUNS_AGAIN_WITHIN {
            self.still_at = Some((now, self.used));
        }
        self.used > used + RUNS_AGAIN
    }

    fn can_freeze(&self) -> bool {
        self.group.as_ref().is_some_and(Group::can_freeze)
    }

    /// Notices what the loop that led before had suspended.
    fn notice_frozen(&mut self, now: f64) {
        if self.suspended.is_some() || self.entry.class() != Class::BestEffort {
            return;
        }
        let frozen = self.group.as_ref().map(Group::frozen);
        if frozen.is_some_and(|frozen| frozen.is_ok_and(|frozen| frozen != Frozen::No)) {
            self.suspended = Some(now);
        }
    }

    /// Lets it stand still, if all of it does not yet.
    fn suspend(&mut self, now: f64) {
        if self.suspended.is_none() {
            self.suspended = Some(now);
            log::info!("job {} is suspended: others need all", self.entry.id);
        }
        self.order(true);
    }

    /// Lets it go on, if it stands still.
    fn resume(&mut self) {
        if self.suspended.take().is_some() {
            log::info!("job {} goes on", self.entry.id);
            self.order(false);
        }
    }

    fn order(&self, frozen: bool) {
        let wanted = if frozen { Frozen::Yes } else { Frozen::No };
        let Some(group) = self.group.as_ref().filter(|group| group.can_freeze()) else {
            return;
        };
        let done = match group.frozen() {
            Ok(state) if state == wanted => Ok(()),
            _ => group.freeze(frozen),
        };
        match done {
            Err(error) if !error.is_gone() => log::warn!("job {}: {error}", self.entry.id),
            _ => {}
        }
    }

    /// Seconds that its group was throttled since the last round. What it was before it was looked at first belongs to
    /// whoever looked then.
    fn throttled_since(&mut self) -> f64 {
        let Some(Ok(now)) = self.group.as_ref().map(Group::throttled) else {
            return 0.0;
        };
        let before = self.throttled.replace(now);
        // Less than before: it has another group now.
        before.map_or(0.0, |before| (now - before).max(0.0))
    }

    fn notice_yielding(&mut self, yields: bool) {
        if yields && !self.yields {
            log::warn!(
                "job {} is past its estimate and its deadline: it gets what others leave",
                self.entry.id
            );
        }
        self.yields = yields;
    }

    fn notice(&mut self, deadline_status: DeadlineStatus) {
        if deadline_status == self.deadline_status {
            return;
        }
        self.deadline_status = deadline_status;
        let id = &self.entry.id;
        match deadline_status {
            DeadlineStatus::OnTrack => log::info!("job {id} is on track again"),
            DeadlineStatus::AtRisk => log::warn!(
                "job {id} is at risk: even a whole processor per slot ends it after its deadline"
            ),
            DeadlineStatus::Overrun => log::warn!("job {id} has used its estimate and runs on"),
            DeadlineStatus::Late => log::warn!("job {id} is late: its deadline has passed"),
        }
    }
}

impl Host {
    fn entitlement_of(
        &self,
        watched: &mut Watched,
        close: bool,
        now: f64,
    ) -> (JobOnNode, Entitlement) {
        let used = watched.used(close);
        let entry = &watched.entry;
        let held = if watched.given.is_finite() {
            (watched.given / f64::from(entry.slots.max(1))).min(1.0)
        } else {
            entry.share
        };
        let policy = libra_rules::admission(&self.config).policy;
        let job = on_node(entry, used, held, now);
        let rating = self.machine.spec.rating;
        let past = libra_rules::past_deadline(&self.config);
        (
            job,
            entitlement(&job, policy.need(&job, rating), past, rating),
        )
    }

    /// A cheap check whether a job may be over; [`Host::is_abandoned`] has the last word.
    fn seems_over(&self, watched: &Watched, turn: u64) -> bool {
        let close = turn % CLOSE_CHECK == 0;
        let alive = |process: Process| {
            if close {
                process.is_alive()
            } else {
                let pid = nix::unistd::Pid::from_raw(process.pid);
                // EPERM: it is there and not ours to signal.
                nix::sys::signal::kill(pid, None) != Err(nix::errno::Errno::ESRCH)
            }
        };
        if watched.entry.supervisor.is_some_and(alive) && !watched.entry.cancelled {
            return false;
        }
        self.is_abandoned(&watched.entry, watched.group.as_ref())
    }
}
