//! What a job with terms asks for of generic resources and licences, as amounts for the book; or why it cannot be promised.

use super::gres::{Gres, GresAsked, OnNode, licenses, typed};
use super::problem::Problem;
use super::submission::Submission;
use libra_core::decision::consumable::{Amounts, Consumable, MOST, TooMany};
use libra_core::decision::job::Shape;
use std::collections::HashMap;

/// One of what a job asks for.
struct Asked<'a> {
    /// As Slurm has it before the name.
    prefix: &'a str,
    gres: Gres,
}

impl<'a> Asked<'a> {
    /// Reads `gres:gpu:tesla:2`, and `gres/gpu:2` or `gres/gpu=2` of later versions; None for what is no GRES.
    fn list(text: &'a str) -> Result<Vec<Asked<'a>>, Problem> {
        let known = ["gres:", "gres/"];
        let mut all = Vec::new();
        for part in text.split([',', ';']).filter(|part| !part.is_empty()) {
            let Some(prefix) = known.iter().find(|prefix| part.starts_with(**prefix)) else {
                // What -c says again.
                if part.starts_with("cpu:") || part.starts_with("cpu=") {
                    continue;
                }
                return Err(Problem::Gres(part.to_string()));
            };
            let (prefix, rest) = part.split_at(prefix.len());
            let gres = Gres::of(&rest.replace('=', ":"));
            let gres = gres.filter(|_| !rest.contains('('));
            let gres = gres.ok_or_else(|| Problem::Gres(rest.to_string()))?;
            all.push(Asked { prefix, gres });
        }
        Ok(all)
    }

    fn written(&self, count: u64) -> String {
        let Gres { name, kind, .. } = &self.gres;
        match kind {
            None => format!("{}{name}:{count}", self.prefix),
            Some(kind) => format!("{}{name}:{kind}:{count}", self.prefix),
        }
    }
}

/// What there is in the cluster: nothing else is asked for by jobs that are judged, so that nobody fills memory with names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// By the names of nodes.
    pub nodes: HashMap<String, OnNode>,
    /// All that any of them has.
    names: HashMap<&'static str, Consumable>,
    /// Licences, those that are kept for reservations left out.
    pub licenses: Vec<(Consumable, u64)>,
}

impl Known {
    /// What these nodes have, and the cluster.
    pub fn new<'a>(
        nodes: impl Iterator<Item = (&'a str, &'a [Gres])>,
        licenses: Vec<(Consumable, u64)>,
    ) -> Known {
        let nodes: HashMap<String, OnNode> = nodes
            .filter(|(_, gres)| !gres.is_empty())
            .map(|(name, gres)| (name.to_string(), OnNode::of(gres)))
            .collect();
        let all = nodes.values().flat_map(|node| &node.has);
        let names = all.map(|(what, _)| (what.name(), *what)).collect();
        Known {
            nodes,
            names,
            licenses,
        }
    }

    /// What a job of this shape uses up: on each of its nodes, and in all.
    ///
    /// # Errors
    /// What cannot be promised.
    pub fn amounts(&self, submission: &Submission, shape: &Shape) -> Result<Amounts, Problem> {
        let mut amounts: Vec<(Consumable, u64)> = Vec::new();
        let mut named: Vec<Gres> = Vec::new();
        for (text, of) in each(&submission.gres) {
            for asked in Asked::list(text)? {
                let count = of.on_each(&asked.gres, submission, shape)?;
                let Gres { name, kind, .. } = &asked.gres;
                let again = named.iter().any(|other| {
                    other.name == *name
                        && (other.kind == *kind || other.kind.is_none() || kind.is_none())
                });
                if again {
                    return Err(Problem::GresTwice(name.clone()));
                }
                let names = [
                    Some(name.clone()),
                    kind.as_ref().map(|kind| typed(name, kind)),
                ];
                for name in names.into_iter().flatten() {
                    let what = *(self.names.get(name.as_str())).ok_or(Problem::NoGres(name))?;
                    amounts.push((what, count));
                }
                named.push(asked.gres);
            }
        }
        for (name, count) in self.licenses_of(submission)? {
            let known = (self.licenses.iter()).find(|(what, _)| what.name() == name);
            match known {
                None => return Err(Problem::NoLicense(name)),
                Some((_, has)) if count > *has => {
                    return Err(Problem::FewLicenses {
                        name,
                        asked: count,
                        has: *has,
                    });
                }
                Some((what, _)) => amounts.push((*what, count)),
            }
        }
        Amounts::of(&amounts).map_err(|TooMany(count)| Problem::TooManyGres { count, most: MOST })
    }

    fn licenses_of(&self, submission: &Submission) -> Result<Vec<(String, u64)>, Problem> {
        let Some(text) = &submission.licenses else {
            return Ok(Vec::new());
        };
        let unreadable = || Problem::Licenses(text.clone());
        let all = licenses(text).ok_or_else(unreadable)?;
        for (index, (name, _)) in all.iter().enumerate() {
            if all[..index].iter().any(|(other, _)| other == name) {
                return Err(unreadable());
            }
        }
        Ok(all)
    }
}

/// Of what something is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Node,
    Job,
    Task,
}

impl Of {
    /// How many each node is to have.
    fn on_each(self, gres: &Gres, submission: &Submission, shape: &Shape) -> Result<u64, Problem> {
        let nodes = u64::from(shape.chunks.max(1));
        match self {
            Of::Node => Ok(gres.count),
            // Slurm would give them to the nodes as it likes.
            Of::Job if gres.count % nodes != 0 => Err(Problem::UnevenGres {
                name: gres.name.clone(),
                count: gres.count,
                nodes: shape.chunks,
            }),
            Of::Job => Ok(gres.count / nodes),
            // Slurm takes their number from that of the GPUs then.
            Of::Task if submission.tasks.is_none() => Err(Problem::GresOfTasks),
            Of::Task => {
                let each = submission.processors_per_task.unwrap_or(1).max(1);
                let tasks = u64::from(shape.processors_per_chunk / each);
                Ok(gres.count.saturating_mul(tasks))
            }
        }
    }
}

/// All that it asks for, and of what.
fn each(gres: &GresAsked) -> impl Iterator<Item = (&str, Of)> {
    let all = [
        (&gres.per_node, Of::Node),
        (&gres.per_job, Of::Job),
        (&gres.per_task, Of::Task),
    ];
    all.into_iter()
        .filter_map(|(text, of)| Some((text.as_deref()?, of)))
}

/// What a job of several nodes asks for in all, for each of them: Slurm would else give it to them as it likes. With what it asks for on
/// each anyway; None for no change.
pub(super) fn spread(gres: &GresAsked, nodes: u32) -> Option<String> {
    let all = Asked::list(gres.per_job.as_deref()?).ok()?;
    if nodes < 2 || all.is_empty() {
        return None;
    }
    let each = all
        .iter()
        .map(|asked| asked.written(asked.gres.count / u64::from(nodes)));
    let before = gres.per_node.iter().cloned();
    Some(before.chain(each).collect::<Vec<_>>().join(","))
}
