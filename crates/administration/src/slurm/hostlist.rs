//! Slurm's way to write many names at once: `n[1-3,7],gpu-[01-02]`, without brackets in brackets. Pure.

/// More names than any cluster has nodes; a range beyond it is a misprint.
const MOST: usize = 100_000;

/// All names of a list, in its order.
///
/// # Errors
/// What cannot be read in it.
pub fn names(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in parts(list) {
        expand(part, &mut names).map_err(|why| format!("'{part}': {why}"))?;
    }
    Ok(names)
}

/// The parts between commas that are in no brackets.
fn parts(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts.into_iter().map(str::trim).collect()
}

fn expand(part: &str, names: &mut Vec<String>) -> Result<(), String> {
    let Some(open) = part.find('[') else {
        names.push(part.to_string());
        return Ok(());
    };
    let close = part[open..]
        .find(']')
        .ok_or("a '[' is not closed")?
        .saturating_add(open);
    let (before, after) = (&part[..open], &part[close + 1..]);
    for range in part[open + 1..close].split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let number = digits.then(|| text.parse::<usize>().ok()).flatten();
            number.ok_or_else(|| format!("'{range}' is not a range of numbers"))
        };
        let (from, to) = (number(first)?, number(last)?);
        if to < from || to - from >= MOST || names.len() >= MOST {
            return Err(format!("'{range}' is not a range that a cluster has"));
        }
        for n in from..=to {
            let name = format!("{before}{n:0width$}{after}", width = first.len());
            // n[1-2]-[0-3]: what is behind may have brackets too.
            expand(&name, names)?;
        }
    }
    Ok(())
}

/// Names as a list, as short as it can be: each once, those that differ in their last number alone together, in the order of these.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut split: Vec<_> = names.into_iter().map(last_number).collect();
    split.sort_unstable_by_key(|(before, after, digits, number)| {
        (*before, *after, digits.len(), *number)
    });
    split.dedup();
    let mut list: Vec<String> = Vec::new();
    // One without a number stands for itself.
    let is_alike = |a: &Name<'_>, b: &Name<'_>| (a.0, a.1) == (b.0, b.1) && !a.2.is_empty();
    for alike in split.chunk_by(is_alike) {
        let (before, after, ..) = alike[0];
        list.push(match alike {
            [(.., digits, _)] => format!("{before}{digits}{after}"),
            _ => format!("{before}[{}]{after}", ranges(alike)),
        });
    }
    list.join(",")
}

/// What is before and behind the last number of a name, its digits, and the number. Without one all is before it.
type Name<'a> = (&'a str, &'a str, &'a str, u64);

fn last_number(name: &str) -> Name<'_> {
    let is_digit = |c: char| c.is_ascii_digit();
    let end = name.rfind(is_digit).map_or(name.len(), |last| last + 1);
    let start = name[..end].trim_end_matches(is_digit).len();
    match name[start..end].parse() {
        Ok(number) => (&name[..start], &name[end..], &name[start..end], number),
        Err(_) => (name, "", "", 0),
    }
}

fn ranges(alike: &[Name<'_>]) -> String {
    let mut ranges: Vec<(&str, &str)> = Vec::new();
    let mut last = 0;
    for &(.., digits, number) in alike {
        match ranges.last_mut() {
            // The first one of a range says how many digits all have at least.
            Some((first, end))
                if last + 1 == number
                    && digits == format!("{number:0width$}", width = first.len()) =>
            {
                *end = digits;
            }
            _ => ranges.push((digits, digits)),
        }
        last = number;
    }
    let text = ranges.iter().map(|(first, end)| match first == end {
        true => (*first).to_string(),
        false => format!("{first}-{end}"),
    });
    text.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{fold, names};
    use proptest::prelude::*;

    #[test]
    fn ranges_keep_their_zeros_and_their_order() {
        let list = |text: &str| names(text).expect("a list").join(" ");
        assert_eq!(list("n[1-3,7],gpu"), "n1 n2 n3 n7 gpu");
        assert_eq!(list("a[09-11]"), "a09 a10 a11");
        assert_eq!(list("r[1-2]-[0-1]x"), "r1-0x r1-1x r2-0x r2-1x");
        assert_eq!(list("n59-[1-3]"), "n59-1 n59-2 n59-3");
        assert_eq!(list(""), "");
    }

    #[test]
    fn what_is_no_list_is_said() {
        for bad in ["n[1-", "n[3-1]", "n[a]", "n[1-999999999]", "n[-2]"] {
            let error = names(bad).expect_err("no list");
            assert!(error.contains('\''), "{error}");
        }
    }

    #[test]
    fn names_are_folded_as_slurm_writes_them() {
        for (all, short) in [
            ("n1 n2 n3 n7", "n[1-3,7]"),
            ("n8 n9 n10 n11", "n[8-11]"),
            ("a09 a10 a11", "a[09-11]"),
            ("a1 a01 a2", "a[1-2,01]"),
            ("b a login a", "a,b,login"),
            ("n1-ib n2-ib n3", "n3,n[1-2]-ib"),
            ("n1", "n1"),
            ("n99999999999999999999999", "n99999999999999999999999"),
            ("", ""),
        ] {
            assert_eq!(fold(all.split_whitespace()), short, "{all}");
        }
        let many: Vec<String> = (1..=1990).map(|n| format!("n{n}")).collect();
        assert_eq!(fold(many.iter().map(String::as_str)), "n[1-1990]");
    }

    proptest! {
        #[test]
        fn what_is_folded_is_the_same_names(all in prop::collection::btree_set("[a-b]?[-x]?0?[0-9]{0,2}(-[0-9]|z)?", 0..40)) {
            let all: Vec<&str> = all.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let mut again = names(&fold(all.iter().copied())).expect("a list");
            again.sort_unstable();
            prop_assert_eq!(again, all);
        }
    }
}
