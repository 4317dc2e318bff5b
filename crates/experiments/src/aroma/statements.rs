//! What the paper states in section 4, and what the numbers here say to it.
//!
//! Each statement is judged for every part of the log that stands for the paper's: it holds where
//! it does for all of them, in part where it does for some.

use super::{Case, Waits};

/// Whether a statement holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// For every part of the log.
    Holds,
    /// For some parts, or of some classes.
    HoldsInPart,
    /// For none.
    DoesNotHold,
}

impl Verdict {
    /// As words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::HoldsInPart => "holds in part",
            Verdict::DoesNotHold => "does not hold",
        }
    }

    fn of(checks: impl IntoIterator<Item = bool>) -> Verdict {
        let (mut some, mut all) = (false, true);
        for check in checks {
            some |= check;
            all &= check;
        }
        match (all, some) {
            (true, _) => Verdict::Holds,
            (false, true) => Verdict::HoldsInPart,
            (false, false) => Verdict::DoesNotHold,
        }
    }
}

/// One number that a statement rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is, with its unit.
    pub name: String,
    /// The paper's, where it has one.
    pub paper: Option<f64>,
    /// Here.
    pub here: f64,
}

/// A statement of the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Where it stands.
    pub source: &'static str,
    /// What it says.
    pub text: &'static str,
    /// What becomes of it.
    pub verdict: Verdict,
    /// The numbers.
    pub figures: Vec<Figure>,
}

/// Table 1: logged, dedicated; short, long.
const PAPER_WAITS: [(f64, f64); 2] = [(10_796.0, 4008.0), (8979.0, 4202.0)];

/// One column of Table 2.
struct PaperCase {
    waits: Option<[f64; 4]>,
    wait: f64,
    /// Mapping times in ms.
    mappings: Option<[f64; 4]>,
    mapping: f64,
    refused: Option<f64>,
}

const PAPER_CASES: [PaperCase; 4] = [
    PaperCase {
        waits: Some([30.51, 0.0036, 4845.0, 4.55]),
        wait: 710.5,
        mappings: Some([20.22, 3.6, 269.3, 7.2]),
        mapping: 50.3,
        refused: Some(21.0),
    },
    PaperCase {
        waits: None,
        wait: 64.68,
        mappings: None,
        mapping: 13.0,
        refused: None,
    },
    PaperCase {
        waits: Some([30.7, 0.003, 5182.0, 30.5]),
        wait: 396.0,
        mappings: Some([21.1, 3.0, 334.4, 28.6]),
        mapping: 49.1,
        refused: Some(154.0),
    },
    PaperCase {
        waits: None,
        wait: 70.3,
        mappings: None,
        mapping: 76.4,
        refused: None,
    },
];

/// A case with its number, from 1, and what the paper has for it.
struct Numbered<'a> {
    number: usize,
    case: &'a Case,
    paper: &'static PaperCase,
}

impl Numbered<'_> {
    fn figure(&self, what: &str, paper: Option<f64>, here: f64) -> Figure {
        Figure {
            name: format!("{what}, case {} ({})", self.number, self.case.part),
            paper,
            here,
        }
    }
}

/// All statements. `table_1` and `table_2` are those of [`super::Experiment`].
pub(super) fn all(table_1: &[Waits], table_2: &[Case]) -> Vec<Statement> {
    let cases: Vec<Numbered> = table_2
        .iter()
        .zip((0..PAPER_CASES.len()).cycle())
        .map(|(case, index)| Numbered {
            number: index + 1,
            case,
            paper: &PAPER_CASES[index],
        })
        .collect();
    let four: Vec<&Numbered> = cases.iter().filter(|c| c.case.four_classes).collect();
    // Four classes and best effort alone, for the same jobs.
    let pairs: Vec<(&Numbered, &Numbered)> =
        cases.chunks_exact(2).map(|c| (&c[0], &c[1])).collect();
    let mut statements = Vec::from(waits(table_1));
    statements.extend(classes(&four));
    statements.extend(costs(&pairs, &four));
    statements
}

