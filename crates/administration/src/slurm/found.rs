//! The Slurm of this machine: its programs, its configuration, the directories of its plugins. Reads only, and every command
//! has a time limit: clients ask a controller that is gone for minutes.

use super::conf::Conf;
use super::daemons::{self, Daemon};
use super::host;
use super::hostlist;
use super::plugin::{Binary, Version, Which, faults};
use super::plugstack::{self, PluginLine};
use crate::args::{Role, SlurmSettings};
use crate::command::{self, NoOutput};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The longest that one of Slurm's commands may take: 22.05's give a missing controller up after 9 s by themselves, if they are
/// allowed to.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Where slurm.conf is, when nobody says so.
const PLACES: [&str; 5] = [
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/opt/slurm/etc/slurm.conf",
    // What slurmd got from its controller (configless).
    "/run/slurm/conf/slurm.conf",
];

/// Where programs are that are not in PATH.
const PROGRAMS: [&str; 8] = [
    "/usr/sbin",
    "/usr/bin",
    "/usr/local/sbin",
    "/usr/local/bin",
    "/opt/slurm/sbin",
    "/opt/slurm/bin",
    "/sbin",
    "/bin",
];

/// What this machine is to Slurm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles {
    pub controller: bool,
    pub node: bool,
    pub login: bool,
}

impl Roles {
    /// The plugins that are needed here.
    pub fn plugins(self) -> Vec<Which> {
        let needed = |which: &Which| match which {
            Which::JobSubmit => self.controller,
            // Who types srun on the controller needs the options too.
            Which::Spank => true,
        };
        Which::BOTH.into_iter().filter(needed).collect()
    }
}

/// What is here of Slurm.
#[derive(Debug, Default)]
pub struct Slurm {
    /// slurmctld, slurmd, and the client that was found; each with its version.
    pub controller: Option<(PathBuf, Option<Version>)>,
    pub node: Option<(PathBuf, Option<Version>)>,
    pub client: Option<(PathBuf, Option<Version>)>,
    /// slurm.conf, and what is in it or why that cannot be read.
    pub conf_file: Option<PathBuf>,
    pub conf: Option<Conf>,
    pub conf_error: Option<String>,
    /// Directories in which Slurm looks for plugins, and who says so.
    pub plugin_dirs: Vec<PathBuf>,
    pub plugin_dirs_by: String,
    /// libslurmfull.so, which has what plugins call.
    pub library: Option<PathBuf>,
    /// Version of Slurm's own plugins.
    pub plugins_version: Option<Version>,
    /// plugstack.conf, whether it is there or not, and the lines in effect.
    pub plugstack: Option<PathBuf>,
    pub stack: Vec<PluginLine>,
    pub stack_problems: Vec<String>,
    pub roles: Roles,
    /// Names by which slurm.conf knows this machine as a node.
    pub node_names: Vec<String>,
}

impl Slurm {
    pub fn find(settings: &SlurmSettings) -> Slurm {
        let mut slurm = Slurm {
            controller: program("slurmctld").map(|path| with_version(path, false)),
            node: program("slurmd").map(|path| with_version(path, false)),
            ..Slurm::default()
        };
        slurm.find_conf();
        let client = program("sinfo").or_else(|| program("scontrol"));
        // A client reads slurm.conf first, and waits a minute for one that is not there.
        slurm.client = client.map(|path| match slurm.conf.is_some() {
            true => with_version(path, true),
            false => (path, None),
        });
        slurm.find_plugins(settings);
        slurm.find_stack();
        slurm.find_roles(settings.role);
        slurm
    }

    /// Its configuration and nothing else.
    pub fn conf_alone() -> Slurm {
        let mut slurm = Slurm {
            controller: program("slurmctld").map(|path| (path, None)),
            ..Slurm::default()
        };
        slurm.find_conf();
        slurm
    }

