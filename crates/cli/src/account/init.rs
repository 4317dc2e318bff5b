//! `libra account init`: the directory of the ledger, for who admits.

use super::backend::{AsOwner, PATIENCE, ready, user_name};
use super::{AccountFailure, off};
use crate::Done;
use crate::args::Args;
use libra_accounts::AccountsError;
use libra_accounts::identity;
use libra_accounts::ledger::{Claim, Ledger, Location};
use libra_accounts::live::{self, Live};
use libra_accounts::unix_millis;
use libra_administration::slurm::slurm_user;
use libra_config::{AccountsConfig, AccountsMode};
use libra_terminal::{answer, note};
use nix::unistd::{Gid, Uid, User, geteuid};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

pub fn init(config: &AccountsConfig, named: Option<&str>, take_over: bool, args: &Args) -> Done {
    if take_over && config.database.is_empty() {
        return Err(AccountFailure::Usage(
            "--take-over is for a ledger in a database; accounts.database in the configuration names none".to_string(),
        )
        .into());
    }
    let home = config.ledger.parent().unwrap_or(Path::new("/"));
    let failed = |path: &Path, error: std::io::Error| {
        AccountFailure::Setup(format!("{}: {error}", path.display()))
    };
    let owner = wanted(home, named)?;
    if let Some(above) = home.parent() {
        let mut directories = fs::DirBuilder::new();
        let made = directories.recursive(true).mode(0o755).create(above);
        made.map_err(|error| failed(above, error))?;
    }
    let made = match fs::DirBuilder::new().mode(0o700).create(home) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => return Err(failed(home, error).into()),
    };
    let found = fs::symlink_metadata(home).map_err(|error| failed(home, error))?;
    let at_home = found.is_dir() && !made && found.uid() == owner.uid.as_raw();
    if !made {
        ours_alone(config, home, &found, &owner)?;
    }
    if geteuid().is_root() && !at_home {
        std::os::unix::fs::lchown(home, Some(owner.uid.as_raw()), Some(owner.gid.as_raw()))
            .map_err(|error| failed(home, error))?;
    }
    if found.mode() & 0o777 != 0o700 {
        fs::set_permissions(home, fs::Permissions::from_mode(0o700))
            .map_err(|error| failed(home, error))?;
    }
    let at = Location::of(config);
    let there = {
        let _owner = AsOwner::begin((owner.uid, owner.gid))?;
        Ledger::is_made(&at).map_err(AccountFailure::from)?
    };
    if !there {
        never_had(config)?;
        let _owner = AsOwner::begin((owner.uid, owner.gid))?;
        Ledger::make(&at, unix_millis()).map_err(AccountFailure::from)?;
    }
    ready(config, (owner.uid, owner.gid))?;
    {
        let _owner = AsOwner::begin((owner.uid, owner.gid))?;
        let claim = match take_over {
            true => Claim::Expired,
            false => Claim::Own,
        };
        match Live::open_within(&config.live, &at, (PATIENCE, PATIENCE), claim) {
            Ok(_) => {}
            // This one is ready to take over.
            Err(AccountsError::Leased { .. }) if !take_over => {}
            Err(error) => return Err(AccountFailure::from(error).into()),
        }
    }
    at_boot(&config.live, &owner)?;
    let mut text = format!(
        "{at} {}, of user {}{}",
        if there { "is there already" } else { "is made" },
        owner.name,
        // Who may do what in a database is the database's.
        if at.database().is_none() {
            " alone"
        } else {
            " here"
        }
    );
    if config.mode == AccountsMode::Off {
        text = format!("{text}; {}", off(args));
    }
    answer(&note(args.json, &text), 0)
}

