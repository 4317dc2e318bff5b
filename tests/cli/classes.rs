//! The classes of service (AROMA 2004, section 3.1), each of its statements on real processes.

use crate::support::{Site, burn, kill, runs, stderr, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A processor, and no room for errors in the sums below.
const WHOLE: &str = "[node]\nprocessors = 1\n[admission]\nestimate-margin = \"0%\"\n";
/// What takes all there is. On a host of one processor, as the user-mode kernel is, it leaves the test next to nothing.
const FOR_EVER: &str = "while :; do :; done";
/// What goes on as long, and takes some of it.
const UNHURRIED: &str = "while :; do seq 20000 >/dev/null; sleep 0.1; done";

fn site() -> Site {
    Site::new(WHOLE)
}

fn refused(site: &Site, terms: &str) -> (Option<i32>, String) {
    let output = site.run(terms, "true").output().expect("libra");
    (output.status.code(), stderr(&output))
}

fn quote(site: &Site, terms: &str) -> Value {
    let asked = site.libra(&["quote", "--json", "-W", terms]).output();
    let output = asked.expect("libra");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn cancel(site: &Site, id: &str) {
    let cancelled = site.libra(&["cancel", id]).output().expect("libra");
    // Who dies has what the job had of a processor: next to nothing, and on a slow machine that takes longer than it waits.
    if !cancelled.status.success() {
        let said = stderr(&cancelled);
        assert!(said.contains(&format!("job {id} is still there")), "{said}");
        wait_for(&format!("job {id} to be gone"), || {
            site.job(id)["phase"] == "ended"
        });
    }
}

fn end(site: &Site, id: &str, child: Child) -> Output {
    cancel(site, id);
    child.wait_with_output().expect("libra")
}

fn wait_for_state(site: &Site, id: &str, state: &str) {
    wait_for(&format!("job {id} to be {state}"), || {
        site.job(id)["state"] == state
    });
}

/// What the kernel says of a job's freezer, of either version; nothing where it has none.
fn frozen(site: &Site, id: &str) -> Option<bool> {
    site.cgroups().iter().find_map(|root| {
        let group = root.join(format!("job-{id}"));
        let v1 = fs::read_to_string(group.join("freezer.state"));
        let v2 = fs::read_to_string(group.join("cgroup.events"));
        (v1.ok().map(|text| text.trim() == "FROZEN"))
            .or(v2.ok().map(|text| text.contains("frozen 1")))
    })
}

fn used(site: &Site, id: &str) -> f64 {
    site.job(id)["used_seconds"].as_f64().expect("seconds")
}

/// "Applications without constraint: executed as soon as possible with available resources." All of a job stands still, children and
/// threads too, and goes on where it was.
#[test]
fn best_effort_runs_with_what_is_left_and_stands_still_where_nothing_is() {
    let site = site();
    let best = site.start(
        "class=best-effort",
        &format!("({UNHURRIED}) & ({UNHURRIED}) & wait"),
    );
    wait_for("it to have all there is", || {
        site.job("1")["share"].as_f64() > Some(0.95) && used(&site, "1") > 0.2
    });
    let job = site.job("1");
    assert_eq!(job["class"], "best-effort", "{job}");
    assert_eq!(job["state"], "running", "{job}");
    for none in [
        "deadline",
        "deadline_seconds",
        "estimate_seconds",
        "deadline_status",
    ] {
        assert_eq!(job[none], Value::Null, "{none}: {job}");
    }
    assert_eq!(site.report()["committed"], 0.0);
    // It holds nothing that a job with a promise could not have.
    let gate = site.gate();
    let promised = site.start(
        "class=immediate,estimate=600000,budget=unlimited",
        &gate.until_open(),
    );
    wait_for_state(&site, "1", "suspended");
    wait_for("the kernel to say so", || frozen(&site, "1") == Some(true));
    assert_eq!(site.job("1")["suspended"], true);
    // Nothing of it runs: not a tick is counted while another one works.
    let before = used(&site, "1");
    let other = site.path("worked");
    let worked = Command::new("bash")
        .args(["-c", &format!("{}; touch {}", burn(0.3), other.display())])
        .status();
    assert!(worked.expect("bash").success() && other.exists());
    assert_eq!(used(&site, "1"), before, "it stood still");
    gate.open();
    promised.wait_with_output().expect("libra");
    wait_for("it to go on", || used(&site, "1") > before);
    assert_eq!(site.job("1")["suspended"], false);
    end(&site, "1", best);
    site.assert_nothing_left();
}

/// "High priority applications: the execution will be immediate", at full speed, or it is refused and says so at once.
#[test]
fn an_immediate_job_has_whole_processors_at_once_or_is_refused() {
    let site = site();
    let now = site.start(
        "class=immediate,estimate=600000,budget=unlimited",
        "sleep 600",
    );
    let job = site.job("1");
    assert_eq!(job["class"], "immediate", "{job}");
    assert_eq!(job["deadline"], Value::Null, "{job}");
    wait_for("a whole processor", || {
        site.job("1")["share"].as_f64() > Some(0.99)
    });
    // The processor is its own: not even a small share is left, and a second one does not start.
    let (code, said) = refused(&site, "estimate=1,deadline=1000,budget=unlimited");
    assert_eq!(code, Some(3), "{said}");
    let (code, said) = refused(&site, "class=immediate,estimate=1,budget=unlimited");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("needs 1 CPU"), "{said}");
    assert!(said.contains("class=best-effort (costs 0)"), "{said}");
    end(&site, "1", now);
    let done = site.run("class=immediate,estimate=1,budget=unlimited", "true");
    let done = { done }.output().expect("libra");
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(
        stderr(&done).contains("job 2 finished"),
        "{}",
        stderr(&done)
    );
    assert_eq!(site.job("2")["state"], "finished");
    site.assert_nothing_left();
}

/// "Applications with dedicated resources: each will be the only one to use resources during its execution", with a deadline that is
/// judged.
#[test]
fn a_dedicated_job_is_alone_on_its_processors_and_judged_by_its_deadline() {
    let site = site();
    let terms = "class=dedicated,estimate=60000,deadline=600000,budget=unlimited";
    let own = site.start(terms, "sleep 600");
    wait_for("a whole processor", || {
        // By its deadline a tenth would do.
        site.job("1")["share"].as_f64() > Some(0.99)
    });
    assert_eq!(site.job("1")["state"], "on_track");
    let (code, said) = refused(&site, "estimate=1,deadline=1000,budget=unlimited");
    assert_eq!(code, Some(3), "{said}");
    end(&site, "1", own);
    let (code, said) = refused(
        &site,
        "class=dedicated,estimate=20,deadline=10,budget=unlimited",
    );
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("deadline=20"), "{said}");
    site.assert_nothing_left();
}

