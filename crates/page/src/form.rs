//! The submission form: from the fields of a request to a [`Submission`], every field looked at.
//!
//! Values become arguments of programs and parts of headers of batch systems, so control characters are refused, and
//! whatever begins with a dash. Nothing of a form is lost by a mistake in it: the page shows it again as it was typed.

use super::system::submission::{Extra, Submission};
use super::system::{Kind, Problem};
use libra_core::decision::class::Class;
use libra_units::{duration, gpus, memory};
use std::collections::BTreeMap;

/// The largest script, in bytes. Slurm's own limit is 4 MiB; scripts of people have some thousand bytes.
pub const LARGEST_SCRIPT: usize = 1 << 20;

/// Fields of a form, by name. Of several with a name the last counts.
pub type Fields = BTreeMap<String, String>;

/// What is expected as a budget.
const BUDGET: &str = "a number of credits, or unlimited";

/// The name of a job nobody has named.
const NAMELESS: &str = "job";

/// What was typed, as it was typed but for line ends and blanks around it: to be shown again.
pub fn typed(fields: &Fields) -> Submission {
    let get = |name: &str| {
        fields
            .get(name)
            .map_or("", |value| value.trim())
            .to_string()
    };
    let typed = fields.get("script").map_or("", String::as_str);
    // An empty file is what a browser sends where none was chosen.
    let script = match fields.get("file") {
        Some(file) if !file.trim().is_empty() => file.as_str(),
        _ => typed,
    };
    Submission {
        script: script.replace("\r\n", "\n"),
        name: get("name"),
        class: get("class"),
        estimate: get("estimate"),
        deadline: get("deadline"),
        budget: get("budget"),
        soft: get("deadline-type") == "soft",
        penalty: get("penalty"),
        processors: get("processors"),
        queue: get("queue"),
        directory: get("directory"),
        project: get("project"),
        memory: get("memory"),
        gpus: get("gpus"),
        array: get("array"),
        environment: get("environment"),
        mail: get("mail"),
    }
}

/// Names and values of a form, but for the script: what a template keeps.
pub fn kept(typed: &Submission) -> Vec<(&'static str, &str)> {
    let kind = if typed.soft { "soft" } else { "" };
    let mut kept = vec![
        ("name", typed.name.as_str()),
        ("class", &typed.class),
        ("estimate", &typed.estimate),
        ("deadline", &typed.deadline),
        ("budget", &typed.budget),
        ("deadline-type", kind),
        ("penalty", &typed.penalty),
        ("processors", &typed.processors),
        ("queue", &typed.queue),
        ("directory", &typed.directory),
    ];
    kept.extend(EXTRAS.map(|(extra, name, ..)| (name, typed.extra(extra))));
    kept
}

/// Fields of a job that not every system takes: what they are called in the form and on the page, how long they may be, what is expected.
pub const EXTRAS: [(Extra, &str, &str, usize, &str); 6] = [
    (
        Extra::Project,
        "project",
        "Project or account",
        64,
        "the name of one, of letters, digits and . _ -",
    ),
    (
        Extra::Memory,
        "memory",
        "Memory",
        32,
        "an amount such as 512MiB or 4GiB",
    ),
    (
        Extra::Gpus,
        "gpus",
        "GPUs",
        64,
        "how many, such as 2, or a type and how many, such as tesla:2",
    ),
    (
        Extra::Array,
        "array",
        "Array",
        64,
        "indices such as 1-10 or 0-20:5",
    ),
    (
        Extra::Environment,
        "environment",
        "Environment",
        1000,
        "NAME=value,NAME=value of letters, digits and . _ / : + - @, or names alone",
    ),
    (
        Extra::Mail,
        "mail",
        "Mail to",
        200,
        "an address such as ann@example.org",
    ),
];

