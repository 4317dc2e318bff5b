//! A job as the page shows it, whatever its system. Pure.

use libra_core::decision::class::Class;
use std::path::PathBuf;

/// How things are with a job, for the colour of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As promised.
    Good,
    /// The promise is in danger.
    Warn,
    /// The promise is broken.
    Bad,
    /// Neither.
    #[default]
    Quiet,
}

impl Tone {
    /// The tone of a state of a job that has not ended, as `libra status` and its like call it.
    pub fn of(state: &str) -> Tone {
        match state {
            "on track" | "running" => Tone::Good,
            "at risk" | "waits, at risk" | "overrun" | "orphaned" | "error" => Tone::Warn,
            "late" => Tone::Bad,
            _ => Tone::Quiet,
        }
    }
}

/// How a job has ended; whether in time is another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was to do: exit code 0.
    Finished,
    /// It did not.
    Failed,
    /// Libra or its batch system ended it.
    Stopped,
    /// Somebody ended it.
    Cancelled,
    /// It has ended, and nobody knows how.
    Unknown,
}

impl Outcome {
    /// Of the `conclusion` of `libra status --json` and `libra run --json`.
    pub fn of_conclusion(conclusion: &str) -> Outcome {
        match conclusion {
            "finished" => Outcome::Finished,
            "failed" => Outcome::Failed,
            "stopped" => Outcome::Stopped,
            "cancelled" => Outcome::Cancelled,
            _ => Outcome::Unknown,
        }
    }

    /// For reading.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Finished => "finished",
            Outcome::Failed => "failed",
            Outcome::Stopped => "stopped",
            Outcome::Cancelled => "cancelled",
            Outcome::Unknown => "ended",
        }
    }
}

/// A job of the user. Seconds and credits; what is not known is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobSummary {
    /// What it is called in addresses of pages.
    pub key: String,
    /// Its id in its system.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its class of service, where that is known.
    pub class: Option<Class>,
    /// How it stands, in a word or two of its system.
    pub state: String,
    /// It has not ended.
    pub live: bool,
    /// How it has ended; None while it has not, and where nobody knows whether it was ever there.
    pub outcome: Option<Outcome>,
    /// It has ended before its deadline; None while it has not ended, or where nobody knows.
    pub in_time: Option<bool>,
    /// Its nodes.
    pub node: String,
    /// Share per slot, in processors.
    pub share: Option<f64>,
    /// Slots.
    pub slots: Option<f64>,
    /// Price in credits.
    pub price: Option<f64>,
    /// Since submission; of an ended job, until its end.
    pub elapsed: Option<f64>,
    /// From submission to deadline.
    pub deadline: Option<f64>,
    /// Processor seconds used, per slot.
    pub used: Option<f64>,
    /// Processor seconds of the estimate, per slot.
    pub estimate: Option<f64>,
    /// When it was submitted, seconds since 1970.
    pub submitted: Option<f64>,
    /// How it ended, in words; empty while it has not, or where nobody knows.
    pub ending: String,
}

impl JobSummary {
    /// The colour of its state.
    pub fn tone(&self) -> Tone {
        match self.outcome {
            None => Tone::of(&self.state),
            Some(Outcome::Failed | Outcome::Stopped) => Tone::Bad,
            Some(_) if self.is_late() => Tone::Bad,
            Some(Outcome::Finished) => Tone::Good,
            Some(Outcome::Cancelled | Outcome::Unknown) => Tone::Quiet,
        }
    }

    /// Its state for reading: of one that has ended, how.
    pub fn state_word(&self) -> &str {
        match self.outcome {
            Some(outcome) => outcome.word(),
            None => &self.state,
        }
    }

    /// Returns true if it has not ended and has not begun.
    pub fn waits(&self) -> bool {
        let begins = [
            "waits", "pending", "held", "deferred", "planned", "starting", "quoted", "requeue",
            "queued", "config",
        ];
        self.live && begins.iter().any(|word| self.state.starts_with(word))
    }

    /// Returns true if it has not ended, and its deadline is in danger or has passed.
    pub fn in_danger(&self) -> bool {
        self.live && matches!(self.tone(), Tone::Warn | Tone::Bad)
    }

    /// Returns true if its deadline has passed before its end. One that somebody cancelled is late only if it was by then.
    pub fn is_late(&self) -> bool {
        self.in_time == Some(false) || self.live && self.state == "late"
    }
}

/// All that the page of a job tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detail {
    /// The job.
    pub job: JobSummary,
    /// More, as name and value.
    pub facts: Vec<(String, String)>,
    /// What was said when it was submitted.
    pub said: String,
    /// Where its output is; None if nobody knows.
    pub output: Option<PathBuf>,
    /// Why there is no output to show, where there is none.
    pub no_output: String,
    /// It was submitted by this page, and can be again.
    pub ours: bool,
}
