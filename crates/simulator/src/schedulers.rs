//! The schedulers by name.
//!
//! A new one is a line in [`ALL`].

use super::Scheduler;
use super::aroma::{self, Aroma};
use super::classes::{Classes, Dedicated};
use super::gang::Gang;
use super::queue::{Conservative, Dropping, Easy, Edf, Fifo, Order};
use super::recorded::{self, Recorded};
use super::shares::{Shares, Waiting};
use libra_core::decision::admission::Admission;
use libra_core::decision::allotment::Spare;
use libra_core::decision::policy::{AnyPolicy, Libra, LibraAdaptive, LibraRisk, LibraSla, Policy};
use libra_core::gang::{Rules, Suspend};
use libra_wording::words::nearest;

/// What schedulers that admit jobs are told. Others need none of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Prices, choice of nodes and margin on estimates. The policy in it does not count: the
    /// scheduler is the policy.
    pub admission: Admission,
    /// What spare time is used for.
    pub spare: Spare,
    /// What slots of coupled jobs do while they wait.
    pub waiting: Waiting,
    /// What coupled jobs are told.
    pub gang: GangOptions,
}

/// What `libra-gang` is told besides; of it `libra-classes` and `libra-dedicated` are told who may be suspended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GangOptions {
    /// Who may be suspended.
    pub suspend: Suspend,
    /// Most jobs that have begun and not ended on one processor; None: what memory holds.
    pub jobs_per_processor: Option<u32>,
    /// Refused jobs wait for a promise.
    pub wait_for_promise: bool,
}

/// A scheduler that can be run in another thread.
pub type AnyScheduler = Box<dyn Scheduler + Send>;

/// One that can be named.
#[derive(Clone, Copy)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// How batch systems are told to use it; None if none can be.
    pub installed: Option<Installed>,
    make: fn(&Options) -> AnyScheduler,
}

/// How a site has a policy, in the words of its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installed {
    /// `policy` of `[admission]`.
    pub policy: &'static str,
    /// The key of `[class]` that makes jobs dedicated.
    pub dedicated: Option<&'static str>,
}

/// By its name alone.
const fn policy(policy: &'static str) -> Option<Installed> {
    Some(Installed {
        policy,
        dedicated: None,
    })
}

impl Known {
    /// One to run, from an empty machine.
    pub fn scheduler(&self, options: &Options) -> AnyScheduler {
        (self.make)(options)
    }
}

/// All of them, in the order in which they are listed.
pub const ALL: [Known; 15] = [
    Known {
        name: recorded::NAME,
        summary: "what the log really did, by its own waiting times",
        installed: None,
        make: |_| Box::new(Recorded),
    },
    Known {
        name: "fifo",
        summary: "strict order of submission, no admission",
        installed: None,
        make: |_| Box::new(Fifo),
    },
    Known {
        name: "easy",
        summary: "backfilling behind one reservation, as PBS and Slurm sites run it",
        installed: None,
        make: |_| Box::new(Easy),
    },
    Known {
        name: "edf",
        summary: "earliest deadline first, refused when it can no longer be met",
        installed: None,
        make: |_| Box::new(Edf),
    },
    Known {
        name: "easy-drop",
        summary: "easy, and jobs that can no longer be in time are dropped",
        installed: None,
        make: |options| dropping(Order::Submission, options),
    },
    Known {
        name: "edf-backfill",
        summary: "the same in the order of deadlines",
        installed: None,
        make: |options| dropping(Order::Deadline, options),
    },
    Known {
        name: "conservative",
        summary: "a reservation for each job, refused where that ends after its deadline",
        installed: None,
        make: |options| {
            let estimate_margin = options.admission.estimate_margin;
            Box::new(Conservative { estimate_margin })
        },
    },
    Known {
        name: "libra",
        summary: "proportional shares that fit into the nodes (2004)",
        installed: policy("libra"),
        make: |options| shared(libra(options), options),
    },
    Known {
        name: "libra-sla",
        summary: "no node earns less, penalties of soft jobs counted (2005)",
        installed: policy("libra-sla"),
        make: |options| shared(LibraSla, options),
    },
    Known {
        name: "libra-risk",
        summary: "projected forward, nobody on the node is late (2006)",
        installed: policy("libra-risk"),
        make: |options| {
            let spare_is_shared = options.spare == Spare::Shared;
            shared(
                LibraRisk {
                    spare_is_shared,
                    ..LibraRisk::default()
                },
                options,
            )
        },
    },
    Known {
        name: "libra-adaptive",
        summary: "every node works in the order of deadlines, and all end in time",
        installed: policy("libra-adaptive"),
        make: |options| shared(LibraAdaptive::default(), options),
    },
    Known {
        name: "libra-gang",
        summary: "whole processors for coupled jobs, in the order of deadlines, suspended and planned so that all end in time",
        installed: None,
        make: |options| Box::new(gang(options)),
    },
    Known {
        name: "libra-dedicated",
        summary: "whole processors at once or from a planned start, as PBS and Slurm give them to dedicated jobs",
        installed: Some(Installed {
            policy: "libra",
            dedicated: Some("default"),
        }),
        make: |options| {
            let policy = AnyPolicy::Libra(libra(options));
            classes(Dedicated::All, policy, options)
        },
    },
    Known {
        name: "libra-classes",
        summary: "dedicated if processes wait for each other, else as libra-adaptive, on one cluster, as PBS and Slurm have both",
        installed: Some(Installed {
            policy: "libra-adaptive",
            dedicated: Some("several"),
        }),
        make: |options| {
            let policy = AnyPolicy::LibraAdaptive(LibraAdaptive::default());
            classes(Dedicated::Coupled, policy, options)
        },
    },
    Known {
        name: "aroma",
        summary: "processors shared round robin; a job is mapped when it comes, by its deadline (2004)",
        installed: None,
        make: |_| Box::new(Aroma::new(aroma::by_deadline)),
    },
];

