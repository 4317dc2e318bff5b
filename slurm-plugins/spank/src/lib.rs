//! The SPANK plugin: users' options, and jobs held to their shares on the nodes.
//!
//! One line in plugstack.conf of every host of the cluster: `optional libra_spank.so config=/etc/libra/libra.toml`. `%n` in it is
//! the node's name, for several slurmd on one machine. What is decided is decided in [`libra_slurm`].

use libra_config::{Config, OnFault, last};
use libra_host::Host;
use libra_slurm::node::{self, Joined, Starting, Task};
use libra_slurm::{COMMITMENT_VARIABLE, options};
use libra_slurm_sys::ask;
use libra_slurm_sys::job::version;
use libra_slurm_sys::spank::{Call, Plugin, UserOption};
use libra_system::clock;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

libra_slurm_sys::export_spank!(Libra, "libra");

/// Where the configuration is when plugstack.conf says nothing else.
const CONFIG: &str = "/etc/libra/libra.toml";

/// What tasks find of their job's terms in their environment: when it is to be finished, Unix time.
const DEADLINE: &str = "LIBRA_DEADLINE";

/// This job was submitted with options of ours: that much is known of it in slurmstepd, whatever becomes of the registry.
static HAS_TERMS: AtomicBool = AtomicBool::new(false);

/// This process is a task that is held to a share, of all processors of the node.
static RUNS_ANYWHERE: AtomicBool = AtomicBool::new(false);

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

    fn daemon(call: &Call<'_>) {
        let left = Host::open(match configuration(call) {
            Ok(config) => config,
            Err(problem) => return say("slurmd", Err(problem)),
        });
        let left = left.and_then(|host| {
            let built_for = format!("Slurm {}", version());
            host.in_a_hurry().leave_mark(
                &format!("slurmd-{}", node_name()),
                &built_for,
                &configuration_file(call),
            )
        });
        match left {
            // Open as long as slurmd lives: by that it is known for this slurmd's.
            Ok(mark) => std::mem::forget(mark),
            Err(error) => say("slurmd", Err(error.to_string())),
        }
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
            let ask = |job, patience| ask::job(job, &here, patience);
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
            // What it waits for slurmctld is none of the registry's time.
            Ok(host) => {
                let asks = node::patience(&host);
                host.patient_for(node::PATIENCE + asks)
            }
            Err(problem) => return without_host(call, &name, problem),
        };
        let here = node_name();
        let ask = |job, patience| ask::job(job, &here, patience);
        let task = Task {
            name: &name,
            // Slurm always says it of a task. Nobody else's commitment is found under this number.
            user: call.user().unwrap_or(u32::MAX),
            pid: std::process::id() as i32,
            node: &here,
            has_terms: HAS_TERMS.load(Ordering::Relaxed),
        };
        let joined = node::join(&host, &task, &ask, clock::unix_time());
        match joined {
            Joined::Refused(problem) => Err(problem),
            Joined::Held(deadline) | Joined::Unenforced(deadline) => {
                // Asked for now: the registry is not for the job's user, whom the task soon is.
                let anywhere = node::runs_anywhere(&host, &name).unwrap_or_else(|error| {
                    say("a task's processors", Err(error.to_string()));
                    true
                });
                let is_held = matches!(joined, Joined::Held(_)) && host.unenforced().is_none();
                RUNS_ANYWHERE.store(is_held && anywhere, Ordering::Relaxed);
                if is_held && anywhere {
                    // Where this one had to wait for slurmctld, its slurmstepd has asked before there was a job to be let off.
                    let own = std::process::id() as i32;
                    say_placed(node::placed(&host, &name, own).map_err(|error| error.to_string()));
                }
                // Whole seconds, and never later than it is.
                if deadline.is_finite() {
                    call.set(DEADLINE, &format!("{:.0}", deadline.floor()));
                }
                Ok(())
            }
            Joined::BestEffort | Joined::LeftAlone => Ok(()),
        }
    }

    fn placed(call: &Call<'_>) {
        // The one that keeps a step of Slurm's own is none.
        let Some(task) = call.task() else {
            return;
        };
        let done = open(call).and_then(|host| {
            node::placed(&host, &job(call)?, task).map_err(|error| error.to_string())
        });
        say_placed(done);
    }

    /// task/affinity has bound it by now.
    fn begins(_: &Call<'_>) {
        if RUNS_ANYWHERE.load(Ordering::Relaxed) {
            let done = libra_host::let_run_anywhere();
            say(
                "a task's processors",
                done.map_err(|error| error.to_string()),
            );
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

fn say_placed(done: Result<(), String>) {
    let done =
        done.map_err(|error| format!("it stays on the processors that Slurm has picked: {error}"));
    say("the place of a task", done);
}

fn say(hook: &str, done: Result<(), String>) {
    if let Err(problem) = done {
        log::error!("{hook}: {problem}");
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Slurm's name for this node: with `slurmd -N` not the machine's. slurmd itself has it in no variable.
fn node_name() -> String {
    variable("SLURMD_NODENAME")
        .or_else(|| {
            let arguments = std::fs::read("/proc/self/cmdline").ok()?;
            named_by(&String::from_utf8_lossy(&arguments))
        })
        .or_else(|| {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
            Some(host.trim().split('.').next()?.to_string())
        })
        .unwrap_or_default()
}

/// The node that slurmd's command line names: its words are behind each other, each ended by a NUL.
fn named_by(arguments: &str) -> Option<String> {
    let mut words = arguments.split('\0');
    while let Some(word) = words.next() {
        match word.strip_prefix("-N") {
            Some("") => return words.next().map(str::to_string),
            Some(name) => return Some(name.to_string()),
            None => {}
        }
    }
    None
}

fn job(call: &Call<'_>) -> Result<String, String> {
    (call.job().map(|job| job.to_string()))
        .or_else(|| variable("SLURM_JOB_ID"))
        .ok_or_else(|| "Slurm does not say which job it is".to_string())
}

fn configuration_file(call: &Call<'_>) -> PathBuf {
    let path = call.argument("config").unwrap_or(CONFIG);
    path.replace("%n", &node_name()).into()
}

fn configuration(call: &Call<'_>) -> Result<Config, String> {
    let found = last::read_or_copy(&configuration_file(call));
    let found = found.map_err(|error| error.to_string())?;
    // The processes that ask live no longer than an event of a job.
    if let Some(gone) = found.gone {
        log::error!("{gone}");
    }
    Ok(found.config)
}

fn open(call: &Call<'_>) -> Result<Host, String> {
    let host = Host::open(configuration(call)?).map_err(|error| error.to_string())?;
    Ok(host.patient_for(node::PATIENCE))
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

#[cfg(test)]
mod tests {
    use super::named_by;

    #[test]
    fn slurmds_command_line_names_its_node() {
        for (arguments, name) in [
            ("slurmd\0-D\0-N\0n1\0", Some("n1")),
            ("slurmd\0-Nn1\0--systemd\0", Some("n1")),
            ("slurmd\0-f\0/etc/slurm.conf\0", None),
            ("slurmd\0-N\0", Some("")),
        ] {
            assert_eq!(named_by(arguments).as_deref(), name, "{arguments:?}");
        }
    }
}
