//! `libra config`

use super::args::{Args, ConfigCommand};
use super::{Done, Failure};
use libra_cgroup::Enforcement;
use libra_config::{
    AdmissionConfig, Config, ConfigError, DEFAULT_TOML, EstimateMargin, VersionChoice, site,
};
use libra_core::decision::class::Class;
use libra_core::decision::class_defaults::ClassDefaults;
use libra_host::machine::Machine;
use libra_host::registry::Registry;
use libra_terminal::answer;
use libra_units::{cut, memory, processors};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub fn config(command: &ConfigCommand, args: &Args) -> Done {
    match command {
        ConfigCommand::Default => answer(DEFAULT_TOML, 0),
        ConfigCommand::Check { file } => check(file.as_deref(), args),
    }
}

fn check(file: Option<&Path>, args: &Args) -> Done {
    let named = site::named(file.or(args.config.as_deref()));
    let (origin, found) = match named {
        Some(path) => {
            let origin = path.display().to_string();
            (
                origin.clone(),
                Config::from_file(&path).map(|config| (origin, config)),
            )
        }
        None => {
            let found = site::of_site(Path::new(site::FILE)).map(|found| {
                let origin = found.origin.map(|file| file.display().to_string());
                let origin = origin.unwrap_or_else(|| "built-in defaults".to_string());
                (origin, found.config)
            });
            (site::FILE.to_string(), found)
        }
    };
    let checked = found.and_then(|(origin, config)| {
        let warnings = registry_warnings(&origin, &config)?;
        Ok((origin, config, warnings))
    });
    let (origin, config, mut warnings) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            if args.json {
                let json = json!({"origin": origin, "valid": false, "error": error.to_string()});
                answer::<Failure>(&format!("{json}\n"), 0)?;
            }
            return Err(error.into());
        }
    };
    let machine = Machine::find(&config);
    let online = machine.online.len();
    if machine.spec.processors > online as f64 {
        warnings.push(format!(
            "node.processors is {} and this host has {online}: shares will not be kept",
            processors(machine.spec.processors)
        ));
    }
    let (enforced, enforcement) = match libra_cgroup::open(&machine.cgroup_settings(&config)) {
        Enforcement::Active(enforcer) => (true, enforcer.describe()),
        Enforcement::None { reason } => (false, format!("NOT enforced: {}", why(&config, &reason))),
    };
    if !enforced && config.cgroup.version != VersionChoice::Off {
        warnings.push(format!("shares are {enforcement}"));
    }
    let rest = (online as f64 - machine.spec.processors).max(0.0);
    let kept = match rest > 0.0 {
        true => format!("{} of {online} kept for the system", processors(rest)),
        false => "none kept for the system".to_string(),
    };
    let classes = libra_rules::class_defaults(&config);
    let text = if args.json {
        let json = json!({
            "origin": origin,
            "valid": true,
            "node": machine.name,
            "processors": machine.spec.processors,
            "processors_online": online,
            "rating": machine.spec.rating,
            "enforcement": enforcement,
            "estimate_margin": config.admission.margin(),
            "classes": classes_json(&classes),
            "warnings": warnings,
        });
        format!("{json}\n")
    } else {
        let mut text = format!(
            "{origin}: valid\nnode {}: {} processors ({}), rating {}, memory {}\nshares: {enforcement}\nclass of a job that names none: {}\nmargin on estimates: {}\n",
            machine.name,
            processors(machine.spec.processors),
            kept,
            machine.spec.rating,
            memory::show(machine.spec.memory),
            classes_shown(&classes),
            margin_shown(&config.admission)
        );
        for warning in &warnings {
            text += &format!("warning: {warning}\n");
        }
        text
    };
    answer(&text, 0)
}

/// With where it is from.
fn margin_shown(admission: &AdmissionConfig) -> String {
    let percent = |part: f64| format!("{} %", (part * 1e4).round() / 1e2);
    let counts = percent(admission.margin());
    match (admission.estimate_margin, admission.learned_margin) {
        (EstimateMargin::Fixed(_), _) => counts,
        (EstimateMargin::Learned, None) => {
            format!("{counts} (nothing was learned; see 'libra trace margin --keep')")
        }
        (EstimateMargin::Learned, Some(learned)) => {
            format!("{counts} (learned: {})", percent(learned.0))
        }
    }
}

/// Of jobs that name none.
fn classes_shown(classes: &ClassDefaults) -> String {
    let mut shown = classes.default.word().to_string();
    if let Some(class) = classes.several {
        let _ = write!(shown, "; with several processors {}", class.word());
    }
    for (queue, class) in &classes.queues {
        let _ = write!(shown, "; in {} {}", cut(queue), class.word());
    }
    if classes.default == Class::BestEffort {
        shown += " (in a batch system, with terms: deadline in the place of best-effort)";
    }
    shown
}

fn classes_json(classes: &ClassDefaults) -> Value {
    let queues: Map<String, Value> = (classes.queues.iter())
        .map(|(queue, class)| (queue.clone(), class.word().into()))
        .collect();
    json!({
        "default": classes.default.word(),
        "several": classes.several.unwrap_or(classes.default).word(),
        "queues": queues,
    })
}

/// Why nothing is enforced, by the key of the configuration where one is to blame.
fn why(config: &Config, reason: &str) -> String {
    let root = &config.cgroup.root;
    if config.cgroup.version != VersionChoice::Off && root.trim_matches('/').is_empty() {
        return format!(
            "cgroup.root is '{root}', all of the hierarchy; write \"auto\" or a path below it, such as \"libra\""
        );
    }
    reason.to_string()
}

/// Tells whether the registry can be where it is to be.
fn registry_warnings(origin: &str, config: &Config) -> Result<Vec<String>, ConfigError> {
    let directory = match config.registry.directory.as_str() {
        "auto" => match Registry::default_directory() {
            Ok(directory) => directory,
            Err(error) => return Ok(vec![error.to_string()]),
        },
        path => PathBuf::from(path),
    };
    let problem = match std::fs::metadata(&directory) {
        Ok(metadata) if metadata.is_dir() => return Ok(Vec::new()),
        Ok(_) => "which is not a directory".to_string(),
        // It is made when it is needed.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => format!("which cannot be used: {error}"),
    };
    Err(ConfigError::Invalid {
        origin: origin.to_string(),
        problem: format!(
            "registry.directory is '{}', {problem}; name a directory, or one that can be made",
            directory.display()
        ),
    })
}