/// "Deadline applications: the execution will end before the deadline": beside best effort as if that were not there.
#[test]
fn a_deadline_is_kept_beside_best_effort() {
    let site = site();
    let best = site.start("class=best-effort", FOR_EVER);
    // All but a hundredth, so that next to nothing is left.
    let terms = "class=deadline,estimate=990000,deadline=1000000,budget=unlimited";
    let gate = site.gate();
    let promised = site.start(terms, &gate.until_open());
    wait_for_state(&site, "1", "suspended");
    assert_eq!(site.job("2")["state"], "on_track");
    gate.open();
    let output = promised.wait_with_output().expect("libra");
    assert!(stderr(&output).contains("met its deadline"), "{output:?}");
    wait_for_state(&site, "1", "running");
    // Half is left beside this one: it runs on, with that.
    let half = site.start(
        "estimate=500000,deadline=1000000,budget=unlimited",
        "sleep 600",
    );
    wait_for("what the other one leaves", || {
        let share = site.job("1")["share"].as_f64().expect("a share");
        (0.4..0.6).contains(&share)
    });
    assert_eq!(site.job("1")["suspended"], false);
    end(&site, "3", half);
    end(&site, "1", best);
    site.assert_nothing_left();
}

/// Signals reach a job that stands still, from whomever they come.
#[test]
fn a_suspended_job_can_be_ended_by_all_means() {
    let site = site();
    let heeds = |ready: &Path| {
        let ready = ready.display();
        format!("trap 'exit 42' TERM; touch {ready}; {UNHURRIED}")
    };
    let gate = site.gate();
    let mut best: Vec<Child> = Vec::new();
    for id in ["1", "2", "3"] {
        let ready = site.path(&format!("ready-{id}"));
        best.push(site.start("class=best-effort", &heeds(&ready)));
        wait_for("the trap", || ready.exists());
        assert_eq!(site.job(id)["class"], "best-effort");
    }
    let promised = site.start(
        "class=immediate,estimate=600000,budget=unlimited",
        &gate.until_open(),
    );
    for id in ["1", "2", "3"] {
        wait_for_state(&site, id, "suspended");
    }
    // By its own libra run, which hands the signal on, and whose exit code is the job's.
    kill(best[0].id(), Signal::SIGTERM);
    let ended = best.remove(0).wait_with_output().expect("libra");
    assert_eq!(ended.status.code(), Some(42), "{}", stderr(&ended));
    // By name.
    let ended = end(&site, "2", best.remove(0));
    assert_eq!(
        site.job("2")["conclusion"],
        "cancelled",
        "{}",
        stderr(&ended)
    );
    // By the kernel: nobody is left to let it go on but whoever leads now, and its last process dies all the same.
    let mut last = best.remove(0);
    let inside = site.processes("3");
    assert!(!inside.is_empty());
    kill(last.id(), Signal::SIGKILL);
    // Its job has its output still.
    last.wait().expect("libra");
    cancel(&site, "3");
    wait_for("its processes to be gone", || {
        !inside.iter().any(|pid| runs(pid))
    });
    gate.open();
    promised.wait_with_output().expect("libra");
    site.assert_nothing_left();
}

