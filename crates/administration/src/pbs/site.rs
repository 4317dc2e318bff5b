//! What is wanted at one site: options, what they were at the last installation, and defaults.

use super::found::Found;
use super::record::Options;
use super::server::Pbs;
use super::wanted::HookConfig;
use crate::Common;
use crate::Failure;
use crate::args::{PbsInstallArgs, PbsSettings, Share};
use libra_config::{Config, Reserve, site};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The library's name; what it is a link to changes with upgrades.
const LIBRARY: &str = "liblibra.so.0";

/// What the hooks are to be told, and the options that say so. Without a PBS its home is not known.
pub fn told(
    settings: &PbsSettings,
    args: &Common,
    last: &Options,
    pbs: Option<&Pbs>,
) -> Result<(Options, HookConfig), Failure> {
    let named = site::named(args.config.as_deref());
    let named = match named {
        Some(path) => Some(absolute(path)?),
        None => last.config.clone(),
    };
    let options = Options {
        library: settings.library.clone().or(last.library.clone()),
        config: named,
        host_config: settings.host_config.clone().or(last.host_config.clone()),
        ..last.clone()
    };
    let config = options.config.clone().unwrap_or(site::FILE.into());
    let home = pbs.map_or_else(|| PathBuf::from("/var/spool/pbs"), |pbs| pbs.home.clone());
    let told = HookConfig {
        library: options.library.clone().unwrap_or_else(find_library),
        host_config: options.host_config.clone().unwrap_or(config.clone()),
        // What is wrong with the file is one of the findings of a check.
        on_fault: Config::from_file(&config)
            .map(|config| config.pbs.on_fault)
            .unwrap_or_default(),
        config,
        state: home.join("server_priv/libra"),
    };
    Ok((options, told))
}

fn absolute(path: PathBuf) -> Result<PathBuf, Failure> {
    let text = path.to_string_lossy();
    if text.contains(|c: char| c.is_whitespace() || c == '\'' || c == '"') {
        return Err(Failure::Usage(format!(
            "--config: '{text}' has spaces or quotes; hooks need a path without"
        )));
    }
    std::path::absolute(&path)
        .map_err(|error| Failure::Usage(format!("--config: '{}': {error}", path.display())))
}

/// Where a package or `make install` puts the library.
fn find_library() -> PathBuf {
    let usual = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let mut places: Vec<PathBuf> = vec![usual.into(), "/usr/lib64".into(), "/usr/lib".into()];
    if let Some(prefix) = std::env::current_exe()
        .ok()
        .and_then(|program| program.parent()?.parent().map(PathBuf::from))
    {
        places.insert(0, prefix.join("lib64"));
        places.insert(0, prefix.join("lib"));
    }
    let files: Vec<PathBuf> = places.iter().map(|place| place.join(LIBRARY)).collect();
    let there = files.iter().find(|file| file.exists());
    there.unwrap_or(&files[files.len() - 3]).clone()
}

/// The options of this run: what it leaves out is as it was.
pub fn options(install: &PbsInstallArgs, mut options: Options) -> Options {
    if !install.nodes.is_empty() {
        options.nodes.clone_from(&install.nodes);
    }
    if options.nodes.iter().any(|node| node == "all") {
        options.nodes.clear();
    }
    match install.share {
        Some(Share::All) => options.share = None,
        Some(Share::Processors(n)) => options.share = Some(n),
        None => {}
    }
    options
}

