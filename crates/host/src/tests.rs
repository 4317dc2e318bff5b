//! The registry and what is decided from it, without cgroups: those are tested through the binary.

use super::entry::{Entry, Phase, Process, VERSION};
use super::registry::{Registry, RegistryError};
use super::{Host, HostError};
use libra_batch::verdict::Verdict;
use libra_config::Config;
use libra_core::decision::job::{Request, Terms};
use libra_core::decision::refusal::Category;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn host(directory: &Path) -> Host {
    let text = format!(
        "[node]\nprocessors = 1\n[cgroup]\nversion = 'off'\n[registry]\ndirectory = '{}'\n",
        directory.join("registry").display()
    );
    Host::open(Config::from_toml(&text).expect("our own text")).expect("a registry")
}

/// Five days of work in ten: no time that a test takes changes what is needed.
fn half() -> Request {
    Request::single(Terms::hard(432_000.0, 864_000.0, 1e7))
}

/// Nearly all of a processor for these ten days.
const MOST: f64 = 820_800.0;

pub(super) fn entry(host: &Host, id: &str) -> Entry {
    Entry {
        version: VERSION,
        id: id.to_string(),
        boot: host.boot.clone(),
        user: 0,
        name: None,
        command: "true".to_string(),
        request: half(),
        slots: 1,
        estimate_margin: 0.0,
        delay: 0.0,
        payer: None,
        price: 1.0,
        share: 0.5,
        submitted: libra_system::clock::since_boot(),
        submitted_unix: libra_system::clock::unix_time(),
        phase: Phase::Running,
        begun: None,
        started: Some(libra_system::clock::since_boot()),
        supervisor: Process::this(),
        leader: Process::this(),
        group: None,
        making_group: false,
        unenforced: None,
        quote: None,
        cancelled: false,
        stopped: None,
        exit: None,
        asked_to_end: false,
        suspended: None,
        stood_still: 0.0,
        ending: None,
    }
}

#[test]
fn looking_makes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    assert!(host.quote(&half()).expect("a registry").is_ok());
    assert!(host.report().expect("a registry").jobs.is_empty());
    assert!(!directory.path().join("registry").exists());
}

#[test]
fn an_entry_with_numbers_out_of_their_ranges_is_no_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = serde_json::to_value(entry(&host(directory.path()), "1")).expect("JSON");
    let read = |value: &serde_json::Value| Entry::from_json(value.to_string().as_bytes());
    read(&good).expect("ours");
    for (key, value, part) in [
        ("share", "1e300", "share"),
        ("share", "-0.5", "share"),
        ("slots", "0", "slots"),
        ("price", "-1", "price"),
        ("delay", "1e200", "delay"),
        ("started", "-1e200", "times"),
        ("estimate-margin", "-2", "margin"),
    ] {
        let mut bad = good.clone();
        bad[key] = serde_json::from_str(value).expect("JSON");
        let problem = read(&bad).expect_err(key);
        assert!(problem.contains(part), "{key}: {problem}");
    }
    let mut bad = good.clone();
    bad["request"]["terms"]["estimate"] = 0.into();
    assert!(read(&bad).is_err());
}

#[test]
fn a_registry_that_others_can_write_to_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let jobs = directory.path().join("jobs");
    fs::create_dir(&jobs).expect("ours");
    Registry::open(directory.path()).expect("ours alone");
    fs::set_permissions(&jobs, fs::Permissions::from_mode(0o777)).expect("ours");
    let error = Registry::open(directory.path()).expect_err("anyone's");
    assert!(matches!(error, RegistryError::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("chmod 755"), "{error}");
}

