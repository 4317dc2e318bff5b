//! What handlers share: the system, and answers that are good for a moment.
//!
//! What asks a program is done on threads for that, a few at a time: a batch system's server has other things to do. What is
//! asked for again and again is asked once for all open pages.

use super::guard::Word;
use super::news::News;
use super::pages::View;
use super::pages::jobs::Known;
use super::profile::Profile;
use super::system::job::{Detail, JobSummary, Outcome};
use super::system::profiles::Profiles;
use super::system::submission::{Submission, Submitted};
use super::system::{Cluster, Problem, System};
use super::told::{self, Told};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use libra_system::clock;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Programs at a time.
const AT_ONCE: usize = 4;

/// Files on their way to browsers at a time.
const DOWNLOADS: usize = 4;

/// So long an answer about all jobs or all nodes is good.
pub(crate) const FRESH: Duration = Duration::from_millis(1500);

/// So old may be what is known of a job whose output is read on: that is asked for every second.
pub(crate) const OLD: Duration = Duration::from_secs(5);

/// Forms that are remembered as sent, so that one that is sent twice submits once.
const MOST_SENT: usize = 200;

/// Lists that browsers have, so that they are sent what is new to them: a page of 50 rows has some kilobytes.
const MOST_LISTS: usize = 32;

/// So long what is told of a job but how it stands is good: it is asked for when somebody opens its page.
const TOLD: Duration = Duration::from_secs(60);

/// Jobs of which that is known.
const MOST_TOLD: usize = 100;

/// Other jobs of its name by which a job's estimate is judged.
const OTHERS: usize = 20;

/// Something that was asked for, when, and the answer.
pub(crate) type Cached<T> = Mutex<Option<(Instant, Result<T, Problem>)>>;

/// What handlers share.
pub struct Site {
    pub(crate) system: Box<dyn System>,
    user: String,
    host: String,
    pub(crate) history: Option<PathBuf>,
    programs: Arc<Semaphore>,
    pub(crate) downloads: Arc<Semaphore>,
    jobs: Cached<Vec<JobSummary>>,
    details: Mutex<BTreeMap<String, (Instant, Detail)>>,
    cluster: Cached<Cluster>,
    /// Forms by their own word, with the job they made; None while that is not known.
    sent: Mutex<VecDeque<(String, Option<String>)>>,
    /// Lists that were sent, the latest last.
    lists: Mutex<VecDeque<Known>>,
    pub(crate) news: Mutex<News>,
    profiles: Mutex<Profiles>,
    told: Mutex<BTreeMap<String, (Instant, Detail, Told)>>,
}

impl Site {
    /// `history`: the file that the site keeps its past in.
    pub fn new(system: Box<dyn System>, user: String, history: Option<PathBuf>) -> Site {
        Site {
            profiles: Mutex::new(Profiles::new(system.site(), system.kind())),
            told: Mutex::new(BTreeMap::new()),
            system,
            user,
            host: super::system::records::host(),
            history,
            programs: Arc::new(Semaphore::new(AT_ONCE)),
            downloads: Arc::new(Semaphore::new(DOWNLOADS)),
            jobs: Mutex::new(None),
            details: Mutex::new(BTreeMap::new()),
            cluster: Mutex::new(None),
            sent: Mutex::new(VecDeque::new()),
            lists: Mutex::new(VecDeque::new()),
            news: Mutex::new(News::default()),
        }
    }

    /// The system.
    pub fn system(&self) -> &dyn System {
        self.system.as_ref()
    }

    pub(crate) fn view<'a>(&'a self, word: &'a Word) -> View<'a> {
        View {
            kind: self.system.kind(),
            classes: self.system.site().classes,
            host: &self.host,
            user: &self.user,
            word: &word.0,
            now: clock::unix_time(),
            news: locked(&self.news).latest(),
            time: time_of_day,
        }
    }

    /// The jobs, at most [`FRESH`] old.
    pub(crate) fn jobs(&self) -> Result<Vec<JobSummary>, Problem> {
        cached(&self.jobs, || {
            let jobs = self.system.jobs();
            if let Ok(jobs) = &jobs {
                locked(&self.news).observe(jobs);
                locked(&self.profiles).observe(jobs);
            }
            jobs
        })
    }

    /// The list that a browser has, by its version.
    pub(crate) fn list(&self, version: &str) -> Option<Known> {
        let lists = locked(&self.lists);
        lists.iter().find(|list| list.version == version).cloned()
    }

    /// Takes note of a list that is sent.
    pub(crate) fn sends(&self, list: Known) {
        let mut lists = locked(&self.lists);
        lists.retain(|known| known.version != list.version);
        if lists.len() == MOST_LISTS {
            lists.pop_front();
        }
        lists.push_back(list);
    }

    /// One of the user's jobs, as it was so long ago at most.
    pub(crate) fn job(&self, key: &str, age: Duration) -> Result<Option<Detail>, Problem> {
        let known = locked(&self.details).get(key).cloned();
        if let Some((at, detail)) = known {
            if at.elapsed() < age {
                return Ok(Some(detail));
            }
        }
        let found = self.system.job(key)?;
        if let Some(detail) = &found {
            locked(&self.profiles).observe(std::slice::from_ref(&detail.job));
        }
        let mut details = locked(&self.details);
        details.retain(|_, (at, _)| at.elapsed() < OLD);
        if let Some(detail) = &found {
            details.insert(key.to_string(), (Instant::now(), detail.clone()));
        }
        Ok(found)
    }

