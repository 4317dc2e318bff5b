//! Accounting logs of PBS (OpenPBS, PBS Professional, Torque): one record a line,
//! `MM/DD/YYYY HH:MM:SS;type;id;key=value ...`.
//!
//! A job is what its end record (type E) says. One that has only a deletion (D) or an abortion (A)
//! never ran; when it was submitted, its queue record (Q) says. A job that was requeued (R) and ran
//! again counts once, with its last run.

use super::promised::{Promised, most_used};
use super::values::{Words, duration, local, shown, three, unix, whole};
use super::{AccountingRecord, LeftOut, ToUnix};
use libra_units::memory;
use std::collections::BTreeMap;

/// What is known of a job besides its end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Before {
    /// When it was first queued.
    queued: Option<i64>,
    /// Deleted or aborted: field 11 of the format.
    gone: Option<i8>,
    /// It has an end record.
    ended: bool,
}

/// Collects jobs.
pub(super) struct Collector<'a> {
    to_unix: ToUnix<'a>,
    /// By time of submission and id, each with the time of its end.
    ended: BTreeMap<(i64, String), (i64, AccountingRecord)>,
    before: BTreeMap<String, Before>,
    parts: u64,
    repeated: u64,
    words: Words,
}

/// The keys and values of a record. A value with blanks stands in quotes.
struct Message<'a> {
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Message<'a> {
    fn new(text: &'a str) -> Message<'a> {
        let mut values = BTreeMap::new();
        let mut rest = text.trim();
        while let Some((key, after)) = rest.split_once('=') {
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
            let closed = quote.and_then(|quote| after[1..].split_once(quote));
            let (value, more) = match closed {
                Some((value, more)) => (value, more),
                None => after.split_once(' ').unwrap_or((after, "")),
            };
            // A key is one word: what stands before it is none.
            let key = key.rsplit(' ').next().unwrap_or(key);
            values.insert(key, value);
            rest = more.trim_start();
        }
        Message { values }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.values.get(key).copied().filter(|v| !v.is_empty())
    }

    fn read<T>(
        &self,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(format!("{key} is '{}', expected {expected}", shown(value))),
        }
    }

    /// The first of these keys that has a time in seconds since 1970.
    fn time(&self, keys: &[&str]) -> Result<Option<i64>, String> {
        for key in keys {
            let time = self.read(key, unix, "seconds since 1970-01-01")?;
            if time.is_some() {
                return Ok(time);
            }
        }
        Ok(None)
    }

    fn count(&self, key: &str) -> Result<Option<u32>, String> {
        let read = |text: &str| text.parse().ok().filter(|n| *n <= i32::MAX as u32);
        self.read(key, read, "a whole number")
    }

    /// KB.
    fn memory(&self, key: &str) -> Result<Option<f64>, String> {
        let read = |text: &str| memory::parse(text).ok().map(|bytes| bytes as f64 / 1024.0);
        self.read(key, read, "an amount of memory such as 4gb or 1048576kb")
    }

    fn duration(&self, key: &str) -> Result<Option<f64>, String> {
        let read = |text: &str| whole(text).or_else(|| duration(text));
        self.read(key, read, "HH:MM:SS or seconds")
    }

    /// Processors that it asked for. Where PBS has chunks its sum of their processors is exact;
    /// Torque's ncpus is not, where it has nodes.
    fn requested(&self) -> Result<Option<u32>, String> {
        let ncpus = self.count("Resource_List.ncpus")?;
        if let Some(chunks) = self.read("Resource_List.select", chunks, CHUNKS)? {
            return Ok(ncpus.or(Some(chunks)));
        }
        if let Some(nodes) = self.read("Resource_List.nodes", nodes, NODES)? {
            return Ok(Some(nodes));
        }
        match ncpus.or(self.count("Resource_List.procs")?) {
            None => self.count("Resource_List.nodect"),
            some => Ok(some),
        }
    }
}

const CHUNKS: &str = "chunks such as 2:ncpus=8:mem=4gb+1:ncpus=4";
const NODES: &str = "nodes such as 2:ppn=8 or node1:ppn=8+node2:ppn=8";

/// Sum over parts of `count:key=n`, separated by `+`. A part that does not start with a number
/// is there once.
fn sum(text: &str, key: &str) -> Option<u32> {
    text.split('+').try_fold(0u32, |sum, part| {
        let mut pieces = part.split(':');
        let first = pieces.clone().next()?;
        let count = match whole(first) {
            Some(count) => {
                pieces.next();
                count as u32
            }
            None => 1,
        };
        let each = pieces
            .find_map(|piece| piece.strip_prefix(key)?.strip_prefix('='))
            .map_or(Some(1), |each| each.parse().ok())?;
        sum.checked_add(count.checked_mul(each)?)
            .filter(|sum| *sum <= i32::MAX as u32)
    })
}

fn chunks(text: &str) -> Option<u32> {
    sum(text, "ncpus")
}

fn nodes(text: &str) -> Option<u32> {
    sum(text, "ppn")
}

