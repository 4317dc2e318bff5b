//! Who answers: the files themselves, for root and their owner, or the service, for everybody else.

use super::{AccountFailure, network};
use libra_accounts::identity;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::{self, Live};
use libra_accounts::perform::perform;
use libra_accounts::request::{Caller, Reply, Request};
use libra_accounts::unix_millis;
use libra_config::AccountsConfig;
use nix::unistd::{Gid, Uid, User, geteuid, getuid, setegid, seteuid};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Another process's transaction is waited for so long.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The service's answer is waited for so long: a check of a large ledger takes a while.
const ANSWER: Duration = Duration::from_secs(120);
/// The service takes a connection within so long, or is stopped: it does nothing else meanwhile.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest answer that is taken, in bytes.
const LONGEST: u64 = 1 << 30;

/// Who answers.
pub enum Backend {
    /// We do, with the files.
    Files {
        live: Box<Live>,
        ledger: Box<Ledger>,
        caller: Caller,
    },
    /// The service does.
    Service(PathBuf),
    /// That of another host does.
    Elsewhere,
}

impl Backend {
    /// Finds out who answers this user.
    pub fn open(config: &AccountsConfig) -> Result<Backend, AccountFailure> {
        if network::is_elsewhere(config) {
            return Ok(Backend::Elsewhere);
        }
        let Some(owner) = owner(&config.ledger)? else {
            return Ok(Backend::Service(config.socket.clone()));
        };
        ready(config, owner)?;
        let _owner = AsOwner::begin(owner)?;
        Ok(Backend::Files {
            live: Box::new(Live::open(&config.live, config, PATIENCE)?),
            ledger: Box::new(Ledger::open_briefly(config, PATIENCE)?),
            caller: Caller {
                name: user_name(getuid())?,
                administrator: true,
                group: config.administrators.clone(),
            },
        })
    }

    /// Asks. What is refused is an error.
    pub fn ask(
        &mut self,
        config: &AccountsConfig,
        request: &Request,
    ) -> Result<Reply, AccountFailure> {
        match self {
            Backend::Files {
                live,
                ledger,
                caller,
            } => {
                let owner = owner(&config.ledger)?;
                let _owner = owner.map(AsOwner::begin).transpose()?;
                Ok(perform(live, ledger, caller, request, unix_millis())?)
            }
            Backend::Service(socket) => told(over(socket, request)?),
            Backend::Elsewhere => told(network::ask(config, request)?),
        }
    }
}

/// What a service has answered; what it refuses is an error.
fn told(reply: Reply) -> Result<Reply, AccountFailure> {
    match reply {
        Reply::Refused(text) => Err(AccountFailure::Refused(text)),
        Reply::Failed(text) => Err(AccountFailure::Service(text)),
        reply => Ok(reply),
    }
}

/// What root has to do before its owner can open the ledger: the live state's directory is where only root makes any, and which ledger
/// it is stands where only root writes. Nothing for others.
pub fn ready(config: &AccountsConfig, owner: (Uid, Gid)) -> Result<(), AccountFailure> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let which = {
        let _owner = AsOwner::begin(owner)?;
        Ledger::open_briefly(config, PATIENCE)?.which()?
    };
    live::make_directory(&config.live, &config.ledger)?;
    // One that was made before this was noted.
    if identity::noted(&config.ledger)?.is_none() {
        if let Err(error) = identity::note(&config.ledger, which) {
            log::warn!("accounts: which ledger is this host's own is not noted: {error}");
        }
    }
    Ok(())
}

/// Owner of the ledger's directory, where this process may work in it: is root, or the owner.
pub fn owner(ledger: &Path) -> Result<Option<(Uid, Gid)>, AccountFailure> {
    let home = ledger.parent().unwrap_or(Path::new("/"));
    let us = geteuid();
    let found = match fs::metadata(home) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let help = match identity::noted(ledger) {
                Ok(None) => "root makes it with: libra account init".to_string(),
                _ => "this host has had a ledger there: mount its disk, or make the directory and bring back a copy with: libra account \
                     restore FILE"
                    .to_string(),
            };
            return Err(AccountFailure::Setup(format!(
                "{}: is not there; {help}",
                home.display()
            )));
        }
        // Somebody who may not even know.
        Err(_) if !us.is_root() => return Ok(None),
        Err(error) => {
            return Err(AccountFailure::Setup(format!(
                "{}: {error}",
                home.display()
            )));
        }
    };
    let owner = Uid::from_raw(found.uid());
    Ok((us.is_root() || us == owner).then_some((owner, Gid::from_raw(found.gid()))))
}

/// Name of a user.
pub fn user_name(uid: Uid) -> Result<String, AccountFailure> {
    match User::from_uid(uid) {
        Ok(Some(user)) => Ok(user.name),
        Ok(None) => Err(AccountFailure::Setup(format!(
            "user id {uid} has no name on this host"
        ))),
        Err(error) => Err(AccountFailure::Setup(format!(
            "the name of user id {uid} cannot be looked up: {error}"
        ))),
    }
}

