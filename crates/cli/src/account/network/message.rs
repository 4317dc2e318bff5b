//! What goes over the network. The service greets each connection with a number of its own. What follows is in credentials, a line each: a question, with that number and one
//! that its asker has drawn, and the parts of its answer with the asker's. So a question is good for one connection, whoever has heard it, and an answer for one question, and
//! complete. MUNGE takes texts of up to a MiB, and a statement may be longer.
//!
//! A line that is no credential says in words why there is no answer ([`refusal`]); it is proven by nothing, and only shown. The greeting is proven by nothing either: who gives
//! another one gets a question that nobody answers.

use libra_units::in_one_line;

/// What both sides speak. Another one is another number.
const GREETING: &str = "libra accounts 1 greeting ";
const QUESTION: &str = "libra accounts 1 question";
const ANSWER: &str = "libra accounts 1 answer";
/// Bytes of an answer in one credential.
const PART: usize = 512 * 1024;
/// Parts of an answer that are taken.
const PARTS: usize = 2048;
const UNANSWERED: &str = "unanswered: ";

/// What a connection begins with: the service's number for it.
pub fn greeting(number: &str) -> String {
    format!("{GREETING}{number}\n")
}

/// The service's number; None for any other line.
pub fn read_greeting(line: &str) -> Option<&str> {
    let number = line.strip_prefix(GREETING)?.trim_end();
    is_number(number).then_some(number)
}

fn is_number(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A question as a text for a credential. `connection`: the service's number, `number`: the asker's.
pub fn question(connection: &str, number: &str, request: &str) -> Vec<u8> {
    format!("{QUESTION} {connection} {number}\n{request}").into_bytes()
}

/// The asker's number, and what is asked.
///
/// # Errors
/// When it is something else, a credential for another service say, or was put on another connection.
pub fn read_question<'a>(connection: &str, text: &'a [u8]) -> Result<(&'a str, &'a [u8]), String> {
    let unknown = || "not a question about accounts of this version of Libra".to_string();
    let (head, request) = split(text).ok_or_else(unknown)?;
    let numbers = head
        .strip_prefix(QUESTION)
        .and_then(|rest| rest.strip_prefix(' '));
    let (of, number) = numbers
        .and_then(|rest| rest.split_once(' '))
        .ok_or_else(unknown)?;
    if !is_number(of) || !is_number(number) {
        return Err(unknown());
    }
    match of == connection {
        true => Ok((number, request)),
        false => Err("a question that was put on another connection".to_string()),
    }
}

/// An answer as texts for credentials, in their order.
pub fn answer(number: &str, reply: &str) -> Vec<Vec<u8>> {
    let parts: Vec<&[u8]> = match reply.is_empty() {
        true => vec![&[]],
        false => reply.as_bytes().chunks(PART).collect(),
    };
    let of = parts.len();
    let part = |(at, part): (usize, &&[u8])| {
        let head = format!("{ANSWER} {number} {} of {of}\n", at + 1);
        [head.as_bytes(), part].concat()
    };
    parts.iter().enumerate().map(part).collect()
}

/// An answer that comes in parts.
pub struct Answer<'a> {
    number: &'a str,
    came: usize,
    text: Vec<u8>,
}

impl Answer<'_> {
    /// To the question of this number.
    pub fn to(number: &str) -> Answer<'_> {
        Answer {
            number,
            came: 0,
            text: Vec::new(),
        }
    }

    /// Takes the next part; all of the answer when that was the last.
    ///
    /// # Errors
    /// When it is no part of this answer, or not the next.
    pub fn take(&mut self, text: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let wrong = || "an answer to another question, or of another version of Libra".to_string();
        let (head, part) = split(text).ok_or_else(wrong)?;
        let rest = head
            .strip_prefix(ANSWER)
            .and_then(|rest| rest.strip_prefix(' '))
            .and_then(|rest| rest.strip_prefix(self.number))
            .and_then(|rest| rest.strip_prefix(' '));
        let (at, of) = rest
            .and_then(|rest| rest.split_once(" of "))
            .ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        let (at, of) = (number(at)?, number(of)?);
        if at != self.came + 1 || at > of || of > PARTS {
            return Err(wrong());
        }
        self.came = at;
        self.text.extend_from_slice(part);
        Ok((at == of).then(|| std::mem::take(&mut self.text)))
    }
}

