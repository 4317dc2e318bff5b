//! `libra account serve`: answers users who cannot open the ledger themselves.
//!
//! One line of JSON is a [`Request`], one line is the [`Reply`]. Who asks is what the kernel says of the other end of the socket.
//!
//! Invariants:
//! - Nobody waits for another client: each connection is a task of its own, the work is done by a few threads with files of
//!   their own, and one user has at most half as many connections as there are threads.
//! - What a user changes is written down for ever, so a user who is no administrator makes few changes in a time ([`super::change_rate`]).
//! - A line is at most [`LINE`] bytes; a client that says nothing, or does not read, for [`IDLE`] is left alone.
//! - Root's rights are given up for those of the ledger's owner before anybody is answered.

use super::AccountFailure;
use super::backend::{self, PATIENCE};
use super::change_rate::{BURST, ChangeRate, SECONDS_EACH};
use crate::Done;
use libra_accounts::flush::is_outdated;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::Live;
use libra_accounts::perform::perform;
use libra_accounts::request::{Caller, Reply, Request};
use libra_accounts::writer::Writer;
use libra_accounts::{AccountsError, unix_millis};
use libra_config::AccountsConfig;
use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist, setgid, setgroups, setuid};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// Longest request, in bytes.
const LINE: usize = 64 * 1024;
/// A client may be silent for so long.
const IDLE: Duration = Duration::from_secs(10);
/// Threads that work.
const THREADS: usize = 8;
/// Connections of one user.
const OF_ONE_USER: usize = THREADS / 2;
/// Connections of all.
const OF_ALL: usize = 128;

