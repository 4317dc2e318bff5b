//! What a PBS server has: its answers read into plain data. Pure.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// All that an installation touches or depends on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The server's name.
    pub server: String,
    pub resources: BTreeMap<String, ResourceFound>,
    pub nodes: BTreeMap<String, NodeFound>,
    pub hooks: BTreeMap<String, HookFound>,
    /// The default scheduler; None if its files are not on this host.
    pub scheduler: Option<SchedulerFound>,
    /// Schedulers of partitions.
    pub more_schedulers: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceFound {
    pub kind: String,
    pub flags: String,
}

impl ResourceFound {
    /// Whether it is of this type and has these flags, in any order.
    pub fn is(&self, kind: &str, flags: &str) -> bool {
        let sorted = |flags: &str| {
            let mut letters: Vec<char> = flags.chars().collect();
            letters.sort_unstable();
            letters
        };
        self.kind == kind && sorted(&self.flags) == sorted(flags)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeFound {
    /// `free`, `down`, … ; several with commas.
    pub state: String,
    /// Of the execution daemon; None until it has reported.
    pub version: Option<String>,
    /// Whether jobs get it alone: `default_shared`, `force_excl`, …
    pub sharing: String,
    /// `resources_available`, as text.
    pub available: BTreeMap<String, String>,
}

impl NodeFound {
    /// Processors; None if the host has not reported yet.
    pub fn processors(&self) -> Option<f64> {
        self.available.get("ncpus").and_then(|n| n.parse().ok())
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookFound {
    pub enabled: bool,
    pub events: Vec<String>,
    pub order: i64,
    pub freq: Option<u32>,
    /// Seconds after which PBS ends a run.
    pub alarm: Option<u32>,
    /// Python text and configuration; read for Libra's hooks and for pbs_cgroups only.
    pub content: String,
    pub config: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SchedulerFound {
    /// sched_config.
    pub file: PathBuf,
    pub text: String,
    /// Of the running scheduler.
    pub pid: Option<i32>,
}

/// What `list` of qmgr prints: for each object of a kind (`Hook`) its name and attributes.
pub fn list(text: &str, kind: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut objects: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut last: Option<String> = None;
    let mut ours = false;
    for line in text.lines() {
        // A long value goes on in the next line, after a tab.
        if let Some(rest) = line.strip_prefix('\t').filter(|_| ours) {
            let open = objects.last_mut().map(|(_, attributes)| attributes);
            if let (Some(attributes), Some(key)) = (open, &last) {
                attributes.entry(key.clone()).or_default().push_str(rest);
            }
        } else if let Some(attribute) = line.strip_prefix("    ").filter(|_| ours) {
            let (key, value) = attribute.split_once(" = ").unwrap_or((attribute, ""));
            if let Some((_, attributes)) = objects.last_mut() {
                attributes.insert(key.to_string(), value.to_string());
                last = Some(key.to_string());
            }
        } else if let Some((word, name)) = line.split_once(' ').filter(|(word, _)| !word.is_empty())
        {
            ours = word == kind;
            last = None;
            if ours {
                objects.push((name.trim().to_string(), BTreeMap::new()));
            }
        }
    }
    objects
}

/// `list resource`
pub fn resources(text: &str) -> BTreeMap<String, ResourceFound> {
    let read = list(text, "Resource")
        .into_iter()
        .map(|(name, mut attributes)| {
            let mut take = |key: &str| attributes.remove(key).unwrap_or_default();
            let (kind, flags) = (take("type"), take("flag"));
            (name, ResourceFound { kind, flags })
        });
    read.collect()
}

/// `list hook`; content and configuration are asked for one by one.
pub fn hooks(text: &str) -> BTreeMap<String, HookFound> {
    let read = list(text, "Hook").into_iter().map(|(name, attributes)| {
        let get = |key: &str| attributes.get(key).map_or("", String::as_str);
        let hook = HookFound {
            enabled: get("enabled").eq_ignore_ascii_case("true"),
            events: get("event")
                .split(',')
                .map(|event| event.trim().to_string())
                .filter(|event| !event.is_empty())
                .collect(),
            order: get("order").parse().unwrap_or(1),
            freq: get("freq").parse().ok(),
            alarm: get("alarm").parse().ok(),
            ..HookFound::default()
        };
        (name, hook)
    });
    read.collect()
}

/// The nodes of `pbsnodes -av -F json`.
pub fn nodes(json: &Value) -> BTreeMap<String, NodeFound> {
    let nodes = json.as_object().into_iter().flatten();
    let read = nodes.map(|(name, node)| {
        let found = NodeFound {
            state: node.get("state").map(shown).unwrap_or_default(),
            version: node.get("pbs_version").map(shown),
            sharing: node.get("sharing").map(shown).unwrap_or_default(),
            available: texts(node.get("resources_available")),
        };
        (name.clone(), found)
    });
    read.collect()
}

/// An object of resources as PBS prints it, where a text that looks like a number is one.
pub fn texts(object: Option<&Value>) -> BTreeMap<String, String> {
    let entries = object.and_then(Value::as_object).into_iter().flatten();
    entries.map(|(k, v)| (k.clone(), shown(v))).collect()
}

/// A value as PBS prints it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The line of sched_config that names the resources which the scheduler counts, with what is around
/// its list. None: the scheduler counts all of them.
pub fn resources_line(text: &str) -> Option<ResourcesLine<'_>> {
    // Every `resources:` line adds to the list, so the first one does.
    let line = text.lines().find(|line| {
        let after = line.trim_start().strip_prefix("resources");
        after.is_some_and(|rest| rest.trim_start().starts_with(':'))
    })?;
    let start = line.find(':')? + 1;
    let start = start + line[start..].len() - line[start..].trim_start().len();
    let (start, end) = match line[start..].strip_prefix('"') {
        Some(quoted) => (start + 1, start + 1 + quoted.find('"')?),
        None => {
            let word = line[start..].split_whitespace().next()?;
            (start, start + word.len())
        }
    };
    Some(ResourcesLine { line, start, end })
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResourcesLine<'a> {
    pub line: &'a str,
    /// Of the list, without quotes.
    start: usize,
    end: usize,
}

impl ResourcesLine<'_> {
    fn list(&self) -> &str {
        &self.line[self.start..self.end]
    }

    pub fn has(&self, resource: &str) -> bool {
        self.list().split(',').any(|name| name.trim() == resource)
    }

    pub fn has_all(&self, resources: &[&str]) -> bool {
        resources.iter().all(|resource| self.has(resource))
    }

    /// The line with these resources.
    pub fn with_all(&self, resources: &[&str]) -> String {
        let missing: Vec<&str> = (resources.iter().copied())
            .filter(|resource| !self.has(resource))
            .collect();
        let quoted = self.line[..self.start].ends_with('"');
        self.with(&missing.join(if quoted { ", " } else { "," }))
    }

    /// The line with one more resource.
    pub fn with(&self, resource: &str) -> String {
        // Only within quotes may there be a space.
        let quoted = self.line[..self.start].ends_with('"');
        let comma = match (self.list().trim().is_empty(), quoted) {
            (true, _) => "",
            (false, true) => ", ",
            (false, false) => ",",
        };
        let (before, after) = self.line.split_at(self.end);
        format!("{before}{comma}{resource}{after}")
    }

    /// The line without these resources.
    pub fn without_all(&self, resources: &[&str]) -> String {
        let kept: Vec<&str> = self
            .list()
            .split(',')
            .filter(|name| !resources.contains(&name.trim()))
            .collect();
        let (before, after) = (&self.line[..self.start], &self.line[self.end..]);
        format!("{before}{}{after}", kept.join(","))
    }
}

/// A text with one line replaced; every other byte stays.
pub fn with_line(text: &str, from: &str, to: &str) -> Option<String> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end_matches(['\n', '\r']) == from {
            let (before, after) = (&text[..at], &text[at + from.len()..]);
            return Some(format!("{before}{to}{after}"));
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_of_hooks_is_read_with_its_long_lines() {
        let text = "Max open servers: 49\nSched default\n    state = idle\n\nHook pbs_cgroups\n    type = site\n    enabled = false\n    \
                    event = execjob_begin,execjob_epilogue,\n\texecjob_attach,\n\texechost_periodic\n    \
                    freq = 120\n    order = 100\n    alarm = 90\n\nHook mine\n    enabled = true\n    event = queuejob\n    order = -3\n";
        let hooks = hooks(text);
        assert_eq!(hooks.len(), 2);
        let cgroups = &hooks["pbs_cgroups"];
        assert_eq!(
            cgroups.events,
            [
                "execjob_begin",
                "execjob_epilogue",
                "execjob_attach",
                "exechost_periodic"
            ]
        );
        assert_eq!(
            (cgroups.enabled, cgroups.order, cgroups.freq, cgroups.alarm),
            (false, 100, Some(120), Some(90))
        );
        assert_eq!((hooks["mine"].enabled, hooks["mine"].order), (true, -3));
    }

    #[test]
    fn resources_are_compared_whatever_the_order_of_their_flags() {
        let read = resources(
            "Resource libra_share\n    type = float\n    flag = hnm\n\nResource x\n    type = long\n",
        );
        assert!(read["libra_share"].is("float", "nhm"));
        assert!(!read["libra_share"].is("float", "nh"));
        assert!(!read["libra_share"].is("string", "nhm"));
        assert!(read["x"].is("long", ""));
    }

    #[test]
    fn nodes_are_read_as_pbs_prints_them() {
        let read = nodes(&json!({
            "n1": {"state": "free", "pbs_version": "23.06.06",
                   "resources_available": {"ncpus": 2, "host": "n1", "libra_node": "True"}},
            "n2": {"state": "state-unknown,down"},
        }));
        assert_eq!(read["n1"].processors(), Some(2.0));
        assert_eq!(read["n1"].available["libra_node"], "True");
        assert_eq!(
            (read["n2"].processors(), read["n2"].version.clone()),
            (None, None)
        );
        assert!(nodes(&json!({})).is_empty());
    }

    #[test]
    fn a_resource_is_added_to_the_line_and_taken_out_again() {
        for (line, with) in [
            (
                "resources: \"ncpus, mem\"",
                "resources: \"ncpus, mem, libra_share\"",
            ),
            (
                "  resources :\t\"ncpus\"  ALL # x",
                "  resources :\t\"ncpus, libra_share\"  ALL # x",
            ),
            ("resources: ncpus,mem", "resources: ncpus,mem,libra_share"),
            ("resources: \"\"", "resources: \"libra_share\""),
        ] {
            let text = format!("#resources: \"no\"\nmom_resources: \"x\"\n{line}\r\nresources: b");
            let found = resources_line(&text).expect(line);
            let found = ResourcesLine {
                line: found.line.trim_end_matches('\r'),
                ..found
            };
            assert_eq!((found.line, found.has(SHARE)), (line, false));
            assert_eq!(found.with(SHARE), with);
            let changed = with_line(&text, line, with).expect("a line of the text");
            assert_eq!(changed, text.replace(line, with));
            let again = resources_line(with).expect(with);
            assert!(again.has(SHARE));
            assert_eq!(again.without_all(&[SHARE]), line);
        }
        for none in ["", "# resources: \"ncpus\"\n", "resources_x: \"a\"\n"] {
            assert_eq!(resources_line(none), None);
        }
        assert_eq!(with_line("a\nb", "c", "d"), None);
    }

    const SHARE: &str = "libra_share";
}
