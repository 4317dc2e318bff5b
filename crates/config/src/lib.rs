//! The site's configuration as data: one TOML file, kebab-case, unknown keys refused with their line. It knows no engine.
//!
//! Values carry their units (`"30s"`, `"5%"`, `"64GiB"`). Every default is in [`DEFAULT_TOML`],
//! which `libra config default` prints and which a test holds against [`Config::default`].

mod admission;
mod class;
pub mod database;
pub mod last;
pub mod learned;
pub mod settings;
pub mod site;
mod system;
mod values;

pub use admission::{AdmissionConfig, EstimateAboveDeadline, NodeChoice, PolicyName};
pub use class::{ClassConfig, ClassName, PromisedName, SeveralName, SuspendName};
use libra_units::in_one_line;
use serde::Deserialize;
use std::path::{Path, PathBuf};
pub use system::System;
pub use values::{
    Amount, Duration, EstimateMargin, Factor, Margin, MarginBounds, Memory, OnFault, PastDeadline,
    Processors, Rating, Reserve, WithoutTerms,
};

/// Every key with its default value and what it means.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// Where the live state of accounts is unless it is said otherwise: in memory, and in a directory where only root makes any.
pub const LIVE_DIRECTORY: &str = "/run/libra-accounts";

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// Who is admitted.
    pub admission: AdmissionConfig,
    /// What it costs.
    pub pricing: PricingConfig,
    /// The classes of service.
    pub class: ClassConfig,
    /// What this host is.
    pub node: NodeConfig,
    /// How shares are enforced.
    pub cgroup: CgroupConfig,
    /// Where the jobs of this host are recorded.
    pub registry: RegistryConfig,
    /// The control loop.
    pub agent: AgentConfig,
    /// Where the money of budgets comes from.
    pub accounts: AccountsConfig,
    /// The hooks of PBS.
    pub pbs: PbsConfig,
    /// The plugins of Slurm.
    pub slurm: SlurmConfig,
    /// Grid Engine's verifier and hosts.
    pub gridengine: GridEngineConfig,
    /// Numbers for those who watch a site.
    pub metrics: MetricsConfig,
    /// The page of `libra web`.
    pub web: WebConfig,
}

/// `[pricing]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PricingConfig {
    /// The rule.
    pub rule: PricingName,
    /// Linear: credits per processor second. Utilisation: weight of the fixed part.
    pub alpha: Amount,
    /// Linear: credits per unit of estimate / deadline. Utilisation: weight of the part that
    /// grows as a node fills.
    pub beta: Amount,
    /// Utilisation: credits per processor second.
    pub base: Amount,
}

/// Pricing rules by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PricingName {
    /// α·E + β·E/D.
    #[default]
    Linear,
    /// (α + β·E/D)·E: the larger the share, the dearer.
    ByShare,
    /// The fuller the node, the dearer.
    Utilisation,
}

/// `[node]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct NodeConfig {
    /// Processors that jobs may share.
    pub processors: Processors,
    /// Part of the processors that is kept for everything else on a host.
    pub reserve: Reserve,
    /// Speed against a reference node.
    pub rating: Rating,
    /// Memory that jobs may ask for.
    pub memory: Memory,
}

/// `[cgroup]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CgroupConfig {
    /// Which kind of cgroup.
    pub version: VersionChoice,
    /// Path below the mount; `auto` finds one.
    pub root: String,
    /// What happens to time that nobody needs.
    pub spare: Spare,
    /// Period of the quota.
    pub period: Duration,
}

/// Which interface of the kernel is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionChoice {
    /// v2 where it has the cpu controller, else v1.
    #[default]
    Auto,
    /// cgroup v1 only.
    V1,
    /// cgroup v2 only.
    V2,
    /// No enforcement.
    Off,
}

/// Who gets the time that nobody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spare {
    /// Nobody: a share is a cap.
    #[default]
    Idle,
    /// All, in proportion to their needs: a share is a guarantee.
    Shared,
    /// The job with the highest return.
    HighestReturn,
}