pub fn serve(config: &AccountsConfig) -> Done {
    let Some(owner) = backend::owner(&config.ledger)? else {
        return Err(AccountFailure::Refused(format!(
            "only root and the owner of {} may serve accounts",
            config.ledger.display()
        ))
        .into());
    };
    backend::ready(config, owner)?;
    let (lock, listener) = listen(config, owner)?;
    let files = Files {
        config: config.clone(),
        owner: owner.0,
        open: Mutex::new(Vec::new()),
        changes: Mutex::default(),
    };
    // Says now what would be wrong with each answer.
    let first = files.take().map_err(AccountFailure::from)?;
    files.give_back(first);
    let _writer = Writer::start(config.live.clone(), config.ledger.clone())
        .map_err(|error| AccountFailure::Setup(format!("no thread to write down: {error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()
        .map_err(|error| AccountFailure::Setup(error.to_string()))?;
    log::info!(
        "accounts of {} are answered at {}",
        config.ledger.display(),
        config.socket.display()
    );
    let served = runtime.block_on(accept(listener, Arc::new(files)));
    // A client that waits for its answer does not keep us.
    runtime.shutdown_timeout(Duration::from_secs(2));
    let _ = fs::remove_file(&config.socket);
    drop(lock);
    served.map_err(|error| AccountFailure::Setup(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Listens, and becomes the owner for good. Only one does for a ledger: it has the lock.
fn listen(
    config: &AccountsConfig,
    owner: (Uid, Gid),
) -> Result<(nix::fcntl::Flock<fs::File>, StdListener), AccountFailure> {
    let socket = &config.socket;
    let failed = |path: &Path, error: std::io::Error| {
        AccountFailure::Setup(format!("{}: {error}", path.display()))
    };
    let lock = {
        let _owner = backend::AsOwner::begin(owner)?;
        let path = config.ledger.with_extension("serving");
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| failed(&path, error))?;
        nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock)
            .map_err(|_| AccountFailure::Setup("these accounts are served already".to_string()))?
    };
    if let Some(home) = socket.parent() {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(home);
        made.map_err(|error| failed(home, error))?;
    }
    match fs::symlink_metadata(socket) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(socket, error)),
        // What one that was killed left behind.
        Ok(found) if found.file_type().is_socket() => {
            if backend::connect(socket).is_ok() {
                return Err(AccountFailure::Setup(format!(
                    "{}: another program listens there; name another socket with accounts.socket in the configuration",
                    socket.display()
                )));
            }
            fs::remove_file(socket).map_err(|error| failed(socket, error))?;
        }
        Ok(_) => {
            return Err(AccountFailure::Setup(format!(
                "{}: exists and is not a socket; accounts.socket in the configuration names it",
                socket.display()
            )));
        }
    }
    let listener = StdListener::bind(socket).map_err(|error| failed(socket, error))?;
    let all = fs::Permissions::from_mode(0o666);
    fs::set_permissions(socket, all).map_err(|error| failed(socket, error))?;
    listener
        .set_nonblocking(true)
        .map_err(|error| failed(socket, error))?;
    if geteuid() != owner.0 {
        setgroups(&[])
            .and_then(|()| setgid(owner.1))
            .and_then(|()| setuid(owner.0))
            .map_err(|error| {
                AccountFailure::Setup(format!("cannot become user id {}: {error}", owner.0))
            })?;
    }
    Ok((lock, listener))
}

async fn accept(listener: StdListener, files: Arc<Files>) -> std::io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let present = Arc::new(Mutex::new(HashMap::<u32, usize>::new()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many files, say: some will be closed.
                log::warn!("a connection could not be taken: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(uid) = stream.peer_cred().map(|peer| peer.uid()) else {
            continue;
        };
        match ConnectionSlot::take(&present, uid) {
            Some(place) => {
                let files = Arc::clone(&files);
                tokio::spawn(async move {
                    let _place = place;
                    if let Err(error) = talk(&stream, uid, files).await {
                        log::debug!("user id {uid}: {error}");
                    }
                });
            }
            None => {
                let busy = Reply::Failed("the service is busy; try again".to_string());
                let _ = stream.try_write(line(&busy).as_bytes());
            }
        }
    }
}

/// One of the connections that may be open at a time.
struct ConnectionSlot {
    present: Arc<Mutex<HashMap<u32, usize>>>,
    uid: u32,
}

impl ConnectionSlot {
    fn take(present: &Arc<Mutex<HashMap<u32, usize>>>, uid: u32) -> Option<ConnectionSlot> {
        let mut counts = present.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = counts.values().sum();
        let own = counts.entry(uid).or_default();
        if all >= OF_ALL || *own >= OF_ONE_USER {
            return None;
        }
        *own += 1;
        Some(ConnectionSlot {
            present: Arc::clone(present),
            uid,
        })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut counts = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = counts.get_mut(&self.uid) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}

async fn talk(stream: &UnixStream, uid: u32, files: Arc<Files>) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = timeout(IDLE, read_line(stream, &mut buffer)).await?? else {
            return Ok(());
        };
        let files = Arc::clone(&files);
        let reply = tokio::task::spawn_blocking(move || files.answer(uid, &request))
            .await
            .unwrap_or_else(|_| Reply::Failed("a fault of the service".to_string()));
        let text = line(&reply);
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            timeout(IDLE, stream.writable()).await??;
            match stream.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The next line; none at the end. The time for all of it is the caller's business.
async fn read_line(stream: &UnixStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let rest = buffer.split_off(end + 1);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        if buffer.len() > LINE {
            let long = Reply::Refused(format!("a request has at most {LINE} bytes"));
            let _ = stream.try_write(line(&long).as_bytes());
            return Ok(None);
        }
        stream.readable().await?;
        let mut some = [0; 4096];
        match stream.try_read(&mut some) {
            Ok(0) => return Ok(None),
            Ok(count) => buffer.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn line(reply: &Reply) -> String {
    match serde_json::to_string(reply) {
        Ok(text) => text + "\n",
        Err(_) => "{\"failed\":\"an answer that cannot be written\"}\n".to_string(),
    }
}

/// Ledger and live state, opened by each thread that needs them, and kept.
struct Files {
    config: AccountsConfig,
    owner: Uid,
    open: Mutex<Vec<(Live, Ledger)>>,
    changes: Mutex<ChangeRate>,
}

impl Files {
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
        let live = Live::open(&self.config.live, &self.config.ledger, PATIENCE)?;
        let ledger = Ledger::open_briefly(&self.config.ledger, PATIENCE)?;
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

    fn answer(&self, uid: u32, text: &[u8]) -> Reply {
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
                Err(AccountsError::Store { .. } | AccountsError::File { .. })
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
