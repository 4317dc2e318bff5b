//! The lists that stand behind `-W` and `-l`, read as qsub reads them.
//!
//! Pure. `-W a=b,c=d` is peculiar: a value may hold commas, and reaches to the last comma before
//! the next `=`. (`stagein=a@h:b,c@h:d,block=true` are two entries.)

use std::ops::Range;

/// One entry of a `-W` list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListItem {
    /// Where it stands in the list.
    pub at: Range<usize>,
    pub name: Vec<u8>,
    /// As qsub takes it: without quotes.
    pub value: Vec<u8>,
}

/// Spaces as C's isspace(3) has them; Rust's own notion leaves out the vertical tab.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The entries of a `-W` list. None if qsub would call it illegal, and where nothing is in it.
pub fn entries(list: &[u8]) -> Option<Vec<ListItem>> {
    // qsub writes over closing quotes.
    let mut text = list.to_vec();
    let mut found = Vec::new();
    let mut next = 0;
    while let Some((entry, end)) = entry(&mut text, next)? {
        found.push(entry);
        next = end;
    }
    (!found.is_empty()).then_some(found)
}

/// The entry from `start` on and where the next one starts; `Some(None)` at the end.
#[expect(clippy::option_option, reason = "illegal, at the end, or an entry")]
fn entry(text: &mut [u8], start: usize) -> Option<Option<(ListItem, usize)>> {
    let skip = |text: &[u8], from: usize, what: &dyn Fn(u8) -> bool| {
        let length = text[from..].iter().take_while(|byte| what(**byte)).count();
        from + length
    };
    let name_at = skip(text, start, &is_space);
    match text.get(name_at) {
        None => return Some(None),
        Some(b'=' | b',') => return None,
        Some(_) => {}
    }
    let name_end = skip(text, name_at, &|byte| !is_space(byte) && byte != b'=');
    let equals = skip(text, name_end, &is_space);
    if text.get(equals) != Some(&b'=') {
        return None;
    }
    let mut value_at = skip(text, equals + 1, &is_space);
    let mut from = value_at;
    if let Some(quote @ (b'"' | b'\'')) = text.get(value_at).copied() {
        value_at += 1;
        let close = skip(text, value_at, &|byte| byte != quote);
        *text.get_mut(close)? = b' ';
        from = close;
    }
    let name = text[name_at..name_end].to_vec();
    let next_equals = skip(text, from, &|byte| byte != b'=');
    if next_equals == text.len() {
        let last = text[..].iter().rposition(|byte| !is_space(*byte))?;
        if text[last] == b',' {
            return None;
        }
        let value = text[value_at..].to_vec();
        let at = start..text.len();
        return Some(Some((ListItem { at, name, value }, text.len())));
    }
    let comma = text[value_at..next_equals]
        .iter()
        .rposition(|byte| *byte == b',')?;
    let comma = value_at + comma;
    let value = &text[value_at..comma];
    let length = value.iter().rposition(|byte| !is_space(*byte));
    let value = value[..length.map_or(0, |last| last + 1)].to_vec();
    let at = start..comma;
    Some(Some((ListItem { at, name, value }, comma + 1)))
}

/// The list with these of its entries alone, each as it was written. None if none is kept.
pub fn keep(
    list: &[u8],
    entries: &[ListItem],
    kept: &dyn Fn(&ListItem) -> bool,
) -> Option<Vec<u8>> {
    let last_kept = entries.iter().rposition(kept)?;
    let mut text = Vec::new();
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| kept(entry)) {
        if !text.is_empty() {
            text.push(b',');
        }
        let written = &list[entry.at.clone()];
        // Only in front of a comma does qsub strip the spaces behind a value, and a closing quote
        // counts as one. What comes last now and did not before is written without.
        let moved = index == last_kept && index + 1 != entries.len();
        let plain = !entry.value.contains(&b'=')
            && !matches!(entry.value.first(), Some(b'"' | b'\''))
            && !entry.value.first().is_some_and(|byte| is_space(*byte));
        if moved && plain {
            text.extend_from_slice(&entry.name);
            text.push(b'=');
            text.extend_from_slice(&entry.value);
        } else {
            text.extend_from_slice(written);
        }
    }
    Some(text)
}

/// The names in a list of resources as `-l` has it, as far as qsub would read it.
pub fn resource_names(list: &[u8]) -> Vec<&[u8]> {
    let all = resources(list).into_iter();
    all.map(|(name, _)| name).collect()
}

/// The same with their values, as they are written; one without a value has an empty one.
pub fn resources(list: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut found = Vec::new();
    let mut rest = list;
    loop {
        let start = rest.iter().take_while(|byte| is_space(**byte)).count();
        rest = &rest[start..];
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'=' | b','))
            .unwrap_or(rest.len());
        if end == 0 {
            return found;
        }
        let name = &rest[..end];
        let length = name.iter().take_while(|byte| !is_space(**byte)).count();
        let name = &name[..length];
        rest = &rest[end..];
        let mut value = &rest[..0];
        if rest.first() == Some(&b'=') {
            let end = 1 + value_length(&rest[1..]);
            value = rest[1..end].trim_ascii();
            rest = &rest[end..];
        }
        found.push((name, value));
        rest = rest.strip_prefix(b",").unwrap_or(rest);
    }
}