/// Returns true if a value may stand in this field.
fn is_extra(extra: Extra, value: &str) -> bool {
    let begins = value.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let of = |also: &str| {
        let is = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
        begins && value.chars().all(is)
    };
    match extra {
        Extra::Project => of("._-"),
        Extra::Memory => memory::parse(value).is_ok_and(|bytes| bytes > 0),
        Extra::Gpus => gpus::parse(value).is_ok(),
        Extra::Array => {
            value.starts_with(|c: char| c.is_ascii_digit())
                && value
                    .chars()
                    .all(|c| c.is_ascii_digit() || "-,:%".contains(c))
        }
        Extra::Environment => {
            // Each begins with the name of a variable.
            let name = |pair: &str| {
                let name = pair.split('=').next().unwrap_or_default();
                name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            };
            of("._/:+-@=,") && value.split(',').all(name)
        }
        Extra::Mail => of("._+-@") && value.contains('@'),
    }
}

/// What is wrong with a field of the form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Its name in the form.
    pub field: &'static str,
    /// What it is called on the page.
    pub label: &'static str,
    /// What is wrong, and what is expected.
    pub text: String,
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.label, self.text)
    }
}

/// What is wrong with fields; of each the first thing is said.
#[derive(Default)]
struct Mistakes(Vec<FieldError>);

impl Mistakes {
    fn add(&mut self, field: &'static str, label: &'static str, text: impl Into<String>) {
        if self.0.iter().all(|known| known.field != field) {
            let text = text.into();
            self.0.push(FieldError { field, label, text });
        }
    }
}

/// A submission that may be handed to programs.
///
/// # Errors
/// Which fields are wrong, in the order of the form, and what is expected there.
pub fn checked(typed: &Submission, kind: &Kind) -> Result<Submission, Vec<FieldError>> {
    let mut mistakes = Mistakes(checked_terms(typed, kind).err().unwrap_or_default());
    if typed.budget.is_empty() && kind.directive.is_none() && typed.needs("budget") {
        mistakes.add("budget", "Budget", format!("missing; expected {BUDGET}"));
    }
    if typed.script.trim().is_empty() {
        mistakes.add(
            "script",
            "Script",
            "there is none; type what the job is to run, or choose a file",
        );
    }
    if !mistakes.0.is_empty() {
        let at = |error: &FieldError| ORDER.iter().position(|name| *name == error.field);
        mistakes.0.sort_by_key(at);
        return Err(mistakes.0);
    }
    let mut wanted = typed.clone();
    // Slurm asks for such a line, and the kernel does.
    if !wanted.script.starts_with("#!") {
        wanted.script.insert_str(0, "#!/bin/sh\n");
    }
    if !wanted.script.ends_with('\n') {
        wanted.script.push('\n');
    }
    if wanted.name.is_empty() && kind.directive.is_none() {
        wanted.name = NAMELESS.to_string();
    }
    Ok(wanted)
}

/// The fields in their order on the page.
const ORDER: [&str; 16] = [
    "script",
    "name",
    "queue",
    "directory",
    "class",
    "estimate",
    "processors",
    "deadline",
    "budget",
    "penalty",
    "project",
    "memory",
    "gpus",
    "array",
    "environment",
    "mail",
];

