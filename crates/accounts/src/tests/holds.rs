//! What an admitting process does with the accounts: holds, their jobs, and jobs that run once more.

use super::*;

of_both! {
    a_hold_of_a_clock_that_was_ahead_goes_with_its_job_and_not_in_years,
    a_hold_that_is_a_little_ahead_is_not_taken_from_a_job_that_is_new,
    an_array_that_is_given_up_gets_back_what_its_other_subjobs_would_have_cost,
    two_registries_leave_each_others_holds_alone,
    another_run_is_paid_for_in_full_or_not_at_all_and_what_is_left_is_given_back,
    a_hold_in_place_of_another_uses_its_money_or_leaves_it,
    what_is_held_when_it_expires_pays_for_the_hold_in_its_place_too,
}

const LINE: &str = "v=1:token=17:submitted=1800000000:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10:\
    chunks=1:processors=1:memory=0:scatter=0:count=1:payer=user/alice:at=n1*1*0.525";

fn payments(place: &LedgerPaths) -> payments::Payments {
    let opened = payments::Payments::open(&place.config(), "pbs", false);
    opened.expect("opens").expect("on")
}

fn a_hold_of_a_clock_that_was_ahead_goes_with_its_job_and_not_in_years(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    live.deposit(&user("alice"), credits(100), (None, None), at(0))
        .expect("paid in");
    let commitment = libra_core::commitment::Commitment::parse(LINE).expect("a line");
    let mut payments = payments(&place);
    let (now, later) = (1_800_000_000.0, 1_800_000_000.0 + 400.0 * 86_400.0);
    let payer = payments.payer("alice", None, later).expect("pays");
    payments.hold(&payer, &commitment, later).expect("held");
    let ledger = Ledger::open(&place.at).expect("opens");
    flush(&live, &ledger).expect("writes");
    let found = check::check(&live, &ledger, NOW).expect("reads");
    let said = found.notes.join("\n");
    assert!(
        said.contains("1 open holds are of a time to come") && said.contains("2028-"),
        "{said}"
    );
    // With its job it stays, without it is free again.
    let mut compare = |jobs: &[libra_core::commitment::Commitment]| {
        let none = std::collections::HashSet::new();
        payments
            .reconcile(jobs.iter(), none, now, now)
            .expect("compares")
    };
    assert_eq!(
        compare(std::slice::from_ref(&commitment)),
        Vec::<String>::new()
    );
    assert_eq!(compare(&[]).len(), 1);
    assert_eq!(available(&live, "alice", 0), credits(100));
    place.check(&live);
}

fn a_hold_that_is_a_little_ahead_is_not_taken_from_a_job_that_is_new(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    live.deposit(&user("alice"), credits(100), (None, None), at(0))
        .expect("paid in");
    let commitment = libra_core::commitment::Commitment::parse(LINE).expect("a line");
    let mut payments = payments(&place);
    let now = 1_800_000_000.0;
    let payer = payments.payer("alice", None, now).expect("pays");
    payments
        .hold(&payer, &commitment, now + 300.0)
        .expect("held");
    let none = std::collections::HashSet::new();
    let log = payments
        .reconcile([].iter(), none, now, now)
        .expect("compares");
    assert_eq!(
        (log.len(), payments.open_holds().expect("reads").len()),
        (0, 1)
    );
}

#[test]
fn nobody_gets_a_promise_without_a_payer_where_accounts_are_out_of_order() {
    use super::budget_gate::{BudgetGate, Denied};
    use libra_config::OnFault;
    let place = LedgerPaths::new();
    std::fs::remove_file(&place.ledger).expect("gone");
    let config = place.config();
    let denied = |rule| {
        let gate = BudgetGate::open(&config, "pbs", rule, false);
        assert!(gate.is_on() && gate.is_broken());
        gate.payer("alice", None, 5.0, 0.0)
            .expect_err("nobody pays")
    };
    let refused = denied(OnFault::Refuse);
    assert!(matches!(refused, Denied::Fault(_)), "{refused:?}");
    assert!(matches!(denied(OnFault::Admit), Denied::Unpromised(_)));
}

fn an_array_that_is_given_up_gets_back_what_its_other_subjobs_would_have_cost(place: LedgerPaths) {
    use super::payments::Payments;
    use super::settlement::{End, HowEnded};
    let mut live = place.open();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    live.deposit(&user("alice"), credits(100), (None, None), at(0))
        .expect("paid in");
    let config = place.config();
    let line = "v=1:token=17:submitted=1800000000:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10:\
        chunks=1:processors=1:memory=0:scatter=0:count=3:payer=user/alice:at=n1*3*0.525";
    let commitment = libra_core::commitment::Commitment::parse(line).expect("a line");
    let mut payments = Payments::open(&config, "pbs", false)
        .expect("opens")
        .expect("on");
    let now = 1_800_000_000.0;
    let payer = payments.payer("alice", None, now).expect("pays");
    payments.hold(&payer, &commitment, now).expect("held");
    assert_eq!(available(&live, "alice", 0), credits(70));
    let end = End {
        how: HowEnded::Itself,
        took: 15.0,
        used: Some(10.0),
        waited: None,
        restarted: false,
    };
    let paid = payments.ended(&commitment, 0, &end, now).expect("settles");
    assert_eq!(paid.expect("once").charged, credits(10));
    payments.never_began(&commitment, now).expect("released");
    assert_eq!(available(&live, "alice", 0), credits(90));
    place.check(&live);
}

