//! What a job asks PBS for, as a decision needs it, and what it gets, as PBS needs it.
//!
//! A job with terms asks for chunks that are all alike: `select=2:ncpus=4:mem=1gb`. Of each chunk `ncpus`
//! and `mem` are judged; `mpiprocs` and `ompthreads` are passed on; anything else (`ngpus=1`, `host=n1`,
//! `bigmem=True`) is an amount or a condition, by PBS's definition of it ([`super::resources`]).

use libra_core::decision::job::{OutOfRange, Shape};
use libra_units::{cut, memory};
use libra_wording::refusal::out_of_range;
use serde_json::{Map, Value};
use std::fmt::Write;

/// What a job asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Chunks as they are judged; packed ones are one chunk.
    pub shape: Shape,
    /// Chunks as PBS sees them: into so many each judged chunk is split.
    pub parts: u32,
    /// MPI processes of each of PBS's chunks.
    pub mpiprocs: u32,
    /// Threads of each of them.
    pub ompthreads: u32,
    /// What else each of PBS's chunks asks for: resource and value.
    pub conditions: Vec<(String, String)>,
    /// Resources of the job that stand in its chunks from now on.
    pub moved: Vec<String>,
    /// It came as `select`, not as `ncpus` and `mem`.
    pub by_select: bool,
}

/// Why it cannot be taken; a text for the user.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotAsked {
    /// Something of the request.
    #[error("{0}")]
    Text(String),
    /// Something that PBS refuses as well, in its own words.
    #[error("{0}")]
    NorByPbs(String),
    /// A count is out of range.
    #[error("{}", out_of_range(.0))]
    OutOfRange(OutOfRange),
}

impl From<OutOfRange> for NotAsked {
    fn from(error: OutOfRange) -> NotAsked {
        NotAsked::OutOfRange(error)
    }
}

fn no<T>(text: impl Into<String>) -> Result<T, NotAsked> {
    Err(NotAsked::Text(text.into()))
}

/// The same of a word that PBS does not take either. It passes over some parentheses and quotes: with them nobody knows.
fn nor_by_pbs<T>(word: &str, text: String) -> Result<T, NotAsked> {
    match word.contains(['(', ')', '"', '\'']) {
        true => no(text),
        false => Err(NotAsked::NorByPbs(text)),
    }
}

/// Reads what a job asks for.
///
/// `select` and `place` as PBS has them; `ncpus`, `mem`, `nodes` and what else chunks ask for (`more`: `-l ngpus=1`) are asked for instead
/// of `select` by old scripts.
///
/// # Errors
/// A text for the user.
pub fn parse(
    select: Option<&str>,
    place: Option<&str>,
    ncpus: Option<&str>,
    mem: Option<&str>,
    nodes: Option<&str>,
    more: &[(String, String)],
) -> Result<Asked, NotAsked> {
    if select.is_none() && nodes.is_some() {
        return no(
            "'-l nodes=' is the old way to ask; with a deadline write '-l select=CHUNKS:ncpus=N'",
        );
    }
    let mut plain = String::from("1");
    if let Some(ncpus) = ncpus {
        let _ = write!(plain, ":ncpus={ncpus}");
    }
    if let Some(mem) = mem {
        let _ = write!(plain, ":mem={mem}");
    }
    for (key, value) in more {
        let _ = write!(plain, ":{key}={}", quoted(value));
    }
    let mut asked = chunks(select.unwrap_or(&plain))?;
    asked.moved = match select {
        // PBS says itself that it takes only one of the two.
        Some(_) => Vec::new(),
        None => more.iter().map(|(key, _)| key.clone()).collect(),
    };
    // Nobody who asked for nothing is told of another option than the usual one.
    asked.by_select = select.is_some() || (ncpus.is_none() && mem.is_none());
    for word in place.unwrap_or("free").split(':') {
        match word.trim() {
            "" | "free" | "shared" => {}
            "scatter" | "vscatter" => asked.shape.scatter = true,
            "pack" => pack(&mut asked)?,
            word @ ("excl" | "exclhost") => {
                return no(format!(
                    "a job with a deadline shares its processors with others, '-l place={word}' keeps them to itself; \
                     leave that out, or the deadline"
                ));
            }
            other => {
                return no(format!(
                    "'-l place={}' cannot be combined with a deadline; use free, pack or scatter",
                    cut(other)
                ));
            }
        }
    }
    asked.shape.check()?;
    Ok(asked)
}

