//! What section 5 of the LibraSLA paper says of its figures, sentence by sentence.
//!
//! The paper's words are taken for these amounts: "about 20 %" and "about 10 %" are percentage
//! points, from half as much to half as much again. One curve is above another where its mean over
//! the loads is; a curve "generally" falls where the mean of its second half is below that of its
//! first. Single points differ too much from seed to seed to be compared.

use super::{FIGURES, Panel};
use crate::statement::{Statement, Tested, mean};

/// The panels of one penalty.
struct View<'a>(&'a [Panel]);

impl View<'_> {
    fn panel(&self, id: &str) -> &Panel {
        let panel = self.0.iter().find(|panel| panel.id == id);
        panel.expect("every figure was run")
    }

    fn levels(&self, id: &str) -> [&'static str; 3] {
        let figure = FIGURES.iter().find(|figure| figure.ids.contains(&id));
        figure.expect("a figure of the paper").levels
    }

    /// Points at which one level improves more than another.
    fn better(&self, id: &str, (a, b): (usize, usize), at: fn(f64) -> bool) -> Tested {
        let levels = self.levels(id);
        let what = format!("{id} {} − {}", levels[a], levels[b]);
        let pairs = self.panel(id).pairs(levels[a], levels[b], at);
        Tested::differences(&what, pairs, |more| more > 0.0)
    }

    /// Mean over the loads of one level's lead on another.
    fn mean_lead(&self, id: &str, (a, b): (usize, usize)) -> f64 {
        let levels = self.levels(id);
        let means = |level: usize| mean(&self.panel(id).means(levels[level]));
        means(a) - means(b)
    }

    /// Tells whether each of these levels, in the mean, improves more than the next.
    fn descending(&self, ids: &[&str], levels: [usize; 3]) -> Tested {
        let lead = |id: &str, pair: (usize, usize)| {
            let names = self.levels(id);
            let lead = self.mean_lead(id, pair);
            let words = format!("{id} {} − {} {lead:+.1}", names[pair.0], names[pair.1]);
            Tested::point(lead > 0.0, words)
        };
        let [first, second, third] = levels;
        let pairs = [(first, second), (second, third)];
        ids.iter()
            .flat_map(|id| pairs.map(|pair| lead(id, pair)))
            .collect()
    }

    /// Every curve of these panels, with its name.
    fn curves(&self, ids: &[&str]) -> Vec<(String, Vec<f64>)> {
        let of = |id: &&str| {
            let panel = self.panel(id);
            let curve = |name| (format!("{} {name}", panel.id), panel.means(name));
            self.levels(id).map(curve)
        };
        ids.iter().flat_map(of).collect()
    }
}

fn heavy(factor: f64) -> bool {
    factor < 0.0251
}

const JOBS: [&str; 4] = ["2a", "3a", "4a", "5a"];
const UTILITY: [&str; 4] = ["2b", "3b", "4b", "5b"];

