//! A submission as Slurm shows it to a plugin, and what it asks for in Libra's terms.

use super::array::PREFIX;
use super::gres::GresAsked;
use super::problem::{MOST_DAYS, MOST_FEATURES, Problem, Wait};
use super::records::Memory;
use super::{OPTIONS, QUOTE_OPTION};
use libra_batch::front_end::Deferred;
use libra_core::decision::class_defaults::{Basis, ClassDefaults, ClassLine};
use libra_core::decision::job::{Shape, Terms};
use libra_units::indices;
use libra_wording::terms::{self, Completed, PartialTerms, deadline_as_duration};

/// What was asked for; None if the user said nothing about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Submission {
    /// User number.
    pub user: u32,
    /// The SPANK options, by their names in [`OPTIONS`].
    pub options: Vec<(String, String)>,
    /// `--comment`
    pub comment: Option<String>,
    /// `--deadline`, Unix time.
    pub deadline: Option<f64>,
    /// `--time` in minutes.
    pub time_limit: Option<u32>,
    /// `--account`
    pub account: Option<String>,
    /// `--partition`: one, or several.
    pub partition: Option<String>,
    /// `--nodes`, the least.
    pub least_nodes: Option<u32>,
    /// `--ntasks`
    pub tasks: Option<u32>,
    /// `--ntasks-per-node`
    pub tasks_per_node: Option<u32>,
    /// `--cpus-per-task`
    pub processors_per_task: Option<u32>,
    /// `--mem` or `--mem-per-cpu`
    pub memory: Option<Memory>,
    /// `--nodelist`
    pub required_nodes: Vec<String>,
    /// `--exclude`
    pub excluded_nodes: Vec<String>,
    /// `--constraint`
    pub features: Option<String>,
    /// `--array`
    pub array: Option<String>,
    /// `--begin`, Unix time.
    pub begin: Option<f64>,
    /// `--dependency`
    pub dependency: Option<String>,
    /// `--hold`
    pub held: bool,
    /// Which component of a heterogeneous job it is, from 0.
    pub component: Option<u32>,
    /// Comes from no session, as `--test-only` does: most likely there will be no job.
    pub without_session: bool,
    /// `--exclusive`, in any of its forms.
    pub exclusive: bool,
    /// `--gres`, `--gpus` and their like.
    pub gres: GresAsked,
    /// `--licenses`
    pub licenses: Option<String>,
    /// Options that ask for what is not judged here, such as `--reservation`.
    pub not_judged: Vec<&'static str>,
}

/// What is to be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Terms.
    pub terms: Terms,
    /// Tasks of an array, ascending; empty where it is none.
    pub array: Vec<u32>,
    /// Features that each node must have.
    pub features: Vec<String>,
}

impl Submission {
    /// Returns true if it comes with terms of Libra's. Slurm's own `--deadline` alone does not make it so.
    pub fn has_terms(&self) -> bool {
        !self.options.is_empty() || self.terms_in_comment().is_some()
    }

    fn terms_in_comment(&self) -> Option<&str> {
        self.comment.as_deref()?.trim().strip_prefix(PREFIX)
    }

    /// What it says about a quote, as option or in the comment.
    pub fn quote(&self) -> Option<&str> {
        let option = |(name, _): &&(String, String)| is_quote(name);
        let given = self.options.iter().find(option);
        given.map(|(_, value)| value.as_str()).or_else(|| {
            let list = self.terms_in_comment()?;
            list.split(',').find_map(quote_of)
        })
    }

    /// Reads everything but the shape. `partitions`: those that it may go to.
    ///
    /// # Errors
    /// What is missing, cannot be read, or cannot be judged; with what to do.
    pub fn read(
        &self,
        classes: &ClassDefaults,
        partitions: &[&str],
        now: f64,
    ) -> Result<(Asked, Option<ClassLine>), Problem> {
        self.read_beside(self.given(now)?, classes, partitions)
    }

    /// The same of a question, which may be without a budget: then it is judged as unlimited, and the flag is false.
    ///
    /// # Errors
    /// As [`Submission::read`].
    pub fn read_question(
        &self,
        classes: &ClassDefaults,
        partitions: &[&str],
        now: f64,
    ) -> Result<(Asked, Option<ClassLine>, bool), Problem> {
        let mut given = self.given(now)?;
        let has_budget = given.budget.is_some();
        given.budget.get_or_insert(f64::INFINITY);
        let (asked, class_line) = self.read_beside(given, classes, partitions)?;
        Ok((asked, class_line, has_budget))
    }

