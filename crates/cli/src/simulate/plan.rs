//! From arguments to what is to be run. What can be wrong in them is said before a log is read.

use crate::Failure;
use crate::args::{self, Args, DrawnTermsArgs, SimulateArgs, Spare, Suspend};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use libra_config::site;
use libra_core::decision::allotment;
use libra_core::gang;
use libra_simulator::range::Range;
use libra_simulator::recorded;
use libra_simulator::schedulers::{self, GangOptions, Known, Options};
use libra_simulator::setting::{Parameter, Setting};
use libra_simulator::shares::Waiting;
use libra_terminal::say;
use libra_units::duration;
use libra_workload::coupled::Coupled;
use libra_workload::deadlines::{ClockTimes, DeadlineModel};
use libra_workload::read::{self, Leniency, Log, Subset, TraceError};
use libra_workload::sla::{self, Sla};
use libra_workload::swf::{Header, SwfRecord};
use libra_workload::terms::{Estimates, Made, TermsModel};
use std::path::Path;

/// Seeds of a report, so that it can say how much its figures vary.
const SEEDS_OF_REPORT: u64 = 5;

/// What is to be run.
pub struct Plan {
    /// Policies, no two alike.
    pub policies: Vec<&'static Known>,
    /// Nobody has named them.
    by_default: bool,
    /// Seeds, one after the other.
    pub seeds: Vec<u64>,
    /// The range of one parameter.
    pub sweep: Option<Range>,
    /// Terms that the site gives, and where they are.
    pub sla: Option<Sla>,
    /// How many threads.
    pub threads: usize,
    /// Without the machine, which the log may tell.
    setting: Setting,
    nodes: Option<u32>,
    processors_per_node: Option<u32>,
}

impl Plan {
    pub fn of(simulate: &SimulateArgs, args: &Args) -> Result<Plan, Failure> {
        let usage = |error: String| Failure::Usage(error);
        let output = &simulate.output;
        if output.report.is_some() && output.report == output.outcomes {
            let problem = "--report and --outcomes name the same file; name two";
            return Err(usage(problem.to_string()));
        }
        let seeds = simulate.runs.seeds.unwrap_or_else(|| match output {
            output if output.report.is_some() && output.outcomes.is_none() => SEEDS_OF_REPORT,
            _ => 1,
        });
        if output.outcomes.is_some() && seeds > 1 {
            let problem = "--outcomes has the jobs of one seed; leave --seeds out, or run it once \
                           for each --seed";
            return Err(usage(problem.to_string()));
        }
        let named = simulate.policy.clone();
        let policies =
            policies(&named.unwrap_or_else(|| schedulers::DEFAULT.map(str::to_string).to_vec()))
                .map_err(usage)?;
        let sweep = simulate.runs.sweep.as_deref().map(str::parse::<Range>);
        let sweep = sweep
            .transpose()
            .map_err(|error| usage(format!("--sweep: {error}")))?;
        let last = simulate.runs.seed.checked_add(seeds - 1);
        let last =
            last.ok_or_else(|| usage("--seed: there are no such large seeds".to_string()))?;
        let sla = simulate.terms.sla.as_deref().map(sla::read);
        let plan = Plan {
            by_default: simulate.policy.is_none(),
            policies,
            seeds: (simulate.runs.seed..=last).collect(),
            sweep,
            sla: sla.transpose().map_err(|error| usage(error.to_string()))?,
            threads: match simulate.runs.threads {
                Some(threads) => threads,
                None => std::thread::available_parallelism().map_or(1, usize::from),
            },
            setting: setting(simulate, args)?,
            nodes: simulate.machine.nodes,
            processors_per_node: simulate.machine.processors_per_node,
        };
        if let Some(range) = &plan.sweep {
            let option = format!("sweep {}", range.parameter.name());
            belongs(range.parameter, &option, plan.setting.model.deadlines)?;
        }
        plan.swept(plan.setting)?;
        Ok(plan)
    }

