//! Which jobs are coupled: their slots wait for each other. No log says it.

/// Which jobs are coupled, see [`crate::Job::coupled`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coupled {
    /// None, as in the papers.
    #[default]
    Never,
    /// Those of more than one processor.
    MultiProcessor,
    /// All of them.
    Always,
}

impl Coupled {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Coupled::Never => "never",
            Coupled::MultiProcessor => "multi-processor",
            Coupled::Always => "always",
        }
    }

    /// Whether a job of so many processors is.
    pub fn of(self, processors: u32) -> bool {
        match self {
            Coupled::Never => false,
            Coupled::MultiProcessor => processors > 1,
            Coupled::Always => true,
        }
    }
}