    fn read_beside(
        &self,
        given: PartialTerms,
        classes: &ClassDefaults,
        partitions: &[&str],
    ) -> Result<(Asked, Option<ClassLine>), Problem> {
        let basis = Basis {
            queues: partitions,
            several: self.is_several(),
        };
        let completed = given.complete_in_batch(classes, basis);
        let Completed { terms, class_line } = completed.map_err(Problem::Terms)?;
        if let Some(option) = self.not_judged.first() {
            return Err(Problem::Unjudged(option));
        }
        if self.exclusive {
            return Err(Problem::Exclusive);
        }
        let array = match &self.array {
            None => Vec::new(),
            Some(text) => array_tasks(text, terms.estimate)?,
        };
        let features = match &self.features {
            None => Vec::new(),
            Some(text) => features(text)?,
        };
        let asked = Asked {
            terms,
            array,
            features,
        };
        Ok((asked, class_line))
    }

    /// The terms that it gives, complete or not.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn given(&self, now: f64) -> Result<PartialTerms, Problem> {
        let mut given = PartialTerms::default();
        if let Some(list) = self.terms_in_comment() {
            let pairs = list.split(',').filter(|pair| quote_of(pair).is_none());
            let list = pairs.collect::<Vec<_>>().join(",");
            // A quote alone is all that it may say.
            if !list.is_empty() || self.quote().is_none() {
                given = terms::parse(&list, &deadline_as_duration).map_err(Problem::Comment)?;
            }
        }
        for (option, value) in (self.options.iter()).filter(|(name, _)| !is_quote(name)) {
            let key = key_of(option).unwrap_or(option);
            given
                .set(key, value, &deadline_as_duration)
                .map_err(Problem::Terms)?;
        }
        if let (None, Some(at)) = (given.deadline, self.deadline) {
            if at <= now {
                return Err(Problem::Past(now - at));
            }
            given.deadline = Some(at - now);
        }
        if given.estimate.is_none() {
            given.estimate = self.time_limit.map(|minutes| f64::from(minutes) * 60.0);
        }
        Ok(given)
    }

    /// Whether it may not start yet.
    ///
    /// # Errors
    /// When its deadline is over by then, or it is of a sort that cannot wait.
    pub(super) fn deferred(&self, asked: &Asked, now: f64) -> Result<Option<Deferred>, Problem> {
        // What was to start before now starts at once.
        let earliest = self.begin.map_or(0.0, |begin| (begin - now).max(0.0));
        let wait = match self {
            _ if self.held => Wait::Held,
            _ if earliest > 0.0 => Wait::Later,
            _ if self.dependency.is_some() => Wait::Others,
            _ => return Ok(None),
        };
        if self.component.is_some() {
            return Err(Problem::Waits(wait));
        }
        let (deadline, estimate) = (asked.terms.deadline, asked.terms.estimate);
        if deadline <= earliest {
            return Err(Problem::StartsTooLate {
                earliest,
                deadline,
                estimate,
            });
        }
        if earliest > MOST_DAYS * 86400.0 {
            return Err(Problem::StartsInYears(earliest));
        }
        match &self.dependency {
            Some(text) if !asked.array.is_empty() && text.contains("aftercorr") => {
                Err(Problem::TaskByTask(text.clone()))
            }
            _ => Ok(Some(Deferred {
                earliest,
                from_start: false,
            })),
        }
    }

    /// Its tasks, and the processors of each.
    fn tasks_and_processors(&self) -> (u32, u32) {
        let asked_nodes = self.least_nodes.unwrap_or(1).max(1);
        let tasks = match (self.tasks, self.tasks_per_node) {
            (Some(tasks), _) => tasks.max(1),
            (None, Some(per_node)) => asked_nodes.saturating_mul(per_node.max(1)),
            (None, None) => asked_nodes,
        };
        (tasks, self.processors_per_task.unwrap_or(1).max(1))
    }

    /// Whether it has more than one processor. A component of a heterogeneous job is one of several, however few it has itself.
    fn is_several(&self) -> bool {
        let (tasks, each) = self.tasks_and_processors();
        self.component.is_some() || tasks > 1 || each > 1
    }

    /// How its processors lie on nodes. `largest`: processors of the largest node that there is.
    ///
    /// A task of Slurm's is a process; what is judged are the processors of all tasks on a node. Without `--nodes` the tasks
    /// go to one node, or to as few alike parts as fit into the largest.
    ///
    /// # Errors
    /// When tasks and nodes do not go into one another, or are too many.
    pub fn shape(&self, largest: u32) -> Result<Shape, Problem> {
        let (tasks, each) = self.tasks_and_processors();
        let fits = |nodes: u32| {
            tasks % nodes == 0 && u64::from(tasks / nodes) * u64::from(each) <= u64::from(largest)
        };
        let nodes = match (self.tasks_per_node, self.least_nodes) {
            (Some(per_node), _) if self.tasks.is_some() && per_node > 0 => tasks.div_ceil(per_node),
            (_, Some(nodes)) => nodes.max(1),
            // More nodes than tasks never help, and one that is too large for every node is refused for it.
            (_, None) => (1..=tasks.min(4096))
                .find(|nodes| fits(*nodes))
                .unwrap_or(1),
        };
        if tasks % nodes != 0 {
            return Err(Problem::Uneven { tasks, nodes });
        }
        let Some(processors) = (tasks / nodes).checked_mul(each) else {
            return Err(Problem::TooManyProcessors);
        };
        let memory = self.memory.and_then(|memory| memory.bytes(processors));
        Ok(Shape {
            chunks: nodes,
            processors_per_chunk: processors,
            memory_per_chunk: memory.unwrap_or(0),
            scatter: nodes > 1,
            ..Shape::default()
        })
    }
}

