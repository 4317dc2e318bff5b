//! Processes in directories: listing, finding a process's tree, and ending them.
//!
//! Invariants: never a signal to this process, to process 1 or to 0 (which is how the kernel lists
//! processes of another pid namespace, and would mean our own process group); every loop is bounded in
//! time or rounds; a directory that has vanished is an empty one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::error::Error;
use libra_system::pidfd::PidFd;

pub(crate) const PROCS: &str = "cgroup.procs";
/// All a threaded v2 group can list.
const THREADS: &str = "cgroup.threads";

/// The directory and everything below it, children before their parents.
pub(crate) fn with_nested(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    let mut next = 0;
    while let Some(at) = found.get(next).cloned() {
        next += 1;
        if has_none_below(&at) {
            continue;
        }
        let entries = fs::read_dir(&at).into_iter().flatten().flatten();
        found.extend(
            entries
                .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
                .map(|e| e.path()),
        );
    }
    found.reverse();
    found
}

/// Returns true if it is known without a list that no directory is below: of the kernel's own each one below counts as a link, beside the
/// directory's name and itself. Other file systems, those that stand in for the kernel's in a container among them, count as they like.
fn has_none_below(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|found| found.nlink() == 2)
        && statfs(directory).is_ok_and(|system| {
            [CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC].contains(&system.filesystem_type())
        })
}

/// A file that the kernel makes up as it is read, with no length beforehand: with room for most of them, so that they are not read in ever larger pieces.
fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(4096);
    // By way of a chain, as a file's own way asks for its length first.
    (fs::File::open(path)?.chain(io::empty())).read_to_string(&mut text)?;
    Ok(text)
}

/// Processes in exactly this directory.
pub(crate) fn listed(directory: &Path) -> Result<Vec<i32>, Error> {
    let path = directory.join(PROCS);
    let text = match read(&path) {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => read(directory.join(THREADS)),
        other => other,
    };
    match text {
        Ok(text) => Ok(text
            .lines()
            // 0 is a process of another pid namespace: it is there, and nobody here can name it.
            .filter_map(|l| l.trim().parse().ok())
            .filter(|&p| p >= 0)
            .collect()),
        Err(e) => match Error::io("read", &path, None, e) {
            Error::Gone { .. } => Ok(Vec::new()),
            error => Err(error),
        },
    }
}

/// Processes in these directories and below, each once, in order.
pub(crate) fn listed_below<'a>(
    directories: impl IntoIterator<Item = &'a Path>,
) -> Result<Vec<i32>, Error> {
    let mut pids = BTreeSet::new();
    for directory in directories {
        for nested in with_nested(directory) {
            pids.extend(listed(&nested)?);
        }
    }
    Ok(pids.into_iter().collect())
}

/// Processes that are held at a time while they are signalled: each takes a file descriptor.
const HELD: usize = 256;

/// File descriptors that listing processes takes, and more.
const TO_LIST: usize = 8;

/// Sends a signal to each process that `list` lists; those that have ended meanwhile are no error. Returns how many got it.
///
/// Listed once more while they are held: a number that was given to somebody else meanwhile is not listed any more.
pub(crate) fn send(
    list: impl Fn() -> Result<Vec<i32>, Error>,
    signal: Signal,
) -> Result<usize, Error> {
    let own = std::process::id() as i32;
    let mut sent = 0;
    for pids in list()?.chunks(HELD) {
        let mut held: Vec<(i32, io::Result<PidFd>)> = (pids.iter())
            .filter(|&&pid| pid > 1 && pid != own)
            .map(|&pid| (pid, PidFd::open(pid)))
            .collect();
        if held.iter().any(|(_, process)| is_too_many(process)) {
            let given_back = held.iter_mut().filter(|(_, process)| process.is_ok());
            for (_, process) in given_back.take(TO_LIST) {
                *process = Err(io::Error::from_raw_os_error(libc::EMFILE));
            }
        }
        let still: BTreeSet<i32> = list()?.into_iter().collect();
        for (pid, process) in held.iter().filter(|(pid, _)| still.contains(pid)) {
            let done = match process {
                Ok(process) => process.send(signal).is_ok(),
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => false,
                // A kernel before 5.3, or too many files: by its number, then.
                Err(_) => signal::kill(Pid::from_raw(*pid), signal).is_ok(),
            };
            sent += usize::from(done);
        }
    }
    Ok(sent)
}

