//! The parts of a job on its nodes. Most jobs are on one, and then the part is in the job itself.

use super::Allocation;
use std::ops::{Deref, DerefMut};

/// A job's parts, one for each of its nodes.
#[derive(Debug, Clone)]
pub(super) enum Places {
    One(Allocation),
    Many(Box<[Allocation]>),
}

impl From<Vec<Allocation>> for Places {
    fn from(parts: Vec<Allocation>) -> Places {
        match parts[..] {
            [only] => Places::One(only),
            _ => Places::Many(parts.into()),
        }
    }
}

impl FromIterator<Allocation> for Places {
    fn from_iter<I: IntoIterator<Item = Allocation>>(parts: I) -> Places {
        let mut parts = parts.into_iter();
        match (parts.next(), parts.next()) {
            (Some(only), None) => Places::One(only),
            (first, second) => Places::Many(first.into_iter().chain(second).chain(parts).collect()),
        }
    }
}

impl Deref for Places {
    type Target = [Allocation];

    #[inline]
    fn deref(&self) -> &[Allocation] {
        match self {
            Places::One(only) => std::slice::from_ref(only),
            Places::Many(parts) => parts,
        }
    }
}

impl DerefMut for Places {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Allocation] {
        match self {
            Places::One(only) => std::slice::from_mut(only),
            Places::Many(parts) => parts,
        }
    }
}
