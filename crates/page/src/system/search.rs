//! What is searched for in a job's output: read line by line, however large it is, and never for long.

use super::Problem;
use super::output::{failed, open};
use crate::terminal;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

/// How far one search goes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// So many places.
    pub hits: usize,
    /// So many bytes.
    pub bytes: u64,
    /// For so long.
    pub time: Duration,
}

/// How far a search goes that somebody waits for.
pub const LIMITS: Limits = Limits {
    hits: 100,
    bytes: 1 << 30,
    time: Duration::from_secs(5),
};

/// The clock is read once for so many bytes: it costs more than a line.
const BETWEEN_READINGS: u64 = 64 << 10;

/// A line that is longer is searched in pieces, in bytes.
const LONGEST_SEARCHED: u64 = 1 << 20;

/// So many bytes of a line are shown before what was found, and behind it.
const AROUND: [usize; 2] = [60, 140];

/// A line in which it was found: what is before it, itself, and what is behind it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hit {
    /// The number of the line, from 1.
    pub line: u64,
    /// Where the line begins, in bytes.
    pub at: u64,
    /// As a terminal shows it.
    pub text: [String; 3],
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The lines, in their order.
    pub hits: Vec<Hit>,
    /// So far it was looked, in bytes: the beginning of a line or of a piece of one, or the end of the file.
    pub to: u64,
    /// So many lines are before that.
    pub lines: u64,
    /// How large the file is.
    pub size: u64,
}

/// Lines that have these words beside each other, capitals or not (of ASCII), as a terminal shows them. `from`: where to begin, which has so
/// many `lines` before it.
///
/// # Errors
/// The file cannot be read, or is none that may be shown.
pub fn search(
    path: &Path,
    words: &str,
    from: u64,
    lines: u64,
    limits: &Limits,
) -> Result<Found, Problem> {
    let mut found = Found {
        to: from,
        lines,
        ..Found::default()
    };
    let Some((mut file, size)) = open(path)? else {
        return Ok(found);
    };
    found.size = size;
    let words = words.to_ascii_lowercase();
    if words.is_empty() || from >= size {
        found.to = from.min(size);
        return Ok(found);
    }
    file.seek(SeekFrom::Start(from))
        .map_err(|error| failed(path, &error))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let until = Instant::now() + limits.time;
    let mut bytes = Vec::new();
    let mut read_at = from;
    while found.hits.len() < limits.hits && found.to - from < limits.bytes {
        // By bytes: a line may be as long as the file.
        if found.to - read_at >= BETWEEN_READINGS {
            read_at = found.to;
            if Instant::now() > until {
                break;
            }
        }
        bytes.clear();
        let read = (&mut reader)
            .take(LONGEST_SEARCHED)
            .read_until(b'\n', &mut bytes);
        let count = read.map_err(|error| failed(path, &error))?;
        if count == 0 {
            found.to = found.to.max(size);
            break;
        }
        let ends = bytes.last() == Some(&b'\n');
        if let Some(text) = hit(&bytes[..count - usize::from(ends)], &words) {
            let (line, at) = (found.lines + 1, found.to);
            found.hits.push(Hit { line, at, text });
        }
        found.to += count as u64;
        found.lines += u64::from(ends);
    }
    Ok(found)
}

/// What was found in a line, and what is around it. `words`: in small letters.
fn hit(bytes: &[u8], words: &str) -> Option<[String; 3]> {
    let text = String::from_utf8_lossy(bytes);
    let text = match text.contains(char::is_control) {
        true => terminal::plain(&text),
        false => text.into_owned(),
    };
    let at = text.to_ascii_lowercase().find(words)?;
    let end = at + words.len();
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (first, last) = (
        boundary(at.saturating_sub(AROUND[0])),
        boundary((end + AROUND[1]).min(text.len())),
    );
    let dots = |is: bool| if is { "…" } else { "" };
    Some([
        format!("{}{}", dots(first > 0), &text[first..at]),
        text[at..end].to_string(),
        format!("{}{}", &text[end..last], dots(last < text.len())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_as_they_are_shown_and_a_search_has_an_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("output");
        assert_eq!(
            search(&file, "x", 0, 0, &LIMITS).expect("not there"),
            Found::default()
        );
        let text = "no\nAn Err\u{1b}[31mor\u{1b}[0m <here>\n10 %\rdone error\n".to_string();
        std::fs::write(
            &file,
            text.clone() + &"\u{e4}".repeat(300) + "ERROR" + &"\u{e4}".repeat(300),
        )
        .expect("written");
        let found = search(&file, "error", 0, 0, &LIMITS).expect("found");
        let hits: Vec<(u64, u64)> = found.hits.iter().map(|hit| (hit.line, hit.at)).collect();
        assert_eq!(hits, [(2, 3), (3, 28), (4, text.len() as u64)]);
        assert_eq!(found.hits[0].text, ["An ", "Error", " <here>"]);
        assert_eq!(found.hits[1].text, ["done ", "error", ""]);
        let [before, word, behind] = &found.hits[2].text;
        assert_eq!(word, "ERROR");
        assert!(before.starts_with("…\u{e4}") && behind.ends_with("\u{e4}…"));
        assert!(before.chars().count() == 31 && behind.chars().count() == 71);
        assert_eq!((found.to, found.lines), (found.size, 3));
        // It stops and goes on.
        let few = Limits { hits: 1, ..LIMITS };
        let first = search(&file, "error", 0, 0, &few).expect("found");
        assert_eq!((first.hits.len(), first.to, first.lines), (1, 28, 2));
        let next = search(&file, "error", first.to, first.lines, &few).expect("found");
        assert_eq!(next.hits, found.hits[1..2]);
        let short = Limits { bytes: 1, ..LIMITS };
        assert_eq!(search(&file, "error", 0, 0, &short).expect("found").to, 3);
        assert_eq!(
            search(&file, "error", 1 << 40, 0, &LIMITS)
                .expect("beyond")
                .to,
            found.size
        );
        assert!(
            search(&file, "", 0, 0, &LIMITS)
                .expect("nothing")
                .hits
                .is_empty()
        );
    }

    #[test]
    fn a_line_as_long_as_the_file_has_an_end_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("output");
        std::fs::write(&file, vec![b'x'; 3 * LONGEST_SEARCHED as usize]).expect("written");
        let no_time = Limits {
            time: Duration::ZERO,
            ..LIMITS
        };
        let found = search(&file, "y", 0, 0, &no_time).expect("read");
        assert_eq!((found.to, found.lines), (LONGEST_SEARCHED, 0));
        let rest = search(&file, "y", found.to, found.lines, &LIMITS).expect("read");
        assert_eq!((rest.to, rest.hits.len()), (rest.size, 0));
    }
}
