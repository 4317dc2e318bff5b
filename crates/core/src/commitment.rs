//! The commitment to a job, as one line of text.
//!
//! The line travels with the job, in PBS as the resource `libra_terms`, in Slurm in its admin comment: into the
//! batch system's records, to the execution hosts, and back into the book after a restart. It is
//! `key=value` pairs joined by ':', without blanks, commas and quotes, which the batch systems' own formats
//! give a meaning to; a key that is not known is passed over:
//!
//! `v=1:token=17:submitted=1700000000.25:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:`
//! `chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*0.525`
//!
//! `consumables` is there where it asks for some: `consumables=ngpus*1n+lic*2N`, an amount with its unit (`n` pieces, `b` bytes, `m`
//! millionths) for each chunk, in capitals for the job; a name that has ':' is written with '/'. `payer` is there where the site has accounts: `payer=user/alice`;
//! `class=dedicated` or `class=immediate` where it is not that of deadlines; `margin=0.05` by how much its estimate was stretched; `conditional=1` where the deadline is shorter than the estimate; `deferred=1` where the job may not start yet and holds nothing until it is
//! asked for anew: `at` is then where it would go if nothing else was promised, `begin` the seconds within which it has to begin, and `from=start` says that these and
//! its deadline count from when it may start; with `starts-by`, Unix time, it begins by then and `at` is where its place is kept. Else `at` has a node, chunks and the
//! share of each slot for every node, joined by '+'. Of a job array
//! `count` is the number of its subjobs, `chunks` those of one subjob, `price` the price of one, and `at` is
//! the plan for all of them.

use crate::decision::class::Class;
use crate::decision::consumable::{Amounts, Consumable, Scope, Unit};
use crate::decision::job::{DeadlineType, OutOfRange, Request, Shape, Terms};
use libra_units::cut;
use std::fmt::Write;

/// Largest token of a line: the same as a book takes.
const LARGEST_TOKEN: u64 = 1 << 53;

/// What is promised to a job, and what it pays.
#[derive(Debug, Clone, PartialEq)]
pub struct Commitment {
    /// Of the first subjob, of an array.
    pub token: u64,
    /// When it was submitted, Unix time.
    pub submitted: f64,
    /// Of one subjob, of an array.
    pub request: Request,
    /// Credits; of one subjob, of an array.
    pub price: f64,
    /// Subjobs; 1 for a job that is no array.
    pub count: u32,
    /// Whether its deadline is shorter than its estimate on one of its nodes: it is kept only if the job needs less than it says.
    pub conditional: bool,
    /// Whether it is deferred: the job may not start yet, and holds no share until it is asked for anew.
    pub deferred: bool,
    /// Of a deferred one: whether its deadline counts from when the job may start, and not from its submission.
    pub from_start: bool,
    /// Of a deferred one: seconds, counted as its deadline is, within which the job has to begin with nothing else promised; None if that is not known.
    pub begin_within: Option<f64>,
    /// When it begins at the latest, Unix time: then it is deferred, and its place is kept. None if nothing is planned for it.
    pub starts_by: Option<f64>,
    /// Part by which its estimate was stretched when it was planned (0.05 = 5 %), 0 to 10: it is kept to that, whatever the site's rules are by
    /// then. None in lines from before it was written: as the rules of who reads it.
    pub margin: Option<f64>,
    /// The account that pays, as `user:alice`; None if the site has no accounts.
    pub payer: Option<String>,
    /// Where, in the order of the plan.
    pub places: Vec<NodeCommitment>,
}

/// A part on one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeCommitment {
    /// Name of the node or vnode.
    pub node: String,
    /// Chunks there.
    pub chunks: u32,
    /// Share of each slot, in processors.
    pub share: f64,
}

