//! `libra config`

use super::args::{Args, ConfigCommand};
use super::{CONFIG_FILE, Done, load_config};
use libra::cgroup;
use libra::config::{Config, DEFAULT_TOML};
use libra::host::machine::Machine;
use libra::text::memory;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub fn config(command: &ConfigCommand, args: &Args) -> Done {
    let mut out = std::io::stdout().lock();
    match command {
        ConfigCommand::Default => write!(out, "{DEFAULT_TOML}")?,
        ConfigCommand::Check { file } => {
            let (origin, config) = match file.as_ref().or(args.config.as_ref()) {
                Some(path) => (path.display().to_string(), Config::from_file(path)?),
                None if Path::new(CONFIG_FILE).exists() => {
                    (CONFIG_FILE.to_string(), load_config(args)?)
                }
                None => ("built-in defaults".to_string(), Config::default()),
            };
            let machine = Machine::find(&config);
            let enforcement = match cgroup::open(&config.cgroup_settings()) {
                cgroup::Enforcement::Active(enforcer) => enforcer.describe(),
                cgroup::Enforcement::None { reason } => format!("NOT enforced: {reason}"),
            };
            if args.json {
                let json = serde_json::json!({
                    "origin": origin,
                    "valid": true,
                    "node": machine.name,
                    "processors": machine.spec.processors,
                    "rating": machine.spec.rating,
                    "enforcement": enforcement,
                });
                writeln!(out, "{json}")?;
            } else {
                writeln!(out, "{origin}: valid")?;
                writeln!(
                    out,
                    "node {}: {} processors, rating {}, memory {}",
                    machine.name,
                    machine.spec.processors,
                    machine.spec.rating,
                    memory::show(machine.spec.memory)
                )?;
                writeln!(out, "shares: {enforcement}")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
