//! Everything that is exported: name, kind, unit and help of each metric.
//!
//! Names by the conventions of Prometheus and OpenMetrics: base units, `_total` behind counters. docs/metrics.md has one row
//! for each, which a test sees to.

/// What kind of metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises; its samples end in `_total`.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts by size.
    Histogram,
    /// Text that does not change, in labels; its samples end in `_info`.
    Info,
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Without the ending of its samples.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its unit, which its name ends in; empty for numbers of things.
    pub unit: &'static str,
    /// One sentence.
    pub help: &'static str,
}

impl Family {
    /// The name of its samples; of a histogram without `_bucket` and such.
    pub fn sample_name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Info => format!("{}_info", self.name),
            Kind::Gauge | Kind::Histogram => self.name.to_string(),
        }
    }
}

macro_rules! families {
    ($($constant:ident = $kind:ident $name:literal $unit:literal: $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: &Family = &Family { name: $name, kind: Kind::$kind, unit: $unit, help: $help };)*
        /// All of them, in the order in which they are shown.
        pub const ALL: &[&Family] = &[$($constant),*];
    };
}

families! {
    BUILD = Info "libra_build" "": "The version of Libra that counts.";
    JOBS = Gauge "libra_jobs" "": "Jobs with a share, by how far they have come.";
    JOBS_LATE = Gauge "libra_jobs_late" "": "Jobs with a share whose deadline has passed.";
    ACCEPTED = Counter "libra_jobs_accepted" "": "Jobs accepted; each job of an array counts.";
    WITHDRAWN = Counter "libra_jobs_withdrawn" "": "Accepted jobs that the batch system then did not have: tests, and submissions that others refused.";
    ENDED = Counter "libra_jobs_ended" "": "Accepted jobs that have ended, by how.";
    REFUSED = Counter "libra_submissions_refused" "": "Submissions refused, by reason.";
    DECISION = Histogram "libra_decision_seconds" "seconds": "Time that a verdict on a submission took.";
    NODES = Gauge "libra_nodes" "": "Nodes that jobs with terms run on, by whether they take new ones.";
    PROCESSORS = Gauge "libra_processors" "processors": "Processors of all nodes that jobs may share.";
    COMMITTED = Gauge "libra_committed_processors" "processors": "Processors that accepted jobs need on all nodes.";
    NODE_PROCESSORS = Gauge "libra_node_processors" "processors": "Processors of a node that jobs may share.";
    NODE_COMMITTED = Gauge "libra_node_committed_processors" "processors": "Processors that accepted jobs need on a node.";
    NODES_UNLISTED = Gauge "libra_nodes_unlisted" "": "Nodes that have no values of their own here, because there are too many.";
    ACCOUNTS_REACHABLE = Gauge "libra_accounts_reachable" "": "Whether the accounts can be read.";
    HOLDS = Gauge "libra_holds" "": "Prices of jobs that are held back on accounts.";
    HELD = Gauge "libra_held_credits" "credits": "Credits that are held back on accounts.";
    WRITTEN = Gauge "libra_written_timestamp_seconds" "seconds": "When these values were written, Unix time.";
    HOST_JOBS = Gauge "libra_host_jobs" "": "Jobs on this host, whoever accepted them, by how far they have come.";
    HOST_DEADLINE_STATUS = Gauge "libra_host_jobs_deadline_status" "": "Jobs on this host, by their status against their deadlines.";
    HOST_CLASS = Gauge "libra_host_jobs_class" "": "Jobs on this host, by their class of service.";
    HOST_SUSPENDED = Gauge "libra_host_jobs_suspended" "": "Jobs on this host that stand still: of best effort, because others leave them nothing, and dedicated ones, for an earlier deadline.";
    HOST_PROCESSORS = Gauge "libra_host_processors" "processors": "Processors of this host that jobs may share.";
    HOST_COMMITTED = Gauge "libra_host_committed_processors" "processors": "Processors that the jobs on this host need from now on.";
    HOST_THROTTLED = Counter "libra_host_throttled_seconds" "seconds": "Time in which jobs on this host could have run and had used up their shares, summed over processors.";
    HOST_DRIFTS = Counter "libra_host_drifts" "": "Limits of jobs that somebody else had changed and the agent set again.";
    HOST_ADJUSTED = Counter "libra_host_adjustments" "": "Shares of jobs that the control loop has changed.";
    HOST_REJECTED = Counter "libra_host_claims_rejected" "": "Jobs whose claim to a share this host did not believe, by reason: they run without a promise, or with what was left.";
    HOST_JOBS_UNENFORCED = Counter "libra_host_jobs_unenforced" "": "Jobs that this host was to hold to a share and does not: they run in a control group of the batch system's that could not be adopted.";
    HOST_ROUND = Histogram "libra_host_round_seconds" "seconds": "Time that a round of the control loop took.";
    HOST_FAILED = Counter "libra_host_rounds_failed" "": "Rounds of the control loop that could not be done.";
    HOST_LEADS = Gauge "libra_host_leads" "": "1 while this process runs the host's control loop, 0 while another one does.";
    HOST_ENFORCED = Gauge "libra_host_enforced" "": "1 where the kernel holds jobs to their shares, 0 where nothing does.";
}