    /// Looks whether what the log really did can be told of these settings: of its own submissions on its own machine, and of a log that has
    /// waiting times. Where nobody asked for it, it is left out.
    pub fn compare_with_log(&mut self, part: &LogExcerpt) -> Result<(), Failure> {
        let is_recorded = |known: &&'static Known| known.name == recorded::NAME;
        if !self.policies.iter().any(is_recorded) {
            return Ok(());
        }
        let problem = if self.sweep.is_some() {
            "it is not known over a range of values (--sweep)"
        } else if self.setting.model.arrival_delay_factor != 1.0 {
            "it is not known for other arrivals (--arrival-delay-factor)"
        } else if self.nodes.is_some() || self.processors_per_node.is_some() {
            "it is not known for another machine (--nodes, --processors-per-node)"
        } else if !(part.records().iter()).any(|record| record.ran() && record.wait >= 0.0) {
            "the log has no waiting times (field 3)"
        } else {
            return Ok(());
        };
        if self.by_default {
            self.policies.retain(|known| !is_recorded(known));
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--policy {}: what the log really did cannot be compared here: {problem}; leave one of them out",
            recorded::NAME
        )))
    }

    /// The settings on the machine of this log: one, or one for each value of the range.
    pub fn settings(&self, part: &LogExcerpt) -> Result<Vec<Setting>, Failure> {
        let mut setting = self.setting;
        let swept = self.sweep.as_ref();
        let swept = swept.is_some_and(|range| range.parameter == Parameter::Nodes);
        let machine = NodesOfLog::of(&part.log.header);
        let each = self.processors_per_node;
        (
            setting.nodes,
            setting.processors_per_node,
            setting.larger_nodes,
        ) = match (self.nodes, each, machine) {
            (Some(nodes), Some(each), _) => (nodes, each, 0),
            (None, Some(each), Some(machine)) => (machine.nodes, each, 0),
            (None, None, Some(machine)) if !swept => (machine.nodes, machine.each, machine.larger),
            (nodes, None, Some(machine)) if machine.larger == 0 => {
                (nodes.unwrap_or(machine.nodes), machine.each, 0)
            }
            (_, None, Some(machine)) => {
                return Err(Failure::Usage(format!(
                    "{}: its nodes are not alike (MaxNodes {}, MaxProcs {}); with other nodes say also with --processors-per-node what each has",
                    part.name,
                    machine.nodes,
                    machine.nodes * machine.each + machine.larger
                )));
            }
            (nodes, each, None) => {
                let nodes = nodes.or(swept.then_some(1));
                let nodes = nodes.ok_or_else(|| {
                    Failure::Usage(format!(
                        "{}: its header has neither MaxNodes nor MaxProcs; say with --nodes how many nodes there are",
                        part.name
                    ))
                })?;
                (nodes, each.unwrap_or(1), 0)
            }
        };
        if let Some(second) = part.second_of_week() {
            setting.model.second_of_week = second;
        }
        self.swept(setting)
    }

    fn swept(&self, setting: Setting) -> Result<Vec<Setting>, Failure> {
        let Some(range) = &self.sweep else {
            return match setting.check() {
                Ok(()) => Ok(vec![setting]),
                Err(error) => Err(out_of_range(&error.field.replace('_', "-"), error)),
            };
        };
        let values = range.values.iter();
        let settings = values.map(|&value| {
            let mut setting = setting;
            match range.parameter.set(&mut setting, value) {
                Ok(()) => Ok(setting),
                Err(error) => Err(out_of_range(
                    &format!("sweep {}", range.parameter.name()),
                    error,
                )),
            }
        });
        settings.collect()
    }
}

/// The nodes that a header tells of.
#[derive(Debug, Clone, Copy, PartialEq)]
struct NodesOfLog {
    nodes: u32,
    /// Processors of each.
    each: u32,
    /// So many nodes have one more.
    larger: u32,
}

impl NodesOfLog {
    fn of(header: &Header) -> Option<NodesOfLog> {
        let known = |value: Option<u32>| value.filter(|value| *value > 0);
        let (nodes, all) = (known(header.max_nodes()), known(header.max_processors()));
        let of = |nodes, each, larger| {
            Some(NodesOfLog {
                nodes,
                each,
                larger,
            })
        };
        match (nodes, all) {
            (Some(nodes), Some(all)) if all >= nodes => of(nodes, all / nodes, all % nodes),
            (_, Some(all)) => of(all, 1, 0),
            (Some(nodes), None) => of(nodes, 1, 0),
            (None, None) => None,
        }
    }
}

fn out_of_range(option: &str, error: libra_core::decision::job::OutOfRange) -> Failure {
    Failure::Usage(format!(
        "--{option}: {}, expected {}",
        error.value, error.expected
    ))
}

fn policies(names: &[String]) -> Result<Vec<&'static Known>, String> {
    let mut policies: Vec<&'static Known> = Vec::new();
    for name in names {
        let known = schedulers::find(name.trim()).map_err(|error| format!("--policy: {error}"))?;
        if policies.iter().any(|other| other.name == known.name) {
            return Err(format!("--policy: '{}' is there twice", known.name));
        }
        policies.push(known);
    }
    Ok(policies)
}

