//! `libra account backup` and `restore`: copies of the ledger.

use super::AccountFailure;
use super::backend::{self, AsOwner, PATIENCE, user_name};
use crate::Done;
use crate::args::Args;
use libra_accounts::flush::flush;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::{self, Act, Live};
use libra_accounts::{AccountsError, backup, identity, restore, unix_millis};
use libra_config::AccountsConfig;
use libra_terminal::{answer, note, say};
use nix::unistd::{Gid, Uid, geteuid, getuid};
use std::path::Path;

fn owner(config: &AccountsConfig, what: &str) -> Result<(Uid, Gid), AccountFailure> {
    backend::owner(&config.ledger)?.ok_or_else(|| {
        AccountFailure::Refused(format!(
            "only root and the owner of {} may {what} it",
            config.ledger.display()
        ))
    })
}

/// A database has its own tools for it.
fn is_a_file(config: &AccountsConfig, help: &str) -> Result<(), AccountFailure> {
    match config.database.as_str() {
        "" => Ok(()),
        database => Err(AccountFailure::Setup(format!(
            "the ledger is in the database '{database}': {help}"
        ))),
    }
}

pub fn backup(config: &AccountsConfig, file: &Path, args: &Args) -> Done {
    is_a_file(
        config,
        &format!(
            "copy it with PostgreSQL's own tool: pg_dump --format=custom --schema=libra --file={} '{}'",
            file.display(),
            config.database
        ),
    )?;
    let owner = owner(config, "copy")?;
    backend::ready(config, owner)?;
    let (live, ledger, waits) = {
        let _owner = AsOwner::begin(owner)?;
        let live =
            Live::open(&config.live, &config.ledger, PATIENCE).map_err(AccountFailure::from)?;
        let ledger =
            Ledger::open_briefly(&config.ledger, PATIENCE).map_err(AccountFailure::from)?;
        let waits = flush(&live, &ledger).err();
        (live, ledger, waits)
    };
    let saved =
        backup::backup(&live, &ledger, file, unix_millis()).map_err(AccountFailure::from)?;
    if saved.missing > 0 {
        let why = waits.map_or_else(
            || "they came meanwhile".to_string(),
            |error| format!("they cannot be written down: {error}"),
        );
        say(format_args!(
            "libra: warning: {} entries of the live state are not in it: {why}",
            saved.missing
        ));
    }
    let text = format!(
        "{} is a copy of {}: {} movements, up to entry {}",
        file.display(),
        config.ledger.display(),
        saved.movements,
        saved.written
    );
    answer(&note(args.json, &text), 0)
}

pub fn restore(config: &AccountsConfig, file: &Path, replace: bool, args: &Args) -> Done {
    is_a_file(
        config,
        &format!(
            "stop what admits, and bring a copy made with pg_dump back with PostgreSQL's own tool: pg_restore --clean --if-exists --single-transaction --dbname='{}' {}. \
             One that is older than the live state of a host is refused there; to go on with it all the same, and give up what came after it, remove {}",
            config.database,
            file.display(),
            config.live.display()
        ),
    )?;
    let owner = owner(config, "restore")?;
    let root = geteuid().is_root();
    if replace && !root {
        return Err(AccountFailure::Refused(
            "only root may take a copy of another ledger, or in place of a sound one".to_string(),
        )
        .into());
    }
    let by = user_name(getuid())?;
    let act = Act {
        at: unix_millis(),
        by: &by,
        note: "not in the copy that was restored",
    };
    if root {
        live::make_directory(&config.live, &config.ledger).map_err(AccountFailure::from)?;
    }
    let staged = restore::stage(file, &config.ledger).map_err(AccountFailure::from)?;
    let done = {
        let _owner = AsOwner::begin(owner)?;
        restore::install(&staged, (&config.live, &config.ledger), replace, act)
    };
    let restored = match done {
        Ok(restored) => restored,
        // The name that was typed helps more than that of what was made of it.
        Err(AccountsError::File { path, problem } | AccountsError::Ledger { path, problem })
            if path == staged =>
        {
            restore::discard(&staged);
            return Err(AccountFailure::Setup(format!("{}: {problem}", file.display())).into());
        }
        Err(error) => {
            restore::discard(&staged);
            return Err(AccountFailure::from(error).into());
        }
    };
    let noted = identity::noted(&config.ledger).ok().flatten();
    if root && noted.is_none_or(|noted| noted.number != restored.identity.number) {
        identity::note(&config.ledger, restored.identity).map_err(AccountFailure::from)?;
    }
    {
        let _owner = AsOwner::begin(owner)?;
        Live::open(&config.live, &config.ledger, PATIENCE).map_err(AccountFailure::from)?;
    }
    let lines = restored.lines(&config.ledger);
    let text: Vec<String> = lines.iter().map(|line| note(args.json, line)).collect();
    answer(&text.concat(), 0)
}
