//! What a job script asks for, in the lines of one of the batch systems.
//!
//! Pure, but for the clock that deadlines at a clock time are read with. The lines are found and split by the same code as at a
//! submission (PBS's qsub), or as sbatch and Grid Engine's qsub do it ([`super::sbatch`], [`super::gridengine`]).

use super::{gridengine, sbatch};
use crate::qsub::{directives, lists};
use libra_config::System;
use libra_core::decision::job::Shape;
use libra_gridengine::records::Allocation;
use libra_pbs::select;
use libra_slurm::submission::Submission;
use libra_units::duration;
use libra_wording::terms::{self, PartialTerms};

/// A script.
pub struct Script {
    /// For messages.
    pub name: String,
    /// As it is; what is not UTF-8 in it is no matter.
    pub text: String,
}

/// What it asks for, as a host judges it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Terms.
    pub terms: PartialTerms,
    /// Shape.
    pub shape: Shape,
    /// What is not judged on a host, for the user.
    pub notes: Vec<String>,
}

impl Script {
    /// Which systems' lines it has, in the order in which they stand.
    pub fn kinds(&self) -> Vec<System> {
        let mut found = Vec::new();
        let place = |prefix: &str| self.text.find(prefix).unwrap_or(usize::MAX);
        if !self.directives().is_empty() {
            found.push((place("#PBS"), System::Pbs));
        }
        if sbatch::has_lines(&self.text) {
            found.push((place("#SBATCH"), System::Slurm));
        }
        if gridengine::has_lines(&self.text) {
            found.push((place("#$"), System::GridEngine));
        }
        found.sort_by_key(|(place, _)| *place);
        found.into_iter().map(|(_, system)| system).collect()
    }

    fn directives(&self) -> Vec<directives::Directive> {
        directives::directives(self.text.as_bytes(), directives::DEFAULT_PREFIX)
    }