    /// The share and the progress of a job over time; None if nobody looked.
    pub(crate) fn profile(&self, job: &JobSummary) -> Option<Profile> {
        locked(&self.profiles).of(job)
    }

    /// What else is told of a job.
    pub(crate) fn told(&self, detail: &Detail) -> Told {
        let key = &detail.job.key;
        let known = locked(&self.told).get(key).cloned();
        if let Some((at, of, told)) = known {
            let is_same = of.job.live == detail.job.live && of.job.id == detail.job.id;
            // It is paid for in the moment after its end.
            let settles = matches!(&told.payment, Ok(Some(payment)) if !payment.is_settled);
            let good = if settles && !detail.job.live {
                FRESH
            } else {
                TOLD
            };
            if is_same && at.elapsed() < good {
                return told;
            }
        }
        let profile = self.profile(&detail.job);
        let others = || self.used_by_others(&detail.job);
        let told = told::tell(self.system(), detail, profile.as_ref(), others, time_of_day);
        let mut all = locked(&self.told);
        all.retain(|_, (at, ..)| at.elapsed() < TOLD);
        if all.len() < MOST_TOLD {
            all.insert(key.clone(), (Instant::now(), detail.clone(), told.clone()));
        }
        told
    }

    /// What other jobs of the user's that have finished have used, of the same name.
    fn used_by_others(&self, job: &JobSummary) -> Vec<f64> {
        if job.name.is_empty() {
            return Vec::new();
        }
        let mut used = BTreeMap::new();
        for profile in locked(&self.profiles).named(&job.name, OTHERS) {
            let finished = profile.end.as_ref().is_some_and(|end| end.finished);
            let most = profile.used_at_most().filter(|_| finished);
            used.extend(most.map(|most| (profile.key, most)));
        }
        let listed = self.jobs().unwrap_or_default();
        let is_like =
            |other: &JobSummary| other.name == job.name && other.outcome == Some(Outcome::Finished);
        let listed = listed.into_iter().filter(is_like);
        used.extend(
            listed
                .filter_map(|other| Some((other.key, other.used?)))
                .take(OTHERS),
        );
        used.remove(&job.key);
        used.into_values().collect()
    }

    /// To be called at the end: what is not written yet is.
    pub(crate) fn end(&self) {
        locked(&self.profiles).write_all();
    }

    pub(crate) fn cluster(&self) -> Result<Cluster, Problem> {
        cached(&self.cluster, || self.system.cluster())
    }

    /// Submits it; a refusal comes with the prices of other deadlines, where somebody knows them.
    pub(crate) fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem> {
        let mut done = self.system.submit(wanted);
        if let Ok(Submitted::Refused(quote)) = &mut done {
            if quote.curve.is_empty() && self.system.quotes() {
                let asked = self.system.quote(wanted);
                quote.curve = asked.map(|asked| asked.curve).unwrap_or_default();
            }
        }
        done
    }

    /// What is known of jobs and nodes is old: something was changed.
    pub(crate) fn changed(&self) {
        *locked(&self.jobs) = None;
        locked(&self.details).clear();
        locked(&self.told).clear();
        *locked(&self.cluster) = None;
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn cached<T: Clone>(
    place: &Cached<T>,
    ask: impl FnOnce() -> Result<T, Problem>,
) -> Result<T, Problem> {
    // Held while it is asked: others wait for the same answer.
    let mut place = locked(place);
    if let Some((at, answer)) = &*place {
        if at.elapsed() < FRESH {
            return answer.clone();
        }
    }
    let answer = ask();
    *place = Some((Instant::now(), answer.clone()));
    answer
}

/// A time in the zone of this host.
pub(crate) fn time_of_day(at: f64) -> String {
    let time = Timestamp::from_second(at.clamp(0.0, 1e11) as i64).unwrap_or_default();
    let time = time.to_zoned(TimeZone::system());
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Runs something that may wait for programs on a thread for that.
pub(crate) async fn ask<T: Send + 'static>(
    site: &Arc<Site>,
    work: impl FnOnce(&Site) -> T + Send + 'static,
) -> Result<T, Problem> {
    let gone = || Problem::new("this was not finished; try again");
    let permit = Arc::clone(&site.programs).acquire_owned().await;
    let permit = permit.map_err(|_| gone())?;
    let site = Arc::clone(site);
    // The work has the permit: it goes on where nobody waits for it any more.
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work(&site)
    })
    .await;
    done.map_err(|_| gone())
}

/// Takes note that a form is being submitted. Some: it was before, and became this job, if that is known.
pub(crate) fn begin_once(site: &Site, once: &str) -> Option<Option<String>> {
    let mut sent = locked(&site.sent);
    if let Some((_, key)) = sent
        .iter()
        .find(|(word, _)| word == once && !once.is_empty())
    {
        return Some(key.clone());
    }
    if sent.len() == MOST_SENT {
        sent.pop_front();
    }
    sent.push_back((once.to_string(), None));
    None
}

/// Takes note of what became of it: what was not accepted may be sent again.
pub(crate) fn end_once(site: &Site, once: &str, done: &Result<Submitted, Problem>) {
    let mut sent = locked(&site.sent);
    match done {
        Ok(Submitted::Accepted(key)) => {
            for (_, known) in sent.iter_mut().filter(|(word, _)| word == once) {
                *known = Some(key.clone());
            }
        }
        // Sent again, the form leads to the jobs.
        Ok(Submitted::Unknown(_)) => {}
        _ => sent.retain(|(word, _)| word != once),
    }
}