fn two_registries_leave_each_others_holds_alone(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    live.deposit(&user("alice"), credits(100), (None, None), at(0))
        .expect("paid in");
    let commitment = libra_core::commitment::Commitment::parse(LINE).expect("a line");
    let [mut one, mut other] = [payments(&place), payments(&place)];
    other.tell_apart("0123456789abcdef");
    let now = commitment.submitted;
    let payer = one.payer("alice", None, now).expect("pays");
    // The same number and second in both.
    for payments in [&mut one, &mut other] {
        payments.hold(&payer, &commitment, now).expect("held");
        assert_eq!(payments.open_holds().expect("reads").len(), 1);
    }
    // One compares when its job is there, the other when its own is gone.
    let later = now + 1000.0;
    let none = std::collections::HashSet::new;
    one.reconcile([&commitment].into_iter(), none(), later, later)
        .expect("compares");
    other
        .reconcile(std::iter::empty(), none(), later, later)
        .expect("compares");
    let left = |payments: &payments::Payments| payments.open_holds().expect("reads").len();
    assert_eq!((left(&one), left(&other)), (1, 0));
    place.check(&live);
}

fn another_run_is_paid_for_in_full_or_not_at_all_and_what_is_left_is_given_back(
    place: LedgerPaths,
) {
    use super::AccountsError;
    let mut live = place.open();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    live.deposit(&user("alice"), credits(15), (None, None), at(0))
        .expect("paid in");
    let commitment = libra_core::commitment::Commitment::parse(LINE).expect("a line");
    let mut payments = payments(&place);
    let now = commitment.submitted;
    let mut again = |run| payments.cover_again(&commitment, 0, run, now);
    assert!(again(1).expect("covered"));
    assert!(!again(1).expect("known"));
    let short = again(2).expect_err("5 of 10 credits are left");
    assert!(matches!(short, AccountsError::Short { .. }), "{short}");
    assert!(short.is_refusal());
    let end = super::settlement::End {
        how: super::settlement::HowEnded::Itself,
        took: 15.0,
        used: Some(10.0),
        waited: None,
        restarted: true,
    };
    let settled = payments.ended_again(&commitment, 0, 2, &end, now);
    assert_eq!(settled.expect("nothing to settle"), None);
    let all = payments.release_all("uninstalled", now);
    assert_eq!(all.expect("given back"), (1, 10.0));
    assert_eq!(available(&live, "alice", 0), credits(15));
    place.check(&live);
}

fn a_hold_in_place_of_another_uses_its_money_or_leaves_it(place: LedgerPaths) {
    use super::AccountsError;
    let mut live = place.open();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    live.deposit(&user("alice"), credits(12), (None, None), at(0))
        .expect("paid in");
    let of = |token: &str, price: &str| {
        let line = LINE.replace("token=17", token).replace("price=10", price);
        libra_core::commitment::Commitment::parse(&line).expect("a line")
    };
    let [first, second] = [of("token=17", "price=10"), of("token=18", "price=12")];
    let mut payments = payments(&place);
    let now = first.submitted;
    let payer = payments.payer("alice", None, now).expect("pays");
    payments.hold(&payer, &first, now).expect("held");
    let is_held = |payments: &payments::Payments, held: &libra_core::commitment::Commitment| {
        let holds = payments.open_holds().expect("reads");
        assert_eq!(holds.len(), 1, "{holds:?}");
        assert_eq!(holds[0].key, payments.key(held));
    };
    let dear = of("token=19", "price=13");
    let short = payments.hold_instead(&payer, &first, &dear, now);
    let short = short.expect_err("12 credits, 10 of them held");
    assert!(matches!(short, AccountsError::Short { .. }), "{short}");
    is_held(&payments, &first);
    live.connection
        .execute_batch("BEGIN IMMEDIATE")
        .expect("locked");
    let locked = payments.hold_instead(&payer, &first, &second, now);
    let locked = locked.expect_err("nobody else writes");
    assert!(matches!(locked, AccountsError::Locked { .. }), "{locked}");
    live.connection.execute_batch("ROLLBACK").expect("open");
    is_held(&payments, &first);
    let done = payments.hold_instead(&payer, &first, &second, now);
    done.expect("10 credits of the first, and 2 more");
    is_held(&payments, &second);
    assert_eq!(available(&live, "alice", 0), credits(0));
    payments.never_began(&first, now).expect("closed before");
    is_held(&payments, &second);
    place.check(&live);
}

fn what_is_held_when_it_expires_pays_for_the_hold_in_its_place_too(place: LedgerPaths) {
    let mut live = place.open();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    let of = |line: &str| libra_core::commitment::Commitment::parse(line).expect("a line");
    let (first, second) = (
        of(LINE),
        of(&LINE
            .replace("token=17", "token=18")
            .replace("price=10", "price=12")),
    );
    let (then, later) = (first.submitted, first.submitted + 3600.0);
    let ends = Some(then as i64 + 60);
    live.deposit(&user("alice"), credits(10), (None, ends), at(0))
        .expect("paid in");
    live.deposit(&user("alice"), credits(5), (None, None), at(0))
        .expect("paid in");
    let mut payments = payments(&place);
    let payer = payments.payer("alice", None, then).expect("pays");
    payments.hold(&payer, &first, then).expect("held");
    payments
        .hold_instead(&payer, &first, &second, later)
        .expect("10 that have expired since, and 2 of the others");
    let account = live.account(&user("alice"), (later * 1e3) as i64);
    let account = account.expect("is there");
    assert_eq!(account.held, credits(12));
    assert_eq!(account.available(), Some(credits(3)));
    place.check(&live);
}
