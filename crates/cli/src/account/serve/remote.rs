//! The service for users on other hosts: a connection is one question in a credential of MUNGE, and its answer ([`crate::account::network::message`]).
//!
//! Invariants:
//! - A user is who MUNGE says has written the question; nothing else that comes over the network is believed.
//! - A question is good for the connection that it was put on, and answered once.
//! - Connections that have not said whose they are are few, and those from one address fewer: the oldest gives way to one more, so that one host keeps no other out.
//! - An answer is readable for the user who has asked alone.

use super::files::Files;
use super::slots::{ConnectionSlot, Connections};
use super::{BUSY, IDLE, LINE, THREADS, answer, line};
use crate::account::network::message;
use crate::account::network::munge::Munge;
use libra_accounts::request::Reply;
use libra_config::AccountsConfig;
use libra_system::random;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Connections that have not said whose they are.
const UNKNOWN: usize = 64;
/// Those of them from one address.
const OF_ONE_ADDRESS: usize = 16;

pub struct Remote {
    munge: Munge,
    files: Arc<Files>,
    present: Connections,
    unknown: Mutex<Unknown>,
    /// MUNGE is asked about so many questions at a time.
    reading: Semaphore,
}

/// Connections that have not said whose they are, oldest first.
#[derive(Default)]
struct Unknown {
    begun: u64,
    tasks: Vec<(u64, IpAddr, AbortHandle)>,
}

impl Unknown {
    /// Lets the oldest go where there are too many, of this address or of all.
    fn make_room(&mut self, address: IpAddr) {
        let of_it = |(_, other, _): &(u64, IpAddr, AbortHandle)| *other == address;
        let oldest = match self.tasks.iter().filter(|task| of_it(task)).count() {
            many if many >= OF_ONE_ADDRESS => self.tasks.iter().position(of_it),
            _ => (self.tasks.len() >= UNKNOWN).then_some(0),
        };
        if let Some(oldest) = oldest {
            self.tasks.remove(oldest).2.abort();
        }
    }
}

impl Remote {
    /// `present`: the connections over the socket count too.
    pub fn new(config: &AccountsConfig, files: Arc<Files>, present: Connections) -> Remote {
        Remote {
            munge: Munge::new(&config.munge_socket),
            files,
            present,
            unknown: Mutex::default(),
            reading: Semaphore::new(THREADS),
        }
    }

    /// Answers a connection, in a task of its own.
    pub fn begin(self: &Arc<Self>, stream: TcpStream) {
        let Ok(address) = stream.peer_addr().map(|peer| peer.ip()) else {
            return; // it has gone
        };
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.make_room(address);
        unknown.begun += 1;
        let (number, this) = (unknown.begun, Arc::clone(self));
        let task = tokio::spawn(async move {
            let mut stream = BufReader::new(stream);
            let heard = this.hear(&mut stream).await;
            this.is_known(number);
            let said = match heard {
                Ok(question) => this.say(&mut stream, question).await,
                Err(why) => Err(why),
            };
            if let Err(why) = said {
                log::debug!("over the network: {why}");
                let refusal = message::refusal(&why);
                let _ = timeout(IDLE, stream.write_all(refusal.as_bytes())).await;
            }
        });
        unknown.tasks.push((number, address, task.abort_handle()));
    }

    fn is_known(&self, number: u64) {
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.tasks.retain(|(other, ..)| *other != number);
    }

    /// What is asked, and by whom.
    async fn hear(&self, stream: &mut BufReader<TcpStream>) -> Result<Question, String> {
        let connection = random::bits().map_err(|error| error.to_string())?;
        let connection = format!("{connection:032x}");
        let greeting = message::greeting(&connection);
        (timeout(IDLE, stream.write_all(greeting.as_bytes())).await)
            .map_err(|_| "it does not read".to_string())?
            .map_err(|error| error.to_string())?;
        let mut line = Vec::new();
        // Encoded it is longer than the question by a third, and by what MUNGE adds.
        let most = 2 * LINE as u64;
        let read = timeout(IDLE, stream.take(most).read_until(b'\n', &mut line)).await;
        read.map_err(|_| format!("no question within {} s", IDLE.as_secs()))?
            .map_err(|error| error.to_string())?;
        let credential = std::str::from_utf8(&line)
            .ok()
            .and_then(|line| line.strip_suffix('\n'));
        let credential =
            credential.ok_or_else(|| format!("a question is a line of at most {most} bytes"))?;
        let _turn = self
            .reading
            .acquire()
            .await
            .map_err(|error| error.to_string())?;
        let (uid, text) = self.munge.decode(credential).await?;
        let (number, request) = message::read_question(&connection, &text)?;
        Ok(Question {
            uid,
            number: number.to_string(),
            request: request.to_vec(),
        })
    }

    async fn say(
        &self,
        stream: &mut BufReader<TcpStream>,
        question: Question,
    ) -> Result<(), String> {
        let Question {
            uid,
            number,
            request,
        } = question;
        let place = ConnectionSlot::take(&self.present, uid);
        let reply = line(&match place {
            Some(_) => answer(&self.files, uid, request).await,
            None => Reply::Failed(BUSY.to_string()),
        });
        for part in message::answer(&number, reply.trim_end()) {
            let credential = self.munge.encode(&part, uid).await? + "\n";
            timeout(IDLE, stream.write_all(credential.as_bytes()))
                .await
                .map_err(|_| format!("user id {uid} does not read"))?
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// A question over the network.
struct Question {
    /// Who asks.
    uid: u32,
    /// The asker's own for it.
    number: String,
    request: Vec<u8>,
}