    fn find_conf(&mut self) {
        let named = std::env::var_os("SLURM_CONF").filter(|path| !path.is_empty());
        let beside = (self.controller.iter().chain(&self.node))
            .filter_map(|(path, _)| Some(path.parent()?.parent()?.join("etc/slurm.conf")));
        self.conf_file = named.map(PathBuf::from).or_else(|| {
            let usual = PLACES.iter().map(PathBuf::from).chain(beside);
            usual.into_iter().find(|path| path.exists())
        });
        let Some(file) = &self.conf_file else { return };
        match Conf::read(file, &|path| fs::read_to_string(path)) {
            Ok(conf) => self.conf = Some(conf),
            Err(error) => self.conf_error = Some(error.to_string()),
        }
    }

    fn find_plugins(&mut self, settings: &SlurmSettings) {
        let programs = [&self.controller, &self.node, &self.client];
        let mut linked: Vec<PathBuf> = Vec::new();
        for (path, _) in programs.into_iter().flatten() {
            if let Ok(binary) = Binary::read(path) {
                linked.extend(binary.paths.iter().map(PathBuf::from));
            }
        }
        let said = self.conf.as_ref().and_then(|conf| {
            let line = conf.line("PluginDir")?;
            Some((line.get("PluginDir")?.to_string(), line.place()))
        });
        let split = |list: &str| -> Vec<PathBuf> {
            list.split(':')
                .filter(|dir| !dir.is_empty())
                .map(PathBuf::from)
                .collect()
        };
        (self.plugin_dirs, self.plugin_dirs_by) = match (&settings.plugin_dir, said) {
            (Some(dir), _) => (vec![dir.clone()], "--plugin-dir".to_string()),
            (None, Some((list, place))) => (split(&list), place),
            (None, None) => {
                let own: Vec<PathBuf> = (linked.iter())
                    .filter(|dir| dir.join("libslurmfull.so").exists())
                    .cloned()
                    .collect();
                match (own.is_empty(), self.asked_plugin_dir()) {
                    (_, Some(list)) => (split(&list), "scontrol show config".to_string()),
                    (false, None) => (vec![own[0].clone()], "the programs' own place".to_string()),
                    (true, None) => (Vec::new(), String::new()),
                }
            }
        };
        linked.extend(self.plugin_dirs.iter().cloned());
        self.library = (linked.iter())
            .map(|dir| dir.join("libslurmfull.so"))
            .find(|file| file.exists());
        // Slurm's own plugins say their version without a configuration and without a controller.
        self.plugins_version = (linked.iter())
            .flat_map(|dir| ["auth_munge.so", "select_cons_tres.so"].map(|name| dir.join(name)))
            .filter(|file| file.exists())
            .find_map(|file| Binary::read(&file).ok()?.version)
            .map(Version::of);
    }

