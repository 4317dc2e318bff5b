//! The text that Prometheus reads.

use super::Histogram;
use super::families::{ALL, Family, Kind};
use libra_config::System;
use std::collections::HashSet;
use std::fmt::Write;

/// Which text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0, which Prometheus asks for.
    OpenMetrics,
    /// Prometheus's own older one, which the textfile collector of node_exporter reads.
    Prometheus,
}

impl Format {
    /// Its type for HTTP.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Labels of a sample: names of ours, and any values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Samples, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Index of the family, and the line.
    samples: Vec<(usize, String)>,
}

impl Page {
    /// An empty one.
    pub fn new() -> Page {
        Page::default()
    }

    /// Adds a sample of anything but a histogram.
    pub fn put(&mut self, family: &Family, labels: Labels<'_>, value: f64) {
        let name = family.sample_name();
        self.line(family, &name, labels, None, &number(value));
    }

    /// Adds a count.
    pub fn count(&mut self, family: &Family, labels: Labels<'_>, count: u64) {
        let name = family.sample_name();
        self.line(family, &name, labels, None, &count.to_string());
    }

    /// Adds the samples of a histogram.
    pub fn histogram(&mut self, family: &Family, labels: Labels<'_>, histogram: &Histogram) {
        let name = |end: &str| format!("{}{end}", family.name);
        for (bound, count) in histogram.cumulative() {
            let bound = match bound.is_finite() {
                true => number(bound),
                false => "+Inf".to_string(),
            };
            self.line(
                family,
                &name("_bucket"),
                labels,
                Some(&bound),
                &count.to_string(),
            );
        }
        self.line(
            family,
            &name("_count"),
            labels,
            None,
            &histogram.count().to_string(),
        );
        self.line(
            family,
            &name("_sum"),
            labels,
            None,
            &number(histogram.seconds()),
        );
    }

    fn line(
        &mut self,
        family: &Family,
        name: &str,
        labels: Labels<'_>,
        bound: Option<&str>,
        value: &str,
    ) {
        // Every family is one of them, which a test sees to.
        let Some(index) = ALL.iter().position(|known| known.name == family.name) else {
            return;
        };
        let mut line = name.to_string();
        let bound = bound.map(|bound| ("le", bound));
        for (number, (key, value)) in labels.iter().copied().chain(bound).enumerate() {
            line.push(if number == 0 { '{' } else { ',' });
            let _ = write!(line, "{key}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() || bound.is_some() {
            line.push('}');
        }
        let _ = write!(line, " {value}");
        self.samples.push((index, line));
    }

    /// Takes the samples over that a system has written with [`Format::Prometheus`]. Lines that are none of its are left out:
    /// another program's file adds nothing.
    pub fn merge(&mut self, text: &str, system: System) {
        let own = format!("system=\"{}\"", system.name());
        let mut known: HashSet<String> = (self.samples.iter())
            .filter_map(|(_, line)| Some(line.rsplit_once(' ')?.0.to_string()))
            .collect();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, labels, value)) = parse(line) else {
                continue;
            };
            let of = ALL.iter().position(|family| is_of(family, name));
            let (Some(index), Ok(value)) = (of, value.parse::<f64>()) else {
                continue;
            };
            let key = format!("{name}{{{labels}}}");
            let is_own = labels.starts_with(&own) && value.is_finite();
            if is_own && known.insert(key) {
                self.samples.push((index, line.to_string()));
            }
        }
    }

    /// All of it as text.
    pub fn text(&self, format: Format) -> String {
        let mut samples: Vec<&(usize, String)> = self.samples.iter().collect();
        // Stable: the samples of a histogram stay in their order.
        samples.sort_by_key(|(index, _)| *index);
        let mut text = String::new();
        let mut shown = None;
        for (index, line) in samples {
            if shown != Some(*index) {
                shown = Some(*index);
                describe(ALL[*index], format, &mut text);
            }
            text.push_str(line);
            text.push('\n');
        }
        if format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

fn describe(family: &Family, format: Format, text: &mut String) {
    let kind = match (family.kind, format) {
        (Kind::Counter, _) => "counter",
        (Kind::Histogram, _) => "histogram",
        (Kind::Info, Format::OpenMetrics) => "info",
        (Kind::Gauge | Kind::Info, _) => "gauge",
    };
    let name = match format {
        Format::OpenMetrics => family.name.to_string(),
        Format::Prometheus => family.sample_name(),
    };
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if format == Format::OpenMetrics && !family.unit.is_empty() {
        let _ = writeln!(text, "# UNIT {name} {}", family.unit);
    }
    let _ = writeln!(text, "# HELP {name} {}", family.help);
}

/// Never with an exponent; what is no number does not come here.
fn number(value: f64) -> String {
    match value.is_finite() {
        true => value.to_string(),
        false => "0".to_string(),
    }
}

fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn is_of(family: &Family, sample: &str) -> bool {
    match family.kind {
        Kind::Histogram => (sample.strip_prefix(family.name))
            .is_some_and(|end| matches!(end, "_bucket" | "_count" | "_sum")),
        _ => sample == family.sample_name(),
    }
}

/// A line as [`Page::line`] writes it: name, labels, value.
fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.split_once('{')?;
    let (labels, value) = rest.rsplit_once("} ")?;
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut rest = labels;
    loop {
        let (key, after) = rest.split_once("=\"")?;
        if key.is_empty() || !key.chars().all(plain) {
            return None;
        }
        let mut escape = false;
        let end = after.char_indices().find_map(|(at, c)| match (escape, c) {
            (true, _) => {
                escape = false;
                None
            }
            (false, '\\') => {
                escape = true;
                None
            }
            (false, '"') => Some(at),
            _ => None,
        })?;
        match after[end + 1..].strip_prefix(',') {
            Some(more) => rest = more,
            None if after.len() == end + 1 => return Some((name, labels, value)),
            None => return None,
        }
    }
}
