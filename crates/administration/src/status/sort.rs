//! In which order jobs are shown.

use clap::ValueEnum;

/// An order. Jobs that have ended come last in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Sort {
    /// As submitted on this host; of batch systems those in danger first
    #[default]
    Usual,
    /// Who has to be done first
    Deadline,
    /// Those in danger first
    State,
    /// The largest share first
    Share,
}

impl Sort {
    /// The key that chooses it while it is shown again and again.
    pub const KEYS: [(char, Sort); 4] = [
        ('u', Sort::Usual),
        ('d', Sort::Deadline),
        ('s', Sort::State),
        ('h', Sort::Share),
    ];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Sort::Usual => "usual",
            Sort::Deadline => "deadline",
            Sort::State => "state",
            Sort::Share => "share",
        }
    }
}