/// Up to where the value of a resource reaches: a comma or a space outside quotes.
fn value_length(text: &[u8]) -> usize {
    let start = text.iter().take_while(|byte| is_space(**byte)).count();
    let (mut kind, mut inside) = (None, false);
    for (index, byte) in text.iter().enumerate().skip(start) {
        match byte {
            b'"' | b'\'' if kind.is_none_or(|kind| kind == *byte) => {
                kind = Some(*byte);
                inside = !inside;
            }
            _ if inside => {}
            b',' => return index,
            _ if is_space(*byte) => return index,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let entries = entries(list.as_bytes())?.into_iter();
        Some(
            entries
                .map(|entry| (text(entry.name), text(entry.value)))
                .collect(),
        )
    }

    #[test]
    fn lists_as_qsub_reads_them() {
        for (list, expected) in [
            ("a=1", &[("a", "1")][..]),
            ("a=1,b=2", &[("a", "1"), ("b", "2")]),
            (" a = 1 , b = 2", &[("a", "1"), ("b", "2")]),
            ("a=1,2,b=3", &[("a", "1,2"), ("b", "3")]),
            (
                "stagein=x@h:/a,y@h:/b,deadline=5,block=true",
                &[
                    ("stagein", "x@h:/a,y@h:/b"),
                    ("deadline", "5"),
                    ("block", "true"),
                ],
            ),
            (
                "depend=afterok:1:2,afterany:3,budget=4",
                &[("depend", "afterok:1:2,afterany:3"), ("budget", "4")],
            ),
            ("a=\"x=y\",b=2", &[("a", "x=y"), ("b", "2")]),
            ("a='x,y=z' , b=2", &[("a", "x,y=z"), ("b", "2")]),
            // The last value keeps what stands behind it: a space, or the place of the quote.
            ("a=1 ", &[("a", "1 ")]),
            ("a=\"1\"", &[("a", "1 ")]),
            ("a=", &[("a", "")]),
            ("a=,b=c", &[("a", ""), ("b", "c")]),
            ("a=1,b", &[("a", "1,b")]),
            ("a,b=1", &[("a,b", "1")]),
            ("a=1,,b=2", &[("a", "1,"), ("b", "2")]),
        ] {
            let expected: Vec<(String, String)> = expected
                .iter()
                .map(|(name, value)| ((*name).to_string(), (*value).to_string()))
                .collect();
            assert_eq!(read(list), Some(expected), "{list}");
        }
    }

    #[test]
    fn illegal_lists() {
        for list in [
            "",
            "  ",
            "a",
            "=1",
            ",a=1",
            "a=1,",
            "a=1, ",
            "a b=1",
            "a=1=2",
            "a=\"1",
            "a==1",
            "a=1 b=2",
            "a=\"x,y\" b=1",
            "a=1,=2",
        ] {
            assert_eq!(read(list), None, "{list:?}");
        }
    }

    #[test]
    fn what_is_kept_reads_as_before() {
        for (list, expected) in [
            ("deadline=5", None),
            ("deadline=5,block=true", Some("block=true")),
            ("block=true,deadline=5", Some("block=true")),
            ("a=1,deadline=5,b=2,3", Some("a=1,b=2,3")),
            ("a=1,2,deadline=5", Some("a=1,2")),
            ("a=\"1,2\" ,deadline=5", Some("a=1,2")),
            ("a=\"x=y\",deadline=5", Some("a=\"x=y\"")),
            ("deadline=5,a=\"1\"", Some("a=\"1\"")),
            ("a='1' , deadline=5, b=2", Some("a='1' , b=2")),
        ] {
            let entries = entries(list.as_bytes()).expect(list);
            let kept = keep(list.as_bytes(), &entries, &|e| e.name != b"deadline");
            let kept = kept.map(|kept| String::from_utf8(kept).expect("text"));
            assert_eq!(kept.as_deref(), expected, "{list}");
        }
    }

    #[test]
    fn names_of_resources() {
        for (list, expected) in [
            ("ncpus=1", &["ncpus"][..]),
            ("select=2:ncpus=1,deadline=5", &["select", "deadline"]),
            (" a = 1, b = 2", &["a", "b"]),
            // A space ends a value, and then qsub misses a name.
            ("a=1 , b=2", &["a"]),
            ("a=\"x,deadline=3\",b", &["a", "b"]),
            ("a='x\"y,z',b=1", &["a", "b"]),
            ("a,b", &["a", "b"]),
            ("a=1,", &["a"]),
            ("", &[]),
            (",a=1", &[]),
            ("a=1 b=2", &["a", "b"]),
        ] {
            let names = resource_names(list.as_bytes());
            let expected: Vec<&[u8]> = expected.iter().map(|name| name.as_bytes()).collect();
            assert_eq!(names, expected, "{list}");
        }
    }
}
