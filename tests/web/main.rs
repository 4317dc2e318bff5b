//! `libra web` over HTTP, as a browser sees it and as somebody else would try it: who is let in, what may be asked for, what
//! comes back. What it looks like and how it feels is for tests/web/run.

mod attacks;
mod client;
mod output;
mod overview;
mod pages;
mod proxy;
mod support;