    /// What a controller that answers says; none with the controller down, after a moment.
    fn asked_plugin_dir(&self) -> Option<String> {
        self.conf.as_ref()?;
        let text = run("scontrol", &["show", "config"], Duration::from_secs(5)).ok()?;
        let value = text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "PluginDir").then(|| value.trim().to_string())
        });
        value.filter(|value| value.starts_with('/'))
    }

    fn find_stack(&mut self) {
        let (Some(conf), Some(file)) = (&self.conf, &self.conf_file) else {
            return;
        };
        let directory = file.parent().unwrap_or(Path::new("/"));
        let stack = match conf.get("PlugStackConfig") {
            Some(said) => directory.join(said),
            None => directory.join("plugstack.conf"),
        };
        let files = plugstack::Files {
            open: &|path| fs::read_to_string(path),
            list: &|dir| {
                let files = fs::read_dir(dir).into_iter().flatten().flatten();
                files.map(|file| file.path()).collect()
            },
        };
        match plugstack::read(&stack, &files) {
            Ok((entries, problems)) => (self.stack, self.stack_problems) = (entries, problems),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => self.stack_problems = vec![format!("{}: {error}", stack.display())],
        }
        self.plugstack = Some(stack);
    }

    fn find_roles(&mut self, said: Option<Role>) {
        let host = nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let same = |name: &str| {
            let short = |name: &str| name.split('.').next().unwrap_or_default().to_string();
            !name.is_empty() && (name == host || short(name) == short(&host))
        };
        let conf = self.conf.clone().unwrap_or_default();
        for line in conf.described("NodeName") {
            let names = hostlist::names(&line.pairs[0].1).unwrap_or_default();
            let hosts = match line.get("NodeHostname") {
                Some(list) => hostlist::names(list).unwrap_or_default(),
                None => names.clone(),
            };
            for (at, name) in names.into_iter().enumerate() {
                // One host for all of them is written once.
                let on = if hosts.len() == 1 {
                    &hosts[0]
                } else {
                    hosts.get(at).unwrap_or(&name)
                };
                if same(on) {
                    self.node_names.push(name);
                }
            }
        }
        let controllers = controllers(&conf);
        let named = controllers.iter().any(|name| same(name));
        let known = self.conf.is_some();
        self.roles = match said {
            Some(Role::All) => Roles {
                controller: true,
                node: true,
                login: true,
            },
            Some(Role::Controller) => Roles {
                controller: true,
                ..Roles::default()
            },
            Some(Role::Node) => Roles {
                node: true,
                ..Roles::default()
            },
            Some(Role::Login) => Roles {
                login: true,
                ..Roles::default()
            },
            None => {
                let node = self.node.is_some() && (!known || !self.node_names.is_empty());
                let controller = self.controller.is_some() && (!known || named);
                Roles {
                    controller,
                    node,
                    login: !node && !controller,
                }
            }
        };
    }

    /// The version that plugins have to match, and who says so.
    pub fn version(&self) -> Option<(Version, String)> {
        let programs = match self.roles {
            Roles {
                controller: true, ..
            } => [&self.controller, &self.node, &self.client],
            Roles { node: true, .. } => [&self.node, &self.client, &self.controller],
            Roles { .. } => [&self.client, &self.node, &self.controller],
        };
        let of_program = programs.into_iter().flatten().find_map(|(path, version)| {
            version.map(|version| (version, path.display().to_string()))
        });
        of_program.or_else(|| {
            self.plugins_version
                .map(|v| (v, "its own plugins".to_string()))
        })
    }

    /// The symbols that a plugin can use where it is loaded.
    pub fn host(&self, which: Which) -> Option<Binary> {
        let mut host = Binary::read(self.library.as_ref()?).ok()?;
        if which == Which::JobSubmit {
            let (path, _) = self.controller.as_ref()?;
            host.exports.extend(Binary::read(path).ok()?.exports);
        }
        Some(host)
    }

    /// Where a plugin is, or else would be put: an old one is replaced; a directory of the site's own comes before Slurm's,
    /// which belongs to its packages.
    pub fn place(&self, which: Which) -> Option<PathBuf> {
        let files = self.plugin_dirs.iter().map(|dir| dir.join(which.file()));
        if let Some(old) = files.clone().find(|file| file.exists()) {
            return Some(old);
        }
        let own = |file: &PathBuf| !file.with_file_name("auth_munge.so").exists();
        let mut usable = files
            .clone()
            .filter(|file| file.parent().is_some_and(Path::is_dir));
        usable.clone().find(own).or_else(|| usable.next())
    }

    /// Returns true if slurm.conf is a copy that slurmd or sackd got from the controller.
    pub fn configless(&self) -> bool {
        let real = self
            .conf_file
            .as_ref()
            .and_then(|file| fs::canonicalize(file).ok());
        let cached = |path: &Path| {
            path.starts_with("/run/slurm")
                || path.components().any(|c| c.as_os_str() == "conf-cache")
        };
        self.conf_file.as_deref().is_some_and(cached) || real.as_deref().is_some_and(cached)
    }

    /// Name of the cluster.
    pub fn cluster(&self) -> String {
        let name = self.conf.as_ref().and_then(|conf| conf.get("ClusterName"));
        name.unwrap_or("cluster").to_string()
    }

    /// A setting of slurm.conf.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.conf.as_ref()?.get(key)
    }

    /// The running slurmctld of this configuration.
    pub fn controller_process(&self) -> Option<i32> {
        Some(self.running("slurmctld").first()?.pid)
    }

    /// The running slurmd of each of this machine's nodes; None if none is seen.
    pub fn node_processes(&self) -> Vec<(String, Option<i32>)> {
        let running = self.running("slurmd");
        let is_only = self.node_names.len() == 1;
        let process = |node: &String| {
            // One that was told no name is the node of this machine's.
            let found = running
                .iter()
                .find(|daemon| daemon.node.as_ref().map_or(is_only, |named| named == node));
            (node.clone(), found.map(|daemon| daemon.pid))
        };
        self.node_names.iter().map(process).collect()
    }

    fn running(&self, program: &str) -> Vec<Daemon> {
        let Some(file) = self.conf_file.as_ref().filter(|_| self.conf.is_some()) else {
            return Vec::new();
        };
        let is_usual = PLACES.iter().any(|place| Path::new(place) == file) || self.configless();
        let mut found = daemons::running(program);
        found.retain(|daemon| daemon.has_conf(file, is_usual));
        found
    }
}

