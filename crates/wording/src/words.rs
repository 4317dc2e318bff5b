//! Words that somebody misspelt.

/// The word that is spelt most like this one, if it is rather like it.
pub fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(64).collect();
    let distances = words.map(|other| (distance(&word, other), other));
    let (least, other) = distances.min_by_key(|(distance, _)| *distance)?;
    (least <= 1 + word.len() / 3).then_some(other)
}

/// How many characters must be put in, left out or replaced (Levenshtein).
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let of = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), b);
        assert_eq!(of("kitten", "sitting"), 3);
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("fifo", "fifo"), 0);
    }

    #[test]
    fn a_word_that_is_like_none_has_no_nearest() {
        let nearest = |word| nearest(word, ["deadline", "budget"].into_iter());
        assert_eq!(nearest("deadlin"), Some("deadline"));
        assert_eq!(nearest("Budgte"), Some("budget"));
        assert_eq!(nearest("umask"), None);
    }
}
