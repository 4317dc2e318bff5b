//! Price against deadline, as a drawing in the page.

use crate::system::quote::Point;
use libra_plots::Size;
use libra_plots::markup::{Anchor, Drawing, Px, width};
use libra_plots::style::FONT;
use libra_units::{credits, duration};
use maud::{Markup, html};
use std::fmt::Write;

/// What was asked for; None if it was not said, or cannot be drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// Seconds.
    pub deadline: Option<f64>,
    /// Credits.
    pub budget: Option<f64>,
}

const SIZE: Size = Size {
    width: 440.0,
    height: 236.0,
};
const LEFT: f64 = 56.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 42.0;

/// Deadlines that a scale may have marks at, in seconds.
const MARKS: [f64; 26] = [
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1200.0,
    1800.0,
    3600.0,
    7200.0,
    14_400.0,
    28_800.0,
    57_600.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
    5_184_000.0,
    15_552_000.0,
    31_536_000.0,
];

/// The curve; nothing for fewer than two points.
pub fn part(points: &[Point], asked: &Asked) -> Option<Markup> {
    let mut points = points.to_vec();
    points.retain(|p| p.deadline > 0.0 && p.deadline.is_finite() && p.price.is_finite());
    points.sort_by(|a, b| a.deadline.total_cmp(&b.deadline));
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 2 || last.deadline <= first.deadline {
        return None;
    }
    let highest = points.iter().fold(0.0, |most: f64, p| p.price.max(most));
    // A budget far above all prices would flatten the curve; it is said in words then.
    let budget = asked.budget.filter(|budget| *budget <= 2.0 * highest);
    let lowest = points
        .iter()
        .fold(highest, |least: f64, p| p.price.min(least));
    // Where hurry costs little, a scale from 0 would show a level line.
    let zoomed = lowest > 0.5 * highest;
    // A budget near the prices is shown among them.
    let budget =
        budget.filter(|budget| !zoomed || (*budget - lowest).abs() < 3.0 * (highest - lowest));
    let (mut bottom, mut top) = (
        lowest.min(budget.unwrap_or(lowest)),
        highest.max(budget.unwrap_or(highest)),
    );
    if !zoomed {
        bottom = 0.0;
    }
    let room = (top - bottom).max(top * 1e-6).max(1e-6);
    top += 0.1 * room;
    bottom = if bottom > 0.0 {
        (bottom - 0.1 * room).max(0.0)
    } else {
        0.0
    };
    let scale = Scale {
        from: first.deadline.ln(),
        to: last.deadline.ln(),
        bottom,
        top,
    };
    let drawing = draw(&points, &scale, asked.deadline, budget);
    let least = points.iter().find(|p| p.accepted);
    let scale_words = if scale.bottom > 0.0 {
        " The scale does not begin at 0."
    } else {
        ""
    };
    let grey = if points.iter().all(|p| p.accepted) {
        ""
    } else {
        " What lies on grey ground would be refused."
    };
    let words = match (least, points.iter().rfind(|p| p.accepted)) {
        // A site may take none that is further away.
        (Some(p), Some(longest)) if longest.deadline < last.deadline => format!(
            "Accepted from a deadline of {}, there for {} credits, to one of {}, there for {}.{grey}{scale_words}",
            duration::show(p.deadline),
            credits(p.price),
            duration::show(longest.deadline),
            credits(longest.price)
        ),
        (Some(p), _) => format!(
            "Accepted from a deadline of {} on, there for {} credits; the last one drawn, {}, costs {}.{grey}{scale_words}",
            duration::show(p.deadline),
            credits(p.price),
            duration::show(last.deadline),
            credits(last.price)
        ),
        (None, _) => format!("None of these deadlines would be accepted now.{scale_words}"),
    };
    Some(html! {
        figure.curve {
            (drawing.inline("curve", "", "Price against deadline", &words))
            figcaption { (words) }
        }
    })
}

struct Scale {
    from: f64,
    to: f64,
    bottom: f64,
    top: f64,
}

impl Scale {
    fn x(&self, deadline: f64) -> f64 {
        let part = (deadline.ln() - self.from) / (self.to - self.from);
        LEFT + part * (SIZE.width - LEFT - RIGHT)
    }

    fn y(&self, price: f64) -> f64 {
        let part = (price - self.bottom) / (self.top - self.bottom);
        SIZE.height - BOTTOM - part * (SIZE.height - BOTTOM - TOP)
    }

    fn has(&self, deadline: f64) -> bool {
        let at = deadline.ln();
        at >= self.from - 1e-9 && at <= self.to + 1e-9
    }
}