/// A line that is none of ours.
#[derive(Debug, Clone, PartialEq)]
pub enum CommitmentError {
    /// It has no value of this name.
    Missing(&'static str),
    /// Written by another version of Libra.
    OtherVersion,
    /// No type of deadline; shortened.
    NoType(String),
    /// No class of service that is committed; shortened.
    NoClass(String),
    /// Terms or shape cannot be judged.
    OutOfRange(OutOfRange),
    /// A token that no book has given.
    Token(u64),
    /// For no job.
    NoJob,
    /// Its payer is no account.
    NoPayer,
    /// A time or an amount that is none.
    Value {
        /// Its name.
        key: &'static str,
        /// What was given.
        value: f64,
    },
    /// Its places are not for its jobs.
    Chunks {
        /// Chunks that it places.
        planned: u64,
        /// Chunks of its jobs.
        asked: u64,
    },
    /// No amount of a consumable; shortened.
    NoConsumable(String),
    /// No place; shortened.
    NoPlace(String),
    /// No number; shortened.
    NoNumber(String),
}

impl Commitment {
    /// The line.
    pub fn line(&self) -> String {
        let Request { terms, shape } = &self.request;
        let kind = match terms.deadline_type {
            DeadlineType::Hard => "hard",
            DeadlineType::Soft => "soft",
        };
        // In a line of pairs the name's own colon cannot stay.
        let payer = (self.payer.as_ref()).map_or_else(String::new, |name| {
            format!(":payer={}", name.replacen(':', "/", 1))
        });
        let class = match terms.class {
            Class::Deadline => String::new(),
            class => format!(":class={}", class.word()),
        };
        let conditional = if self.conditional {
            ":conditional=1"
        } else {
            ""
        };
        let mut deferred = String::new();
        if self.deferred {
            deferred.push_str(":deferred=1");
            if let Some(within) = self.begin_within {
                let _ = write!(deferred, ":begin={within}");
            }
            if self.from_start {
                deferred.push_str(":from=start");
            }
            if let Some(latest) = self.starts_by {
                let _ = write!(deferred, ":starts-by={latest}");
            }
        }
        let margin = (self.margin).map_or_else(String::new, |margin| format!(":margin={margin}"));
        let consumables = match shape.consumables.is_empty() {
            true => String::new(),
            false => format!(":consumables={}", written(&shape.consumables)),
        };
        let mut line = format!(
            "v=1:token={}:submitted={}:estimate={}:deadline={}:budget={}:type={kind}:penalty={}:price={}:\
             chunks={}:processors={}:memory={}:scatter={}:count={}{consumables}{class}{conditional}{deferred}{margin}{payer}:at=",
            self.token,
            self.submitted,
            terms.estimate,
            terms.deadline,
            terms.budget,
            terms.penalty_rate,
            self.price,
            shape.chunks,
            shape.processors_per_chunk,
            shape.memory_per_chunk,
            u8::from(shape.scatter),
            self.count,
        );
        for (index, place) in self.places.iter().enumerate() {
            let plus = if index == 0 { "" } else { "+" };
            // Writing to a String does not fail.
            let _ = write!(
                line,
                "{plus}{}*{}*{}",
                place.node, place.chunks, place.share
            );
        }
        line
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is missing in it or cannot be read.
    pub fn parse(line: &str) -> Result<Commitment, CommitmentError> {
        let value = |key: &'static str| {
            line.split(':')
                .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
                .ok_or(CommitmentError::Missing(key))
        };
        if value("v")? != "1" {
            return Err(CommitmentError::OtherVersion);
        }
        let request = Request {
            terms: Terms {
                estimate: read(value("estimate")?)?,
                deadline: read(value("deadline")?)?,
                budget: read(value("budget")?)?,
                deadline_type: match value("type")? {
                    "hard" => DeadlineType::Hard,
                    "soft" => DeadlineType::Soft,
                    other => return Err(CommitmentError::NoType(cut(other))),
                },
                penalty_rate: read(value("penalty")?)?,
                // Lines from before there were others do not say it.
                class: value("class").map_or(Ok(Class::Deadline), class)?,
            },
            shape: Shape {
                chunks: read(value("chunks")?)?,
                processors_per_chunk: read(value("processors")?)?,
                memory_per_chunk: read(value("memory")?)?,
                scatter: value("scatter")? == "1",
                consumables: value("consumables").map_or(Ok(Amounts::NONE), consumables)?,
            },
        };
        request.check().map_err(CommitmentError::OutOfRange)?;
        let deferred = value("deferred") == Ok("1");
        // Of any other they say nothing, and nobody writes them.
        let of_deferred = |key| value(key).ok().filter(|_| deferred);
        let commitment = Commitment {
            token: read(value("token")?)?,
            submitted: read(value("submitted")?)?,
            request,
            price: read(value("price")?)?,
            count: read(value("count")?)?,
            conditional: value("conditional") == Ok("1"),
            deferred,
            from_start: of_deferred("from") == Some("start"),
            begin_within: of_deferred("begin").map(read).transpose()?,
            starts_by: of_deferred("starts-by").map(read).transpose()?,
            margin: value("margin").ok().map(read).transpose()?,
            payer: value("payer").ok().map(|name| name.replacen('/', ":", 1)),
            places: value("at")?
                .split('+')
                .map(place)
                .collect::<Result<_, _>>()?,
        };
        // Each job of an array has a token of its own, counted on from this one.
        if commitment.token > LARGEST_TOKEN {
            return Err(CommitmentError::Token(commitment.token));
        }
        if commitment.count == 0 {
            return Err(CommitmentError::NoJob);
        }
        if commitment
            .payer
            .as_deref()
            .is_some_and(|payer| !is_plain(payer))
        {
            return Err(CommitmentError::NoPayer);
        }
        for (key, value) in [
            ("submitted", commitment.submitted),
            ("price", commitment.price),
            ("begin", commitment.begin_within.unwrap_or(0.0)),
            ("starts-by", commitment.starts_by.unwrap_or(0.0)),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(CommitmentError::Value { key, value });
            }
        }
        if let Some(value) = commitment
            .margin
            .filter(|part| !(0.0..=10.0).contains(part))
        {
            let key = "margin";
            return Err(CommitmentError::Value { key, value });
        }
        let planned: u64 = commitment.places.iter().map(|p| u64::from(p.chunks)).sum();
        let asked = u64::from(commitment.count) * u64::from(request.shape.chunks);
        if planned != asked {
            return Err(CommitmentError::Chunks { planned, asked });
        }
        Ok(commitment)
    }