fn is_too_many<T>(opened: &io::Result<T>) -> bool {
    let errno = opened.as_ref().err().and_then(io::Error::raw_os_error);
    matches!(errno, Some(libc::EMFILE | libc::ENFILE))
}

/// As often as that those are helped that are dying.
const BETWEEN_HELP: Duration = Duration::from_millis(10);

/// Kills until the directories are empty. Returns the processes left when the patience ran out. `help`: what helps those that are dying
/// already.
pub(crate) fn kill_until_empty(
    directories: &[&Path],
    patience: Duration,
    help: &dyn Fn(),
) -> Result<Vec<i32>, Error> {
    let start = Instant::now();
    let mut helped = start;
    let mut pause = Duration::from_micros(50);
    loop {
        // What was killed may be kept from ending, and can be killed all the same.
        if helped.elapsed() >= BETWEEN_HELP {
            help();
            helped = Instant::now();
        }
        // Hardly a pause at first: a job that forks without end is only beaten by being faster.
        let left = listed_below(directories.iter().copied())?;
        if left.is_empty() || start.elapsed() >= patience {
            return Ok(left);
        }
        if send(
            || listed_below(directories.iter().copied()),
            Signal::SIGKILL,
        )? == 0
        {
            // Dying already, or not ours to signal.
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        std::thread::sleep(pause.min(patience.saturating_sub(start.elapsed())));
    }
}

/// Stops all that `list` lists until nothing of it runs. Returns what does when the patience ran out: a process in the kernel stops when it comes
/// back from there. One that waits there for a child that stands still, as after vfork, does not run either.
pub(crate) fn stop_all(
    list: impl Fn() -> Result<Vec<i32>, Error>,
    patience: Duration,
) -> Result<Vec<i32>, Error> {
    let start = Instant::now();
    let running = || -> Result<Vec<i32>, Error> {
        let mut all = list()?;
        all.retain(|&pid| stat(pid).is_some_and(|stat| !stat.dead && !stat.stopped));
        Ok(all)
    };
    let mut pause = Duration::from_micros(100);
    let mut all_stood = false;
    loop {
        let left = running()?;
        // One that stopped on its way out of a fork may have a child that was not listed before: the next list has it.
        if left.is_empty() && all_stood || start.elapsed() >= patience {
            return Ok(left);
        }
        all_stood = left.is_empty();
        // To all of them: of one whose first thread has ended it is not seen here whether others run.
        send(&list, Signal::SIGSTOP)?;
        std::thread::sleep(pause.min(patience.saturating_sub(start.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// What /proc/PID/stat says, as far as needed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    parent: i32,
    session: i32,
    /// Own time and that of children waited for, in clock ticks.
    ticks: u64,
    /// Ended, not waited for yet.
    dead: bool,
    /// By a signal, or by a debugger.
    stopped: bool,
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name, in parentheses, may hold blanks and parentheses itself.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<i64>().ok();
    let ticks = (11..15).map(|i| number(i).unwrap_or(0).max(0) as u64).sum();
    let dead = matches!(fields.first(), Some(&("Z" | "X")));
    let stopped = matches!(fields.first(), Some(&("T" | "t")));
    Some(Stat {
        stopped,
        parent: number(1)? as i32,
        session: number(3)? as i32,
        ticks,
        dead,
    })
}

/// A process, its descendants, and members of sessions led by any of these (whose parents may have gone). This process, and through it what it
/// has started, only if it is the one that is named: a hook that is a child of what it is asked for is no part of the job.
pub(crate) fn tree(pid: i32) -> BTreeSet<i32> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<i32>().ok())
        {
            all.extend(stat(pid).map(|s| (pid, s)));
        }
    }
    tree_in(pid, std::process::id() as i32, &all)
}

/// Sends a signal to a process that has no group, and to what it has started as far as that can be told: its descendants, and the members of
/// sessions that these lead. Returns how many got it.
///
/// # Errors
/// The processes cannot be listed.
pub fn signal_tree(pid: i32, signal: Signal) -> Result<usize, Error> {
    send(|| Ok(tree(pid).into_iter().collect()), signal)
}

fn tree_in(pid: i32, own: i32, all: &BTreeMap<i32, Stat>) -> BTreeSet<i32> {
    let mut tree: BTreeSet<i32> = all.contains_key(&pid).then_some(pid).into_iter().collect();
    loop {
        let before = tree.len();
        let more = (all.iter())
            .filter(|&(&p, s)| p != own && (tree.contains(&s.parent) || tree.contains(&s.session)));
        let more: Vec<i32> = more.map(|(&p, _)| p).collect();
        tree.extend(more);
        if tree.len() == before {
            return tree;
        }
    }
}

/// The process that made it, or has taken it over; None if it has ended.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    Some(stat(pid)?.parent)
}

/// Seconds of processor time of these processes and the children they waited for.
pub(crate) fn seconds(pids: &[i32]) -> f64 {
    let per_second = sysconf(SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .unwrap_or(100)
        .max(1);
    pids.iter()
        .filter_map(|&p| stat(p))
        .map(|s| s.ticks as f64)
        .sum::<f64>()
        / per_second as f64
}

/// True while the process exists and has not ended. One that is there and not to be seen is taken to run.
pub(crate) fn is_running(pid: i32) -> bool {
    stat(pid).map_or_else(
        || signal::kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH),
        |s| !s.dead,
    )
}

/// A process that was not killed when it was looked at. Its number may be another one's since: by when it began it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Living {
    pid: i32,
    /// Clock ticks since boot.
    begun: u64,
}

