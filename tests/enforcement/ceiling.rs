//! The ceiling over all jobs: what the rest of the host keeps.

use super::*;

#[test]
fn a_ceiling_follows_the_configuration_and_is_set_again() {
    let all = capacity();
    let Some(stage) = Stage::set_below(Spare::Idle, Some(0.5 * all)) else {
        return;
    };
    let group = stage.group("1.ceiling", 0.25);
    let root = group.directory().parent().unwrap().to_owned();
    let quota = || {
        let v1 = fs::read_to_string(root.join("cpu.cfs_quota_us"));
        let text = v1
            .or_else(|_| fs::read_to_string(root.join("cpu.max")))
            .unwrap();
        text.split_whitespace().next().unwrap().to_owned()
    };
    let half = quota();
    assert_eq!(half, format!("{}", (50_000.0 * all) as u64));
    let made = stage.enforcer.made_root();
    assert!(!stage.enforcer.hold_ceiling(&made).unwrap());
    // Another configuration, another process.
    let other = |ceiling| match open(&Settings {
        ceiling,
        ..stage.settings.clone()
    }) {
        Enforcement::Active(enforcer) => enforcer,
        Enforcement::None { reason } => panic!("{reason}"),
    };
    assert!(other(None).hold_ceiling(&made).unwrap());
    assert!(["-1", "max"].contains(&quota().as_str()), "{}", quota());
    assert!(stage.enforcer.hold_ceiling(&made).unwrap());
    assert_eq!(quota(), half);
    // One that was not made here is not touched.
    assert!(!other(None).hold_ceiling(&Default::default()).unwrap());
    assert_eq!(quota(), half);
}

#[test]
fn one_that_left_the_group_that_holds_it_is_put_back() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let group = stage.group("1.left", 0.5);
    let pid = stage.sh("sleep 1000");
    assert!(group.place(pid).unwrap());
    assert_eq!(group.put_back().unwrap(), Vec::<i32>::new());
    let cpu = group.directory().to_owned();
    let apart = group.record().directories.len() > 1 && cpu.join("cpu.shares").exists();
    if !apart || cpu.join("cpuacct.usage").exists() {
        println!("one directory holds and counts here: who leaves it is nobody's");
        return;
    }
    let top = cpu.parent().unwrap().parent().unwrap();
    fs::write(top.join("cgroup.procs"), pid.to_string()).unwrap();
    let inside = || {
        let listed = fs::read_to_string(cpu.join("cgroup.procs")).unwrap();
        listed.lines().any(|line| line == pid.to_string())
    };
    assert!(!inside());
    assert_eq!(group.put_back().unwrap(), [pid]);
    assert!(inside());
}