/// `[registry]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RegistryConfig {
    /// Its directory; `auto` is /run/libra for root, $XDG_RUNTIME_DIR/libra for others.
    pub directory: String,
    /// How long the outcome of an ended job is kept.
    pub keep_ended: Duration,
}

/// `[agent]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Time between two rounds.
    pub interval: Duration,
    /// Time between SIGTERM and SIGKILL when a job is cancelled.
    pub grace: Duration,
    /// What becomes of jobs that have used their estimate and passed their deadline.
    pub past_deadline: PastDeadline,
}

/// `[accounts]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AccountsConfig {
    /// Whether budgets are taken from accounts.
    pub mode: AccountsMode,
    /// The durable history.
    pub ledger: PathBuf,
    /// The same in a database of PostgreSQL: a connection string as libpq reads it; empty: the file.
    pub database: String,
    /// Directory of the present state, in memory.
    pub live: PathBuf,
    /// Where the service of 'libra account serve' listens.
    pub socket: PathBuf,
    /// Where it listens for users on other hosts: address and port; empty for nowhere.
    pub listen: String,
    /// On hosts without the ledger: who is asked, `HOST:PORT` each, in this order.
    pub servers: Vec<String>,
    /// The ledger's owner, where it is asked for over the network; empty: root.
    pub owner: String,
    /// Where MUNGE's daemon listens; empty: in its usual place.
    pub munge_socket: String,
    /// Members of this group may do what root may; empty: nobody.
    pub administrators: String,
    /// What use beyond the estimate costs.
    pub overrun: Overrun,
}

/// Whether there are accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccountsMode {
    /// A budget is a limit only.
    #[default]
    Off,
    /// A budget is taken from an account.
    On,
}

/// What a job used beyond its estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overrun {
    /// The price is all that is ever charged.
    #[default]
    Free,
    /// A second costs what one of the estimate did.
    Charged,
}

impl AccountsConfig {
    fn check(&self) -> Result<(), String> {
        for (key, path) in [
            ("ledger", &self.ledger),
            ("live", &self.live),
            ("socket", &self.socket),
        ] {
            if !path.is_absolute() {
                return Err(format!(
                    "accounts.{key} is '{}', expected an absolute path",
                    path.display()
                ));
            }
        }
        database::check(&self.database)?;
        if !self.listen.is_empty() && self.listen.parse::<std::net::SocketAddr>().is_err() {
            return Err(format!(
                "accounts.listen is '{}', expected '' or an address and a port, such as 0.0.0.0:6821",
                self.listen
            ));
        }
        let is_none = |server: &&String| {
            let parts = server.rsplit_once(':');
            !parts.is_some_and(|(host, port)| {
                let named = !host.is_empty() && !host.contains(char::is_whitespace);
                named && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        if let Some(server) = self.servers.iter().find(is_none) {
            return Err(format!(
                "accounts.servers has '{server}', expected a host and a port, such as control:6821"
            ));
        }
        if !self.munge_socket.is_empty() && !self.munge_socket.starts_with('/') {
            return Err(format!(
                "accounts.munge-socket is '{}', expected '' or an absolute path",
                self.munge_socket
            ));
        }
        Ok(())
    }
}

impl Default for AccountsConfig {
    fn default() -> Self {
        AccountsConfig {
            mode: AccountsMode::Off,
            ledger: PathBuf::from("/var/lib/libra/accounts/ledger.sqlite"),
            database: String::new(),
            live: PathBuf::from(LIVE_DIRECTORY),
            socket: PathBuf::from("/run/libra/accounts.sock"),
            listen: String::new(),
            servers: Vec::new(),
            owner: String::new(),
            munge_socket: String::new(),
            administrators: String::new(),
            overrun: Overrun::Free,
        }
    }
}

/// `[pbs]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PbsConfig {
    /// What a hook does that cannot ask the library.
    pub on_fault: OnFault,
    /// Where jobs without terms may run.
    pub without_terms: WithoutTerms,
}

/// `[slurm]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SlurmConfig {
    /// What becomes of jobs with terms when the plugin cannot judge.
    pub on_fault: OnFault,
    /// Where jobs without terms may run.
    pub without_terms: WithoutTerms,
    /// Partitions whose processors jobs with terms share; none: all with `OverSubscribe=FORCE`.
    pub partitions: Vec<String>,
    /// Time between two polls of Slurm's own records.
    pub interval: Duration,
    /// Time that Slurm may take to start an accepted job.
    pub start_delay: Duration,
    /// So often a line of slurmctld's log says how long submissions took.
    pub report_interval: Duration,
}

/// `[gridengine]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct GridEngineConfig {
    /// What becomes of jobs with terms when the verifier cannot judge, or a host cannot hold them to their share.
    pub on_fault: OnFault,
    /// What becomes of jobs without terms.
    pub without_terms: WithoutTerms,
    /// Queues that jobs with terms go to; none: all.
    pub queues: Vec<String>,
    /// Time between two polls of qmaster's own records.
    pub interval: Duration,
    /// Time that Grid Engine may take to start an accepted job.
    pub start_delay: Duration,
}

