//! What PBS knows of its resources: their types, and where their amounts are used up.
//!
//! A number that PBS counts (flags `n`, `f`, `q`) is judged by amount and kept in the book; one that it does not count is only compared; text and
//! truth are compared for equality. A resource of flag `f` is used by a job's first chunk alone: the book counts it for every
//! chunk, which promises no more than there is.

use super::select::NotAsked;
use libra_core::decision::consumable::{Consumable, Scope, Unit};
use libra_units::{cut, memory};
use serde_json::Value;
use std::collections::HashMap;

/// Most of a resource of type float, of which a u64 holds all millionths.
const LARGEST_FLOAT: f64 = 1e12;

/// The type of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `long`, `size` and `float`: compared by amount.
    Number(Unit),
    /// `boolean`; one that is not set is False.
    Truth,
    /// `string` and `string_array`: compared for equality.
    Text,
}

/// One resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Its type.
    pub kind: Kind,
    /// Chunks ask for it (flag `h`).
    pub of_chunks: bool,
    /// Jobs use it up on nodes (flags `n` and `f`).
    pub used_on_nodes: bool,
    /// Jobs use it up on the server (flag `q`).
    pub used_on_server: bool,
}

impl Definition {
    const fn new(kind: Kind, flags: &str) -> Definition {
        let flags = flags.as_bytes();
        let mut definition = Definition {
            kind,
            of_chunks: false,
            used_on_nodes: false,
            used_on_server: false,
        };
        let mut index = 0;
        while index < flags.len() {
            match flags[index] {
                b'h' => definition.of_chunks = true,
                b'n' | b'f' => definition.used_on_nodes = true,
                b'q' => definition.used_on_server = true,
                _ => {}
            }
            index += 1;
        }
        definition
    }
}

/// PBS's own, without those that mean something else here (ncpus, mem, mpiprocs, ompthreads), and those that are no reason to run or not to run.
const BUILT_IN: [(&str, Definition); 14] = [
    (
        "naccelerators",
        Definition::new(Kind::Number(Unit::Whole), "hnq"),
    ),
    ("vmem", Definition::new(Kind::Number(Unit::Bytes), "hnq")),
    ("hbmem", Definition::new(Kind::Number(Unit::Bytes), "hnq")),
    (
        "accelerator_memory",
        Definition::new(Kind::Number(Unit::Bytes), "hnq"),
    ),
    ("hpm", Definition::new(Kind::Number(Unit::Whole), "q")),
    ("arch", Definition::new(Kind::Text, "h")),
    ("host", Definition::new(Kind::Text, "h")),
    ("vnode", Definition::new(Kind::Text, "h")),
    ("vntype", Definition::new(Kind::Text, "h")),
    ("aoe", Definition::new(Kind::Text, "h")),
    ("eoe", Definition::new(Kind::Text, "h")),
    ("accelerator", Definition::new(Kind::Truth, "h")),
    ("accelerator_model", Definition::new(Kind::Text, "h")),
    ("accelerator_group", Definition::new(Kind::Text, "h")),
];

/// Those of Libra and those that a decision counts otherwise.
fn is_counted_otherwise(name: &str) -> bool {
    name.starts_with("libra_") || matches!(name, "ncpus" | "mem" | "mpiprocs" | "ompthreads")
}

/// All that are known, by their names in small letters: PBS does not tell capitals from them.
#[derive(Debug, Clone)]
pub struct Definitions(HashMap<String, (String, Definition)>);

impl Default for Definitions {
    fn default() -> Definitions {
        let built_in =
            (BUILT_IN.iter()).map(|(name, of)| (name.to_string(), (name.to_string(), *of)));
        Definitions(built_in.collect())
    }
}