    /// The same with a deadline that counts from its submission, now that it is known when it may start.
    pub fn counted_from(&self, start: f64) -> Commitment {
        let mut counted = self.clone();
        if self.from_start {
            let waited = (start - self.submitted).max(0.0);
            counted.from_start = false;
            counted.request.terms.deadline += waited;
            counted.begin_within = self.begin_within.map(|within| within + waited);
        }
        counted
    }

    /// Of a deferred one: by when the job has to begin; None if that is not known before it may start.
    pub fn begins_by(&self) -> Option<f64> {
        let within = self.begin_within.unwrap_or(self.request.terms.deadline);
        (!self.from_start).then_some(self.submitted + within)
    }

    /// Returns true if it is a line of a Libra that writes them in another way.
    pub fn is_of_another_version(line: &str) -> bool {
        let version = line
            .split(':')
            .next()
            .and_then(|pair| pair.strip_prefix("v="));
        version.is_some_and(|version| version != "1" && version.parse::<u32>().is_ok())
    }

    /// The part of the plan that is for one subjob, counted from 0; the whole plan of a job that is no
    /// array.
    pub fn plan(&self, subjob: u32) -> Vec<NodeCommitment> {
        let chunks = u64::from(self.request.shape.chunks);
        let (from, to) = (u64::from(subjob) * chunks, (u64::from(subjob) + 1) * chunks);
        let mut before = 0;
        let mut plan = Vec::new();
        for place in &self.places {
            let after = before + u64::from(place.chunks);
            let taken = after.min(to).saturating_sub(before.max(from));
            if taken > 0 {
                plan.push(NodeCommitment {
                    chunks: u32::try_from(taken).unwrap_or(u32::MAX),
                    ..place.clone()
                });
            }
            before = after;
        }
        plan
    }

