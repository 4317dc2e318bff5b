//! What a node makes of a job that stands still for another one.

use super::super::claim::JobRecord;
use super::tests::{LINE, OFF, Sleeper, job, open, recorded, task_of};
use super::*;

#[test]
fn who_stands_still_for_one_that_begins_is_promised_nothing_meanwhile() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let whole = LINE.replace("n1*1*0.525", "n1*1*1:class=dedicated");
    let begins = |name: &str, suspended: bool, mark: &str| {
        let line = whole.clone();
        let (name, mark) = (name.to_string(), mark.to_string());
        let ask = {
            let (line, own) = (line.clone(), name.clone());
            move |number: u32, _: Duration| {
                let is_own = number.to_string() == own;
                Some(ControllerRecord::Job(JobRecord {
                    user: 1000,
                    nodes: 1,
                    before: 0,
                    is_here: true,
                    is_running: true,
                    is_suspended: suspended && !is_own,
                    admin_comment: match is_own {
                        true => format!("libra:{line}"),
                        false => format!("libra:{line}{mark}"),
                    },
                }))
            }
        };
        let starting = Starting {
            name: &name,
            ..job(Some(&line))
        };
        super::prolog(&host, &starting, &ask, 2000.0).expect("begun");
        let entry = host.registry().read(&name).expect("a registry");
        entry.expect("an entry").share
    };
    let still = |name: &str| {
        let entry = host.registry().read(name).expect("a registry");
        entry.expect("an entry").suspended.is_some()
    };
    assert_eq!(begins("12", false, ""), 1.0);
    // It runs, or an administrator has suspended it: it keeps what it was promised.
    assert_eq!(begins("13", false, ":goes-on-by=3000"), 0.0);
    assert_eq!(begins("14", true, ""), 0.0);
    assert!(!still("12"));
    // Of the one in its way nothing is said: it does not begin with what that one leaves, and its task asks again.
    let own = recorded(&whole, 1);
    let silent = |number: u32, patience: Duration| match number {
        16 => own(number, patience),
        _ => None,
    };
    let starting = Starting {
        name: "16",
        ..job(Some(&whole))
    };
    let said = super::prolog(&host, &starting, &silent, 2000.0).expect_err("silence");
    assert!(
        said.contains("stands still for it") && said.ends_with("try again"),
        "{said}"
    );
    assert_eq!(host.registry().read("16").expect("a registry"), None);
    let sleeper = Sleeper::new();
    let task = task_of("16", sleeper.pid());
    let refused = super::join(&host, &task, &silent, 2000.0);
    assert!(matches!(refused, Joined::Refused(_)), "{refused:?}");
    assert_eq!(host.registry().read("16").expect("a registry"), None);
    assert_eq!(begins("15", true, ":goes-on-by=3000"), 1.0);
    assert!(still("12") && !still("15"));
    host.note_suspended("12", false).expect("a registry");
    assert!(!still("12"));
    let entry = host
        .registry()
        .read("12")
        .expect("a registry")
        .expect("an entry");
    assert!(entry.stood_still > 0.0);
}
