//! The decision core and the book: is a job accepted, where, at which share and price, and who holds what. Pure: it knows no clock, no
//! file, no process and no batch system; `now` is a parameter.

pub mod book;
pub mod commitment;
pub mod decision;
pub mod gang;
