//! Every process of a job is in its group, and ends with it.

use super::*;

#[test]
fn children_cannot_leave_by_setsid() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let group = stage.group("1.setsid", 0.5);
    // Stopped until it is placed, so that the child is born inside.
    let child = Command::new("sh")
        .args(["-c", "kill -STOP $$; setsid sleep 1000 & echo $!; wait"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let pid = child.id() as i32;
    wait_until("the shell has stopped", || is_stopped(pid));
    assert!(group.place(pid).unwrap());
    assert_eq!(group.signal(Signal::SIGCONT).unwrap(), 1);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let grandchild: i32 = line.trim().parse().unwrap();
    stage.children.lock().unwrap().push(child);
    assert!(group.pids().unwrap().contains(&grandchild));
    assert!(group.is_populated().unwrap());
    let killed = group.kill(PATIENCE).unwrap();
    assert!(killed.left.is_empty());
    wait_until("the child is dead", || !is_alive(grandchild));
    assert!(!group.is_populated().unwrap());
    group.remove(PATIENCE).unwrap();
}

#[test]
fn a_whole_tree_moves_in() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let group = stage.group("1.tree", 0.5);
    // A number of seconds that tells these processes from all others.
    let seconds = format!("1000.{}", std::process::id());
    // The second child's parent ends at once, but it stays in the session of the tree.
    let script = format!(
        "setsid sh -c '(sleep {seconds} &) ; (sleep {seconds} & wait) & wait' & setsid sleep {seconds} & wait"
    );
    let pid = stage.sh(&script);
    let sleeps = || -> Vec<i32> {
        let of_ours = |e: &fs::DirEntry| {
            fs::read_to_string(e.path().join("cmdline"))
                .is_ok_and(|c| c == format!("sleep\0{seconds}\0"))
        };
        let entries = fs::read_dir("/proc").unwrap().flatten().filter(of_ours);
        entries
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .collect()
    };
    wait_until("all have started", || sleeps().len() == 3);
    assert!(group.place_tree(pid).unwrap() >= 5);
    let inside = group.pids().unwrap();
    assert!(sleeps().iter().all(|p| inside.contains(p)), "{inside:?}");
    assert_eq!(group.place_tree(i32::MAX).unwrap(), 0);
    assert!(!group.place(i32::MAX).unwrap());
    group.remove(PATIENCE).unwrap();
    wait_until("all are dead", || sleeps().is_empty());
}

#[test]
fn a_process_can_enter_by_itself() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let group = stage.group("1.enter", 0.5);
    let mut files = group.procs_files().unwrap().into_iter();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "echo 0; if [ $1 -gt 1 ]; then echo 0 >&2; fi; exec sleep 1000 0<&- 1>/dev/null 2>&1",
        "sh",
    ]);
    command.arg(files.len().to_string());
    command.stdout(files.next().unwrap());
    command.stderr(files.next().map_or_else(Stdio::null, Stdio::from));
    let child = command.spawn().unwrap();
    let pid = child.id() as i32;
    stage.children.lock().unwrap().push(child);
    wait_until("it is inside", || group.pids().unwrap() == [pid]);
    drop(files);
    group.remove(PATIENCE).unwrap();
}

#[test]
fn a_job_that_forks_without_end_is_killed() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    fs::write(&link, "sh \"$0\" &\n").unwrap();
    let chain = format!("sh {}", link.display());
    for (name, script) in [
        ("1.broad", "while :; do sleep 0.05 & done"),
        // Each process starts the next and ends: there is never one to hold on to.
        ("2.runaway", chain.as_str()),
        (
            "3.ignoring",
            "trap '' TERM HUP INT; while :; do (trap '' TERM; sleep 0.02) & done",
        ),
    ] {
        let group = stage.group(name, 0.8);
        let directories: Vec<PathBuf> = group
            .record()
            .directories
            .iter()
            .map(|d| d.path.clone())
            .collect();
        let first = stage.sh(&format!("kill -STOP $$; {script}"));
        wait_until("the shell has stopped", || is_stopped(first));
        assert!(group.place(first).unwrap());
        group.signal(Signal::SIGCONT).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        wait_until("it has forked again and again", || {
            seen.extend(group.pids().unwrap());
            seen.len() > 20
        });
        assert!(group.is_populated().unwrap(), "{name}");
        let killed = group.kill(PATIENCE).unwrap();
        println!("{name}: dead after {:?}", killed.took);
        assert!(killed.left.is_empty(), "{name}: {killed:?}");
        group.remove(PATIENCE).unwrap();
        assert!(directories.iter().all(|d| !d.exists()), "{name}");
    }
}

#[test]
fn groups_made_by_the_job_go_too() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let group = stage.group("1.nested", 0.5);
    let nested = group.directory().join("inner/innermost");
    fs::create_dir_all(&nested).unwrap();
    let pid = stage.sh("exec sleep 1000");
    fs::write(nested.join("cgroup.procs"), pid.to_string()).unwrap();
    assert_eq!(group.pids().unwrap(), [pid]);
    assert!(group.is_populated().unwrap());
    let directory = group.directory().to_owned();
    group.remove(PATIENCE).unwrap();
    assert!(!directory.exists());
    wait_until("the process is dead", || !is_alive(pid));
}

#[test]
fn drift_is_found_and_repaired() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let mut group = stage.group("1.drift", 0.5);
    assert!(group.drift().unwrap().is_empty());
    let (file, value) = match stage.enforcer.version() {
        Version::V1 => ("cpu.shares", "1024"),
        Version::V2 => ("cpu.weight", "100"),
    };
    fs::write(group.directory().join(file), value).unwrap();
    let drift = group.drift().unwrap();
    assert_eq!(drift.len(), 1, "{drift:?}");
    assert!(
        drift[0].path.ends_with(file) && drift[0].found == value,
        "{drift:?}"
    );
    assert_eq!(group.set(&limits(0.5)).unwrap(), 1);
    // A quota taken away while the burst stays, unknown to us when we write a smaller one.
    match stage.enforcer.version() {
        Version::V1 => fs::write(group.directory().join("cpu.cfs_quota_us"), "-1").unwrap(),
        Version::V2 => fs::write(group.directory().join("cpu.max"), "max").unwrap(),
    }
    group.set(&limits(0.1)).unwrap();
    assert!((group.limits().unwrap().processors - 0.1).abs() < 1e-4);
    assert!(group.drift().unwrap().is_empty());
}

/// On version 1 what is frozen does not die: whoever kills it wins over who freezes it again.
#[test]
fn a_job_that_is_frozen_again_and_again_is_killed() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let group = stage
        .enforcer
        .create_freezable("1.frozen", &limits(0.5))
        .unwrap();
    stage.records.lock().unwrap().push(group.record());
    let pid = stage.sh("exec sleep 1000");
    assert!(group.place(pid).unwrap());
    if !group.can_freeze() {
        println!("not run: this host has no freezer");
        return;
    }
    group.freeze(true).unwrap();
    let dead = AtomicBool::new(false);
    let killed = std::thread::scope(|scope| {
        // As a control loop does that does not know yet that it is over.
        scope.spawn(|| {
            while !dead.load(Ordering::Relaxed) {
                let _ = group.freeze(true);
                sleep(Duration::from_micros(200));
            }
        });
        let killed = group.kill(PATIENCE);
        dead.store(true, Ordering::Relaxed);
        killed
    });
    assert!(killed.unwrap().left.is_empty());
    group.remove(PATIENCE).unwrap();
}
