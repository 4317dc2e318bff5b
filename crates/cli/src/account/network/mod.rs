//! Asking the service of another host: what 'libra account' does on login and submit hosts, where no ledger is (`accounts.servers`). [`super::serve::remote`] is the other end.
//!
//! Who asks and who answers is proven by credentials ([`munge`]): the question is readable for the ledger's owner alone, the answer for who has asked, and has to come from
//! the ledger's owner or root. [`message`] is what stands in them.
//!
//! Invariant: a question that changes something is put to one server only once it was sent: whether it was done is then not known, and said so.

pub mod message;
pub mod munge;

use super::AccountFailure;
use libra_accounts::identity;
use libra_accounts::request::{Reply, Request};
use libra_config::AccountsConfig;
use libra_system::random;
use message::Answer;
use munge::Munge;
use nix::unistd::User;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A server takes a connection within so long.
const CONNECT: Duration = Duration::from_secs(10);
/// The whole answer is waited for so long: a check of a large ledger takes a while.
const ANSWER: Duration = Duration::from_secs(120);
/// Longest line of an answer, in bytes.
const LINE: u64 = 2 << 20;

/// Returns true if the ledger is on another host: one is named, and there is no place for a ledger here and was none.
pub fn is_elsewhere(config: &AccountsConfig) -> bool {
    let home = config.ledger.parent().unwrap_or(Path::new("/"));
    let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    !config.servers.is_empty()
        && std::fs::metadata(home).is_err_and(|error| missing(&error))
        && matches!(identity::noted(&config.ledger), Ok(None))
}

/// Number of the user who has the ledger; the same on all hosts, as MUNGE wants it.
fn owner(config: &AccountsConfig) -> Result<u32, AccountFailure> {
    let unknown = |why: String| {
        AccountFailure::Setup(format!(
            "accounts.owner is '{}': {why}",
            libra_units::cut(&config.owner)
        ))
    };
    if config.owner.is_empty() {
        return Ok(0);
    }
    match User::from_name(&config.owner) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(unknown("there is no such user on this host".to_string())),
        Err(error) => Err(unknown(error.to_string())),
    }
}

/// Why a server has given no answer.
struct Silence {
    /// The question may have come to it.
    sent: bool,
    why: String,
}

/// Asks the servers in their order, until one answers.
pub fn ask(config: &AccountsConfig, request: &Request) -> Result<Reply, AccountFailure> {
    let failed = |problem: String| AccountFailure::Service(problem);
    let owner = owner(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let reply = runtime.block_on(async {
        let mut silent = Vec::new();
        for server in &config.servers {
            match one(server, config, owner, request).await {
                Ok(reply) => return Ok(reply),
                Err(Silence { sent: true, why }) if request.changes() => {
                    return Err(failed(format!(
                        "{server}: {why}; whether it was done is not known: see 'libra account statement' before it is tried again"
                    )));
                }
                Err(Silence { why, .. }) => silent.push(format!("{server}: {why}")),
            }
        }
        Err(failed(format!(
            "{} (accounts.servers in the configuration names who is asked)",
            silent.join("; ")
        )))
    });
    // Where the name of a server is still looked up, nobody waits for that.
    runtime.shutdown_background();
    reply
}

async fn one(
    server: &str,
    config: &AccountsConfig,
    owner: u32,
    request: &Request,
) -> Result<Reply, Silence> {
    let unsent = |why: String| Silence { sent: false, why };
    let munge = Munge::new(&config.munge_socket);
    let number = random::bits().map_err(|error| unsent(error.to_string()))?;
    let number = format!("{number:032x}");
    let text = serde_json::to_string(request).map_err(|error| unsent(error.to_string()))?;
    let stream = match timeout(CONNECT, TcpStream::connect(server)).await {
        Err(_) => Err(format!("no connection within {} s", CONNECT.as_secs())),
        Ok(connected) => connected.map_err(|error| error.to_string()),
    };
    let stream = stream.map_err(|why| {
        unsent(format!(
            "{why}; does 'libra account serve' listen there (accounts.listen)?"
        ))
    })?;
    let mut lines = BufReader::new(stream);
    let mut greeting = Vec::new();
    let mut first = (&mut lines).take(LINE);
    match timeout(CONNECT, first.read_until(b'\n', &mut greeting)).await {
        Err(_) => {
            return Err(unsent(format!(
                "no greeting within {} s",
                CONNECT.as_secs()
            )));
        }
        Ok(read) => read.map_err(|error| unsent(error.to_string()))?,
    };
    let greeting = String::from_utf8_lossy(&greeting);
    let connection = message::read_greeting(&greeting).ok_or_else(|| {
        unsent(match message::read_refusal(&greeting) {
            Some(why) => format!("it does not answer, and says '{why}'"),
            None => "no service of accounts of this version of Libra answers there".to_string(),
        })
    })?;
    let question = message::question(connection, &number, &text);
    let credential = munge.encode(&question, owner).await.map_err(unsent)?;
    let talk = async {
        let asked = (lines.write_all(format!("{credential}\n").as_bytes())).await;
        let mut answer = Answer::to(&number);
        loop {
            let mut line = Vec::new();
            let read = (&mut lines).take(LINE).read_until(b'\n', &mut line).await;
            read.map_err(|error| error.to_string())?;
            if !line.ends_with(b"\n") {
                asked.map_err(|error| error.to_string())?;
                return Err("it has ended without an answer".to_string());
            }
            let line = String::from_utf8_lossy(&line);
            if let Some(why) = message::read_refusal(&line) {
                return Err(format!("it does not answer, and says '{why}'"));
            }
            let (who, part) = (munge.decode(line.trim_end()).await)
                .map_err(|why| format!("what it answers cannot be believed: {why}"))?;
            if who != 0 && who != owner {
                return Err(format!(
                    "the answer is not from root or the ledger's owner, but from user id {who}; accounts.owner in the configuration names the owner"
                ));
            }
            if let Some(whole) = answer.take(&part)? {
                return serde_json::from_slice(&whole).map_err(|error| {
                    format!("an answer that cannot be read ({error}); is it of another version?")
                });
            }
        }
    };
    let sent = |why: String| Silence { sent: true, why };
    match timeout(ANSWER, talk).await {
        Err(_) => Err(sent(format!("no answer within {} s", ANSWER.as_secs()))),
        Ok(answered) => answered.map_err(sent),
    }
}
