//! `libra slurm check --nodes`: what the check says on every node's host, put together. Each host is asked by a command that reaches it (ssh where
//! nothing else is said), some at a time, each with a limit; what comes from there is data of [`Findings`].

use super::found::{PATIENCE, run};
use super::{NOT_DONE, SlurmError, hostlist, jobs};
use crate::command::{self, NoOutput};
use crate::findings::{Finding, Findings, Level, Running};
use crate::{Common, Done, Failure};
use libra_config::{Config, site};
use libra_host::mark::content_hash;
use libra_terminal::{answer, say};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::IsTerminal;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Hosts that are asked at a time.
const AT_A_TIME: usize = 64;

/// The longest that a host may take: a check asks slurmctld, which may be busy, several times.
const HOST: Duration = Duration::from_secs(120);

/// More than a check prints, in bytes.
const MOST: usize = 1 << 20;

/// What is asked there.
const ASKED: [&str; 6] = ["libra", "slurm", "check", "--role", "node", "--json"];

/// What stands for a node's own name where the same is said of several.
const NODE: &str = "NODE";

/// Who is waited for at a terminal is told how far it is every so often.
const TOLD: Duration = Duration::from_secs(1);

pub fn check(list: &str, by: &str, args: &Common) -> Done {
    let way = Way::new(by)?;
    let config = site::load(args.config.as_deref())?;
    let hosts = hosts(list, &config)?;
    let said = ask(&hosts, &way);
    let mut gathered = Gathered::default();
    for (host, (nodes, said)) in hosts.keys().zip(hosts.values().zip(said)) {
        gathered.take(host, nodes, said);
    }
    let findings = gathered.findings(own(args));
    let code = match findings.worst() {
        Level::Problem => NOT_DONE,
        _ => 0,
    };
    answer(&findings.shown(args.json, Level::Ok), code)
}

/// The configuration that is read here, with its content's hash: nodes that read a file at the same place should find the same in it.
fn own(args: &Common) -> Option<Running> {
    let configuration = site::named(args.config.as_deref()).unwrap_or_else(|| site::FILE.into());
    let hash = content_hash(&fs::read(&configuration).ok()?);
    Some(Running {
        name: "this host".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        configuration,
        hash: Some(hash),
    })
}

/// Nodes by the names of their hosts.
type Hosts = BTreeMap<String, BTreeSet<String>>;

/// The nodes that were named, or those of Libra's partitions.
fn hosts(list: &str, config: &Config) -> Result<Hosts, Failure> {
    let arguments = ["-h", "-a", "-N", "-o", "%N %n %R %h"];
    let text = run("sinfo", &arguments, PATIENCE).map_err(|answer| SlurmError::Command {
        command: "sinfo".to_string(),
        answer,
    })?;
    of_sinfo(&text, list, &config.slurm.partitions).map_err(Failure::Usage)
}

/// From lines with a node, its host, a partition of it, and how that shares processors.
fn of_sinfo(text: &str, list: &str, partitions: &[String]) -> Result<Hosts, String> {
    let wanted = hostlist::names(list).map_err(|why| format!("--nodes={list}: {why}"))?;
    let mut missing: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let mut hosts = Hosts::new();
    for line in text.lines() {
        let [node, host, partition, shares] = line.split_whitespace().collect::<Vec<_>>()[..]
        else {
            continue;
        };
        let is_wanted = match (wanted.is_empty(), partitions.is_empty()) {
            (false, _) => wanted.iter().any(|name| name == node),
            (true, false) => partitions.iter().any(|name| name == partition),
            (true, true) => jobs::force(shares).is_some(),
        };
        missing.remove(node);
        if is_wanted {
            (hosts.entry(host.to_string()).or_default()).insert(node.to_string());
        }
    }
    match (missing.is_empty(), hosts.is_empty()) {
        (false, _) => Err(format!(
            "--nodes={list}: Slurm has no node {}; 'sinfo -N' lists those that there are",
            hostlist::fold(missing)
        )),
        (_, true) => Err(
            "no partition of this cluster shares its processors (OverSubscribe=FORCE:20), or none that [slurm] partitions of the configuration names, so there is no node to ask; name some: --nodes=n[1-99]"
                .to_string(),
        ),
        _ => Ok(hosts),
    }
}

