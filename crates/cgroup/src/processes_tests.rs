use super::*;

#[test]
fn stat_with_a_nasty_name() {
    let text = "42 (a) b ) S 7 42 9 0 -1 4194560 1 0 0 0 10 20 3 4 20 0 1 0 5";
    assert_eq!(
        parse_stat(text),
        Some(Stat {
            parent: 7,
            session: 9,
            ticks: 37,
            dead: false,
            stopped: false,
        })
    );
    let stopped = parse_stat(&text.replace(" S ", " T ")).expect("a process");
    assert!(stopped.stopped && !stopped.dead);
    assert_eq!(parse_stat("42 (a"), None);
}

#[test]
fn sessions_of_their_own_are_stopped_and_go_on() {
    let script = "for i in 1 2 3; do setsid sleep 1000 & done; exec sleep 1000";
    let mut first = std::process::Command::new("sh")
        .args(["-c", script])
        .spawn()
        .unwrap();
    let pid = first.id() as i32;
    let all = || Ok(tree(pid).into_iter().collect());
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let sleeps =
        |pid: &i32| read(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep");
    until("four that sleep", &|| {
        let all = tree(pid);
        all.len() == 4 && all.iter().all(sleeps)
    });
    let stand = |wanted: bool| {
        let mut states = tree(pid).into_iter().filter_map(stat);
        states.all(|stat| stat.stopped == wanted)
    };
    for _ in 0..3 {
        assert!(stop_all(all, Duration::from_secs(60)).unwrap().is_empty());
        assert!(stand(true));
        send(all, Signal::SIGCONT).unwrap();
        until("all go on", &|| stand(false));
    }
    assert_eq!(send(all, Signal::SIGKILL).unwrap(), 4);
    first.wait().unwrap();
}

#[test]
fn tree_has_descendants_and_sessions() {
    let s = |parent, session| Stat {
        parent,
        session,
        ticks: 0,
        dead: false,
        stopped: false,
    };
    let all = BTreeMap::from([
        (1, s(0, 1)),
        (10, s(1, 10)),
        (11, s(10, 10)),
        (12, s(11, 12)),
        (13, s(1, 12)),
        (20, s(1, 20)),
    ]);
    let nobody = 5;
    assert_eq!(tree_in(10, nobody, &all), BTreeSet::from([10, 11, 12, 13]));
    assert!(tree_in(99, nobody, &all).is_empty());
    // A hook, with what it has started, is no part of the job that it is asked for; one that names itself is.
    assert_eq!(tree_in(10, 12, &all), BTreeSet::from([10, 11]));
    assert_eq!(tree_in(12, 12, &all), BTreeSet::from([12, 13]));
    assert!(tree(std::process::id() as i32).contains(&(std::process::id() as i32)));
}

#[test]
fn lists_children_before_parents_and_counts_foreign_namespaces() {
    let dir = tempfile::tempdir().unwrap();
    let nested = dir.path().join("a/b");
    fs::create_dir_all(&nested).unwrap();
    fs::write(nested.join(PROCS), "0\n77\n").unwrap();
    fs::write(dir.path().join(PROCS), "5\n77\n").unwrap();
    let order = with_nested(dir.path());
    assert_eq!(order, [nested, dir.path().join("a"), dir.path().to_owned()]);
    assert_eq!(listed_below([dir.path()]).unwrap(), [0, 5, 77]);
    assert!(
        listed_below([dir.path().join("absent").as_path()])
            .unwrap()
            .is_empty()
    );
}

#[test]
fn spares_itself_and_init() {
    let list = || Ok(vec![0, 1, -1, std::process::id() as i32]);
    assert_eq!(send(list, Signal::SIGKILL).unwrap(), 0);
}

#[test]
fn pending_signals_and_flags_are_read() {
    let status = |set: &str| format!("Name:\tShdPnd:\nSigPnd:\t{set}\nShdPnd:\t0000000000004000\n");
    assert!(has_kill(&status("0000000000000100"), "SigPnd:"));
    assert!(has_kill(&status("ffffffffffffffff"), "SigPnd:"));
    for set in ["0000000000000000", "0000000000004000", "x", ""] {
        assert!(!has_kill(&status(set), "SigPnd:"), "{set}");
    }
    assert!(!has_kill(&status("0000000000000100"), "ShdPnd:"));
    assert!(!has_kill("", "ShdPnd:"));
    assert_eq!(
        flags("42 (a) R) R 7 42 9 0 -1 4194308 1 0"),
        Some(0x40_0004)
    );
    assert_eq!(flags("42 (a"), None);
}

#[test]
fn nothing_listed_or_something_alive_is_not_all_killed() {
    let own = std::process::id() as i32;
    let listed = |pids: &'static [i32]| all_killed(|| Ok(pids.to_vec())).unwrap();
    assert!(!listed(&[]));
    assert!(!listed(&[0]));
    let mut living = None;
    assert!(!all_killed_but_for(|| Ok(vec![own]), &mut living).unwrap());
    let found = living.expect("it lives");
    assert!(found.pid == own && found.lives());
    let later = Living {
        begun: found.begun + 1,
        ..found
    };
    assert!(!later.lives(), "another one has its number");
    assert_eq!((Living::find(0), Living::find(i32::MAX)), (None, None));
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    let pid = dead.id() as i32;
    // Ended, and not waited for yet.
    while is_running(pid) {
        std::thread::yield_now();
    }
    assert_eq!(Living::find(pid), None);
    assert!(all_killed_but_for(|| Ok(vec![pid]), &mut living).unwrap());
    assert_eq!(living, None);
    assert!(!all_killed(|| Ok(vec![pid, own])).unwrap());
    // One that came while the others were looked at.
    let times = std::cell::Cell::new(0);
    let list = || {
        times.set(times.get() + 1);
        Ok(if times.get() == 1 {
            vec![pid]
        } else {
            vec![pid, own]
        })
    };
    assert!(!all_killed(list).unwrap());
    dead.wait().unwrap();
}

#[test]
fn a_process_whose_first_thread_has_ended_is_not_killed() {
    // Its second thread goes on.
    let program = "import ctypes, threading, time\n\
        threading.Thread(target=time.sleep, args=(1000,)).start()\n\
        ctypes.CDLL(None).pthread_exit(None)\n";
    let child = std::process::Command::new("python3")
        .args(["-c", program])
        .spawn();
    let mut child = child.unwrap();
    let pid = child.id() as i32;
    while is_running(pid) {
        std::thread::yield_now();
    }
    let first = format!("/proc/{pid}/task/{pid}");
    assert_eq!(ends(Path::new(&first)), Some(true));
    assert_eq!(is_killed(pid), Some(false));
    // Its first thread says nothing of the others.
    assert_eq!(Living::find(pid), None);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A thread that executes a program takes the number of the first one, and its own is gone: that is no end.
#[test]
fn a_process_whose_threads_execute_programs_is_not_killed() {
    let program = "import ctypes, os, sys, threading\n\
        def again():\n    \
            os.execv(sys.executable, [*sys.orig_argv[:-1], str(int(sys.argv[1]) - 1)])\n\
        if sys.argv[1] == '0':\n    \
            print(flush=True)\n    sys.stdin.read()\n\
        else:\n    \
            threading.Thread(target=again).start()\n    \
            ctypes.CDLL(None).pthread_exit(None)\n";
    let child = std::process::Command::new("python3")
        .args(["-ISc", program, "40"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let pid = child.id() as i32;
    let (over, is_over) = std::sync::mpsc::channel();
    let mut said = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let read = std::io::Read::read(&mut said, &mut [0]);
        over.send(read.unwrap()).unwrap();
    });
    while is_over.try_recv().is_err() {
        assert!(!all_killed(|| Ok(vec![pid])).unwrap());
    }
    let found = Living::find(pid).expect("it is there");
    child.kill().unwrap();
    while found.lives() {
        std::thread::yield_now();
    }
    child.wait().unwrap();
    reader.join().unwrap();
}

/// As a host's agent is shown no process of others where `/proc` is mounted with `hidepid`.
#[test]
fn a_process_that_is_listed_and_not_to_be_seen_is_not_killed() {
    let beyond = i32::MAX;
    assert!(!all_killed(|| Ok(vec![beyond])).unwrap());
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    let pid = dead.id() as i32;
    while is_running(pid) {
        std::thread::yield_now();
    }
    assert!(!all_killed(|| Ok(vec![pid, beyond])).unwrap());
    // One that has really gone is not listed again.
    let times = std::cell::Cell::new(0);
    let list = || {
        times.set(times.get() + 1);
        Ok(if times.get() == 1 {
            vec![pid, beyond]
        } else {
            vec![pid]
        })
    };
    assert!(all_killed(list).unwrap());
    dead.wait().unwrap();
}

#[test]
fn a_process_that_is_not_listed_any_more_is_not_hit() {
    let mut child = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let pid = child.id() as i32;
    // Its number was that of a job's process; then it left, or the number was given away.
    let times = std::cell::Cell::new(0);
    let list = || {
        times.set(times.get() + 1);
        Ok(if times.get() == 1 { vec![pid] } else { vec![] })
    };
    assert_eq!(send(list, Signal::SIGKILL).unwrap(), 0);
    assert!(child.try_wait().unwrap().is_none());
    assert_eq!(send(|| Ok(vec![pid]), Signal::SIGKILL).unwrap(), 1);
    assert!(!child.wait().unwrap().success());
}