/// All chunks on one node are one chunk to a decision.
fn pack(asked: &mut Asked) -> Result<(), NotAsked> {
    let shape = &mut asked.shape;
    asked.parts = shape.chunks;
    let processors = shape.processors_per_chunk.checked_mul(shape.chunks);
    let memory = shape.memory_per_chunk.checked_mul(u64::from(shape.chunks));
    match (processors, memory) {
        (Some(processors), Some(memory)) => {
            *shape = Shape {
                chunks: 1,
                processors_per_chunk: processors,
                memory_per_chunk: memory,
                scatter: false,
                ..Shape::default()
            };
            Ok(())
        }
        _ => no("it asks for more processors than any node has"),
    }
}

fn chunks(select: &str) -> Result<Asked, NotAsked> {
    let mut first: Option<(u32, Vec<(String, String)>)> = None;
    for part in split_quoted(select, '+') {
        let (count, items) = chunk(part.trim())?;
        match &mut first {
            None => first = Some((count, items)),
            Some((total, known)) if *known == items => *total = total.saturating_add(count),
            Some(_) => {
                return no(format!(
                    "the chunks of a job with a deadline are all alike, those of '{}' are not; submit a job for each kind",
                    cut(select)
                ));
            }
        }
    }
    let Some((chunks, items)) = first else {
        return no("select is empty");
    };
    let mut asked = Asked {
        shape: Shape {
            chunks,
            ..Shape::default()
        },
        parts: 1,
        mpiprocs: 0,
        ompthreads: 0,
        conditions: Vec::new(),
        moved: Vec::new(),
        by_select: true,
    };
    let mut processors = None;
    for (key, value) in items {
        match key.as_str() {
            "ncpus" => processors = Some(count(&key, &value)?),
            "mem" => asked.shape.memory_per_chunk = bytes(&value)?,
            "mpiprocs" => asked.mpiprocs = count(&key, &value)?,
            "ompthreads" => asked.ompthreads = count(&key, &value)?,
            _ => asked.conditions.push((key, value)),
        }
    }
    asked.shape.processors_per_chunk = processors.unwrap_or(asked.mpiprocs.max(1));
    if asked.mpiprocs == 0 {
        asked.mpiprocs = 1;
    }
    if asked.ompthreads == 0 {
        // As PBS does: threads for the processors that no process was asked for.
        asked.ompthreads = (asked.shape.processors_per_chunk / asked.mpiprocs).max(1);
    }
    Ok(asked)
}

/// Resources that mean something here, in small letters.
const KNOWN: [&str; 6] = ["ncpus", "mem", "mpiprocs", "ompthreads", "host", "vnode"];

/// Most resources of one chunk: each is compared with all others.
const MOST_RESOURCES: usize = 64;

const QUOTES: [char; 2] = ['"', '\''];

