//! Texts of qconf: `key value` a line, a value going on behind a backslash.

/// The value of a key; None if there is none.
pub fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let of = |line: &'a str| line.strip_prefix(key)?.strip_prefix([' ', '\t']);
    text.lines().find_map(of).map(str::trim)
}

/// The text with each value on one line.
pub fn unfolded(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| text + part.trim_start())
}

/// The text with another value of a key, which is added where it is not there. The file that `qconf -Mconf` takes is without the comment that
/// `qconf -sconf` begins with.
pub fn with(text: &str, key: &str, value: &str) -> String {
    let mut found = false;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let is_it = line
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with([' ', '\t']));
        match is_it {
            true if found => {}
            true => {
                found = true;
                lines.push(format!("{key:<28} {value}"));
            }
            false => lines.push(line.to_string()),
        }
    }
    if !found {
        lines.push(format!("{key:<28} {value}"));
    }
    lines.join("\n") + "\n"
}

/// A list of switches without one of them: `none` where nothing is left.
pub fn without(list: &str, switch: &str) -> String {
    let left: Vec<&str> = list
        .split(',')
        .map(str::trim)
        .filter(|one| *one != switch && !one.is_empty())
        .collect();
    match left.is_empty() {
        true => "none".to_string(),
        false => left.join(","),
    }
}

/// Names of complexes, with their definitions, of `qconf -sc`.
pub fn complexes(text: &str) -> Vec<(&str, Vec<&str>)> {
    (text.lines())
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.collect()))
        })
        .collect()
}

/// What a complex for terms is, behind its name: shortcut, type, relation, requestable, consumable, default, urgency.
pub fn definition(name: &str) -> [&str; 7] {
    [name, "STRING", "==", "YES", "NO", "NONE", "0"]
}

/// What `reporting_params` says of the accounting file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reporting {
    /// It is written.
    pub accounting: bool,
    /// Seconds after which an end is in it.
    pub flush_time: f64,
}

/// Reads `reporting_params`.
pub fn reporting(text: &str) -> Reporting {
    let find = |name: &str| {
        (text.split_whitespace()).find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let time = |name| libra_units::duration::parse(find(name)?).ok();
    Reporting {
        accounting: find("accounting").is_none_or(|value| value.eq_ignore_ascii_case("true")),
        // Grid Engine's own, where nothing is said.
        flush_time: time("accounting_flush_time")
            .or_else(|| time("flush_time"))
            .unwrap_or(15.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "#global:\nexecd_spool_dir              /var/spool\njsv_url                      none\njsv_allowed_mod              ac,h,i\n";

    #[test]
    fn a_value_is_changed_and_put_back_to_the_byte() {
        assert_eq!(value(CONF, "jsv_url"), Some("none"));
        assert_eq!(value(CONF, "jsv"), None);
        let changed = with(CONF, "jsv_url", "script:/a");
        assert_eq!(value(&changed, "jsv_url"), Some("script:/a"));
        let back = with(&changed, "jsv_url", "none");
        assert_eq!(format!("#global:\n{back}"), CONF);
        assert!(with(CONF, "shepherd_cmd", "/b").ends_with("\nshepherd_cmd                 /b\n"));
    }

    #[test]
    fn when_ends_are_written_down_is_read() {
        let folded = "a 1\nreporting_params   accounting=true reporting=false \\\n                   flush_time=00:00:09 joblog=false\nb 2\n";
        let conf = unfolded(folded);
        let params = value(&conf, "reporting_params").expect("a value");
        assert_eq!(reporting(params).flush_time, 9.0);
        assert_eq!(value(&conf, "b"), Some("2"));
        for (text, accounting, flush_time) in [
            (
                "accounting=true reporting=false flush_time=00:00:15 joblog=false sharelog=00:00:00",
                true,
                15.0,
            ),
            (
                "accounting=true flush_time=00:01:00 accounting_flush_time=00:00:01",
                true,
                1.0,
            ),
            ("accounting=false", false, 15.0),
            ("", true, 15.0),
        ] {
            let expected = Reporting {
                accounting,
                flush_time,
            };
            assert_eq!(reporting(text), expected, "{text}");
        }
    }

    #[test]
    fn a_switch_is_taken_out_of_a_list() {
        assert_eq!(without("ac,h,i", "ac"), "h,i");
        assert_eq!(without("ac", "ac"), "none");
        assert_eq!(without("none", "ac"), "none");
    }

    #[test]
    fn complexes_are_read_by_name() {
        let text = "#name shortcut type\n#----\narch                a          STRING      ==      YES         NO         NONE     0\n# >#< starts a comment\n";
        assert_eq!(
            complexes(text),
            [("arch", vec!["a", "STRING", "==", "YES", "NO", "NONE", "0"])]
        );
    }
}