    /// What its lines of this kind ask for. `largest`: processors of the host; `now`: Unix time; `until`: seconds from now until
    /// a clock time.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn asked(
        &self,
        kind: System,
        largest: u32,
        now: f64,
        until: &dyn Fn(&str) -> Result<f64, String>,
    ) -> Result<Asked, String> {
        match kind {
            System::Local => Ok(Asked {
                terms: PartialTerms::default(),
                shape: Shape::default(),
                notes: Vec::new(),
            }),
            System::Pbs => self.asked_of_pbs(until),
            System::Slurm => self.asked_of_slurm(largest, now, until),
            System::GridEngine => self.asked_of_gridengine(until),
        }
    }

    fn asked_of_gridengine(
        &self,
        until: &dyn Fn(&str) -> Result<f64, String>,
    ) -> Result<Asked, String> {
        let (submission, at) = gridengine::submission(&self.text, &self.name)?;
        let mut notes = Vec::new();
        let mut ignored = |is: bool, what: &str| {
            if is {
                notes.push(format!("{what} is not judged on a host"));
            }
        };
        ignored(submission.array.is_some(), "-t (this is for one job of it)");
        ignored(!submission.queues.is_empty(), "-q");
        ignored(submission.hosts().is_some(), "-l hostname");
        let in_script = |error: &dyn std::fmt::Display| format!("{}: {error}", self.name);
        Ok(Asked {
            terms: submission
                .terms_until(until)
                .map_err(|error| format!("{at}: {error}"))?,
            // How its environment spreads them is known in its cell alone.
            shape: (submission.shape(Some(Allocation::Anyhow))).map_err(|e| in_script(&e))?,
            notes,
        })
    }

    /// As sbatch would take it.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn submission(
        &self,
        now: f64,
        until: &dyn Fn(&str) -> Result<f64, String>,
    ) -> Result<Submission, String> {
        let at = |text: &str| match text.strip_prefix("now+") {
            Some(later) => relative(later),
            None => until(&format!("@{text}")),
        };
        sbatch::submission(&self.text, &self.name, now, &at)
    }

    fn asked_of_slurm(
        &self,
        largest: u32,
        now: f64,
        until: &dyn Fn(&str) -> Result<f64, String>,
    ) -> Result<Asked, String> {
        let submission = self.submission(now, until)?;
        let in_script = |error: &dyn std::fmt::Display| format!("{}: {error}", self.name);
        let mut notes = Vec::new();
        let mut ignored = |is: bool, what: &str| {
            if is {
                notes.push(format!("{what} is not judged on a host"));
            }
        };
        ignored(
            submission.array.is_some(),
            "--array (this is for one job of it)",
        );
        ignored(submission.partition.is_some(), "--partition");
        ignored(submission.features.is_some(), "--constraint");
        ignored(
            !submission.required_nodes.is_empty() || !submission.excluded_nodes.is_empty(),
            "--nodelist or --exclude",
        );
        Ok(Asked {
            terms: submission.given(now).map_err(|e| in_script(&e))?,
            shape: submission.shape(largest).map_err(|e| in_script(&e))?,
            notes,
        })
    }

    fn asked_of_pbs(&self, until: &dyn Fn(&str) -> Result<f64, String>) -> Result<Asked, String> {
        let mut given = PartialTerms::default();
        let mut walltime = None;
        let mut wanted: [Option<String>; 5] = [const { None }; 5];
        let mut notes = Vec::new();
        for directive in self.directives() {
            let at = format!("{}, line {}", self.name, directive.number);
            let mut here = PartialTerms::default();
            for group in &directive.line.groups {
                let mut take = |name: &[u8], value: &[u8], option: &str| {
                    let name = String::from_utf8_lossy(name);
                    let value = String::from_utf8_lossy(value).trim().to_string();
                    let place = ["select", "place", "ncpus", "mem", "nodes"]
                        .iter()
                        .position(|known| *known == name);
                    match (terms::key_with_class(&name), place) {
                        (Some(key), _) => here
                            .set(key, &value, &|text| until(terms::from_start(text).0))
                            .map_err(|error| format!("{at}: {option}: {error}")),
                        (None, Some(place)) if option == "-l" => {
                            wanted[place] = Some(value);
                            Ok(())
                        }
                        (None, None) if option == "-l" && name == "walltime" => {
                            let seconds = pbs_duration(&value)
                                .map_err(|error| format!("{at}: walltime: {error}"))?;
                            walltime = Some(seconds);
                            Ok(())
                        }
                        _ => Ok(()),
                    }
                };
                match &group.valued {
                    Some((b'W', list)) => {
                        for entry in lists::entries(list).unwrap_or_default() {
                            take(&entry.name, &entry.value, "-W")?;
                        }
                    }
                    Some((b'l', list)) => {
                        for (name, value) in lists::resources(list) {
                            take(name, value, "-l")?;
                        }
                    }
                    Some((b'J', _)) => {
                        notes.push(
                            "-J (this is for one job of it) is not judged on a host".to_string(),
                        );
                    }
                    _ => {}
                }
            }
            given = here.or(given);
        }
        given.estimate = given.estimate.or(walltime);
        let [select, place, ncpus, mem, nodes] = &wanted;
        let asked = select::parse(
            select.as_deref(),
            place.as_deref(),
            ncpus.as_deref(),
            mem.as_deref(),
            nodes.as_deref(),
            &[],
        )
        .map_err(|error| format!("{}: {error}", self.name))?;
        if let Some((key, value)) = asked.conditions.first() {
            notes.push(format!("{key}={value} is not judged on a host"));
        }
        Ok(Asked {
            terms: given,
            shape: asked.shape,
            notes,
        })
    }
}

/// A walltime: seconds, MM:SS or HH:MM:SS, as PBS reads it.
fn pbs_duration(text: &str) -> Result<f64, String> {
    match text.matches(':').count() {
        1 => duration::parse(&format!("0:{text}")),
        _ => duration::parse(text),
    }
    .map_err(|error| error.to_string())
}

