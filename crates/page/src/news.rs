//! What has happened to the user's jobs since the page was started: which have ended, and which came into danger. Pure.
//!
//! Found by comparing one list with the next, so whatever batch system has them. Kept for browsers that ask what is new since
//! they asked last; a browser that was away for long is told the latest.

use crate::system::job::{JobSummary, Outcome};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The most that is kept.
const MOST: usize = 50;

/// More than so many at once are told in one sentence.
const SINGLY: usize = 4;

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewsItem {
    /// Its number; later ones are larger.
    pub number: u64,
    /// The job it is about; empty if it is about several.
    pub key: String,
    /// In a sentence, without a full stop.
    pub text: String,
    /// It is nothing to be glad of.
    pub bad: bool,
}

/// What is known, and what has happened.
#[derive(Debug, Default)]
pub struct News {
    /// Jobs that had not ended, and whether they were in danger; None before the first list.
    known: Option<BTreeMap<String, bool>>,
    items: VecDeque<NewsItem>,
    number: u64,
}

impl News {
    /// Compares with the list before.
    pub fn observe(&mut self, jobs: &[JobSummary]) {
        let live = jobs.iter().filter(|job| job.live);
        let now = live.map(|job| (job.key.clone(), job.in_danger())).collect();
        let Some(before) = self.known.replace(now) else {
            return;
        };
        let was = |job: &&JobSummary| before.get(&job.key).copied();
        let ended = jobs.iter().filter(|job| !job.live && was(job).is_some());
        let ended: Vec<&JobSummary> = ended.collect();
        let danger = jobs
            .iter()
            .filter(|job| job.in_danger() && was(job) != Some(true));
        let danger: Vec<&JobSummary> = danger.collect();
        match ended.len() {
            0 => {}
            1..=SINGLY => {
                for job in ended {
                    self.add(&job.key, sentence(job), is_bad(job));
                }
            }
            count => {
                let bad = ended.iter().filter(|job| is_bad(job)).count();
                let rest = match bad {
                    0 => "all as promised".to_string(),
                    bad => format!("{bad} of them failed or late"),
                };
                self.add("", format!("{count} jobs have ended, {rest}"), bad > 0);
            }
        }
        match danger.len() {
            0 => {}
            1..=SINGLY => {
                for job in danger {
                    self.add(&job.key, sentence(job), true);
                }
            }
            count => self.add(
                "",
                format!("{count} jobs are in danger of their deadlines"),
                true,
            ),
        }
    }

    fn add(&mut self, key: &str, text: String, bad: bool) {
        self.number += 1;
        if self.items.len() == MOST {
            self.items.pop_front();
        }
        self.items.push_back(NewsItem {
            number: self.number,
            key: key.to_string(),
            text,
            bad,
        });
    }

    /// The number of the latest; 0 before the first.
    pub fn latest(&self) -> u64 {
        self.number
    }

    /// What has happened after that of this number.
    pub fn after(&self, number: u64) -> Vec<NewsItem> {
        let later = self.items.iter().filter(|item| item.number > number);
        later.cloned().collect()
    }
}

fn is_bad(job: &JobSummary) -> bool {
    matches!(job.outcome, Some(Outcome::Failed | Outcome::Stopped)) || job.is_late()
}

fn sentence(job: &JobSummary) -> String {
    let name = match job.name.as_str() {
        "" => format!("Job {}", job.id),
        name => format!("{name} ({})", job.id),
    };
    if job.live {
        return format!("{name}: {}", job.state);
    }
    let when = match (job.outcome, job.in_time) {
        (Some(Outcome::Cancelled), _) | (_, None) => "",
        (_, Some(true)) => ", in time",
        (_, Some(false)) => ", late",
    };
    format!("{name} has ended: {}{when}", job.state_word())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(key: &str, state: &str) -> JobSummary {
        JobSummary {
            key: key.to_string(),
            id: key.to_string(),
            name: "n".to_string(),
            state: state.to_string(),
            live: true,
            ..JobSummary::default()
        }
    }

    fn ended(key: &str, outcome: Outcome, in_time: bool) -> JobSummary {
        JobSummary {
            live: false,
            outcome: Some(outcome),
            in_time: Some(in_time),
            ..job(key, "")
        }
    }

    #[test]
    fn ends_and_dangers_are_told_once() {
        let mut news = News::default();
        news.observe(&[
            job("1", "on track"),
            job("2", "at risk"),
            job("3", "on track"),
        ]);
        assert_eq!(news.latest(), 0, "what was so before is no news");
        let second = [
            job("1", "at risk"),
            ended("2", Outcome::Failed, true),
            ended("3", Outcome::Finished, true),
            ended("9", Outcome::Finished, true),
        ];
        news.observe(&second);
        news.observe(&second);
        let told = news.after(0);
        let texts: Vec<&str> = told.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "n (2) has ended: failed, in time",
                "n (3) has ended: finished, in time",
                "n (1): at risk"
            ]
        );
        assert_eq!(
            told.iter().map(|item| item.bad).collect::<Vec<_>>(),
            [true, false, true]
        );
        assert_eq!(news.after(2).len(), 1);
        news.observe(&[ended("1", Outcome::Finished, false)]);
        assert_eq!(news.after(3)[0].text, "n (1) has ended: finished, late");
        // One that is submitted and in danger at once.
        news.observe(&[job("4", "late")]);
        assert_eq!(news.after(4)[0].text, "n (4): late");
    }

    #[test]
    fn many_at_once_are_one_sentence() {
        let mut news = News::default();
        let keys: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let all: Vec<JobSummary> = keys.iter().map(|key| job(key, "on track")).collect();
        news.observe(&all);
        let mut over: Vec<JobSummary> = keys
            .iter()
            .map(|key| ended(key, Outcome::Finished, true))
            .collect();
        over[3].outcome = Some(Outcome::Failed);
        news.observe(&over);
        let told = news.after(0);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].text, "20 jobs have ended, 1 of them failed or late");
        assert_eq!(told[0].key, "");
    }
}
