//! `libra web`: a page for those who would rather click than type. It knows the programs that
//! users type, and none of the batch systems' crates.
//!
//! Started by a user on a login node, as a notebook server is; runs as that user and can do what that user can do, no more.
//! Nothing here decides about a job or keeps one: [`system`] runs the programs that the user could have typed.
//!
//! [`serve`] listens and ends, [`guard`] says who may ask and what leaves, [`proxy`] who is logged in elsewhere, [`routes`] knows the addresses, [`site`] what was asked a moment ago, [`form`] looks at
//! what was typed, [`list`] which jobs are to be seen, [`news`] what has become of them, [`pages`] are pure functions from data to HTML, [`account`] and [`history`] read what others keep.
//! [`overview`] is another page, of all users' jobs, that changes nothing. Of one job [`profile`] is its progress over time, [`told`] what else there is to tell, [`advice`] what its user may learn, and [`terminal`] shows what it has printed.

pub mod account;
pub mod address;
pub mod advice;
mod connections;
pub mod form;
pub mod guard;
pub mod history;
pub mod list;
pub mod listener;
pub mod news;
pub mod overview;
pub mod pages;
pub mod profile;
pub mod proxy;
pub mod routes;
pub mod secret;
pub mod serve;
pub mod site;
pub mod system;
pub mod terminal;
pub mod told;
