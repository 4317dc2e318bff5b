//! The account: what there is, and what became of it month by month.

use super::{View, facts, note, or_dash, problem};
use crate::account::{Account, Amount, Balance, Month, Movement};
use crate::address::InAddress;
use crate::system::Problem;
use libra_plots::html::headings;
use libra_plots::markup::Escaped;
use libra_units::credits;
use maud::{Markup, html};

/// The page. `month`: `2026-11`. `earlier`, `later`: the months beside it, where there are any to show.
pub fn body(
    view: &View<'_>,
    account: &Result<Account, Problem>,
    month: &str,
    earlier: &str,
    later: Option<&str>,
) -> Markup {
    let (balances, months) = match account {
        Err(error) => return problem(&error.to_string()),
        Ok(Account::Off) => {
            return note(
                "Accounts are off here: prices are shown and compared with budgets, and nobody is charged.",
            );
        }
        Ok(Account::On(balances, months)) => (balances, months),
    };
    let to = |month: &str| {
        html! { a.button href={ "account?month=" (Escaped(month)) } { (Escaped(month)) } }
    };
    html! {
        @if balances.is_empty() {
            (note("There is no account of yours here, and no project's of which you are a member; ask the site for one."))
        }
        div.tiles {
            @for one in balances { (balance(view, one)) }
        }
        section {
            h2 { "Statement of " (Escaped(month)) }
            nav.actions aria-label="Months" {
                (to(earlier))
                @if let Some(later) = later { (to(later)) }
            }
            @for one in months { (statement(view, one, month)) }
            @if balances.len() > months.len() {
                p.small { "Statements of the others: " code { "libra account statement ACCOUNT" } "." }
            }
        }
    }
}

fn amount(amount: &Amount) -> String {
    match amount {
        Amount::Credits(sum) => credits(*sum),
        Amount::Unlimited => "unlimited".to_string(),
    }
}

fn balance(view: &View<'_>, balance: &Balance) -> Markup {
    let mut some = vec![
        ("held for jobs".to_string(), credits(balance.held)),
        ("balance".to_string(), credits(balance.balance)),
    ];
    for (left, until) in &balance.ends {
        let name = format!("until {}", (view.time)(*until));
        some.push((name, format!("{} of it", credits(*left))));
    }
    for (sum, from) in &balance.later {
        let name = format!("from {} on", (view.time)(*from));
        some.push((name, format!("{} more", credits(*sum))));
    }
    html! {
        section.tile {
            h2 {
                (Escaped(&balance.account))
                @if balance.closed { " " span.badge.bad { "closed" } }
            }
            p.price { strong { (amount(&balance.available)) } " credits available" }
            (facts(&some))
        }
    }
}

fn statement(view: &View<'_>, month: &Month, called: &str) -> Markup {
    html! {
        h3 { (Escaped(&month.account)) }
        @if month.movements.is_empty() {
            p.empty { "No movements. The balance is " (credits(month.closing)) "." }
        } @else {
            p { "From " (credits(month.opening)) " to " (credits(month.closing)) " credits." }
            table.money {
                thead { tr { (headings(["When", "What", "Job", "Credits", "Balance", "Note"])) } }
                tbody {
                    @for one in &month.movements { (movement(view, one)) }
                }
            }
            p {
                a href={ "account.csv?account=" (InAddress(&month.account)) "&month=" (InAddress(called)) } {
                    "As CSV" span.quiet { ", the statement of " (Escaped(&month.account)) }
                }
            }
        }
    }
}

fn movement(view: &View<'_>, movement: &Movement) -> Markup {
    let sign = if movement.amount > 0.0 { "+" } else { "" };
    html! {
        tr {
            td data-label="When" { ((view.time)(movement.at)) }
            th scope="row" { (Escaped(&movement.kind)) }
            td data-label="Job" { (Escaped(or_dash(&movement.job))) }
            td.number data-label="Credits" { (sign) (credits(movement.amount)) }
            td.number data-label="Balance" { (credits(movement.balance)) }
            td data-label="Note" { (Escaped(&movement.note)) }
        }
    }
}
