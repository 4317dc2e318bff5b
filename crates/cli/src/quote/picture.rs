//! The price over deadlines as a drawing of its own, light and dark.

use super::chart::near;
use libra_batch::quote::Quote;
use libra_core::decision::curve::Point as Judged;
use libra_plots::plot::Reference;
use libra_plots::{Axis, Plot, Point, Series, Size};
use libra_units::{credits, duration};

/// The drawing, in SVG.
pub fn svg(quote: &Quote) -> String {
    let price = |point: &Judged| point.judged.price;
    let low = (quote.curve.iter())
        .map(price)
        .fold(f64::INFINITY, f64::min);
    let high = (quote.curve.iter()).map(price).fold(0.0, f64::max);
    let budget = quote.budget.filter(|budget| near(*budget, low, high));
    let (low, high) = match budget {
        Some(budget) => (low.min(budget), high.max(budget)),
        None => (low, high),
    };
    let room = ((high - low) * 0.08).max(high * 1e-6).max(1e-6);
    let (unit, name) = unit(quote.deadline);
    // What is of the other kind is a gap.
    let series = |name: &str, accepted: bool| {
        let points = quote.curve.iter().map(|point| {
            let mine = point.judged.refused.is_none() == accepted;
            Point::at(
                point.deadline / unit,
                if mine { point.judged.price } else { f64::NAN },
            )
        });
        Series::new(name, points.collect())
    };
    let any = |accepted: bool| {
        (quote.curve.iter()).any(|point| point.judged.refused.is_none() == accepted)
    };
    let mut all = Vec::new();
    if any(true) {
        all.push(series("accepted", true).in_style(0));
    }
    if any(false) {
        all.push(series("refused", false).in_style(1));
    }
    let asked = Point::at(quote.deadline / unit, quote.price);
    all.push(Series::new("asked", vec![asked]).in_style(4));
    let verdict = if quote.accepted {
        "accepted"
    } else {
        "refused"
    };
    let plot = Plot {
        title: format!(
            "Price by deadline: {} for {} credits, {verdict}",
            duration::show(quote.deadline),
            credits(quote.price)
        ),
        description: format!(
            "The price of a job over its deadline, from {} to {}; what would be accepted and what refused. The deadline that was asked, {}, is {verdict}.",
            quote
                .curve
                .first()
                .map_or_else(String::new, |p| duration::show(p.deadline)),
            quote
                .curve
                .last()
                .map_or_else(String::new, |p| duration::show(p.deadline)),
            duration::show(quote.deadline),
        ),
        x: Axis::log(&format!("deadline, in {name} from submission")),
        y: Axis {
            range: Some((low - room, high + room)),
            ..Axis::linear("price in credits")
        },
        series: all,
        references: (budget.into_iter())
            .map(|budget| Reference {
                y: budget,
                label: format!("budget {}", credits(budget)),
            })
            .collect(),
        ..Plot::default()
    };
    // So narrow that the names stand above: beside the ends of these lines they would be far away.
    plot.svg_sized(Size {
        width: 519.0,
        height: 340.0,
    })
}

/// A unit that deadlines around this one are read well in: its seconds and its name.
fn unit(deadline: f64) -> (f64, &'static str) {
    match deadline {
        ..300.0 => (1.0, "seconds"),
        300.0..10_800.0 => (60.0, "minutes"),
        10_800.0..259_200.0 => (3600.0, "hours"),
        _ => (86_400.0, "days"),
    }
}
