//! The user's account, as `libra account` tells it. Amounts in credits.

use super::system::{Problem, Site, plain};
use serde_json::Value;

/// What there is to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum Account {
    /// Nobody is charged here.
    Off,
    /// Balances, and statements of one month.
    On(Vec<Balance>, Vec<Month>),
}

/// A sum, or as much as one likes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// So much.
    Credits(f64),
    /// No limit.
    Unlimited,
}

/// The state of an account.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    /// `user:alice`
    pub account: String,
    /// All that is there.
    pub balance: f64,
    /// Of it, what jobs hold that have not ended.
    pub held: f64,
    /// What can be spent now.
    pub available: Amount,
    /// It takes part in nothing any more.
    pub closed: bool,
    /// Of what is there, sums that are gone at a time: credits, seconds since 1970.
    pub ends: Vec<(f64, f64)>,
    /// Sums that are there from a time on.
    pub later: Vec<(f64, f64)>,
    /// Who may spend it, of a project.
    pub members: Vec<String>,
}

/// The most statements on a page: one's own, and those of projects.
const MOST: usize = 10;

impl Balance {
    /// Returns true if it is this user's, or that of a project of which the user is a member. Administrators see all others by `libra account`.
    fn is_of(&self, user: &str) -> bool {
        self.account == format!("user:{user}") || self.members.iter().any(|member| member == user)
    }
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Month {
    /// `user:alice`
    pub account: String,
    /// The balance before.
    pub opening: f64,
    /// The balance after.
    pub closing: f64,
    /// In order of time.
    pub movements: Vec<Movement>,
}

/// A line of a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Movement {
    /// Seconds since 1970.
    pub at: f64,
    /// `deposit`, `charge`, …
    pub kind: String,
    /// Its sign says whether it came or went.
    pub amount: f64,
    /// The balance afterwards.
    pub balance: f64,
    /// The job; empty where there is none.
    pub job: String,
    /// What was said of it.
    pub note: String,
}

/// Reads the accounts of the user: the own one and those of projects. `month`: `2026-11`.
///
/// # Errors
/// `libra account` fails.
pub fn read(site: &Site, user: &str, month: &str) -> Result<Account, Problem> {
    let done = site.libra(&["account", "balance", "--json"]).run()?;
    if !done.is_success() {
        let json: Value = serde_json::from_str(&done.out).unwrap_or_default();
        return match json["accounts"] == "off" {
            true => Ok(Account::Off),
            false => Err(Problem::new(plain(&done))),
        };
    }
    let balances = done.out.lines().filter_map(balance);
    let mut balances: Vec<Balance> = balances.filter(|one| one.is_of(user)).collect();
    // The own one first.
    balances.sort_by_key(|one| (!one.account.starts_with("user:"), one.account.clone()));
    let month = format!("--month={month}");
    let mut months = Vec::new();
    for one in balances.iter().take(MOST) {
        let call = site.libra(&["account", "statement", &month, "--json", "--"]);
        let done = call.arg(&one.account).run()?;
        if !done.is_success() {
            return Err(Problem::new(plain(&done)));
        }
        months.extend(done.out.lines().filter_map(statement));
    }
    Ok(Account::On(balances, months))
}

/// A statement for spreadsheets: what `libra account statement --csv` prints.
///
/// # Errors
/// There is no such account, it is none of the user's, or accounts are off.
pub fn csv(site: &Site, account: &str, month: &str) -> Result<String, Problem> {
    let is = |c: char| c.is_ascii_alphanumeric() || ":._@-".contains(c);
    if account.is_empty() || account.len() > 200 || !account.chars().all(is) {
        return Err(Problem::new("this is not the name of an account"));
    }
    let month = format!("--month={month}");
    let call = site.libra(&["account", "statement", &month, "--csv", "--"]);
    let done = call.arg(account).run()?;
    match done.is_success() {
        true => Ok(done.out),
        false => Err(Problem::new(plain(&done))),
    }
}

/// What became of the price of a job. Credits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Payment {
    /// Who pays: `user:alice`.
    pub account: String,
    /// Set aside when it was accepted.
    pub held: f64,
    /// Paid.
    pub charged: f64,
    /// Free again, of what was set aside.
    pub released: f64,
    /// Paid out to the user, for a delay.
    pub compensated: f64,
    /// All of that has happened: its end is settled.
    pub is_settled: bool,
    /// What was said of it at the settlement.
    pub note: String,
}