/// `[web]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct WebConfig {
    /// Directory with the site's templates for the form; empty for none.
    pub templates: String,
}

impl WebConfig {
    fn check(&self) -> Result<(), String> {
        if !self.templates.is_empty() && !self.templates.starts_with('/') {
            return Err(format!(
                "web.templates is '{}', expected '' or an absolute path",
                self.templates
            ));
        }
        Ok(())
    }
}

/// `[metrics]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Where the agent serves /metrics: address and port; empty for nowhere.
    pub listen: String,
    /// Where files with metrics are written and looked for; empty for nowhere.
    pub directory: String,
    /// Time between two writes of them.
    pub interval: Duration,
}

impl MetricsConfig {
    fn check(&self) -> Result<(), String> {
        if !self.listen.is_empty() && self.listen.parse::<std::net::SocketAddr>().is_err() {
            return Err(format!(
                "metrics.listen is '{}', expected '' or an address and a port, such as 127.0.0.1:9464",
                self.listen
            ));
        }
        if !self.directory.is_empty() && !self.directory.starts_with('/') {
            return Err(format!(
                "metrics.directory is '{}', expected '' or an absolute path",
                self.directory
            ));
        }
        if !(1.0..=3600.0).contains(&self.interval.0) {
            return Err(format!(
                "metrics.interval is {} s, expected 1s to 1h",
                self.interval.0
            ));
        }
        Ok(())
    }
}

impl Default for MetricsConfig {
    fn default() -> Self {
        MetricsConfig {
            listen: String::new(),
            directory: String::new(),
            interval: Duration(10.0),
        }
    }
}

impl GridEngineConfig {
    fn check(&self) -> Result<(), String> {
        if !(0.1..=60.0).contains(&self.interval.0) {
            return Err(format!(
                "gridengine.interval is {} s, expected 100ms to 1m",
                self.interval.0
            ));
        }
        if self.without_terms == WithoutTerms::OtherNodes {
            return Err(
                "gridengine.without-terms is 'other-nodes', expected best-effort, refuse or leave-alone; a queue's user_lists keep others off it"
                    .to_string(),
            );
        }
        Ok(())
    }
}

impl Default for GridEngineConfig {
    fn default() -> Self {
        GridEngineConfig {
            on_fault: OnFault::default(),
            without_terms: WithoutTerms::default(),
            queues: Vec::new(),
            interval: Duration(1.0),
            start_delay: Duration(4.0),
        }
    }
}

impl Default for SlurmConfig {
    fn default() -> Self {
        SlurmConfig {
            on_fault: OnFault::default(),
            without_terms: WithoutTerms::default(),
            partitions: Vec::new(),
            interval: Duration(1.0),
            start_delay: Duration(4.0),
            report_interval: Duration(600.0),
        }
    }
}

impl Default for PricingConfig {
    fn default() -> Self {
        PricingConfig {
            rule: PricingName::Linear,
            alpha: Amount(1.0),
            beta: Amount(1.0),
            base: Amount(1.0),
        }
    }
}

impl Default for CgroupConfig {
    fn default() -> Self {
        CgroupConfig {
            version: VersionChoice::Auto,
            root: "auto".to_string(),
            spare: Spare::Idle,
            period: Duration(0.1),
        }
    }
}