/// How a command is run on a host.
struct Way(Vec<String>);

impl Way {
    fn new(by: &str) -> Result<Way, Failure> {
        let words: Vec<String> = by.split_whitespace().map(str::to_string).collect();
        match words.iter().any(|word| word.contains("{}")) {
            true => Ok(Way(words)),
            false => Err(Failure::Usage(format!(
                "--by='{by}': expected a command in which {{}} stands for the host, for example --by='ssh {{}}'"
            ))),
        }
    }

    fn command(&self, host: &str) -> Command {
        let mut words = self.0.iter().map(|word| word.replace("{}", host));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(ASKED);
        command
    }
}

/// What a host said, or why it did not, in words.
type Said = Result<Vec<Finding>, String>;

/// Asks all of them; what they said, in their order.
fn ask(hosts: &Hosts, way: &Way) -> Vec<Said> {
    let names: Vec<&String> = hosts.keys().collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all: Mutex<Vec<Option<Said>>> = Mutex::new(vec![None; names.len()]);
    std::thread::scope(|scope| {
        for _ in 0..names.len().min(AT_A_TIME) {
            scope.spawn(|| {
                while let Some(host) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let said = one(way.command(host));
                    let place = names.binary_search(host).unwrap_or_default();
                    all.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(said);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut told = Instant::now();
        while std::io::stderr().is_terminal() && done.load(Ordering::Relaxed) < names.len() {
            std::thread::sleep(Duration::from_millis(50));
            if told.elapsed() >= TOLD {
                told = Instant::now();
                let done = done.load(Ordering::Relaxed);
                say(format!("{done} of {} hosts have answered", names.len()));
            }
        }
    });
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Each has been asked.
    all.into_iter().flatten().collect()
}

fn one(mut command: Command) -> Said {
    let said = match command::run_at_most(&mut command, "", HOST, MOST) {
        Ok(said) => said,
        Err(NoOutput::Start(error) | NoOutput::Wait(error)) => {
            let program = command.get_program().to_string_lossy().into_owned();
            return Err(format!("{program}: {error}"));
        }
        Err(NoOutput::Late) => return Err(format!("no answer within {} s", HOST.as_secs())),
    };
    if said.out.len() >= MOST {
        return Err(format!("more than {MOST} bytes, which no check says"));
    }
    let lines = said.out.lines().filter(|line| !line.trim().is_empty());
    let findings: Result<Vec<Finding>, _> = lines.map(serde_json::from_str).collect();
    match findings {
        // 0 and 1 are what a check ends with.
        Ok(findings) if !findings.is_empty() && matches!(said.status.code(), Some(0 | 1)) => {
            Ok(findings)
        }
        _ => Err(
            match said.err.lines().rfind(|line| !line.trim().is_empty()) {
                Some(line) => line.trim().to_string(),
                None => format!("no findings; {}", said.status),
            },
        ),
    }
}

/// What was said, and of which nodes.
#[derive(Default)]
struct Gathered {
    said: BTreeMap<(std::cmp::Reverse<Level>, String), BTreeSet<String>>,
    running: Vec<Running>,
    /// Nodes with a problem.
    wrong: BTreeSet<String>,
    nodes: BTreeSet<String>,
}

impl Running {
    /// For one line each, whatever a node's host says.
    fn in_one_line(self) -> Running {
        Running {
            version: in_one_line(&self.version),
            configuration: in_one_line(&self.configuration.to_string_lossy()).into(),
            hash: self.hash.as_deref().map(in_one_line),
            ..self
        }
    }
}

impl Gathered {
    fn take(&mut self, host: &str, nodes: &BTreeSet<String>, said: Said) {
        self.nodes.extend(nodes.iter().cloned());
        let findings = said.unwrap_or_else(|why| {
            vec![Finding {
                level: Level::Problem,
                text: format!("does not answer: {why}"),
                node: None,
            }]
        });
        for finding in findings {
            // A host may have several nodes, and say of which it speaks.
            let of: Vec<&String> = (nodes.iter())
                .filter(|node| has_word(&finding.text, node))
                .collect();
            let (of, text) = match of[..] {
                [node] => (BTreeSet::from([node.clone()]), renamed(&finding.text, node)),
                _ => (nodes.clone(), renamed(&finding.text, host)),
            };
            if finding.level == Level::Problem {
                self.wrong.extend(of.iter().cloned());
            }
            let known = self.said.entry((std::cmp::Reverse(finding.level), text));
            known.or_default().extend(of);
            let running = finding.node.filter(|running| nodes.contains(&running.name));
            self.running.extend(running.map(Running::in_one_line));
        }
    }

    /// The worst first, and what all of them are at the end.
    fn findings(self, own: Option<Running>) -> Findings {
        let mut findings = Findings::default();
        let list = |nodes: &BTreeSet<String>| hostlist::fold(nodes.iter().map(String::as_str));
        for ((level, text), nodes) in &self.said {
            findings.add(level.0, format!("{}: {text}", list(nodes)));
        }
        let mut running: BTreeSet<String> = (self.running.iter())
            .map(|running| running.name.clone())
            .collect();
        running.retain(|node| !self.wrong.contains(node));
        let versions = alike(self.running.iter(), |running| Some(running.version.clone()));
        if versions.len() > 1 {
            findings.warning(format!(
                "nodes run by different versions of Libra: {}",
                told(&versions, &list)
            ));
        }
        let files: BTreeSet<_> = (self.running.iter())
            .map(|running| &running.configuration)
            .collect();
        for file in files {
            let all = self.running.iter().chain(&own);
            let here = all.filter(|running| running.configuration == *file);
            let contents = alike(here, |running| running.hash.clone());
            if contents.len() > 1 {
                findings.warning(format!(
                    "{} is not the same everywhere: {}",
                    file.display(),
                    told(&contents, &list)
                ));
            }
        }
        let rest: BTreeSet<String> = self.nodes.difference(&running).cloned().collect();
        let (all, held) = (self.nodes.len(), running.len());
        match rest.is_empty() {
            true => findings.ok(format!(
                "all {all} nodes hold jobs to their shares: each slurmd has Libra's plugin, which wrote limits and read them back"
            )),
            false => findings.problem(format!(
                "{held} of {all} nodes are known to hold jobs to their shares; {} have a problem, or it is not known of them",
                list(&rest)
            )),
        }
        findings
    }
}

/// Nodes by what is the same of them.
fn alike<'a>(
    running: impl Iterator<Item = &'a Running>,
    of: impl Fn(&Running) -> Option<String>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for running in running {
        let same = of(running).unwrap_or_else(|| "cannot be read".to_string());
        found.entry(same).or_default().insert(running.name.clone());
    }
    found
}

fn told(
    alike: &BTreeMap<String, BTreeSet<String>>,
    list: &dyn Fn(&BTreeSet<String>) -> String,
) -> String {
    let each = alike
        .iter()
        .map(|(what, nodes)| format!("{what} on {}", list(nodes)));
    each.collect::<Vec<_>>().join("; ")
}

/// Whether a character can be in a name.
fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "-_.".contains(c)
}

/// Where a text has this name as a word.
fn words<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    (text.match_indices(name).map(|(at, _)| at)).filter(move |at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !name.is_empty() && !before.is_some_and(is_of_name) && !after.is_some_and(is_of_name)
    })
}

fn has_word(text: &str, name: &str) -> bool {
    words(text, name).next().is_some()
}

/// Without what would begin another line, or tell a terminal something.
fn in_one_line(text: &str) -> String {
    let is_sign = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(is_sign, " ")
}

/// A text with [`NODE`] in the place of a name, for one line, whatever a node's host says.
fn renamed(text: &str, name: &str) -> String {
    let mut made = String::new();
    let mut last = 0;
    for at in words(text, name) {
        made.push_str(&text[last..at]);
        made.push_str(NODE);
        last = at + name.len();
    }
    made.push_str(&text[last..]);
    in_one_line(&made)
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
