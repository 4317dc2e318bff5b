//! Ledgers in a database that several hosts reach: one admits at a time. Hosts are directories for their live states here.

use super::postgres::Server;
use super::*;
use crate::ledger::{COUNTED, Claim, Holder};
use crate::payments::Payments;
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);

/// What is waited for comes within this, however busy the machine is.
const LONGEST: Duration = Duration::from_secs(300);

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LONGEST, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn take_over(directory: &Path, at: &Location) -> Result<Live, AccountsError> {
    Live::open_within(directory, at, (PATIENCE, PATIENCE), Claim::Over)
}

/// A host with an account of alice's and 100 credits in it.
fn host(place: &LedgerPaths) -> (Live, Ledger) {
    let ledger = Ledger::open(&place.at).expect("opens");
    let live = Live::open(&place.live, &place.at, PATIENCE).expect("opens");
    let mut live = live.count_on_it();
    live.set_account(&user("alice"), None, at(0)).expect("made");
    live.deposit(&user("alice"), credits(100), (None, None), at(0))
        .expect("paid in");
    flush(&live, &ledger).expect("writes");
    (live, ledger)
}

fn hold(live: &mut Live, key: &str, amount: i64) -> Result<bool, AccountsError> {
    let alice = live.account(&user("alice"), NOW)?.id;
    live.hold(key, alice, credits(amount), at(1))
}