impl Default for RegistryConfig {
    fn default() -> Self {
        RegistryConfig {
            directory: "auto".to_string(),
            keep_ended: Duration(600.0),
        }
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        AgentConfig {
            interval: Duration(1.0),
            grace: Duration(5.0),
            past_deadline: PastDeadline::WhatIsLeft,
        }
    }
}

/// Why a configuration cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(
        "{path}: cannot be read: {error}; give another with --config, or write one with 'libra config default'"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// What is in it cannot be taken; the text has line, column and what was expected.
    #[error("{origin}: {problem}")]
    Invalid {
        /// File or other origin.
        origin: String,
        /// Line, column, the line itself and what is wrong.
        problem: String,
    },
}

impl ConfigError {
    /// A line of the file is in the problem, whatever that is.
    fn invalid(origin: &str, problem: &str) -> ConfigError {
        let problem = problem.trim_end().replace('\t', " ");
        let lines: Vec<String> = problem.lines().map(in_one_line).collect();
        ConfigError::Invalid {
            origin: origin.to_string(),
            problem: lines.join("\n"),
        }
    }
}

impl Config {
    /// Reads a configuration from text; what it does not mention has its default, and no margin was learned.
    ///
    /// # Errors
    /// The first thing that is wrong, with line and column.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        Config::from_origin(text, "configuration")
    }

    fn from_origin(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let invalid = |problem: String| ConfigError::invalid(origin, &problem);
        let config: Config = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let period = config.cgroup.period.0;
        if !(0.001..=1.0).contains(&period) {
            return Err(invalid(format!(
                "cgroup.period is {period} s, expected 1ms to 1s, the range of the kernel"
            )));
        }
        if config.agent.interval.0 < 0.01 {
            return Err(invalid(format!(
                "agent.interval is {} s, expected at least 10ms",
                config.agent.interval.0
            )));
        }
        if !(0.1..=60.0).contains(&config.slurm.interval.0) {
            return Err(invalid(format!(
                "slurm.interval is {} s, expected 100ms to 1m",
                config.slurm.interval.0
            )));
        }
        if !(1.0..=86_400.0).contains(&config.slurm.report_interval.0) {
            return Err(invalid(format!(
                "slurm.report-interval is {} s, expected 1s to 1d",
                config.slurm.report_interval.0
            )));
        }
        config.gridengine.check().map_err(invalid)?;
        let root = &config.cgroup.root;
        if root.is_empty() || root.split('/').any(|part| part == "..") {
            return Err(invalid(format!(
                "cgroup.root is '{root}', expected 'auto' or a path below the cgroup mount, without '..'"
            )));
        }
        config.accounts.check().map_err(invalid)?;
        if config.registry.directory != "auto" && !config.registry.directory.starts_with('/') {
            return Err(invalid(format!(
                "registry.directory is '{}', expected 'auto' or an absolute path",
                config.registry.directory
            )));
        }
        config.class.check().map_err(invalid)?;
        config.metrics.check().map_err(invalid)?;
        config.web.check().map_err(invalid)?;
        Ok(config)
    }

    /// Reads a configuration file, and what is beside it where it says so.
    ///
    /// # Errors
    /// When it cannot be read or taken; the text begins with its path.
    pub fn from_file(path: &Path) -> Result<Config, ConfigError> {
        Config::of_file(path, &Config::text_of(path)?)
    }

    /// The text of a configuration file.
    fn text_of(path: &Path) -> Result<String, ConfigError> {
        std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: path.to_path_buf(),
            error,
        })
    }

    /// The configuration of a file whose text was read.
    fn of_file(path: &Path, text: &str) -> Result<Config, ConfigError> {
        let mut config = Config::from_origin(text, &path.display().to_string())?;
        if config.admission.estimate_margin == EstimateMargin::Learned {
            let learned = learned::read(&learned::beside(path))?;
            config.admission.learned_margin = learned.map(|(margin, _)| margin);
        }
        Ok(config)
    }

    /// Seconds for which an acceptance holds without a job id.
    pub fn provisional_seconds(&self) -> f64 {
        self.admission.provisional.0
    }
}

#[cfg(test)]
mod tests;