fn waits(table_1: &[Waits]) -> [Statement; 2] {
    let paper = |waits: &Waits| {
        let index = usize::from(super::LONG.contains(&waits.part));
        PAPER_WAITS[index]
    };
    let mut figures = Vec::new();
    for waits in table_1 {
        let (logged, dedicated) = paper(waits);
        let mut push = |what: &str, paper: Option<f64>, here: f64| {
            let name = format!("{what} ({})", waits.part);
            figures.push(Figure { name, paper, here });
        };
        push("mean wait in the log, s", Some(logged), waits.logged);
        push(
            "mean wait, all dedicated, s",
            Some(dedicated),
            waits.dedicated,
        );
        push(
            "ratio of the two",
            Some(dedicated / logged),
            waits.dedicated / waits.logged,
        );
    }
    let by_run_times = table_1.iter().map(|waits| Figure {
        name: format!(
            "ratio by run times in place of processor times ({})",
            waits.part
        ),
        paper: None,
        here: waits.dedicated_run_times / waits.logged,
    });
    [
        Statement {
            source: "section 4.1, Table 1",
            text: "With all jobs dedicated the mean wait is less than half of that under NQS.",
            verdict: Verdict::of(table_1.iter().map(|w| w.dedicated < 0.5 * w.logged)),
            figures,
        },
        Statement {
            source: "section 4.1",
            text: "That is because jobs are mapped between others and their times are known exactly.",
            // Were it the only reason, it would do as much for jobs that take their run times.
            verdict: Verdict::of(table_1.iter().flat_map(|waits| {
                let ratio = waits.dedicated_run_times / waits.logged;
                [ratio < 1.0, ratio < 0.5]
            })),
            figures: by_run_times.collect(),
        },
    ]
}

fn classes(four: &[&Numbered]) -> [Statement; 5] {
    let of_class = |class: usize, what: &str, value: &dyn Fn(&Case) -> f64| {
        let what = format!("{what} of class {class}");
        four.iter()
            .map(|c| c.figure(&what, None, value(c.case)))
            .collect::<Vec<Figure>>()
    };
    let waits = four.iter().flat_map(|c| {
        (0..4).map(move |class| {
            let what = format!("mean wait of class {}, s", class + 1);
            let paper = c.paper.waits.map(|waits| waits[class]);
            c.figure(&what, paper, c.case.classes[class].wait)
        })
    });
    let refused = four.iter().map(|c| {
        let here = c.case.classes[0].refused as f64;
        c.figure("refused of class 1", c.paper.refused, here)
    });
    let small = |case: &Case| [0, 1, 3].map(|class| case.classes[class].wait < 60.0);
    [
        Statement {
            source: "section 4.2, Table 2",
            text: "Jobs of classes 1, 2 and 4 wait less than a minute in the mean, those of class 3 \
                   more than an hour.",
            verdict: Verdict::of(four.iter().flat_map(|c| {
                let long = c.case.classes[2].wait > 3600.0;
                small(c.case).into_iter().chain([long])
            })),
            figures: waits.collect(),
        },
        Statement {
            source: "section 4.2",
            text: "Some jobs of class 1 are refused, less than one in fifty, and more of them in \
                   the longer part.",
            verdict: Verdict::of(four.chunks_exact(2).flat_map(|pair| {
                let few = |c: &Numbered| {
                    let class = &c.case.classes[0];
                    class.refused > 0 && class.refused * 50 < class.jobs
                };
                let counts = [&pair[0], &pair[1]].map(|c| c.case.classes[0].refused);
                [few(pair[0]), few(pair[1]), counts[0] < counts[1]]
            })),
            figures: refused.collect(),
        },
        Statement {
            source: "section 4.2",
            text: "For jobs of class 2 a mapping is always found.",
            verdict: Verdict::of(four.iter().map(|c| c.case.classes[1].refused == 0)),
            figures: of_class(2, "refused", &|case| case.classes[1].refused as f64),
        },
        Statement {
            source: "section 4.2",
            text: "Jobs of classes 3 and 4 are never refused.",
            verdict: Verdict::of(four.iter().flat_map(|c| {
                let refused = |class: usize| c.case.classes[class].refused;
                [refused(2) == 0, refused(3) == 0]
            })),
            figures: [(3, 2), (4, 3)]
                .into_iter()
                .flat_map(|(class, index)| {
                    of_class(class, "refused", &|case| case.classes[index].refused as f64)
                })
                .collect(),
        },
        Statement {
            source: "section 5",
            text: "Every accepted job gets the quality of service that it was promised.",
            verdict: Verdict::of(four.iter().map(|c| c.case.all.broken == 0)),
            figures: four
                .iter()
                .map(|c| c.figure("broken promises", Some(0.0), c.case.all.broken as f64))
                .collect(),
        },
    ]
}