/// Returns true if this is the option about quotes, with `-` or `_` in it.
fn is_quote(option: &str) -> bool {
    option.replace('_', "-") == QUOTE_OPTION
}

/// The value, where a pair of a comment is about a quote.
fn quote_of(pair: &str) -> Option<&str> {
    let (key, value) = pair.split_once('=')?;
    (key.trim() == "quote").then_some(value.trim())
}

/// The key of [`libra_wording::terms`] of an option, with `-` or `_` in it.
fn key_of(option: &str) -> Option<&'static str> {
    let option = option.replace('_', "-");
    (OPTIONS.iter())
        .find(|(name, _)| *name == option)
        .map(|(_, key)| *key)
}

/// `estimate`: of each task.
fn array_tasks(text: &str, estimate: f64) -> Result<Vec<u32>, Problem> {
    let mut tasks = indices::parse(text).map_err(Problem::Array)?;
    tasks.sort_unstable();
    tasks.dedup();
    let Some((_, limit)) = text.split_once('%') else {
        return Ok(tasks);
    };
    let number = limit.trim().parse().ok().filter(|number| *number > 0);
    let at_once: u32 = number.ok_or_else(|| Problem::ArrayLimit(text.to_string()))?;
    let count = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    // One that lets all of them run is none.
    match at_once < count {
        false => Ok(tasks),
        true => Err(Problem::LimitedArray {
            array: text.to_string(),
            tasks: count,
            at_once,
            estimate,
        }),
    }
}

/// Features that are all needed: `a`, `a&b`.
pub(super) fn features(text: &str) -> Result<Vec<String>, Problem> {
    let plain = |one: &str| {
        !one.is_empty() && (one.bytes()).all(|b| b.is_ascii_alphanumeric() || b"_-.=:".contains(&b))
    };
    let all: Vec<&str> = text.split('&').map(str::trim).collect();
    // Each is looked for on every node.
    if all.len() <= MOST_FEATURES && all.iter().all(|one| plain(one)) {
        return Ok(all.into_iter().map(str::to_string).collect());
    }
    Err(Problem::Features(text.to_string()))
}