impl Definitions {
    /// PBS's own and those of an event: `{"ngpus": ["long", "hn"]}`. Of a type that is not known (a new PBS) is compared as text.
    pub fn read(definitions: &Value) -> Definitions {
        let mut all = Definitions::default();
        for (name, definition) in definitions.as_object().into_iter().flatten() {
            let part = |index: usize| definition[index].as_str().unwrap_or_default();
            let kind = match part(0) {
                "long" => Kind::Number(Unit::Whole),
                "size" => Kind::Number(Unit::Bytes),
                "float" => Kind::Number(Unit::Millionths),
                "boolean" => Kind::Truth,
                _ => Kind::Text,
            };
            let definition = Definition::new(kind, part(1));
            (all.0).insert(name.to_ascii_lowercase(), (name.clone(), definition));
        }
        all
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<Definition> {
        Some(self.0.get(name.to_ascii_lowercase().as_str())?.1)
    }

    /// A name as PBS itself spells it: its scheduler passes over jobs that spell it otherwise.
    pub fn spelled<'a>(&'a self, name: &'a str) -> &'a str {
        let known = self.0.get(name.to_ascii_lowercase().as_str());
        known.map_or(name, |(spelled, _)| spelled)
    }

    /// What is used up of a resource that is counted there; None if it is not.
    pub fn consumable(&self, name: &str, scope: Scope) -> Option<Consumable> {
        let name = name.to_ascii_lowercase();
        let definition = self.get(&name)?;
        let counted = match scope {
            Scope::Node => definition.used_on_nodes,
            Scope::Cluster => definition.used_on_server,
        };
        match definition.kind {
            Kind::Number(unit) if counted && !is_counted_otherwise(&name) => {
                Consumable::new(&name, unit, scope)
            }
            _ => None,
        }
    }

    /// What there is of each that is counted there, of the resources of a node or of the server; and what cannot be read.
    pub fn amounts(
        &self,
        resources: &Value,
        scope: Scope,
    ) -> (Vec<(Consumable, u64)>, Vec<String>) {
        let (mut amounts, mut problems) = (Vec::new(), Vec::new());
        for (name, value) in resources.as_object().into_iter().flatten() {
            let Some(what) = self.consumable(name, scope) else {
                continue;
            };
            match amount(what.unit(), value.as_str().unwrap_or_default()) {
                Ok(some) => amounts.push((what, some)),
                Err(expected) => problems.push(format!(
                    "{name} is '{}', expected {expected}: none of it is given out",
                    cut(value.as_str().unwrap_or_default())
                )),
            }
        }
        (amounts, problems)
    }
}

/// Reads an amount.
///
/// # Errors
/// What was expected.
pub fn amount(unit: Unit, text: &str) -> Result<u64, &'static str> {
    let text = text.trim();
    match unit {
        Unit::Whole => text.parse().map_err(|_| "a whole number, 0 or more"),
        Unit::Bytes => memory::parse(text).map_err(|_| "a size, such as 512mb or 4gb"),
        Unit::Millionths => (text.parse::<f64>().ok())
            .filter(|number| (0.0..=LARGEST_FLOAT).contains(number))
            .map(|number| (number * 1e6).round() as u64)
            .ok_or("a number, 0 or more"),
    }
}

/// A number that a job asks for.
///
/// # Errors
/// A text for the user.
pub fn asked(name: &str, unit: Unit, text: &str) -> Result<u64, NotAsked> {
    amount(unit, text).map_err(|expected| {
        NotAsked::Text(format!("{name} is '{}', expected {expected}", cut(text)))
    })
}

/// A value of type boolean, as PBS reads it.
pub fn truth(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_and_flags_say_what_is_counted_where() {
        let all = Definitions::read(&json!({"ngpus": ["long", "hn"], "Lic": ["long", "q"],
            "part": ["float", "fh"], "color": ["string", "h"], "level": ["long", "h"]}));
        let unit = |name, scope| all.consumable(name, scope).map(Consumable::unit);
        assert_eq!(unit("NGPUS", Scope::Node), Some(Unit::Whole));
        assert_eq!(unit("ngpus", Scope::Cluster), None);
        assert_eq!(unit("lic", Scope::Cluster), Some(Unit::Whole));
        assert_eq!(unit("part", Scope::Node), Some(Unit::Millionths));
        for name in ["color", "level", "mem", "ncpus", "nothing"] {
            assert_eq!(unit(name, Scope::Node), None, "{name}");
        }
        assert_eq!(unit("vmem", Scope::Node), Some(Unit::Bytes));
        let (amounts, problems) = all.amounts(
            &json!({"ngpus": "@n1", "part": "1.5", "color": "red"}),
            Scope::Node,
        );
        assert_eq!(amounts[0].1, 1_500_000);
        assert!(
            problems[0].starts_with("ngpus is '@n1', expected a whole number"),
            "{problems:?}"
        );
    }
}
