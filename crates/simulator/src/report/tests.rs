//! What holds for every plot and page, whatever is in it.

use super::*;
use crate::groups::Groups;
use crate::measures::{MeasureObserver, Measures};
use crate::series;
use crate::summary::Summary;
use crate::testing::{ended, job, refused};
use crate::{Machine, Observer};
use libra_plots::plot::{Joined, Reference};
use libra_plots::*;
use proptest::prelude::*;

/// Reads markup as strictly as XML is read: every element closed in order, every attribute quoted,
/// every `<` and `&` part of the markup, every id unique. Good for HTML as well, as far as this
/// crate writes it.
fn check(markup: &str) -> Result<(), String> {
    let void = ["meta"];
    let mut open: Vec<&str> = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        for entity in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            if !known.iter().any(|name| entity.starts_with(name)) {
                return Err(format!("a bare & before {entity:.20}"));
            }
        }
        if text.contains('>') && open.last() != Some(&"style") {
            return Err(format!("a bare > in {text:.40}"));
        }
        let end = rest[start..].find('>').ok_or("an element without end")? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        if tag.starts_with("!DOCTYPE") {
            continue;
        }
        let closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if !name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        {
            return Err(format!("an element named {name:.20}"));
        }
        let parts: Vec<&str> = attributes.split('"').collect();
        if parts.len() % 2 == 0 {
            return Err(format!("an open quote in {tag:.60}"));
        }
        for pair in parts.chunks(2) {
            let [key, value] = pair else {
                if pair.concat().trim().is_empty() {
                    continue;
                }
                return Err(format!("an attribute without value in {tag:.60}"));
            };
            if !key.ends_with('=') {
                return Err(format!("an attribute without value in {tag:.60}"));
            }
            if value.contains(['<', '\u{0}']) || value.contains("NaN") || value.contains("inf") {
                return Err(format!("{key}{value:.40}"));
            }
            if key.trim() == "id=" && !ids.insert(value.to_string()) {
                return Err(format!("id {value} twice"));
            }
        }
        if !closed && !void.contains(&name) {
            open.push(name);
        }
    }
    match open.pop() {
        Some(name) => Err(format!("<{name}> is not closed")),
        None => Ok(()),
    }
}

#[test]
fn the_check_itself_finds_what_is_wrong() {
    for bad in [
        "<p>",
        "<p></b>",
        "<p>a & b</p>",
        "<p a=\"x></p>",
        "<p a></p>",
        "<p>></p>",
    ] {
        assert!(check(bad).is_err(), "{bad}");
    }
    assert_eq!(check("<p a=\"x\">1 &lt; 2<br/></p>"), Ok(()));
}

/// A run in which something of everything happens.
fn run(name: &str, seeds: usize) -> PolicyRun {
    let machine = Machine::uniform(2, 1);
    let (mut measured, mut series) = (
        MeasureObserver::new(&machine),
        series::Series::new(&machine, 0.0, false),
    );
    let jobs: Vec<_> = (0..50)
        .map(|n| job(n as f64 * 900.0, 1000.0, 2000.0 + n as f64 * 100.0))
        .collect();
    let mut groups = Groups::of(&jobs);
    for (index, job) in jobs.iter().enumerate() {
        let outcome = match index % 7 {
            0 => refused(job, "share"),
            1 => refused(job, "<reason>"),
            n => ended(job, job.submit, job.submit + 1000.0 + 600.0 * n as f64),
        };
        (&mut measured, (&mut series, &mut groups)).outcome(&outcome);
    }
    PolicyRun {
        name: name.to_string(),
        summary: Summary::new(vec![measured.measures(); seeds]),
        series,
        groups: vec![groups; seeds],
    }
}

fn report(title: &str, results: Results) -> Report {
    Report {
        title: title.to_string(),
        subtitle: title.to_string(),
        results,
        clock: Clock::FirstJob,
        facts: vec![(title.to_string(), title.to_string())],
        notes: vec![title.to_string()],
        rules: SiteRules {
            margin: 0.05,
            suspends: true,
            coupled: 90,
            on_their_own: 0,
        },
    }
}

