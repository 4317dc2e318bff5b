//! Whose groups those are: Libra's root, what others made, what was delegated to whom.

use super::*;

#[test]
fn what_was_not_made_here_stays() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let group = stage.group("1.ours", 0.5);
    let path = group.directory().to_owned();
    assert!(matches!(
        stage.enforcer.create("1.ours", &limits(0.5)),
        Err(Error::Exists { .. })
    ));
    assert!(
        path.is_dir(),
        "the failed attempt must not remove the group that was there"
    );
    let json = serde_json::to_string(&group.record()).unwrap();
    let record: GroupRecord = serde_json::from_str(&json).unwrap();
    let again = stage.enforcer.reopen(&record).unwrap().unwrap();
    assert!((again.limits().unwrap().processors - 0.5).abs() < 1e-4);
    // Another directory takes the place of ours.
    fs::remove_dir(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(stage.enforcer.reopen(&record).unwrap().is_none());
    assert!(again.limits().unwrap_err().is_gone());
    let stranger = stage.sh("exec sleep 1000");
    fs::write(path.join("cgroup.procs"), stranger.to_string()).unwrap();
    assert!(again.kill(PATIENCE).unwrap().left.is_empty());
    assert!(again.place(stranger).unwrap_err().is_gone());
    stage.enforcer.discard(&record, PATIENCE).unwrap();
    assert!(path.is_dir(), "a stranger's directory was removed");
    assert!(is_alive(stranger), "a stranger's process was killed");
    assert!(
        !stage
            .enforcer
            .remove_root_if_empty(&stage.enforcer.made_root())
            .unwrap()
    );
    let orphans = stage.enforcer.orphans(&[]).unwrap();
    assert!(
        orphans.iter().any(|o| o.path == path && o.populated),
        "{orphans:?}"
    );
    assert!(
        Command::new("kill")
            .args(["-9", &stranger.to_string()])
            .status()
            .unwrap()
            .success()
    );
    wait_until("the stranger's directory is free", || {
        fs::remove_dir(&path).is_ok()
    });
}

#[test]
fn a_root_that_was_there_stays() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let first = stage.group("1.first", 0.5);
    let Enforcement::Active(second) = open(&stage.settings) else {
        panic!("enforcement was there before")
    };
    let group = second.create("2.second", &limits(0.5)).unwrap();
    assert!(second.made_root().directories.is_empty());
    group.remove(PATIENCE).unwrap();
    assert!(second.remove_root_if_empty(&second.made_root()).unwrap());
    let root = first.directory().parent().unwrap().to_owned();
    assert!(root.is_dir());
    assert!(
        !stage
            .enforcer
            .remove_root_if_empty(&stage.enforcer.made_root())
            .unwrap()
    );
    first.remove(PATIENCE).unwrap();
    assert!(
        stage
            .enforcer
            .remove_root_if_empty(&stage.enforcer.made_root())
            .unwrap()
    );
    assert!(!root.exists());
}

#[test]
fn a_host_without_control_groups_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("mountinfo");
    fs::write(&table, "24 1 8:1 / / rw - ext4 /dev/root rw\n").unwrap();
    for (mounts, word) in [
        (table, "not mounted"),
        (dir.path().join("absent"), "cannot read"),
    ] {
        let Enforcement::None { reason } = open(&Settings {
            mounts: Some(mounts),
            ..Settings::default()
        }) else {
            panic!("control groups out of nothing");
        };
        assert!(reason.contains(word), "{reason}");
    }
}

/// Not a test of its own: what three others run as another user, or in a container.
#[test]
fn elsewhere() {
    if std::env::var_os("LIBRA_TEST_ELSEWHERE").is_none() {
        return;
    }
    match open(&Settings::default()) {
        Enforcement::Active(enforcer) => {
            println!("active: {}", enforcer.describe());
            let mut group = match enforcer.create("1.elsewhere", &limits(0.5)) {
                Ok(group) => group,
                Err(e) => return println!("error: {e}"),
            };
            assert!(group.drift().unwrap().is_empty());
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            assert!(group.place(child.id() as i32).unwrap());
            group.remove(PATIENCE).unwrap();
            child.wait().unwrap();
            assert!(
                enforcer
                    .remove_root_if_empty(&enforcer.made_root())
                    .unwrap()
            );
            println!("done: {}", fs::read_to_string("/proc/self/cgroup").unwrap());
        }
        Enforcement::None { reason } => println!("reason: {reason}"),
    }
}