/// All but the machine.
fn setting(simulate: &SimulateArgs, args: &Args) -> Result<Setting, Failure> {
    let terms = &simulate.terms;
    let mut model = match terms.soft {
        true => TermsModel::libra_sla(),
        false => TermsModel::default(),
    };
    if let Some(estimates) = &terms.estimates {
        let read = estimates.parse::<Estimates>();
        model.estimates = read.map_err(|error| Failure::Usage(format!("--estimates: {error}")))?;
    }
    model.deadlines = deadlines(terms)?;
    model.coupled = match simulate.machine.coupled {
        args::Coupled::Never => Coupled::Never,
        args::Coupled::MultiProcessor => Coupled::MultiProcessor,
        args::Coupled::Always => Coupled::Always,
    };
    let mut setting = Setting {
        model,
        options: Options {
            admission: libra_rules::admission(&site::load(args.config.as_deref())?),
            spare: match simulate.rules.spare {
                Spare::Idle => allotment::Spare::Idle,
                Spare::Shared => allotment::Spare::Shared,
                Spare::HighestReturn => allotment::Spare::HighestReturn,
            },
            waiting: match simulate.rules.waiting {
                args::Waiting::Block => Waiting::Block,
                args::Waiting::Spin => Waiting::Spin,
            },
            gang: GangOptions::default(),
        },
        nodes: simulate.machine.nodes.unwrap_or(1),
        processors_per_node: simulate.machine.processors_per_node.unwrap_or(1),
        larger_nodes: 0,
    };
    for (parameter, value) in [
        (Parameter::HighUrgency, terms.high_urgency),
        (Parameter::DeadlineFactor, terms.deadline_factor),
        (Parameter::DeadlineRatio, terms.deadline_ratio),
        (Parameter::DeadlineSpread, terms.deadline_spread),
        (Parameter::Infeasible, terms.infeasible),
        (Parameter::ArrivalDelayFactor, terms.arrival_delay_factor),
        (Parameter::BudgetFactor, terms.budget_factor),
        (Parameter::BudgetRatio, terms.budget_ratio),
        (Parameter::BudgetSpread, terms.budget_spread),
        (Parameter::PenaltyFactor, terms.penalty_factor),
        (Parameter::PenaltyRatio, terms.penalty_ratio),
        (Parameter::PenaltySpread, terms.penalty_spread),
        (Parameter::EstimateMargin, simulate.rules.estimate_margin),
    ] {
        if let Some(value) = value {
            belongs(parameter, parameter.name(), model.deadlines)?;
            // What is wrong with another value is said of that one.
            let mut alone = Setting {
                nodes: 1,
                processors_per_node: 1,
                larger_nodes: 0,
                ..setting
            };
            let set = parameter.set(&mut alone, value);
            set.map_err(|error| out_of_range(parameter.name(), error))?;
            setting.model = alone.model;
            setting.options = alone.options;
        }
    }
    setting.options.gang = GangOptions {
        suspend: match simulate.rules.suspend {
            Suspend::Memory => gang::Suspend::Memory,
            Suspend::Never => gang::Suspend::Never,
        },
        jobs_per_processor: simulate.rules.jobs_per_processor,
        wait_for_promise: simulate.rules.wait_for_promise,
    };
    let alone = Setting {
        nodes: 1,
        processors_per_node: 1,
        ..setting
    };
    let check = alone.check();
    check.map_err(|error| out_of_range(&error.field.replace('_', "-"), error))?;
    Ok(setting)
}

/// The model of deadlines, and that nothing is said of another.
fn deadlines(terms: &DrawnTermsArgs) -> Result<DeadlineModel, Failure> {
    let named = terms.deadline_model.unwrap_or(match terms.soft {
        true => args::DeadlineModel::Run,
        false => args::DeadlineModel::Estimate,
    });
    let usage = |problem: String| Failure::Usage(problem);
    let model = match named {
        args::DeadlineModel::Run => DeadlineModel::Run,
        args::DeadlineModel::Estimate => DeadlineModel::Estimate,
        args::DeadlineModel::Slack => {
            let text = terms.slack.as_deref().unwrap_or("8h");
            let slack = duration::parse(text);
            let slack = slack.map_err(|error| {
                usage(format!(
                    "--slack: {error}; expected the mean time from the estimate to the deadline, 0 or more"
                ))
            })?;
            DeadlineModel::Slack(slack)
        }
        args::DeadlineModel::Clock => {
            let times = terms.clock_times.as_deref().map(str::parse::<ClockTimes>);
            let times = times.transpose();
            let times = times.map_err(|error| usage(format!("--clock-times: {error}")))?;
            DeadlineModel::Clock(times.unwrap_or_default())
        }
    };
    if let Err(error) = model.check() {
        return Err(out_of_range(error.field, error));
    }
    if terms.slack.is_some() {
        belongs(Parameter::Slack, "slack", model)?;
    }
    if terms.clock_times.is_some() && named != args::DeadlineModel::Clock {
        return Err(foreign("clock-times", model, "clock"));
    }
    Ok(model)
}

