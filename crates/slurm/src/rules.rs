//! The site's rules beside the judging: jobs without terms, and changes of what is committed.

use super::array::{self, PREFIX};
use super::controller::{Answer, Controller};
use super::problem::{NotTaken, Problem};
use super::records::Partition;
use super::records::Rewrite;
use super::submission::Submission;
use libra_config::WithoutTerms;

/// A change of a job that somebody asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// Number of the job or array as it was given: `12`, `12_3`, `12_[1-3]`, `12+1`.
    pub job: String,
    /// Whether it is Slurm's administrator.
    pub by_administrator: bool,
    /// What of it that was committed with the job: `TimeLimit`, `NodeList` and such; empty for a change of anything else.
    pub committed_properties: Vec<&'static str>,
    /// The new admin comment.
    pub admin_comment: Option<String>,
    /// The new comment.
    pub comment: Option<String>,
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

    /// Checks that this change may be made.
    ///
    /// # Errors
    /// Why not, for whoever asked.
    pub fn change(&self, change: &Change) -> Result<(), String> {
        let number: u32 = change
            .job
            .split(['_', '+'])
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(0);
        // What was just accepted has no number here yet.
        let unknown = number > self.newest_job
            && (self.admission.book.has_provisional() || self.read.is_none());
        let has_commitment = self.committed_jobs.contains(&number);
        let begins = |text: &Option<String>| {
            text.as_ref()
                .is_some_and(|text| text.trim().starts_with(PREFIX))
        };
        let is_ours = |rewrite: &Rewrite| {
            rewrite.job == number && change.admin_comment.as_deref() == Some(&rewrite.admin_comment)
        };
        if change.by_administrator && self.rewrites.iter().any(is_ours) {
            return Ok(());
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
        if (change.admin_comment.as_ref()).is_some_and(|text| array::is_ours(text.trim())) {
            return Err(
                "an admin comment that begins with 'libra:', 'libra-held:' or 'libra-nothing:' is Libra's own".to_string(),
            );
        }
        if change.by_administrator {
            return Ok(());
        }
        if begins(&change.comment) {
            return Err(
                "the terms are given when a job is submitted; cancel it and submit it anew"
                    .to_string(),
            );
        }
        let Some(what) = change.committed_properties.first() else {
            return Ok(());
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
        Ok(())
    }
}
