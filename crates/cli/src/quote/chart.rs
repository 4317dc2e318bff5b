//! The price over deadlines, drawn with characters.
//!
//! Pure. Between two judged deadlines the price is drawn as if it went straight from one to the other; whether it would be
//! accepted is that of the nearer one.

use libra_batch::quote::Quote;
use libra_core::decision::curve::Point;
use libra_units::{credits, duration};

/// Lines of the plot itself.
const LINES: usize = 9;
/// A chart that is wider says no more.
const WIDEST: usize = 96;
/// A narrower one says nothing.
const NARROWEST: usize = 30;

/// What the marks look like.
struct Marks {
    accepted: char,
    refused: char,
    asked: char,
    asked_refused: char,
    at: char,
    budget: char,
    side: char,
    foot: char,
    corner: char,
    tick: char,
}

const UTF8: Marks = Marks {
    accepted: '●',
    refused: '×',
    asked: '◆',
    asked_refused: '◇',
    at: '┊',
    budget: '┄',
    side: '│',
    foot: '─',
    corner: '└',
    tick: '┴',
};

const ASCII: Marks = Marks {
    accepted: 'o',
    refused: 'x',
    asked: '#',
    asked_refused: '?',
    at: ':',
    budget: '-',
    side: '|',
    foot: '-',
    corner: '+',
    tick: '+',
};

