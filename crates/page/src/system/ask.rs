//! Asking what a job would cost, by `libra quote`.

use super::command::Call;
use super::quote::Quote;
use super::submission::Submission;
use super::{Kind, Problem, Site, check_directory, plain, records};
use crate::secret;
use serde_json::Value;
use std::path::PathBuf;

/// A script for the time of a question.
struct Script(PathBuf);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Script {
    fn write(site: &Site, text: &str) -> Result<Script, Problem> {
        records::private(&site.state)?;
        let script = Script(
            site.state
                .join(format!("question-{}", &secret::word()[..16])),
        );
        records::write(&script.0, text.as_bytes(), 0o700)?;
        Ok(script)
    }
}

/// What this host answers, with the prices of other deadlines.
///
/// # Errors
/// A value is none, or nobody answers.
pub fn of_host(site: &Site, wanted: &Submission) -> Result<Quote, Problem> {
    answer(
        site.libra(&["quote", "--json"])
            .args(wanted.libra_options()),
    )
}

/// The same of a batch system, about a script with this text. `prepare`: what else the question needs.
///
/// # Errors
/// As [`of_host`].
pub fn of_batch(
    site: &Site,
    kind: &Kind,
    wanted: &Submission,
    text: &str,
    prepare: impl FnOnce(Call) -> Call,
) -> Result<Quote, Problem> {
    let script = Script::write(site, text)?;
    let call = site
        .libra(&["quote", "--json"])
        .args(wanted.libra_options());
    let call = prepare(call)
        .arg(format!("--system={}", kind.name))
        .arg("--")
        .arg(&script.0);
    answer(call.directory(check_directory(&wanted.directory)?))
}

/// The first line of a script, which says what reads it, and the rest.
pub fn head_and_rest(script: &str) -> (&str, &str) {
    match script.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => (first, rest),
        _ => ("#!/bin/sh", script),
    }
}

fn answer(call: Call) -> Result<Quote, Problem> {
    let done = call.run()?;
    let json: Value = serde_json::from_str(&done.out).unwrap_or_default();
    Quote::from_json(&json).ok_or_else(|| Problem::new(plain(&done)))
}

/// Returns true if this `libra quote` can ask batch systems. One of an older version cannot.
pub fn asks_batch_systems(site: &Site) -> bool {
    let help = site.libra(&["quote", "--help"]).run();
    help.is_ok_and(|help| help.out.contains("--system"))
}
