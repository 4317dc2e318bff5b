//! `libra account`: money that jobs are paid with.
//!
//! [`backend`] finds out who answers: the files, where this user may open them, or the [service](serve). What is asked and what
//! comes back is the same ([`libra_accounts::request`]); [`show`] prints it.

mod backend;
mod change_rate;
mod copies;
mod dates;
mod init;
mod network;
mod ood;
mod serve;
mod show;

use super::args::{AccountArgs, AccountCommand, Args, CreateArgs, DepositArgs, StatementArgs};
use super::{Done, Failure, exit};
use backend::Backend;
use jiff::Zoned;
use jiff::tz::TimeZone;
use libra_accounts::AccountsError;
use libra_accounts::check::Findings;
use libra_accounts::ledger::Location;
use libra_accounts::live;
use libra_accounts::request::{Balance, Reply, Request};
use libra_config::{AccountsConfig, AccountsMode, site};
use libra_terminal::{answer, note, say};
pub use network::is_elsewhere;
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum AccountFailure {
    #[error("{0}")]
    Usage(String),
    /// By a rule: rights, money, names.
    #[error("{0}")]
    Refused(String),
    /// The ledger's place.
    #[error("{0}")]
    Setup(String),
    /// The service, or the way to it.
    #[error("{0}")]
    Service(String),
    #[error(transparent)]
    Accounts(AccountsError),
}

impl From<AccountsError> for AccountFailure {
    fn from(error: AccountsError) -> AccountFailure {
        match error.is_refusal() {
            true => AccountFailure::Refused(error.to_string()),
            false => AccountFailure::Accounts(error),
        }
    }
}

impl AccountFailure {
    pub fn code(&self) -> u8 {
        match self {
            AccountFailure::Usage(_) => exit::USAGE,
            AccountFailure::Refused(_) => exit::REFUSED,
            _ => exit::FAILED,
        }
    }
}

/// What to say where accounts are off.
fn off(args: &Args) -> String {
    let named = site::named(args.config.as_deref());
    let file = named.unwrap_or_else(|| site::FILE.into());
    format!(
        "accounts are off; accounts.mode in {} turns them on",
        file.display()
    )
}

pub fn account(account: &AccountArgs, args: &Args) -> Done {
    let config = site::load(args.config.as_deref())?;
    if let AccountCommand::Init { owner, take_over } = &account.command {
        return init::init(&config.accounts, owner.as_deref(), *take_over, args);
    }
    if config.accounts.mode == AccountsMode::Off {
        if args.json {
            // For programs, which do not read sentences.
            answer::<Failure>(&format!("{}\n", json!({"accounts": "off"})), exit::USAGE)?;
        }
        return Err(Failure::Usage(off(args)));
    }
    let with_files = matches!(
        account.command,
        AccountCommand::Serve | AccountCommand::Backup { .. } | AccountCommand::Restore { .. }
    );
    if with_files && is_elsewhere(&config.accounts) {
        return Err(AccountFailure::Setup(format!(
            "the ledger is not on this host: do it on that of {} (accounts.servers in the configuration)",
            config.accounts.servers.join(" or ")
        ))
        .into());
    }
    if let AccountCommand::Serve = account.command {
        return serve::serve(&config.accounts);
    }
    match &account.command {
        AccountCommand::Backup { file } => return copies::backup(&config.accounts, file, args),
        AccountCommand::Restore { file, replace } => {
            return copies::restore(&config.accounts, file, *replace, args);
        }
        _ => {}
    }
    let zone = TimeZone::system();
    let request = request(&account.command, &zone)?;
    let asked = Backend::open(&config.accounts)
        .and_then(|mut backend| backend.ask(&config.accounts, &request));
    let reply = match (asked, &account.command) {
        // It is what was asked for.
        (
            Err(AccountFailure::Accounts(
                error @ (AccountsError::Ledger { .. }
                | AccountsError::Database { .. }
                | AccountsError::Unreachable { .. }
                | AccountsError::Leased { .. }),
            )),
            AccountCommand::Check,
        ) => Reply::Checked(lost(&error, &config.accounts)),
        (asked, _) => asked?,
    };
    print(&account.command, reply, args, &zone, &config.accounts)
}

/// Names of the accounts that the user may see, and what they have, in words; none if accounts are off.
///
/// # Errors
/// When they cannot be asked.
pub fn visible(config: &AccountsConfig) -> Result<Vec<(String, String)>, AccountFailure> {
    if config.mode == AccountsMode::Off {
        return Ok(Vec::new());
    }
    let mut backend = Backend::open(config)?;
    let Reply::Balances(balances) = backend.ask(config, &Request::Balance { account: None })?
    else {
        return Ok(Vec::new());
    };
    let one = |balance: &Balance| {
        let about = format!("{} credits", balance.balance);
        (balance.account.clone(), about)
    };
    Ok(balances.iter().map(one).collect())
}

/// The ledger is not there, or another one.
fn lost(error: &AccountsError, config: &AccountsConfig) -> Findings {
    let surviving = live::surviving(&config.live, &config.ledger);
    Findings {
        problems: vec![error.to_string()],
        notes: (surviving.iter())
            .map(|(path, waiting)| {
                format!(
                    "the live state {} is there and knows what accounts have; {waiting} of its entries are in no ledger yet",
                    path.display()
                )
            })
            .collect(),
        ..Findings::default()
    }
}

