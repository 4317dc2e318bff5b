//! What jobs without a promise hold of Libra's nodes, whichever partition they came by: as much of it as keeps a job with terms from starting.
//!
//! Slurm's rules (select/cons_tres):
//! - A node with a job that shares no processors takes none of a partition with `OverSubscribe=FORCE`, however idle it is. Such jobs are those of
//!   partitions with `NO` and `EXCLUSIVE`, and those of `YES` whose users did not ask to share.
//! - `--exclusive=user` and `ExclusiveUser=YES` keep other users off a node, `--exclusive=mcs` and `=topo` may keep off everybody.
//! - A job of a partition with `FORCE` takes as many of this partition's places on a node as it has processors there.
//! - Memory, where it is counted, counts for all, as do generic resources and licences.

use super::gres::{add, license, sums};
use super::problem::ClosedBy;
use super::records::{Node, OtherJob, Partition, Records, Sharing};
use libra_core::decision::consumable::Consumable;
use std::collections::HashMap;

/// What jobs without a promise hold of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeTaken {
    /// Bytes of memory, where it is counted.
    pub memory: u64,
    /// Generic resources.
    pub gres: Vec<(Consumable, u64)>,
    /// Places, by partition.
    places: Vec<(String, u64)>,
    closed: Option<ClosedBy>,
}

impl NodeTaken {
    /// Places of this partition that are taken.
    pub fn places_of(&self, partition: &str) -> u64 {
        let of = |(name, _): &&(String, u64)| name == partition;
        self.places.iter().find(of).map_or(0, |(_, places)| *places)
    }

    /// Why a job of this user does not start here.
    pub fn closed_to(&self, user: u32) -> Option<&ClosedBy> {
        (self.closed.as_ref()).filter(|closed| **closed != ClosedBy::User(user))
    }

    fn close(&mut self, by: ClosedBy) {
        match (&self.closed, &by) {
            (None, _) | (Some(ClosedBy::User(_)), ClosedBy::Partition(_)) => self.closed = Some(by),
            _ => {}
        }
    }

    fn add(&mut self, partition: &str, places: u64) {
        match self.places.iter_mut().find(|(name, _)| name == partition) {
            Some((_, sum)) => *sum = sum.saturating_add(places),
            None => self.places.push((partition.to_string(), places)),
        }
    }
}

/// What is held of each node on which there is such a job; `is_libra`: is it in one of Libra's partitions?
pub fn taken(records: &Records, is_libra: &dyn Fn(&str) -> bool) -> HashMap<String, NodeTaken> {
    let mut taken: HashMap<String, NodeTaken> = HashMap::new();
    if records.others.is_empty() {
        return taken;
    }
    let partitions: HashMap<&str, &Partition> = (records.partitions.iter())
        .map(|partition| (partition.name.as_str(), partition))
        .collect();
    let nodes: HashMap<&str, &Node> = (records.nodes.iter())
        .map(|node| (node.name.as_str(), node))
        .collect();
    for job in &records.others {
        let partition = partitions.get(job.partition.as_str());
        for (index, name) in job.nodes.iter().enumerate() {
            if !is_libra(name) {
                continue;
            }
            let Some(node) = nodes.get(name.as_str()) else {
                continue;
            };
            let held = taken.entry(name.clone()).or_default();
            if records.memory.counted {
                let all = node.memory.saturating_mul(1 << 20);
                let bytes = job.memory.bytes(job.processors).unwrap_or(all);
                held.memory = held.memory.saturating_add(bytes);
            }
            for (what, amount) in job.gres.get(index).into_iter().flat_map(|gres| sums(gres)) {
                add(&mut held.gres, what, amount);
            }
            match shares(job, partition.copied()) {
                true => held.add(&job.partition, u64::from(job.processors)),
                false => held.close(ClosedBy::Partition(job.partition.clone())),
            }
            let alone = partition.is_some_and(|partition| partition.one_user);
            if job.sharing == Sharing::WithUser || alone {
                held.close(ClosedBy::User(job.user));
            }
        }
    }
    taken
}

