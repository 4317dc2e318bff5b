//! What jobs use up beside processors: an amount of something that a node has, or the whole cluster (licences). Memory is one of them
//! that every system counts, so it has fields of its own where decisions read most ([`super::node::NodeSpec::memory`]).
//!
//! Invariants:
//! - Amounts are whole numbers of a [`Unit`], so that sums are exact and what is given back leaves nothing behind.
//! - A [`Consumable`] means the same everywhere in a process: its name, its unit and where it is counted.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::num::NonZeroU16;
use std::sync::{PoisonError, RwLock};

/// Most consumables of one job.
pub const MOST: usize = 4;

/// Most that are told apart in one process: names are kept for good.
const MOST_KINDS: usize = 4096;

/// What an amount is a number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Pieces.
    Whole,
    /// Bytes.
    Bytes,
    /// Millionths, of what can be had in parts.
    Millionths,
}

/// Where it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// On each node; a chunk asks for it.
    Node,
    /// Once for all nodes; a job asks for it.
    Cluster,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kind {
    name: String,
    unit: Unit,
    scope: Scope,
}

/// Something that is used up by amount. Copying and comparing it is copying and comparing a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Consumable(NonZeroU16);

/// All that were ever named. No decision depends on it: it only keeps names out of the way of those who count.
static KINDS: RwLock<Vec<&'static Kind>> = RwLock::new(Vec::new());

impl Consumable {
    /// The one of this name, unit and scope; None if there are too many already.
    pub fn new(name: &str, unit: Unit, scope: Scope) -> Option<Consumable> {
        let is = |kind: &&Kind| kind.name == name && kind.unit == unit && kind.scope == scope;
        let known = |kinds: &[&Kind]| kinds.iter().position(is);
        if let Some(index) = known(&KINDS.read().unwrap_or_else(PoisonError::into_inner)) {
            return Some(Consumable::at(index));
        }
        let mut kinds = KINDS.write().unwrap_or_else(PoisonError::into_inner);
        let index = match known(&kinds) {
            Some(index) => index,
            None if kinds.len() >= MOST_KINDS => return None,
            None => {
                let name = name.to_string();
                kinds.push(Box::leak(Box::new(Kind { name, unit, scope })));
                kinds.len() - 1
            }
        };
        Some(Consumable::at(index))
    }

    fn at(index: usize) -> Consumable {
        // At most 4,096.
        Consumable(NonZeroU16::MIN.saturating_add(index as u16))
    }

    fn kind(self) -> &'static Kind {
        let kinds = KINDS.read().unwrap_or_else(PoisonError::into_inner);
        kinds[usize::from(self.0.get()) - 1]
    }

    /// Its name, as the batch system has it.
    pub fn name(self) -> &'static str {
        &self.kind().name
    }

    /// What its amounts are numbers of.
    pub fn unit(self) -> Unit {
        self.kind().unit
    }

    /// Where it is counted.
    pub fn scope(self) -> Scope {
        self.kind().scope
    }
}

impl Serialize for Consumable {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.kind().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Consumable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Consumable, D::Error> {
        let Kind { name, unit, scope } = Kind::deserialize(from)?;
        if name.is_empty() || name.len() > 255 || name.contains(char::is_control) {
            return Err(D::Error::custom(
                "a consumable has a name of 1 to 255 bytes, without control characters",
            ));
        }
        Consumable::new(&name, unit, scope)
            .ok_or_else(|| D::Error::custom("there are more than 4096 consumables"))
    }
}

/// Amounts of consumables: of each chunk what is counted on nodes, of the whole job what is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    what: [Option<Consumable>; MOST],
    amounts: [u64; MOST],
}

impl Amounts {
    /// None at all.
    pub const NONE: Amounts = Amounts {
        what: [None; MOST],
        amounts: [0; MOST],
    };

