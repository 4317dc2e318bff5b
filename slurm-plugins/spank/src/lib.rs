//! The SPANK plugin: users' options, and jobs held to their shares on the nodes.
//!
//! One line in plugstack.conf of every host of the cluster: `optional libra_spank.so config=/etc/libra/libra.toml`. `%n` in it is
//! the node's name, for several slurmd on one machine. What is decided is decided in [`libra_slurm`].

use libra_config::{Config, OnFault, last};
use libra_host::Host;
use libra_slurm::node::{self, Joined, Starting};
use libra_slurm::{COMMITMENT_VARIABLE, options};
use libra_slurm_sys::ask;
use libra_slurm_sys::spank::{Call, Plugin, UserOption};
use libra_system::clock;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

libra_slurm_sys::export_spank!(Libra, "libra");

/// Where the configuration is when plugstack.conf says nothing else.
const CONFIG: &str = "/etc/libra/libra.toml";

/// What tasks find of their job's terms in their environment: when it is to be finished, Unix time.
const DEADLINE: &str = "LIBRA_DEADLINE";

/// This job was submitted with options of ours: that much is known of it in slurmstepd, whatever becomes of the registry.
static HAS_TERMS: AtomicBool = AtomicBool::new(false);

struct Libra;

impl Plugin for Libra {
    fn options() -> Vec<UserOption> {
        let option = |described: options::Described| UserOption {
            name: described.option,
            value: described.value,
            usage: described.usage,
        };
        options::DESCRIBED.map(option).to_vec()
    }

    fn given(option: usize, value: &str, remote: bool) -> Result<(), String> {
        if remote {
            HAS_TERMS.store(true, Ordering::Relaxed);
            return Ok(());
        }
        options::check(option, value)
    }

    fn prolog(call: &Call<'_>) {
        // Whatever is in it: a user can write it. That there is one says whom to ask for.
        let claimed = std::env::var_os(format!("SPANK_{COMMITMENT_VARIABLE}"));
        let claimed = claimed.map(|claimed| claimed.to_string_lossy().into_owned());
        let done = open(call).and_then(|host| {
            let here = node_name();
            let starting = Starting {
                name: &job(call)?,
                user: (call.user()).ok_or("Slurm does not say whose job it is")?,
                claimed: claimed.as_deref(),
                node: &here,
            };
            let ask = |job| ask::job(job, &here, ask::PATIENCE);
            node::prolog(&host, &starting, &ask, clock::unix_time())
        });
        say("prolog", done);
    }

    fn task(call: &Call<'_>) -> Result<(), String> {
        for name in options::inherited() {
            call.unset(&name);
        }
        let name = job(call)?;
        let host = match open(call) {
            Ok(host) => host,
            Err(problem) => return without_host(call, &name, problem),
        };
        let here = node_name();
        let ask = |job| ask::job(job, &here, ask::PATIENCE);
        let joined = node::join(&host, &name, std::process::id() as i32, &ask);
        match joined {
            Joined::Refused(problem) => Err(problem),
            Joined::Held(deadline) | Joined::Unenforced(deadline) => {
                // Whole seconds, and never later than it is.
                call.set(DEADLINE, &format!("{:.0}", deadline.floor()));
                Ok(())
            }
            Joined::BestEffort | Joined::LeftAlone => Ok(()),
        }
    }

    fn left(call: &Call<'_>) {
        let done = open(call).and_then(|host| {
            node::left(&host, &job(call)?, call.batch_script_ended())
                .map_err(|error| error.to_string())
        });
        say("the end of a task", done);
    }

    fn epilog(call: &Call<'_>) {
        let done = open(call).and_then(|host| {
            let name = job(call)?;
            let used = node::epilog(&host, &name).map_err(|error| error.to_string())?;
            if let Some(used) = used {
                log::info!("job {name} used {used:.1} processor seconds here");
            }
            Ok(())
        });
        say("epilog", done);
    }
}

fn say(hook: &str, done: Result<(), String>) {
    if let Err(problem) = done {
        log::error!("{hook}: {problem}");
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Slurm's name for this node: with `slurmd -N` not the machine's.
fn node_name() -> String {
    variable("SLURMD_NODENAME").unwrap_or_default()
}

fn job(call: &Call<'_>) -> Result<String, String> {
    (call.job().map(|job| job.to_string()))
        .or_else(|| variable("SLURM_JOB_ID"))
        .ok_or_else(|| "Slurm does not say which job it is".to_string())
}

fn configuration(call: &Call<'_>) -> Result<Config, String> {
    let path = call.argument("config").unwrap_or(CONFIG);
    let found = last::read(Path::new(&path.replace("%n", &node_name())));
    let found = found.map_err(|error| error.to_string())?;
    // The processes that ask live no longer than an event of a job.
    if let Some(gone) = found.gone {
        log::error!("{gone}");
    }
    Ok(found.config)
}

fn open(call: &Call<'_>) -> Result<Host, String> {
    let host = Host::open(configuration(call)?).map_err(|error| error.to_string())?;
    Ok(host.in_a_hurry())
}

/// The registry cannot be used, so whether this job has a commitment is not known here, but by its options.
fn without_host(call: &Call<'_>, name: &str, problem: String) -> Result<(), String> {
    let refuse =
        configuration(call).map_or(true, |config| config.slurm.on_fault == OnFault::Refuse);
    if refuse && HAS_TERMS.load(Ordering::Relaxed) {
        return Err(format!("job {name} is not held to its share: {problem}"));
    }
    log::error!("a task of job {name} runs as Slurm started it: {problem}");
    Ok(())
}
