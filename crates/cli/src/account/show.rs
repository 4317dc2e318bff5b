//! What is printed: columns for people, JSON and comma-separated values for programs.

use super::dates;
use jiff::tz::TimeZone;
use libra_accounts::request::{Balance, Deposit};
use libra_accounts::statement::{Line, Statement};
use libra_plots::columns::{self, Flush};
use libra_units::money::{MICRO, Money};
use serde_json::{Value, json};

/// Credits as a number: whole ones without a point.
pub fn number(money: Money) -> Value {
    match money.0 % MICRO {
        0 => json!(money.0 / MICRO),
        _ => json!(money.credits()),
    }
}

fn limit(money: Option<Money>) -> Value {
    money.map_or_else(|| json!("unlimited"), number)
}

/// A balance as one JSON object.
pub fn balance_json(balance: &Balance) -> Value {
    let deposits = |deposits: &[Deposit]| -> Vec<Value> {
        let each = deposits.iter().map(|deposit| {
            let mut value = json!({"left": number(deposit.left), "until": deposit.until});
            if let Some(from) = deposit.from {
                value["from"] = json!(from);
            }
            value
        });
        each.collect()
    };
    let mut value = json!({
        "account": balance.account,
        "balance": number(balance.balance),
        "held": number(balance.held),
        "available": limit(balance.available),
        "overdraft": limit(balance.overdraft),
        "deposits": deposits(&balance.deposits),
        "later": deposits(&balance.later),
        "closed": balance.closed,
    });
    if balance.account.starts_with("project:") {
        value["members"] = json!(balance.members);
    }
    value
}

/// A statement as one JSON object. Times are Unix seconds.
pub fn statement_json(statement: &Statement) -> Value {
    let movement = |line: &Line| {
        json!({
            "at": seconds(line.at),
            "kind": line.kind,
            "amount": number(line.amount),
            "held": number(line.held),
            "balance": number(line.balance),
            "other": line.other,
            "job": line.job,
            "by": line.by,
            "note": line.note,
        })
    };
    let pending = statement.pending.iter().map(|pending| {
        json!({"at": seconds(pending.at), "amount": number(pending.amount), "job": pending.job})
    });
    json!({
        "account": statement.account,
        "from": statement.from / 1000,
        "to": statement.to / 1000,
        "opening": number(statement.opening),
        "closing": number(statement.closing),
        "movements": statement.lines.iter().map(movement).collect::<Vec<_>>(),
        "pending": pending.collect::<Vec<_>>(),
    })
}

fn seconds(millis: i64) -> Value {
    match millis % 1000 {
        0 => json!(millis / 1000),
        _ => json!(millis as f64 / 1000.0),
    }
}

/// What accounts have, a line each.
pub fn balances(balances: &[Balance], zone: &TimeZone) -> String {
    let mut rows = vec![vec![
        "ACCOUNT".to_string(),
        "BALANCE".to_string(),
        "HELD".to_string(),
        "AVAILABLE".to_string(),
        "OVERDRAFT".to_string(),
        "EXPIRES".to_string(),
    ]];
    for balance in balances {
        rows.push(vec![
            balance.account.clone(),
            balance.balance.exact(),
            balance.held.exact(),
            shown(balance.available),
            shown(balance.overdraft),
            match balance.closed {
                true => "closed".to_string(),
                false => expires(balance, zone),
            },
        ]);
    }
    aligned(&rows, &[1, 2, 3, 4])
}

fn shown(money: Option<Money>) -> String {
    money.map_or_else(|| "unlimited".to_string(), Money::exact)
}

/// What of it expires next, and what is there later.
fn expires(balance: &Balance, zone: &TimeZone) -> String {
    let mut said = Vec::new();
    let next = balance
        .deposits
        .iter()
        .find_map(|deposit| Some((deposit.left, deposit.until?)));
    if let Some((left, until)) = next {
        said.push(format!(
            "{} after {}",
            left.exact(),
            dates::end(until, zone)
        ));
    }
    if let Some(later) = balance.later.first() {
        let from = dates::shown(later.from.unwrap_or(0).saturating_mul(1000), zone);
        said.push(format!("{} more from {from} on", later.left.exact()));
    }
    said.join(", ")
}

