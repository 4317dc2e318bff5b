//! The papers' experiments, run again: evidence that the policies here are the ones described there. It
//! knows the simulator, and no batch system.
//!
//! One paper, one module. Each yields a [`Reproduction`]: the figures and tables of the paper as
//! they come out here, and a verdict on each statement of the paper that can be tested. What a
//! paper leaves open is a [`Reading`]; where several are sensible, all of them are run and judged.
//!
//! Pure: a log and options in, numbers and words out; the same whatever the number of threads.
//! (AROMA's experiment also takes the time of its own decisions, by a clock that is handed in.)
//! `libra reproduce` reads the log and writes the files.

pub mod aroma;
pub mod libra;
pub mod librarisk;
pub mod librasla;
pub mod output;
mod page;
pub mod panel;
pub mod parallel;
pub mod picture;
pub mod statement;
pub mod sweep;

use libra_plots::figure::Table;
use panel::Panel;
use picture::Picture;
use statement::Statement;

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Seeds 1, 2, … so many, at least one.
    pub seeds: u64,
    /// Fewer values of every parameter.
    pub quick: bool,
    /// Threads to run on, at least one.
    pub threads: usize,
}

impl Options {
    /// The seeds.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.seeds.max(1)
    }

    /// All of these values, or with `quick` the first, the last and the `quick` ones.
    pub(crate) fn values(&self, all: &[f64], quick: &[f64]) -> Vec<f64> {
        let ends = [all.first(), all.last()];
        let wanted =
            |value: &f64| !self.quick || ends.contains(&Some(value)) || quick.contains(value);
        all.iter().copied().filter(wanted).collect()
    }
}

/// One way to understand what a paper leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// What it is called.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// What came of a paper's experiments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reproduction {
    /// Short name: that of the command, and of the files.
    pub name: &'static str,
    /// Authors, title, journal or conference, year.
    pub paper: &'static str,
    /// What was run: names and values.
    pub facts: Vec<(String, String)>,
    /// The readings, in the order of every statement's findings.
    pub readings: Vec<Reading>,
    /// The statements of the paper and what came of them.
    pub statements: Vec<Statement>,
    /// Tables, the paper's or on what it leaves open, each with a name for its file.
    pub tables: Vec<(&'static str, Table)>,
    /// The plots of its figures.
    pub panels: Vec<Panel>,
    /// Pictures of single jobs.
    pub pictures: Vec<Picture>,
    /// What must be known to judge the numbers.
    pub notes: Vec<String>,
}