/// Looks for a job in the statements of these months. `project`: who pays, if not the user. `since`: when it was submitted, seconds since 1970;
/// numbers of jobs are used again. None: accounts are off, or know nothing of it.
///
/// # Errors
/// `libra account` fails.
pub fn of_job(
    site: &Site,
    project: &str,
    id: &str,
    since: f64,
    months: &[String],
) -> Result<Option<Payment>, Problem> {
    let mut found = None;
    for month in months {
        let month = format!("--month={month}");
        let ask = |account: Option<String>| {
            let call = site.libra(&["account", "statement", &month, "--holds", "--json"]);
            call.args(account).run()
        };
        let mut done = ask(None)?;
        if !project.is_empty() {
            // Where the project has no account the user pays.
            let of_project = ask(Some(format!("project:{project}")))?;
            if of_project.is_success() {
                done.out += "\n";
                done.out += &of_project.out;
            }
        }
        if !done.is_success() {
            let json: Value = serde_json::from_str(done.out.trim()).unwrap_or_default();
            return match json["accounts"] == "off" {
                true => Ok(None),
                false => Err(Problem::new(plain(&done))),
            };
        }
        for line in done.out.lines() {
            add_payment(&mut found, line, id, since);
        }
    }
    Ok(found)
}

/// Adds what a statement says of a job.
fn add_payment(found: &mut Option<Payment>, statement: &str, id: &str, since: f64) {
    let Ok(json) = serde_json::from_str::<Value>(statement) else {
        return;
    };
    let movements = json["movements"].as_array().into_iter().flatten();
    // Clocks of two hosts, and whole seconds.
    let is =
        |one: &&Value| one["job"] == id && one["at"].as_f64().is_some_and(|at| at > since - 60.0);
    for one in movements.filter(is) {
        let payment = found.get_or_insert_with(Payment::default);
        let number = |key: &str| one[key].as_f64().unwrap_or(0.0);
        let text = |json: &Value| json.as_str().unwrap_or_default().to_string();
        payment.account = text(&json["account"]);
        match one["kind"].as_str() {
            Some("hold") => payment.held += number("held"),
            Some("charge" | "overrun") => payment.charged -= number("amount"),
            Some("release") => payment.released -= number("held"),
            Some("compensation") => payment.compensated += number("amount"),
            _ => continue,
        }
        if one["kind"] != "hold" {
            payment.is_settled = true;
            payment.note = text(&one["note"]);
        }
    }
}

fn balance(line: &str) -> Option<Balance> {
    let json: Value = serde_json::from_str(line).ok()?;
    let number = |key: &str| json[key].as_f64();
    let available = match &json["available"] {
        Value::String(word) if word == "unlimited" => Amount::Unlimited,
        other => Amount::Credits(other.as_f64()?),
    };
    let sums = |key: &str, at: &str| {
        let deposits = json[key].as_array().into_iter().flatten();
        let sums = deposits.filter_map(|one| Some((one["left"].as_f64()?, one[at].as_f64()?)));
        sums.collect()
    };
    let members = json["members"].as_array().into_iter().flatten();
    Some(Balance {
        ends: sums("deposits", "until"),
        later: sums("later", "from"),
        members: members
            .filter_map(|member| Some(member.as_str()?.to_string()))
            .collect(),
        account: json["account"].as_str()?.to_string(),
        balance: number("balance")?,
        held: number("held").unwrap_or(0.0),
        available,
        closed: json["closed"] == true,
    })
}

fn statement(line: &str) -> Option<Month> {
    let json: Value = serde_json::from_str(line).ok()?;
    let movements = json["movements"].as_array()?.iter();
    let text = |json: &Value, key: &str| json[key].as_str().unwrap_or_default().to_string();
    Some(Month {
        account: json["account"].as_str()?.to_string(),
        opening: json["opening"].as_f64()?,
        closing: json["closing"].as_f64()?,
        movements: movements
            .filter_map(|one| {
                Some(Movement {
                    at: one["at"].as_f64()?,
                    kind: text(one, "kind"),
                    amount: one["amount"].as_f64()?,
                    balance: one["balance"].as_f64()?,
                    job: text(one, "job"),
                    note: text(one, "note"),
                })
            })
            .collect(),
    })
}

