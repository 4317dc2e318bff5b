//! Generic resources (GRES) of nodes and licences of the cluster: as Slurm writes them, and as the book counts them.
//!
//! - A GRES counts on its node by its name, `gpu`, and where it has a type by both as well, `gpu:tesla`. A job that names the type uses up one
//!   of each.
//! - Of a job that names no type Slurm chooses one when it starts. So it is promised nodes alone on which those of that name are of one
//!   type ([`OnNode::mixed`]).
//! - What no number says how much of it is there, or what several jobs share (`no_consume`, `shard`, `mps`), is not counted and not promised.

use libra_core::decision::consumable::{Amounts, Consumable, Scope, Unit};
use std::collections::HashMap;

/// Parts of GPUs, which several jobs share.
const SHARED: [&str; 2] = ["shard", "mps"];

/// Some of a GRES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gres {
    /// Its name: `gpu`.
    pub name: String,
    /// Its type.
    pub kind: Option<String>,
    /// How many.
    pub count: u64,
}

impl Gres {
    /// Those of a node, or that a job has on one: `gpu:tesla:2(S:0-1),tape:4`, `gpu:tesla:1(IDX:0),tape(CNT:2)`. What is not counted is left out.
    pub fn list(text: &str) -> Vec<Gres> {
        parts(text).into_iter().filter_map(Gres::of).collect()
    }

    /// One of them.
    pub(super) fn of(part: &str) -> Option<Gres> {
        let (head, more) = part.split_once('(').unwrap_or((part, ""));
        let in_brackets = (more.strip_prefix("CNT:")).and_then(|more| more.split(')').next());
        // gpu:(null):1(IDX:0)
        let (head, more) = match more.strip_prefix("null):") {
            Some(rest) => (head, rest.split('(').next().unwrap_or_default()),
            None => (head, ""),
        };
        let words: Vec<&str> = (head.split(':').chain([more]))
            .filter(|word| !word.is_empty())
            .collect();
        let gres = match (words.as_slice(), in_brackets.map(number)) {
            (_, Some(None)) => return None,
            ([name], Some(Some(count))) => (*name, None, count),
            ([name, kind], Some(Some(count))) => (*name, Some(*kind), count),
            ([name], None) => (*name, None, 1),
            ([name, last], None) => match number(last) {
                Some(count) => (*name, None, count),
                None => (*name, Some(*last), 1),
            },
            ([name, kind, count], None) => (*name, Some(*kind), number(count)?),
            _ => return None,
        };
        let (name, kind, count) = gres;
        let counted = !SHARED.contains(&name) && kind != Some("no_consume");
        (counted && is_name(name) && kind.is_none_or(is_name)).then(|| Gres {
            name: name.to_string(),
            kind: kind.map(str::to_string),
            count,
        })
    }

    /// What of the book it is by its type.
    fn by_type(&self) -> Option<(Consumable, u64)> {
        let name = typed(&self.name, self.kind.as_ref()?);
        Some((
            Consumable::new(&name, Unit::Whole, Scope::Node)?,
            self.count,
        ))
    }

    /// And by its name.
    fn by_name(&self) -> Option<(Consumable, u64)> {
        let what = Consumable::new(&self.name, Unit::Whole, Scope::Node)?;
        Some((what, self.count))
    }
}

/// GRES of a node, as the book counts them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OnNode {
    /// How much there is.
    pub has: Vec<(Consumable, u64)>,
    /// Names of which it has several types.
    pub mixed: Vec<Consumable>,
}

impl OnNode {
    /// Of all of them.
    pub fn of(all: &[Gres]) -> OnNode {
        let mut kinds: HashMap<&str, &Option<String>> = HashMap::new();
        let mut node = OnNode {
            has: sums(all),
            mixed: Vec::new(),
        };
        for gres in all.iter().filter(|gres| gres.count > 0) {
            let known = kinds.entry(&gres.name).or_insert(&gres.kind);
            if **known != gres.kind {
                node.mixed
                    .extend(Consumable::new(&gres.name, Unit::Whole, Scope::Node));
            }
        }
        node
    }

    /// How much of it there is.
    pub fn amount(&self, what: Consumable) -> u64 {
        let known = self.has.iter().find(|(known, _)| *known == what);
        known.map_or(0, |(_, amount)| *amount)
    }
}

/// Each with its sum.
pub fn sums(all: &[Gres]) -> Vec<(Consumable, u64)> {
    let mut sums = Vec::new();
    // Where both are short the book names the one that was named first: the type says more.
    let types = all.iter().filter_map(Gres::by_type);
    for (what, amount) in types.chain(all.iter().filter_map(Gres::by_name)) {
        add(&mut sums, what, amount);
    }
    sums
}

/// Adds to the sum of its sort.
pub fn add(sums: &mut Vec<(Consumable, u64)>, what: Consumable, amount: u64) {
    match sums.iter_mut().find(|(known, _)| *known == what) {
        Some((_, sum)) => *sum = sum.saturating_add(amount),
        None => sums.push((what, amount)),
    }
}

