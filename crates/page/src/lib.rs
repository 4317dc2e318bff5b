//! `libra web`: a page for those who would rather click than type. It knows the programs that
//! users type, and none of the batch systems' crates.
//!
//! Started by a user on a login node, as a notebook server is; runs as that user and can do what that user can do, no more.
//! Nothing here decides about a job or keeps one: [`system`] runs the programs that the user could have typed.
//!
//! [`serve`] listens and ends, [`guard`] says who may ask and what leaves, [`routes`] knows the addresses, [`form`] looks at
//! what was typed, [`list`] which jobs are to be seen, [`news`] what has become of them, [`pages`] are pure functions from data to HTML, [`account`] and [`history`] read what others keep.

pub mod account;
pub mod address;
mod connections;
pub mod form;
pub mod guard;
pub mod history;
pub mod list;
pub mod news;
pub mod pages;
pub mod routes;
pub mod secret;
pub mod serve;
pub mod system;