/// A host that has had a ledger gets no empty one in its place.
fn never_had(config: &AccountsConfig) -> Result<(), AccountFailure> {
    let path = Location::of(config);
    if let Some(own) = identity::noted(&config.ledger)? {
        let note = identity::note_path(&config.ledger).unwrap_or_default();
        return Err(AccountFailure::Setup(format!(
            "{path}: is not there, and this host has had a ledger there ({own}): mount its disk, or bring back a copy with: libra account restore \
             FILE. To begin without it, and give up all that was in it, remove {} and {} first",
            note.display(),
            config.live.display()
        )));
    }
    match live::surviving(&config.live, &config.ledger).first() {
        None => Ok(()),
        Some((surviving, _)) => Err(AccountFailure::Setup(format!(
            "{path}: is not there, and there is a live state of a ledger ({}): mount its disk, or bring back a copy with: libra account restore \
             FILE. To begin without it, stop what admits and remove {} first",
            surviving.display(),
            config.live.display()
        ))),
    }
}

/// What is below /run is gone after a boot, and its owner cannot make it there.
fn at_boot(live: &Path, owner: &Owner) -> Result<(), AccountFailure> {
    let directory = Path::new("/etc/tmpfiles.d");
    if !geteuid().is_root() || !live.starts_with("/run/") || !directory.is_dir() {
        return Ok(());
    }
    let path = directory.join("libra-accounts.conf");
    let text = format!(
        "# Written by 'libra account init'.\nd {} 0700 {} {} -\n",
        live.display(),
        owner.name,
        owner.gid
    );
    fs::write(&path, text)
        .map_err(|error| AccountFailure::Setup(format!("{}: {error}", path.display())))
}

struct Owner {
    name: String,
    uid: Uid,
    gid: Gid,
}

/// Who is to own it: who was named, who owns it already, who admits here.
fn wanted(home: &Path, named: Option<&str>) -> Result<Owner, AccountFailure> {
    let us = geteuid();
    let name = match (named, fs::symlink_metadata(home)) {
        (Some(name), _) => name.to_string(),
        (None, Ok(found)) => user_name(Uid::from_raw(found.uid()))?,
        (None, Err(_)) if us.is_root() => slurm_user().unwrap_or_else(|| "root".to_string()),
        (None, Err(_)) => user_name(us)?,
    };
    let user = match User::from_name(&name) {
        Ok(Some(user)) => user,
        Ok(None) => {
            return Err(AccountFailure::Usage(format!(
                "there is no user {name} on this host; name who admits with --owner: root for PBS, SlurmUser for Slurm, the admin user for Grid Engine"
            )));
        }
        Err(error) => {
            return Err(AccountFailure::Setup(format!(
                "user {name} cannot be looked up: {error}"
            )));
        }
    };
    if !us.is_root() && us != user.uid {
        return Err(AccountFailure::Refused(format!(
            "only root can make a ledger for {name}; run it as root"
        )));
    }
    Ok(Owner {
        name,
        uid: user.uid,
        gid: user.gid,
    })
}

/// A directory that was there before: is there nothing else in it, and is it not somebody else's?
fn ours_alone(
    config: &AccountsConfig,
    home: &Path,
    found: &fs::Metadata,
    owner: &Owner,
) -> Result<(), AccountFailure> {
    if !found.is_dir() {
        return Err(AccountFailure::Setup(format!(
            "{}: is not a directory; accounts.ledger in the configuration names it",
            home.display()
        )));
    }
    let name = config.ledger.file_name().unwrap_or_default();
    let entries = fs::read_dir(home)
        .map_err(|error| AccountFailure::Setup(format!("{}: {error}", home.display())))?;
    let mut empty = true;
    for entry in entries.flatten() {
        let entry = entry.file_name();
        let (entry, name) = (entry.to_string_lossy(), name.to_string_lossy());
        empty = false;
        if found.mode() & 0o077 != 0 && !entry.starts_with(name.as_ref()) {
            return Err(AccountFailure::Setup(format!(
                "{}: others use it as well ({entry}); name a directory of its own with accounts.ledger in the configuration",
                home.display()
            )));
        }
    }
    if !empty && found.uid() != owner.uid.as_raw() {
        let now = user_name(Uid::from_raw(found.uid()))
            .unwrap_or_else(|_| format!("user id {}", found.uid()));
        return Err(AccountFailure::Setup(format!(
            "{}: belongs to {now}; to hand it over, stop what admits, then: chown -R {} {} && rm -r {}",
            home.display(),
            owner.name,
            home.display(),
            config.live.display()
        )));
    }
    Ok(())
}
