//! Credentials of MUNGE (<https://dun.github.io/munge/>): who has written a text, proven among hosts that share a key, and readable for one user alone. By its
//! two programs, so that nothing of MUNGE has to be there where accounts are not asked for over the network.
//!
//! Invariant: what `unmunge` does not call a success is nobody's. A credential that was read before is none: MUNGE says so on the host that has read it.

use libra_units::in_one_line;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// MUNGE's daemon answers at once, or is stopped.
const LIMIT: Duration = Duration::from_secs(10);
/// A credential is good for so many seconds: less than an answer is waited for, so that nothing is done that its asker has given up.
const GOOD_FOR: &str = "60";

/// MUNGE on this host.
#[derive(Debug, Clone)]
pub struct Munge {
    /// Where its daemon listens; None: where its programs look.
    socket: Option<PathBuf>,
}

impl Munge {
    /// `socket`: of its daemon; empty: the usual one.
    pub fn new(socket: &str) -> Munge {
        let socket = (!socket.is_empty()).then(|| socket.into());
        Munge { socket }
    }

    /// A credential of this user that only `reader` can read (the number of a user, the same on all hosts): one word.
    ///
    /// # Errors
    /// In words: MUNGE is not there, does not run, or takes no such text (more than a MiB).
    pub async fn encode(&self, text: &[u8], reader: u32) -> Result<String, String> {
        let reader = reader.to_string();
        let words = ["--restrict-uid", &reader, "--ttl", GOOD_FOR];
        let done = self.run("munge", &words, text).await?;
        let credential = String::from_utf8_lossy(&done.stdout).trim().to_string();
        match credential.is_empty() || credential.contains(char::is_whitespace) {
            true => Err("munge has made no credential".to_string()),
            false => Ok(credential),
        }
    }

    /// Who has written a credential, by number, and what it says.
    ///
    /// # Errors
    /// In words: it is none, is for another reader, of another key, too old, or was read before; or MUNGE does not run.
    pub async fn decode(&self, credential: &str) -> Result<(u32, Vec<u8>), String> {
        let done = self
            .run("unmunge", &["--keys", "STATUS,UID"], credential.as_bytes())
            .await?;
        // Lines about it, an empty one, and the text.
        let end = done.stdout.windows(2).position(|two| two == b"\n\n");
        let said = end.map(|end| {
            (
                String::from_utf8_lossy(&done.stdout[..end]),
                &done.stdout[end + 2..],
            )
        });
        let read = said.and_then(|(who, text)| {
            let who = who.lines().find_map(|line| line.strip_prefix("UID:"))?;
            let (_, number) = who.trim().strip_suffix(')')?.rsplit_once('(')?;
            Some((number.parse().ok()?, text.to_vec()))
        });
        read.ok_or_else(|| "unmunge does not say whose the credential is".to_string())
    }

    async fn run(&self, program: &str, words: &[&str], text: &[u8]) -> Result<Output, String> {
        let mut command = Command::new(program);
        if let Some(socket) = &self.socket {
            command.arg("--socket").arg(socket);
        }
        command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!(
                "there is no program '{program}' here: install MUNGE, with the key that the other hosts have, and start its daemon"
            ),
            _ => format!("{program}: {error}"),
        })?;
        let input = child.stdin.take();
        let work = async {
            // It reads all of it before it says anything. One that ends earlier says why.
            if let Some(mut input) = input {
                let _ = input.write_all(text).await;
            }
            child.wait_with_output().await
        };
        let done = match timeout(LIMIT, work).await {
            Err(_) => {
                return Err(format!(
                    "{program} has not ended within {} s: is munged stopped?",
                    LIMIT.as_secs()
                ));
            }
            Ok(done) => done.map_err(|error| format!("{program}: {error}"))?,
        };
        if done.status.success() {
            return Ok(done);
        }
        // Of one that was read before, or is too old, it shows what it says, and that.
        let (errors, output) = (
            String::from_utf8_lossy(&done.stderr),
            String::from_utf8_lossy(&done.stdout),
        );
        let said = (errors.lines().next())
            .or_else(|| output.lines().find_map(|line| line.strip_prefix("STATUS:")))
            .map(str::trim);
        Err(match said {
            None => format!("{program} does not say why ({})", done.status),
            Some(said) => format!(
                "{program}: {}",
                in_one_line(said.rsplit("Error: ").next().unwrap_or(said))
            ),
        })
    }
}
