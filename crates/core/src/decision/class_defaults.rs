//! The class of a job that names none: by the queue or partition that it goes to, by how many processors it has, else the site's own.

use super::class::Class;
use std::collections::BTreeMap;

/// The line of a site's configuration that gave a job its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassLine {
    /// That of all jobs.
    Default,
    /// That of jobs of more than one processor.
    Several,
    /// That of a queue or partition.
    Queue(String),
}

/// A class, and the line that gave it: None if the job named it, or if the site says nothing and it has a deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenClass {
    /// The class.
    pub class: Class,
    /// Where it is from.
    pub line: Option<ClassLine>,
}

/// A job may go to several queues, by whose lines it is of different classes: two of them, and what they make of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The one that comes first.
    pub first: (String, Class),
    /// One that says otherwise.
    pub other: (String, Class),
}

/// What a class goes by where a job names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Basis<'a> {
    /// Queues or partitions that it may go to; none on a host, or where it names none and there is no default one.
    pub queues: &'a [&'a str],
    /// It has more than one processor.
    pub several: bool,
}

/// A site's classes of jobs that name none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassDefaults {
    /// Of all others.
    pub default: Class,
    /// Of jobs of more than one processor; None for that of all others.
    pub several: Option<Class>,
    /// Of jobs of these queues or partitions, whatever their processors.
    pub queues: BTreeMap<String, Class>,
}

impl ClassDefaults {
    /// The same in a batch system, where a job with terms is never one of best effort: it has a deadline.
    pub fn in_batch(self) -> ClassDefaults {
        ClassDefaults {
            default: match self.default {
                Class::BestEffort => Class::Deadline,
                class => class,
            },
            ..self
        }
    }

    /// The class of a job: the one that it names, else by its queue, else by its processors, else that of all others.
    ///
    /// # Errors
    /// When it may go to queues whose lines differ.
    pub fn class_of(
        &self,
        named: Option<Class>,
        basis: Basis<'_>,
    ) -> Result<GivenClass, Disagreement> {
        if let Some(class) = named {
            return Ok(GivenClass { class, line: None });
        }
        let Some((first, others)) = basis.queues.split_first() else {
            return Ok(self.elsewhere(basis.several));
        };
        let given = self.in_queue(first, basis.several);
        for other in others {
            let class = self.in_queue(other, basis.several).class;
            if class != given.class {
                return Err(Disagreement {
                    first: ((*first).to_string(), given.class),
                    other: ((*other).to_string(), class),
                });
            }
        }
        Ok(given)
    }

    fn in_queue(&self, queue: &str, several: bool) -> GivenClass {
        match self.queues.get(queue) {
            Some(class) => GivenClass {
                class: *class,
                line: Some(ClassLine::Queue(queue.to_string())),
            },
            None => self.elsewhere(several),
        }
    }

    /// Of a job of a queue without a line, or of none.
    fn elsewhere(&self, several: bool) -> GivenClass {
        match self.several.filter(|_| several) {
            Some(class) => GivenClass {
                class,
                line: Some(ClassLine::Several),
            },
            None => GivenClass {
                class: self.default,
                line: (!self.default.is_default()).then_some(ClassLine::Default),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> ClassDefaults {
        ClassDefaults {
            default: Class::Deadline,
            several: Some(Class::Dedicated),
            queues: [("now", Class::Immediate), ("threads", Class::Deadline)]
                .map(|(name, class)| (name.to_string(), class))
                .into(),
        }
    }

    fn class_of(
        queues: &[&str],
        several: bool,
    ) -> Result<(Class, Option<ClassLine>), Disagreement> {
        let given = site().class_of(None, Basis { queues, several })?;
        Ok((given.class, given.line))
    }

    #[test]
    fn a_queue_comes_before_the_processors_and_those_before_all_others() {
        let queue = |name: &str| Some(ClassLine::Queue(name.to_string()));
        for (queues, several, expected) in [
            (&[][..], false, (Class::Deadline, None)),
            (&[], true, (Class::Dedicated, Some(ClassLine::Several))),
            (&["work"], false, (Class::Deadline, None)),
            (
                &["work"],
                true,
                (Class::Dedicated, Some(ClassLine::Several)),
            ),
            (&["now"], false, (Class::Immediate, queue("now"))),
            (&["now"], true, (Class::Immediate, queue("now"))),
            (&["threads"], true, (Class::Deadline, queue("threads"))),
            // Capitals are another queue.
            (&["NOW"], false, (Class::Deadline, None)),
        ] {
            assert_eq!(
                class_of(queues, several),
                Ok(expected),
                "{queues:?} {several}"
            );
        }
        let dedicated = ClassDefaults {
            default: Class::Dedicated,
            ..ClassDefaults::default()
        };
        let given = dedicated.class_of(None, Basis::default());
        let line = given.map(|given| (given.class, given.line));
        assert_eq!(line, Ok((Class::Dedicated, Some(ClassLine::Default))));
    }

    #[test]
    fn what_a_job_names_is_its_class() {
        for class in Class::ALL {
            let basis = Basis {
                queues: &["now", "threads"],
                several: true,
            };
            let given = site().class_of(Some(class), basis);
            assert_eq!(given, Ok(GivenClass { class, line: None }));
        }
    }

    #[test]
    fn queues_have_to_agree() {
        // A queue without a line is one of a class as well.
        assert_eq!(
            class_of(&["work", "threads"], false),
            Ok((Class::Deadline, None))
        );
        let disagree = |first: (&str, Class), other: (&str, Class)| {
            Err(Disagreement {
                first: (first.0.to_string(), first.1),
                other: (other.0.to_string(), other.1),
            })
        };
        assert_eq!(
            class_of(&["work", "threads"], true),
            disagree(("work", Class::Dedicated), ("threads", Class::Deadline))
        );
        assert_eq!(
            class_of(&["threads", "work", "now"], false),
            disagree(("threads", Class::Deadline), ("now", Class::Immediate))
        );
    }

    #[test]
    fn no_job_with_terms_is_one_of_best_effort_in_a_batch_system() {
        let of = |default| ClassDefaults { default, ..site() }.in_batch().default;
        assert_eq!(of(Class::BestEffort), Class::Deadline);
        assert_eq!(of(Class::Dedicated), Class::Dedicated);
    }
}
