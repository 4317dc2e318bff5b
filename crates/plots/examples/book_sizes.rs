//! Draws how the book grows with the nodes:
//!
//! `cargo bench --bench book -- sizes | cargo run --example book_sizes > docs/figures/book-sizes.svg`

use libra_plots::plot::{Plot, Point, Series};
use libra_plots::scale::Axis;
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// What is drawn of what was measured, and what it is called.
const SHOWN: [(&str, &str); 5] = [
    ("libra/admit", "accepted, best fit"),
    ("libra-least-loaded/admit", "accepted, least loaded"),
    ("libra/refuse", "refused, with counter-offers"),
    ("libra/progress", "progress reported"),
    ("libra/end", "ended"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut times = BTreeMap::new();
    let mut limits = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 4 || words[0] != "=" || words[3] != "us" {
            continue;
        }
        let (name, time) = (words[1], words[2]);
        let Some((nodes, what)) = name
            .strip_prefix("book-")
            .and_then(|name| name.split_once('x'))
        else {
            continue;
        };
        let nodes: u32 = nodes.parse()?;
        let (_, what) = what.split_once('/').ok_or("a result without a name")?;
        times.insert((what.to_string(), nodes), time.parse::<f64>()?);
        if let Some(&["x", "limit", "of", limit]) = words.get(5..9) {
            limits.insert(nodes, limit.parse::<f64>()?);
        }
    }
    let shown = SHOWN.map(|(what, label)| {
        let points = limits.keys().map(|&nodes| {
            let of = |part| times.get(&(format!("{what}/{part}"), nodes)).copied();
            let (median, most) = (of("p50").unwrap_or(f64::NAN), of("p99").unwrap_or(f64::NAN));
            Point::between(f64::from(nodes), median, median, most)
        });
        Series::new(label, points.collect())
    });
    let mut series = shown.to_vec();
    let limits = limits
        .iter()
        .map(|(&nodes, &limit)| Point::at(f64::from(nodes), limit));
    series.push(Series::new(
        "limit: a scan over all nodes",
        limits.collect(),
    ));
    let plot = Plot {
        title: "What the book costs, by nodes with ten jobs each".to_string(),
        description:
            "Processor time of one call: the median, and the bar goes to what 99 of 100 stay below."
                .to_string(),
        x: Axis::log("nodes"),
        y: Axis::log("microseconds"),
        series,
        ..Plot::default()
    };
    std::io::stdout().write_all(plot.svg().as_bytes())?;
    Ok(())
}
