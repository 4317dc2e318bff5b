//! What people type about a job, and what they are told of the core's decisions: the list of terms, words that were misspelt, and
//! sentences made of refusals and errors, which are data in the core. It knows what terms are, and no system that takes them. Nobody
//! reads a sentence back.

pub mod errors;
pub mod refusal;
pub mod terms;
pub mod words;
