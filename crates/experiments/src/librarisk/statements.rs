//! What section 5 of the LibraRisk paper says of its figures, sentence by sentence.
//!
//! The paper's words are taken for these amounts: "as many" is within 1 point (of 100 % of the
//! submitted jobs), "many more" and "barely" are more and less than 5 points, "the same slowdown"
//! is within 5 %. A curve may waver by half a point or by 2 % of its slowdown.

use super::{FULFILLED, NAMES, Panel};
use crate::statement::{Direction, Statement, Tested, mean};

/// The panels as one reading sees them.
struct View<'a> {
    panels: &'a [Panel],
    edf: &'static str,
    libra: &'static str,
    risk: &'static str,
}

impl View<'_> {
    fn panel(&self, id: &str) -> &Panel {
        let panel = self.panels.iter().find(|panel| panel.id == id);
        panel.expect("every figure was run")
    }

    fn all(&self) -> [&'static str; 3] {
        [self.edf, self.libra, self.risk]
    }

    /// Points (values of the parameter) at which `a` − `b` is as `wanted`.
    fn compare(
        &self,
        id: &str,
        (a, b): (&'static str, &'static str),
        at: fn(f64) -> bool,
        wanted: fn(f64) -> bool,
    ) -> Tested {
        let what = format!("{id} {} − {}", plain(a), plain(b));
        Tested::differences(&what, self.panel(id).pairs(a, b, at), wanted)
    }

    /// The same of the ratio, as a difference from 100 %.
    fn compare_ratio(
        &self,
        (id_a, a): (&str, &'static str),
        (id_b, b): (&str, &'static str),
        wanted: fn(f64) -> bool,
    ) -> Tested {
        let a_means = self.panel(id_a).means(a);
        let ratios =
            (a_means.iter().zip(self.panel(id_b).means(b))).map(|(a, b)| (a / b * 100.0, 100.0));
        let what = format!("{} in {id_a} / {} in {id_b}, %:", plain(a), plain(b));
        Tested::differences(&what, ratios, wanted)
    }

    /// Points at which a policy has more (or less) in one panel than in another.
    fn between(&self, (a, b): (&str, &str), name: &'static str, wanted: fn(f64) -> bool) -> Tested {
        let means = self.panel(a).means(name).into_iter();
        let pairs = means.zip(self.panel(b).means(name));
        Tested::differences(&format!("{} {a} − {b}", plain(name)), pairs, wanted)
    }

    fn trend(&self, id: &str, name: &'static str, direction: Direction) -> Tested {
        let panel = self.panel(id);
        let means = panel.means(name);
        let noise = match panel.measure {
            FULFILLED => 0.5,
            _ => mean(&means) * 0.02,
        };
        Tested::trend(&format!("{id} {}", plain(name)), &means, direction, noise)
    }

    /// Of all policies in these panels.
    fn trends<const N: usize>(&self, ids: [&str; N], direction: Direction) -> Tested {
        let of = |id| self.all().map(|name| self.trend(id, name, direction));
        ids.into_iter().flat_map(of).collect()
    }

    /// The lead of LibraRisk over Libra, at every value.
    fn lead(&self, id: &str, at: fn(f64) -> bool) -> Vec<f64> {
        let pairs = self.panel(id).pairs(self.risk, self.libra, at);
        pairs
            .into_iter()
            .map(|(risk, libra)| risk - libra)
            .collect()
    }
}

/// The name of a policy without its reading.
fn plain(name: &'static str) -> &'static str {
    name.split(',').next().unwrap_or(name)
}

fn anywhere(_: f64) -> bool {
    true
}
fn more(difference: f64) -> bool {
    difference > 0.0
}
fn less(difference: f64) -> bool {
    difference < 0.0
}
fn many_more(difference: f64) -> bool {
    difference > 5.0
}
fn barely_more(difference: f64) -> bool {
    difference > 0.0 && difference < 5.0
}
fn as_many(difference: f64) -> bool {
    difference.abs() <= 1.0
}
fn the_same_in_percent(difference: f64) -> bool {
    difference.abs() <= 5.0
}
fn heavy(factor: f64) -> bool {
    factor < 0.29
}
fn light(factor: f64) -> bool {
    factor > 0.31
}
fn lighter(factor: f64) -> bool {
    factor > 0.49
}

type Test = fn(&View<'_>) -> Tested;

use Direction::{Falls, Rises};

/// Place, what it says, and the test.
const STATEMENTS: [(&str, &str, Test); 29] = [
    (
        "5.1, figures 1–3 a, b",
        "More jobs are fulfilled with exact estimates than with the log's.",
        |v| {
            let pairs = [("1a", "1b"), ("2a", "2b"), ("3a", "3b")];
            let of = |pair| v.all().map(|name| v.between(pair, name, more));
            pairs.into_iter().flat_map(of).collect()
        },
    ),
    (
        "5.1, figures 1–3 a",
        "With exact estimates Libra fulfils more jobs than EDF (figure 1: below heavy load).",
        |v| {
            let names = (v.libra, v.edf);
            (v.compare("1a", names, light, more))
                .and(v.compare("2a", names, anywhere, more))
                .and(v.compare("3a", names, anywhere, more))
        },
    ),
    (
        "5.1, figures 1–3 b",
        "With the log's estimates Libra is barely better than EDF (figure 1: below heavy load).",
        |v| {
            let names = (v.libra, v.edf);
            (v.compare("1b", names, light, barely_more))
                .and(v.compare("2b", names, anywhere, barely_more))
                .and(v.compare("3b", names, anywhere, barely_more))
        },
    ),
    (
        "5.1, figures 1–3 b",
        "With the log's estimates LibraRisk fulfils many more jobs than Libra (figure 1: from 0.5 on).",
        |v| {
            let names = (v.risk, v.libra);
            (v.compare("1b", names, lighter, many_more))
                .and(v.compare("2b", names, anywhere, many_more))
                .and(v.compare("3b", names, anywhere, many_more))
        },
    ),
    (
        "5.1, figures 1–3 a",
        "With exact estimates LibraRisk fulfils as many jobs as Libra.",
        |v| {
            let of = |id| v.compare(id, (v.risk, v.libra), anywhere, as_many);
            ["1a", "2a", "3a"].map(of).into_iter().collect()
        },
    ),
    (
        "5.1, figures 1–3 c",
        "With exact estimates Libra and LibraRisk have the same slowdown.",
        |v| {
            let of = |id| v.compare_ratio((id, v.risk), (id, v.libra), the_same_in_percent);
            ["1c", "2c", "3c"].map(of).into_iter().collect()
        },
    ),
    (
        "5.1, figures 1–3 d",
        "With the log's estimates LibraRisk has a lower slowdown than Libra.",
        |v| {
            let of = |id| v.compare(id, (v.risk, v.libra), anywhere, less);
            ["1d", "2d", "3d"].map(of).into_iter().collect()
        },
    ),
    (
        "5.1, figures 1–3 c, d",
        "EDF has the lowest slowdown.",
        |v| {
            let of =
                |id| [v.libra, v.risk].map(|name| v.compare(id, (v.edf, name), anywhere, less));
            ["1c", "1d", "2c", "2d", "3c", "3d"]
                .into_iter()
                .flat_map(of)
                .collect()
        },
    ),
    (
        "5.1, figures 1–3 c, d",
        "EDF's slowdown is the same with exact and with the log's estimates.",
        |v| {
            let pairs = [("1c", "1d"), ("2c", "2d"), ("3c", "3d")];
            let of = |(c, d)| v.compare_ratio((d, v.edf), (c, v.edf), the_same_in_percent);
            pairs.map(of).into_iter().collect()
        },
    ),
    (
        "5.1, figures 2 c, d",
        "EDF's slowdown rises only marginally with the deadline ratio (by less than a tenth of Libra's).",
        |v| {
            let of = |id| {
                let rise = |name| {
                    let means = v.panel(id).means(name);
                    means.last().unwrap_or(&f64::NAN) - means.first().unwrap_or(&f64::NAN)
                };
                let (edf, libra) = (rise(v.edf), rise(v.libra));
                let words = format!("{id} EDF {edf:+.2}, Libra {libra:+.2}");
                Tested::point(edf > 0.0 && edf < libra / 10.0, words)
            };
            ["2c", "2d"].map(of).into_iter().collect()
        },
    ),
    (
        "5.2, figures 1 a, b",
        "With less load more jobs are fulfilled.",
        |v| v.trends(["1a", "1b"], Rises),
    ),
    (
        "5.2, figures 1 c, d",
        "With less load the slowdown falls.",
        |v| v.trends(["1c", "1d"], Falls),
    ),
    (
        "5.2, figures 1 a, b",
        "Under heavy load (factor below 0.3) EDF fulfils more than Libra and LibraRisk.",
        |v| {
            let of = |id| [v.libra, v.risk].map(|name| v.compare(id, (v.edf, name), heavy, more));
            ["1a", "1b"].into_iter().flat_map(of).collect()
        },
    ),
    (
        "5.2, figures 1 a, b",
        "With less load (factor above 0.3) EDF fulfils fewer than Libra and LibraRisk.",
        |v| {
            let of = |id| [v.libra, v.risk].map(|name| v.compare(id, (v.edf, name), light, less));
            ["1a", "1b"].into_iter().flat_map(of).collect()
        },
    ),
    (
        "5.2, figure 1 b",
        "LibraRisk's lead over Libra grows as the load falls (factor above 0.5).",
        |v| Tested::trend("lead in points", &v.lead("1b", lighter), Rises, 0.5),
    ),
    (
        "5.3, figures 2 a, b",
        "With longer deadlines more jobs are fulfilled.",
        |v| v.trends(["2a", "2b"], Rises),
    ),
    (
        "5.3, figures 2 c, d",
        "With longer deadlines the slowdown rises.",
        |v| v.trends(["2c", "2d"], Rises),
    ),
    (
        "5.3, figure 2 b",
        "LibraRisk's lead over Libra is greater where the ratio is low (below 4).",
        |v| {
            let low = mean(&v.lead("2b", |ratio| ratio < 3.9));
            let high = mean(&v.lead("2b", |ratio| ratio > 3.9));
            Tested::point(
                low > high,
                format!("mean lead {low:.1} below 4, {high:.1} from 4 on"),
            )
        },
    ),
    (
        "5.3, figure 2 d",
        "LibraRisk's slowdown is lower than Libra's by more and more as deadlines grow.",
        |v| {
            let gap: Vec<f64> = v.lead("2d", anywhere).iter().map(|lead| -lead).collect();
            Tested::trend("Libra − LibraRisk", &gap, Rises, 0.05)
        },
    ),
    (
        "5.4, figures 3 a, b",
        "With more urgent jobs fewer are fulfilled (all policies with exact estimates, EDF and Libra with the log's).",
        |v| {
            v.trends(["3a"], Falls)
                .and(v.trend("3b", v.edf, Falls))
                .and(v.trend("3b", v.libra, Falls))
        },
    ),
    (
        "5.4, figure 3 b",
        "With the log's estimates LibraRisk fulfils more jobs the more are urgent.",
        |v| v.trend("3b", v.risk, Rises),
    ),
    (
        "5.4, figures 3 c, d",
        "With more urgent jobs the slowdown falls.",
        |v| v.trends(["3c", "3d"], Falls),
    ),
    (
        "5.4, figure 3 b",
        "LibraRisk's lead over Libra is close to 40 points at 100 % of urgent jobs and 20 at none (within 5).",
        |v| {
            let point = |percent: f64, points: f64| {
                let panel = v.panel("3b");
                let lead = panel.at(v.risk, percent) - panel.at(v.libra, percent);
                let words = format!("{lead:.1} points at {percent} %");
                Tested::point((lead - points).abs() <= 5.0, words)
            };
            point(100.0, 40.0).and(point(0.0, 20.0))
        },
    ),
    (
        "5.5, figures 4 a–d",
        "Fewer jobs are fulfilled with 80 % of urgent jobs than with 20 %, at a lower slowdown.",
        |v| {
            let of = |name| {
                [
                    v.between(("4a", "4b"), name, more),
                    v.between(("4c", "4d"), name, more),
                ]
            };
            v.all().into_iter().flat_map(of).collect()
        },
    ),
    (
        "5.5, figures 4 a, b",
        "The more inaccurate the estimates, the fewer jobs are fulfilled.",
        |v| v.trends(["4a", "4b"], Falls),
    ),
    (
        "5.5, figures 4 a, b",
        "With inaccurate estimates LibraRisk fulfils more jobs than EDF and Libra.",
        |v| {
            let at = |inaccuracy| inaccuracy > 0.0;
            let of = |id| [v.edf, v.libra].map(|name| v.compare(id, (v.risk, name), at, more));
            ["4a", "4b"].into_iter().flat_map(of).collect()
        },
    ),
    (
        "5.5, figures 4 a, b",
        "LibraRisk's lead over Libra is about twice as large with 80 % of urgent jobs as with 20 % (1.5 to 2.5 times, at 100 % inaccuracy).",
        |v| {
            let lead = |id| v.panel(id).at(v.risk, 100.0) - v.panel(id).at(v.libra, 100.0);
            let (few, many) = (lead("4a"), lead("4b"));
            let words = format!("{many:.1} points against {few:.1}: {:.1} times", many / few);
            Tested::point((1.5..=2.5).contains(&(many / few)), words)
        },
    ),
    (
        "5.5, figures 4 a, b",
        "LibraRisk fulfils about as many jobs with 80 % of urgent jobs as with 20 % (within 5 points); EDF and Libra lose more.",
        |v| {
            let pair = ("4a", "4b");
            let lost = |name| v.between(pair, name, many_more);
            (v.between(pair, v.risk, |lost| lost.abs() <= 5.0))
                .and(lost(v.edf))
                .and(lost(v.libra))
        },
    ),
    (
        "5.5, figures 4 c, d",
        "The slowdown of Libra and LibraRisk falls as estimates get less accurate.",
        |v| {
            let of = |id| [v.libra, v.risk].map(|name| v.trend(id, name, Falls));
            ["4c", "4d"].into_iter().flat_map(of).collect()
        },
    ),
];

/// All statements under both readings.
pub(super) fn all(panels: &[Panel]) -> Vec<Statement> {
    let views = NAMES.map(|[edf, libra, risk]| View {
        panels,
        edf,
        libra,
        risk,
    });
    let judged = |(place, text, test): &(&'static str, &'static str, Test)| Statement {
        place,
        text,
        findings: views.iter().map(|view| test(view).finding()).collect(),
    };
    STATEMENTS.iter().map(judged).collect()
}
