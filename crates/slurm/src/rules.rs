//! The site's rules beside the judging: jobs without terms, and changes of what is committed.

use super::array::{self, PREFIX};
use super::controller::{Answer, Controller};
use super::problem::{MOST_DAYS, NotTaken, Problem};
use super::records::Partition;
use super::records::Rewrite;
use super::submission::Submission;
use super::waiting::begin_for_slurm;
use libra_config::WithoutTerms;
use libra_units::{cut, duration};

/// A change of a job that somebody asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// Number of the job or array as it was given: `12`, `12_3`, `12_[1-3]`, `12+1`.
    pub job: String,
    /// Whether it is Slurm's administrator.
    pub by_administrator: bool,
    /// What of it that was committed with the job: `TimeLimit`, `NodeList` and such; empty for a change of anything else.
    pub committed_properties: Vec<&'static str>,
    /// What it does to the priority is to hold it, or to release it.
    pub holds: bool,
    /// When it is to begin, Unix time.
    pub begin: Option<f64>,
    /// The new admin comment.
    pub admin_comment: Option<String>,
    /// The new comment.
    pub comment: Option<String>,
}

/// The numbers that a job can have by what was given: one, or of a component of a heterogeneous job those from its first one on; None if it is not
/// written plainly. slurmctld reads it as C does, with blanks, signs and zeros ahead, and cuts off what 32 bits do not hold; who
/// reads it otherwise takes one job for another.
fn numbers(given: &str) -> Option<(u32, u32)> {
    let plain = |digits: &str| -> Option<u32> {
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        (is_plain).then(|| digits.parse().ok()).flatten()
    };
    let end = given.find(['_', '+']).unwrap_or(given.len());
    let first = plain(&given[..end]).filter(|number| *number > 0)?;
    match given[end..].strip_prefix('+') {
        None => Some((first, first)),
        Some(offset) => Some((first, first.checked_add(plain(offset)?)?)),
    }
}

fn refuse(problem: Problem) -> Answer {
    Answer::Refuse(Box::new(NotTaken::from(problem).into()))
}

impl Controller {
    pub(super) fn submit_without_terms(&self, submission: &Submission) -> Answer {
        match self.without_terms {
            WithoutTerms::BestEffort | WithoutTerms::LeaveAlone => Answer::Pass,
            WithoutTerms::Refuse => refuse(Problem::NoTerms),
            WithoutTerms::OtherNodes => self.keep_off(submission),
        }
    }

    /// Jobs without terms on other nodes than Libra's.
    fn keep_off(&self, submission: &Submission) -> Answer {
        let goes_to: Vec<&Partition> = match &submission.partition {
            Some(names) => (names.split(','))
                .filter_map(|name| self.front.partitions.iter().find(|p| p.name == name.trim()))
                .collect(),
            None => self.front.partitions.iter().filter(|p| p.default).collect(),
        };
        // One that Slurm does not know it refuses itself.
        if goes_to.is_empty() {
            return Answer::Pass;
        }
        let (mut off, mut others) = (Vec::new(), false);
        for node in goes_to.iter().flat_map(|partition| &partition.nodes) {
            match self.front.libra_nodes.contains(node) {
                true => off.push(node.clone()),
                false => others = true,
            }
        }
        if off.is_empty() {
            return Answer::Pass;
        }
        if others {
            off.sort();
            off.dedup();
            return Answer::PassWithout(off);
        }
        refuse(Problem::NoTermsHere {
            partition: goes_to[0].name.clone(),
            others: (self.front.partitions.iter())
                .filter(|p| {
                    p.nodes
                        .iter()
                        .any(|node| !self.front.libra_nodes.contains(node))
                })
                .map(|p| p.name.clone())
                .collect(),
        })
    }