/// That deadlines of this model depend on this parameter.
fn belongs(parameter: Parameter, option: &str, model: DeadlineModel) -> Result<(), Failure> {
    match (parameter.is_foreign_to(model), parameter) {
        (false, _) => Ok(()),
        (true, Parameter::Slack) => Err(foreign(option, model, "slack")),
        (true, _) => Err(foreign(option, model, "estimate' or 'run")),
    }
}

fn foreign(option: &str, model: DeadlineModel, other: &str) -> Failure {
    Failure::Usage(format!(
        "--{option}: deadlines of the model '{}' have no such value; leave it out, or choose '{other}' with --deadline-model",
        model.name()
    ))
}

/// A log, of which a part is simulated.
pub struct LogExcerpt {
    /// What it is called.
    pub name: String,
    /// All of it.
    pub log: Log,
    subset: Subset,
}

impl LogExcerpt {
    pub fn read(simulate: &SimulateArgs, leniency: Leniency) -> Result<LogExcerpt, TraceError> {
        let path = &simulate.trace;
        let name = match path.file_name() {
            _ if path == Path::new("-") => "standard input".to_string(),
            Some(name) => name.to_string_lossy().into_owned(),
            None => path.display().to_string(),
        };
        Ok(LogExcerpt {
            name,
            log: read::read(path, leniency)?,
            subset: match (simulate.first, simulate.last) {
                (Some(count), _) => Subset::First(count),
                (None, Some(count)) => Subset::Last(count),
                (None, None) => Subset::All,
            },
        })
    }

    pub fn records(&self) -> &[SwfRecord] {
        self.subset.of(&self.log.records)
    }

    /// Second of the day, by the log's clock, in which the first job was submitted; None if
    /// the log does not say.
    pub fn time_of_day(&self) -> Option<f64> {
        Some(self.second_of_week()? % 86_400.0)
    }

    /// The same of the week, from Monday 0:00.
    fn second_of_week(&self) -> Option<f64> {
        let header = &self.log.header;
        let first = self.records().iter().find(|record| record.ran())?;
        let seconds = header.unix_start_time()?.checked_add(first.submit as i64)?;
        let instant = Timestamp::from_second(seconds).ok()?;
        let by_name = header
            .value("TimeZoneString")
            .and_then(|name| TimeZone::get(name).ok());
        // Older headers have the winter's offset alone.
        let by_offset = || {
            let offset = header.value("TimeZone")?.parse().ok()?;
            Some(TimeZone::fixed(Offset::from_seconds(offset).ok()?))
        };
        let time = instant.to_zoned(by_name.or_else(by_offset)?);
        let days = f64::from(time.weekday().to_monday_zero_offset());
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        let of_day = f64::from(hour) * 3600.0 + f64::from(minute) * 60.0 + f64::from(second);
        Some(days * 86_400.0 + of_day)
    }

    /// Says what was left out although it was asked to be simulated.
    pub fn warn(&self, made: &Made) {
        let log = &self.log;
        if log.skipped > 0 {
            let lines = counted(log.skipped as usize, "line", "lines");
            say(format_args!("libra: {}: {lines} left out", self.name));
            for skipped in &log.first_skipped {
                say(format_args!("libra: {}: {skipped}", self.name));
            }
        }
        if let Some(disorder) = &log.sorted {
            say(format_args!("libra: {}: sorted; {disorder}", self.name));
        }
        for (jobs, why) in [
            (
                log.not_submitted as usize,
                "for which the log does not say when they were submitted",
            ),
            (made.too_large, "larger than the machine"),
            (
                made.no_processors,
                "for which the log does not say how many processors they had",
            ),
        ] {
            if jobs > 0 {
                let jobs = counted(jobs, "job", "jobs");
                say(format_args!("libra: {}: left out {jobs} {why}", self.name));
            }
        }
    }

    /// From the first submission to the last, for people.
    pub fn span(&self) -> String {
        let mut ran = self.records().iter().filter(|record| record.ran());
        let first = ran.next().map_or(0.0, |record| record.submit);
        let last = ran.next_back().map_or(first, |record| record.submit);
        match last - first {
            seconds if seconds >= 2.0 * 86_400.0 => format!("{:.0} days", seconds / 86_400.0),
            seconds => duration::show(seconds),
        }
    }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