/// Accounts with their members, a line each.
pub fn list(balances: &[Balance]) -> String {
    let mut rows = vec![vec![
        "ACCOUNT".to_string(),
        "STATE".to_string(),
        "AVAILABLE".to_string(),
        "OVERDRAFT".to_string(),
        "MEMBERS".to_string(),
    ]];
    for balance in balances {
        let state = if balance.closed { "closed" } else { "open" };
        rows.push(vec![
            balance.account.clone(),
            state.to_string(),
            shown(balance.available),
            shown(balance.overdraft),
            balance.members.join(" "),
        ]);
    }
    aligned(&rows, &[2, 3])
}

/// A statement for people.
pub fn statement(statement: &Statement, holds: bool, zone: &TimeZone) -> String {
    let (from, to) = (
        dates::shown(statement.from, zone),
        dates::end(statement.to / 1000, zone),
    );
    let mut text = format!("{}, {} to {to}\n\n", statement.account, day(&from));
    let mut heading = vec!["TIME", "WHAT", "AMOUNT", "BALANCE", "JOB", "BY", "NOTE"];
    if holds {
        heading.insert(3, "HELD");
    }
    let mut rows: Vec<Vec<String>> = vec![heading.iter().map(|word| word.to_string()).collect()];
    let total = |at: String, what: &str, balance: Money| {
        let mut row = vec![String::new(); heading.len()];
        (row[0], row[1]) = (at, what.to_string());
        row[if holds { 4 } else { 3 }] = balance.exact();
        row
    };
    rows.push(total(from, "opening balance", statement.opening));
    for line in &statement.lines {
        let mut row = vec![
            dates::shown(line.at, zone),
            line.kind.clone(),
            signed(line.amount),
            line.balance.exact(),
            line.job.clone().unwrap_or_default(),
            line.by.clone(),
            remark(line, zone),
        ];
        if holds {
            row.insert(3, signed(line.held));
        }
        rows.push(row);
    }
    rows.push(total(String::new(), "closing balance", statement.closing));
    let right: &[usize] = if holds { &[2, 3, 4] } else { &[2, 3] };
    text.push_str(&aligned(&rows, right));
    if !statement.pending.is_empty() {
        let sum: i64 = statement
            .pending
            .iter()
            .map(|pending| pending.amount.0)
            .sum();
        text.push_str(&format!(
            "\nHeld now for jobs that have not ended: {}\n",
            Money(sum).exact()
        ));
        let pending = statement.pending.iter().map(|pending| {
            vec![
                dates::shown(pending.at, zone),
                pending.amount.exact(),
                pending
                    .job
                    .clone()
                    .unwrap_or_else(|| "no id yet".to_string()),
            ]
        });
        text.push_str(&aligned(&pending.collect::<Vec<_>>(), &[1]));
    }
    text
}

fn day(shown: &str) -> &str {
    shown.split(' ').next().unwrap_or(shown)
}

fn signed(money: Money) -> String {
    match money.0 {
        1.. => format!("+{}", money.exact()),
        _ => money.exact(),
    }
}

/// Where a transfer went, when a deposit is valid, and the note.
fn remark(line: &Line, zone: &TimeZone) -> String {
    let mut said = Vec::new();
    if let Some(other) = &line.other {
        let word = if line.amount.0 < 0 { "to" } else { "from" };
        said.push(format!("{word} {other}"));
    }
    if let Some(from) = line.validity.0 {
        let from = dates::shown(from.saturating_mul(1000), zone);
        said.push(format!("valid from {from}"));
    }
    if let Some(until) = line.validity.1 {
        said.push(format!("valid until {}", dates::end(until, zone)));
    }
    if !line.note.is_empty() {
        said.push(line.note.clone());
    }
    said.join(", ")
}

