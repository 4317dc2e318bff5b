//! The protocol between qmaster and a Job Submission Verifier, as jsv(1) and jsv_script_interface(3) have it: lines over pipes, many jobs by one process.
//!
//! qmaster writes `START`, the job's parameters as `PARAM name value`, and `BEGIN`; the verifier answers `STARTED`, then the parameters that it
//! changes and one `RESULT STATE …`. `QUIT`, or the end of the input, ends it. qmaster takes a verifier that writes to its standard error for broken.
//!
//! qmaster writes values as users have given them, with their line breaks: a line may be the rest of a value, and look like one of the protocol. What
//! none of them could have meant is taken for part of the value before; where it could be either, the job is refused, and nothing of it is an answer
//! to another one. Invariant: of each parameter of a job that is judged there was one line, and nothing came after its `BEGIN`.

use std::collections::BTreeMap;

/// Longest message of a result, in bytes: qmaster hands longer ones on as well, but users read them on one line.
pub const LONGEST_MESSAGE: usize = 3000;

/// Longest line of an answer, in bytes without its end: qmaster reads one into a field of 10000 and looks at no length (8.1.9).
const LONGEST_LINE: usize = 9999;

/// Parameters of a job, by their names.
pub type Parameters = BTreeMap<String, String>;

/// What a line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Nothing is to be said to it.
    Nothing,
    /// A job comes: this is to be written.
    Started(&'static str),
    /// All of a job is there: its [`Answer`] is to be written.
    Judge(Parameters),
    /// All of a job is there, and a value of it may be more than one: it is to be refused ([`ambiguous`]).
    Ambiguous,
    /// It is over.
    Quit,
    /// Between two jobs there was no line of the protocol; what comes next may be anything.
    Astray,
}

/// What is answered to a job of which nobody knows where its values end.
pub fn ambiguous() -> Answer {
    Answer::Reject(
        "libra: a value of this job has a line break, and looks like several; leave it out"
            .to_string(),
    )
}

/// What qmaster has written of a job so far.
#[derive(Debug, Default)]
pub struct Reader {
    parameters: Parameters,
    /// A job has begun, and not all of it is there.
    is_open: bool,
    is_ambiguous: bool,
    /// The parameter that came last.
    last: Option<String>,
}

impl Reader {
    /// Takes one line, without its end. `more`: tells whether something stands behind it already.
    pub fn take(&mut self, line: &str, more: &mut dyn FnMut() -> bool) -> Event {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if !self.is_open {
            return match line {
                "START" => {
                    *self = Reader {
                        is_open: true,
                        ..Reader::default()
                    };
                    Event::Started("STARTED")
                }
                "QUIT" => Event::Quit,
                "SHOW" | "" => Event::Nothing,
                _ => Event::Astray,
            };
        }
        match word {
            "PARAM" => {
                let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
                let before = (self.parameters).insert(name.to_string(), value.to_string());
                self.is_ambiguous |= before.is_some();
                self.last = Some(name.to_string());
                Event::Nothing
            }
            // qmaster waits for the answer.
            "BEGIN" if rest.is_empty() && !more() => {
                self.is_open = false;
                let parameters = std::mem::take(&mut self.parameters);
                match self.is_ambiguous {
                    true => Event::Ambiguous,
                    false => Event::Judge(parameters),
                }
            }
            "BEGIN" | "START" | "QUIT" => {
                self.is_ambiguous = true;
                Event::Nothing
            }
            // Environments are not asked for.
            "ENV" => Event::Nothing,
            _ => {
                let last = (self.last.as_ref()).and_then(|name| self.parameters.get_mut(name));
                if let Some(value) = last {
                    value.push('\n');
                    value.push_str(line);
                }
                Event::Nothing
            }
        }
    }
}

