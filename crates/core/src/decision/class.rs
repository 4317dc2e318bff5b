//! The classes of service by name: what kind of a promise a job asks for. They are those of AROMA (2004, section 3.1); what each
//! promises and holds is in [`super::service`].

use serde::{Deserialize, Serialize};

/// A class of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It ends by its deadline.
    #[default]
    Deadline,
    /// It has its processors for itself, and ends by its deadline.
    Dedicated,
    /// It starts at once, at full speed.
    Immediate,
    /// It is promised nothing.
    BestEffort,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 4] = [
        Class::Deadline,
        Class::Dedicated,
        Class::Immediate,
        Class::BestEffort,
    ];

    /// Its word, as users write it.
    pub fn word(self) -> &'static str {
        match self {
            Class::Deadline => "deadline",
            Class::Dedicated => "dedicated",
            Class::Immediate => "immediate",
            Class::BestEffort => "best-effort",
        }
    }

    /// By its word: in any case, with `_` for `-` if one likes.
    pub fn of_word(word: &str) -> Option<Class> {
        let lower = word.to_ascii_lowercase().replace('_', "-");
        Class::ALL.into_iter().find(|known| known.word() == lower)
    }

    /// Returns true if it is the one of jobs that say nothing about it.
    pub fn is_default(&self) -> bool {
        *self == Class::Deadline
    }

    /// Returns true if a job of this class has a whole processor for each of its slots.
    pub fn is_whole(self) -> bool {
        matches!(self, Class::Dedicated | Class::Immediate)
    }

    /// The terms that it cannot do without, as users write them.
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Class::Deadline | Class::Dedicated => &["estimate", "deadline", "budget"],
            Class::Immediate => &["estimate", "budget"],
            Class::BestEffort => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for class in Class::ALL {
            assert_eq!(Class::of_word(class.word()), Some(class));
            assert_eq!(Class::of_word(&class.word().to_uppercase()), Some(class));
        }
        assert_eq!(Class::of_word("best_effort"), Some(Class::BestEffort));
        assert_eq!(Class::of_word("urgent"), None);
    }
}