fn draw(points: &[Point], scale: &Scale, deadline: Option<f64>, budget: Option<f64>) -> Drawing {
    let mut drawing = Drawing::new(SIZE);
    let floor = SIZE.height - BOTTOM;
    // What would be refused lies on a grey ground, one for all neighbours: between several, seams would show.
    let mut from = None;
    for (index, point) in points.iter().enumerate() {
        let is_last = index + 1 == points.len();
        if !point.accepted && !is_last {
            from.get_or_insert(scale.x(point.deadline));
        } else if let Some(left) = from.take() {
            let right = scale.x(point.deadline);
            drawing.rectangle("rest", left, TOP, right - left, floor - TOP);
        }
    }
    let step = nice((scale.top - scale.bottom) / 4.0);
    let first = (scale.bottom / step).ceil();
    for index in 0..=((scale.top / step).floor() - first).clamp(0.0, 20.0) as usize {
        let price = step * (first + index as f64);
        let y = scale.y(price);
        drawing.line("grid", (LEFT, y), (SIZE.width - RIGHT, y));
        drawing.text(
            LEFT - 6.0,
            y + 4.0,
            Anchor::End,
            "soft small",
            &credits(price),
        );
    }
    drawing.line("axis", (LEFT, floor), (SIZE.width - RIGHT, floor));
    let mut free = f64::NEG_INFINITY;
    for mark in MARKS.into_iter().filter(|mark| scale.has(*mark)) {
        let (x, label) = (scale.x(mark), short(mark));
        let half = width(&label, FONT - 1.0) / 2.0;
        if x - half < free || x + half > SIZE.width {
            continue;
        }
        free = x + half + 10.0;
        drawing.line("axis", (x, floor), (x, floor + 4.0));
        drawing.text(x, floor + 18.0, Anchor::Middle, "soft small", &label);
    }
    let end = (SIZE.width - RIGHT, SIZE.height - 6.0);
    drawing.text(end.0, end.1, Anchor::End, "soft small", "deadline");
    drawing.text(4.0, 14.0, Anchor::Start, "soft small", "credits");
    if let Some(budget) = budget {
        let y = scale.y(budget);
        drawing.line("reference", (LEFT, y), (SIZE.width - RIGHT, y));
        drawing.text(
            SIZE.width - RIGHT,
            y - 5.0,
            Anchor::End,
            "soft small haloed",
            "budget",
        );
    }
    let mut path = String::new();
    for (index, point) in points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let (x, y) = (Px(scale.x(point.deadline)), Px(scale.y(point.price)));
        // Writing to a String does not fail.
        let _ = write!(path, "{command}{x} {y}");
    }
    drawing.path("line s0", &path);
    if let Some(deadline) = deadline.filter(|deadline| *deadline > 0.0 && scale.has(*deadline)) {
        let (x, y) = (scale.x(deadline), scale.y(price_at(points, deadline)));
        drawing.line("reference", (x, TOP), (x, floor));
        drawing.path(
            "marker f1",
            &format!("M{} {}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z", Px(x - 5.0), Px(y)),
        );
        let label = short(deadline);
        let half = width(&label, FONT) / 2.0;
        let place = x.clamp(LEFT + half, SIZE.width - RIGHT - half);
        drawing.text(place, 14.0, Anchor::Middle, "", &label);
    }
    drawing
}

/// The price at a deadline between two points.
fn price_at(points: &[Point], deadline: f64) -> f64 {
    let after = points.iter().position(|p| p.deadline >= deadline);
    match after {
        None => points.last().map_or(0.0, |p| p.price),
        Some(0) => points[0].price,
        Some(index) => {
            let (a, b) = (points[index - 1], points[index]);
            let part = (deadline - a.deadline) / (b.deadline - a.deadline);
            a.price + part * (b.price - a.price)
        }
    }
}

/// 1, 2 or 5 times a power of ten, not less than `least`.
fn nice(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let found = [1.0, 2.0, 5.0].into_iter().find(|m| m * power >= least);
    found.unwrap_or(10.0) * power
}

/// `30 s`, `5m`, `2h`, `3d`, `1h40m`: as durations are shown everywhere, without a last part that is 0.
fn short(seconds: f64) -> String {
    let text = duration::show(seconds);
    let zeros = ["00s", "00m", "00h"].into_iter();
    let short = zeros.filter_map(|zero| text.strip_suffix(zero)).next();
    short.map_or(text.clone(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Point> {
        (0..24)
            .map(|index| {
                let deadline = 3600.0 * 1.15f64.powi(index);
                let price = 3600.0 + 3600.0 / deadline * 1000.0;
                let accepted = index > 3;
                Point {
                    deadline,
                    price,
                    accepted,
                }
            })
            .collect()
    }

    #[test]
    fn a_curve_has_all_that_was_asked_and_no_more() {
        let asked = Asked {
            deadline: Some(7200.0),
            budget: Some(4000.0),
        };
        let svg = part(&points(), &asked).expect("a curve").into_string();
        for needed in [
            ">2h<",
            "budget",
            "class=\"line s0\"",
            "marker",
            "class=\"rest\"",
            "Accepted from",
        ] {
            assert!(svg.contains(needed), "{needed}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("style="), "{svg}");
        let far = Asked {
            deadline: Some(1.0),
            budget: Some(1e9),
        };
        let svg = part(&points(), &far).expect("a curve").into_string();
        assert!(
            !svg.contains("marker") && !svg.contains(">budget<"),
            "{svg}"
        );
    }

    #[test]
    fn a_longest_deadline_is_said() {
        let mut points = points();
        for point in &mut points[20..] {
            point.accepted = false;
        }
        let svg = part(&points, &Asked::default())
            .expect("a curve")
            .into_string();
        assert!(svg.contains("Accepted from a deadline of 1h44m"), "{svg}");
        assert!(svg.contains("to one of 14h13m, there for"), "{svg}");
        assert!(!svg.contains("the last one drawn"), "{svg}");
    }

    #[test]
    fn too_little_is_no_curve() {
        assert!(part(&[], &Asked::default()).is_none());
        assert!(part(&points()[..1], &Asked::default()).is_none());
        let same = Point {
            deadline: 5.0,
            price: 1.0,
            accepted: true,
        };
        assert!(part(&[same, same], &Asked::default()).is_none());
        let odd = Point {
            deadline: f64::NAN,
            price: 1.0,
            accepted: true,
        };
        assert!(part(&[odd, same], &Asked::default()).is_none());
        let free = Point {
            deadline: 9.0,
            price: 0.0,
            accepted: true,
        };
        let level = part(&[Point { price: 0.0, ..same }, free], &Asked::default());
        assert!(level.expect("a curve").0.contains("<svg"));
    }
}
