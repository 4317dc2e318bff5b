//! What a job asks PBS for, and what Libra writes in its place.

use super::{refused, text};
use libra_pbs::exec_vnode;
use libra_pbs::plain::Plain;
use libra_pbs::select::{self, ChunkGroup};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// `select`, `place` and the old ways to ask, a line each, and `exec_vnode`.
pub fn pbs_select(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let places = exec_vnode::parse(text);
    let mut known = HashSet::new();
    for (vnode, chunks) in &places {
        assert!(!vnode.is_empty() && *chunks >= 1);
        assert!(known.insert(vnode), "each once");
        let _ = exec_vnode::is_on_host(vnode, "n1");
    }
    let mut lines = text
        .lines()
        .map(|line| Some(line).filter(|l| !l.is_empty()));
    let mut next = || lines.next().flatten();
    let (select, place, ncpus, mem, nodes) = (next(), next(), next(), next(), next());
    match select::parse(select, place, ncpus, mem, nodes, &[]) {
        Ok(asked) => with_terms(&asked),
        Err(error) => refused(&error),
    }
    let plain = Plain {
        select,
        place,
        ncpus,
        mem,
        nodes,
        ..Plain::default()
    };
    for (resources, expected) in [
        (plain.outside_libra_nodes(), ("libra_node", "False")),
        (plain.best_effort(), ("ncpus", "0")),
        (plain.left_alone(), ("", "")),
    ] {
        match resources {
            Ok(resources) => without_terms(&resources, expected),
            Err(error) => refused(&error),
        }
    }
}

fn with_terms(asked: &select::Asked) {
    asked.shape.check().expect("a shape in range");
    for node in [Some("n1"), None] {
        let part = ChunkGroup {
            node,
            chunks: asked.shape.chunks,
            share: 0.5,
        };
        let resources = asked.resources(&[part], true);
        let written = resources["select"].as_str().expect("a text");
        ours(written);
        let chunks = as_pbs_reads_it(written).expect("PBS can read what is written for it");
        let [(count, _)] = &chunks[..] else {
            panic!("{} chunks in {written}", chunks.len());
        };
        assert_eq!(
            u64::from(*count),
            u64::from(asked.shape.chunks) * u64::from(asked.parts)
        );
    }
    let shape = &asked.shape;
    if let Some(fewer) = asked.with_fewer(shape.chunks, shape.processors_per_chunk) {
        // It is for copying into a shell.
        let plain = |c: char| c.is_ascii_alphanumeric() || " ._-,/:+=".contains(c);
        assert!(
            fewer.starts_with("-l ") && fewer.chars().all(plain),
            "{fewer}"
        );
        if let Some(select) = fewer.strip_prefix("-l select=") {
            as_pbs_reads_it(select).unwrap_or_else(|| panic!("PBS cannot read {select}"));
        }
    }
}

/// Every chunk that is written for a job with terms takes no processors but its share, each resource once.
pub fn ours(select: &str) {
    let chunks = as_pbs_reads_it(select).unwrap_or_else(|| panic!("PBS cannot read {select}"));
    for (_, items) in &chunks {
        once(items, select);
        let value = |key: &str| {
            items
                .iter()
                .find(|(known, _)| known == key)
                .map(|(_, v)| v.as_str())
        };
        assert_eq!(value("ncpus"), Some("0"), "{select}");
        let share: f64 = value("libra_share")
            .and_then(|v| v.parse().ok())
            .expect("a share");
        assert!((0.0..=65_536.0).contains(&share));
        assert!(
            value("vnode").is_some() || value("libra_node") == Some("True"),
            "{select}"
        );
    }
}

/// Every chunk of a job without terms has what keeps it off, or counts it; a chunk that is Libra's alone is for PBS to refuse.
fn without_terms(resources: &Map<String, Value>, (key, value): (&str, &str)) {
    let Some(written) = resources.get("select").and_then(Value::as_str) else {
        return;
    };
    // A job that PBS refuses harms nobody.
    let Some(chunks) = as_pbs_reads_it(written) else {
        return;
    };
    for (_, items) in &chunks {
        once(items, written);
        assert!(
            items
                .iter()
                .any(|item| *item == (key.to_string(), value.to_string())),
            "{key} in {written}"
        );
        let foreign = items.iter().find(|(name, _)| {
            let known = name == "libra_node" && key == name || name == "libra_besteffort";
            name.starts_with("libra_") && !known
        });
        assert_eq!(foreign, None, "{written}");
    }
}

fn once(items: &[(String, String)], select: &str) {
    for (index, (key, _)) in items.iter().enumerate() {
        assert!(
            items[..index].iter().all(|(other, _)| other != key),
            "{key} twice in {select}"
        );
    }
}

/// A chunk as PBS reads it: how many, and its resources with their values.
type ReadChunk = (u32, Vec<(String, String)>);

/// Chunks with their counts and resources, as PBS itself takes a select apart; None if it refuses it. Names of
/// resources are in small letters: PBS does not tell large ones from them.
///
/// What PBS does: a plus, or a closing parenthesis and whatever stands behind it, ends a chunk unless it is between quotes, which may
/// begin anywhere. Within a chunk only a value that begins with a quote is quoted, and it ends at the next colon behind its closing quote.
fn as_pbs_reads_it(select: &str) -> Option<Vec<ReadChunk>> {
    let mut rest = select;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let start = rest.trim_ascii_start();
        let start = start.strip_prefix('(').unwrap_or(start);
        let mut quote = None;
        let end = start.find(|c: char| {
            match quote {
                Some(open) if c == open => quote = None,
                Some(_) => {}
                None if c == '"' || c == '\'' => quote = Some(c),
                None => return c == '+' || c == ')',
            }
            false
        });
        let (text, behind) = start.split_at(end.unwrap_or(start.len()));
        // The character behind a parenthesis is taken for the plus.
        let skipped = if behind.starts_with(')') { 2 } else { 1 };
        rest = behind
            .char_indices()
            .nth(skipped)
            .map_or("", |(at, _)| &behind[at..]);
        chunks.push(chunk(text)?);
    }
    Some(chunks)
}

fn chunk(text: &str) -> Option<(u32, Vec<(String, String)>)> {
    let text = text.trim_ascii_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, mut rest) = match digits {
        0 => (1, text),
        _ => {
            let behind = text[digits..].trim_ascii_start();
            if !behind.is_empty() && !behind.starts_with(':') {
                return None;
            }
            (
                text[..digits].parse().ok()?,
                behind.strip_prefix(':').unwrap_or(""),
            )
        }
    };
    let mut items = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some((count, items));
        }
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let (key, value) = rest.split_once('=')?;
        let key = key.trim_ascii_end();
        if key.contains(|c: char| c.is_ascii_whitespace()) {
            return None;
        }
        let value = value.trim_ascii_start();
        let (value, behind) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let (inner, behind) = value[1..].split_once(quote)?;
                let (more, behind) = behind.split_once(':').unwrap_or((behind, ""));
                (format!("{inner}{more}"), behind)
            }
            _ => {
                let (value, behind) = value.split_once(':').unwrap_or((value, ""));
                (value.to_string(), behind)
            }
        };
        items.push((key.to_ascii_lowercase(), value.trim_ascii_end().to_string()));
        rest = behind;
    }
}