/// While it is there root works as the owner of the ledger, so that what is made is the owner's, and what lies there can lead
/// root nowhere else.
pub struct AsOwner {
    group: Option<Gid>,
}

impl AsOwner {
    /// Begins; nothing happens for who is the owner.
    pub fn begin((user, group): (Uid, Gid)) -> Result<AsOwner, AccountFailure> {
        if geteuid() == user {
            return Ok(AsOwner { group: None });
        }
        let before = nix::unistd::getegid();
        let failed =
            |error| AccountFailure::Setup(format!("cannot work as user id {user}: {error}"));
        setegid(group).map_err(failed)?;
        // From here on dropping this gives everything back.
        let begun = AsOwner {
            group: Some(before),
        };
        seteuid(user).map_err(failed)?;
        Ok(begun)
    }
}

impl Drop for AsOwner {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // Back to root, which may do both.
            let _ = seteuid(Uid::from_raw(0));
            let _ = setegid(group);
        }
    }
}

/// Connects, or says that nobody answers: the kernel's own waiting, for one who is stopped, has no end.
pub fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    let (told, tells) = mpsc::channel();
    let path = socket.to_path_buf();
    // It is left alone where it waits for ever; this program does not live long.
    std::thread::Builder::new().spawn(move || told.send(UnixStream::connect(path)))?;
    tells.recv_timeout(CONNECT).unwrap_or_else(|_| {
        Err(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            format!("no connection within {} s", CONNECT.as_secs()),
        ))
    })
}

/// Reads until a moment, however little comes at a time.
struct Until<'a>(&'a UnixStream, Instant);

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.0.set_read_timeout(Some(left))?;
        let mut stream = self.0;
        stream.read(buffer)
    }
}

/// One question to the service.
fn over(socket: &Path, request: &Request) -> Result<Reply, AccountFailure> {
    over_within(socket, request, ANSWER)
}

fn over_within(
    socket: &Path,
    request: &Request,
    patience: Duration,
) -> Result<Reply, AccountFailure> {
    let failed =
        |problem: String| AccountFailure::Service(format!("{}: {problem}", socket.display()));
    let stream = connect(socket).map_err(|error| {
        failed(format!(
            "{error}; accounts of users are answered by a service, which an administrator starts with: \
             systemctl start libra-accounts"
        ))
    })?;
    let mut text = serde_json::to_string(request).map_err(|error| failed(error.to_string()))?;
    text.push('\n');
    let silent = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => failed(format!(
            "no answer within {} s; is the service stopped? An administrator can see with: systemctl status libra-accounts",
            patience.as_secs_f64()
        )),
        _ => failed(format!("the service ended without an answer: {error}")),
    };
    stream.set_write_timeout(Some(patience)).map_err(silent)?;
    // A service that is full answers before it is asked.
    let asked = (&stream).write_all(text.as_bytes());
    let mut line = String::new();
    BufReader::new(Until(&stream, Instant::now() + patience).take(LONGEST))
        .read_line(&mut line)
        .map_err(silent)?;
    if line.is_empty() {
        asked.map_err(silent)?;
        return Err(failed("the service ended without an answer".to_string()));
    }
    serde_json::from_str(&line).map_err(|error| {
        failed(format!(
            "an answer that cannot be read ({error}); is the service of another version?"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// What is said when somebody else than the service is asked, and waited for for so long.
    fn asked_of(patience: Duration, answer: impl FnOnce(UnixStream) + Send + 'static) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("bound");
        let thread = std::thread::spawn(move || answer(listener.accept().expect("asked").0));
        let request = Request::Balance { account: None };
        let said = over_within(&socket, &request, patience)
            .expect_err("no answer")
            .to_string();
        thread.join().expect("no panic");
        said
    }

    #[test]
    fn who_never_answers_is_waited_for_no_longer_than_may_be() {
        let (short, long) = (Duration::from_millis(200), Duration::from_secs(120));
        let silent = |mut stream: UnixStream| {
            let _ = stream.read_to_end(&mut Vec::new());
        };
        let said = asked_of(short, silent);
        assert!(said.contains("no answer within 0.2 s"), "{said}");
        // A byte now and then is no answer.
        let dripping = |mut stream: UnixStream| {
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let said = asked_of(short, dripping);
        assert!(said.contains("no answer within 0.2 s"), "{said}");
        let said = asked_of(long, drop);
        assert!(said.contains("ended without an answer"), "{said}");
        let other = |mut stream: UnixStream| {
            let _ = stream.write_all(b"220 mail ready\n");
        };
        let said = asked_of(long, other);
        assert!(said.contains("cannot be read"), "{said}");
    }
}
