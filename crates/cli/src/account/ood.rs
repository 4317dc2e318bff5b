//! Balances as the dashboard of Open OnDemand reads them, to warn users who run out of money.
//!
//! Its documentation calls this version 1: `version`, `timestamp`, `config` with `unit` and `project_type`, and `balances` with
//! `user`, `value` and, for a project, `project`. Values are whole: the dashboard cuts off what is behind the point.

use libra_accounts::request::Balance;
use libra_units::money::MICRO;
use serde_json::{Value, json};

/// The file's content. `now`: Unix time, seconds.
///
/// Accounts that are closed or can spend without a limit never run out; they are left out, as the site's own two are.
pub fn export(balances: &[Balance], now: i64) -> Value {
    let mut entries = Vec::new();
    for balance in balances.iter().filter(|balance| !balance.closed) {
        let Some(available) = balance.available else {
            continue;
        };
        let value = available.0 / MICRO;
        match balance.account.split_once(':') {
            Some(("user", user)) => entries.push(json!({"user": user, "value": value})),
            Some(("project", project)) => entries.extend(
                balance
                    .members
                    .iter()
                    .map(|user| json!({"user": user, "project": project, "value": value})),
            ),
            _ => {}
        }
    }
    json!({
        "version": 1,
        "timestamp": now,
        "config": {"unit": "credit", "project_type": "project"},
        "balances": entries,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_units::money::Money;

    fn balance(account: &str, available: Option<i64>, members: &[&str]) -> Balance {
        Balance {
            account: account.to_string(),
            balance: Money::ZERO,
            held: Money::ZERO,
            available: available.map(Money),
            overdraft: Some(Money::ZERO),
            deposits: Vec::new(),
            later: Vec::new(),
            members: members.iter().map(|name| name.to_string()).collect(),
            closed: false,
        }
    }

    #[test]
    fn what_the_dashboard_reads() {
        let mut closed = balance("user:old", Some(5), &[]);
        closed.closed = true;
        let exported = export(
            &[
                balance("user:alice", Some(12_900_000), &[]),
                balance("project:chem", Some(0), &["alice", "bob"]),
                balance("user:rich", None, &[]),
                balance("site:income", Some(7_000_000), &[]),
                closed,
            ],
            1_525_361_263,
        );
        assert_eq!(
            exported,
            json!({
                "version": 1,
                "timestamp": 1_525_361_263,
                "config": {"unit": "credit", "project_type": "project"},
                "balances": [
                    {"user": "alice", "value": 12},
                    {"user": "alice", "project": "chem", "value": 0},
                    {"user": "bob", "project": "chem", "value": 0},
                ],
            })
        );
    }
}