/// Returns true if this is an option of Libra's, as its name comes in a job's SPANK environment.
pub fn is_option(name: &str) -> bool {
    is_quote(name) || key_of(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(options: &[(&str, &str)]) -> Submission {
        Submission {
            options: (options.iter())
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            ..Submission::default()
        }
    }

    /// On a site that says nothing of classes.
    fn read(submission: &Submission, now: f64) -> Result<Asked, Problem> {
        let read = submission.read(&ClassDefaults::default(), &[], now);
        read.map(|(asked, _)| asked)
    }

    #[test]
    fn a_limit_that_lets_all_tasks_run_is_none() {
        let full = with(&[("estimate", "10"), ("sla-deadline", "20"), ("budget", "50")]);
        for (array, tasks) in [("1-3%3", vec![1, 2, 3]), ("1,1,5%7", vec![1, 5])] {
            let limited = Submission {
                array: Some(array.to_string()),
                ..full.clone()
            };
            assert_eq!(read(&limited, 0.0).map(|asked| asked.array), Ok(tasks));
        }
    }

    #[test]
    fn features_are_counted() {
        assert_eq!(features("a&b").map(|all| all.len()), Ok(2));
        assert!(features(&["a"; 64].join("&")).is_ok());
        // A megabyte of them, looked for on every node, is more than slurmctld can wait for.
        let error = features(&["a"; 65].join("&")).expect_err("too many");
        assert!(error.to_string().contains("at most 64"), "{error}");
    }

    #[test]
    fn terms_from_all_their_places() {
        let full = with(&[("estimate", "10"), ("sla_deadline", "1m"), ("budget", "50")]);
        let asked = read(&full, 0.0).expect("complete");
        assert_eq!(asked.terms.deadline, 60.0);
        assert_eq!(asked.terms.budget, 50.0);
        let commented = Submission {
            comment: Some("libra:budget=7".to_string()),
            deadline: Some(1030.0),
            time_limit: Some(2),
            ..Submission::default()
        };
        assert!(commented.has_terms());
        let terms = read(&commented, 1000.0).expect("complete").terms;
        assert_eq!(
            (terms.estimate, terms.deadline, terms.budget),
            (120.0, 30.0, 7.0)
        );
        let slurms_own = Submission {
            deadline: Some(1030.0),
            comment: Some("for Monday".to_string()),
            ..Submission::default()
        };
        assert!(!slurms_own.has_terms());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_option() {
        for (submission, part) in [
            (with(&[("budget", "5")]), "--estimate=…, or as --time"),
            (
                with(&[("budget", "5"), ("estimate", "5")]),
                "--sla-deadline=…",
            ),
            (with(&[("sla-deadline", "soon")]), "--sla-deadline: 'soon'"),
            (
                Submission {
                    comment: Some("libra:budget=5".to_string()),
                    ..with(&[("budget", "6")])
                },
                "budget is given twice",
            ),
            (
                Submission {
                    comment: Some("libra:bugdet=5".to_string()),
                    ..Submission::default()
                },
                "--comment: there is no 'bugdet'",
            ),
            (
                Submission {
                    comment: Some(
                        "libra:estimate=5,deadline=9,budget=5,class=best-effort".to_string(),
                    ),
                    ..Submission::default()
                },
                "class=best-effort: in a batch system a job without terms",
            ),
        ] {
            let error = read(&submission, 0.0).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
        let full = with(&[("estimate", "10"), ("sla-deadline", "20"), ("budget", "50")]);
        for (change, part) in [
            (
                Submission {
                    array: Some("1-9%2".into()),
                    ..full.clone()
                },
                "leave out %2, or submit 2 tasks that each do the work of 5, one after another: --array=0-1 --estimate=50",
            ),
            (
                Submission {
                    array: Some("1-9%x".into()),
                    ..full.clone()
                },
                "--array=1-9%x: expected a number of tasks behind '%'",
            ),
            (
                Submission {
                    features: Some("[a|b]".into()),
                    ..full.clone()
                },
                "a&b",
            ),
            (
                Submission {
                    not_judged: vec!["--bb"],
                    ..full.clone()
                },
                "--bb",
            ),
        ] {
            let error = read(&change, 0.0).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_may_not_start_yet_is_deferred() {
        let full = Submission {
            begin: Some(990.0),
            ..with(&[
                ("estimate", "10"),
                ("sla-deadline", "100"),
                ("budget", "50"),
            ])
        };
        let deferred = |submission: &Submission| {
            let asked = read(submission, 1000.0).expect("complete");
            submission.deferred(&asked, 1000.0)
        };
        assert_eq!(deferred(&full), Ok(None));
        let held = Submission {
            held: true,
            ..full.clone()
        };
        let later = Submission {
            begin: Some(1030.0),
            ..full.clone()
        };
        let after = Submission {
            dependency: Some("afterok:3".into()),
            ..full.clone()
        };
        for (submission, earliest) in [(&held, 0.0), (&later, 30.0), (&after, 0.0)] {
            let waits = Deferred {
                earliest,
                from_start: false,
            };
            assert_eq!(deferred(submission), Ok(Some(waits)));
            let component = Submission {
                component: Some(0),
                ..submission.clone()
            };
            let error = deferred(&component).expect_err("it cannot wait");
            assert!(error.to_string().contains("starts at once"), "{error}");
        }
        for (submission, part) in [
            (
                Submission {
                    begin: Some(1100.0),
                    ..full.clone()
                },
                "give one of more than 1m50s",
            ),
            (
                Submission {
                    begin: Some(1000.0 + 1501.0 * 86400.0),
                    ..with(&[
                        ("estimate", "10"),
                        ("sla-deadline", "2000d"),
                        ("budget", "50"),
                    ])
                },
                "at most 1500 days",
            ),
            (
                Submission {
                    array: Some("1-3".into()),
                    dependency: Some("aftercorr:3".into()),
                    ..full.clone()
                },
                "write afterok",
            ),
        ] {
            let error = deferred(&submission).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_quote_is_an_option_or_stands_in_the_comment_and_is_no_term() {
        let terms = [("estimate", "10"), ("sla_deadline", "20"), ("budget", "50")];
        let plain = with(&terms);
        assert_eq!(plain.quote(), None);
        let mut option = with(&terms);
        (option.options).push(("sla_quote".to_string(), "ask".to_string()));
        assert_eq!(option.quote(), Some("ask"));
        assert_eq!(option.given(0.0), plain.given(0.0));
        assert!(is_option("sla_quote"));
        let mut comment = with(&[("sla-deadline", "20"), ("budget", "50")]);
        comment.comment = Some("libra:estimate=10,quote=hold:5m".to_string());
        assert_eq!(comment.quote(), Some("hold:5m"));
        assert_eq!(comment.given(0.0), plain.given(0.0));
        comment.comment = Some("libra:quote=ask".to_string());
        assert!(comment.given(0.0).is_ok());
    }

    #[test]
    fn tasks_on_nodes() {
        let shape = |nodes, tasks, each, per_node, largest| {
            Submission {
                least_nodes: nodes,
                tasks,
                processors_per_task: each,
                tasks_per_node: per_node,
                ..Submission::default()
            }
            .shape(largest)
            .map(|shape| (shape.chunks, shape.processors_per_chunk, shape.scatter))
        };
        assert_eq!(shape(None, None, None, None, 1), Ok((1, 1, false)));
        assert_eq!(shape(None, Some(4), None, None, 4), Ok((1, 4, false)));
        // Too many for a node of two: two nodes of two.
        assert_eq!(shape(None, Some(4), None, None, 2), Ok((2, 2, true)));
        assert_eq!(shape(None, Some(3), None, None, 2), Ok((3, 1, true)));
        assert_eq!(shape(Some(2), None, None, None, 1), Ok((2, 1, true)));
        assert_eq!(shape(Some(2), Some(4), Some(2), None, 4), Ok((2, 4, true)));
        assert_eq!(shape(Some(2), None, None, Some(2), 4), Ok((2, 2, true)));
        assert_eq!(shape(None, Some(4), None, Some(2), 4), Ok((2, 2, true)));
        // Fits nowhere: one node, to be refused for its size.
        assert_eq!(shape(None, None, Some(8), None, 4), Ok((1, 8, false)));
        assert!(shape(Some(2), Some(3), None, None, 4).is_err());
        assert!(shape(None, Some(u32::MAX), Some(u32::MAX), None, 1).is_err());
    }

    #[test]
    fn memory_of_a_node() {
        let asks = |memory| Submission {
            tasks: Some(2),
            memory: Some(memory),
            ..Submission::default()
        };
        let of = |memory| asks(memory).shape(4).expect("a shape").memory_per_chunk;
        assert_eq!(of(Memory::PerNode(100)), 100 << 20);
        assert_eq!(of(Memory::PerProcessor(100)), 200 << 20);
        assert_eq!(of(Memory::PerProcessor(u64::MAX)), u64::MAX);
    }
}
