//! What a client of the accounts' socket sends, done on books of its own.

use super::{text, words};
use libra_accounts::check::check;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::Live;
use libra_accounts::perform::perform;
use libra_accounts::request::{Caller, Limit, Reply, Request};
use libra_units::money::Money;
use std::collections::BTreeMap;
use std::time::Duration;

/// Unix milliseconds.
const AT: i64 = 1_800_000_000_000;

/// Money of bob, who asks nothing.
const OF_BOB: Money = Money(7_000_000);

fn caller(name: &str, administrator: bool) -> Caller {
    Caller {
        name: name.to_string(),
        administrator,
        group: "money".to_string(),
    }
}

/// Requests, a line each: of alice, who may do little; behind a '!' of an administrator, who may do everything, and against an arbitrary
/// line of whom the books still balance.
pub fn accounts_request(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let mut requests = Vec::new();
    for line in text.lines().take(16) {
        let (line, administrator) = match line.strip_prefix('!') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match Request::from_json(line.as_bytes()) {
            Ok(request) => requests.push((request, administrator)),
            Err(problem) => words(&problem, 1000, ""),
        }
    }
    for (request, _) in &requests {
        let written = serde_json::to_vec(request).expect("a request can be written");
        assert_eq!(Request::from_json(&written).as_ref(), Ok(request));
    }
    if !requests.is_empty() {
        on_books(&requests);
    }
}

fn on_books(requests: &[(Request, bool)]) {
    let directory = tempfile::tempdir().expect("a directory");
    let home = directory.path().join("accounts");
    std::fs::create_dir(&home).expect("a directory");
    let path = home.join("ledger.sqlite");
    Ledger::make(&path, AT).expect("made");
    let patience = Duration::from_secs(5);
    let mut live = Live::open(&directory.path().join("live"), &path, patience).expect("opens");
    let ledger = Ledger::open(&path).expect("opens");
    let (alice, root) = (caller("alice", false), caller("root", true));
    for (account, amount, limit) in [
        ("alice", Money(5_000_000), None),
        ("bob", OF_BOB, None),
        (
            "project:chem",
            Money(1_000_000),
            Some(Limit::To(Money(2_000_000))),
        ),
    ] {
        let create = Request::Create {
            account: account.to_string(),
            overdraft: limit,
            members: Vec::new(),
            no_members: Vec::new(),
        };
        let deposit = Request::Deposit {
            account: account.to_string(),
            amount,
            from: None,
            until: None,
            note: String::new(),
        };
        for request in [create, deposit] {
            perform(&mut live, &ledger, &root, &request, AT).expect("done");
        }
    }
    let mut only_alice = true;
    for (number, (request, administrator)) in requests.iter().enumerate() {
        only_alice &= !administrator;
        let caller = if *administrator { &root } else { &alice };
        let before = all(&live);
        let at = AT + 1000 * number as i64;
        match perform(&mut live, &ledger, caller, request, at) {
            Ok(reply) => replied(&reply, only_alice),
            Err(error) => {
                assert!(error.is_refusal(), "{error}");
                words(&error, 1000, "");
                assert_eq!(all(&live), before, "refused, and all is as it was");
            }
        }
        let sum: i128 = all(&live).values().sum();
        assert_eq!(sum, 0, "no money comes from nowhere");
    }
    if only_alice {
        let bob = libra_accounts::names::AccountName::User("bob".to_string());
        let left = live.account(&bob, AT).expect("he is there").balance();
        assert!(left >= OF_BOB, "bob has lost {}", (OF_BOB.0 - left.0));
    }
    for account in ["site:bank", "site:income", "alice", "bob", "project:chem"] {
        let statement = Request::Statement {
            account: Some(account.to_string()),
            from: i64::MIN,
            to: i64::MAX,
            holds: true,
        };
        let reply = perform(&mut live, &ledger, &root, &statement, AT + 60_000);
        replied(&reply.expect("of each account there is a statement"), false);
    }
    let found = check(&live, &ledger, AT + 60_000).expect("can be looked at");
    assert_eq!(found.problems, Vec::<String>::new());
}

/// What each account has, free and held, of all times.
fn all(live: &Live) -> BTreeMap<i64, i128> {
    let mut sums = BTreeMap::new();
    for (account, _, free, held) in live.balances().expect("reads") {
        *sums.entry(account).or_default() += i128::from(free.0) + i128::from(held.0);
    }
    sums
}

/// It goes over the socket as one line, and shows alice nothing of others.
fn replied(reply: &Reply, only_alice: bool) {
    let written = serde_json::to_string(reply).expect("a reply can be written");
    assert!(!written.contains('\n'));
    assert_eq!(
        serde_json::from_str::<Reply>(&written).ok().as_ref(),
        Some(reply)
    );
    match reply {
        Reply::Balances(balances) => {
            for balance in balances {
                assert!(balance.overdraft.is_none_or(|limit| limit >= Money::ZERO));
                assert!(
                    !only_alice || balance.account == "user:alice",
                    "{}",
                    balance.account
                );
            }
        }
        Reply::Done { text, warning } => {
            words(text, 1000, "");
            assert_eq!(warning, &None, "it is written down");
        }
        Reply::Statement(_) | Reply::Checked(_) => {}
        Reply::Refused(text) | Reply::Failed(text) => panic!("{text}"),
    }
}
