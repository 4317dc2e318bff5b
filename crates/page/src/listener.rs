//! Where the page listens: a port of this machine alone, or a socket in the file system.

use super::proxy::Peer;
use super::system::Problem;
use nix::sys::stat::{Mode, umask};
use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A loopback address; port 0 is any that is free.
    Address(SocketAddr),
    /// A socket in the file system, for its owner alone, or for a proxy too.
    Socket(PathBuf),
}

/// It listens.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "it removes the socket when it is dropped")] Remove,
    ),
}

/// Removes the socket at the end.
pub(crate) struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Listener {
    /// `others`: processes of other users are to reach a socket too.
    pub(crate) async fn open(place: &ListenAddress, others: bool) -> Result<Listener, Problem> {
        match place {
            ListenAddress::Address(address) => {
                if !address.ip().is_loopback() {
                    return Err(Problem::new(format!("{address} is not a loopback address")));
                }
                let bound = TcpListener::bind(address).await;
                bound.map(Listener::Tcp).map_err(|error| {
                    Problem::new(format!(
                        "--listen {address}: {error}; leave it out for a port that is free"
                    ))
                })
            }
            ListenAddress::Socket(path) => unix(path, others),
        }
    }

    /// The next connection, and who is at its other end: None over TCP.
    pub(crate) async fn accept(&self) -> (Box<dyn Stream>, Option<Peer>) {
        loop {
            let accepted: io::Result<(Box<dyn Stream>, Option<Peer>)> = match self {
                Listener::Tcp(tcp) => tcp.accept().await.map(|(stream, _)| {
                    let _ = stream.set_nodelay(true);
                    (Box::new(stream) as Box<dyn Stream>, None)
                }),
                Listener::Unix(unix, _) => unix.accept().await.and_then(|(stream, _)| {
                    let peer = Peer(stream.peer_cred()?.uid());
                    Ok((Box::new(stream) as Box<dyn Stream>, Some(peer)))
                }),
            };
            match accepted {
                Ok(accepted) => return accepted,
                // Too many open files, or a client that is gone: not for ever.
                Err(error) => {
                    log::debug!("a connection was not taken: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

fn unix(path: &Path, others: bool) -> Result<Listener, Problem> {
    let problem = |what: String| Problem::new(format!("--socket {}: {what}", path.display()));
    if others {
        directory(path).map_err(problem)?;
    }
    if let Ok(metadata) = fs::symlink_metadata(path) {
        let own = metadata.uid() == nix::unistd::geteuid().as_raw();
        if !own || !metadata.file_type().is_socket() {
            return Err(problem(
                "a file of this name exists and is not a socket; name another file".to_string(),
            ));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(problem(
                "another program listens there; name another file".to_string(),
            ));
        }
        // Left by one that was killed.
        fs::remove_file(path).map_err(|error| problem(error.to_string()))?;
    }
    // There is no other thread yet that could make a file meanwhile.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let bound = bound.map_err(|error| problem(error.to_string()))?;
    let remove = Remove(path.to_path_buf());
    if others {
        // Who is at the other end is asked of the kernel for each connection.
        fs::set_permissions(path, Permissions::from_mode(0o666))
            .map_err(|error| problem(error.to_string()))?;
    }
    Ok(Listener::Unix(bound, remove))
}

/// A proxy hands its users' requests to whoever listens there: nobody else may be able to put another socket in the place of this one.
fn directory(path: &Path) -> Result<(), String> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let metadata =
        fs::metadata(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let (owner, mode) = (metadata.uid(), metadata.mode());
    let own = nix::unistd::geteuid().as_raw();
    match owner == own || owner == 0 {
        true if mode & 0o022 == 0 => Ok(()),
        true => Err(format!(
            "others may write to {} (mode {:o}) and put a socket of their own there, before yours or in its place; take a directory that you alone write to: chmod go-w",
            parent.display(),
            mode & 0o7777
        )),
        false => Err(format!(
            "{} belongs to user number {owner}, who could put another socket there; take a directory of your own",
            parent.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, others: bool) -> Result<Listener, Problem> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("threads");
        let place = ListenAddress::Socket(path.to_path_buf());
        runtime.block_on(Listener::open(&place, others))
    }

    #[test]
    fn a_socket_for_a_proxy_is_where_nobody_else_can_put_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let mode = |path: &Path| fs::metadata(path).expect("it").mode() & 0o7777;
        let listener = open(&path, true).expect("a socket");
        assert_eq!(mode(&path), 0o666);
        drop(listener);
        assert!(!path.exists());
        let set = |mode| {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).expect("a mode");
        };
        for bad in [0o777, 0o770, 0o722, 0o1777] {
            set(bad);
            let said = open(&path, true).err().expect("no socket").to_string();
            assert!(said.contains("others may write"), "{said}");
            assert!(!path.exists());
        }
        // For the user alone it does not matter: nobody else opens it.
        set(0o777);
        let _listener = open(&path, false).expect("a socket");
        assert_eq!(mode(&path), 0o600);
    }
}
