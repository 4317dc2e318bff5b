//! Indices of a job array, as PBS and Slurm write them: `1-10`, `0-20:5`, `1,3,7-9`, with `%2` behind it for how many may
//! run at once.

/// Most jobs in one array.
const MOST: usize = 65_536;

/// Reads indices, in the order in which they are written.
///
/// # Errors
/// When it is none, or more than 65,536 jobs.
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    let bad = || {
        let text = super::cut(text);
        format!("'{text}' is not a range of array indices, at most {MOST} of them")
    };
    let mut indices = Vec::new();
    for range in text.split('%').next().unwrap_or_default().split(',') {
        let (range, step) = match range.split_once(':') {
            Some((range, step)) => (range, step.trim().parse().map_err(|_| bad())?),
            None => (range, 1usize),
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u32 = first.trim().parse().map_err(|_| bad())?;
        let last: u32 = last.trim().parse().map_err(|_| bad())?;
        if step == 0 || last < first || (last - first) as usize / step + indices.len() >= MOST {
            return Err(bad());
        }
        indices.extend((first..=last).step_by(step));
    }
    Ok(indices)
}

/// Writes indices that ascend, neighbours as a range: `1-3,7`.
pub fn show(indices: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &index in indices {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let one = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let texts: Vec<String> = ranges.into_iter().map(one).collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::{parse, show};

    #[test]
    fn ranges_of_arrays() {
        assert_eq!(parse("1-3"), Ok(vec![1, 2, 3]));
        assert_eq!(parse("0-20:10"), Ok(vec![0, 10, 20]));
        assert_eq!(parse("1,3,7-8"), Ok(vec![1, 3, 7, 8]));
        assert_eq!(parse("1-4%2"), Ok(vec![1, 2, 3, 4]));
        for bad in ["", "a", "3-1", "1-4:0", "0-70000", "1--3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        // Who reads the error need not have written the text.
        let error = parse(&"x\n".repeat(1000)).expect_err("long");
        assert!(error.len() < 400 && !error.contains('\n'), "{error}");
    }

    #[test]
    fn written_as_they_are_read() {
        assert_eq!(show(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(show(&[4_294_967_295]), "4294967295");
        assert_eq!(show(&[]), "");
    }
}
