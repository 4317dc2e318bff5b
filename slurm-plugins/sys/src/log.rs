//! Lines in the log of the Slurm daemon or client that a plugin runs in.

use crate::slurm;
use crate::text::c_string;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// A line at a level; Slurm's own settings say which are written.
pub fn write(level: Level, line: &str) {
    for line in line.lines() {
        let line = c_string(&format!("libra: {line}"));
        // SAFETY: a constant format for one text that ends with a NUL.
        unsafe {
            let (format, text) = (c"%s".as_ptr(), line.as_ptr());
            match level {
                Level::Error | Level::Warn => slurm::slurm_error(format, text),
                Level::Info => slurm::slurm_info(format, text),
                Level::Debug => slurm::slurm_verbose(format, text),
                Level::Trace => slurm::slurm_debug(format, text),
            }
        }
    }
}

struct SlurmLog;

impl Log for SlurmLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        write(record.level(), &record.args().to_string());
    }
    fn flush(&self) {}
}

/// Sends what the library has to say to Slurm's log.
pub fn install() {
    static LOG: SlurmLog = SlurmLog;
    // Fails where it was done before; then it is done.
    if log::set_logger(&LOG).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}