impl Living {
    /// A process of which the first thread lives: neither is killed, nor is the thread about to end. None says nothing; [`all_killed`] finds out.
    /// `stat` does not have the signals that are pending for all threads: one that was killed and has not begun to end is seen in `status` alone.
    fn find(pid: i32) -> Option<Living> {
        let read = |name: &str| read(format!("/proc/{pid}/{name}")).ok();
        // In this order: whoever has been given the number meanwhile is not taken for it. One that takes its signal in between is taken for living, once.
        let stat =
            read("stat").filter(|stat| flags(stat).is_some_and(|flags| flags & EXITING == 0))?;
        let status = read("status")?;
        let is_killed = has_kill(&status, "ShdPnd:") || has_kill(&status, "SigPnd:");
        let begun = begun_at(&stat)?;
        (pid > 0 && !is_killed).then_some(Living { pid, begun })
    }

    /// True if it lives still. False says nothing.
    pub(crate) fn lives(self) -> bool {
        Living::find(self.pid) == Some(self)
    }
}

/// SIGKILL in a set of signals.
const KILL: u64 = 1 << (Signal::SIGKILL as u32 - 1);

/// Of a thread that ends: it runs nothing of its program any more (flags of /proc/PID/stat, PF_EXITING).
const EXITING: u64 = 0x4;

/// True if processes are listed, and none of them will ever run an instruction of its program again.
///
/// Listed once more when all of them were looked at: what one of them has started before it was killed is found then, and one that could not
/// be seen and is listed all the same is kept from our eyes (`/proc` with `hidepid`). Once true it stays so for these processes; others may come.
pub(crate) fn all_killed(list: impl Fn() -> Result<Vec<i32>, Error>) -> Result<bool, Error> {
    all_killed_but_for(list, &mut None)
}

