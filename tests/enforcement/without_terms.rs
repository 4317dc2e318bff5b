//! Groups of jobs that nothing was promised to.

use super::*;

fn listed(record: &GroupRecord) -> Vec<i32> {
    let path = record.directories[0].path.join("cgroup.procs");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn they_count_and_end_and_hold_to_nothing() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let enforcer = &stage.enforcer;
    assert!(enforcer.group_without_terms("job-1.s").unwrap().is_none());
    let record = enforcer
        .make_without_terms("job-1.s", &limits(capacity() / 2.0))
        .unwrap();
    // A job that is run again, or one whose maker was killed, finds it.
    let again = enforcer.make_without_terms("job-1.s", &limits(capacity()));
    assert_eq!(again.unwrap().directories, record.directories);
    assert_eq!(
        enforcer.group_without_terms("job-1.s").unwrap(),
        Some(GroupRecord {
            capacity: 1.0,
            ..record.clone()
        })
    );
    let names: Vec<String> = (enforcer.groups_without_terms().into_iter())
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["job-1.s"]);
    // Not among jobs with terms, and no orphan of theirs.
    assert_eq!(enforcer.orphans(&[]).unwrap(), []);
    let pid = stage.sh("setsid sh -c 'while :; do :; done' & wait");
    assert!(enforcer.place_without_terms(&record, pid).unwrap());
    assert!(listed(&record).contains(&pid));
    let group = enforcer.reopen(&record).unwrap().unwrap();
    // It may have begun its child before it was placed.
    group.place_tree(pid).unwrap();
    wait_until("its time is counted", || {
        group.usage().unwrap().seconds > 0.05
    });
    assert_eq!(group.throttled().unwrap(), 0.0);
    // Who is in a group of another's stays there.
    let other = stage.group("2.other", 0.5);
    let stranger = stage.sh("exec sleep 1000");
    assert!(other.place(stranger).unwrap());
    assert!(enforcer.place_without_terms(&record, stranger).unwrap());
    assert!(!listed(&record).contains(&stranger));
    assert!(enforcer.make_without_terms("a/b", &limits(0.5)).is_err());
    enforcer.discard(&record, PATIENCE).unwrap();
    assert!(enforcer.group_without_terms("job-1.s").unwrap().is_none());
    wait_until("its first process is gone", || !is_alive(pid));
    assert!(is_alive(stranger));
}
