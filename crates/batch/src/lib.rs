//! What PBS, Slurm and a host alone have in common where jobs are admitted: who pays and which nodes, what a quote says, and what users
//! are told. It knows accounts and the book, and no batch system.

pub mod admit;
pub mod front_end;
pub mod quote;
pub mod quotes_file;
pub mod server;
pub mod verdict;
pub mod words;