/// Libra's nodes, and the processors of each that jobs may share: all but the reserve, unless it is said how many. Problems
/// name what cannot be; the other texts are warnings.
pub fn nodes(
    found: &Found,
    options: &Options,
    reserve: Reserve,
) -> (BTreeMap<String, f64>, Vec<String>, Vec<String>) {
    let (mut nodes, mut problems, mut warnings) = (BTreeMap::new(), Vec::new(), Vec::new());
    let all = options.nodes.is_empty();
    let names: Vec<&String> = if all {
        found.nodes.keys().collect()
    } else {
        options.nodes.iter().collect()
    };
    if names.is_empty() {
        problems.push("there is no node; create some with qmgr first".to_string());
    }
    for name in names {
        let Some(node) = found.nodes.get(name) else {
            problems.push(format!("there is no node '{name}'; pbsnodes -a lists them"));
            continue;
        };
        let processors = node.processors();
        match (options.share, processors) {
            (Some(share), processors) => {
                if processors.is_some_and(|processors| share > processors) {
                    warnings.push(format!(
                        "{name} has {} processors and jobs may share {share}: more is promised than there is",
                        processors.unwrap_or_default()
                    ));
                }
                nodes.insert(name.clone(), share);
            }
            (None, Some(processors)) if processors > 0.0 => {
                nodes.insert(name.clone(), reserve.leaves(processors));
            }
            (None, Some(_)) => warnings.push(format!("{name} has no processors and is left out")),
            (None, None) => {
                let text = format!(
                    "{name} has never reported its processors (state {})",
                    node.state
                );
                if all {
                    warnings.push(format!(
                        "{text} and is left out; run install again when it is up"
                    ));
                } else {
                    problems.push(format!("{text}; start it, or say --share"));
                }
            }
        }
    }
    (nodes, problems, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pbs::found::NodeFound;

    fn site() -> Found {
        let node = |ncpus: Option<&str>| NodeFound {
            state: "free".to_string(),
            available: ncpus
                .map(|n| ("ncpus".to_string(), n.to_string()))
                .into_iter()
                .collect(),
            ..NodeFound::default()
        };
        let nodes = [("a", Some("4")), ("b", Some("0")), ("c", None)];
        Found {
            nodes: nodes.map(|(name, n)| (name.to_string(), node(n))).into(),
            ..Found::default()
        }
    }

    #[test]
    fn all_nodes_with_processors_are_taken() {
        let (taken, problems, warnings) = nodes(&site(), &Options::default(), Reserve(0.05));
        assert_eq!(taken, [("a".to_string(), 3.8)].into());
        assert_eq!((problems.len(), warnings.len()), (0, 2));
    }

    #[test]
    fn named_nodes_must_be_there() {
        let named = |names: &[&str], share| Options {
            nodes: names.iter().map(|name| name.to_string()).collect(),
            share,
            ..Options::default()
        };
        let (taken, problems, _) = nodes(&site(), &named(&["a", "c", "x"], None), Reserve(0.0));
        assert_eq!((taken.len(), problems.len()), (1, 2));
        let (taken, problems, warnings) =
            nodes(&site(), &named(&["a", "c"], Some(8.0)), Reserve(0.05));
        assert_eq!(
            taken,
            [("a".to_string(), 8.0), ("c".to_string(), 8.0)].into()
        );
        assert_eq!((problems.len(), warnings.len()), (0, 1));
        let (_, problems, _) = nodes(&Found::default(), &Options::default(), Reserve(0.05));
        assert!(!problems.is_empty());
    }

    #[test]
    fn what_a_run_leaves_out_is_as_it_was() {
        let last = Options {
            nodes: vec!["a".to_string()],
            share: Some(1.5),
            ..Options::default()
        };
        let run = |nodes: &[&str], share| {
            let install = PbsInstallArgs {
                dry_run: false,
                nodes: nodes.iter().map(|name| name.to_string()).collect(),
                share,
                settings: PbsSettings {
                    library: None,
                    host_config: None,
                    state: "/s".into(),
                },
            };
            options(&install, last.clone())
        };
        assert_eq!(run(&[], None), last);
        let changed = run(&["all"], Some(Share::All));
        assert_eq!((changed.nodes.len(), changed.share), (0, None));
        assert_eq!(run(&["b"], None).nodes, ["b"]);
    }
}