fn costs(pairs: &[(&Numbered, &Numbered)], four: &[&Numbered]) -> [Statement; 5] {
    let both = |what: &str, paper: &dyn Fn(&PaperCase) -> f64, here: &dyn Fn(&Case) -> f64| {
        let sides = pairs.iter().flat_map(|(with, without)| [with, without]);
        sides
            .map(|c| c.figure(what, Some(paper(c.paper)), here(c.case)))
            .collect::<Vec<Figure>>()
    };
    let mapping_ms = |case: &Case| case.all.mapping_time * 1e3;
    let share = |case: &Case| {
        let waited = |class: &super::ClassFigures| class.wait * (class.jobs - class.refused) as f64;
        let all = waited(&case.all);
        if all > 0.0 {
            waited(&case.classes[2]) / all
        } else {
            0.0
        }
    };
    let slowest = |case: &Case| {
        let times = case.classes.map(|class| class.mapping_time);
        [0, 1, 3].iter().all(|class| times[2] > times[*class])
    };
    let by_class = four.iter().flat_map(|c| {
        (0..4).map(move |class| {
            let what = format!("mean mapping time of class {}, ms", class + 1);
            let paper = c.paper.mappings.map(|mappings| mappings[class]);
            c.figure(&what, paper, c.case.classes[class].mapping_time * 1e3)
        })
    });
    [
        Statement {
            source: "section 4.2, Table 2",
            text: "Jobs wait longer with four classes than with best effort alone.",
            verdict: Verdict::of(pairs.iter().map(|(a, b)| a.case.all.wait > b.case.all.wait)),
            figures: both("mean wait, s", &|paper| paper.wait, &|case| case.all.wait),
        },
        Statement {
            source: "section 4.2",
            text: "That is due to jobs of class 3: nine tenths of all waiting is theirs.",
            verdict: Verdict::of(four.iter().map(|c| share(c.case) > 0.9)),
            figures: four
                .iter()
                .map(|c| c.figure("part of all waiting that is class 3's", None, share(c.case)))
                .collect(),
        },
        Statement {
            source: "section 4.2, Table 2",
            text: "Mappings take longer to find with four classes than with best effort alone.",
            verdict: Verdict::of(
                pairs
                    .iter()
                    .map(|(a, b)| a.case.all.mapping_time > b.case.all.mapping_time),
            ),
            figures: both("mean mapping time, ms", &|paper| paper.mapping, &mapping_ms),
        },
        Statement {
            source: "section 4.2, Table 2",
            text: "Mappings of class 3 take longest to find.",
            verdict: Verdict::of(four.iter().map(|c| slowest(c.case))),
            figures: by_class.collect(),
        },
        Statement {
            source: "section 5",
            text: "A mapping is found within 80 ms in the mean.",
            verdict: Verdict::of(
                pairs
                    .iter()
                    .flat_map(|(a, b)| [a, b].map(|c| mapping_ms(c.case) < 80.0)),
            ),
            figures: both("mean mapping time, ms", &|paper| paper.mapping, &mapping_ms),
        },
    ]
}