/// The same, where script and budget need not be there yet: enough for a price.
///
/// # Errors
/// As [`checked`].
pub fn checked_terms(typed: &Submission, kind: &Kind) -> Result<Submission, Vec<FieldError>> {
    let mut mistakes = Mistakes::default();
    let expected = match kind.clock_deadlines {
        false => "a duration such as 2h or 1h30m",
        true => "a duration such as 2h or 1h30m, or a clock time such as @17:30",
    };
    let is_offered = |class| kind.classes.contains(&class);
    if !typed.class.is_empty() && !typed.class().is_some_and(is_offered) {
        mistakes.add(
            "class",
            "Class",
            match typed.class() {
                Some(Class::BestEffort) => {
                    "best effort is a job without terms here: choose none, and leave estimate, deadline and budget empty"
                }
                _ => "jobs here have no such class; choose one of the list",
            },
        );
    }
    let terms = [
        (
            "estimate",
            "Estimate",
            &typed.estimate,
            "a duration such as 90, 1h30m or 00:01:30",
        ),
        ("deadline", "Deadline", &typed.deadline, expected),
        ("budget", "Budget", &typed.budget, BUDGET),
        (
            "penalty",
            "Paid back",
            &typed.penalty,
            "a number of credits per second",
        ),
    ];
    for (field, label, value, expected) in terms {
        // Where a batch system takes the job, its script may say these. A price needs no budget.
        let is_time = matches!(field, "estimate" | "deadline");
        if value.is_empty() {
            if kind.directive.is_none() && is_time && typed.needs(field) {
                mistakes.add(field, label, format!("missing; expected {expected}"));
            }
            continue;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || " .:@-".contains(c);
        let is_clock = field == "deadline" && value.starts_with('@');
        let is_amount = || value.parse().is_ok_and(|amount: f64| amount >= 0.0);
        let good = match is_time {
            true => is_clock || duration::parse(value).is_ok(),
            false => is_amount() || field == "budget" && value.eq_ignore_ascii_case("unlimited"),
        };
        if value.len() > 64 || !value.chars().all(plain) || value.starts_with('-') {
            mistakes.add(field, label, format!("expected {expected}"));
        } else if is_clock && !kind.clock_deadlines {
            // libra quote would take it.
            mistakes.add(
                field,
                label,
                "jobs here take no clock time; expected a duration from now, such as 2h or 1h30m",
            );
        } else if !good {
            let text = format!("'{value}' cannot be read; expected {expected}");
            mistakes.add(field, label, text);
        }
    }
    let count = &typed.processors;
    let digits = count.len() <= 6 && count.bytes().all(|b| b.is_ascii_digit());
    if !digits || count.parse() == Ok(0u32) {
        mistakes.add("processors", "Processors", "expected a number of 1 or more");
    }
    if !is_word(&typed.name, 60, "._+-") {
        mistakes.add(
            "name",
            "Name",
            "expected up to 60 letters, digits and . _ + -, a letter or digit first",
        );
    }
    if !is_word(&typed.queue, 200, "._-@,") {
        mistakes.add(
            "queue",
            kind.queues.unwrap_or("Queue"),
            "expected the name of one, of letters, digits and . _ - @",
        );
    }
    let directory = &typed.directory;
    if !directory.starts_with('/') || directory.len() > 4000 || directory.contains(char::is_control)
    {
        mistakes.add(
            "directory",
            "Working directory",
            "expected the path of a directory, with a / first",
        );
    }
    for (extra, field, label, longest, expected) in EXTRAS {
        let value = typed.extra(extra);
        if value.is_empty() {
            continue;
        }
        if !kind.extras.contains(&extra) {
            mistakes.add(field, label, "jobs here take none; leave it empty");
        } else if value.len() > longest || !is_extra(extra, value) {
            mistakes.add(field, label, format!("expected {expected}"));
        } else if extra == Extra::Gpus && value.contains(':') && !kind.gpu_types {
            mistakes.add(
                field,
                label,
                "GPUs are counted here without their types; expected how many, such as 2",
            );
        }
    }
    if typed.script.contains('\0') {
        mistakes.add(
            "script",
            "Script",
            "this file is not text; expected a script",
        );
    }
    if typed.script.len() > LARGEST_SCRIPT {
        mistakes.add(
            "script",
            "Script",
            "it is larger than 1 MiB; put data and programs into files of their own",
        );
    }
    match mistakes.0.is_empty() {
        true => Ok(typed.clone()),
        false => Err(mistakes.0),
    }
}

/// Nothing, or a word that no program takes for an option or for several words.
fn is_word(text: &str, most: usize, also: &str) -> bool {
    text.len() <= most
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || also.contains(c))
        && text
            .chars()
            .next()
            .is_none_or(|c| c.is_ascii_alphanumeric())
}

