//! Words that somebody misspelt.

/// The word that is spelt most like this one, if it is rather like it: by the characters that must be put in, left out or replaced.
pub fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.to_lowercase().chars().take(64).collect();
    let distances = words.map(|other| (strsim::levenshtein(&word, other), other));
    let (least, other) = distances.min_by_key(|(distance, _)| *distance)?;
    (least <= 1 + word.chars().count() / 3).then_some(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_like_none_has_no_nearest() {
        let nearest = |word| nearest(word, ["deadline", "budget"].into_iter());
        assert_eq!(nearest("deadlin"), Some("deadline"));
        assert_eq!(nearest("Budgte"), Some("budget"));
        assert_eq!(nearest("umask"), None);
    }
}