pub(super) fn chunk(text: &str) -> Result<(u32, Vec<(String, String)>), NotAsked> {
    let mut count_of = 1;
    let mut items = Vec::new();
    let mut spelled = Vec::new();
    for (index, item) in split_quoted(text, ':').into_iter().enumerate() {
        match item.split_once('=') {
            None if index == 0 => count_of = count("select", item.trim())?,
            None => {
                let text = format!(
                    "'{}' in select is not of the form resource=value",
                    cut(item)
                );
                return nor_by_pbs(item, text);
            }
            Some((typed, value)) => {
                let typed = typed.trim();
                let key = name(typed)?;
                if key.starts_with("libra_") {
                    return no(format!(
                        "{} is written by Libra; leave it out of '-l select'",
                        cut(&key)
                    ));
                }
                let value = plain(value.trim())?.to_string();
                let is_key = |(known, _): &(String, String)| known.eq_ignore_ascii_case(&key);
                if items.iter().any(is_key) {
                    let text = format!("'{}' is there twice in one chunk of select", cut(&key));
                    return match spelled.contains(&typed) {
                        true => nor_by_pbs(typed, text),
                        // PBS takes them for two here, and for one later.
                        false => no(text),
                    };
                }
                if items.len() >= MOST_RESOURCES {
                    return no(format!(
                        "a chunk of select names more than {MOST_RESOURCES} resources"
                    ));
                }
                items.push((key, value));
                spelled.push(typed);
            }
        }
    }
    items.sort();
    Ok((count_of, items))
}

/// The name of a resource. PBS does not tell capitals from small letters: neither must what is refused or counted here.
fn name(text: &str) -> Result<String, NotAsked> {
    let text = text.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) || !text.chars().all(plain) {
        return nor_by_pbs(text, format!("'{}' in select is not a resource", cut(text)));
    }
    let lower = text.to_ascii_lowercase();
    match lower.starts_with("libra_") || KNOWN.contains(&lower.as_str()) {
        true => Ok(lower),
        false => Ok(text.to_string()),
    }
}

/// A value, without the quotes around it. PBS takes a quote for one only where the value begins, and a parenthesis for the end of a
/// chunk: with either in it, it would read other resources than are seen here.
fn plain(value: &str) -> Result<&str, NotAsked> {
    let quote = value.chars().next().filter(|c| QUOTES.contains(c));
    let inner = match quote {
        Some(quote) => value[1..].strip_suffix(quote),
        None => Some(value).filter(|value| !value.contains(['(', ')'])),
    };
    match inner {
        Some(inner) if !inner.contains(QUOTES) && !inner.contains(char::is_control) => Ok(inner),
        _ => no(format!(
            "'{}' in select is not a value: quotes stand around all of it, and parentheses between quotes",
            cut(value)
        )),
    }
}

/// Splits where the separator is not within quotes.
pub(super) fn split_quoted(text: &str, separator: char) -> Vec<&str> {
    let mut quote = None;
    text.split(|c: char| {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None => return c == separator,
        }
        false
    })
    .collect()
}

fn count(key: &str, value: &str) -> Result<u32, NotAsked> {
    match value.parse::<u32>() {
        Ok(0) | Err(_) => nor_by_pbs(
            value,
            format!(
                "{key} is '{}', expected a whole number, 1 or more",
                cut(value)
            ),
        ),
        Ok(count) => Ok(count),
    }
}

/// As [`count`], 0 allowed.
pub(super) fn whole(key: &str, value: &str) -> Result<u32, NotAsked> {
    value.parse().or_else(|_| count(key, value))
}

fn bytes(value: &str) -> Result<u64, NotAsked> {
    memory::parse(value).map_err(|error| NotAsked::Text(format!("mem: {error}")))
}

/// A part of an accepted job, for `select`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkGroup<'a> {
    /// Vnode that it must be on; None if PBS may choose among Libra's nodes.
    pub node: Option<&'a str>,
    /// Chunks as judged.
    pub chunks: u32,
    /// Share of each slot, in processors.
    pub share: f64,
}

