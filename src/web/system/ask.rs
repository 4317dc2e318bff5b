//! Asking what a job would cost, by `libra quote`.

use super::quote::Quote;
use super::{Kind, Problem, Site, Submission, check_directory, plain, records};
use crate::web::secret;
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
    fn write(site: &Site, kind: Kind, wanted: &Submission) -> Result<Script, Problem> {
        records::private(&site.state)?;
        let script = Script(
            site.state
                .join(format!("question-{}", &secret::word()[..16])),
        );
        let (first, rest) = match wanted.script.split_once('\n') {
            Some((first, rest)) if first.starts_with("#!") => (first, rest),
            _ => ("#!/bin/sh", wanted.script.as_str()),
        };
        // A question has no option for it.
        let queue = match (kind, wanted.queue.as_str()) {
            (_, "") | (Kind::Local, _) => String::new(),
            (Kind::Slurm, queue) => format!("#SBATCH --partition={queue}\n"),
            (Kind::Pbs, queue) => format!("#PBS -q {queue}\n"),
        };
        let text = format!("{first}\n{queue}{rest}\n");
        records::write(&script.0, text.as_bytes(), 0o700)?;
        Ok(script)
    }
}

/// The answer, with the prices of other deadlines.
///
/// # Errors
/// A value is none, or nobody answers.
pub fn ask(site: &Site, kind: Kind, wanted: &Submission) -> Result<Quote, Problem> {
    let call = site.libra(&["quote", "--json"]).args(wanted.terms());
    let (call, _script) = match kind {
        Kind::Local => (call, None),
        _ => {
            let script = Script::write(site, kind, wanted)?;
            let call = call
                .arg(format!("--system={}", kind.name()))
                .arg("--")
                .arg(&script.0);
            (
                call.directory(check_directory(&wanted.directory)?),
                Some(script),
            )
        }
    };
    let done = call.run()?;
    let json: Value = serde_json::from_str(&done.out).unwrap_or_default();
    Quote::from_json(&json).ok_or_else(|| Problem::new(plain(&done)))
}

/// Can this `libra quote` ask batch systems? One of an older version cannot.
pub fn asks_batch_systems(site: &Site) -> bool {
    let help = site.libra(&["quote", "--help"]).run();
    help.is_ok_and(|help| help.out.contains("--system"))
}