type Test = fn(&View<'_>) -> Tested;

const STATEMENTS: [(&str, &str, Test); 12] = [
    (
        "5.2, figures 2–5 a",
        "The improvement on Libra in jobs falls as the load falls.",
        |v| falls(v, &JOBS),
    ),
    (
        "5.2, figures 2–5 b",
        "The improvement on Libra in utility falls as the load falls.",
        |v| falls(v, &UTILITY),
    ),
    (
        "5.3, figures 2 a, b",
        "The more jobs have hard deadlines, the lower is the improvement.",
        |v| v.descending(&["2a", "2b"], [0, 1, 2]),
    ),
    (
        "5.3, figure 2 a",
        "In the mean about 20 points more jobs with 20 % of hard deadlines than with 80 % (10 to 30).",
        |v| about(v.mean_lead("2a", (0, 2)), 20.0),
    ),
    (
        "5.3, figure 2 b",
        "In the mean about 10 points more utility with 20 % of hard deadlines than with 80 % (5 to 15).",
        |v| about(v.mean_lead("2b", (0, 2)), 10.0),
    ),
    (
        "5.4, figures 3 a, b",
        "Under heavy load (0.005 to 0.025) the improvement is greatest with the shortest deadlines.",
        |v| {
            let of = |id| [(0, 1), (0, 2)].map(|levels| v.better(id, levels, heavy));
            ["3a", "3b"].into_iter().flat_map(of).collect()
        },
    ),
    (
        "5.4, figures 3 a, b",
        "With longer deadlines (2, 3) the improvement is more constant than with short ones (1).",
        |v| {
            let range = |id: &str, level: usize| {
                let means = v.panel(id).means(v.levels(id)[level]);
                let most = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                most - means.iter().copied().fold(f64::INFINITY, f64::min)
            };
            let of = |id| {
                [1, 2].map(|level| {
                    let (short, long) = (range(id, 0), range(id, level));
                    let words = format!(
                        "{id} spans {long:.0} points at {}, {short:.0} at 1",
                        level + 1
                    );
                    Tested::point(long < short, words)
                })
            };
            ["3a", "3b"].into_iter().flat_map(of).collect()
        },
    ),
    (
        "5.5, figure 4 a",
        "With higher budgets LibraSLA completes more jobs.",
        |v| v.descending(&["4a"], [2, 1, 0]),
    ),
    (
        "5.5, figure 4 b",
        "With higher budgets LibraSLA gains more utility.",
        |v| v.descending(&["4b"], [2, 1, 0]),
    ),
    (
        "5.5, figure 4 b",
        "The gain in utility is smaller at 0.03 to 0.04 than under heavier load.",
        |v| {
            let of = |(name, means): (String, Vec<f64>)| {
                let light = v
                    .panel("4b")
                    .values
                    .iter()
                    .filter(|factor| **factor > 0.0299)
                    .count();
                let (heavier, lighter) = means.split_at(means.len() - light);
                let (heavier, lighter) = (mean(heavier), mean(lighter));
                let words = format!("{name}: {lighter:.0} % after {heavier:.0} %");
                Tested::point(lighter < heavier, words)
            };
            v.curves(&["4b"]).into_iter().map(of).collect()
        },
    ),
    (
        "5.6, figures 5 a, b",
        "With higher penalty rates the improvement is lower, in jobs and in utility.",
        |v| v.descending(&["5a", "5b"], [0, 1, 2]),
    ),
    (
        "6, figures 2–5",
        "LibraSLA completes more jobs than Libra and achieves more utility.",
        |v| {
            let of = |ids: &[&str; 4]| {
                let all: Vec<f64> = v
                    .curves(ids)
                    .into_iter()
                    .flat_map(|(_, means)| means)
                    .collect();
                let what = if ids == &JOBS {
                    "jobs, %:"
                } else {
                    "utility, %:"
                };
                Tested::differences(what, all.into_iter().map(|m| (m, 0.0)), |more| more > 0.0)
            };
            of(&JOBS).and(of(&UTILITY))
        },
    ),
];

fn falls(view: &View<'_>, ids: &[&str]) -> Tested {
    let of = |(name, means): (String, Vec<f64>)| {
        let (first, second) = means.split_at(means.len() / 2);
        let (first, second) = (mean(first), mean(second));
        Tested::point(second < first, format!("{name} {first:.1} → {second:.1}"))
    };
    view.curves(ids).into_iter().map(of).collect()
}

fn about(points: f64, wanted: f64) -> Tested {
    let near = points >= wanted * 0.5 && points <= wanted * 1.5;
    Tested::point(near, format!("{points:.1} points"))
}

/// All statements at each penalty.
pub(super) fn all(by_penalty: &[Vec<Panel>]) -> Vec<Statement> {
    let judged = |(place, text, test): &(&'static str, &'static str, Test)| Statement {
        place,
        text,
        findings: (by_penalty.iter())
            .map(|panels| test(&View(panels)).finding())
            .collect(),
    };
    STATEMENTS.iter().map(judged).collect()
}