fn request(command: &AccountCommand, zone: &TimeZone) -> Result<Request, Failure> {
    let usage = Failure::Usage;
    Ok(match command {
        AccountCommand::Create(CreateArgs {
            account,
            overdraft,
            member,
            no_member,
        }) => {
            for user in member {
                if let Ok(None) = nix::unistd::User::from_name(user) {
                    say(format_args!(
                        "libra: warning: there is no user {user} on this host"
                    ));
                }
            }
            Request::Create {
                account: account.clone(),
                overdraft: *overdraft,
                members: member.clone(),
                no_members: no_member.clone(),
            }
        }
        AccountCommand::Deposit(DepositArgs {
            account,
            credits,
            from,
            until,
            note,
        }) => {
            let from = from.as_deref().map(|text| dates::from(text, zone));
            let until = until.as_deref().map(|text| dates::until(text, zone));
            Request::Deposit {
                account: account.clone(),
                amount: *credits,
                from: from
                    .transpose()
                    .map_err(|error| usage(format!("--from: {error}")))?,
                until: until
                    .transpose()
                    .map_err(|error| usage(format!("--until: {error}")))?,
                note: note.clone(),
            }
        }
        AccountCommand::Statement(StatementArgs {
            account,
            month,
            holds,
            ..
        }) => {
            let now = Zoned::now().with_time_zone(zone.clone());
            let (from, to) = dates::month(month.as_deref(), &now).map_err(usage)?;
            Request::Statement {
                account: account.clone(),
                from,
                to,
                holds: *holds,
            }
        }
        AccountCommand::Transfer {
            from,
            to,
            credits,
            note,
        } => Request::Transfer {
            from: from.clone(),
            to: to.clone(),
            amount: *credits,
            note: note.clone(),
        },
        AccountCommand::Close { account } => Request::Close {
            account: account.clone(),
        },
        AccountCommand::Check => Request::Check {},
        AccountCommand::Balance { account } => Request::Balance {
            account: account.clone(),
        },
        AccountCommand::List
        | AccountCommand::Backup { .. }
        | AccountCommand::Restore { .. }
        | AccountCommand::Export { .. }
        | AccountCommand::Init { .. }
        | AccountCommand::Serve => Request::Balance { account: None },
    })
}

fn print(
    command: &AccountCommand,
    reply: Reply,
    args: &Args,
    zone: &TimeZone,
    config: &AccountsConfig,
) -> Done {
    match reply {
        Reply::Done { text, warning } => {
            if let Some(warning) = warning {
                say(format_args!("libra: warning: {warning}"));
            }
            answer(&note(args.json, &text), 0)
        }
        Reply::Statement(statement) => {
            let (holds, csv) = match command {
                AccountCommand::Statement(asked) => (asked.holds, asked.csv),
                _ => (false, false),
            };
            let text = match (args.json, csv) {
                (true, _) => format!("{}\n", show::statement_json(&statement)),
                (_, true) => show::statement_csv(&statement, zone),
                _ => show::statement(&statement, holds, zone),
            };
            answer(&text, 0)
        }
        Reply::Balances(balances) => match command {
            AccountCommand::Export { file, .. } => export(&balances, file.as_deref()),
            _ if args.json => {
                let lines = balances.iter().map(show::balance_json);
                let text: String = lines.map(|line| format!("{line}\n")).collect();
                answer(&text, 0)
            }
            _ if balances.is_empty() => {
                let us = backend::user_name(nix::unistd::getuid())?;
                answer(
                    &format!("there is no account of {us}, and no project with this member\n"),
                    0,
                )
            }
            AccountCommand::List => answer(&show::list(&balances), 0),
            _ => answer(&show::balances(&balances, zone), 0),
        },
        Reply::Checked(found) => {
            let sound = found.problems.is_empty();
            let code = u8::from(!sound);
            if args.json {
                let mut value = serde_json::to_value(&found).map_err(std::io::Error::other)?;
                value["sound"] = sound.into();
                return answer(&format!("{value}\n"), code);
            }
            let mut text = String::new();
            for problem in &found.problems {
                text += &format!("problem  {problem}\n");
            }
            for note in &found.notes {
                text += &format!("warning  {note}\n");
            }
            if sound {
                text += &format!(
                    "ok       {}: {} accounts, {} movements, {} open holds; live state and ledger say the same, and the sum is 0\n",
                    Location::of(config),
                    found.accounts,
                    found.movements,
                    found.holds
                );
            }
            answer(&text, code)
        }
        Reply::Refused(text) => Err(AccountFailure::Refused(text).into()),
        Reply::Failed(text) => Err(AccountFailure::Service(text).into()),
    }
}

fn export(balances: &[Balance], file: Option<&Path>) -> Done {
    let now = libra_accounts::unix_millis() / 1000;
    let text = format!("{}\n", ood::export(balances, now));
    let Some(file) = file else {
        return answer(&text, 0);
    };
    // Beside it first: who reads it meanwhile reads all of the old one.
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let failed = |error| Failure::File {
        file: file.to_path_buf(),
        error,
    };
    let mut options = std::fs::OpenOptions::new();
    let _ = std::fs::remove_file(&new);
    let mut written = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&new)
        .map_err(failed)?;
    written.write_all(text.as_bytes()).map_err(failed)?;
    written.sync_all().map_err(failed)?;
    std::fs::rename(&new, file).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
