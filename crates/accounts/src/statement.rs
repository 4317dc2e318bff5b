//! A statement: what came in and went out of an account in a period, and what is held at its end. Pure.
//!
//! A balance is free and held money together, so setting money aside for a job changes nothing about it. What belongs to one
//! job's end (its charge, what it cost beyond the hold, what was released of several deposits) is one line.
//!
//! Invariant: the opening balance and the amounts of all lines make the closing balance, and each line has the balance after it.

use super::ledger::Row;
use libra_units::money::Money;
use serde::{Deserialize, Serialize};

/// Words for a charge beyond what was held.
const OVERRUN: &str = "beyond its estimate";

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When, Unix milliseconds.
    pub at: i64,
    /// `deposit`, `hold`, `charge`, `release`, `compensation`, `transfer`, `expiry` or `closing`.
    pub kind: String,
    /// What it does to the balance.
    pub amount: Money,
    /// What it does to the money that is held, a part of the balance.
    pub held: Money,
    /// The balance after it.
    pub balance: Money,
    /// The other account of a transfer.
    pub other: Option<String>,
    /// The job, where it is about one and its id is known.
    pub job: Option<String>,
    /// Validity of a deposit, Unix seconds: first, and first after it.
    pub validity: (Option<i64>, Option<i64>),
    /// Who wanted it.
    pub by: String,
    /// What else there is to say.
    pub note: String,
}

/// Money that is held for a job that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Since when, Unix milliseconds.
    pub at: i64,
    /// How much.
    pub amount: Money,
    /// The job, where its id is known.
    pub job: Option<String>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Whose.
    pub account: String,
    /// First millisecond, Unix time.
    pub from: i64,
    /// First millisecond after it.
    pub to: i64,
    /// Balance at its beginning.
    pub opening: Money,
    /// Balance at its end.
    pub closing: Money,
    /// What happened, oldest first.
    pub lines: Vec<Line>,
    /// What is held now.
    pub pending: Vec<Pending>,
}

/// Lines of the movements of a period, in their order. `opening`: the balance before them; `holds`: with a line for each hold and
/// release.
pub fn lines(rows: &[Row], opening: Money, holds: bool) -> Vec<Line> {
    let mut lines: Vec<(Line, Option<Key>)> = Vec::new();
    for row in rows {
        let key = key(row, holds);
        let line = line(row);
        let same = |at: usize| key.is_some() && lines[at].1 == key;
        // What is done in one step lies together, but for steps of other jobs in the same millisecond.
        let near = lines.len().saturating_sub(64)..lines.len();
        match near.rev().find(|at| same(*at)) {
            Some(at) => join(&mut lines[at].0, line),
            None => lines.push((line, key)),
        }
    }
    let mut balance = opening;
    let mut shown = Vec::with_capacity(lines.len());
    for (mut line, _) in lines {
        balance = Money(balance.0 + line.amount.0);
        line.balance = balance;
        if holds || line.kind != "hold" {
            shown.push(line);
        }
    }
    shown
}

/// What makes two movements one line.
#[derive(PartialEq)]
struct Key {
    at: i64,
    group: String,
    whose: Option<String>,
    part: u32,
}

fn key(row: &Row, holds: bool) -> Option<Key> {
    let (group, whose) = match row.kind.as_str() {
        "transfer" if row.free.0 < 0 => ("sent", row.other.clone()),
        "transfer" => ("received", row.other.clone()),
        "hold" => ("hold", row.hold.clone()),
        "release" if holds => ("release", row.hold.clone()),
        "charge" | "overrun" | "release" => ("end", row.hold.clone()),
        _ => return None,
    };
    Some(Key {
        at: row.at,
        group: group.to_string(),
        whose,
        part: row.part,
    })
}

fn line(row: &Row) -> Line {
    let overrun = row.kind == "overrun";
    Line {
        at: row.at,
        kind: match overrun {
            true => "charge".to_string(),
            false => row.kind.clone(),
        },
        amount: Money(row.free.0 + row.held.0),
        held: row.held,
        balance: Money::ZERO,
        other: row.other.clone().filter(|_| row.kind == "transfer"),
        job: row.job.clone(),
        validity: match row.kind.as_str() {
            "deposit" => row.validity,
            _ => (None, None),
        },
        by: row.by.clone(),
        note: match (overrun, row.note.is_empty()) {
            (false, _) => row.note.clone(),
            (true, true) => OVERRUN.to_string(),
            (true, false) => format!("{}, {OVERRUN}", row.note),
        },
    }
}

fn join(line: &mut Line, more: Line) {
    line.amount.0 += more.amount.0;
    line.held.0 += more.held.0;
    // A job that is charged anything is charged; one that is not has its hold released.
    if more.kind == "charge" {
        line.kind = more.kind;
    }
    if more.note.len() > line.note.len() {
        line.note = more.note;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at: i64, kind: &str, free: i64, held: i64, hold: Option<&str>) -> Row {
        Row {
            id: at,
            at,
            kind: kind.to_string(),
            free: Money(free),
            held: Money(held),
            other: None,
            job: hold.map(|_| "7.server".to_string()),
            hold: hold.map(str::to_string),
            part: 0,
            validity: (None, None),
            by: "root".to_string(),
            note: String::new(),
        }
    }

    fn told(lines: &[Line]) -> Vec<(&str, i64, i64)> {
        lines
            .iter()
            .map(|line| (line.kind.as_str(), line.amount.0, line.balance.0))
            .collect()
    }

    #[test]
    fn a_job_is_one_line() {
        let rows = [
            row(1, "deposit", 100, 0, None),
            row(2, "hold", -20, 20, Some("a")),
            row(2, "hold", -10, 10, Some("a")),
            row(3, "charge", 0, -20, Some("a")),
            row(3, "release", 0, 0, Some("b")),
            row(3, "charge", 0, -4, Some("a")),
            row(3, "release", 6, -6, Some("a")),
            row(3, "overrun", -5, 0, Some("a")),
        ];
        let folded = lines(&rows, Money(1), false);
        assert_eq!(
            told(&folded),
            [
                ("deposit", 100, 101),
                ("charge", -29, 72),
                ("release", 0, 72)
            ]
        );
        assert_eq!(folded[1].note, OVERRUN);
        let all = lines(&rows, Money(1), true);
        assert_eq!(
            told(&all),
            [
                ("deposit", 100, 101),
                ("hold", 0, 101),
                ("charge", -29, 72),
                ("release", 0, 72),
                ("release", 0, 72)
            ]
        );
        assert_eq!(all[1].held, Money(30));
        assert_eq!(all.iter().map(|line| line.held.0).sum::<i64>(), 0);
    }

    #[test]
    fn a_transfer_out_of_several_deposits_is_one_line() {
        let mut rows = [
            row(1, "transfer", -3, 0, None),
            row(1, "transfer", -4, 0, None),
            row(1, "transfer", 2, 0, None),
        ];
        for row in &mut rows {
            row.other = Some("project:x".to_string());
        }
        let shown = lines(&rows, Money(10), false);
        assert_eq!(told(&shown), [("transfer", -7, 3), ("transfer", 2, 5)]);
        assert_eq!(shown[0].other.as_deref(), Some("project:x"));
    }
}