/// What becomes of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is queued as it is.
    Accept,
    /// It is queued with these parameters instead of its own; an empty value takes one away.
    Correct(Vec<(&'static str, String)>),
    /// It is not queued; why.
    Reject(String),
    /// It is not queued now; why.
    TryAgain(String),
}

impl Answer {
    /// The lines of it, each with its end.
    pub fn write(&self) -> String {
        let mut text = String::new();
        let (state, message) = match self {
            Answer::Accept => ("ACCEPT", ""),
            Answer::Correct(parameters) => {
                if let Some(why) = too_long(parameters) {
                    return Answer::Reject(why).write();
                }
                for (name, value) in parameters {
                    text.push_str(&parameter(name, value));
                    text.push('\n');
                }
                ("CORRECT", "")
            }
            Answer::Reject(message) => ("REJECT", message.as_str()),
            Answer::TryAgain(message) => ("REJECT_WAIT", message.as_str()),
        };
        let message: Vec<String> = message.lines().map(clean).collect();
        let mut message = message.join("; ");
        if message.len() > LONGEST_MESSAGE {
            let end = (0..=LONGEST_MESSAGE).rfind(|&end| message.is_char_boundary(end));
            message.truncate(end.unwrap_or(0));
            message.push('…');
        }
        let blank = if message.is_empty() { "" } else { " " };
        text.push_str(&format!("RESULT STATE {state}{blank}{message}\n"));
        text
    }
}

fn parameter(name: &str, value: &str) -> String {
    format!("PARAM {name} {}", clean(value))
}

/// Why a job cannot have these parameters: one of them is a line for which qmaster has no room. What a user has sent may be as long.
pub fn too_long(parameters: &[(&'static str, String)]) -> Option<String> {
    parameters.iter().find_map(|(name, value)| {
        let bytes = parameter(name, value).len();
        (bytes > LONGEST_LINE).then(|| {
            format!(
                "libra: with its terms this job has '{name}' of {bytes} bytes, and Grid Engine has room for {LONGEST_LINE}: ask for fewer hosts, or leave out what is long in it"
            )
        })
    })
}

/// A value without what ends a line of the protocol or moves a cursor.
fn clean(text: &str) -> String {
    libra_units::printable(text, usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of lines that all come at once.
    fn read(text: &str) -> Vec<Event> {
        let mut reader = Reader::default();
        let lines: Vec<&str> = text.lines().collect();
        let take =
            |(index, line): (usize, &&str)| reader.take(line, &mut || index + 1 < lines.len());
        let mut events: Vec<Event> = lines.iter().enumerate().map(take).collect();
        events.retain(|event| !matches!(event, Event::Nothing | Event::Started(_)));
        events
    }

    #[test]
    fn a_job_is_what_was_said_since_its_start() {
        let events = read("START\nPARAM l_hard a=1 2,b=3\nPARAM b\nENV ADD X y\nBEGIN");
        let expected = [("b", ""), ("l_hard", "a=1 2,b=3")];
        let expected = expected.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(events, [Event::Judge(Parameters::from(expected))]);
        assert_eq!(read("SHOW\n\nQUIT"), [Event::Quit]);
    }

    #[test]
    fn a_line_break_in_a_value_is_one() {
        let events = read("START\nPARAM ac x=1,\nlibra=2\n\nPARAM N n\nBEGIN");
        let [Event::Judge(parameters)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(parameters["ac"], "x=1,\nlibra=2\n");
        // What may be a value and may be a line.
        for value in [
            "PARAM USER root",
            "START",
            "QUIT",
            "BEGIN",
            "BEGIN\nSTART\nPARAM USER root",
        ] {
            let text = format!("START\nPARAM USER ann\nPARAM ac x\n{value}\nPARAM N n\nBEGIN");
            assert_eq!(read(&text), [Event::Ambiguous], "{value}");
        }
        assert_eq!(read("PARAM USER root"), [Event::Astray]);
        assert_eq!(read("BEGIN"), [Event::Astray]);
        // A job is what it says itself.
        let mut reader = Reader::default();
        for line in [
            "START",
            "PARAM a 1",
            "PARAM a 2",
            "BEGIN",
            "START",
            "PARAM a 1",
        ] {
            reader.take(line, &mut || false);
        }
        assert!(matches!(
            reader.take("BEGIN", &mut || false),
            Event::Judge(_)
        ));
    }

    #[test]
    fn an_answer_is_one_result_on_one_line() {
        assert_eq!(Answer::Accept.write(), "RESULT STATE ACCEPT\n");
        let correct = Answer::Correct(vec![
            ("q_hard", "*@a".to_string()),
            ("l_hard", String::new()),
        ]);
        assert_eq!(
            correct.write(),
            "PARAM q_hard *@a\nPARAM l_hard \nRESULT STATE CORRECT\n"
        );
        assert_eq!(
            Answer::Reject("no\nRESULT STATE ACCEPT".to_string()).write(),
            "RESULT STATE REJECT no; RESULT STATE ACCEPT\n"
        );
        let corrected = |length| Answer::Correct(vec![("ac", "x".repeat(length))]).write();
        assert!(corrected(9_990).ends_with("x\nRESULT STATE CORRECT\n"));
        let refused = corrected(9_991);
        assert!(
            refused.starts_with("RESULT STATE REJECT libra: ") && refused.contains("'ac' of 10000"),
            "{refused}"
        );
        let long = Answer::TryAgain("é".repeat(LONGEST_MESSAGE)).write();
        assert!(
            long.len() < LONGEST_MESSAGE + 40 && long.ends_with("…\n"),
            "{}",
            long.len()
        );
    }
}
