//! `libra agent`

use super::args::{AgentArgs, Args};
use super::metrics::Watch;
use super::{Done, Failure};
use libra_config::{Config, last, site};
use libra_host::control::{ControlLoop, Round};
use libra_host::entry::Process;
use libra_host::{Host, HostError};
use libra_terminal::answer;
use log::Level;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn system(action: &'static str) -> impl Fn(nix::errno::Errno) -> Failure {
    move |errno| {
        Failure::Host(HostError::System {
            action,
            error: errno.into(),
        })
    }
}

pub fn agent(agent: &AgentArgs, args: &Args) -> Done {
    let host = Host::open(site::load_unattended(args.config.as_deref())?)?;
    libra_host::supervise::raise_file_limit();
    let mut stop = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        stop.add(signal);
    }
    stop.thread_block().map_err(system("hold back signals"))?;
    let stop = SignalFd::with_flags(&stop, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(system("wait for signals"))?;
    match host.unenforced() {
        Some(reason) => log::error!("shares are NOT enforced on this host: {reason}"),
        None => log::info!("{}", host.enforcement()),
    }
    log::info!(
        "{} with {} processors; registry {}",
        host.machine().name,
        host.machine().spec.processors,
        host.registry().directory().display()
    );
    if nix::unistd::geteuid().is_root() && Process::are_hidden() {
        log::warn!(
            "/proc hides the processes of others from this one (hidepid): jobs that are killed end slowly, and what was left by a 'libra run' that was killed \
             may be found late. Give it the group that the mount's option gid= names (systemctl edit libra-agent: SupplementaryGroups=)"
        );
    }
    let interval = Duration::from_secs_f64(host.config().agent.interval.0.min(3600.0));
    let mut watch = match agent.once {
        true => None,
        false => Watch::start(&host, agent.metrics),
    };
    let mut control: Option<ControlLoop<'_>> = None;
    let mut failing = false;
    let mut waiting = false;
    let mut rules = Rules::of(args);
    loop {
        let start = Instant::now();
        rules.poll(host.config());
        let led = control.is_some();
        let round = host.lead_a_round(&mut control);
        if let Some(watch) = &mut watch {
            watch.round(&round, control.as_mut(), start.elapsed());
        }
        if !led && control.is_some() {
            host.clean()?;
            host.report_orphans()?;
            if waiting {
                log::info!("this process now runs the control loop of this host");
            }
            waiting = false;
        }
        match round {
            Ok(Some(round)) => {
                failing = false;
                if round.adjusted + round.drifted + round.ended > 0 {
                    log::debug!("{round:?} in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
                }
                if args.json && agent.once {
                    return answer(&format!("{}\n", json(&round)), 0);
                }
            }
            // Said once, not every second for a weekend.
            Err(error) if !failing => {
                failing = true;
                log::error!("{error}; trying again every {} s", interval.as_secs_f64());
                if agent.once {
                    return Err(error.into());
                }
            }
            Err(_) => {}
            Ok(None) if agent.once => {
                let text = if args.json {
                    serde_json::json!({"led": false}).to_string()
                } else {
                    "another process runs the control loop of this host; nothing was done".into()
                };
                return answer(&format!("{text}\n"), 0);
            }
            Ok(None) if !waiting => {
                waiting = true;
                log::info!(
                    "another process runs the control loop of this host; waiting to take over"
                );
            }
            Ok(None) => {}
        }
        if agent.once {
            return Ok(ExitCode::SUCCESS);
        }
        let pause = interval.saturating_sub(start.elapsed()).as_millis().max(1);
        let pause = PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, pause);
        if stop
            .read_signal()
            .map_err(system("read signals"))?
            .is_some()
        {
            log::info!("the agent ends; jobs run on at the shares they have");
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The file that the rules are of. The agent goes on by what it has read, and says where that is not what the next one would read.
struct Rules {
    file: PathBuf,
    /// There is a file to miss, or was one.
    expected: bool,
    /// It is known that the file has other rules by now.
    changed: bool,
    polled: Instant,
}

impl Rules {
    /// So often.
    const EVERY: Duration = Duration::from_secs(60);

    fn of(args: &Args) -> Rules {
        let named = site::named(args.config.as_deref());
        Rules::in_file(named.unwrap_or_else(|| site::FILE.into()))
    }

    fn in_file(file: PathBuf) -> Rules {
        Rules {
            expected: file.exists() || last::copy_of(&file).exists(),
            file,
            changed: false,
            polled: Instant::now(),
        }
    }

    fn poll(&mut self, running: &Config) {
        if self.polled.elapsed() < Rules::EVERY {
            return;
        }
        self.polled = Instant::now();
        if let Some((level, said)) = self.compare(running) {
            log::log!(level, "{said}");
        }
    }

    /// What the administrators are to be told: as long as the file is gone or has a mistake each time, and once where it has other rules.
    fn compare(&mut self, running: &Config) -> Option<(Level, String)> {
        self.expected |= self.file.exists();
        if !self.expected {
            return None;
        }
        match last::read_anew(&self.file) {
            Err(problem) => Some((Level::Error, problem)),
            Ok(mut found) => {
                // A job that is here has the margin that it was promised with.
                found.admission.learned_margin = running.admission.learned_margin;
                let known = std::mem::replace(&mut self.changed, found != *running);
                (self.changed && !known).then(|| {
                    let said = format!(
                        "{} has changed, and this agent goes on by what it has read; restart it to have it (systemctl restart libra-agent)",
                        self.file.display()
                    );
                    (Level::Warn, said)
                })
            }
        }
    }
}

fn json(round: &Round) -> serde_json::Value {
    serde_json::json!({
        "led": true,
        "jobs": round.jobs,
        "adjusted": round.adjusted,
        "drifted": round.drifted,
        "ended": round.ended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_says_where_its_file_is_not_what_it_goes_by() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        let write = |text: &str| std::fs::write(&file, text).expect("written");
        let mut rules = Rules::in_file(file.clone());
        let running = Config::default();
        assert_eq!(rules.compare(&running), None, "there never was one");
        write("# defaults\n");
        assert_eq!(rules.compare(&running), None);
        let said = |rules: &mut Rules| rules.compare(&running);
        write("[admission]\nestimate-margin = '7%'\n");
        let (level, text) = said(&mut rules).expect("it has changed");
        assert_eq!(level, Level::Warn);
        assert!(text.contains("restart it"), "{text}");
        assert_eq!(said(&mut rules), None, "said once");
        write("[admission]\nestimate-margin = 7\n");
        for _ in 0..2 {
            let (level, text) = said(&mut rules).expect("a mistake");
            assert_eq!(level, Level::Error);
            assert!(text.contains("line 2"), "{text}");
        }
        std::fs::remove_file(&file).expect("removed");
        let (_, text) = said(&mut rules).expect("it is gone");
        assert!(text.contains("is gone"), "{text}");
        write("# defaults\n");
        assert_eq!(said(&mut rules), None);
    }
}
