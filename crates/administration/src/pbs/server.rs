//! The PBS of this host: its configuration, and its commands run as child processes.

use super::PbsError;
use super::found::{self, Found, HookFound, SchedulerFound};
use super::plan::Holders;
use super::session::{Session, errors, no_answer};
use super::step::HookPart;
use super::wanted::{PROGRESS, RESOURCES, TERMS};
use crate::command::{self, NoOutput, Output};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The longest that a command of PBS may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where PBS is.
#[derive(Debug, Clone)]
pub struct Pbs {
    /// pbs.conf.
    pub conf: PathBuf,
    pub exec: PathBuf,
    pub home: PathBuf,
    /// Whether a second server takes over where this one fails.
    pub failover: bool,
}

impl Pbs {
    /// Reads the configuration of PBS, as its own commands do.
    pub fn find() -> Result<Pbs, PbsError> {
        let variable = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
        let conf = variable("PBS_CONF_FILE").unwrap_or_else(|| "/etc/pbs.conf".to_string());
        let conf = PathBuf::from(conf);
        let text = std::fs::read_to_string(&conf).map_err(|error| PbsError::NoPbs {
            conf: conf.clone(),
            error,
        })?;
        let settings = settings(&text);
        let get = |key: &str| {
            let value = variable(key).or_else(|| settings.get(key).cloned());
            value.map(PathBuf::from).ok_or_else(|| PbsError::NoSetting {
                conf: conf.clone(),
                key: key.to_string(),
            })
        };
        let (exec, home) = (get("PBS_EXEC")?, get("PBS_HOME")?);
        Ok(Pbs {
            exec,
            home,
            failover: settings.contains_key("PBS_SECONDARY"),
            conf,
        })
    }