impl<'a> Collector<'a> {
    pub(super) fn new(to_unix: ToUnix<'a>) -> Collector<'a> {
        Collector {
            to_unix,
            ended: BTreeMap::new(),
            before: BTreeMap::new(),
            parts: 0,
            repeated: 0,
            words: Words::default(),
        }
    }

    /// Takes a line.
    pub(super) fn take(&mut self, line: &str) -> Result<(), String> {
        let mut parts = line.splitn(4, ';');
        let (Some(stamp), Some(kind), Some(id)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!(
                "'{}' is not a record, expected MM/DD/YYYY HH:MM:SS;type;id;key=value ...",
                shown(line)
            ));
        };
        let stamp = self.stamp(stamp)?;
        if kind.len() != 1 {
            return Err(format!(
                "the type of the record is '{}', expected one letter such as Q, S or E",
                shown(kind)
            ));
        }
        if !matches!(kind, "Q" | "S" | "E" | "D" | "A" | "R") {
            return Ok(());
        }
        // An array as a whole: its parts are jobs.
        if id.contains("[]") {
            self.parts += 1;
            return Ok(());
        }
        if kind == "E" {
            let entry = self.entry(id, &Message::new(parts.next().unwrap_or_default()))?;
            self.end(id, stamp, entry);
            return Ok(());
        }
        let before = self.before.entry(id.to_string()).or_default();
        match kind {
            "Q" => before.queued = Some(before.queued.map_or(stamp, |queued| queued.min(stamp))),
            "D" => before.gone = Some(5),
            "A" => before.gone = before.gone.or(Some(0)),
            // S and R: it may be running; its end will say more.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, id: &str, stamp: i64, entry: AccountingRecord) {
        self.before.entry(id.to_string()).or_default().ended = true;
        let key = (entry.submit, id.to_string());
        match self.ended.get_mut(&key) {
            None => {
                self.ended.insert(key, (stamp, entry));
            }
            Some(before) => {
                self.repeated += 1;
                if stamp >= before.0 {
                    *before = (stamp, entry);
                }
            }
        }
    }

    fn stamp(&self, text: &str) -> Result<i64, String> {
        let time = text.split_once(' ').and_then(|(date, clock)| {
            let [month, day, year] = three(date, '/')?;
            local([year, month, day], three(clock, ':')?, self.to_unix)
        });
        time.ok_or_else(|| {
            format!(
                "the time of the record is '{}', expected MM/DD/YYYY HH:MM:SS",
                shown(text)
            )
        })
    }

    fn entry(&mut self, id: &str, message: &Message<'_>) -> Result<AccountingRecord, String> {
        let submit = message
            .time(&["ctime", "qtime", "etime"])?
            .ok_or("ctime and qtime are missing, expected one: when the job was submitted")?;
        let start = message.time(&["start"])?;
        let end = message.time(&["end"])?;
        let walltime = message.duration("resources_used.walltime")?;
        let between = start
            .zip(end)
            .map(|(start, end)| (end - start).max(0) as f64);
        let requested = message.requested()?;
        let allocated = match message.count("resources_used.ncpus")? {
            Some(count) if count > 0 => Some(count),
            _ => requested,
        };
        let exit = |text: &str| text.parse::<i32>().ok();
        let status = match message.read("Exit_status", exit, "a whole number")? {
            Some(0) => 1,
            // 256 and the signal SIGTERM: what a deletion sends.
            Some(271) => 5,
            Some(_) => 0,
            None => -1,
        };
        let requested_memory = match message.memory("Resource_List.mem")? {
            None => message
                .memory("Resource_List.pmem")?
                .map(|each| each * f64::from(requested.unwrap_or(1))),
            some => some,
        };
        let used = message.get("resources_used.libra_progress");
        // PBS's own walltime does not count what it stood still.
        let promised = (message.get("Resource_List.libra_terms"))
            .and_then(|line| Promised::of_line(line, walltime.or(between), |_| most_used(used?)));
        let words = &mut self.words;
        let mut text = |key: &str| message.get(key).map(|word| words.keep(word));
        Ok(AccountingRecord {
            number: number(id),
            submit,
            start,
            run_time: between.or(walltime),
            allocated,
            requested: requested.or(allocated),
            cpu_time: message.duration("resources_used.cput")?,
            used_memory: message.memory("resources_used.mem")?,
            requested_time: message.duration("Resource_List.walltime")?,
            requested_memory,
            status,
            user: text("user"),
            group: text("group"),
            queue: text("queue"),
            promised,
        })
    }

    /// The jobs that have ended, in order of submission.
    pub(super) fn finish(self, left_out: &mut LeftOut) -> Vec<AccountingRecord> {
        left_out.parts += self.parts;
        left_out.repeated += self.repeated;
        let mut entries = Vec::with_capacity(self.ended.len());
        for ((_, id), (_, mut entry)) in self.ended {
            let gone = self.before.get(&id).and_then(|before| before.gone);
            // Deleted while it ran: whatever its programs made of the signal.
            if gone == Some(5) && entry.status != 1 {
                entry.status = 5;
            }
            entries.push(entry);
        }
        for (id, before) in self.before {
            match (before.ended, before.gone, before.queued) {
                (true, _, _) => {}
                (false, Some(status), Some(queued)) => entries.push(AccountingRecord {
                    number: number(&id),
                    submit: queued,
                    status,
                    ..AccountingRecord::default()
                }),
                _ => left_out.not_ended += 1,
            }
        }
        entries
    }
}

/// The number of an id such as `1234.server`.
fn number(id: &str) -> Option<u32> {
    let number = id.split('.').next().unwrap_or(id);
    let plain = number.bytes().all(|b| b.is_ascii_digit());
    number.parse().ok().filter(|_| plain)
}