/// Of those that a job asks for on each node the ones of which it names no type.
pub fn untyped(amounts: &Amounts) -> Vec<Consumable> {
    let by_name = |what: Consumable| {
        let typed = amounts.counted(Scope::Node).filter(move |(other, _)| {
            (other.name().split_once(':')).is_some_and(|(name, _)| name == what.name())
        });
        typed.map(|(_, amount)| amount).sum::<u64>()
    };
    let names = (amounts.counted(Scope::Node)).filter(|(what, _)| !what.name().contains(':'));
    names
        .filter(|(what, amount)| *amount > by_name(*what))
        .map(|(what, _)| what)
        .collect()
}

/// Licences: `matlab:4,ansys`; None if they cannot be read.
pub fn licenses(text: &str) -> Option<Vec<(String, u64)>> {
    let one = |part: &str| {
        let (name, count) = match part.split_once([':', '*']) {
            Some((name, count)) => (name, count.parse().ok()?),
            None => (part, 1),
        };
        is_name(name).then(|| (name.to_string(), count))
    };
    let all = text.split([',', ';']).map(str::trim);
    all.filter(|part| !part.is_empty()).map(one).collect()
}

/// A licence, as the book counts it.
pub fn license(name: &str) -> Option<Consumable> {
    Consumable::new(name, Unit::Whole, Scope::Cluster)
}

/// What a job asks for in its words, as Slurm has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GresAsked {
    /// `--gres`, `--gpus-per-node`
    pub per_node: Option<String>,
    /// `--gpus`
    pub per_job: Option<String>,
    /// `--gpus-per-task`
    pub per_task: Option<String>,
}

/// The name in the book of what has a type.
pub(super) fn typed(name: &str, kind: &str) -> String {
    format!("{name}:{kind}")
}

/// What can stand in a commitment.
fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    !text.is_empty() && text.len() <= 100 && text.bytes().all(plain)
}

/// `4`, `2K`.
fn number(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        "p" | "P" => 5,
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << (10 * power))
}

/// What stands between commas that are in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let between = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    let all = text.split(between).map(str::trim);
    all.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_and_of_jobs() {
        let list = |text: &str| -> Vec<String> {
            let one = |gres: Gres| match gres.kind {
                None => format!("{}*{}", gres.name, gres.count),
                Some(kind) => format!("{}:{kind}*{}", gres.name, gres.count),
            };
            Gres::list(text).into_iter().map(one).collect()
        };
        assert_eq!(
            list("gpu:tesla:2(S:0,1),gpu:other:1(S:1),tape:4"),
            ["gpu:tesla*2", "gpu:other*1", "tape*4"]
        );
        assert_eq!(
            list(
                "gpu:tesla:1(IDX:0,2),gpu:fake:0(IDX:),tape(CNT:3),tape:lto(CNT:2),gpu:(null):2(IDX:0-1)"
            ),
            ["gpu:tesla*1", "gpu:fake*0", "tape*3", "tape:lto*2", "gpu*2"]
        );
        assert_eq!(
            list("gpu,disk:2K,gpu:tesla"),
            ["gpu*1", "disk*2048", "gpu:tesla*1"]
        );
        let none: [&str; 0] = [];
        // Not counted, shared, or no names of Slurm's.
        for text in [
            "",
            "bandwidth:lustre:no_consume:4G",
            "x:no_consume:4",
            "shard:8",
            "mps:100(50/100)",
            "a=b:1",
            "gpu:a:99999999999999999999",
            "gpu:a:99999999P",
            ":",
            "((",
            "gpu:1:2:3",
        ] {
            assert_eq!(list(text), none, "{text}");
        }
    }

    #[test]
    fn nodes_of_several_types_are_known() {
        let mixed = |text: &str| -> Vec<&str> {
            let node = OnNode::of(&Gres::list(text));
            node.mixed.into_iter().map(Consumable::name).collect()
        };
        assert_eq!(mixed("gpu:a:1,gpu:b:1,tape:4"), ["gpu"]);
        assert_eq!(mixed("gpu:a:1,gpu:1"), ["gpu"]);
        assert!(mixed("gpu:a:1,gpu:b:0,gpu:a:2,tape:4").is_empty());
    }

    #[test]
    fn licences_as_slurm_writes_them() {
        let some = |name: &str, count| (name.to_string(), count);
        assert_eq!(
            licenses("matlab:4,ansys;c*2"),
            Some(vec![some("matlab", 4), some("ansys", 1), some("c", 2)])
        );
        assert_eq!(licenses(""), Some(Vec::new()));
        for bad in ["a|b", "a@server:1", "a:x", "a:-1", "a b"] {
            assert_eq!(licenses(bad), None, "{bad}");
        }
    }
}
