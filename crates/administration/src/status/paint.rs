//! Colour, where a terminal is.

use std::io::IsTerminal;

/// Whether what is written may have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Plain text.
    Plain,
    /// With escape sequences of terminals.
    Colours,
}

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const FAINT: &str = "\x1b[2m";
const END: &str = "\x1b[0m";

impl Paint {
    /// For standard output: colours on a terminal, unless NO_COLOR is set to anything (<https://no-color.org>) or the terminal has none.
    pub fn of_output() -> Paint {
        let variable = |name: &str| std::env::var_os(name).unwrap_or_default();
        Paint::of(
            std::io::stdout().is_terminal(),
            !variable("NO_COLOR").is_empty(),
            variable("TERM") == "dumb",
        )
    }

    fn of(terminal: bool, unwanted: bool, dumb: bool) -> Paint {
        match terminal && !unwanted && !dumb {
            true => Paint::Colours,
            false => Paint::Plain,
        }
    }

    /// The words of a state, which is one of [`STATES`](super::schema::STATES).
    pub fn state(self, state: &str, words: &str) -> String {
        let colour = match state {
            "late" | "missed" | "stopped" | "failed" => RED,
            "at_risk" | "waiting_at_risk" | "overrun" | "orphaned" => YELLOW,
            "on_track" | "starting" | "met" => GREEN,
            _ => return words.to_string(),
        };
        self.with(colour, words)
    }

    /// What is of less interest.
    pub fn faint(self, text: &str) -> String {
        self.with(FAINT, text)
    }

    fn with(self, colour: &str, text: &str) -> String {
        match self {
            Paint::Plain => text.to_string(),
            Paint::Colours => format!("{colour}{text}{END}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::STATES;
    use super::*;

    #[test]
    fn colours_are_for_terminals_of_those_who_want_them() {
        assert_eq!(Paint::of(true, false, false), Paint::Colours);
        for (terminal, unwanted, dumb) in [
            (false, false, false),
            (true, true, false),
            (true, false, true),
        ] {
            assert_eq!(Paint::of(terminal, unwanted, dumb), Paint::Plain);
        }
    }

    #[test]
    fn what_is_in_danger_is_no_colour_of_what_is_well() {
        let of = |state: &str| Paint::Colours.state(state, "x");
        assert_eq!(of("late"), "\x1b[31mx\x1b[0m");
        assert_eq!(of("at_risk"), of("waiting_at_risk"));
        assert_ne!(of("at_risk"), of("on_track"));
        for state in STATES {
            assert_eq!(Paint::Plain.state(state, "x"), "x");
        }
    }
}
