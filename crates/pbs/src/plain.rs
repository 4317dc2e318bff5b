//! What a job without terms asks PBS for, and what it asks for on Libra's nodes.

use super::nodes::Converted;
use super::select::{NotAsked, chunk, quoted, split_quoted, whole};
use serde_json::{Map, Value};
use std::fmt::Write;

/// What a job without terms asked for, as far as it matters here.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Plain<'a> {
    /// `select`.
    pub select: Option<&'a str>,
    /// `place`.
    pub place: Option<&'a str>,
    /// Asked for instead of `select`.
    pub ncpus: Option<&'a str>,
    /// The same, the oldest way.
    pub nodes: Option<&'a str>,
    /// What PBS makes of `nodes`; None if only PBS knows.
    pub converted: Option<&'a Converted>,
    /// Of the whole job.
    pub mem: Option<&'a str>,
    /// Names of other resources of the whole job that PBS would put into its chunks.
    pub others: &'a [String],
}

/// How a job without terms asks.
enum Way<'a> {
    /// By chunks, in these words; where it has no `place`, with this one.
    Chunks(&'a str, Option<&'static str>),
    /// By `ncpus`, or not at all.
    Processors,
    /// In a way of which only PBS knows what it is, or whether it is one.
    Pbs,
}

impl<'a> Plain<'a> {
    /// Held off Libra's nodes.
    ///
    /// # Errors
    /// A text for the user.
    pub fn outside_libra_nodes(&self) -> Result<Map<String, Value>, NotAsked> {
        let mut resources = Map::new();
        let Way::Chunks(select, place) = self.way() else {
            resources.insert("libra_node".to_string(), false.into());
            return Ok(resources);
        };
        check_chunks(select)?;
        let chunks: Vec<String> = (split_quoted(select, '+').into_iter())
            .map(|chunk| format!("{chunk}:libra_node=False"))
            .collect();
        resources.insert("select".to_string(), chunks.join("+").into());
        resources.extend(place.map(|place| ("place".to_string(), place.into())));
        Ok(resources)
    }

    /// On Libra's nodes beside the jobs with terms: its processors are counted by a resource of their own.
    /// Were they `ncpus`, PBS would call a node busy that still has shares to give. What PBS would refuse is left to it, and so to its words.
    ///
    /// # Errors
    /// A text for the user, who asks for what Libra alone gives.
    pub fn best_effort(&self) -> Result<Map<String, Value>, NotAsked> {
        // Whole nodes for itself: PBS gives it some when they are empty, and Libra commits nothing of them meanwhile.
        if self.place.unwrap_or_default().contains("excl") {
            return self.left_alone();
        }
        let mut resources = Map::new();
        match self.way() {
            Way::Chunks(select, place) => {
                let beside = match beside_others(select) {
                    Err(NotAsked::NorByPbs(_)) => return self.left_alone(),
                    beside => beside?,
                };
                resources.insert("select".to_string(), beside.into());
                resources.extend(place.map(|place| ("place".to_string(), place.into())));
            }
            Way::Processors => {
                let ncpus = self.ncpus.map_or(Ok(1), |ncpus| whole("ncpus", ncpus));
                let Some(processors) = ncpus.ok().filter(|processors| *processors > 0) else {
                    return self.left_alone();
                };
                resources.insert("ncpus".to_string(), 0.into());
                resources.insert("libra_besteffort".to_string(), processors.into());
                for (name, value) in [("mpiprocs", 1), ("ompthreads", processors)] {
                    if !self.others.iter().any(|other| other == name) {
                        resources.insert(name.to_string(), value.into());
                    }
                }
            }
            Way::Pbs => return self.left_alone(),
        }
        Ok(resources)
    }

    /// Processors that it asks for in all; None if only PBS knows.
    pub fn processors(&self) -> Option<u32> {
        if self.place.unwrap_or_default().contains("excl") {
            return None;
        }
        match self.way() {
            Way::Chunks(select, _) => {
                let mut all = 0u32;
                for text in split_quoted(select, '+') {
                    let (count, items) = chunk(text.trim()).ok()?;
                    let each = processors_of(&items).ok()?;
                    all = all.saturating_add(count.saturating_mul(each));
                }
                Some(all)
            }
            Way::Processors => self.ncpus.map_or(Some(1), |ncpus| ncpus.parse().ok()),
            Way::Pbs => None,
        }
    }

    /// As it is, if it asks for nothing that Libra gives.
    ///
    /// # Errors
    /// A text for the user.
    pub fn left_alone(&self) -> Result<Map<String, Value>, NotAsked> {
        let select = self.select.unwrap_or("1");
        match check_chunks(select) {
            // Behind what PBS refuses nothing was read.
            Err(NotAsked::NorByPbs(_)) if !select.to_ascii_lowercase().contains("libra_") => {}
            checked => checked?,
        }
        Ok(Map::new())
    }

    fn way(&self) -> Way<'a> {
        let old = [self.ncpus, self.mem, self.nodes];
        match (self.select, self.nodes) {
            // PBS takes one way to ask or the other, and says so itself.
            (Some(_), _) if old.iter().any(Option::is_some) => Way::Pbs,
            (Some(select), _) => Way::Chunks(select, None),
            // Nor does it take a place without a select.
            _ if self.place.is_some() => Way::Pbs,
            (None, None) => Way::Processors,
            // Other resources would be refused beside the select that it becomes.
            (None, Some(_)) if !self.others.is_empty() => Way::Pbs,
            (None, Some(_)) => self.converted.map_or(Way::Pbs, |converted| {
                Way::Chunks(&converted.select, Some(converted.place))
            }),
        }
    }
}

/// Processors of a chunk of a job without terms: PBS gives one to those that do not say.
fn processors_of(items: &[(String, String)]) -> Result<u32, NotAsked> {
    let ncpus = items.iter().find(|(key, _)| key == "ncpus");
    ncpus.map_or(Ok(1), |(key, ncpus)| whole(key, ncpus))
}

/// A select with its processors under the name by which they are counted apart. Processes and threads are as PBS derives them from `ncpus`.
fn beside_others(select: &str) -> Result<String, NotAsked> {
    let mut chunks = Vec::new();
    for text in split_quoted(select, '+') {
        let (count_of, items) = chunk(text.trim())?;
        let processors = processors_of(&items)?;
        let mut chunk = format!("{count_of}:ncpus=0");
        if processors > 0 {
            let _ = write!(chunk, ":libra_besteffort={processors}");
            for (key, derived) in [("mpiprocs", 1), ("ompthreads", processors)] {
                if !items.iter().any(|(known, _)| known == key) {
                    let _ = write!(chunk, ":{key}={derived}");
                }
            }
        }
        for (key, value) in items.iter().filter(|(key, _)| key != "ncpus") {
            let _ = write!(chunk, ":{key}={}", quoted(value));
        }
        chunks.push(chunk);
    }
    Ok(chunks.join("+"))
}

/// Checks that every chunk can be read.
fn check_chunks(select: &str) -> Result<(), NotAsked> {
    (split_quoted(select, '+').into_iter()).try_for_each(|text| chunk(text.trim()).map(|_| ()))
}
