//! What the service answers with: ledger and live state, opened by each thread that needs them, and kept; and who a user is.

use crate::account::backend::PATIENCE;
use crate::account::change_rate::{BURST, ChangeRate, SECONDS_EACH};
use libra_accounts::flush::is_outdated;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::Live;
use libra_accounts::perform::perform;
use libra_accounts::request::{Caller, Reply, Request};
use libra_accounts::{AccountsError, unix_millis};
use libra_config::AccountsConfig;
use nix::unistd::{Group, Uid, User, getgrouplist};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

pub struct Files {
    config: AccountsConfig,
    owner: Uid,
    open: Mutex<Vec<(Live, Ledger)>>,
    changes: Mutex<ChangeRate>,
}

impl Files {
    /// Of the ledger's owner, who this process is or becomes.
    pub fn of(config: &AccountsConfig, owner: Uid) -> Files {
        Files {
            config: config.clone(),
            owner,
            open: Mutex::new(Vec::new()),
            changes: Mutex::default(),
        }
    }

    /// Opens them once: what would be wrong with each answer.
    pub fn try_once(&self) -> Result<(), AccountsError> {
        let first = self.take()?;
        self.give_back(first);
        Ok(())
    }

    fn take(&self) -> Result<(Live, Ledger), AccountsError> {
        let kept = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        if let Some((live, ledger)) = kept {
            // Another live state may have been made since, of another ledger as well.
            if live.is_there() && !is_outdated(&live, &ledger)? {
                return Ok((live, ledger));
            }
        }
        let live = Live::open(&self.config.live, &self.config, PATIENCE)?;
        let ledger = Ledger::open_briefly(&self.config, PATIENCE)?;
        Ok((live, ledger))
    }

    fn give_back(&self, files: (Live, Ledger)) {
        if files.1.is_alone() {
            return;
        }
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(files);
    }

    /// The answer to what a user asks, by number.
    pub fn answer(&self, uid: u32, text: &[u8]) -> Reply {
        let request = match Request::from_json(text) {
            Ok(request) => request,
            Err(problem) => return Reply::Refused(format!("not understood: {problem}")),
        };
        let caller = match self.caller(uid) {
            Ok(caller) => caller,
            Err(text) => return Reply::Failed(text),
        };
        if request.changes() && !caller.administrator {
            let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(seconds) = changes.change(uid, unix_millis()) {
                return Reply::Refused(format!(
                    "you have made {BURST} changes in a short time, and may make one more every {SECONDS_EACH} s; try again in {seconds} s"
                ));
            }
        }
        let done = self.take().and_then(|(mut live, ledger)| {
            let done = perform(&mut live, &ledger, &caller, &request, unix_millis());
            if !matches!(
                done,
                Err(AccountsError::Store { .. }
                    | AccountsError::File { .. }
                    | AccountsError::Unreachable { .. })
            ) {
                self.give_back((live, ledger));
            }
            done
        });
        match done {
            Ok(reply) => {
                if let Reply::Done { text, .. } = &reply {
                    log::info!("{}: {text}", caller.name);
                }
                reply
            }
            Err(error) if error.is_refusal() => Reply::Refused(error.to_string()),
            Err(error) => {
                log::error!("{}: {error}", caller.name);
                Reply::Failed(error.to_string())
            }
        }
    }

    /// Who a user is, by the system's databases as they are now.
    fn caller(&self, uid: u32) -> Result<Caller, String> {
        let user = match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => user,
            Ok(None) => return Err(format!("user id {uid} has no name on this host")),
            Err(error) => return Err(format!("user id {uid} cannot be looked up: {error}")),
        };
        let administrator = user.uid.is_root() || user.uid == self.owner || self.in_group(&user)?;
        Ok(Caller {
            name: user.name,
            administrator,
            group: self.config.administrators.clone(),
        })
    }

    fn in_group(&self, user: &User) -> Result<bool, String> {
        let name = &self.config.administrators;
        if name.is_empty() {
            return Ok(false);
        }
        let group = match Group::from_name(name) {
            Ok(Some(group)) => group,
            Ok(None) => {
                log::warn!("there is no group {name}, which accounts.administrators names");
                return Ok(false);
            }
            Err(error) => return Err(format!("group {name} cannot be looked up: {error}")),
        };
        let user_name = CString::new(user.name.as_str()).map_err(|error| error.to_string())?;
        let groups = getgrouplist(&user_name, user.gid)
            .map_err(|error| format!("groups of {} cannot be looked up: {error}", user.name))?;
        Ok(groups.contains(&group.gid))
    }
}