#[test]
fn a_page_is_complete_and_asks_for_nothing() {
    let runs = vec![run("fifo", 1), run("libra", 3)];
    let page = report("A log", Results::Runs(runs.clone())).html();
    assert_eq!(check(&page), Ok(()));
    for word in [
        "http:", "https:", "<script", "src=", "href=", "url(", "@import",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    for figure in [
        "fates",
        "refusals",
        "slowdown",
        "promises",
        "utilisation",
        "hours",
    ] {
        assert!(
            page.contains(&format!("<figure id=\"{figure}\">")),
            "{figure}"
        );
    }
    assert_eq!(page, report("A log", Results::Runs(runs)).html());
}

#[test]
fn a_page_says_how_a_site_has_it() {
    let page = |name: &str, coupled: u64, on_their_own: u64| {
        let mut report = report("A log", Results::Runs(vec![run(name, 1)]));
        (report.rules.coupled, report.rules.on_their_own) = (coupled, on_their_own);
        report.html().replace("&quot;", "\"")
    };
    let classes = page("libra-classes", 1, 0);
    for line in [
        "policy = \"libra-adaptive\"",
        "estimate-margin = \"5%\"",
        "estimate-above-deadline = \"conditional\"",
        "[class]",
        "several = \"dedicated\"",
        "suspend = \"memory\"",
    ] {
        assert!(classes.contains(line), "{line}");
    }
    let names_class = "where they name their class";
    assert!(!classes.contains(names_class));
    assert!(page("libra-classes", 1, 1).contains(names_class));
    // Nobody was dedicated.
    assert!(!page("libra-classes", 0, 1).contains("[class]"));
    let dedicated = page("libra-dedicated", 0, 1);
    assert!(dedicated.contains("\ndefault = \"dedicated\""));
    let gang = page("libra-gang", 1, 0);
    assert!(gang.contains("simulated so far") && !gang.contains("[admission]"));
}

#[test]
fn pages_of_nothing_are_pages() {
    assert_eq!(check(&report("", Results::Runs(Vec::new())).html()), Ok(()));
    let empty = PolicyRun {
        name: "fifo".to_string(),
        summary: Summary::new(vec![Measures::default()]),
        series: series::Series::new(&Machine::uniform(0, 0), 0.0, false),
        groups: Vec::new(),
    };
    assert_eq!(
        check(&report("", Results::Runs(vec![empty])).html()),
        Ok(())
    );
    let sweep = Results::Sweep(Sweep::default());
    assert_eq!(check(&report("", sweep).html()), Ok(()));
}

#[test]
fn a_sweep_says_who_leads() {
    let at = |percent: f64| {
        Summary::new(vec![Measures {
            fulfilled_percent: Some(percent),
            ..Measures::default()
        }])
    };
    let sweep = |second: f64| Sweep {
        parameter: "arrival delay factor".to_string(),
        policies: vec!["edf".to_string(), "libra".to_string()],
        points: vec![
            (0.5, vec![at(10.0), at(20.0)]),
            (1.0, vec![at(50.0), at(second)]),
        ],
    };
    let lead = |second| report("", Results::Sweep(sweep(second))).html();
    assert!(lead(60.0).contains(
        "At all 2 values of the arrival delay factor most jobs met their deadline under libra."
    ));
    assert!(
        lead(40.0)
            .contains("under edf at 1 of 2 values of the arrival delay factor, under libra at 1.")
    );
    assert_eq!(check(&lead(60.0)), Ok(()));
}

/// Numbers as odd as a caller may bring.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => -1e3..1e3f64,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, 1e308, 1e-308]),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,12}", "[<>&\"'/=\u{0}\u{1b}a-c]{0,12}"]
}

fn any_axis() -> impl Strategy<Value = Axis> {
    let scale = prop::sample::select(vec![Scale::Linear, Scale::Log, Scale::Duration]);
    let range = prop::option::of((any_number(), any_number()));
    (any_text(), scale, range, prop::option::of(any_number())).prop_map(
        |(label, scale, range, step)| Axis {
            label,
            scale,
            range,
            step,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_plot_is_well_formed(
        texts in (any_text(), any_text(), any_text()),
        (x, y) in (any_axis(), any_axis()),
        series in prop::collection::vec(
            prop::collection::vec((any_number(), any_number(), any_number(), any_number()), 0..6), 0..10),
        joined in prop::sample::select(vec![Joined::Lines, Joined::Curve, Joined::Steps]),
        reference in any_number(),
    ) {
        let plot = Plot {
            title: texts.0.clone(),
            description: texts.1.clone(),
            x,
            y,
            series: series
                .into_iter()
                .map(|points| Series::new(&texts.2, points
                    .into_iter()
                    .map(|(x, y, low, high)| Point::between(x, y, low, high))
                    .collect()))
                .collect(),
            joined,
            references: vec![Reference { y: reference, label: texts.2.clone() }],
        };
        prop_assert_eq!(check(&plot.svg()), Ok(()));
        prop_assert_eq!(check(&plot.inline(Size::NARROW, "a", "narrow").0), Ok(()));
    }

    #[test]
    fn every_bar_and_strip_is_well_formed(
        text in any_text(),
        x in any_axis(),
        rows in prop::collection::vec(
            (prop::collection::vec(any_number(), 0..5), prop::option::of((any_number(), any_number()))), 0..6),
        parts in 0usize..5,
        spans in prop::collection::vec((any_number(), any_number(), any_number()), 0..6),
        most in any_number(),
    ) {
        let bars = Bars {
            title: text.clone(),
            description: text.clone(),
            x: x.clone(),
            parts: (0..parts)
                .map(|style| Segment { name: text.clone(), style: (style > 0).then_some(style) })
                .collect(),
            rows: rows
                .into_iter()
                .map(|(values, between)| Row { name: text.clone(), values, between })
                .collect(),
            decimals: 1,
            unit: text.clone(),
        };
        prop_assert_eq!(check(&bars.svg()), Ok(()));
        prop_assert_eq!(check(&bars.inline(360.0, "a", "").0), Ok(()));
        let strips = Strips {
            title: text.clone(),
            description: text.clone(),
            x,
            y: text.clone(),
            most: (most, text.clone()),
            strips: vec![Strip { name: text.clone(), spans }],
        };
        prop_assert_eq!(check(&strips.svg()), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_text_gets_out_of_a_page(text in any_text()) {
        let text = format!("<b>{text}</b>");
        let mut named = run("x", 2);
        named.name = text.clone();
        let page = report(&text, Results::Runs(vec![named])).html();
        prop_assert_eq!(check(&page), Ok(()));
        prop_assert!(!page.contains("<b>"));
    }
}
