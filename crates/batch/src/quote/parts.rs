//! Answers that are too long for what a batch system's command can print. Who can join parts asks for them (`parts:ask`): the refusal has the
//! first one, the server keeps the whole for a minute, and the others are asked for one by one (`part:2:KEY`).
//!
//! Invariants:
//! - A part is one line that begins with [`MARK`]; what it begins with is an object, so that its end is known, and says whether a quote is held.
//! - A key cannot be guessed, and whoever asks by another user's gets what is said of one that is not there.
//! - What is kept has an end: in time, in number for each user, and in bytes.

use super::line::{MARK, marked_and_rest};
use crate::words;
use libra_core::book::held_quote::{QuoteError, new_number};

/// Longest whole answer in bytes: some twenty parts in PBS. One that would be longer is shortened to it.
pub const LONGEST_WHOLE: usize = 16 * 1024;

/// Seconds that an answer is kept.
const KEPT: f64 = 60.0;

/// Answers of one user at a time; the oldest gives way.
const MOST_OF_USER: usize = 8;

/// Answers of all users at a time; the oldest gives way. Together with [`LONGEST_WHOLE`] they take 2 MiB at most.
const MOST: usize = 128;

/// Bytes for what a part begins with, with two digits of parts.
const HEAD: usize = 112;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerPart {
    /// Which one, from 1.
    pub number: usize,
    /// How many there are.
    pub parts: usize,
    /// By what the others are asked for; where a quote is held, its number.
    pub key: String,
    /// Whether the answer holds a quote.
    pub held: bool,
    /// So much of the answer.
    pub text: String,
}

impl AnswerPart {
    /// As one line, for [`AnswerPart::find`].
    fn line(&self) -> String {
        let AnswerPart {
            number,
            parts,
            key,
            held,
            text,
        } = self;
        let bytes = text.len();
        format!(
            r#"{MARK}{{"v":1,"part":{number},"parts":{parts},"key":"{key}","held":{held},"bytes":{bytes}}} {text}"#
        )
    }

    /// The part in what a batch system's command has printed; None if there is no whole one in it.
    pub fn find(said: &str) -> Option<AnswerPart> {
        let (head, rest) = marked_and_rest(said)?;
        let number = |key: &str| head[key].as_u64().map(|number| number as usize);
        let (part, parts) = (number("part")?, number("parts")?);
        let text = rest.strip_prefix(' ')?.get(..number("bytes")?)?;
        let known = head["v"] == 1 && (1..=parts).contains(&part);
        known.then_some(AnswerPart {
            number: part,
            parts,
            key: head["key"].as_str()?.to_string(),
            held: head["held"] == true,
            text: text.to_string(),
        })
    }
}

/// An answer of which parts may be asked for.
#[derive(Debug)]
struct StoredAnswer {
    user: String,
    key: String,
    held: bool,
    until: f64,
    texts: Vec<String>,
}

impl StoredAnswer {
    fn part(&self, number: usize) -> Option<String> {
        let part = AnswerPart {
            number,
            parts: self.texts.len(),
            key: self.key.clone(),
            held: self.held,
            text: self.texts.get(number.checked_sub(1)?)?.clone(),
        };
        Some(part.line())
    }
}

/// The answers of one server of which parts may be asked for, the oldest first.
#[derive(Debug, Default)]
pub struct StoredAnswers(Vec<StoredAnswer>);

impl StoredAnswers {
    /// Keeps an answer, and gives its first part, a line of at most `longest` bytes (a thousand, say). `quote`: the number of the quote that it
    /// holds. `bits`: random ones that nobody can guess.
    pub fn keep(
        &mut self,
        answer: &str,
        longest: usize,
        user: &str,
        quote: Option<&str>,
        (now, bits): (f64, u128),
    ) -> String {
        let until = now + KEPT;
        let kept = StoredAnswer {
            user: user.to_string(),
            key: quote.map_or_else(|| new_number(until, bits), str::to_string),
            held: quote.is_some(),
            until,
            texts: split(answer, longest.saturating_sub(HEAD)),
        };
        let first = kept.part(1).unwrap_or_default();
        self.forget(now);
        // A question that is judged once more, as it is where jobs wait, is one answer.
        (self.0).retain(|other| other.user != kept.user || other.held || other.texts != kept.texts);
        let of_user = |kept: &StoredAnswer| kept.user == user;
        if self.0.iter().filter(|kept| of_user(kept)).count() >= MOST_OF_USER {
            let oldest = self.0.iter().position(of_user).unwrap_or_default();
            self.0.remove(oldest);
        }
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push(kept);
        first
    }