/// The months before and after one such as `2026-11`; None for what is no month.
pub fn neighbours(month: &str) -> Option<(String, String)> {
    let (year, number) = month.split_once('-')?;
    if year.len() != 4 || number.len() != 2 {
        return None;
    }
    let digits = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse::<i32>().ok())?
    };
    let (year, number) = (digits(year)?, digits(number)?);
    if !(1..=12).contains(&number) || !(1970..=9000).contains(&year) {
        return None;
    }
    let named = |count: i32| {
        format!(
            "{:04}-{:02}",
            count.div_euclid(12),
            count.rem_euclid(12) + 1
        )
    };
    let count = year * 12 + number - 1;
    Some((named(count - 1), named(count + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_command() {
        let line = r#"{"account":"user:alice","balance":12.5,"held":3.25,"available":9.25,"overdraft":0,"deposits":[{"left":9.25,"until":1790000000}],"closed":false}"#;
        let read = balance(line).expect("a balance");
        assert_eq!(
            (read.balance, read.available),
            (12.5, Amount::Credits(9.25))
        );
        assert_eq!(
            (&read.ends[..], &read.later[..]),
            (&[(9.25, 1.79e9)][..], &[][..])
        );
        assert!(read.is_of("alice") && !read.is_of("bob"));
        let project = r#"{"account":"project:x","balance":5,"available":5,"members":["bob"],"later":[{"left":5,"from":1800000000,"until":1900000000}]}"#;
        let project = balance(project).expect("a balance");
        assert!(project.is_of("bob") && !project.is_of("alice"));
        assert_eq!(project.later, [(5.0, 1.8e9)]);
        let line = r#"{"account":"project:x","balance":0,"available":"unlimited","overdraft":"unlimited","closed":true}"#;
        assert_eq!(
            balance(line).expect("a balance").available,
            Amount::Unlimited
        );
        let line = r#"{"account":"user:alice","from":1,"to":2,"opening":0,"closing":12.5,"movements":[{"at":1,"kind":"deposit","amount":12.5,"balance":12.5,"job":null,"by":"root","note":""},{"at":"x"}]}"#;
        let read = statement(line).expect("a statement");
        assert_eq!(read.movements.len(), 1);
        assert_eq!(read.movements[0].job, "");
        assert_eq!((balance("{}"), statement("x")), (None, None));
    }

    #[test]
    fn what_became_of_a_price() {
        let line = r#"{"account":"user:ann","movements":[
            {"amount":0,"at":1000,"held":10.25,"job":"2","kind":"hold","note":""},{"amount":-3,"at":1001,"held":-3,"job":"1","kind":"charge","note":"x"},
            {"amount":-0.25,"at":1010,"held":-0.25,"job":"2","kind":"charge","note":"cancelled"},{"amount":0,"at":1010,"held":-10,"job":"2","kind":"release","note":"cancelled"},
            {"amount":5,"at":1,"held":0,"job":null,"kind":"deposit","note":""}]}"#;
        let mut found = None;
        add_payment(&mut found, line, "2", 1000.4);
        let payment = found.expect("a payment");
        assert_eq!(
            (payment.held, payment.charged, payment.released),
            (10.25, 0.25, 10.0)
        );
        assert_eq!(
            (
                payment.is_settled,
                payment.note.as_str(),
                payment.account.as_str()
            ),
            (true, "cancelled", "user:ann")
        );
        let mut none = None;
        add_payment(&mut none, line, "2", 9000.0);
        assert_eq!(none, None, "another job of that number");
        add_payment(&mut none, "x", "2", 0.0);
        add_payment(&mut none, "{}", "2", 0.0);
        assert_eq!(none, None);
    }

    #[test]
    fn months_have_neighbours() {
        let of = |month| neighbours(month);
        assert_eq!(of("2026-01"), Some(("2025-12".into(), "2026-02".into())));
        assert_eq!(of("2026-12"), Some(("2026-11".into(), "2027-01".into())));
        for bad in [
            "2026-13",
            "2026-00",
            "2026",
            "26-01",
            "-026-01",
            "2026-1",
            "2026-01-01",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
