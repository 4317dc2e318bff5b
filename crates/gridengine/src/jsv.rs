//! The protocol between qmaster and a Job Submission Verifier, as jsv(1) and jsv_script_interface(3) have it: lines over pipes, many jobs by one process.
//!
//! qmaster writes `START`, the job's parameters as `PARAM name value`, and `BEGIN`; the verifier answers `STARTED`, then the parameters that it
//! changes and one `RESULT STATE …`. `QUIT`, or the end of the input, ends it. qmaster takes a verifier that writes to its standard error for broken.

use std::collections::BTreeMap;

/// Longest message of a result, in bytes: qmaster hands longer ones on as well, but users read them on one line.
pub const LONGEST_MESSAGE: usize = 3000;

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
    /// It is over.
    Quit,
    /// No line of the protocol: this is to be written.
    Unknown(String),
}

/// What qmaster has written of a job so far.
#[derive(Debug, Default)]
pub struct Reader {
    parameters: Parameters,
}

impl Reader {
    /// Takes one line, without its end.
    pub fn take(&mut self, line: &str) -> Event {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "START" => {
                self.parameters.clear();
                Event::Started("STARTED")
            }
            "PARAM" => {
                let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
                self.parameters.insert(name.to_string(), value.to_string());
                Event::Nothing
            }
            "BEGIN" => Event::Judge(std::mem::take(&mut self.parameters)),
            "QUIT" => Event::Quit,
            // Environments are not asked for, but may come; SHOW is for people.
            "ENV" | "SHOW" | "" => Event::Nothing,
            other => Event::Unknown(format!("ERROR unknown command {}", clean(other))),
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
                for (name, value) in parameters {
                    text.push_str(&format!("PARAM {name} {}\n", clean(value)));
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

/// A value without what ends a line of the protocol or moves a cursor.
fn clean(text: &str) -> String {
    libra_units::printable(text, usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_what_was_said_since_its_start() {
        let mut reader = Reader::default();
        assert_eq!(reader.take("START"), Event::Started("STARTED"));
        assert_eq!(reader.take("PARAM N lost"), Event::Nothing);
        assert_eq!(reader.take("START"), Event::Started("STARTED"));
        for line in ["PARAM l_hard a=1 2,b=3", "PARAM b", "ENV ADD X y", "SHOW"] {
            assert_eq!(reader.take(line), Event::Nothing);
        }
        let Event::Judge(parameters) = reader.take("BEGIN") else {
            panic!("no job");
        };
        let expected = [("b", ""), ("l_hard", "a=1 2,b=3")];
        let expected = expected.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(parameters, Parameters::from(expected));
        assert_eq!(reader.take("QUIT"), Event::Quit);
        assert_eq!(
            reader.take("RESULT\u{1b} x"),
            Event::Unknown("ERROR unknown command RESULT\u{fffd}".to_string())
        );
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
        let long = Answer::TryAgain("é".repeat(LONGEST_MESSAGE)).write();
        assert!(
            long.len() < LONGEST_MESSAGE + 40 && long.ends_with("…\n"),
            "{}",
            long.len()
        );
    }
}
