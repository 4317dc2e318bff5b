//! Profiles of jobs, a file for each in `profiles` beside the records of submissions, readable by the user alone: for a job of this page, and
//! for any other of the user's. There are a bounded number of them, each of a bounded size; the oldest go.

use super::job::JobSummary;
use super::{Kind, Site, records};
use crate::address::InAddress;
use crate::profile::Profile;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Files that are kept: the latest.
const MOST_FILES: usize = 500;

/// Jobs that are followed at a time.
const MOST_JOBS: usize = 500;

/// A file is written no more often, unless its job has ended.
const EVERY: Duration = Duration::from_secs(10);

/// So many files at a time: a home directory may be on a network.
const AT_ONCE: usize = 8;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 << 10;

/// Those of one system.
#[derive(Debug)]
pub struct Profiles {
    directory: PathBuf,
    /// Of jobs that are followed, by their keys.
    followed: BTreeMap<String, Followed>,
    said: bool,
}

#[derive(Debug)]
struct Followed {
    profile: Profile,
    /// There is more in it than in its file.
    new: bool,
    written: Instant,
}

impl Profiles {
    /// Those of this system.
    pub fn new(site: &Site, kind: &Kind) -> Profiles {
        Profiles {
            directory: site.state.join(kind.name).join("profiles"),
            followed: BTreeMap::new(),
            said: false,
        }
    }

    /// Takes note of how jobs stand, and writes some of what is new.
    pub fn observe(&mut self, jobs: &[JobSummary]) {
        for job in jobs {
            self.observe_one(job);
        }
        self.write(AT_ONCE, EVERY);
    }

    fn observe_one(&mut self, job: &JobSummary) {
        let is_known = (self.followed.get(&job.key)).is_some_and(|known| known.profile.is_of(job));
        if !is_known {
            // Of a job that has ended nothing new comes.
            if !job.live || self.followed.len() >= MOST_JOBS {
                return;
            }
            let profile = self.read(job).unwrap_or_else(|| Profile::new(job));
            let followed = Followed {
                profile,
                new: false,
                written: Instant::now(),
            };
            self.followed.insert(job.key.clone(), followed);
        }
        if let Some(known) = self.followed.get_mut(&job.key) {
            known.new |= known.profile.observe(job);
        }
    }

    /// Writes all that is new: there may be no later.
    pub fn write_all(&mut self) {
        self.write(usize::MAX, Duration::ZERO);
    }

    fn write(&mut self, most: usize, every: Duration) {
        let is_due = |known: &&mut Followed| {
            known.new && (known.profile.end.is_some() || known.written.elapsed() >= every)
        };
        // Those that have waited longest come first.
        let mut due: Vec<(&String, &mut Followed)> = self
            .followed
            .iter_mut()
            .filter(|(_, known)| is_due(known))
            .collect();
        due.sort_by_key(|(_, known)| known.written);
        let mut problem = None;
        for (key, known) in due.into_iter().take(most) {
            (known.new, known.written) = (false, Instant::now());
            let Some(file) = file_of(&self.directory, key) else {
                continue;
            };
            problem = problem.or(write(&self.directory, &file, &known.profile).err());
        }
        self.followed
            .retain(|_, known| known.new || known.profile.end.is_none());
        // A full disk is said once.
        if let (Some(problem), false) = (problem, self.said) {
            log::warn!("profiles of jobs are not kept: {problem}");
            self.said = true;
        }
    }

    /// That of this job; None if there is none.
    pub fn of(&self, job: &JobSummary) -> Option<Profile> {
        let followed = self
            .followed
            .get(&job.key)
            .map(|known| known.profile.clone());
        followed
            .filter(|profile| profile.is_of(job))
            .or_else(|| self.read(job))
    }

    fn read(&self, job: &JobSummary) -> Option<Profile> {
        let file = file_of(&self.directory, &job.key)?;
        read(&file).filter(|profile| profile.is_of(job))
    }

    /// Those of jobs of this name that have ended, the latest first; some of them.
    pub fn named(&self, name: &str, most: usize) -> Vec<Profile> {
        let mut files = files(&self.directory);
        files.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let all = files.iter().filter_map(|(_, file)| read(file));
        let named = all.filter(|profile| profile.name == name && profile.end.is_some());
        named.take(most).collect()
    }
}

/// The file of a job; None if its key is too long for a name.
fn file_of(directory: &Path, key: &str) -> Option<PathBuf> {
    let name = format!("job-{}.json", InAddress(key));
    (name.len() <= 200).then(|| directory.join(name))
}

fn files(directory: &Path) -> Vec<(SystemTime, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let is = name.starts_with("job-") && name.ends_with(".json");
        let at = entry.metadata().ok().filter(|_| is)?.modified().ok()?;
        Some((at, entry.path()))
    };
    entries.filter_map(of).collect()
}

