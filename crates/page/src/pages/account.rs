//! The account: what there is, and what became of it month by month.

use super::{View, facts, note, or_dash, problem};
use crate::account::{Account, Amount, Balance, Month, Movement};
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
        div.tiles {
            @for one in balances { (balance(one)) }
        }
        section {
            h2 { "Statement of " (Escaped(month)) }
            nav.actions aria-label="Months" {
                (to(earlier))
                @if let Some(later) = later { (to(later)) }
            }
            @for one in months { (statement(view, one)) }
        }
    }
}

fn amount(amount: &Amount) -> String {
    match amount {
        Amount::Credits(sum) => credits(*sum),
        Amount::Unlimited => "unlimited".to_string(),
    }
}

fn balance(balance: &Balance) -> Markup {
    html! {
        section.tile {
            h2 {
                (Escaped(&balance.account))
                @if balance.closed { " " span.badge.bad { "closed" } }
            }
            p.price { strong { (amount(&balance.available)) } " credits available" }
            (facts(&[
                ("held for jobs", credits(balance.held)),
                ("balance", credits(balance.balance)),
            ]))
        }
    }
}

fn statement(view: &View<'_>, month: &Month) -> Markup {
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