    /// These; None of anything is left out. Equal ones are equal whatever order they are given in.
    ///
    /// # Errors
    /// When there are more than [`MOST`].
    pub fn of(all: &[(Consumable, u64)]) -> Result<Amounts, TooMany> {
        let mut sorted: Vec<(Consumable, u64)> = Vec::new();
        for &(what, amount) in all.iter().filter(|(_, amount)| *amount > 0) {
            match sorted.iter_mut().find(|(known, _)| *known == what) {
                Some((_, sum)) => *sum = sum.saturating_add(amount),
                None => sorted.push((what, amount)),
            }
        }
        sorted.sort_unstable();
        let mut amounts = Amounts::NONE;
        if sorted.len() > MOST {
            return Err(TooMany(sorted.len()));
        }
        for (index, (what, amount)) in sorted.into_iter().enumerate() {
            (amounts.what[index], amounts.amounts[index]) = (Some(what), amount);
        }
        Ok(amounts)
    }

    /// Returns true if there are none: the first stands first.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.what[0].is_none()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Consumable, u64)> + '_ {
        (self.what.iter().zip(&self.amounts)).map_while(|(what, amount)| Some(((*what)?, *amount)))
    }

    /// Those that are counted there.
    pub fn counted(&self, scope: Scope) -> impl Iterator<Item = (Consumable, u64)> + '_ {
        self.iter().filter(move |(what, _)| what.scope() == scope)
    }

    /// So many times as much of what is counted on nodes and of what is counted once; an amount that no number can be stays at the
    /// largest, which nothing has.
    #[must_use]
    pub fn times(&self, chunks: u32, jobs: u32) -> Amounts {
        let mut more = *self;
        for (what, amount) in more.what.iter().zip(&mut more.amounts) {
            let times = match what {
                None => continue,
                Some(what) if what.scope() == Scope::Node => chunks,
                Some(_) => jobs,
            };
            *amount = amount.saturating_mul(u64::from(times));
        }
        more
    }
}

/// More consumables than one job may ask for: so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany(pub usize);

impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amounts, D::Error> {
        let all: Vec<(Consumable, u64)> = Deserialize::deserialize(from)?;
        Amounts::of(&all)
            .map_err(|TooMany(count)| D::Error::invalid_length(count, &"at most 4 consumables"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_the_same_in_any_order_and_as_text() {
        let of = |name: &str| Consumable::new(name, Unit::Whole, Scope::Node).expect("a name");
        let (gpus, fpgas) = (of("ngpus"), of("nfpgas"));
        assert_eq!(of("ngpus"), gpus);
        assert_ne!(
            Consumable::new("ngpus", Unit::Whole, Scope::Cluster),
            Some(gpus)
        );
        let some = Amounts::of(&[(fpgas, 1), (gpus, 2), (of("none"), 0)]).expect("few");
        assert_eq!(Amounts::of(&[(gpus, 1), (fpgas, 1), (gpus, 1)]), Ok(some));
        assert_eq!(some.iter().count(), 2);
        let text = serde_json::to_string(&some).expect("text");
        assert_eq!(serde_json::from_str::<Amounts>(&text).expect("ours"), some);
        let many: Vec<_> = (0..5).map(|n| (of(&format!("r{n}")), 1)).collect();
        assert_eq!(Amounts::of(&many), Err(TooMany(5)));
        assert!(Amounts::NONE.is_empty() && !some.is_empty());
    }

    #[test]
    fn an_array_uses_the_clusters_once_for_each_job() {
        let of = |scope| Consumable::new("lic", Unit::Whole, scope).expect("a name");
        let (each, all) = (of(Scope::Node), of(Scope::Cluster));
        let amounts = Amounts::of(&[(each, 2), (all, 3)])
            .expect("few")
            .times(6, 3);
        assert_eq!(Amounts::of(&[(each, 12), (all, 9)]), Ok(amounts));
        assert_eq!(
            amounts
                .times(u32::MAX, u32::MAX)
                .times(u32::MAX, 1)
                .counted(Scope::Node)
                .next(),
            Some((each, u64::MAX))
        );
    }
}