fn read(file: &Path) -> Option<Profile> {
    let mut text = String::new();
    File::open(file)
        .ok()?
        .take(LARGEST)
        .read_to_string(&mut text)
        .ok()?;
    serde_json::from_str(&text).ok()
}

fn write(directory: &Path, file: &Path, profile: &Profile) -> Result<(), super::Problem> {
    records::private(directory)?;
    if !file.exists() {
        let mut files = files(directory);
        files.sort();
        let more = (files.len() + 1).saturating_sub(MOST_FILES);
        for (_, old) in &files[..more] {
            let _ = fs::remove_file(old);
        }
    }
    let text = serde_json::to_vec(profile).unwrap_or_default();
    let new = file.with_extension("new");
    records::write(&new, &text, 0o600)?;
    fs::rename(&new, file)
        .map_err(|error| super::Problem::new(format!("{}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::job::Outcome;
    use libra_core::decision::class::Class;

    fn job(key: &str, at: f64) -> JobSummary {
        JobSummary {
            key: key.to_string(),
            name: "fit".to_string(),
            live: true,
            submitted: Some(1000.0),
            elapsed: Some(at),
            share: Some(0.5),
            used: Some(at / 2.0),
            ..JobSummary::default()
        }
    }

    fn ended(key: &str, at: f64) -> JobSummary {
        JobSummary {
            live: false,
            outcome: Some(Outcome::Finished),
            share: None,
            used: None,
            ..job(key, at)
        }
    }

    fn profiles(home: &Path) -> Profiles {
        let site = Site {
            libra: "libra".into(),
            config: None,
            state: home.join("state"),
            home: home.into(),
            files: home.into(),
            templates: None,
            classes: [Class::Deadline; 2],
        };
        Profiles::new(&site, &crate::system::local::KIND)
    }

    #[test]
    fn what_was_seen_is_there_after_the_page_and_no_key_is_a_path() {
        let home = tempfile::tempdir().expect("a directory");
        for key in ["12[3].server", "../../x", "7_[1-3%2]"] {
            let mut first = profiles(home.path());
            assert_eq!(first.of(&job(key, 1.0)), None);
            first.observe(&[job(key, 1.0)]);
            first.observe(&[job(key, 5.0)]);
            first.write_all();
            let mut second = profiles(home.path());
            second.observe(&[job(key, 9.0)]);
            let at = |profile: Profile| {
                profile
                    .samples
                    .iter()
                    .map(|sample| sample.at)
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                second.of(&job(key, 9.0)).map(at),
                Some(vec![1.0, 5.0, 9.0]),
                "{key}"
            );
            // At its end it is written at once, and not followed any more.
            second.observe(&[ended(key, 10.0)]);
            assert!(second.followed.is_empty());
            let third = profiles(home.path()).of(&ended(key, 10.0)).expect("a file");
            assert_eq!(third.used_at_most(), Some(5.5));
            let other = JobSummary {
                submitted: Some(9000.0),
                ..job(key, 1.0)
            };
            assert_eq!(profiles(home.path()).of(&other), None, "another job");
        }
        let names = fs::read_dir(home.path().join("state/local/profiles")).expect("a directory");
        assert_eq!(names.count(), 3);
        assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 1);
        assert_eq!(profiles(home.path()).named("fit", 2).len(), 2);
        assert!(profiles(home.path()).named("other", 2).is_empty());
        assert_eq!(file_of(home.path(), &"x".repeat(1000)), None);
    }

    #[test]
    fn they_are_bounded() {
        let home = tempfile::tempdir().expect("a directory");
        let mut profiles = profiles(home.path());
        let jobs: Vec<JobSummary> = (0..MOST_JOBS + 20)
            .map(|n| job(&format!("{n}"), 1.0))
            .collect();
        profiles.observe(&jobs);
        assert_eq!(profiles.followed.len(), MOST_JOBS);
        profiles.write_all();
        let over: Vec<JobSummary> = (0..MOST_JOBS)
            .map(|n| ended(&format!("{n}"), 2.0))
            .collect();
        profiles.observe(&over);
        profiles.write_all();
        assert!(profiles.followed.is_empty());
        profiles.observe(&jobs[MOST_JOBS..]);
        profiles.write_all();
        assert_eq!(files(&profiles.directory).len(), MOST_FILES);
        assert!(profiles.of(&jobs[MOST_JOBS]).is_some(), "the latest stay");
    }

    #[test]
    fn what_is_no_profile_is_none_and_a_directory_of_others_is_not_written_to() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a directory");
        let directory = home.path().join("state/local/profiles");
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("job-1.json"), "{\"samples\": 7}").expect("written");
        let mut profiles = profiles(home.path());
        assert_eq!(profiles.of(&job("1", 1.0)), None);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("opened");
        profiles.observe(&[job("2", 1.0)]);
        profiles.write_all();
        assert!(profiles.said && !directory.join("job-2.json").exists());
        assert!(profiles.of(&job("2", 1.0)).is_some(), "it is still shown");
    }
}
