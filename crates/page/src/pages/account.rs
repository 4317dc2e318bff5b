//! The account: what there is, and what became of it month by month.

use super::{View, note, problem};
use crate::account::{Account, Amount, Balance, Month};
use crate::system::Problem;
use libra_plots::markup::Escaped;
use libra_units::credits;

/// The page. `month`: `2026-11`. `earlier`, `later`: the months beside it, where there are any to show.
pub fn body(
    view: &View<'_>,
    account: &Result<Account, Problem>,
    month: &str,
    earlier: &str,
    later: Option<&str>,
) -> String {
    match account {
        Err(error) => problem(&error.to_string()),
        Ok(Account::Off) => note(
            "Accounts are off here: prices are shown and compared with budgets, and nobody is charged.",
        ),
        Ok(Account::On(balances, months)) => {
            let balances: String = balances.iter().map(balance).collect();
            let later = later.map_or(String::new(), |to| {
                format!(
                    "<a class=\"button\" href=\"account?month={0}\">{0}</a>",
                    Escaped(to)
                )
            });
            let statements: String = months.iter().map(|one| statement(view, one)).collect();
            format!(
                "<div class=\"tiles\">\n{balances}</div>\n<section>\n<h2>Statement of {}</h2>\n\
                 <nav class=\"actions\" aria-label=\"Months\"><a class=\"button\" href=\"account?month={1}\">{1}</a>{later}</nav>\n\
                 {statements}</section>\n",
                Escaped(month),
                Escaped(earlier)
            )
        }
    }
}

fn amount(amount: &Amount) -> String {
    match amount {
        Amount::Credits(sum) => credits(*sum),
        Amount::Unlimited => "unlimited".to_string(),
    }
}

fn balance(balance: &Balance) -> String {
    let more = [
        ("held for jobs", credits(balance.held)),
        ("balance", credits(balance.balance)),
    ];
    let more: String = more
        .iter()
        .map(|(name, sum)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", Escaped(sum)))
        .collect();
    let closed = if balance.closed {
        " <span class=\"badge bad\">closed</span>"
    } else {
        ""
    };
    format!(
        "<section class=\"tile\"><h2>{}{closed}</h2>\n<p class=\"price\"><strong>{}</strong> credits available</p>\n\
         <dl class=\"facts\">{more}</dl></section>\n",
        Escaped(&balance.account),
        Escaped(&amount(&balance.available))
    )
}

fn statement(view: &View<'_>, month: &Month) -> String {
    if month.movements.is_empty() {
        return format!(
            "<h3>{}</h3>\n<p class=\"empty\">No movements. The balance is {}.</p>\n",
            Escaped(&month.account),
            Escaped(&credits(month.closing))
        );
    }
    let rows: String = month
        .movements
        .iter()
        .map(|one| {
            let sign = if one.amount > 0.0 { "+" } else { "" };
            format!(
                "<tr><td data-label=\"When\">{}</td><th scope=\"row\">{}</th><td data-label=\"Job\">{}</td>\
                 <td data-label=\"Credits\" class=\"number\">{sign}{}</td><td data-label=\"Balance\" class=\"number\">{}</td>\
                 <td data-label=\"Note\">{}</td></tr>\n",
                Escaped(&(view.time)(one.at)),
                Escaped(&one.kind),
                Escaped(match one.job.as_str() {
                    "" => "–",
                    job => job,
                }),
                Escaped(&credits(one.amount)),
                Escaped(&credits(one.balance)),
                Escaped(&one.note)
            )
        })
        .collect();
    format!(
        "<h3>{}</h3>\n<p>From {} to {} credits.</p>\n<table class=\"money\">\n<thead><tr><th scope=\"col\">When</th>\
         <th scope=\"col\">What</th><th scope=\"col\">Job</th><th scope=\"col\">Credits</th><th scope=\"col\">Balance</th>\
         <th scope=\"col\">Note</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n",
        Escaped(&month.account),
        Escaped(&credits(month.opening)),
        Escaped(&credits(month.closing))
    )
}