/// What follows `now+` of Slurm: a count, and seconds unless a unit is named.
fn relative(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim_end_matches('s') {
        "" | "second" => 1.0,
        "minute" => 60.0,
        "hour" => 3600.0,
        "day" => 86_400.0,
        "week" => 604_800.0,
        _ => f64::NAN,
    };
    let seconds = digits
        .parse::<u32>()
        .map_or(f64::NAN, |n| f64::from(n) * unit);
    match seconds.is_finite() {
        true => Ok(seconds),
        false => Err(format!(
            "'now+{text}' is not a time; write now+2hours or now+90minutes"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Script {
        Script {
            name: "job.sh".to_string(),
            text: text.to_string(),
        }
    }

    fn asked(kind: System, text: &str) -> Result<Asked, String> {
        script(text).asked(kind, 4, 1000.0, &|text| match text {
            "@17:30" => Ok(90.0),
            text => terms::deadline_as_duration(text),
        })
    }

    #[test]
    fn both_kinds_ask_for_the_same() {
        let pbs = "#!/bin/sh\n#PBS -N x -l select=2:ncpus=2:mem=1gb -W deadline=2h,budget=90\n#PBS -l walltime=30:00,place=scatter\n";
        let slurm = "#!/bin/sh\n#SBATCH -N 2 -n 4 --mem=1G --budget=90\n#SBATCH --time=30 --deadline=now+2hours\n";
        let (pbs, slurm) = (
            asked(System::Pbs, pbs).expect("right"),
            asked(System::Slurm, slurm).expect("right"),
        );
        assert_eq!(pbs, slurm);
        assert_eq!(pbs.terms.estimate, Some(1800.0));
        assert_eq!(pbs.terms.deadline, Some(7200.0));
        assert_eq!(pbs.terms.budget, Some(90.0));
        let shape = pbs.shape;
        assert_eq!((shape.chunks, shape.processors_per_chunk), (2, 2));
        assert_eq!(shape.memory_per_chunk, 1 << 30);
    }

    #[test]
    fn later_lines_win_and_resources_are_terms_as_well() {
        let read = asked(
            System::Pbs,
            "#PBS -W deadline=1h,estimate=10\n#PBS -l deadline=@17:30,budget=unlimited,ncpus=3\n",
        );
        let read = read.expect("right");
        assert_eq!(read.terms.deadline, Some(90.0));
        assert_eq!(read.terms.budget, Some(f64::INFINITY));
        assert_eq!(read.shape.processors_per_chunk, 3);
    }

    #[test]
    fn kinds_in_their_order() {
        for (text, kinds) in [
            ("#PBS -z\n#SBATCH -n 1\n", &[System::Pbs, System::Slurm][..]),
            ("#SBATCH -n 1\n#PBS -z\n", &[System::Slurm, System::Pbs]),
            ("#!/bin/sh\necho\n", &[]),
        ] {
            assert_eq!(script(text).kinds(), kinds, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (kind, text, part) in [
            (
                System::Pbs,
                "\n#PBS -W deadline=soon\n",
                "job.sh, line 2: -W: deadline: 'soon'",
            ),
            (System::Pbs, "#PBS -l walltime=x\n", "line 1: walltime: 'x'"),
            (System::Pbs, "#PBS -l nodes=2\n", "job.sh: '-l nodes='"),
            (
                System::Slurm,
                "#SBATCH --budget=much\n",
                "job.sh: --budget: 'much'",
            ),
            (
                System::Slurm,
                "#SBATCH --deadline=now+1moon\n",
                "line 1: 'now+1moon'",
            ),
            (
                System::Slurm,
                "#SBATCH -N 2 -n 3\n",
                "3 tasks cannot be spread",
            ),
        ] {
            let problem = asked(kind, text).expect_err(part);
            assert!(problem.contains(part), "{problem}");
        }
    }
}
