//! The oldest way to ask PBS, `-l nodes=2:ppn=4+n3`, as the `select` that PBS itself makes of it.
//!
//! Each part is a number of nodes, or one with a name or a property: `2:ppn=4:cpp=2:bigmem`, `n3:ppn=2`. `ppn` are processes of each node,
//! `cpp` (or `ncpus`) processors of each process. Memory and processors of the whole job are divided among its nodes.

use libra_units::memory;
use std::fmt::Write;

/// What stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// `select`.
    pub select: String,
    /// `place`.
    pub place: &'static str,
}

/// What a word is that is neither a number nor a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The name of a node.
    Host,
    /// A resource that is true or false: what was called a property.
    Property,
    /// None of these, as far as is known.
    Unknown,
}

/// One part.
struct NodeGroup<'a> {
    nodes: u32,
    /// Processes of each node.
    processes: u32,
    /// Processors of each process.
    each: u32,
    words: Vec<(&'a str, Word)>,
}

impl<'a> NodeGroup<'a> {
    fn read(
        text: &'a str,
        has_each: &mut bool,
        word: &dyn Fn(&str) -> Word,
    ) -> Option<NodeGroup<'a>> {
        let mut part = NodeGroup {
            nodes: 1,
            processes: 1,
            each: 1,
            words: Vec::new(),
        };
        let one = |number: &str| number.parse::<u32>().ok().filter(|number| *number > 0);
        for (index, item) in text.split(':').enumerate() {
            let named = |name: &str| {
                let (key, value) = item.split_once('=')?;
                key.eq_ignore_ascii_case(name).then_some(value)
            };
            if index == 0 && item.starts_with(|c: char| c.is_ascii_digit()) {
                part.nodes = one(item)?;
            } else if let Some(processes) = named("ppn") {
                part.processes = one(processes)?;
            } else if let Some(each) = named("cpp").or_else(|| named("ncpus")) {
                *has_each = true;
                part.each = one(each)?;
            } else {
                match word(item) {
                    Word::Unknown => return None,
                    known => part.words.push((item, known)),
                }
            }
        }
        Some(part)
    }

    fn processors(&self) -> Option<u32> {
        self.processes.checked_mul(self.each)
    }
}

/// As PBS converts it, with the processors and the memory of the whole job where it names them. None if only PBS knows what it is, or
/// refuses it.
pub fn convert(
    nodes: &str,
    ncpus: Option<&str>,
    mem: Option<&str>,
    word: &dyn Fn(&str) -> Word,
) -> Option<Converted> {
    let mut pieces = nodes.trim().split('#');
    let parts = pieces.next()?;
    let mut place = "scatter";
    for all in pieces {
        match all.eq_ignore_ascii_case("shared") {
            true => place = "free",
            false => return None,
        }
    }
    let mut has_each = false;
    let parts: Vec<NodeGroup<'_>> = (parts.split('+'))
        .map(|part| NodeGroup::read(part, &mut has_each, word))
        .collect::<Option<_>>()?;
    let in_all = |of: &dyn Fn(&NodeGroup<'_>) -> Option<u32>| {
        (parts.iter()).try_fold(0u32, |sum, part| {
            sum.checked_add(part.nodes.checked_mul(of(part)?)?)
        })
    };
    let processors = in_all(&|part| part.processors())?;
    let count = in_all(&|_| Some(1))?;
    let times = match ncpus.map(|ncpus| ncpus.parse::<u32>()) {
        None => 1,
        Some(Ok(ncpus)) if has_each => (ncpus == processors).then_some(1)?,
        Some(Ok(ncpus)) => (ncpus % processors == 0 && ncpus > 0).then_some(ncpus / processors)?,
        Some(Err(_)) => return None,
    };
    let memory = match mem {
        None => None,
        Some(mem) => Some(memory::parse(mem).ok()?.div_ceil(1024) / u64::from(count)),
    };
    let mut select = String::new();
    for part in &parts {
        let separator = if select.is_empty() { "" } else { "+" };
        let each = part.processors()?.checked_mul(times)?;
        // Writing to a String does not fail.
        let _ = write!(select, "{separator}{}:ncpus={each}", part.nodes);
        if let Some(kilobytes) = memory {
            let _ = write!(select, ":mem={kilobytes}KB");
        }
        for (name, kind) in &part.words {
            let _ = match kind {
                Word::Host => write!(select, ":host={name}"),
                _ => write!(select, ":{name}=True"),
            };
        }
        if part.processes > 1 {
            let _ = write!(select, ":mpiprocs={}", part.processes);
        }
    }
    Some(Converted { select, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(word: &str) -> Word {
        match word {
            "n1" | "n3" => Word::Host,
            "bigmem" => Word::Property,
            _ => Word::Unknown,
        }
    }

    /// What OpenPBS 23.06.06 makes of these.
    #[test]
    fn as_pbs_converts_it() {
        for (nodes, ncpus, mem, select) in [
            ("1", None, None, "1:ncpus=1"),
            ("2:ppn=2", None, None, "2:ncpus=2:mpiprocs=2"),
            ("1:ppn=1", None, None, "1:ncpus=1"),
            ("1:ppn=2:cpp=2", None, None, "1:ncpus=4:mpiprocs=2"),
            ("2:cpp=2", None, None, "2:ncpus=2"),
            ("1:ppn=1:ncpus=2", None, None, "1:ncpus=2"),
            ("n1", None, None, "1:ncpus=1:host=n1"),
            (
                "n1:ppn=2+n3:ppn=4",
                None,
                None,
                "1:ncpus=2:host=n1:mpiprocs=2+1:ncpus=4:host=n3:mpiprocs=4",
            ),
            ("1+1:ppn=2", None, None, "1:ncpus=1+1:ncpus=2:mpiprocs=2"),
            ("1:bigmem", None, None, "1:ncpus=1:bigmem=True"),
            ("2:ppn=1", Some("4"), None, "2:ncpus=2"),
            (
                "2:ppn=2",
                None,
                Some("1gb"),
                "2:ncpus=2:mem=524288KB:mpiprocs=2",
            ),
        ] {
            let converted = convert(nodes, ncpus, mem, &word).expect(nodes);
            assert_eq!(converted.select, select, "{nodes}");
            assert_eq!(converted.place, "scatter", "{nodes}");
        }
        let shared = convert("2:ppn=2#shared", None, None, &word).expect("known");
        assert_eq!(shared.place, "free");
    }

    #[test]
    fn what_only_pbs_knows_is_left_to_it() {
        for (nodes, ncpus) in [
            ("", None),
            ("0", None),
            ("1:ppn=0", None),
            ("1:ppn=x", None),
            ("nowhere", None),
            ("1#excl", None),
            ("2#ppn=2", None),
            ("2:ppn=2", Some("3")),
            ("2:ppn=2", Some("0")),
            ("1:cpp=2", Some("4")),
            ("4000000000:ppn=4000000000", None),
        ] {
            assert_eq!(
                convert(nodes, ncpus, None, &word),
                None,
                "{nodes} {ncpus:?}"
            );
        }
        assert_eq!(convert("1", None, Some("much"), &word), None);
    }
}