    /// Checks that this change may be made. Returns the begin time that it is to be made with in the place of its own, Unix time, if that differs.
    ///
    /// # Errors
    /// Why not, for whoever asked.
    pub fn change(&self, change: &Change, now: f64) -> Result<Option<u64>, String> {
        let touches_commitment = change.admin_comment.is_some()
            || !change.by_administrator && !change.committed_properties.is_empty()
            || change.begin.is_some() && !(self.deferred_jobs.is_empty() && self.unseen.is_empty());
        let (number, last) = match numbers(&change.job) {
            Some(numbers) => numbers,
            None if touches_commitment => {
                return Err(format!(
                    "'{}' may be any job: write its number as plain digits, such as 12, 12_3 or 12+1; nothing was changed",
                    cut(&change.job)
                ));
            }
            None => (0, 0),
        };
        // What was just accepted has no number here yet, and a task of an array gets one of its own when it begins.
        let unknown = last > self.newest_job
            && (self.admission.book.has_provisional()
                || self.arrays_wait
                || self.read.is_none()
                || !self.unseen.is_empty());
        let due = self.deferred_jobs.get(&number).filter(|_| number == last);
        let has_commitment = match number == last {
            true => self.committed_jobs.contains(&number),
            false => (self.committed_jobs.iter()).any(|job| (number..=last).contains(job)),
        };
        let begins = |text: &Option<String>| {
            text.as_ref()
                .is_some_and(|text| text.trim().starts_with(PREFIX))
        };
        let is_ours = |rewrite: &Rewrite| {
            rewrite.job == number && change.admin_comment.as_deref() == Some(&rewrite.admin_comment)
        };
        if change.by_administrator && self.rewrites.iter().any(is_ours) {
            return Ok(None);
        }
        if has_commitment && change.admin_comment.is_some() {
            return Err(format!(
                "the admin comment of job {} says what is committed to it; use its comment (Comment=…) instead",
                change.job
            ));
        }
        if unknown && change.admin_comment.is_some() {
            return Err(format!(
                "job {} was only just submitted; try again in some seconds",
                change.job
            ));
        }
        if (change.admin_comment.as_ref())
            .is_some_and(|text| !array::split(text.trim()).1.is_empty())
        {
            return Err(
                "an admin comment with 'libra:', 'libra-held:' or 'libra-nothing:' at its beginning or behind '|' is Libra's own".to_string(),
            );
        }
        // What is later is taken for Libra's own time.
        match change.begin.map(|begin| begin - now) {
            Some(later) if has_commitment && later > MOST_DAYS * 86400.0 => {
                return Err(Problem::StartsInYears(later).to_string());
            }
            _ => {}
        }
        // One whose promise is deferred begins when it was confirmed, whoever changes when it is to be asked for.
        let begin = match (change.begin, due) {
            (Some(begin), Some(due)) => Some(kept_begin(&change.job, begin, *due, now)?),
            (Some(_), None) if unknown => {
                return Err(format!(
                    "job {} was only just submitted; try again in some seconds",
                    change.job
                ));
            }
            _ => None,
        };
        if change.by_administrator {
            return Ok(begin);
        }
        if begins(&change.comment) {
            return Err(
                "the terms are given when a job is submitted; cancel it and submit it anew"
                    .to_string(),
            );
        }
        // Its user may have held it just before it was confirmed. What an administrator has held Slurm lets no user release.
        let is_held = self.held_jobs.contains(&number);
        let may_change = |what: &&str| match *what {
            "Priority" => change.holds && (due.is_some() || is_held),
            what => due.is_some() && matches!(what, "StartTime" | "Dependency"),
        };
        let mut properties = change.committed_properties.iter();
        let Some(what) = properties.find(|what| !may_change(what)) else {
            return Ok(begin);
        };
        if has_commitment {
            return Err(format!(
                "{what} belongs to the commitment to job {}; cancel it and submit it anew",
                change.job
            ));
        }
        if unknown {
            return Err(format!(
                "job {} was only just submitted; try again in some seconds",
                change.job
            ));
        }
        Ok(None)
    }
}

/// The begin time that Slurm is told for one that somebody gives to a job whose promise is deferred, and which is due at `due`.
fn kept_begin(job: &str, begin: f64, due: f64, now: f64) -> Result<u64, String> {
    if begin >= due {
        return Err(format!(
            "job {job} is due in {}, and would begin in {}; give it a StartTime before its deadline, or cancel it and submit it anew",
            duration::show((due - now).max(0.0)),
            duration::show((begin - now).max(0.0))
        ));
    }
    Ok(begin_for_slurm(begin.max(now)))
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn only_plain_numbers_are_a_job() {
        assert_eq!(numbers("12"), Some((12, 12)));
        assert_eq!(numbers("12_3"), Some((12, 12)));
        assert_eq!(numbers("12_[1-3,7]"), Some((12, 12)));
        assert_eq!(numbers("12+0"), Some((12, 12)));
        assert_eq!(numbers("12+2"), Some((12, 14)));
        for other in [
            "",
            "0",
            "+12",
            "-12",
            " 12",
            "12 ",
            "\t12",
            "012",
            "0x12",
            "1e1",
            "12.0",
            "_1",
            "12+",
            "12++1",
            "12+-1",
            "12+01",
            "4294967308",
            "99999999999999999999",
            "12+4294967295",
            "١٢",
        ] {
            assert_eq!(numbers(other), None, "{other:?}");
        }
    }
}