#[test]
fn one_host_admits_at_a_time() {
    let Some(place) = LedgerPaths::in_database() else {
        return;
    };
    let (mut first, ledger) = host(&place);
    hold(&mut first, "t:1", 60).expect("held");
    flush(&first, &ledger).expect("writes");
    let elsewhere = place.live.with_file_name("elsewhere");
    // By the server's clock, so that what follows is so on a slow machine too. Nobody waits for longer than a lease all the same.
    let tomorrow = "UPDATE libra.lease SET until = until + 86400000";
    let server = server().expect("a server");
    let database = place.at.database().expect("one").to_string();
    server.sql(&database, tomorrow);
    // Who only asks leaves it alone, and says whom to ask.
    let said = Live::open(&elsewhere, &place.at, PATIENCE).err();
    let said = said.expect("in use").to_string();
    let us = nix::unistd::gethostname().expect("a name");
    assert!(
        said.contains(&format!(
            "is host {}'s: it admits with it",
            us.to_string_lossy()
        )),
        "{said}"
    );
    wait_for("it still may", || {
        first.renew(&ledger).expect("renewed");
        hold(&mut first, "t:2", 1).ok()
    });
    flush(&first, &ledger).expect("still the only one");
    // Who takes over may not yet, and the former cannot go on for longer than its lease.
    first.expire();
    let last = Instant::now();
    first.renew(&ledger).expect("renewed");
    server.sql(&database, tomorrow);
    let late = take_over(&elsewhere, &place.at).err().expect("not yet");
    assert!(matches!(late, AccountsError::Leased { .. }), "{late}");
    // What happens there from now on it cannot write down, within its lease too.
    let _ = hold(&mut first, "t:3", 1);
    first.name_job("t:1", "17").expect("noted");
    assert!(flush(&first, &ledger).is_err());
    let mut second = wait_for("the other host admits", || {
        take_over(&elsewhere, &place.at).ok()
    });
    // From before that on.
    let refused = hold(&mut first, "t:4", 30).expect_err("no lease");
    assert!(
        matches!(refused, AccountsError::Unreachable { .. }),
        "{refused}"
    );
    assert!(last.elapsed() >= COUNTED);
    second = second.count_on_it();
    assert_eq!(available(&second, "alice", 1), credits(39));
    assert!(hold(&mut second, "t:4", 30).expect("may"));
    assert!(matches!(
        hold(&mut second, "t:5", 10),
        Err(AccountsError::Short { .. })
    ));
    // The first one's holds of jobs that are still there come back, as after a power failure; it gives up what is in no ledger.
    let settled = first
        .settle("t:1", 0, pay(60, 0), at(2))
        .expect("settles here");
    assert!(settled.is_some(), "and means nothing elsewhere");
    let renewed = first.renew(&ledger).expect_err("another one's");
    assert!(
        renewed.to_string().contains("another live state was made"),
        "{renewed}"
    );
    drop(first);
    server.sql(&database, tomorrow);
    let back = Live::open(&place.live, &place.at, PATIENCE).err();
    assert!(
        matches!(back, Some(AccountsError::Leased { .. })),
        "{back:?}"
    );
    flush(&second, &ledger).expect("writes");
    drop(second);
    let back = wait_for("the first host takes it back", || {
        take_over(&place.live, &place.at).ok()
    });
    assert_eq!(available(&back, "alice", 1), credits(9));
    assert_eq!(back.holds("t:").expect("reads").len(), 3);
    // What was given up there is kept.
    let home = std::fs::read_dir(place.ledger.parent().expect("a directory")).expect("reads");
    let kept = home.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let kept: Vec<String> = kept.filter(|name| name.contains(".given-up-")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    place.check(&back);
}

/// The lease is another host's, by its name, and has run out.
fn of_another_host(server: &Server, at: &Location) {
    let statement = "UPDATE libra.lease SET until = 0, host = 'elsewhere'";
    server.sql(at.database().expect("one"), statement);
}

#[test]
fn who_only_asks_takes_no_lease_that_has_run_out() {
    let (Some(place), Some(server)) = (LedgerPaths::in_database(), server()) else {
        return;
    };
    let (mut first, ledger) = host(&place);
    hold(&mut first, "t:1", 60).expect("held");
    of_another_host(server, &place.at);
    let elsewhere = place.live.with_file_name("elsewhere");
    let said = Live::open(&elsewhere, &place.at, PATIENCE).err();
    let said = said.expect("another's").to_string();
    assert!(
        said.contains("is host elsewhere's: it was the last"),
        "{said}"
    );
    // Its host was without the database for a while, and goes on.
    flush(&first, &ledger).expect("writes");
    first.renew(&ledger).expect("renewed");
    // A person may want it so.
    of_another_host(server, &place.at);
    let here = Live::open_within(&elsewhere, &place.at, (PATIENCE, PATIENCE), Claim::Expired);
    assert_eq!(available(&here.expect("may"), "alice", 1), credits(40));
    assert!(first.renew(&ledger).is_err());
}

#[test]
fn a_host_that_is_taken_over_from_is_ended_for_good() {
    let (Some(place), Some(server)) = (LedgerPaths::in_database(), server()) else {
        return;
    };
    let (mut first, ledger) = host(&place);
    hold(&mut first, "t:1", 60).expect("held");
    flush(&first, &ledger).expect("writes");
    let database = place.at.database().expect("one");
    server.sql(database, "UPDATE libra.lease SET until = until + 86400000");
    let elsewhere = place.live.with_file_name("elsewhere");
    let late = take_over(&elsewhere, &place.at).err().expect("not yet");
    assert!(matches!(late, AccountsError::Leased { .. }), "{late}");
    // Not even when it has run out: somebody else is about to take it.
    let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    for until in ["until", now] {
        server.sql(database, &format!("UPDATE libra.lease SET until = {until}"));
        let here = Live::open(&place.live, &place.at, PATIENCE).err();
        assert!(
            matches!(here, Some(AccountsError::Leased { .. })),
            "{here:?}"
        );
    }
    assert!(first.is_ended().expect("reads"));
    // An acknowledgement that comes late changes nothing.
    first = first.count_on_it();
    let refused = hold(&mut first, "t:2", 1).expect_err("ended");
    assert!(
        refused
            .to_string()
            .contains("another live state was made of it since"),
        "{refused}"
    );
    // Nor for who admitted there: it is kept for the other one for a while.
    server.sql(database, &format!("UPDATE libra.lease SET until = {now}"));
    let here = Live::open_within(&place.live, &place.at, (PATIENCE, PATIENCE), Claim::Expired);
    assert!(matches!(here.err(), Some(AccountsError::Leased { .. })));
    take_over(&elsewhere, &place.at).expect("may");
    // Where nobody came for it, it is not kept for ever.
    let forgotten = "UPDATE libra.lease SET until = 0, holder = '', next = 'gone'";
    server.sql(database, forgotten);
    let here = Live::open_within(&place.live, &place.at, (PATIENCE, PATIENCE), Claim::Expired);
    here.expect("may");
}

#[test]
fn a_lease_is_of_one_generation_and_one_holder() {
    let (Some(place), Some(server)) = (LedgerPaths::in_database(), server()) else {
        return;
    };
    let (_, ledger) = host(&place);
    let [ours, another] = ["a", "b"].map(|id| Holder {
        id: id.to_string(),
        host: id.to_string(),
    });
    let ended = "UPDATE libra.lease SET until = 0";
    let database = place.at.database().expect("one");
    server.sql(database, ended);
    let first = ledger.next_generation(&ours, Claim::Over).expect("had");
    // Before the first one knows what it has, it has run out, and another one has it.
    server.sql(database, ended);
    let second = ledger.next_generation(&another, Claim::Over).expect("had");
    assert_eq!(second, first + 1);
    let (identity, generation) = ledger.identity().expect("reads");
    assert_eq!(generation, second);
    let renewed = |generation, holder| {
        let renewed = ledger.renew((identity, generation), 0, holder);
        renewed.expect("answers")
    };
    assert!(!renewed(first, &ours));
    assert!(!renewed(second, &ours));
    assert!(renewed(second, &another));
}

#[test]
fn who_admits_finds_the_live_state_that_its_thread_makes() {
    let Some(place) = LedgerPaths::in_database() else {
        return;
    };
    drop(host(&place));
    std::fs::remove_dir_all(&place.live).expect("gone");
    let mut config = libra_config::Config::default();
    config.accounts.mode = libra_config::AccountsMode::On;
    config.accounts.ledger = place.ledger.clone();
    config.accounts.live = place.live.clone();
    config.accounts.database = place.at.database().expect("one").to_string();
    let open = || Payments::open(&config, "slurm", true).ok().flatten();
    let mut payments = wait_for("it opens", open);
    let payer = || payments.payer("alice", None, NOW as f64 / 1000.0).ok();
    let payer = wait_for("it has the lease", payer);
    assert_eq!(payer.available, Some(credits(100)));
    // Another host takes over, and is silent afterwards: it has the lease again when that one's has run out.
    let elsewhere = place.live.with_file_name("elsewhere");
    drop(wait_for("another host", || {
        take_over(&elsewhere, &place.at).ok()
    }));
    wait_for("it is its again", || {
        payments.refresh().ok()?;
        payments.payer("alice", None, NOW as f64 / 1000.0).ok()
    });
}

#[test]
fn what_a_person_did_is_not_given_up_by_itself() {
    let Some(place) = LedgerPaths::in_database() else {
        return;
    };
    let (mut first, _) = host(&place);
    first
        .deposit(&user("alice"), credits(5), (None, None), at(3))
        .expect("in the live state");
    let elsewhere = place.live.with_file_name("elsewhere");
    drop(wait_for("it is taken over", || {
        take_over(&elsewhere, &place.at).ok()
    }));
    drop(first);
    let said = take_over(&place.live, &place.at)
        .err()
        .expect("kept")
        .to_string();
    assert!(
        said.contains("has 1 entries that are not in the ledger"),
        "{said}"
    );
    assert!(
        said.contains("\"deposit\"") && said.contains("remove the file"),
        "{said}"
    );
}

#[test]
fn a_restart_on_the_same_host_waits_for_nobody() {
    let Some(place) = LedgerPaths::in_database() else {
        return;
    };
    let (live, _) = host(&place);
    drop(live);
    take_over(&place.live, &place.at).expect("its own");
    // Its memory is lost, as the lease runs.
    std::fs::remove_dir_all(&place.live).expect("gone");
    let live = take_over(&place.live, &place.at).expect("its own");
    let mut live = live.count_on_it();
    hold(&mut live, "t:1", 100).expect("may");
    place.check(&live);
}

#[test]
fn a_server_that_stands_still_is_no_longer_counted_on_than_its_lease() {
    let Some(server) = Server::begin() else {
        return;
    };
    let place = LedgerPaths::with(&server.database());
    let (mut live, ledger) = host(&place);
    let brief = Ledger::open(&place.at).expect("opens");
    live.expire();
    let renewed = Instant::now();
    live.renew(&ledger).expect("renewed");
    server.signal_all(Signal::SIGSTOP);
    brief.limit(Some(Duration::from_millis(200)));
    let error = live.renew(&brief).expect_err("no answer");
    assert!(error.to_string().contains("no answer within 0."), "{error}");
    let opened = Ledger::open_within(&place.at, Duration::from_millis(200)).err();
    assert!(
        matches!(opened, Some(AccountsError::Unreachable { .. })),
        "{opened:?}"
    );
    let mut number = 0;
    let refused = wait_for("nothing is held any more", || {
        number += 1;
        hold(&mut live, &format!("t:{number}"), 0).err()
    });
    assert!(renewed.elapsed() >= COUNTED.checked_sub(Duration::from_secs(1)).expect("more"));
    assert!(
        matches!(refused, AccountsError::Unreachable { .. }),
        "{refused}"
    );
    let paid = live.deposit(&user("alice"), credits(1), (None, None), at(1));
    assert!(
        matches!(paid, Err(AccountsError::Unreachable { .. })),
        "{paid:?}"
    );
    // What needs no money goes on.
    live.settle("t:1", 0, Payout::NOTHING, at(2))
        .expect("settles");
    server.signal_all(Signal::SIGCONT);
    wait_for("it goes on", || {
        live.renew(&ledger).ok()?;
        hold(&mut live, "u:1", 1).ok()
    });
    place.check(&live);
}

#[test]
fn a_server_that_is_killed_loses_nothing_that_it_acknowledged() {
    let Some(mut server) = Server::begin() else {
        return;
    };
    let place = LedgerPaths::with(&server.database());
    let (mut live, ledger) = host(&place);
    for number in 0..5 {
        live = live.count_on_it();
        hold(&mut live, &format!("t:{number}"), 3).expect("held");
        let before = ledger.written().expect("reads");
        server.kill();
        // Who holds does not notice.
        hold(&mut live, &format!("u:{number}"), 3).expect("held");
        let error = flush(&live, &ledger).expect_err("nobody is there");
        assert!(
            matches!(error, AccountsError::Unreachable { .. }),
            "{error}"
        );
        server.begin_again();
        assert_eq!(
            ledger.written().expect("the same connection is made anew"),
            before
        );
        flush(&live, &ledger).expect("writes");
        live.renew(&ledger).expect("renewed");
    }
    assert_eq!(available(&live, "alice", 1), credits(70));
    place.check(&live);
}

#[test]
fn an_older_database_is_refused_and_so_is_another() {
    let Some(server) = server() else {
        return;
    };
    let place = LedgerPaths::in_database().expect("a database");
    let (mut live, ledger) = host(&place);
    let older = "UPDATE libra.meta SET value = value - 1 WHERE key = 'written'";
    server.sql(place.at.database().expect("one"), older);
    live.name_job("t:1", "17").expect("noted");
    for error in [
        flush(&live, &ledger).err(),
        live.renew(&ledger).err(),
        Live::open(&place.live, &place.at, PATIENCE).err(),
    ] {
        let said = error.expect("older").to_string();
        assert!(said.contains("is older than the live state"), "{said}");
    }
    let refused = hold(&mut live, "t:2", 1).expect_err("no lease");
    assert!(
        matches!(refused, AccountsError::Unreachable { .. }),
        "{refused}"
    );
    let other = "UPDATE libra.meta SET value = 5 WHERE key = 'identity'";
    server.sql(place.at.database().expect("one"), other);
    let said = Live::open(&place.live, &place.at, PATIENCE).err();
    let said = said.expect("another").to_string();
    assert!(said.contains("is another ledger ("), "{said}");
    server.sql(
        place.at.database().expect("one"),
        "DROP SCHEMA libra CASCADE",
    );
    let said = Ledger::open(&place.at).err().expect("none").to_string();
    assert!(said.contains("no schema 'libra'"), "{said}");
}

#[test]
fn hostile_texts_are_texts() {
    let Some(place) = LedgerPaths::in_database() else {
        return;
    };
    let (mut live, ledger) = host(&place);
    let alice = live.account(&user("alice"), NOW).expect("is there").id;
    for (number, text) in [
        "'; DROP TABLE libra.movement; --",
        "\\",
        "$1 ?1 %s {}",
        "\0nul\0",
        "\u{1f4b0} \u{202e} é",
        "\"},{\"id\": 1",
        "line\nline\ttab\u{1}",
    ]
    .into_iter()
    .enumerate()
    {
        let act = Act {
            note: text,
            by: text,
            ..at(1)
        };
        let key = format!("t:{number}{text}");
        live.hold(&key, alice, credits(1), act).expect("held");
        live.name_job(&key, text).expect("named");
        flush(&live, &ledger).expect("writes");
        let rows = ledger.rows(alice, 0, i64::MAX).expect("reads");
        let row = rows.last().expect("the hold");
        assert_eq!(row.note, text.replace('\0', "\u{fffd}"));
        assert_eq!(row.job.as_deref(), Some(row.note.as_str()));
    }
    place.check(&live);
    assert_eq!(
        ledger.account("user:alice' OR '1'='1").expect("reads"),
        None
    );
}

#[test]
fn it_is_made_once_and_whole() {
    let Some(server) = server() else {
        return;
    };
    let place = LedgerPaths::in_database().expect("a database");
    let again = Ledger::make(&place.at, NOW).expect_err("there is one");
    assert!(
        again.to_string().contains("has a schema 'libra' already"),
        "{again}"
    );
    assert!(Ledger::is_made(&place.at).expect("says"));
    // Of a database with a schema of that name that is nothing of ours nothing is left.
    let string = server.database();
    server.sql(
        &string,
        "CREATE SCHEMA libra; CREATE TABLE libra.lot(x int)",
    );
    let other = Location::in_database(&place.ledger, &string);
    assert!(!Ledger::is_made(&other).expect("says"));
    assert!(Ledger::make(&other, NOW).is_err());
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'libra'";
    assert_eq!(server.sql(&string, tables), "1");
    let nowhere = Location::in_database(&place.ledger, "host=/nowhere dbname=x");
    let error = Ledger::open(&nowhere).err().expect("nobody there");
    assert!(
        matches!(error, AccountsError::Unreachable { .. }),
        "{error}"
    );
    assert!(!error.to_string().contains('\n'), "{error}");
}
