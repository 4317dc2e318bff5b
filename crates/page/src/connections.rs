//! The connections that are open, of which there is a bounded number.
//!
//! Whoever reaches the address can connect, other users of the machine too. Where there is no room for one more, the oldest that has not shown
//! that it may see pages gives way, so that nobody is kept out by connections that say nothing.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::oneshot;
use tokio::task::{Id, JoinSet};

/// Connections at a time, without those that are about to end.
const MOST: usize = 64;

/// Whether somebody has come in by a connection, with the token or the cookie of a session; and how much has moved by it.
#[derive(Debug, Clone, Default)]
pub struct Entered(Arc<(AtomicBool, AtomicU64)>);

impl Entered {
    /// Somebody has.
    pub fn set(&self) {
        self.0.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if somebody has.
    pub fn is_set(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// A request has come, or a part of a file was taken.
    pub fn moves(&self) {
        self.0.1.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests have come, and parts of files were taken.
    pub fn moved(&self) -> u64 {
        self.0.1.load(Ordering::Relaxed)
    }
}

/// All of them, each a task.
#[derive(Debug, Default)]
pub struct Connections {
    tasks: JoinSet<()>,
    /// The oldest first.
    open: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    task: Id,
    entered: Entered,
    /// Dropped when it is to give way.
    _stays: oneshot::Sender<()>,
}

impl Connections {
    /// One more. `serve` makes its task: it is told by whom it was entered, and resolves soon after the receiver does.
    pub fn begin<Task>(&mut self, serve: impl FnOnce(Entered, oneshot::Receiver<()>) -> Task)
    where
        Task: Future<Output = ()> + Send + 'static,
    {
        if self.open.len() >= MOST {
            // Where all are the user's own, the oldest of them is asked to end when it has answered.
            let given = self.open.iter().position(|one| !one.entered.is_set());
            self.open.remove(given.unwrap_or(0));
        }
        let entered = Entered::default();
        let (stays, leave) = oneshot::channel();
        let task = self.tasks.spawn(serve(entered.clone(), leave)).id();
        self.open.push_back(Open {
            task,
            entered,
            _stays: stays,
        });
    }

    /// Waits until one has ended; never, where there is none.
    pub async fn ended(&mut self) {
        let task = match self.tasks.join_next_with_id().await {
            Some(Ok((task, ()))) => task,
            Some(Err(error)) => {
                log::debug!("a connection broke off: {error}");
                error.id()
            }
            None => return std::future::pending().await,
        };
        self.open.retain(|one| one.task != task);
    }

    /// Waits until all have ended.
    pub async fn all_ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Begins connections that last until they have to give way: their numbers, as they go, and those that have entered.
    #[tokio::test]
    async fn who_says_nothing_gives_way_to_others_the_oldest_first() {
        let mut connections = Connections::default();
        let gone = Arc::new(Mutex::new(Vec::new()));
        let mut entered = Vec::new();
        for number in 0..MOST + 3 {
            let gone = Arc::clone(&gone);
            connections.begin(|shown, leave| {
                entered.push(shown);
                async move {
                    let _ = leave.await;
                    gone.lock().expect("it").push(number);
                }
            });
            if number < 2 {
                entered[number].set();
            }
        }
        for _ in 0..3 {
            connections.ended().await;
        }
        assert_eq!(*gone.lock().expect("it"), [2, 3, 4]);
        assert_eq!(connections.open.len(), MOST);
        // Nobody has to go of whom nobody knows better.
        entered.iter().for_each(Entered::set);
        connections.begin(|_, leave| async move { drop(leave.await) });
        connections.ended().await;
        assert_eq!(gone.lock().expect("it").last(), Some(&0));
        drop(std::mem::take(&mut connections.open));
        connections.all_ended().await;
        assert_eq!(gone.lock().expect("it").len(), MOST + 3);
    }
}