    /// Share of each slot on a node; the largest that was committed where the node is not in the plan (PBS
    /// places the subjobs of an array itself).
    pub fn share_on(&self, node: &str) -> f64 {
        let planned = self.places.iter().find(|place| place.node == node);
        planned.map_or_else(
            || (self.places.iter()).fold(0.0, |most, place| place.share.max(most)),
            |place| place.share,
        )
    }
}

/// Units and scopes, by the letter that stands for them.
const LETTERS: [(char, Unit, Scope); 6] = [
    ('n', Unit::Whole, Scope::Node),
    ('b', Unit::Bytes, Scope::Node),
    ('m', Unit::Millionths, Scope::Node),
    ('N', Unit::Whole, Scope::Cluster),
    ('B', Unit::Bytes, Scope::Cluster),
    ('M', Unit::Millionths, Scope::Cluster),
];

fn written(amounts: &Amounts) -> String {
    let one = |(what, amount): (Consumable, u64)| {
        let is = |(_, unit, scope): &&(char, Unit, Scope)| {
            *unit == what.unit() && *scope == what.scope()
        };
        let letter = LETTERS.iter().find(is).map_or('n', |(letter, ..)| *letter);
        format!("{}*{amount}{letter}", what.name().replace(':', "/"))
    };
    amounts.iter().map(one).collect::<Vec<_>>().join("+")
}

fn consumables(text: &str) -> Result<Amounts, CommitmentError> {
    let one = |text: &str| {
        let (name, amount) = text.split_once('*')?;
        let (digits, letter) = amount.split_at_checked(amount.len().checked_sub(1)?)?;
        let (_, unit, scope) = (LETTERS.iter()).find(|(known, ..)| letter.starts_with(*known))?;
        let name = name.replace('/', ":");
        let what = is_plain(&name).then(|| Consumable::new(&name, *unit, *scope))??;
        Some((what, digits.parse().ok()?))
    };
    let no = |text: &str| CommitmentError::NoConsumable(cut(text));
    let all = (text
        .split('+')
        .map(|text| one(text).ok_or_else(|| no(text))))
    .collect::<Result<Vec<(Consumable, u64)>, _>>()?;
    Amounts::of(&all).map_err(|_| no(text))
}

/// Best effort is promised nothing, so nothing is committed to it.
fn class(word: &str) -> Result<Class, CommitmentError> {
    (Class::of_word(word).filter(|class| *class != Class::BestEffort))
        .ok_or_else(|| CommitmentError::NoClass(cut(word)))
}

fn place(text: &str) -> Result<NodeCommitment, CommitmentError> {
    let fields: Vec<&str> = text.split('*').collect();
    let [node, chunks, share] = fields[..] else {
        return Err(CommitmentError::NoPlace(cut(text)));
    };
    let share: f64 = read(share)?;
    let chunks = read(chunks)?;
    if chunks == 0 || !is_node_name(node) || !(0.0..=1.0).contains(&share) {
        return Err(CommitmentError::NoPlace(cut(text)));
    }
    Ok(NodeCommitment {
        node: node.to_string(),
        chunks,
        share,
    })
}

/// Returns true if a line can name this node: it ends neither the name nor the line.
pub fn is_node_name(name: &str) -> bool {
    is_plain(name) && !name.contains([':', '=', '*', '+'])
}

/// Returns true if it is a name that the batch systems' formats leave as it is.
fn is_plain(name: &str) -> bool {
    let special = |c: char| c.is_control() || c.is_whitespace() || ",\"'".contains(c);
    !name.is_empty() && !name.contains(special)
}