/// Those that are compared where none are named; [`recorded`] where it holds.
pub const DEFAULT: [&str; 9] = [
    recorded::NAME,
    "easy",
    "easy-drop",
    "edf-backfill",
    "conservative",
    "libra",
    "libra-adaptive",
    "libra-classes",
    "libra-gang",
];

/// Libra with the node choice and the rule of shares that were configured.
fn libra(options: &Options) -> Libra {
    match options.admission.policy {
        AnyPolicy::Libra(libra) => libra,
        _ => Libra::default(),
    }
}

fn dropping(order: Order, options: &Options) -> AnyScheduler {
    Box::new(Dropping {
        order,
        estimate_margin: options.admission.estimate_margin,
    })
}

/// The gang rule as it was configured.
pub(super) fn gang(options: &Options) -> Gang {
    Gang {
        rules: Rules {
            suspend: options.gang.suspend,
            jobs_per_processor: options.gang.jobs_per_processor,
            margin: options.admission.estimate_margin,
        },
        pricing: options.admission.pricing,
        wait_for_promise: options.gang.wait_for_promise,
    }
}

/// The rule of batch systems as it was configured, with this policy for jobs with shares.
fn classes(dedicated: Dedicated, policy: AnyPolicy, options: &Options) -> AnyScheduler {
    Box::new(Classes {
        admission: Admission {
            policy,
            ..options.admission
        },
        spare: options.spare,
        dedicated,
        suspends: options.gang.suspend == Suspend::Memory,
    })
}

fn shared<P: Policy + Copy + Send + 'static>(policy: P, options: &Options) -> AnyScheduler {
    let configured = options.admission;
    Box::new(Shares {
        admission: Admission {
            policy,
            pricing: configured.pricing,
            estimate_margin: configured.estimate_margin,
        },
        spare: options.spare,
        waiting: options.waiting,
    })
}

/// There is no scheduler of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy '{name}'{}; there are {}", did_you_mean(.nearest), names())]
pub struct UnknownPolicy {
    /// The name, cut to 32 characters.
    pub name: String,
    /// The one that is spelt most like it, where one is.
    pub nearest: Option<&'static str>,
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |name| format!(" (nearest: '{name}')"))
}

/// All names, for help and errors.
pub fn names() -> String {
    ALL.map(|known| known.name).join(", ")
}

/// The entry of this name.
///
/// # Errors
/// When there is none.
pub fn find(name: &str) -> Result<&'static Known, UnknownPolicy> {
    ALL.iter()
        .find(|known| known.name == name)
        .ok_or_else(|| UnknownPolicy {
            name: name.chars().take(32).collect(),
            nearest: nearest(name, ALL.iter().map(|known| known.name)),
        })
}

/// A scheduler of this name.
///
/// # Errors
/// When there is none.
pub fn named(name: &str, options: &Options) -> Result<AnyScheduler, UnknownPolicy> {
    find(name).map(|known| known.scheduler(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_a_scheduler_and_no_two_are_alike() {
        for (place, known) in ALL.iter().enumerate() {
            assert!(named(known.name, &Options::default()).is_ok());
            assert!(ALL[..place].iter().all(|other| other.name != known.name));
        }
        assert!(DEFAULT.iter().all(|name| find(name).is_ok()));
    }

    #[test]
    fn an_unknown_name_says_which_there_are() {
        let error = |name: &str| match named(name, &Options::default()) {
            Ok(_) => panic!("there is no '{name}'"),
            Err(error) => error.to_string(),
        };
        assert!(
            error("esay")
                .starts_with("there is no policy 'esay' (nearest: 'easy'); there are recorded,")
        );
        assert!(error("EDF").contains("nearest: 'edf'"), "{}", error("EDF"));
        assert!(!error("round-robin").contains("nearest"));
        assert!(error("").starts_with("there is no policy ''; there are"));
    }
}