    /// Runs a command of PBS: `bin/qstat` and its arguments.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, PbsError> {
        self.run_with(program, arguments, "")
    }

    /// Runs a command of PBS on an input.
    fn run_with(&self, program: &str, arguments: &[&str], input: &str) -> Result<String, PbsError> {
        let path = self.exec.join(program);
        let shown = || {
            let mut words = vec![program.rsplit('/').next().unwrap_or(program).to_string()];
            words.extend(arguments.iter().map(|word| quoted(word)));
            words.join(" ")
        };
        let failed = |answer: String| PbsError::Command {
            command: shown(),
            answer,
        };
        let mut command = Command::new(&path);
        match command::run(command.args(arguments), input, PATIENCE) {
            Err(NoOutput::Start(error)) => Err(failed(format!("{}: {error}", path.display()))),
            Err(NoOutput::Wait(error)) => Err(failed(error.to_string())),
            Err(NoOutput::Late) => Err(failed(no_answer(PATIENCE))),
            Ok(Output { status, out, err }) => {
                // Reading directives from its input, qmgr ends well whatever they came to.
                let said: Vec<String> = err.lines().map(str::to_string).collect();
                match errors(&said, !status.success()) {
                    none if none.is_empty() && status.success() => Ok(out),
                    none if none.is_empty() => Err(failed(status.to_string())),
                    answer => Err(failed(answer)),
                }
            }
        }
    }

    /// What qmgr prints for some directives.
    fn qmgr(&self, directives: &[String]) -> Result<String, PbsError> {
        let input = directives.join("\n") + "\n";
        again(|| self.run_with("bin/qmgr", &[], &input))
    }

    /// A qmgr for changes.
    pub fn session(&self) -> Result<Session, PbsError> {
        again(|| {
            let mut session = Session::start(&self.exec.join("bin/qmgr"), PATIENCE)?;
            // Whether it is connected shows at the first directive.
            session.run("list server server_state")?;
            Ok(session)
        })
    }

    /// A command that only reads, again where PBS could not make out who asks: that fails while names of
    /// hosts cannot be looked up.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> Result<String, PbsError> {
        again(|| self.run(program, arguments))
    }

    fn json(&self, program: &str, arguments: &[&str]) -> Result<Value, PbsError> {
        let text = self.ask(program, arguments)?;
        serde_json::from_str(&text).map_err(|error| PbsError::Command {
            command: format!("{program} {}", arguments.join(" ")),
            answer: format!("its JSON cannot be read: {error}"),
        })
    }

    /// The server's name and attributes.
    pub fn server(&self) -> Result<(String, Value), PbsError> {
        let mut json = self.json("bin/qstat", &["-Bf", "-F", "json"])?;
        let servers = json.get_mut("Server").and_then(Value::as_object_mut);
        let first = servers.and_then(|servers| {
            let name = servers.keys().next()?.clone();
            servers.remove(&name).map(|value| (name, value))
        });
        first.ok_or_else(|| PbsError::Command {
            command: "qstat -Bf".to_string(),
            answer: "no server".to_string(),
        })
    }

    /// The queues' attributes.
    pub fn queues(&self) -> Result<BTreeMap<String, Value>, PbsError> {
        let json = self.json("bin/qstat", &["-Qf", "-F", "json"])?;
        let queues = json.get("Queue").and_then(Value::as_object);
        Ok(queues
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect())
    }

    /// The nodes' attributes.
    pub fn nodes(&self) -> Result<serde_json::Map<String, Value>, PbsError> {
        let mut json = match self.json("bin/pbsnodes", &["-av", "-F", "json"]) {
            // So pbsnodes says that there is no node at all.
            Err(PbsError::Command { answer, .. }) if answer.contains("no node list") => {
                return Ok(serde_json::Map::new());
            }
            other => other?,
        };
        let nodes = json.get_mut("nodes").map(Value::take);
        Ok(nodes
            .and_then(|nodes| nodes.as_object().cloned())
            .unwrap_or_default())
    }

    /// The attributes of the jobs that have a commitment and have not ended, subjobs among them.
    pub fn jobs_with_terms(&self) -> Result<serde_json::Map<String, Value>, PbsError> {
        let mut json = self.json("bin/qstat", &["-f", "-t", "-F", "json"])?;
        let jobs = json.get_mut("Jobs").map(Value::take);
        let mut jobs = jobs
            .and_then(|jobs| jobs.as_object().cloned())
            .unwrap_or_default();
        jobs.retain(|_, job| !job["Resource_List"][TERMS].is_null());
        Ok(jobs)
    }

    /// Reads all that an installation touches.
    pub fn read_installed(&self) -> Result<Found, PbsError> {
        let (server, _) = self.server()?;
        let nodes = found::nodes(&Value::Object(self.nodes()?));
        let listed = ["list resource", "list hook", "list sched"].map(str::to_string);
        let listed = self.qmgr(&listed)?;
        let mut hooks = found::hooks(&listed);
        self.export(&mut hooks)?;
        let (scheduler, more_schedulers) = self.schedulers(&listed)?;
        Ok(Found {
            server,
            resources: found::resources(&listed),
            nodes,
            hooks,
            scheduler,
            more_schedulers,
        })
    }

    /// Fills in what was imported into Libra's hooks, and the configuration of pbs_cgroups.
    fn export(&self, hooks: &mut BTreeMap<String, HookFound>) -> Result<(), PbsError> {
        let temporary = std::env::temp_dir().join("libra-pbs-XXXXXX");
        let directory = nix::unistd::mkdtemp(&temporary).map_err(|error| PbsError::File {
            file: temporary,
            error: error.into(),
        })?;
        let file =
            |name: &str, part: HookPart| directory.join(format!("{name}.{}", part.extension()));
        let mut directives = Vec::new();
        for name in hooks.keys() {
            for part in [HookPart::Content, HookPart::Config] {
                if name.starts_with("libra_") || (name == "pbs_cgroups" && part == HookPart::Config)
                {
                    let (kind, to) = (part.content_type(), file(name, part));
                    directives.push(format!(
                        "export hook {name} {kind} default {}",
                        to.display()
                    ));
                }
            }
        }
        let exported = match directives.is_empty() {
            true => Ok(String::new()),
            false => self.qmgr(&directives),
        };
        for (name, hook) in hooks.iter_mut() {
            // What was never imported is not exported.
            let read = |part| std::fs::read_to_string(file(name, part)).unwrap_or_default();
            (hook.content, hook.config) = (read(HookPart::Content), read(HookPart::Config));
        }
        let _ = std::fs::remove_dir_all(&directory);
        exported.map(drop)
    }

    /// The default scheduler, where its files are on this host, and the names of others.
    fn schedulers(&self, listed: &str) -> Result<(Option<SchedulerFound>, Vec<String>), PbsError> {
        let mut private = self.home.join("sched_priv");
        let mut others = Vec::new();
        for (name, attributes) in found::list(listed, "Sched") {
            match attributes.get("sched_priv") {
                _ if name != "default" => others.push(name),
                Some(directory) => private = PathBuf::from(directory),
                None => {}
            }
        }
        // A link stays one: what it points to is changed.
        let Ok(file) = std::fs::canonicalize(private.join("sched_config")) else {
            return Ok((None, others));
        };
        let text = std::fs::read_to_string(&file).map_err(|error| PbsError::File {
            file: file.clone(),
            error,
        })?;
        let pid = running(&private.join("sched.lock"), "pbs_sched");
        Ok((Some(SchedulerFound { file, text, pid }), others))
    }

    /// Jobs that hold resources of ours which are there.
    pub fn holders(&self, found: &Found) -> Result<Holders, PbsError> {
        let mut holders = Holders::default();
        for resource in RESOURCES.iter().filter(|resource| resource.on_jobs()) {
            let there = found.resources.get(resource.name);
            if !there.is_some_and(|r| r.is(resource.kind, resource.flags)) {
                continue;
            }
            // "Has a value" cannot be asked. Every printable text is at least "!", and a job without
            // the resource is never greater or equal.
            let least = if resource.kind == "string" { "!" } else { "0" };
            // Progress is in what a job used, which cannot be asked for; a job that has it has a commitment.
            let asked = match resource.name {
                PROGRESS => TERMS,
                name => name,
            };
            let any = format!("{asked}.ge.{least}");
            let ask = |more: &[&str]| -> Result<Vec<String>, PbsError> {
                let arguments: Vec<&str> = more.iter().copied().chain(["-l", &any]).collect();
                let text = self.ask("bin/qselect", &arguments)?;
                Ok(text.split_whitespace().map(str::to_string).collect())
            };
            let all = ask(&["-x"])?;
            // Asked for afterwards: what is missing here has ended.
            let active = match all.is_empty() {
                true => Vec::new(),
                false => ask(&[])?,
            };
            let finished = all.into_iter().filter(|job| !active.contains(job));
            let name = resource.name.to_string();
            holders.finished.insert(name.clone(), finished.collect());
            holders.active.insert(name, active);
        }
        Ok(holders)
    }

    /// The process of the server.
    pub fn server_process(&self) -> Option<i32> {
        running(&self.home.join("server_priv/server.lock"), "pbs_server")
    }
}