/// A statement as comma-separated values (RFC 4180).
pub fn statement_csv(statement: &Statement, zone: &TimeZone) -> String {
    let mut text = "time,kind,amount,held,balance,other,job,by,note\r\n".to_string();
    let mut row = |cells: [&str; 9]| {
        let cells: Vec<String> = cells.iter().map(|cell| csv(cell)).collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    };
    let opening = statement.opening.exact();
    row([
        &dates::exact(statement.from, zone),
        "opening",
        "",
        "",
        &opening,
        "",
        "",
        "",
        "",
    ]);
    for line in &statement.lines {
        row([
            &dates::exact(line.at, zone),
            &line.kind,
            &line.amount.exact(),
            &line.held.exact(),
            &line.balance.exact(),
            line.other.as_deref().unwrap_or(""),
            line.job.as_deref().unwrap_or(""),
            &line.by,
            &line.note,
        ]);
    }
    let closing = statement.closing.exact();
    row([
        &dates::exact(statement.to, zone),
        "closing",
        "",
        "",
        &closing,
        "",
        "",
        "",
        "",
    ]);
    text
}

/// One cell. What a spreadsheet would take for a formula gets a quote ahead of it; numbers stay numbers.
fn csv(cell: &str) -> String {
    let formula =
        cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    let cell = match formula {
        true => format!("'{cell}"),
        false => cell.to_string(),
    };
    match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

/// Aligned columns. `right`: those that are flush right.
fn aligned(rows: &[Vec<String>], right: &[usize]) -> String {
    let lines = columns::lines(rows, |place| match right.contains(&place) {
        true => Flush::Right,
        false => Flush::Left,
    });
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(amount: i64, balance: i64, note: &str) -> Line {
        Line {
            at: 1_795_000_000_000,
            kind: "transfer".to_string(),
            amount: Money(amount),
            held: Money::ZERO,
            balance: Money(balance),
            other: Some("user:bob".to_string()),
            job: None,
            validity: (None, None),
            by: "alice".to_string(),
            note: note.to_string(),
        }
    }

    fn some() -> Statement {
        Statement {
            account: "user:alice".to_string(),
            from: 1_793_491_200_000,
            to: 1_796_083_200_000,
            opening: Money(1_000_000),
            closing: Money(-1_500_000),
            lines: vec![line(-2_500_000, -1_500_000, "=HYPERLINK(\"x\"), or not")],
            pending: Vec::new(),
        }
    }

    #[test]
    fn columns_are_aligned() {
        let text = statement(&some(), false, &TimeZone::UTC);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "user:alice, 2026-11-01 to 2026-11-30");
        let place = lines[2].find("BALANCE").expect("a heading") + "BALANCE".len();
        assert_eq!(&lines[3][place - 1..place], "1");
        assert_eq!(&lines[4][place - 4..place], "-1.5");
        assert!(
            lines[4].contains("-2.5") && lines[4].contains("to user:bob"),
            "{text}"
        );
        assert!(!text.contains(" \n"), "{text}");
    }

    #[test]
    fn a_note_is_no_formula_in_a_spreadsheet_and_an_amount_stays_one() {
        let text = statement_csv(&some(), &TimeZone::UTC);
        assert!(text.contains(",-2.5,0,-1.5,"), "{text}");
        assert!(
            text.contains("\"'=HYPERLINK(\"\"x\"\"), or not\""),
            "{text}"
        );
        assert_eq!(text.matches("\r\n").count(), 4);
    }

    #[test]
    fn amounts_are_numbers() {
        for (micro, text) in [
            (12_000_000, "12"),
            (-250_000, "-0.25"),
            (1, "0.000001"),
            (12_250_001, "12.250001"),
        ] {
            let shown: f64 = number(Money(micro)).to_string().parse().expect("a number");
            assert_eq!(shown, text.parse::<f64>().expect("a number"));
        }
        assert_eq!(number(Money(12_000_000)).to_string(), "12");
    }
}