/// This test program; where other users cannot come to it, as in root's home, a copy in a directory that goes with the answer.
fn this_program_for_everybody() -> (Option<tempfile::TempDir>, PathBuf) {
    let program = std::env::current_exe().unwrap();
    let open = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 1 == 1;
    if program.ancestors().all(open) {
        return (None, program);
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.path().join("program");
    program::write(&copy, &fs::read(program).unwrap());
    (Some(directory), copy)
}

#[test]
fn a_delegated_unit_with_processes_in_it_serves() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    if !tree_is_ours() {
        return;
    }
    let slice = Path::new("/sys/fs/cgroup/libra.slice");
    let unit = slice.join("libra-agent.service");
    fs::create_dir_all(&unit).unwrap();
    let agent = stage.sh("exec sleep 1000");
    fs::write(unit.join("cgroup.procs"), agent.to_string()).unwrap();
    let Enforcement::Active(enforcer) = open(&Settings::default()) else {
        panic!("no enforcement")
    };
    let group = enforcer.create("1.delegated", &limits(0.5)).unwrap();
    assert_eq!(group.directory(), unit.join("jobs/1.delegated"));
    assert_eq!(
        fs::read_to_string(unit.join("libra-agent/cgroup.procs"))
            .unwrap()
            .trim(),
        agent.to_string()
    );
    // A second one finds everything prepared.
    enforcer
        .create("2.delegated", &limits(0.5))
        .unwrap()
        .remove(PATIENCE)
        .unwrap();
    group.remove(PATIENCE).unwrap();
    assert!(
        enforcer
            .remove_root_if_empty(&enforcer.made_root())
            .unwrap()
    );
    assert!(unit.is_dir() && !unit.join("jobs").exists());
    fs::write("/sys/fs/cgroup/cgroup.procs", agent.to_string()).unwrap();
    for directory in [unit.join("libra-agent"), unit, slice.to_owned()] {
        fs::remove_dir(directory).unwrap();
    }
}

/// As Docker and podman start one with --privileged: a namespace of control groups, with all its processes in the topmost of them. What
/// `elsewhere` says there, and the groups that are left.
fn in_a_container(namespaces: &str) -> (String, Vec<PathBuf>) {
    let container = Path::new("/sys/fs/cgroup/container");
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    fs::create_dir(container).unwrap();
    let script = format!(
        "echo $$ > /sys/fs/cgroup/container/cgroup.procs; exec unshare --cgroup --mount {namespaces} sh -c \
        'umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup; sleep 1000 & \"$0\" --exact roots::elsewhere --nocapture; kill $!' \"$0\""
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env("LIBRA_TEST_ELSEWHERE", "1")
        .output()
        .unwrap();
    let below = fs::read_dir(container).unwrap();
    let left: Vec<PathBuf> = below
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    for directory in left.iter().map(PathBuf::as_path).chain([container]) {
        wait_until("the container has ended", || {
            fs::remove_dir(directory).is_ok()
        });
    }
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), left)
}

#[test]
fn a_container_with_processes_in_it_serves() {
    let Some(_stage) = Stage::set(Spare::Idle) else {
        return;
    };
    if !tree_is_ours() {
        return;
    }
    let (said, left) = in_a_container("");
    assert!(said.contains("done: 0::/libra-agent"), "{said}");
    assert!(left.iter().all(|l| l.ends_with("libra-agent")), "{left:?}");
    // The process that waits for it has no number there.
    let (said, left) = in_a_container("--pid --fork --mount-proc");
    assert!(said.contains("move them into a child"), "{said}");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_root_with_processes_in_it_is_refused() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    if !tree_is_ours() {
        return;
    }
    let node = Path::new("/sys/fs/cgroup/occupied");
    fs::create_dir(node).unwrap();
    let occupant = stage.sh("exec sleep 1000");
    fs::write(node.join("cgroup.procs"), occupant.to_string()).unwrap();
    let settings = Settings {
        root: Some("occupied/jobs".into()),
        ..Settings::default()
    };
    let Enforcement::Active(enforcer) = open(&settings) else {
        panic!("no enforcement")
    };
    let error = enforcer
        .create("1.occupied", &limits(0.5))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/occupied: ") && error.contains("move them into a child"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(node.join("cgroup.type")).unwrap().trim(),
        "domain"
    );
    assert!(enforcer.made_root().directories.is_empty());
    fs::write("/sys/fs/cgroup/cgroup.procs", occupant.to_string()).unwrap();
    fs::remove_dir(node).unwrap();
}

#[test]
fn an_ordinary_user_uses_what_was_delegated() {
    let Some(_stage) = Stage::set(Spare::Idle) else {
        return;
    };
    if !tree_is_ours() {
        return;
    }
    let node = Path::new("/sys/fs/cgroup/delegated");
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    fs::create_dir(node).unwrap();
    for file in [
        "",
        "cgroup.procs",
        "cgroup.subtree_control",
        "cgroup.threads",
    ] {
        std::os::unix::fs::chown(node.join(file), Some(65_534), Some(65_534)).unwrap();
    }
    let script = "echo $$ > /sys/fs/cgroup/delegated/cgroup.procs; \
        exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\" --exact roots::elsewhere --nocapture";
    let (_directory, program) = this_program_for_everybody();
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .env("LIBRA_TEST_ELSEWHERE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("done: 0::/delegated/libra-agent"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::remove_dir(node.join("libra-agent")).unwrap();
    fs::remove_dir(node).unwrap();
}

#[test]
fn nobody_gets_a_reason() {
    let Some(_stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let (_directory, program) = this_program_for_everybody();
    let mut command = Command::new(program);
    command
        .args(["--exact", "roots::elsewhere", "--nocapture"])
        .env("LIBRA_TEST_ELSEWHERE", "1")
        .current_dir(Path::new("/"));
    let Ok(output) = command.uid(65_534).gid(65_534).output() else {
        eprintln!("not run: needs root, to become another user");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("reason: "), "{text}");
    println!(
        "{}",
        text.lines()
            .find(|l| l.contains("reason: "))
            .unwrap_or_default()
    );
}
