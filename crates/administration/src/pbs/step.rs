//! One change of a server, as it is printed and as it is run.

use super::record::Installed;
use std::fmt;
use std::path::PathBuf;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A directive of qmgr.
    Qmgr(String),
    /// A file that is imported into a hook.
    Import {
        hook: &'static str,
        part: HookPart,
        /// The file; made for the import and removed after it.
        file: PathBuf,
        text: String,
    },
    /// One line of sched_config.
    SchedConfig {
        file: PathBuf,
        from: String,
        to: String,
    },
    /// The scheduler reads sched_config again.
    Reconfigure { pid: i32 },
    /// Finished jobs leave the history.
    Forget(Vec<String>),
}

/// What is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPart {
    Content,
    Config,
}

impl HookPart {
    pub fn content_type(self) -> &'static str {
        match self {
            HookPart::Content => "application/x-python",
            HookPart::Config => "application/x-config",
        }
    }

    pub fn extension(self) -> &'static str {
        match self {
            HookPart::Content => "py",
            HookPart::Config => "json",
        }
    }
}

impl Step {
    /// The directive of qmgr that this is, if it is one.
    pub fn directive(&self) -> Option<String> {
        match self {
            Step::Qmgr(directive) => Some(directive.clone()),
            Step::Import {
                hook, part, file, ..
            } => Some(format!(
                "import hook {hook} {} default {}",
                part.content_type(),
                file.display()
            )),
            _ => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.directive()) {
            (_, Some(directive)) => write!(f, "qmgr -c '{directive}'"),
            (Step::SchedConfig { file, from, to }, _) => {
                write!(f, "in {}: {from} -> {to}", file.display())
            }
            (Step::Reconfigure { pid }, _) => {
                write!(
                    f,
                    "kill -HUP {pid}    (the scheduler reads sched_config again)"
                )
            }
            (Step::Forget(jobs), _) => write!(f, "qdel -x {}", jobs.join(" ")),
            _ => Ok(()),
        }
    }
}

/// A step, and what it means for the record.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub step: Step,
    pub note: Note,
}

/// A change of the record that goes with a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    Nothing,
    /// Written before the step is run.
    Made(Installed),
    /// Taken out when the step has been run.
    Undone(Installed),
}

impl Planned {
    pub fn new(step: Step) -> Planned {
        Planned {
            step,
            note: Note::Nothing,
        }
    }

    pub fn making(step: Step, entry: Installed) -> Planned {
        Planned {
            step,
            note: Note::Made(entry),
        }
    }

    pub fn undoing(step: Step, entry: Installed) -> Planned {
        Planned {
            step,
            note: Note::Undone(entry),
        }
    }
}