/// The line for who cannot be answered.
pub fn refusal(why: &str) -> String {
    format!("{UNANSWERED}{}\n", in_one_line(why))
}

/// What such a line says; None for a credential.
pub fn read_refusal(line: &str) -> Option<String> {
    line.strip_prefix(UNANSWERED)
        .map(|why| in_one_line(why.trim()))
}

fn split(text: &[u8]) -> Option<(&str, &[u8])> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&text[..end]).ok()?, &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_question_is_read_as_it_is_written_on_its_connection_and_nothing_else_is() {
        let ours = "f".repeat(32);
        assert_eq!(read_greeting(&greeting(&ours)), Some(ours.as_str()));
        for other in ["", "220 mail ready\n", "libra accounts 1 greeting 12\n"] {
            assert_eq!(read_greeting(other), None, "{other}");
        }
        let text = question(&ours, NUMBER, r#"{"do":"check"}"#);
        let read = read_question(&ours, &text);
        assert_eq!(read, Ok((NUMBER, &br#"{"do":"check"}"#[..])));
        let elsewhere = read_question(NUMBER, &text).expect_err("another connection");
        assert!(elsewhere.contains("on another connection"), "{elsewhere}");
        for head in [
            String::new(),
            "libra accounts 1 question".to_string(),
            format!("libra accounts 1 question {ours}"),
            format!("libra accounts 1 question {ours} 12"),
            format!("libra accounts 2 question {ours} {NUMBER}"),
            format!("libra accounts 1 question {ours} {}", "g".repeat(32)),
            format!("libra accounts 1 answer {ours} {NUMBER}"),
        ] {
            let text = format!("{head}\n{{}}");
            assert!(read_question(&ours, text.as_bytes()).is_err(), "{head:?}");
        }
        assert!(read_question(&ours, b"").is_err());
    }

    #[test]
    fn a_long_answer_comes_in_parts_and_only_whole_and_in_order() {
        for length in [0, 1, PART, PART + 1, 3 * PART] {
            let text = "x".repeat(length);
            let parts = answer(NUMBER, &text);
            assert_eq!(parts.len(), length.div_ceil(PART).max(1));
            let mut comes = Answer::to(NUMBER);
            for part in &parts[..parts.len() - 1] {
                assert_eq!(comes.take(part), Ok(None));
            }
            let all = comes.take(&parts[parts.len() - 1]);
            assert_eq!(all, Ok(Some(text.into_bytes())));
        }
        let parts = answer(NUMBER, &"x".repeat(2 * PART + 1));
        assert!(Answer::to(NUMBER).take(&parts[1]).is_err(), "not the first");
        let mut twice = Answer::to(NUMBER);
        assert_eq!(twice.take(&parts[0]), Ok(None));
        assert!(twice.take(&parts[0]).is_err(), "the same again");
        let other = "f".repeat(32);
        assert!(Answer::to(&other).take(&parts[0]).is_err(), "another's");
        for (at, of) in [
            ("0", "1"),
            ("1", "0"),
            ("1", "99999"),
            ("-1", "1"),
            ("1", "x"),
        ] {
            let text = format!("{ANSWER} {NUMBER} {at} of {of}\n");
            assert!(Answer::to(NUMBER).take(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_refusal_is_a_line_whatever_it_says() {
        let line = refusal("no\nkey\u{1b}[2J");
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(
            read_refusal(&line).as_deref(),
            Some("no\u{fffd}key\u{fffd}[2J")
        );
        assert_eq!(read_refusal("MUNGE:AwQ:"), None);
    }
}
