//! Which cell is meant, and its programs.

use super::super::command::{Call, Output, is_executable};
use super::super::{Problem, plain};
use std::path::{Path, PathBuf};

/// Where Debian has its cell, and its programs.
const DEBIAN_ROOT: &str = "/var/lib/gridengine";
const DEBIAN_PROGRAMS: &str = "/usr/lib/gridengine";

/// Which cell is meant.
#[derive(Debug)]
pub struct Cell {
    root: String,
    name: String,
    arch: String,
}

impl Cell {
    /// What the environment says, Debian's where it says nothing.
    pub fn of_environment() -> Cell {
        let variable = |name: &str, otherwise: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            value.unwrap_or_else(|| otherwise.to_string())
        };
        Cell {
            root: variable("SGE_ROOT", DEBIAN_ROOT),
            name: variable("SGE_CELL", "default"),
            arch: variable("SGE_ARCH", "lx-amd64"),
        }
    }

    /// The directory of what its hosts share.
    pub fn common(&self) -> PathBuf {
        Path::new(&self.root).join(&self.name).join("common")
    }

    /// The name of the cell in records: several may share a home directory, and their jobs' numbers mean different jobs.
    pub fn in_records(&self) -> String {
        format!("{}/{}", self.root, self.name)
    }

    /// One of its programs. Another batch system's may be called the same and be first in PATH.
    ///
    /// # Errors
    /// It is not there.
    pub fn program(&self, name: &str) -> Result<Call, Problem> {
        let places = [
            Path::new(&self.root).join("bin").join(&self.arch),
            PathBuf::from(DEBIAN_PROGRAMS),
        ];
        let found = (places.iter().map(|place| place.join(name))).find(|path| is_executable(path));
        let found = found.ok_or_else(|| {
            Problem::new(format!(
                "there is no {name} in {} nor in {}; SGE_ROOT and SGE_ARCH say where Grid Engine is",
                places[0].display(),
                places[1].display()
            ))
        })?;
        Ok(Call::new(found)
            .variable("SGE_ROOT", &self.root)
            .variable("SGE_CELL", &self.name))
    }
}

/// What a client of Grid Engine complained of, without what it always says around it.
pub fn said(done: &Output) -> Problem {
    let text = plain(done);
    let lines = text.lines().map(|line| {
        let line = line.strip_prefix("Unable to run job: ").unwrap_or(line);
        line.strip_prefix("libra: ").unwrap_or(line)
    });
    let lines: Vec<&str> = lines.filter(|line| *line != "Exiting.").collect();
    Problem::new(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_without_what_always_stands_around_them() {
        let done = Output {
            err: "Unable to run job: libra: x: y\nExiting.\n".to_string(),
            ..Output::default()
        };
        assert_eq!(said(&done).to_string(), "x: y");
    }
}