/// Killed agents leave nobody frozen for ever: who leads next lets it go on.
#[test]
fn a_killed_agent_leaves_nobody_frozen() {
    let site = site();
    let agent = || -> Child {
        let agent = site.libra(&["agent"]).stderr(Stdio::null()).spawn();
        let agent = agent.expect("libra");
        let pid = agent.id().to_string();
        wait_for("the agent to lead", || {
            fs::read_to_string(site.path("registry/leader")).is_ok_and(|text| text.trim() == pid)
        });
        agent
    };
    let mut first = agent();
    let mut best = site.start("class=best-effort", UNHURRIED);
    let mut promised = site.start(
        "class=immediate,estimate=600000,budget=unlimited",
        "sleep 600",
    );
    wait_for("it to stand still", || frozen(&site, "1") == Some(true));
    // Everybody who could let it go on is gone at once.
    kill(best.id(), Signal::SIGKILL);
    kill(promised.id(), Signal::SIGKILL);
    // Their jobs have their output still.
    best.wait().expect("libra");
    promised.wait().expect("libra");
    kill(first.id(), Signal::SIGKILL);
    first.wait().expect("the agent");
    assert_eq!(
        frozen(&site, "1"),
        Some(true),
        "nobody has let it go on yet"
    );
    // The next one plans anew: the other job is there still.
    let mut second = agent();
    wait_for("it to be found", || site.job("1")["state"] == "suspended");
    cancel(&site, "2");
    wait_for("it to go on", || frozen(&site, "1") == Some(false));
    // One that ends of itself leaves nobody behind either.
    let promised = site.start(
        "class=immediate,estimate=600000,budget=unlimited",
        "sleep 600",
    );
    wait_for("it to stand still again", || {
        frozen(&site, "1") == Some(true)
    });
    kill(second.id(), Signal::SIGTERM);
    second.wait().expect("the agent");
    wait_for("whoever leads now to see to it", || {
        site.job("1")["state"] == "suspended"
    });
    end(&site, "3", promised);
    // Its libra run is gone, and nobody leads: it was let go on by the last that did.
    wait_for("it to go on", || frozen(&site, "1") == Some(false));
    cancel(&site, "1");
    site.assert_nothing_left();
}

#[test]
fn what_a_class_lacks_is_said() {
    let site = site();
    for (terms, said) in [
        (
            "class=urgent",
            "there are deadline, dedicated, immediate, best-effort",
        ),
        (
            "class=dedicated,deadline=20,budget=15",
            "estimate is missing",
        ),
        (
            "class=dedicated,estimate=20,budget=15",
            "deadline is missing",
        ),
        ("class=immediate,budget=15", "estimate is missing"),
        (
            "class=immediate,estimate=10,budget=15,start=@17:30",
            "cannot be planned yet",
        ),
        ("class=best-effort,penalty_rate=1", "penalty"),
    ] {
        let (code, error) = refused(&site, terms);
        assert_eq!(code, Some(2), "{terms}: {error}");
        assert!(error.contains(said), "{terms}: {error}");
    }
    // A quote that is held is a start at a later time.
    for class in ["immediate,estimate=10", "best-effort"] {
        let terms = format!("class={class},budget=100");
        let held = site
            .libra(&["quote", "--hold", "60s", "-W", &terms])
            .output();
        let held = held.expect("libra");
        assert_eq!(held.status.code(), Some(3), "{}", stderr(&held));
        assert!(
            stderr(&held).contains("cannot be held"),
            "{}",
            stderr(&held)
        );
    }
    assert!(site.jobs().is_empty());
}

