//! The options that sbatch, salloc and srun have from Libra: what they say of themselves, and whether a value can be one.
//!
//! A value is looked at where it is typed, so that a slip costs no submission. What counts is decided in slurmctld: a client is
//! not believed.

use super::{OPTIONS, QUOTE_OPTION};
use libra_core::book::held_quote::Order;
use libra_core::decision::job::{DeadlineType, Terms};
use libra_wording::errors;
use libra_wording::terms::{PartialTerms, TermsError, deadline_as_duration};

/// An option in `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// Without its dashes.
    pub option: &'static str,
    /// What its value is, in a word.
    pub value: &'static str,
    /// What it means. The clients break it into lines.
    pub usage: &'static str,
    /// With a value.
    pub example: &'static str,
}

/// All of them, in the order of [`OPTIONS`], and last [`QUOTE_OPTION`].
pub const DESCRIBED: [Described; 7] = [
    Described {
        option: OPTIONS[0].0,
        value: "time",
        usage: "processor time that each processor of the job needs, as well as you know it: seconds, HH:MM:SS, or 1h30m; jobs with a budget need it, and are held to it",
        example: "--estimate=1h30m",
    },
    Described {
        option: OPTIONS[1].0,
        value: "time",
        usage: "the job is to be finished so long after its submission: seconds, HH:MM:SS, or 1h30m; it is refused at once if that cannot be kept",
        example: "--sla-deadline=3h",
    },
    Described {
        option: OPTIONS[2].0,
        value: "credits",
        usage: "most that you pay for the job: a number, or 'unlimited'; it is refused at once if it costs more",
        example: "--budget=50",
    },
    Described {
        option: OPTIONS[3].0,
        value: "type",
        usage: "'hard': a late job is worth nothing (this is so without the option); 'soft': it is worth less the later it is",
        example: "--deadline-type=soft",
    },
    Described {
        option: OPTIONS[4].0,
        value: "credits",
        usage: "what you are paid back for each second that the job is late; 0 without the option",
        example: "--penalty-rate=0.5",
    },
    Described {
        option: OPTIONS[5].0,
        value: "class",
        usage: "what is promised (without the option what the site says for the partition): 'deadline': an end by the deadline; 'dedicated': whole processors for the job alone as well; 'immediate': these from now on or a refusal, without a need for a deadline",
        example: "--sla-class=dedicated",
    },
    Described {
        option: QUOTE_OPTION,
        value: "quote",
        usage: "number of a quote that 'libra quote --hold' gave: the job is accepted at its price and place; with 'ask' the job is only a question, refused with the answer, and with 'hold:5m' it is held",
        example: "--sla-quote=ask",
    },
];

/// Checks that this can be the value of the option of that number in [`DESCRIBED`].
///
/// # Errors
/// What was given, what was expected, and an example.
pub fn check(number: usize, value: &str) -> Result<(), String> {
    let Some(described) = DESCRIBED.get(number) else {
        return Err(format!("there is no option {number}"));
    };
    let option = described.option;
    let mut given = PartialTerms::default();
    let problem = match OPTIONS.get(number) {
        None => (Order::parse(value).map(|_| ())).map_err(|error| errors::no_order(&error)),
        Some((_, key)) => match given.set(key, value, &deadline_as_duration) {
            Ok(()) => in_range(&given),
            Err(TermsError::Value { problem, .. }) => Err(problem),
            Err(other) => Err(other.to_string()),
        },
    };
    problem.map_err(|problem| {
        let plain = |text: &str, most| -> String {
            text.chars()
                .filter(|c| !c.is_control())
                .take(most)
                .collect()
        };
        format!(
            "--{option}={}: {}; for example {}",
            plain(value, 64),
            plain(&problem, 400),
            described.example
        )
    })
}

/// The others as anything that will do.
fn in_range(given: &PartialTerms) -> Result<(), String> {
    let terms = Terms {
        estimate: given.estimate.unwrap_or(1.0),
        deadline: given.deadline.unwrap_or(1.0),
        budget: given.budget.unwrap_or(0.0),
        deadline_type: given.deadline_type.unwrap_or(DeadlineType::Hard),
        penalty_rate: given.penalty_rate.unwrap_or(0.0),
        class: given.class.unwrap_or_default(),
    };
    terms.check().map_err(|error| {
        format!(
            "{} is out of range, expected {}",
            error.value, error.expected
        )
    })
}

/// What a job's tasks must not hand on, of what Slurm has put into their environment: a job that they submit would be
/// given the same commitment once more without having asked for it.
pub fn inherited() -> impl Iterator<Item = String> {
    DESCRIBED.iter().flat_map(|described| {
        let option = described.option.replace('-', "_");
        let name = format!("_SLURM_SPANK_OPTION_libra_{option}");
        // What clients read, what they pass on to their own tasks, and what a prolog is told.
        [format!("SLURM_SPANK_{name}"), format!("SPANK_{name}"), name]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_described_in_their_order() {
        let names = OPTIONS.iter().map(|(option, _)| *option);
        let names: Vec<&str> = names.chain([QUOTE_OPTION]).collect();
        assert_eq!(names.len(), DESCRIBED.len());
        for (index, (described, option)) in DESCRIBED.iter().zip(names).enumerate() {
            assert_eq!(described.option, option);
            let (name, value) = described.example.split_once('=').expect("an example");
            assert_eq!(name, format!("--{option}"));
            assert_eq!(check(index, value), Ok(()), "{}", described.example);
            // Slurm keeps 4096 bytes of it, and its lines have no words longer than 80.
            assert!(described.usage.len() < 400 && !described.usage.contains('\n'));
        }
    }

    #[test]
    fn what_cannot_be_a_value_is_said() {
        for (number, value, said) in [
            (
                0,
                "soon",
                "--estimate=soon: 'soon' is not a duration: not a number; write seconds (90), HH:MM:SS (00:01:30) or units (1h30m, 2d); for example --estimate=1h30m",
            ),
            (
                0,
                "0",
                "--estimate=0: 0 is out of range, expected seconds, from 0.001 to 10000000000; for example --estimate=1h30m",
            ),
            (
                2,
                "-5",
                "--budget=-5: '-5' is not a number of credits; for example --budget=50",
            ),
            (
                3,
                "firm",
                "--deadline-type=firm: 'firm' is neither 'hard' nor 'soft'; for example --deadline-type=soft",
            ),
            (
                4,
                "unlimited",
                "--penalty-rate=unlimited: 'unlimited' is not a number of credits; for example --penalty-rate=0.5",
            ),
        ] {
            assert_eq!(check(number, value), Err(said.to_string()));
        }
        assert_eq!(check(2, "Unlimited"), Ok(()));
        assert!(check(1, "").is_err());
        assert!(check(1, "a\u{1b}[31m").is_err_and(|said| !said.contains('\u{1b}')));
        assert!(
            check(5, "urgent").is_err_and(|said| said.contains("deadline, dedicated, immediate"))
        );
        assert_eq!(check(5, "Immediate"), Ok(()));
        assert!(check(6, "soon").is_err_and(|said| said.contains("not the number of a quote")));
        assert!(check(7, "1").is_err());
    }

    #[test]
    fn what_is_inherited_is_named_as_slurm_names_it() {
        let names: Vec<String> = inherited().collect();
        assert_eq!(names.len(), 21);
        for name in [
            "SLURM_SPANK__SLURM_SPANK_OPTION_libra_sla_deadline",
            "_SLURM_SPANK_OPTION_libra_budget",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
