//! What the agent shows of itself, and of the processes that admit: over HTTP ([`serve`]), and in files.
//!
//! The control loop hands over a few numbers after each round and waits for nobody. Reading, rendering, serving and
//! writing are done by threads of their own; if one of them fails, the log says so and the agent goes on.

mod serve;

use libra_config::{Config, System};
use libra_host::control::{ControlLoop, Round};
use libra_host::{Host, HostError};
use libra_metrics::figures::{show_counts, show_host};
use libra_metrics::files::{read, read_record, replace};
use libra_metrics::{Counts, Format, HostFigures, Page};
use libra_system::clock::unix_time;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the control loop hands over.
pub struct Watch {
    source: Arc<Source>,
    figures: HostFigures,
    /// Seconds of throttling that earlier leaderships of this process have seen, and this one.
    throttled: (f64, f64),
}

/// Where a page comes from.
struct Source {
    figures: Mutex<HostFigures>,
    /// The registry's file of counts.
    counts: PathBuf,
    /// Where admitting processes write.
    directory: Option<PathBuf>,
}

impl Watch {
    /// Starts what is configured; None if nothing is.
    pub fn start(host: &Host, listen: Option<SocketAddr>) -> Option<Watch> {
        let config = &host.config().metrics;
        // It was checked when it was read.
        let listen = listen.or_else(|| config.listen.parse().ok());
        let directory = (!config.directory.is_empty()).then(|| PathBuf::from(&config.directory));
        if listen.is_none() && directory.is_none() {
            return None;
        }
        let figures = HostFigures {
            processors: host.machine().spec.processors,
            enforced: host.unenforced().is_none(),
            ..HostFigures::default()
        };
        let source = Arc::new(Source {
            figures: Mutex::new(figures.clone()),
            counts: host.counts_path(),
            directory,
        });
        if let Some(address) = listen {
            serve::start(address, Arc::clone(&source));
        }
        if let Some(directory) = source.directory.clone() {
            write_regularly(host.config().clone(), directory, Arc::clone(&source));
        }
        Some(Watch {
            source,
            figures,
            throttled: (0.0, 0.0),
        })
    }

    /// A round was done, or could not be.
    pub fn round(
        &mut self,
        round: &Result<Option<Round>, HostError>,
        control: Option<&mut ControlLoop<'_>>,
        took: Duration,
    ) {
        let figures = &mut self.figures;
        figures.taken = Some(unix_time());
        match round {
            Ok(Some(round)) => {
                figures.rounds.observe(took);
                figures.drifts += round.drifted as u64;
                figures.adjusted += round.adjusted as u64;
            }
            Ok(None) => {}
            Err(_) => figures.failed += 1,
        }
        figures.jobs = control.as_ref().map(|control| control.jobs());
        if let Some(control) = control {
            control.measure_throttling();
            let (before, last) = self.throttled;
            let now = control.throttled();
            // A new leadership begins with 0.
            self.throttled = (if now < last { before + last } else { before }, now);
            figures.throttled = self.throttled.0 + now;
        }
        self.source.figures().clone_from(&self.figures);
    }
}

impl Source {
    fn figures(&self) -> MutexGuard<'_, HostFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of this host alone.
    fn own(&self) -> Page {
        let figures = self.figures().clone();
        let mut page = Page::new();
        show_host(&mut page, &figures);
        match read_record(&self.counts, System::Local) {
            Ok(Some(record)) => show_counts(&mut page, System::Local, &record.totals),
            Ok(None) => show_counts(&mut page, System::Local, &Counts::EMPTY),
            // Who counts says it in his log, at each count.
            Err(problem) => log::debug!("{problem}"),
        }
        page
    }

    /// With what the admitting processes have written.
    fn page(&self) -> Page {
        let mut page = self.own();
        for system in System::batch() {
            let file = (self.directory.as_ref())
                .map(|directory| directory.join(format!("{}.prom", system.name())));
            match file.as_deref().map(read) {
                Some(Ok(Some(text))) => page.merge(&text, system),
                Some(Err(error)) => log::debug!("{}: {error}", system.name()),
                Some(Ok(None)) | None => {}
            }
        }
        page
    }
}

/// Begins the thread that writes `local.prom` and `local.json`.
fn write_regularly(config: Config, directory: PathBuf, source: Arc<Source>) {
    let begun = std::thread::Builder::new()
        .name("metrics-files".to_string())
        .spawn(move || {
            let pause = Duration::from_secs_f64(config.metrics.interval.0);
            let host = match Host::open(config) {
                Ok(host) => host,
                Err(error) => return log::error!("metrics are not written: {error}"),
            };
            let mut failing = false;
            loop {
                let written = write(&host, &directory, &source);
                match &written {
                    Ok(()) if failing => log::info!("metrics are written again"),
                    Err(problem) if !failing => {
                        log::error!("{problem}; metrics are not written, the agent goes on");
                    }
                    _ => {}
                }
                failing = written.is_err();
                std::thread::sleep(pause);
            }
        });
    if let Err(error) = begun {
        log::error!("metrics are not written: {error}");
    }
}

fn write(host: &Host, directory: &Path, source: &Source) -> Result<(), String> {
    let path = directory.join("local.json");
    let now = unix_time();
    let mut record = host.counts()?;
    // The registry is gone after a reboot, the history is not.
    if let Some(before) = read_record(&path, System::Local)? {
        let series = record.as_ref().map(|record| record.series.as_str());
        let continued = record.as_ref().is_some_and(|record| record.continued);
        if series != Some(before.series.as_str()) && !continued {
            record = Some(host.continue_counts(&before).map_err(|e| e.to_string())?);
        }
    }
    if let Some(record) = record {
        replace(&path, &format!("{}\n", record.to_json(System::Local, now)))?;
    }
    replace(
        &directory.join("local.prom"),
        &source.own().text(Format::Prometheus),
    )
}