fn read<T: std::str::FromStr>(text: &str) -> Result<T, CommitmentError> {
    text.parse()
        .map_err(|_| CommitmentError::NoNumber(cut(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "v=1:token=17:submitted=1700000000.25:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
         chunks=1:processors=1:memory=0:scatter=0:count=1:payer=user/alice:at=n1*1*0.525";

    #[test]
    fn consumables_travel_with_their_units() {
        let line = LINE.replace(
            ":payer",
            ":consumables=ngpus*2n+gpu/tesla*1n+scratch*1073741824b+lic*3N:payer",
        );
        let read = Commitment::parse(&line).expect("ours");
        let amounts: Vec<_> = (read.request.shape.consumables.iter())
            .map(|(what, amount)| (what.name(), what.unit(), what.scope(), amount))
            .collect();
        for one in [
            ("ngpus", Unit::Whole, Scope::Node, 2),
            ("gpu:tesla", Unit::Whole, Scope::Node, 1),
            ("scratch", Unit::Bytes, Scope::Node, 1 << 30),
            ("lic", Unit::Whole, Scope::Cluster, 3),
        ] {
            assert!(amounts.contains(&one), "{amounts:?}");
        }
        assert_eq!(Commitment::parse(&read.line()), Ok(read));
        for bad in [
            "ngpus", "ngpus*2", "ngpus*n", "ngpus*2x", "*2n", "a b*1n", "",
        ] {
            let line = LINE.replace(":payer", &format!(":consumables={bad}:payer"));
            assert_eq!(
                Commitment::parse(&line),
                Err(CommitmentError::NoConsumable(bad.to_string()))
            );
        }
    }

    #[test]
    fn a_class_travels_with_it_and_old_lines_have_none() {
        assert_eq!(
            Commitment::parse(LINE).map(|line| line.request.terms.class),
            Ok(Class::Deadline)
        );
        for class in [Class::Dedicated, Class::Immediate] {
            let line = LINE.replace(":payer", &format!(":class={}:payer", class.word()));
            let read = Commitment::parse(&line).expect("ours");
            assert_eq!(read.request.terms.class, class);
            assert_eq!(read.line(), line);
        }
        for bad in ["best-effort", "urgent", ""] {
            let line = LINE.replace(":payer", &format!(":class={bad}:payer"));
            assert_eq!(
                Commitment::parse(&line),
                Err(CommitmentError::NoClass(bad.to_string()))
            );
        }
    }

    #[test]
    fn its_margin_travels_with_it_and_old_lines_have_none() {
        assert_eq!(Commitment::parse(LINE).expect("ours").margin, None);
        let line = LINE.replace(":payer", ":margin=0.13:payer");
        let read = Commitment::parse(&line).expect("ours");
        assert_eq!(read.margin, Some(0.13));
        assert_eq!(read.line(), line);
        for bad in ["-0.1", "10.5", "NaN", "inf", "5%", ""] {
            let line = LINE.replace(":payer", &format!(":margin={bad}:payer"));
            let error = Commitment::parse(&line).expect_err(bad);
            let is_said = matches!(
                error,
                CommitmentError::Value { key: "margin", .. } | CommitmentError::NoNumber(_)
            );
            assert!(is_said, "{bad}: {error:?}");
        }
    }

    #[test]
    fn a_deferred_deadline_counts_from_its_submission_or_from_its_start() {
        let line = LINE.replace(":payer", ":deferred=1:begin=7.5:from=start:payer");
        let read = Commitment::parse(&line).expect("ours");
        assert!(
            read.from_start && read.begin_within == Some(7.5),
            "{read:?}"
        );
        assert_eq!(read.line(), line);
        assert_eq!(read.begins_by(), None);
        let deadline = read.request.terms.deadline;
        let counted = read.counted_from(read.submitted + 30.0);
        assert_eq!(counted.request.terms.deadline, deadline + 30.0);
        assert_eq!(counted.begins_by(), Some(read.submitted + 37.5));
        // Once it counts from the submission it stays.
        assert_eq!(counted.counted_from(read.submitted + 99.0), counted);
        assert_eq!(read.counted_from(0.0).request.terms.deadline, deadline);
        let old = LINE.replace(":payer", ":deferred=1:payer");
        let old = Commitment::parse(&old).expect("ours");
        assert_eq!(old.begins_by(), Some(old.submitted + deadline));
        for (bad, error) in [
            ("soon", CommitmentError::NoNumber("soon".to_string())),
            (
                "-1",
                CommitmentError::Value {
                    key: "begin",
                    value: -1.0,
                },
            ),
        ] {
            let line = LINE.replace(":payer", &format!(":deferred=1:begin={bad}:payer"));
            assert_eq!(Commitment::parse(&line), Err(error));
        }
    }

    #[test]
    fn what_only_a_deferred_one_has_is_no_part_of_another() {
        let more = ":begin=7.5:from=start:starts-by=1700000004.5:payer";
        let read = Commitment::parse(&LINE.replace(":payer", more)).expect("ours");
        assert_eq!(read, Commitment::parse(LINE).expect("ours"));
    }

    #[test]
    fn a_planned_start_travels_with_it() {
        let line = LINE.replace(":payer", ":deferred=1:starts-by=1700000004.5:payer");
        let read = Commitment::parse(&line).expect("ours");
        assert_eq!((read.deferred, read.starts_by), (true, Some(1700000004.5)));
        assert_eq!(read.line(), line);
        for bad in ["soon", "-1", "inf", "NaN"] {
            let line = LINE.replace(":payer", &format!(":deferred=1:starts-by={bad}:payer"));
            assert!(Commitment::parse(&line).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_node_is_named_by_what_does_not_end_its_name() {
        assert!(is_node_name("n1") && is_node_name("rack-2/n1[0].site"));
        for name in [
            "",
            "n1:submitted=",
            "a=b",
            "a*b",
            "a+b",
            "a b",
            "a,b",
            "a\u{7f}",
        ] {
            assert!(!is_node_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_line_that_nobody_here_has_written_is_refused() {
        assert_eq!(Commitment::parse(LINE).expect("ours").line(), LINE);
        let conditional = LINE.replace(":payer", ":conditional=1:payer");
        let read = Commitment::parse(&conditional).expect("ours");
        assert!(read.conditional && read.line() == conditional, "{read:?}");
        let deferred = LINE.replace(":payer", ":deferred=1:payer");
        let read = Commitment::parse(&deferred).expect("ours");
        assert!(read.deferred && read.line() == deferred, "{read:?}");
        let no_place = |text: &str| CommitmentError::NoPlace(text.to_string());
        for (from, to, error) in [
            (
                "token=17",
                "token=18446744073709551615",
                CommitmentError::Token(u64::MAX),
            ),
            ("count=1", "count=0", CommitmentError::NoJob),
            (
                "at=n1*1*0.525",
                "at=n1*1*0.5+n2*0*0.5",
                no_place("n2*0*0.5"),
            ),
            (
                "at=n1*1*0.525",
                "at=n\n1*1*0.5",
                no_place("n\u{fffd}1*1*0.5"),
            ),
            ("at=n1*1*0.525", "at=n1,n2*1*0.5", no_place("n1,n2*1*0.5")),
            (
                "payer=user/alice",
                "payer=user/a b",
                CommitmentError::NoPayer,
            ),
            ("payer=user/alice", "payer=", CommitmentError::NoPayer),
            // Nothing of it is for a terminal to obey.
            (
                "estimate=10",
                "estimate=a\u{1b}[2Jb",
                CommitmentError::NoNumber("a\u{fffd}[2Jb".to_string()),
            ),
        ] {
            assert_eq!(
                Commitment::parse(&LINE.replace(from, to)),
                Err(error),
                "{to}"
            );
        }
    }
}