/// What they have of the cluster's licences, wherever they run.
pub fn licenses_taken(records: &Records) -> Vec<(Consumable, u64)> {
    let mut taken = Vec::new();
    for (name, count) in records.others.iter().flat_map(|job| &job.licenses) {
        if let Some(what) = license(name) {
            add(&mut taken, what, *count);
        }
    }
    taken
}

fn shares(job: &OtherJob, partition: Option<&Partition>) -> bool {
    match (partition, job.sharing) {
        // Its partition is gone: nobody can say.
        (None, _) | (_, Sharing::WithFew) => false,
        (Some(partition), Sharing::Asked) => partition.shared || partition.jobs_per_processor > 1,
        (Some(partition), _) => partition.shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Memory, MemoryRule};

    fn partition(name: &str, shared: bool, jobs_per_processor: u32) -> Partition {
        Partition {
            name: name.to_string(),
            nodes: vec!["n1".to_string(), "n2".to_string()],
            shared,
            jobs_per_processor,
            longest: None,
            default: false,
            up: true,
            one_user: false,
            default_memory: None,
        }
    }

    fn job(partition: &str, sharing: Sharing) -> OtherJob {
        OtherJob {
            user: 1000,
            partition: partition.to_string(),
            sharing,
            nodes: vec!["n1".to_string(), "far".to_string()],
            processors: 2,
            memory: Memory::PerProcessor(10),
            gres: Vec::new(),
            licenses: Vec::new(),
        }
    }

    fn of(others: Vec<OtherJob>) -> NodeTaken {
        let node = |name: &str| Node {
            name: name.to_string(),
            processors: 4,
            memory: 1000,
            up: true,
            unknown: false,
            answers: true,
            up_since: 0.0,
            features: Vec::new(),
            gres: Vec::new(),
        };
        let records = Records {
            nodes: vec![node("n1"), node("n2"), node("far")],
            partitions: vec![
                partition("main", true, 20),
                partition("plain", false, 1),
                partition("maybe", false, 4),
                Partition {
                    one_user: true,
                    ..partition("own", true, 20)
                },
            ],
            memory: MemoryRule {
                counted: true,
                default: None,
            },
            others,
            ..Records::default()
        };
        let mut taken = taken(&records, &|name| name != "far");
        assert_eq!(taken.keys().collect::<Vec<_>>(), ["n1"]);
        taken.remove("n1").unwrap_or_default()
    }

    #[test]
    fn who_shares_takes_places_and_who_does_not_closes_the_node() {
        let two = of(vec![
            job("main", Sharing::ByPartition),
            job("main", Sharing::Asked),
            job("maybe", Sharing::Asked),
        ]);
        assert_eq!((two.places_of("main"), two.places_of("maybe")), (4, 2));
        assert_eq!((two.closed_to(1), two.memory), (None, 60 << 20));
        for (partition, sharing) in [
            ("plain", Sharing::ByPartition),
            ("plain", Sharing::Asked),
            ("maybe", Sharing::ByPartition),
            ("main", Sharing::WithFew),
            ("gone", Sharing::ByPartition),
        ] {
            let closed = of(vec![job(partition, sharing)]);
            let by = ClosedBy::Partition(partition.to_string());
            assert_eq!(closed.closed_to(1000), Some(&by), "{partition}");
        }
    }

    #[test]
    fn one_who_shares_with_his_own_jobs_keeps_others_off() {
        for job in [
            job("main", Sharing::WithUser),
            job("own", Sharing::ByPartition),
        ] {
            let alone = of(vec![job]);
            assert_eq!(alone.closed_to(1000), None);
            assert_eq!(alone.closed_to(1001), Some(&ClosedBy::User(1000)));
        }
        let both = of(vec![
            job("main", Sharing::WithUser),
            job("plain", Sharing::ByPartition),
        ]);
        assert!(both.closed_to(1000).is_some());
    }

    #[test]
    fn memory_of_a_job_that_names_none_is_all_of_its_node() {
        let all = OtherJob {
            memory: Memory::AllOfNode,
            ..job("main", Sharing::ByPartition)
        };
        assert_eq!(of(vec![all]).memory, 1000 << 20);
    }
}
