//! What people type about a job: the list of terms, and words that were misspelt. It knows what terms are, and no system that takes them.

pub mod terms;
pub mod words;