/// Takes a counter-offer: `deadline=35 budget=10.5`, with the keys and values that the page has written into a button.
///
/// # Errors
/// It is none.
pub fn take(typed: &mut Submission, offer: &str) -> Result<(), Problem> {
    let none = || Problem::new("this is not a counter-offer; submit the form as it is");
    for pair in offer.split_ascii_whitespace() {
        let (key, value) = pair.split_once('=').ok_or_else(none)?;
        let place = match key {
            "deadline" => &mut typed.deadline,
            "budget" => &mut typed.budget,
            "processors" => &mut typed.processors,
            "estimate" => &mut typed.estimate,
            "class" => &mut typed.class,
            _ => return Err(none()),
        };
        *place = value.to_string();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{local, pbs, slurm};

    fn good() -> Fields {
        let fields = [
            ("script", "echo a\r\necho b"),
            ("estimate", " 10 "),
            ("deadline", "20"),
            ("budget", "15"),
            ("processors", "1"),
            ("directory", "/tmp"),
        ];
        let owned = fields.map(|(name, value)| (name.to_string(), value.to_string()));
        owned.into_iter().collect()
    }

    #[test]
    fn a_form_becomes_a_submission() {
        let wanted = checked(&typed(&good()), &local::KIND).expect("good");
        assert_eq!(wanted.script, "#!/bin/sh\necho a\necho b\n");
        assert_eq!(wanted.name, "job");
        assert_eq!(
            wanted.libra_options(),
            [
                "--estimate=10",
                "--deadline=20",
                "--budget=15",
                "--processors=1"
            ]
        );
        let mut fields = good();
        fields.insert("file".to_string(), "#!/bin/bash\n".to_string());
        assert_eq!(typed(&fields).script, "#!/bin/bash\n", "the file wins");
    }

    #[test]
    fn nothing_gets_out_of_its_field() {
        for (field, value) in [
            ("estimate", "10\n--budget=1"),
            ("estimate", "--help"),
            ("deadline", "20,budget=0"),
            ("deadline", "2h\r\nX: y"),
            ("budget", "1\u{0}"),
            ("budget", "10=1"),
            ("penalty", "$(id)"),
            ("processors", "0"),
            ("processors", "-1"),
            ("processors", "1 2"),
            ("name", "-x"),
            ("name", "a b"),
            ("name", "a\nb"),
            ("name", "<script>"),
            ("project", "-x"),
            ("project", "a b"),
            ("memory", "lots"),
            ("memory", "0"),
            ("gpus", "0"),
            ("gpus", "tesla"),
            ("gpus", "tesla:2:x"),
            ("gpus", "2,fpga:1"),
            ("array", "-1"),
            ("array", "1 2"),
            ("environment", "A=$(id)"),
            ("environment", "A=1 B"),
            ("environment", "1=2"),
            ("class", "urgent"),
            ("class", "--help"),
            ("environment", "A=1,,B"),
            ("mail", "-x@y"),
            ("mail", "ann"),
            ("mail", "a@b,c@d\n"),
            ("queue", "--wrap=id"),
            ("queue", "a b"),
            ("directory", "relative"),
            ("directory", "/a\nb"),
            ("directory", "-x"),
            ("script", "a\u{0}b"),
        ] {
            let mut fields = good();
            fields.insert(field.to_string(), value.to_string());
            let refused = checked(&typed(&fields), &slurm::KIND);
            assert!(refused.is_err(), "{field}={value:?}: {refused:?}");
        }
        let mut fields = good();
        fields.insert("script".to_string(), "x".repeat(LARGEST_SCRIPT + 1));
        assert!(checked(&typed(&fields), &local::KIND).is_err());
    }

    #[test]
    fn a_template_keeps_every_field() {
        let mut fields = good();
        for name in [
            "name",
            "penalty",
            "queue",
            "project",
            "memory",
            "gpus",
            "array",
            "environment",
            "mail",
        ] {
            fields.insert(name.to_string(), format!("value-of-{name}"));
        }
        fields.insert("deadline-type".to_string(), "soft".to_string());
        fields.insert("class".to_string(), "dedicated".to_string());
        let submission = typed(&fields);
        let kept = kept(&submission).into_iter();
        let mut again: Fields = kept
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        again.insert("script".to_string(), submission.script.clone());
        assert_eq!(typed(&again), submission);
    }

    #[test]
    fn fields_are_taken_where_the_system_takes_them() {
        let mut fields = good();
        for (field, value) in [
            ("project", "p1"),
            ("memory", "4GiB"),
            ("gpus", "2"),
            ("array", "1-10:2"),
            ("environment", "A=b/c,D"),
            ("mail", "ann@x.org"),
        ] {
            fields.insert(field.to_string(), value.to_string());
        }
        let typed = typed(&fields);
        assert!(checked(&typed, &slurm::KIND).is_ok());
        assert!(checked(&typed, &pbs::KIND).is_ok());
        let said = checked(&typed, &local::KIND).expect_err("not all");
        let fields: Vec<&str> = said.iter().map(|error| error.field).collect();
        assert_eq!(fields, ["gpus", "array", "environment", "mail"]);
        assert!(typed.libra_options().contains(&"--memory=4GiB".to_string()));
    }

    #[test]
    fn all_that_is_wrong_is_said_in_the_order_of_the_form() {
        let mut fields = good();
        for (field, value) in [
            ("budget", "five"),
            ("estimate", "1:30"),
            ("name", "a b"),
            ("script", ""),
        ] {
            fields.insert(field.to_string(), value.to_string());
        }
        let said = checked(&typed(&fields), &local::KIND).expect_err("wrong");
        let fields: Vec<&str> = said.iter().map(|error| error.field).collect();
        assert_eq!(fields, ["script", "name", "estimate", "budget"]);
        assert!(
            said[3]
                .to_string()
                .starts_with("Budget: 'five' cannot be read"),
            "{said:?}"
        );
    }

    #[test]
    fn terms_may_be_in_the_script_of_a_batch_system_only() {
        let mut fields = good();
        fields.remove("budget");
        let said = checked(&typed(&fields), &local::KIND).expect_err("missing");
        assert!(
            said[0].to_string().starts_with("Budget: missing"),
            "{said:?}"
        );
        assert!(
            checked_terms(&typed(&fields), &local::KIND).is_ok(),
            "a price"
        );
        assert!(checked(&typed(&fields), &slurm::KIND).is_ok());
        fields.remove("script");
        assert!(checked(&typed(&fields), &slurm::KIND).is_err());
        assert!(checked_terms(&typed(&fields), &slurm::KIND).is_ok());
    }

    #[test]
    fn a_class_needs_what_it_promises() {
        let of = |class: &str, without: &[&str], kind| {
            let mut fields = good();
            fields.insert("class".to_string(), class.to_string());
            for name in without {
                fields.remove(*name);
            }
            let wrong = checked(&typed(&fields), kind).err().unwrap_or_default();
            let fields: Vec<&str> = wrong.iter().map(|error| error.field).collect();
            fields.join(" ")
        };
        let terms = ["estimate", "deadline", "budget"];
        let here = &local::KIND;
        assert_eq!(of("", &terms, here), "estimate deadline budget");
        assert_eq!(of("dedicated", &terms, here), "estimate deadline budget");
        assert_eq!(of("immediate", &terms, here), "estimate budget");
        assert_eq!(of("best-effort", &terms, here), "");
        assert_eq!(of("immediate", &terms, &pbs::KIND), "");
        // That is a job without terms there.
        assert_eq!(of("best-effort", &terms, &slurm::KIND), "class");
    }

    #[test]
    fn not_every_system_takes_a_clock_time() {
        let mut fields = good();
        fields.insert("deadline".to_string(), "@17:30".to_string());
        let typed = typed(&fields);
        let said = checked_terms(&typed, &slurm::KIND).expect_err("Slurm");
        assert!(
            said[0]
                .to_string()
                .starts_with("Deadline: jobs here take no clock time"),
            "{said:?}"
        );
        assert!(checked_terms(&typed, &pbs::KIND).is_ok());
    }

    #[test]
    fn an_offer_changes_what_it_names() {
        let mut wanted = typed(&good());
        take(&mut wanted, "deadline=35 budget=10.5").expect("an offer");
        assert_eq!(
            (wanted.deadline.as_str(), wanted.budget.as_str()),
            ("35", "10.5")
        );
        // Whatever the script says.
        take(&mut wanted, "processors=1 estimate=20").expect("an offer");
        assert_eq!(wanted.estimate, "20", "the same work");
        assert!(
            wanted
                .libra_options()
                .contains(&"--processors=1".to_string())
        );
        for bad in ["x=1", "deadline", "name=-x"] {
            assert!(take(&mut wanted, bad).is_err(), "{bad}");
        }
    }
}
