//! `libra account serve`: answers users who cannot open the ledger themselves.
//!
//! One line of JSON is a [`libra_accounts::request::Request`], one line is the [`Reply`]. Who asks is what the kernel says of the other end of the socket; of users
//! on other hosts MUNGE says it ([`remote`]).
//!
//! Invariants:
//! - Nobody waits for another client: each connection is a task of its own, the work is done by a few threads with files of
//!   their own, and one user has at most half as many connections as there are threads.
//! - What a user changes is written down for ever, so a user who is no administrator makes few changes in a time ([`super::change_rate`]).
//! - A line is at most [`LINE`] bytes; a client that says nothing, or does not read, for [`IDLE`] is left alone.
//! - Root's rights are given up for those of the ledger's owner before anybody is answered.

mod files;
mod remote;
mod slots;

use super::AccountFailure;
use super::backend;
use crate::Done;
use files::Files;
use libra_accounts::ledger::{Claim, Location};
use libra_accounts::request::Reply;
use libra_accounts::writer::Writer;
use libra_config::AccountsConfig;
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};
use remote::Remote;
use slots::{ConnectionSlot, Connections};
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// Longest request, in bytes.
const LINE: usize = 64 * 1024;
/// A client may be silent for so long.
const IDLE: Duration = Duration::from_secs(10);
/// Threads that work.
const THREADS: usize = 8;
/// What is said to who has too many connections.
const BUSY: &str = "the service is busy; try again";

pub fn serve(config: &AccountsConfig) -> Done {
    let Some(owner) = backend::owner(&config.ledger)? else {
        return Err(AccountFailure::Refused(format!(
            "only root and the owner of {} may serve accounts",
            config.ledger.display()
        ))
        .into());
    };
    backend::ready(config, owner)?;
    let (lock, listeners) = listen(config, owner)?;
    let files = Files::of(config, owner.0);
    files.try_once().map_err(AccountFailure::from)?;
    let _writer = Writer::start(config.live.clone(), Location::of(config), Claim::Own)
        .map_err(|error| AccountFailure::Setup(format!("no thread to write down: {error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()
        .map_err(|error| AccountFailure::Setup(error.to_string()))?;
    let network = match config.listen.as_str() {
        "" => String::new(),
        address => format!(" and at {address}"),
    };
    log::info!(
        "accounts of {} are answered at {}{network}",
        Location::of(config),
        config.socket.display()
    );
    let served = runtime.block_on(accept(listeners, config, Arc::new(files)));
    // A client that waits for its answer does not keep us.
    runtime.shutdown_timeout(Duration::from_secs(2));
    let _ = fs::remove_file(&config.socket);
    drop(lock);
    served.map_err(|error| AccountFailure::Setup(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Where users come in.
struct Listeners {
    local: StdListener,
    /// None if nobody is answered over the network.
    network: Option<StdTcpListener>,
}

/// Listens, and becomes the owner for good. Only one does for a ledger: it has the lock.
fn listen(
    config: &AccountsConfig,
    owner: (Uid, Gid),
) -> Result<(nix::fcntl::Flock<fs::File>, Listeners), AccountFailure> {
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
    let network = match config.listen.as_str() {
        "" => None,
        address => {
            let failed =
                |error| AccountFailure::Setup(format!("accounts.listen is {address}: {error}"));
            let listener = StdTcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            Some(listener)
        }
    };
    if geteuid() != owner.0 {
        setgroups(&[])
            .and_then(|()| setgid(owner.1))
            .and_then(|()| setuid(owner.0))
            .map_err(|error| {
                AccountFailure::Setup(format!("cannot become user id {}: {error}", owner.0))
            })?;
    }
    let listeners = Listeners {
        local: listener,
        network,
    };
    Ok((lock, listeners))
}

async fn accept(
    listeners: Listeners,
    config: &AccountsConfig,
    files: Arc<Files>,
) -> std::io::Result<()> {
    let local = UnixListener::from_std(listeners.local)?;
    let network = listeners.network.map(TcpListener::from_std).transpose()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let present = Connections::default();
    let remote = Arc::new(Remote::new(
        config,
        Arc::clone(&files),
        Arc::clone(&present),
    ));
    loop {
        let accepted = tokio::select! {
            accepted = local.accept() => accepted.map(|(stream, _)| begin(stream, &files, &present)),
            accepted = from_network(network.as_ref()) => accepted.map(|stream| remote.begin(stream)),
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        };
        if let Err(error) = accepted {
            // Too many files, say: some will be closed.
            log::warn!("a connection could not be taken: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The next connection over the network; none ever comes where nobody listens there.
async fn from_network(listener: Option<&TcpListener>) -> std::io::Result<tokio::net::TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Answers a user on this host, in a task of its own.
fn begin(stream: UnixStream, files: &Arc<Files>, present: &Connections) {
    let Ok(uid) = stream.peer_cred().map(|peer| peer.uid()) else {
        return;
    };
    let Some(place) = ConnectionSlot::take(present, uid) else {
        let busy = Reply::Failed(BUSY.to_string());
        let _ = stream.try_write(line(&busy).as_bytes());
        return;
    };
    let files = Arc::clone(files);
    tokio::spawn(async move {
        let _place = place;
        if let Err(error) = talk(&stream, uid, files).await {
            log::debug!("user id {uid}: {error}");
        }
    });
}

async fn talk(stream: &UnixStream, uid: u32, files: Arc<Files>) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = timeout(IDLE, read_line(stream, &mut buffer)).await?? else {
            return Ok(());
        };
        let text = line(&answer(&files, uid, request).await);
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

/// What is answered to a user, by one of the threads that work.
async fn answer(files: &Arc<Files>, uid: u32, request: Vec<u8>) -> Reply {
    let files = Arc::clone(files);
    tokio::task::spawn_blocking(move || files.answer(uid, &request))
        .await
        .unwrap_or_else(|_| Reply::Failed("a fault of the service".to_string()))
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
