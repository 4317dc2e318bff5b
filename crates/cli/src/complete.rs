//! `libra complete`: values for the completions of shells, one a line, with a word about it behind a tab. What cannot be found out has none:
//! nobody wants an error in the line that is typed.

use super::args::{Args, CompleteArgs, Completed};
use super::{Done, account, status};
use libra_config::site;
use libra_simulator::schedulers;
use libra_terminal::answer;

pub fn complete(complete: &CompleteArgs, args: &Args) -> Done {
    let values: Vec<(String, String)> = match complete.what {
        Completed::Jobs => status::known(args, false),
        Completed::AllJobs => status::known(args, true),
        Completed::Policies => (schedulers::ALL.iter())
            .map(|known| (known.name.to_string(), known.summary.to_string()))
            .collect(),
        Completed::Accounts => accounts(args),
        Completed::Projects => (accounts(args).into_iter())
            .filter_map(|(name, about)| Some((name.strip_prefix("project:")?.to_string(), about)))
            .collect(),
    };
    let line = |(value, about): &(String, String)| match about.is_empty() {
        true => format!("{value}\n"),
        false => format!("{value}\t{about}\n"),
    };
    // Whoever named a job or an account may not have meant a shell.
    let plain = |(value, about): &&(String, String)| {
        let odd = |c: char| c.is_control() || c.is_whitespace();
        !value.contains(odd) && !about.contains(char::is_control)
    };
    answer(
        &values.iter().filter(plain).map(line).collect::<String>(),
        0,
    )
}

/// Accounts that the user may see, and what they have. Nobody who presses a key waits for another host.
fn accounts(args: &Args) -> Vec<(String, String)> {
    let config = site::load(args.config.as_deref()).ok();
    let config = config.filter(|config| !account::is_elsewhere(&config.accounts));
    let known = config.and_then(|config| account::visible(&config.accounts).ok());
    known.unwrap_or_default()
}
