//! What a user wants run, and what became of it. Pure.

use super::KINDS;
use super::quote::Quote;
use libra_core::decision::class::Class;
use serde::{Deserialize, Serialize};

/// What a job may say besides, where its system takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// Who pays.
    Project,
    /// Memory that its node must have left.
    Memory,
    /// GPUs of its node.
    Gpus,
    /// Indices of an array.
    Array,
    /// Variables of its environment.
    Environment,
    /// Who is told of its end by mail.
    Mail,
}

/// What a user wants run, as it was typed. Made by [`crate::form`], which has looked at every field: none has control
/// characters, and none begins with a dash.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Submission {
    /// Text of the script. Kept in a file of its own.
    #[serde(skip)]
    pub script: String,
    /// Name of the job.
    pub name: String,
    /// Its class of service, by its word; empty: as the script says, or the site.
    pub class: String,
    /// `1h30m`
    pub estimate: String,
    /// `2h`, `@17:30`
    pub deadline: String,
    /// `9000`, `unlimited`
    pub budget: String,
    /// The deadline is soft.
    pub soft: bool,
    /// Credits per second of delay.
    pub penalty: String,
    /// On one node. A number; empty: as the script says, which is one where it says nothing.
    pub processors: String,
    /// Queue or partition, or empty.
    pub queue: String,
    /// Absolute path.
    pub directory: String,
    /// The project or account that pays; empty: the user.
    pub project: String,
    /// Memory that its node must have left: `4GiB`.
    pub memory: String,
    /// GPUs of its node: `2`, `tesla:2`.
    pub gpus: String,
    /// Indices of an array: `1-10`, `0-20:5`.
    pub array: String,
    /// Variables of its environment: `NAME=value,NAME`.
    pub environment: String,
    /// Who is told by mail when it ends: an address.
    pub mail: String,
}

impl Submission {
    /// Its class of service; None if it names none.
    pub fn class(&self) -> Option<Class> {
        Class::of_word(&self.class)
    }

    /// Returns true if a job of its class needs this term, where the form alone says its terms.
    pub fn needs(&self, term: &str) -> bool {
        self.class().unwrap_or_default().needs().contains(&term)
    }

    /// Returns true if the form or a directive of the script says anything of a class, a deadline and what it may cost. Else it is a job of a
    /// batch system that Libra has nothing to do with.
    pub fn says_terms(&self) -> bool {
        let typed = [&self.class, &self.estimate, &self.deadline, &self.budget];
        let in_script = |line: &str| {
            let directives = KINDS.iter().filter_map(|kind| kind.directive);
            let has_options = directives
                .into_iter()
                .any(|directive| line.starts_with(directive));
            has_options
                && ["class=", "sla-class", "estimate", "deadline", "budget"]
                    .iter()
                    .any(|key| line.contains(key))
        };
        typed.iter().any(|value| !value.is_empty()) || self.script.lines().any(in_script)
    }

    /// What was typed of these.
    pub fn extra(&self, extra: Extra) -> &str {
        match extra {
            Extra::Project => &self.project,
            Extra::Memory => &self.memory,
            Extra::Gpus => &self.gpus,
            Extra::Array => &self.array,
            Extra::Environment => &self.environment,
            Extra::Mail => &self.mail,
        }
    }

    /// Its terms that have a value, by the names that `libra run` has for them.
    fn terms(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let kind = if self.soft { "soft" } else { "" };
        let penalty = if self.soft { &self.penalty } else { "" };
        let terms = [
            ("class", self.class.as_str()),
            ("estimate", &self.estimate),
            ("deadline", &self.deadline),
            ("budget", &self.budget),
            ("deadline-type", kind),
            ("penalty-rate", penalty),
        ];
        terms.into_iter().filter(|(_, value)| !value.is_empty())
    }

    /// Its terms as PBS and Grid Engine have them: `deadline_type=soft`.
    pub fn requests(&self) -> Vec<String> {
        let named = self
            .terms()
            .map(|(name, value)| format!("{}={value}", name.replace('-', "_")));
        named.collect()
    }

    /// Options, each as `--name=value`, so that no value is one. `name`: what a term is called there. `more`: besides its terms.
    pub fn options(
        &self,
        name: impl Fn(&'static str) -> &'static str,
        more: &[(&'static str, &str)],
    ) -> Vec<String> {
        let terms = self.terms().map(|(term, value)| (name(term), value));
        let more = more.iter().copied().filter(|(_, value)| !value.is_empty());
        let given = terms.chain(more);
        given
            .map(|(name, value)| format!("--{name}={value}"))
            .collect()
    }

    /// The options of `libra run` and `libra quote` for its terms, its processors, memory and GPUs, and who pays.
    pub fn libra_options(&self) -> Vec<String> {
        let more = [
            ("processors", self.processors.as_str()),
            ("memory", &self.memory),
            ("gpus", &self.gpus),
            ("project", &self.project),
        ];
        self.options(|term| term, &more)
    }
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    /// It is there, under this key.
    Accepted(String),
    /// It is not.
    Refused(Box<Quote>),
    /// Nobody can tell whether it is there; what was said.
    Unknown(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_in_the_form_or_in_the_script() {
        let says = |estimate: &str, script: &str| {
            let wanted = Submission {
                estimate: estimate.to_string(),
                script: script.to_string(),
                ..Submission::default()
            };
            wanted.says_terms()
        };
        assert!(
            says("10", "") && says("", "#PBS -W estimate=1") && says("", "a\n#SBATCH --budget=1")
        );
        assert!(says("", "#SBATCH --sla-class immediate") && says("", "#$ -l class=immediate"));
        assert!(!says("", "") && !says("", "#PBS -N class-1\necho a deadline"));
    }

    #[test]
    fn terms_are_requests() {
        let asked = Submission {
            estimate: "10".to_string(),
            deadline: "1h30m".to_string(),
            budget: "15".to_string(),
            soft: true,
            penalty: "0.1".to_string(),
            class: "dedicated".to_string(),
            ..Submission::default()
        };
        let expected = [
            "class=dedicated",
            "estimate=10",
            "deadline=1h30m",
            "budget=15",
            "deadline_type=soft",
            "penalty_rate=0.1",
        ];
        assert_eq!(asked.requests(), expected);
        let hard = Submission {
            soft: false,
            ..asked
        };
        assert_eq!(hard.requests(), expected[..4]);
        assert!(Submission::default().requests().is_empty());
    }
}
