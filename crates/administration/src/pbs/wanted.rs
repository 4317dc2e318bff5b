//! What an installation consists of: resources, hooks and what the hooks are told. Plain data.

use libra_config::OnFault;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A resource of PBS that Libra needs.
pub struct Resource {
    pub name: &'static str,
    /// `type=` of qmgr.
    pub kind: &'static str,
    /// `flag=` of qmgr; PBS shows the letters in an order of its own.
    pub flags: &'static str,
}

/// What is committed to a job.
pub const TERMS: &str = "libra_terms";
/// How far a job is, from its hosts.
pub const PROGRESS: &str = "libra_progress";
/// A node's processors that jobs may share.
pub const SHARE: &str = "libra_share";
/// A node's processors for jobs without terms, a count beside the shares: `ncpus` must stay unused on Libra's
/// nodes, or PBS would call one busy that still has shares to give.
pub const BEST_EFFORT: &str = "libra_besteffort";
/// Whether a node is one of Libra's.
pub const NODE: &str = "libra_node";

const fn resource(name: &'static str, kind: &'static str, flags: &'static str) -> Resource {
    Resource { name, kind, flags }
}

/// The terms are strings, so that a bad value reaches the hook, which says what is wrong with it: PBS
/// loses bad numbers without a word.
pub const RESOURCES: [Resource; 15] = [
    resource("estimate", "string", "m"),
    resource("deadline", "string", "m"),
    resource("budget", "string", "m"),
    resource("deadline_type", "string", "m"),
    resource("penalty_rate", "string", "m"),
    resource(libra_wording::terms::CLASS, "string", "m"),
    resource(libra_pbs::QUOTE, "string", "m"),
    resource(TERMS, "string", "rm"),
    resource("libra_price", "string", "rm"),
    resource("libra_info", "string", "rm"),
    resource(PROGRESS, "string", "rm"),
    resource(SHARE, "float", "nhm"),
    resource(BEST_EFFORT, "long", "nhm"),
    resource("libra_rating", "float", "h"),
    resource(NODE, "boolean", "h"),
];

/// What the scheduler must look at, on the `resources:` line of sched_config.
pub const COUNTED: [&str; 3] = [SHARE, BEST_EFFORT, NODE];

impl Resource {
    /// Whether jobs carry it, which keeps PBS from deleting it.
    pub fn on_jobs(&self) -> bool {
        self.flags.contains('m')
    }
}

/// A hook: one event each, as a live hook's events must not be changed.
pub struct Hook {
    pub name: &'static str,
    pub event: &'static str,
    /// Hooks of an event run by rising order; a site's own have 1, unless they say otherwise.
    pub order: u32,
    /// Seconds between two runs of a periodic one.
    pub freq: Option<u32>,
    /// Seconds after which PBS ends a run; None leaves PBS's own, 30, or what a site has set.
    pub alarm: Option<u32>,
    /// What comes after the part that all hooks have.
    body: &'static str,
}

const COMMON: &str = include_str!("../../../../pbs-hooks/common.py");

/// After a site's hooks, which may change a job or refuse it: Libra judges what comes out.
pub const LAST_ON_SERVER: u32 = 1000;
/// After pbs_cgroups, whose order is 100, so that Libra puts processes where they stay.
const LAST_ON_HOST: u32 = 200;

macro_rules! hook {
    ($event:literal, $order:expr, $freq:expr) => {
        Hook {
            name: concat!("libra_", $event),
            event: $event,
            order: $order,
            freq: $freq,
            alarm: None,
            body: include_str!(concat!("../../../../pbs-hooks/", $event, ".py")),
        }
    };
}

/// In the order in which they are made and enabled: hosts first, and last of all the one that
/// admits, so that no job is admitted that the others do not look after.
pub const HOOKS: [Hook; 18] = [
    hook!("execjob_begin", LAST_ON_HOST, None),
    hook!("execjob_launch", LAST_ON_HOST, None),
    hook!("execjob_attach", LAST_ON_HOST, None),
    hook!("execjob_epilogue", LAST_ON_HOST, None),
    hook!("execjob_end", LAST_ON_HOST, None),
    hook!("execjob_abort", LAST_ON_HOST, None),
    hook!("execjob_postsuspend", LAST_ON_HOST, None),
    hook!("execjob_preresume", LAST_ON_HOST, None),
    hook!("exechost_periodic", LAST_ON_HOST, Some(10)),
    hook!("postqueuejob", LAST_ON_SERVER, None),
    hook!("modifyjob", LAST_ON_SERVER, None),
    hook!("movejob", LAST_ON_SERVER, None),
    hook!("runjob", LAST_ON_SERVER, None),
    hook!("jobobit", LAST_ON_SERVER, None),
    hook!("modifyvnode", LAST_ON_SERVER, None),
    hook!("management", LAST_ON_SERVER, None),
    // It looks at all jobs, in a process beside the server, and PBS begins no other while it runs.
    Hook {
        alarm: Some(600),
        ..hook!("periodic", LAST_ON_SERVER, Some(30))
    },
    hook!("queuejob", LAST_ON_SERVER, None),
];

impl Hook {
    /// The Python text that is imported.
    pub fn content(&self) -> String {
        format!("{COMMON}{}", self.body)
    }
}

/// What every hook is told: its configuration file in PBS.
#[derive(Debug, Clone, PartialEq)]
pub struct HookConfig {
    pub library: PathBuf,
    pub config: PathBuf,
    pub host_config: PathBuf,
    pub state: PathBuf,
    pub on_fault: OnFault,
}

impl HookConfig {
    pub fn text(&self) -> String {
        let json = json!({
            "library": self.library,
            "config": self.config,
            "host-config": self.host_config,
            "state": self.state,
            "on-fault": self.on_fault.name(),
        });
        format!("{json:#}\n")
    }
}

/// All that an installation is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub config: HookConfig,
    /// Nodes of Libra, and the processors of each that jobs may share.
    pub nodes: BTreeMap<String, f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_starts_last_and_every_event_has_one_hook() {
        assert_eq!(HOOKS[HOOKS.len() - 1].event, "queuejob");
        for hook in &HOOKS {
            assert_eq!(hook.name, format!("libra_{}", hook.event));
            assert_eq!(hook.freq.is_some(), hook.event.ends_with("periodic"));
            assert_eq!(HOOKS.iter().filter(|h| h.event == hook.event).count(), 1);
            assert!(hook.content().starts_with(COMMON) && hook.content().ends_with(hook.body));
        }
    }

    #[test]
    fn what_hooks_are_told_is_one_json_object() {
        let config = HookConfig {
            library: "/l.so".into(),
            config: "/s.toml".into(),
            host_config: "/%h.toml".into(),
            state: "/state".into(),
            on_fault: OnFault::Admit,
        };
        let read: serde_json::Value = serde_json::from_str(&config.text()).expect("JSON");
        let told = json!({"library": "/l.so", "config": "/s.toml", "host-config": "/%h.toml",
            "state": "/state", "on-fault": "admit"});
        assert_eq!(read, told);
    }
}
