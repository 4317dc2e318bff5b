//! Caps and guarantees, measured.

use super::*;

#[test]
fn caps_hold_on_one_processor() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    println!("{}", stage.enforcer.describe());
    let (a, b) = (stage.busy("1[7].caps", 0.6), stage.busy("2.caps", 0.3));
    // What was carried over while nothing ran in there is used up first.
    sleep(Duration::from_millis(1_000));
    within_tolerance(|interval| error("caps", &rates(&[&a, &b], interval), &[0.6, 0.3]));
    // User-mode Linux holds the quota, yet at times counts no time of waiting for it.
    assert!(tree_is_ours() || a.throttled().unwrap() > 0.0);
    let read = a.limits().unwrap();
    assert!((read.processors - 0.6).abs() < 1e-4, "{read:?}");
}

#[test]
fn guarantees_share_the_rest_in_proportion() {
    let Some(stage) = Stage::set(Spare::Shared) else {
        return;
    };
    let (a, b) = (stage.busy("1.shared", 0.6), stage.busy("2.shared", 0.3));
    sleep(Duration::from_millis(300));
    within_tolerance(|interval| {
        let got = rates(&[&a, &b], interval);
        let short = (1.0 - got[0] / 0.6).max(1.0 - got[1] / 0.3);
        error("guarantees, ratio", &[got[0] / got[1]], &[2.0]).max(short)
    });
    let read = b.limits().unwrap();
    assert!((read.processors - 0.3).abs() < 0.001, "{read:?}");
}

#[test]
fn a_change_acts_within_a_fifth_of_a_second() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let (mut a, mut b) = (stage.busy("1.live", 0.6), stage.busy("2.live", 0.2));
    sleep(Duration::from_millis(300));
    let (a, b) = (
        std::cell::RefCell::new(&mut a),
        std::cell::RefCell::new(&mut b),
    );
    let swapped = std::cell::Cell::new(false);
    within_tolerance(|interval| {
        let targets = if swapped.get() {
            [0.6, 0.2]
        } else {
            [0.2, 0.6]
        };
        swapped.set(!swapped.get());
        a.borrow_mut().set(&limits(targets[0])).unwrap();
        b.borrow_mut().set(&limits(targets[1])).unwrap();
        sleep(Duration::from_millis(200));
        error(
            "0.2 s after a change",
            &rates(&[*a.borrow(), *b.borrow()], interval),
            &targets,
        )
    });
}