#[test]
fn a_site_says_which_classes_there_are_and_what_they_cost() {
    let prices = "[class]\ndefault = \"best-effort\"\ndedicated = false\nimmediate-price = 3\nbest-effort-price = 0.5\n";
    let site = Site::new(&format!("{WHOLE}{prices}"));
    let (code, said) = refused(&site, "class=dedicated,estimate=1,deadline=9,budget=9");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("not offered"), "{said}");
    // 10 + 10/10, three times.
    let now = quote(&site, "class=immediate,estimate=10,budget=100");
    assert_eq!(now["price"], 33.0, "{now}");
    // What names no class is of the default one; by use, at most half a credit for each second of the estimate.
    let (code, said) = refused(&site, "estimate=10,budget=4.5");
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("costs 5 credits; the budget is 4.5"),
        "{said}"
    );
    assert!(said.contains("budget=5"), "{said}");
    let (code, said) = refused(&site, "budget=4.5");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("class.best-effort-price"), "{said}");
    let taken = site
        .run("estimate=10,budget=5", "true")
        .output()
        .expect("libra");
    assert!(taken.status.success(), "{}", stderr(&taken));
}

#[test]
fn a_job_of_several_processors_has_the_class_that_the_site_gives_to_those() {
    let site = Site::new(
        "[node]\nprocessors = 2\n[admission]\nestimate-margin = \"0%\"\n[class]\nseveral = \"dedicated\"\n[class.queues]\nlong = \"immediate\"\n",
    );
    let terms = "estimate=50,deadline=100,budget=unlimited";
    let two = format!("{terms},processors=2");
    for (terms, class, line) in [
        (terms.to_string(), "deadline", Value::Null),
        (two.clone(), "dedicated", "class.several".into()),
        (format!("{two},class=deadline"), "deadline", Value::Null),
    ] {
        let quote = quote(&site, &terms);
        assert_eq!(quote["verdict"], "accepted", "{terms}: {quote}");
        assert_eq!(quote["class"], class, "{terms}: {quote}");
        assert_eq!(quote["class_line"], line, "{terms}: {quote}");
    }
    let by = "class=dedicated by class.several of the site's configuration, as it names none";
    let (code, said) = refused(&site, "estimate=50,budget=unlimited,processors=2");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("deadline is missing") && said.contains(by),
        "{said}"
    );
    let one = site.start(
        "class=immediate,estimate=500000,budget=unlimited",
        "sleep 600",
    );
    let (code, said) = refused(
        &site,
        "estimate=50,deadline=200,budget=unlimited,processors=2",
    );
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(by), "{said}");
    // A single one names the class, which it would not have by itself; and is taken so.
    let offer = "processors=1,estimate=100,class=dedicated";
    assert!(said.contains(&format!("{offer} (costs ")), "{said}");
    let taken = quote(&site, &format!("deadline=200,budget=unlimited,{offer}"));
    assert_eq!(taken["verdict"], "accepted", "{taken}");
    end(&site, "1", one);
    let checked = site.libra(&["config", "check"]).output().expect("libra");
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        checked.contains(
            "class of a job that names none: deadline; with several processors dedicated; in long immediate\n"
        ),
        "{checked}"
    );
}

#[test]
fn a_refused_job_is_told_in_which_class_it_would_be_taken_now() {
    let site = Site::new("[node]\nprocessors = 2\n[admission]\nestimate-margin = \"0%\"\n");
    let half = site.start(
        "estimate=500000,deadline=1000000,budget=unlimited",
        "sleep 600",
    );
    // Two whole ones are not there; two shares of a half are.
    let terms = "class=immediate,estimate=50,deadline=100,budget=unlimited,processors=2";
    let answer = quote(&site, terms);
    assert_eq!(answer["verdict"], "refused", "{answer}");
    let offers = answer["counter_offers"].as_array().expect("offers");
    let classes: Vec<&Value> = offers.iter().map(|offer| &offer["class"]).collect();
    for class in ["deadline", "best-effort"] {
        assert!(classes.contains(&&Value::from(class)), "{answer}");
        // Each is taken as it is.
        let asked = terms.replace("class=immediate", &format!("class={class}"));
        assert_eq!(quote(&site, &asked)["verdict"], "accepted", "{class}");
    }
    end(&site, "1", half);
}