impl Asked {
    /// The job's new resources: the same job, on its nodes, with its shares in place of whole processors.
    ///
    /// `count_share`: the nodes' `libra_share` is used up by it, so that PBS itself does not over-commit
    /// them. Rounded down to 4 digits: sums stay below what a node has, and PBS itself tells its scheduler how much
    /// of a node is taken in 4 digits.
    pub fn resources(&self, parts: &[ChunkGroup<'_>], count_share: bool) -> Map<String, Value> {
        let mut resources = Map::new();
        let select: Vec<String> = parts
            .iter()
            .map(|part| self.chunk(part, count_share))
            .collect();
        resources.insert("select".to_string(), select.join("+").into());
        let place = match (self.parts > 1, self.shape.scatter) {
            (true, _) => "pack",
            (false, true) => "scatter",
            (false, false) => "free",
        };
        resources.insert("place".to_string(), format!("{place}:shared").into());
        resources
    }

    /// The options of qsub that ask for the same job in so many chunks of so many processors each, memory and conditions as they
    /// were; None if it cannot be asked for so.
    pub fn with_fewer(&self, chunks: u32, processors: u32) -> Option<String> {
        let parts = self.parts.max(1);
        if processors % parts != 0 {
            return None;
        }
        let each = processors / parts;
        if !self.by_select {
            let plain = chunks == 1 && parts == 1 && self.conditions.is_empty();
            return plain.then(|| format!("-l ncpus={each}"));
        }
        let mut select = format!(
            "-l select={}:ncpus={each}",
            u64::from(chunks) * u64::from(parts)
        );
        if self.shape.memory_per_chunk > 0 {
            let memory = self.shape.memory_per_chunk / u64::from(parts);
            let _ = write!(select, ":mem={memory}b");
        }
        if self.mpiprocs > 1 {
            // Fewer processes, each with the threads that it had.
            if each % self.ompthreads != 0 {
                return None;
            }
            let _ = write!(select, ":mpiprocs={}", each / self.ompthreads);
            if self.ompthreads > 1 {
                let _ = write!(select, ":ompthreads={}", self.ompthreads);
            }
        }
        for (key, value) in &self.conditions {
            // What a shell would read is not for copying.
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-,/".contains(c);
            if !value.chars().all(plain) {
                return None;
            }
            let _ = write!(select, ":{key}={value}");
        }
        Some(select)
    }

    /// Returns true if it asks for processors and nothing else.
    pub fn is_processors_alone(&self) -> bool {
        let plain = self.parts <= 1 && self.mpiprocs <= 1 && self.conditions.is_empty();
        plain && self.by_select && self.shape.memory_per_chunk == 0
    }

    fn share(&self, part: &ChunkGroup<'_>, count_share: bool) -> f64 {
        let slots = self.shape.processors_per_chunk / self.parts.max(1);
        match count_share {
            true => ((part.share * f64::from(slots)) * 1e4 + 1e-6).floor() / 1e4,
            false => 0.0,
        }
    }

    fn chunk(&self, part: &ChunkGroup<'_>, count_share: bool) -> String {
        let mut chunk = format!(
            "{}:ncpus=0:mpiprocs={}:ompthreads={}:libra_share={}",
            part.chunks * self.parts.max(1),
            self.mpiprocs,
            self.ompthreads,
            self.share(part, count_share),
        );
        if self.shape.memory_per_chunk > 0 {
            let each = self.shape.memory_per_chunk / u64::from(self.parts.max(1));
            // Writing to a String does not fail.
            let _ = write!(chunk, ":mem={each}b");
        }
        for (key, value) in &self.conditions {
            if part.node.is_none() || (key != "host" && key != "vnode") {
                let _ = write!(chunk, ":{key}={}", quoted(value));
            }
        }
        let _ = match part.node {
            Some(node) => write!(chunk, ":vnode={node}"),
            None => write!(chunk, ":libra_node=True"),
        };
        chunk
    }
}

/// A value that would be read as something else stands in quotes.
pub(super) fn quoted(value: &str) -> String {
    match value.contains(|c: char| !c.is_ascii_alphanumeric() && !"._-,/=[]@".contains(c)) {
        true => format!("\"{value}\""),
        false => value.to_string(),
    }
}
