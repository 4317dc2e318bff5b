//! Which job has an id or a token: four bytes for each, as the id itself stands in the job.
//!
//! A table with open addressing. What stands in it are keys of jobs; what they are looked up by is the caller's to hash and to compare.

/// Nothing is here.
const EMPTY: u32 = u32::MAX;

/// Keys of jobs, by a hash of something that no two jobs share.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    /// As many as a power of two, or none. A key stands at its hash or behind it, with nothing empty between.
    slots: Vec<u32>,
    count: usize,
}

impl Keys {
    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn behind(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// The key of this hash that `is` the one that is looked for.
    pub(super) fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.home(hash);
        while self.slots[slot] != EMPTY {
            let key = self.slots[slot] as usize;
            if is(key) {
                return Some(key);
            }
            slot = self.behind(slot);
        }
        None
    }

    /// Takes a key that is not there. `hash_of`: the hash of any that is.
    pub(super) fn insert(&mut self, hash: u64, key: usize, hash_of: impl Fn(usize) -> u64) {
        // At three quarters it is half as large again to look for one that is not there as at a half.
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            let larger = (self.slots.len() * 2).max(16);
            let keys = std::mem::replace(&mut self.slots, vec![EMPTY; larger]);
            for key in keys.into_iter().filter(|key| *key != EMPTY) {
                self.put(hash_of(key as usize), key);
            }
        }
        self.put(hash, key as u32);
        self.count += 1;
    }

    fn put(&mut self, hash: u64, key: u32) {
        let mut slot = self.home(hash);
        while self.slots[slot] != EMPTY {
            slot = self.behind(slot);
        }
        self.slots[slot] = key;
    }

    /// Takes a key out, if it is there. `hash_of`: the hash of any other that is.
    pub(super) fn remove(&mut self, hash: u64, key: usize, hash_of: impl Fn(usize) -> u64) {
        if self.slots.is_empty() {
            return;
        }
        let mut hole = self.home(hash);
        while self.slots[hole] != key as u32 {
            if self.slots[hole] == EMPTY {
                return;
            }
            hole = self.behind(hole);
        }
        self.count -= 1;
        // Who stands behind it moves up, unless that were before its hash.
        let mask = self.slots.len() - 1;
        let mut next = self.behind(hole);
        while self.slots[next] != EMPTY {
            let home = self.home(hash_of(self.slots[next] as usize));
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = self.behind(next);
        }
        self.slots[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::Keys;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Of few hashes, so that many keys have the same and stand behind one another, around the end as well.
        #[test]
        fn keys_are_found_until_they_are_taken_out(
            hashes in 1u64..40,
            steps in proptest::collection::vec((any::<bool>(), 0usize..60), 1..300),
        ) {
            let hash = |key: usize| (key as u64 * 7 % hashes) | 12;
            let mut keys = Keys::default();
            let mut there = BTreeSet::new();
            for (comes, key) in steps {
                if comes && there.insert(key) {
                    keys.insert(hash(key), key, hash);
                } else if !comes {
                    keys.remove(hash(key), key, hash);
                    there.remove(&key);
                }
                prop_assert_eq!(keys.len(), there.len());
                for key in 0..60 {
                    let found = keys.find(hash(key), |other| other == key);
                    prop_assert_eq!(found.is_some(), there.contains(&key));
                }
            }
        }
    }
}