#[test]
fn locks_are_for_their_owner_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let registry = Registry::open(directory.path()).expect("ours");
    let _lock = registry.lock().expect("free");
    let _leader = registry.try_lead().expect("ours").expect("free");
    assert!(registry.try_lead().expect("ours").is_none());
    for name in ["lock", "leader"] {
        let mode = fs::metadata(directory.path().join(name))
            .expect("made")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn neither_links_nor_pipes_nor_huge_files_are_jobs() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let lock = host.registry().lock().expect("free");
    let jobs = directory.path().join("registry/jobs");
    symlink("/etc/passwd", jobs.join("1.json")).expect("ours");
    nix::unistd::mkfifo(&jobs.join("2.json"), nix::sys::stat::Mode::S_IRWXU).expect("ours");
    fs::write(jobs.join("3.json"), vec![b' '; 2 << 20]).expect("ours");
    for id in ["1", "2", "3"] {
        assert!(host.registry().read(id).is_err(), "{id}");
    }
    assert!(host.registry().all().expect("readable").is_empty());
    // What a writer that was killed has left is swept; a link in its place is not followed.
    let victim = directory.path().join("victim");
    fs::write(&victim, "mine").expect("ours");
    let left = directory
        .path()
        .join(format!("registry/next-id.tmp-{}", std::process::id()));
    symlink(&victim, &left).expect("ours");
    assert!(host.registry().next_id(&lock).is_err());
    host.registry().sweep(&lock).expect("ours");
    host.registry().next_id(&lock).expect("swept");
    assert_eq!(fs::read_to_string(&victim).expect("ours"), "mine");
}

#[test]
fn a_command_of_megabytes_is_cut_and_its_share_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let long = "ä".repeat(2 << 20);
    let first = host
        .submit(&half(), &long, Process::this())
        .expect("a registry");
    let Verdict::Accepted(first) = first else {
        panic!("it fits: {first:?}");
    };
    assert!(first.entry.command.len() <= 1024);
    let second = host.submit(&half(), "true", Process::this());
    let category = second.expect("a registry").category();
    assert_eq!(category, Some(Category::Share));
}

#[test]
fn a_job_of_another_boot_is_forgotten_and_nothing_of_it_touched() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let mut old = entry(&host, "1");
    old.boot = "another".to_string();
    {
        let _lock = host.registry().lock().expect("free");
        host.registry().write(&old).expect("ours");
    }
    assert!(
        host.quote(&half()).expect("a registry").is_ok(),
        "it holds nothing"
    );
    host.clean().expect("a registry");
    assert!(host.registry().read("1").expect("readable").is_none());
}

#[test]
fn a_job_whose_supervisor_and_first_process_are_gone_is_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let gone = Some(Process { pid: 1, start: 1 });
    let mut left = entry(&host, "1");
    left.supervisor = gone;
    let mut runs = left.clone();
    runs.id = "2".to_string();
    runs.leader = Process::this();
    left.leader = gone;
    {
        let _lock = host.registry().lock().expect("free");
        host.registry().write(&left).expect("ours");
        host.registry().write(&runs).expect("ours");
    }
    host.clean().expect("a registry");
    let phase = |id: &str| {
        host.registry()
            .read(id)
            .expect("readable")
            .expect("there")
            .phase
    };
    assert_eq!((phase("1"), phase("2")), (Phase::Ended, Phase::Running));
}

#[test]
fn an_end_that_was_written_down_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let lock = host.registry().lock().expect("free");
    let job = entry(&host, "1");
    let over = |used| super::ending::Over {
        used,
        exit: None,
        at: libra_system::clock::since_boot(),
    };
    let first = host
        .write_ending(&lock, job.clone(), over(1.0), true)
        .expect("ours");
    let second = host
        .write_ending(&lock, job, over(2.0), true)
        .expect("ours");
    assert_eq!(first, second);
}

#[test]
fn a_job_whose_processes_do_not_go_keeps_its_share() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let over = super::ending::Over {
        used: 1.0,
        exit: None,
        at: libra_system::clock::since_boot(),
    };
    let mut big = entry(&host, "1");
    big.request.terms.estimate = MOST;
    let lock = host.registry().lock().expect("free");
    let stuck = host.write_ending(&lock, big, over, false).expect("ours");
    drop(lock);
    assert_eq!(stuck.phase, Phase::Ending);
    assert!(
        host.quote(&half()).expect("a registry").is_err(),
        "its share is not free"
    );
}

#[test]
fn ids_of_batch_systems_stay_inside_the_registry() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    for id in ["", ".", "..", "../1", "a/b", "a\nb", &"x".repeat(181)] {
        let error = host.end(id).expect_err(id);
        assert!(matches!(error, HostError::Id { .. }), "{error}");
    }
    let error = host.end("1[2].server").expect_err("not begun");
    assert!(matches!(error, HostError::UnknownJob(_)), "{error}");
}