/// The same; one of those that live goes into `living`, which can be asked next time.
pub(crate) fn all_killed_but_for(
    list: impl Fn() -> Result<Vec<i32>, Error>,
    living: &mut Option<Living>,
) -> Result<bool, Error> {
    *living = None;
    let mut killed = BTreeSet::new();
    for pid in list()? {
        // Most live, and by a first thread that does: its threads need not be listed then.
        *living = Living::find(pid);
        if living.is_some() {
            return Ok(false);
        }
        match is_killed(pid) {
            Some(true) => killed.insert(pid),
            Some(false) => return Ok(false),
            None => continue,
        };
    }
    let again = list()?;
    Ok(!again.is_empty() && again.iter().all(|pid| killed.contains(pid)))
}

/// True if it was killed, or all of its threads end. A first thread that has ended says nothing of the others. None if it is not to be seen.
fn is_killed(pid: i32) -> Option<bool> {
    // One of another pid namespace, of which nothing can be seen.
    if pid <= 0 {
        return Some(false);
    }
    match read(format!("/proc/{pid}/status")) {
        Ok(status) if has_kill(&status, "ShdPnd:") => Some(true),
        Ok(_) => all_threads_end(pid),
        Err(error) => (!is_no_process(&error)).then_some(false),
    }
}

fn all_threads_end(pid: i32) -> Option<bool> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let threads = || -> Option<Vec<PathBuf>> {
        let entries = fs::read_dir(&tasks).ok()?;
        Some(entries.flatten().map(|entry| entry.path()).collect())
    };
    let found = threads()?;
    if found.iter().any(|thread| ends(thread) == Some(false)) {
        return Some(false);
    }
    // One that has begun since was begun by one of them.
    let left = threads()?;
    if !left.iter().all(|thread| found.contains(thread)) {
        return Some(false);
    }
    // One that has gone may have executed a program: it has the number of the first one then, and may have begun others and have ended since. So
    // these are all that there are while the first one ends, and the others are there afterwards, as none is where one of them has executed a program.
    // A first one that is just replaced has a process without threads.
    let first = tasks.join(pid.to_string());
    let (first_ends, threads) = end_and_threads(&first)?;
    let others_end = || (left.iter()).all(|thread| *thread == first || ends(thread) == Some(true));
    Some(first_ends && threads == left.len() as u64 && others_end())
}

/// True if this thread (its directory of /proc) has been killed with its process, or ends. None if it is not there.
fn ends(thread: &Path) -> Option<bool> {
    end_and_threads(thread).map(|(ends, _)| ends)
}

/// The same, and how many threads its process had at that moment.
fn end_and_threads(thread: &Path) -> Option<(bool, u64)> {
    let unless_gone = |error: io::Error| (!is_no_process(&error)).then_some((false, 0));
    let status = match read(thread.join("status")) {
        Ok(status) => status,
        Err(error) => return unless_gone(error),
    };
    if has_kill(&status, "SigPnd:") {
        let threads = status
            .lines()
            .find_map(|line| line.strip_prefix("Threads:"));
        return Some((true, threads?.trim().parse().ok()?));
    }
    match read(thread.join("stat")) {
        Ok(stat) => Some((
            flags(&stat).is_some_and(|flags| flags & EXITING != 0),
            field(&stat, 17)?,
        )),
        Err(error) => unless_gone(error),
    }
}

fn is_no_process(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Returns true if SIGKILL is among these pending signals. Nobody can block or ignore it.
fn has_kill(status: &str, pending: &str) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix(pending));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set & KILL != 0)
}

fn flags(stat: &str) -> Option<u64> {
    field(stat, 6)
}

fn begun_at(stat: &str) -> Option<u64> {
    field(stat, 19)
}

/// A number of /proc/PID/stat, counted from the state, which follows the name.
fn field(stat: &str, index: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// True where a write of a pid failed because the process has ended.
pub(crate) fn has_ended(error: &Error) -> bool {
    error.errno() == Some(Errno::ESRCH)
}

#[cfg(test)]
#[path = "processes_tests.rs"]
mod tests;
