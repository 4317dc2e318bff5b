//! Where PBS runs a job: the attribute `exec_vnode`, such as
//! `(n1:ncpus=0:libra_share=0.5)+(n2[0]:ncpus=0:libra_share=0.5+n2[1]:mem=1gb)`.

use std::collections::HashMap;

/// The vnodes that the job's share is taken from, with the chunks on each, in the order of their first chunk.
/// A chunk that PBS spread over several vnodes counts where its share is taken.
pub fn parse(text: &str) -> Vec<(String, u32)> {
    let mut places: Vec<(String, u32)> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for chunk in text.split(")+(") {
        let parts = || chunk.trim_matches(['(', ')']).split('+');
        let taken = parts()
            .find(|part| part.split(':').any(|item| item.starts_with("libra_share=")))
            .or_else(|| parts().next())
            .unwrap_or_default();
        let vnode = taken.split(':').next().unwrap_or_default().trim();
        if vnode.is_empty() {
            continue;
        }
        let index = *known.entry(vnode).or_insert(places.len());
        match places.get_mut(index) {
            Some((_, chunks)) => *chunks += 1,
            None => places.push((vnode.to_string(), 1)),
        }
    }
    places
}

/// Processors that a job asked for and got there, under either name: those of a job without terms beside others are `libra_besteffort`. `host`:
/// on that host alone.
pub fn processors(text: &str, host: Option<&str>) -> u64 {
    let here = parts(text).filter(|part| host.is_none_or(|host| is_on_host(vnode_of(part), host)));
    here.flat_map(|part| part.split(':').skip(1))
        .filter_map(|item| {
            let (name, value) = item.split_once('=')?;
            let counts = matches!(name, "ncpus" | "libra_besteffort");
            counts.then(|| value.parse::<u64>().ok())?
        })
        .fold(0, u64::saturating_add)
}

/// All vnodes that it names, as often as it does.
pub fn vnodes(text: &str) -> impl Iterator<Item = &str> {
    parts(text).map(vnode_of)
}

/// What is taken of one vnode for one chunk.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(['(', ')', '+']);
    parts.filter(|part| !part.is_empty())
}

fn vnode_of(part: &str) -> &str {
    part.split(':').next().unwrap_or_default().trim()
}

/// Returns true if this vnode is of that host. A host's vnodes are named after it: `n1`, `n1[0]`, `n1[1]`.
pub fn is_on_host(vnode: &str, host: &str) -> bool {
    let own = vnode.split('[').next().unwrap_or_default();
    let short = host.split('.').next().unwrap_or_default();
    own == host || (own.split('.').next() == Some(short) && !short.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_counted_where_their_share_is() {
        let two = |a: &str, n, b: &str, m| vec![(a.to_string(), n), (b.to_string(), m)];
        assert_eq!(
            parse("(n1:ncpus=0:libra_share=0.5)+(n2:libra_share=0.5)+(n1:libra_share=0.5)"),
            two("n1", 2, "n2", 1)
        );
        assert_eq!(
            parse("(n2[0]:mem=1gb+n2[1]:libra_share=0.5)"),
            vec![("n2[1]".to_string(), 1)]
        );
        assert_eq!(parse("n1"), vec![("n1".to_string(), 1)]);
        assert_eq!(parse(""), vec![]);
        assert_eq!(parse("()+()"), vec![]);
    }

    #[test]
    fn processors_have_two_names() {
        let text = "(n1:ncpus=0:libra_besteffort=2)+(n2[0]:ncpus=3+n2[1]:mem=1gb)+(n1:ncpus=1)";
        assert_eq!(processors(text, None), 6);
        assert_eq!(processors(text, Some("n1")), 3);
        assert_eq!(processors(text, Some("n2.cluster")), 3);
        assert_eq!(processors("", Some("n2")), 0);
    }

    #[test]
    fn vnodes_belong_to_their_host() {
        for (vnode, host, on) in [
            ("n1", "n1", true),
            ("n1[0]", "n1.cluster.example", true),
            ("n1.cluster.example", "n1", true),
            ("n11", "n1", false),
            ("n1", "", false),
        ] {
            assert_eq!(is_on_host(vnode, host), on, "{vnode} {host}");
        }
    }
}