/// The chart, in lines of at most `width` characters; empty where there is nothing to draw or no room for it.
pub fn chart(quote: &Quote, width: usize, utf8: bool) -> String {
    let marks = if utf8 { &UTF8 } else { &ASCII };
    let points = &quote.curve;
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let prices = points.iter().map(|point| point.judged.price);
    let (mut low, mut high) = prices.fold((f64::INFINITY, 0.0f64), |(low, high), price| {
        (low.min(price), high.max(price))
    });
    if !high.is_finite() || first.deadline >= last.deadline {
        return String::new();
    }
    let budget = quote.budget.filter(|budget| near(*budget, low, high));
    if let Some(budget) = budget {
        (low, high) = (low.min(budget), high.max(budget));
    }
    if high - low < 1e-9 * high.max(1.0) {
        (low, high) = (low - 1.0, high + 1.0);
    }
    let row_of = |price: f64| {
        let part = (high - price) / (high - low) * (LINES - 1) as f64;
        part.round().clamp(0.0, (LINES - 1) as f64) as usize
    };
    let asked_price = points
        .iter()
        .find(|point| point.deadline == quote.deadline)
        .map_or(quote.price, |point| point.judged.price);
    let labels = labels(&row_of, low, high, budget, asked_price);
    let margin = labels.iter().map(|label| label.chars().count()).max();
    let margin = margin.unwrap_or(0) + 1;
    let width = width.min(WIDEST);
    if width < NARROWEST.max(margin + 20) {
        return String::new();
    }
    let columns = width - margin - 1;
    let scale = (first.deadline.ln(), last.deadline.ln());
    let column_of = |deadline: f64| {
        let part = (deadline.ln() - scale.0) / (scale.1 - scale.0);
        (part.clamp(0.0, 1.0) * (columns - 1) as f64).round() as usize
    };
    let mut cells = vec![vec![' '; columns]; LINES];
    if let Some(budget) = budget {
        cells[row_of(budget)].fill(marks.budget);
    }
    let asked = column_of(quote.deadline);
    for line in &mut cells {
        line[asked] = marks.at;
    }
    let deadline_of = |column: usize| {
        let part = column as f64 / (columns - 1) as f64;
        (scale.0 + part * (scale.1 - scale.0)).exp()
    };
    for (column, deadline) in (0..columns).map(deadline_of).enumerate() {
        let (price, refused) = at(points, deadline);
        cells[row_of(price)][column] = match refused {
            true => marks.refused,
            false => marks.accepted,
        };
    }
    cells[row_of(asked_price)][asked] = match quote.accepted {
        true => marks.asked,
        false => marks.asked_refused,
    };
    let mut text = format!("{:>margin$} credits\n", "");
    for (label, cells) in labels.iter().zip(&cells) {
        let line: String = cells.iter().collect();
        let line = format!("{label:>margin$}{}{line}", marks.side);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let ends = [
        (0, first.deadline),
        (asked, quote.deadline),
        (columns - 1, last.deadline),
    ];
    let mut foot = vec![marks.foot; columns];
    for (column, _) in ends {
        foot[column] = marks.tick;
    }
    let foot: String = foot.into_iter().collect();
    text.push_str(&format!("{:>margin$}{}{foot}\n", "", marks.corner));
    text.push_str(&format!("{:>margin$} {}\n", "", below(&ends, columns)));
    text.push_str(&wrapped(&legend(quote, marks, budget), width));
    text
}

/// Returns true if a budget is near enough to the prices to be drawn with them.
pub(super) fn near(budget: f64, low: f64, high: f64) -> bool {
    let span = (high - low).max(high * 0.05);
    (low - span..=high + span).contains(&budget)
}

/// Price at a deadline, and whether it would be refused.
fn at(points: &[Point], deadline: f64) -> (f64, bool) {
    let after = points.partition_point(|point| point.deadline < deadline);
    let right = &points[after.min(points.len() - 1)];
    let left = &points[after.saturating_sub(1)];
    let between = right.deadline.ln() - left.deadline.ln();
    let part = match between > 0.0 {
        true => ((deadline.ln() - left.deadline.ln()) / between).clamp(0.0, 1.0),
        false => 1.0,
    };
    let price = left.judged.price + part * (right.judged.price - left.judged.price);
    let nearer = if part < 0.5 { left } else { right };
    (price, nearer.judged.refused.is_some())
}

/// What stands before each line.
fn labels(
    row_of: &dyn Fn(f64) -> usize,
    low: f64,
    high: f64,
    budget: Option<f64>,
    asked: f64,
) -> Vec<String> {
    let mut labels = vec![String::new(); LINES];
    // The later ones matter more.
    for price in [Some(high), Some(low), Some(asked), budget]
        .into_iter()
        .flatten()
    {
        labels[row_of(price)] = credits((price * 100.0).round() / 100.0);
    }
    labels
}

/// Labels below their columns; the asked one stays where there is no room for all.
fn below(ends: &[(usize, f64); 3], columns: usize) -> String {
    let mut line: Vec<char> = vec![' '; columns];
    for index in [1, 0, 2] {
        let (column, deadline) = ends[index];
        let label: Vec<char> = duration::show(deadline).chars().collect();
        let half = label.len() / 2;
        let start = column
            .saturating_sub(half)
            .min(columns.saturating_sub(label.len()));
        let around = start.saturating_sub(2)..(start + label.len() + 2).min(columns);
        if label.len() <= columns && line[around].iter().all(|c| *c == ' ') {
            line[start..start + label.len()].copy_from_slice(&label);
        }
    }
    let line: String = line.into_iter().collect();
    line.trim_end().to_string()
}

fn legend(quote: &Quote, marks: &Marks, budget: Option<f64>) -> Vec<String> {
    let mut words = Vec::new();
    if quote.curve.iter().any(|p| p.judged.refused.is_none()) {
        words.push(format!("{} accepted", marks.accepted));
    }
    let mut reasons: Vec<&str> = Vec::new();
    for reason in (quote.curve.iter()).filter_map(|p| Some(p.judged.refused?.word())) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if !reasons.is_empty() {
        words.push(format!(
            "{} refused ({})",
            marks.refused,
            reasons.join(", ")
        ));
    }
    let asked = if quote.accepted {
        marks.asked
    } else {
        marks.asked_refused
    };
    words.push(format!("{asked} asked: {}", duration::show(quote.deadline)));
    match (budget, quote.budget) {
        (Some(budget), _) => words.push(format!("{} budget {}", marks.budget, credits(budget))),
        (None, Some(budget)) if budget > quote.price => {
            words.push(format!("budget {}: above this chart", credits(budget)));
        }
        (None, Some(budget)) => {
            words.push(format!("budget {}: below this chart", credits(budget)));
        }
        (None, None) => {}
    }
    words
}

fn wrapped(words: &[String], width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 3 + word.chars().count() <= width => {
                line.push_str("   ");
                line.push_str(word);
            }
            _ => lines.push(word.chars().take(width).collect()),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_core::decision::admission::Admission;
    use libra_core::decision::curve::curve;
    use libra_core::decision::job::{Request, Terms};
    use libra_core::decision::node::{NodeSpec, PlainNode};
    use libra_core::decision::share::ShareRule;

    fn quote(deadline: f64, budget: f64) -> Quote {
        let spec = NodeSpec {
            processors: 1.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        let nodes = [PlainNode::new(spec, Vec::new(), ShareRule::Exact)];
        let admission = <Admission>::default();
        let request = Request::single(Terms::hard(10.0, deadline, budget));
        let judged = admission.appraise(&nodes[..], &request);
        Quote {
            accepted: judged.refused.is_none(),
            price: judged.price,
            deadline,
            budget: budget.is_finite().then_some(budget),
            curve: curve(&request, &|request| admission.appraise(&nodes[..], request)),
            ..Quote::default()
        }
    }

    #[test]
    fn it_fits_the_width_and_marks_what_was_asked() {
        for width in [20, 30, 36, 50, 80, 200] {
            for (utf8, (deadline, budget)) in [
                (true, (20.0, 15.0)),
                (false, (20.0, 10.6)),
                (true, (8.0, f64::INFINITY)),
                (false, (20.0, 1e9)),
                (false, (20.0, 0.0)),
            ] {
                let quote = quote(deadline, budget);
                let text = chart(&quote, width, utf8);
                if width < 36 {
                    continue;
                }
                let longest = text.lines().map(|line| line.chars().count()).max();
                assert!(longest <= Some(width.min(WIDEST)), "{width}\n{text}");
                assert_eq!(text.is_ascii(), !utf8, "{text}");
                let mark = match (utf8, quote.accepted) {
                    (true, true) => '◆',
                    (true, false) => '◇',
                    (false, true) => '#',
                    (false, false) => '?',
                };
                assert_eq!(text.matches(mark).count(), 2, "{text}");
                let far = text.contains(": above") || text.contains(": below");
                assert_eq!(far, [1e9, 15.0, 0.0].contains(&budget), "{text}");
            }
        }
        assert_eq!(chart(&quote(20.0, 15.0), 10, true), "");
        assert_eq!(chart(&Quote::default(), 80, true), "");
    }

    #[test]
    fn what_a_budget_refuses_is_drawn_above_it() {
        let text = chart(&quote(20.0, 10.6), 60, false);
        let budget = text
            .lines()
            .position(|line| line.contains("---"))
            .expect("a line");
        let drawn = |line: &&str| line.contains('x') && line.contains('|');
        let lines: Vec<&str> = text.lines().collect();
        let refused = lines.iter().rposition(drawn);
        assert!(refused < Some(budget + 1), "{text}");
        assert!(text.contains("x refused (budget)"), "{text}");
    }
}
