//! The rules of a site: what the configuration says, as the engines that decide and enforce take it. It knows both, and no batch system.

use libra_config::{
    ClassName, Config, EstimateAboveDeadline, PolicyName, PricingName, SuspendName,
};
use libra_core::book::held_quote::Limits;
use libra_core::decision::admission::Admission;
use libra_core::decision::allotment::Spare;
use libra_core::decision::class::Class;
use libra_core::decision::class_defaults::ClassDefaults;
use libra_core::decision::overrun::PastDeadline;
use libra_core::decision::policy::{
    AnyPolicy, Libra, LibraAdaptive, LibraRisk, LibraSla, NodeChoice,
};
use libra_core::decision::pricing::{AnyPricing, ByShare, Linear, Utilisation};
use libra_core::decision::service::{ClassAdmission, ClassRules};
use libra_core::decision::share::ShareRule;

/// The rules of admission.
pub fn admission(config: &Config) -> Admission {
    let admission = &config.admission;
    let share_rule = if admission.integral_shares {
        ShareRule::Integral
    } else {
        ShareRule::Exact
    };
    let unconditional = match admission.estimate_above_deadline {
        EstimateAboveDeadline::Refuse => true,
        EstimateAboveDeadline::Conditional => false,
    };
    let node_choice = match admission.node_choice {
        libra_config::NodeChoice::BestFit => NodeChoice::BestFit,
        libra_config::NodeChoice::LeastLoaded => NodeChoice::LeastLoaded,
    };
    Admission {
        policy: match admission.policy {
            PolicyName::Libra => AnyPolicy::Libra(Libra {
                node_choice,
                share_rule,
            }),
            PolicyName::LibraSla => AnyPolicy::LibraSla(LibraSla),
            PolicyName::LibraRisk => AnyPolicy::LibraRisk(LibraRisk {
                spare_is_shared: config.cgroup.spare == libra_config::Spare::Shared,
                unconditional,
            }),
            PolicyName::LibraAdaptive => AnyPolicy::LibraAdaptive(LibraAdaptive { unconditional }),
        },
        pricing: match config.pricing.rule {
            PricingName::Linear => AnyPricing::Linear(Linear {
                alpha: config.pricing.alpha.0,
                beta: config.pricing.beta.0,
            }),
            PricingName::ByShare => AnyPricing::ByShare(ByShare {
                alpha: config.pricing.alpha.0,
                beta: config.pricing.beta.0,
            }),
            PricingName::Utilisation => AnyPricing::Utilisation(Utilisation {
                alpha: config.pricing.alpha.0,
                beta: config.pricing.beta.0,
                base: config.pricing.base.0,
            }),
        },
        estimate_margin: admission.margin(),
    }
}

/// The rules of one host, for jobs of every class of service.
pub fn class_admission(config: &Config) -> ClassAdmission {
    let class = &config.class;
    ClassAdmission {
        admission: admission(config),
        rules: ClassRules {
            dedicated: class.dedicated,
            immediate: class.immediate,
            best_effort: class.best_effort,
            dedicated_factor: class.dedicated_price.0,
            immediate_factor: class.immediate_price.0,
            best_effort_rate: class.best_effort_price.0,
            suspends: class.suspend == SuspendName::Memory,
        },
    }
}

/// The classes of jobs of one host that name none. Queues are a batch system's.
pub fn class_defaults(config: &Config) -> ClassDefaults {
    let class = &config.class;
    ClassDefaults {
        default: self::class(class.default),
        several: class.several.class().map(self::class),
        queues: (class.queues.iter())
            .map(|(queue, name)| (queue.clone(), self::class((*name).into())))
            .collect(),
    }
}

/// The classes of jobs of a batch system that come with terms and name none.
pub fn batch_class_defaults(config: &Config) -> ClassDefaults {
    class_defaults(config).in_batch()
}

fn class(name: ClassName) -> Class {
    match name {
        ClassName::Deadline => Class::Deadline,
        ClassName::Dedicated => Class::Dedicated,
        ClassName::Immediate => Class::Immediate,
        ClassName::BestEffort => Class::BestEffort,
    }
}

/// The rules of a batch system, for jobs of every class of service that it has.
pub fn batch_admission(config: &Config) -> ClassAdmission {
    let of_host = class_admission(config);
    ClassAdmission {
        rules: of_host.rules.in_batch(),
        ..of_host
    }
}

/// What each round of the control loop does with time that nobody needs; time that is shared in
/// proportion is given out by the kernel.
pub fn spare_in_rounds(config: &Config) -> Spare {
    match config.cgroup.spare {
        libra_config::Spare::HighestReturn => Spare::HighestReturn,
        libra_config::Spare::Idle | libra_config::Spare::Shared => Spare::Idle,
    }
}

/// What becomes of jobs that have used their estimate and passed their deadline.
pub fn past_deadline(config: &Config) -> PastDeadline {
    match config.agent.past_deadline {
        libra_config::PastDeadline::KeepsShare => PastDeadline::KeepsShare,
        libra_config::PastDeadline::WhatIsLeft => PastDeadline::WhatIsLeft,
        libra_config::PastDeadline::EndedAfter(times) => PastDeadline::EndedAfter(times),
    }
}

/// How long and how many quotes are held.
pub fn quote_limits(config: &Config) -> Limits {
    Limits {
        longest: config.admission.longest_quote.0,
        most: config.admission.most_quotes as usize,
    }
}

/// The settings of the enforcement.
pub fn cgroup_settings(config: &Config) -> libra_cgroup::Settings {
    libra_cgroup::Settings {
        version: match config.cgroup.version {
            libra_config::VersionChoice::Auto => libra_cgroup::VersionChoice::Auto,
            libra_config::VersionChoice::V1 => libra_cgroup::VersionChoice::V1,
            libra_config::VersionChoice::V2 => libra_cgroup::VersionChoice::V2,
            libra_config::VersionChoice::Off => libra_cgroup::VersionChoice::Off,
        },
        root: (config.cgroup.root != "auto").then(|| config.cgroup.root.clone()),
        spare: match config.cgroup.spare {
            // The control loop gives it out by raising that job's share.
            libra_config::Spare::Idle | libra_config::Spare::HighestReturn => {
                libra_cgroup::Spare::Idle
            }
            libra_config::Spare::Shared => libra_cgroup::Spare::Shared,
        },
        period: std::time::Duration::from_secs_f64(config.cgroup.period.0),
        // Packing was measured and gains nothing, see docs/enforcement.md.
        pin: libra_cgroup::Pin::Never,
        ceiling: None,
        mounts: None,
    }
}
