//! A bar on the terminal while a simulation runs.

use crate::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use libra_simulator::experiment::{Progress, Run};
use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

/// Shorter runs have no bar.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(100);

/// Does the work in another thread; shows how far it is once it takes longer than a second.
pub fn shown(
    jobs: u64,
    work: impl FnOnce(&Progress) -> Result<Vec<Run>, Failure> + Send,
) -> Result<Vec<Run>, Failure> {
    let progress = Progress::default();
    if !std::io::stderr().is_terminal() {
        return work(&progress);
    }
    std::thread::scope(|scope| {
        let (done, waiting) = mpsc::channel::<()>();
        let (working, progress) = (&progress, &progress);
        let worker = scope.spawn(move || {
            let result = work(working);
            // Nobody is left to wait only where this thread is no longer waited for either.
            let _ = done.send(());
            result
        });
        let still = |wait| waiting.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout);
        if still(PATIENCE) {
            let bar = ProgressBar::with_draw_target(Some(jobs), ProgressDrawTarget::stderr());
            let style = "{bar:30} {percent:>3} %  {human_pos} of {human_len} jobs, {eta} left";
            bar.set_style(
                ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar()),
            );
            while still(INTERVAL) {
                bar.set_position(progress.jobs());
            }
            bar.finish_and_clear();
        }
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
