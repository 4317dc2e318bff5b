//! The same work on many items, on all cores.
//!
//! Invariant: the results stand in the order of the items, whatever the number of threads and
//! whichever of them was quicker.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Is told how many items are done, of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Does `work` on every item, on so many threads (at least one).
///
/// # Panics
/// Where `work` does.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    progress: Progress<'_>,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let take_turns = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return results;
            };
            results.push((index, work(item)));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads = threads.clamp(1, items.len().max(1));
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_turns)).collect();
        let mut results = take_turns();
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = items.iter().map(|n| n * n).collect();
        for threads in [0, 1, 3, 200] {
            let most = AtomicUsize::new(0);
            let progress = |done: usize, all: usize| {
                assert_eq!(all, 100);
                most.fetch_max(done, Ordering::Relaxed);
            };
            assert_eq!(map(&items, threads, &progress, |n| n * n), squares);
            assert_eq!(most.load(Ordering::Relaxed), 100);
        }
        assert_eq!(map(&[], 4, &|_, _| (), |n: &u64| *n), Vec::<u64>::new());
    }
}