    /// Another part of an answer to this user, as a line.
    ///
    /// # Errors
    /// There is none, or not any more.
    pub fn part(
        &mut self,
        key: &str,
        number: usize,
        user: &str,
        now: f64,
    ) -> Result<String, QuoteError> {
        self.forget(now);
        let found = (self.0.iter_mut()).find(|kept| kept.key == key && kept.user == user);
        let Some(kept) = found else {
            return Err(QuoteError::NoPart(number));
        };
        // Of many parts each comes as late as a busy server lets it.
        kept.until = kept.until.max(now + KEPT);
        kept.part(number).ok_or(QuoteError::NoPart(number))
    }

    fn forget(&mut self, now: f64) {
        self.0.retain(|kept| now < kept.until);
    }
}

/// In pieces of at most so many bytes, of whole characters.
fn split(text: &str, longest: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(words::whole_characters(rest, longest.max(4)));
        pieces.push(piece.to_string());
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1_790_000_000.0;

    /// As the client does it.
    fn joined(answers: &mut StoredAnswers, first: &str, user: &str) -> String {
        let first = AnswerPart::find(first).expect("a part");
        let mut whole = first.text;
        for number in 2..=first.parts {
            let line = answers.part(&first.key, number, user, NOW).expect("kept");
            assert!(line.len() <= 1000 && !line.contains('\n'), "{line}");
            let part = AnswerPart::find(&format!("qsub: {line}\n")).expect("a part");
            assert_eq!((part.number, &part.key), (number, &first.key));
            whole.push_str(&part.text);
        }
        whole
    }

    #[test]
    fn an_answer_is_whole_again_whatever_is_in_it() {
        for text in [
            "x".repeat(5000),
            " ".repeat(3000),
            "\u{1f40e}".repeat(1001),
            format!("{MARK}{{}} é ").repeat(300),
            "1".to_string(),
        ] {
            let mut answers = StoredAnswers::default();
            let first = answers.keep(&text, 1000, "ann", None, (NOW, 5));
            assert!(first.len() <= 1000, "{}", first.len());
            assert!(joined(&mut answers, &first, "ann") == text, "{first}");
        }
        // With the longest key and number of parts.
        let mut answers = StoredAnswers::default();
        let long = "x".repeat(LONGEST_WHOLE);
        let number = new_number(NOW, u128::MAX);
        let first = answers.keep(&long, 1000, "ann", Some(&number), (NOW, 5));
        let part = AnswerPart::find(&first).expect("a part");
        assert_eq!((part.held, &part.key), (true, &number));
        assert!(part.parts <= 20, "{}", part.parts);
        assert!(joined(&mut answers, &first, "ann") == long);
    }

    #[test]
    fn a_part_that_was_cut_is_none() {
        let mut answers = StoredAnswers::default();
        let first = answers.keep(&"é".repeat(2000), 1000, "ann", None, (NOW, 5));
        assert!(AnswerPart::find(&first).is_some());
        for end in (0..first.len()).filter(|end| first.is_char_boundary(*end)) {
            assert_eq!(AnswerPart::find(&first[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_foreign_and_an_old_key_find_nothing() {
        let mut answers = StoredAnswers::default();
        let first = answers.keep(&"x".repeat(2000), 1000, "ann", None, (NOW, 5));
        let key = AnswerPart::find(&first).expect("a part").key;
        let mut ask = |user: &str, number, now| answers.part(&key, number, user, now);
        assert!(ask("ann", 3, NOW + 59.0).is_ok());
        for (user, number, now) in [
            ("bob", 2, NOW),
            ("ann", 0, NOW),
            ("ann", 4, NOW),
            ("ann", usize::MAX, NOW),
            // A minute after the last part that came.
            ("ann", 2, NOW + 119.0),
        ] {
            let none = Err(QuoteError::NoPart(number));
            assert_eq!(ask(user, number, now), none, "{user} {now}");
        }
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let mut answers = StoredAnswers::default();
        let mut keys = Vec::new();
        for index in 0..2 * MOST {
            let user = format!("user{}", index % 50);
            let time = (NOW, index as u128);
            let text = format!("{index}{}", "x".repeat(2000));
            let first = answers.keep(&text, 1000, &user, None, time);
            keys.push((AnswerPart::find(&first).expect("a part").key, user));
        }
        assert_eq!(answers.0.len(), MOST);
        let (last, user) = &keys[2 * MOST - 1];
        assert!(answers.part(last, 2, user, NOW).is_ok());
        for index in 0..2 * MOST_OF_USER {
            let text = format!("xyz{index}");
            answers.keep(&text, 1000, "ann", None, (NOW, index as u128));
        }
        let of_ann = answers.0.iter().filter(|kept| kept.user == "ann").count();
        assert_eq!((of_ann, answers.0.len()), (MOST_OF_USER, MOST));
        for bits in [1, 2] {
            // The same answer once more is the same one.
            answers.keep("xyz", 1000, "ann", None, (NOW + 60.0, bits));
            assert_eq!(answers.0.len(), 1);
        }
        answers.keep("xyz", 1000, "bob", None, (NOW + 60.0, 3));
        assert_eq!(answers.0.len(), 2);
    }
}