#[test]
fn what_could_not_be_ended_before_a_reboot_is_forgotten_after_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let mut stuck = entry(&host, "1");
    stuck.boot = "another".to_string();
    stuck.phase = Phase::Ending;
    stuck.request.terms.estimate = MOST;
    {
        let _lock = host.registry().lock().expect("free");
        host.registry().write(&stuck).expect("ours");
    }
    assert!(host.quote(&half()).expect("a registry").is_ok());
    host.clean().expect("a registry");
    assert!(host.registry().read("1").expect("readable").is_none());
}

#[test]
fn a_process_that_cannot_look_at_cgroups_ends_no_job_that_has_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let gone = Some(Process { pid: 1, start: 1 });
    let mut job = entry(&host, "1");
    (job.supervisor, job.leader) = (gone, gone);
    job.group = Some(libra_cgroup::GroupRecord {
        name: "job-1".to_string(),
        version: libra_cgroup::Version::V1,
        capacity: 1.0,
        directories: Vec::new(),
        adopted: None,
    });
    {
        let _lock = host.registry().lock().expect("free");
        host.registry().write(&job).expect("ours");
    }
    host.clean().expect("a registry");
    let read = host.registry().read("1").expect("readable").expect("there");
    assert_eq!(read.phase, Phase::Running);
}

#[test]
fn what_has_ended_is_out_of_the_way_of_what_has_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    let ended = |id: &str| {
        let mut entry = entry(&host, id);
        entry.phase = Phase::Ended;
        entry
    };
    let registry = host.registry();
    let live = |registry: &Registry| registry.live().expect("readable").len();
    let lock = registry.lock().expect("free");
    registry.write(&entry(&host, "1")).expect("ours");
    assert_eq!(live(registry), 1);
    registry.write(&ended("1")).expect("ours");
    assert_eq!(
        (live(registry), registry.ended().expect("readable").len()),
        (0, 1)
    );
    assert_eq!(
        registry.read("1").expect("readable").map(|e| e.phase),
        Some(Phase::Ended)
    );
    // As an older version leaves it, or one that was killed before it moved it.
    let jobs = directory.path().join("registry/jobs/2.json");
    fs::write(&jobs, serde_json::to_vec(&ended("2")).expect("JSON")).expect("ours");
    assert_eq!(registry.all().expect("readable").len(), 2);
    host.forget(&lock, libra_system::clock::since_boot())
        .expect("a registry");
    assert!(!jobs.exists());
    // A batch system gives an id again.
    registry.write(&entry(&host, "2")).expect("ours");
    assert_eq!(
        (live(registry), registry.all().expect("readable").len()),
        (1, 2)
    );
    assert_ne!(registry.next_id(&lock).expect("written"), 1);
}

#[test]
fn thousands_of_ended_jobs_are_forgotten_a_part_at_a_time() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let host = host(directory.path());
    let lock = host.registry().lock().expect("free");
    let mut one = entry(&host, "1");
    one.phase = Phase::Ended;
    host.registry().write(&one).expect("ours");
    let ended = directory.path().join("registry/ended");
    for id in 2..=4_000 {
        fs::hard_link(ended.join("1.json"), ended.join(format!("{id}.json"))).expect("ours");
    }
    let left = || fs::read_dir(&ended).expect("readable").count();
    host.forget(&lock, libra_system::clock::since_boot())
        .expect("a registry");
    assert_eq!(left(), 2_000);
    host.forget(&lock, libra_system::clock::since_boot())
        .expect("a registry");
    assert_eq!(left(), 1000);
}

#[test]
fn a_submission_that_cannot_be_judged_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = host(directory.path());
    host.registry().lock().expect("made");
    let counted = || {
        let counts = host.counts().expect("readable");
        counts.map_or(0, |record| {
            record
                .totals
                .refused(libra_core::decision::refusal::Category::Fault)
        })
    };
    assert_eq!(counted(), 0);
    // A lock that nobody can open.
    let lock = directory.path().join("registry/lock");
    fs::remove_file(&lock).expect("ours");
    fs::create_dir(&lock).expect("ours");
    for _ in 0..2 {
        host.submit(&half(), "true", None).expect_err("no lock");
    }
    assert_eq!(counted(), 2);
    fs::remove_dir(&lock).expect("ours");
    let third = host.submit(&half(), "true", Process::this());
    assert!(third.expect("a lock").is_accepted());
    assert_eq!(counted(), 2);
    let accepted = host.counts().expect("readable").expect("counted");
    assert_eq!(accepted.totals.accepted, 1);
}
