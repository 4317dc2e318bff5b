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

#[cfg(test)]
mod tests {
    use super::names;

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
}
