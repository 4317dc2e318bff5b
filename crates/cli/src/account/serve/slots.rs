//! How many connections are answered at a time, over the socket and over the network together.

use super::THREADS;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of one user.
const OF_ONE_USER: usize = THREADS / 2;
/// Connections of all.
const OF_ALL: usize = 128;

/// Those that there are, by the user's number.
pub type Connections = Arc<Mutex<HashMap<u32, usize>>>;

/// One of the connections that may be open at a time.
pub struct ConnectionSlot {
    present: Connections,
    uid: u32,
}

impl ConnectionSlot {
    /// None if this user, or all together, have as many as they may have.
    pub fn take(present: &Connections, uid: u32) -> Option<ConnectionSlot> {
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