/// How pbs_python ends, without a word, when it cannot look up the name of this host.
const SILENT: &str = "exit status: 255";

/// Tries up to three times where PBS says what passes.
fn again<T>(attempt: impl Fn() -> Result<T, PbsError>) -> Result<T, PbsError> {
    for _ in 0..2 {
        match attempt() {
            Err(PbsError::Command { answer, .. })
                if ["Invalid credential", "Unknown Host", SILENT]
                    .iter()
                    .any(|passing| answer.contains(passing)) =>
            {
                std::thread::sleep(Duration::from_secs(1));
            }
            done => return done,
        }
    }
    attempt()
}

/// The process whose id a lock file has, if it is still this program.
fn running(lock: &Path, program: &str) -> Option<i32> {
    let pid: i32 = std::fs::read_to_string(lock).ok()?.trim().parse().ok()?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (pid > 1 && name.trim().starts_with(program)).then_some(pid)
}

/// The settings of pbs.conf.
fn settings(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| {
        let (key, value) = line.trim().split_once('=')?;
        let value = value.trim().trim_matches('"');
        (!key.starts_with('#')).then(|| (key.trim().to_string(), value.to_string()))
    });
    pairs.collect()
}

/// A word as a shell would have to be given it.
fn quoted(word: &str) -> String {
    if word.contains([' ', '*', '?', '!']) {
        format!("'{word}'")
    } else {
        word.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_pbs_are_read() {
        let read = settings("# PBS_HOME=/no\nPBS_EXEC=/opt/pbs\n PBS_HOME = /var/spool/pbs \nx\n");
        assert_eq!(read["PBS_EXEC"], "/opt/pbs");
        assert_eq!(read["PBS_HOME"], "/var/spool/pbs");
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn what_passes_is_tried_again_and_nothing_else() {
        let tried = |answer: &str| {
            let tries = std::cell::Cell::new(0);
            let done = again(|| {
                tries.set(tries.get() + 1);
                match tries.get() {
                    1 => Err(PbsError::Command {
                        command: "qselect".to_string(),
                        answer: answer.to_string(),
                    }),
                    _ => Ok(()),
                }
            });
            (tries.get(), done.is_ok())
        };
        assert_eq!(tried("qselect: Invalid credential"), (2, true));
        assert_eq!(tried("Unauthorized Request"), (1, false));
    }

    #[test]
    fn a_lock_of_a_process_that_is_another_now_names_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let lock = directory.path().join("lock");
        std::fs::write(&lock, format!("{}\n", std::process::id())).expect("written");
        assert_eq!(running(&lock, "pbs_sched"), None);
        let name = std::fs::read_to_string("/proc/self/comm").expect("own name");
        assert_eq!(running(&lock, name.trim()), Some(std::process::id() as i32));
        assert_eq!(running(&directory.path().join("none"), "x"), None);
    }
}