/// Names of the controller's hosts, the first one and its backups.
pub fn controllers(conf: &Conf) -> Vec<String> {
    let mut names: Vec<String> = (conf.all("SlurmctldHost").into_iter())
        .map(|host| {
            host.split('(')
                .next()
                .unwrap_or_default()
                .trim()
                .to_string()
        })
        .collect();
    // Before 18.08.
    for key in ["ControlMachine", "BackupController"] {
        names.extend(conf.list(key).into_iter().map(str::to_string));
    }
    names
}

/// Where a program is.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = path.into_iter().chain(PROGRAMS.iter().map(PathBuf::from));
    places.map(|dir| dir.join(name)).find(|file| {
        fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    })
}

fn with_version(path: PathBuf, client: bool) -> (PathBuf, Option<Version>) {
    let patience = Duration::from_secs(if client { 3 } else { 5 });
    let said = command::run(Command::new(&path).arg("-V"), "", patience);
    let version = said.ok().and_then(|said| Version::find(&said.out));
    (path, version)
}

/// Runs a client of Slurm's; what it prints, or why not, in words.
pub fn run(name: &str, arguments: &[&str], patience: Duration) -> Result<String, String> {
    let path = program(name).ok_or_else(|| format!("there is no {name} here"))?;
    let mut command = Command::new(path);
    command
        .args(arguments)
        // Task lists whole, times as Unix seconds, tables in no user's favourite format.
        .envs([("SLURM_BITSTR_LEN", "0"), ("SLURM_TIME_FORMAT", "%s")])
        .env_remove("SQUEUE_FORMAT")
        .env_remove("SQUEUE_STATES")
        .env_remove("SLURM_CLUSTERS");
    match command::run(&mut command, "", patience) {
        Ok(said) if said.status.success() => Ok(said.out),
        Ok(said) => Err(match said.err.trim() {
            "" => said.status.to_string(),
            text => text.lines().collect::<Vec<_>>().join("; "),
        }),
        Err(NoOutput::Start(error) | NoOutput::Wait(error)) => Err(error.to_string()),
        Err(NoOutput::Late) => Err(format!(
            "no answer within {} s; slurmctld may be down or busy (scontrol ping)",
            patience.as_secs()
        )),
    }
}

/// What is wrong with a plugin's file.
pub fn wrong(slurm: &Slurm, which: Which, file: &Path) -> Vec<String> {
    let version = slurm.version().map(|(version, _)| version);
    match Binary::read(file) {
        Err(error) => vec![error],
        Ok(plugin) => faults(
            which,
            &plugin,
            version,
            slurm.host(which).as_ref(),
            &host::library,
        ),
    }
}
