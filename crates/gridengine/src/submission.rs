//! A submission as qmaster shows it to a verifier, and what it asks for in Libra's terms.

use super::jsv::Parameters;
use super::problem::{Problem, Wait};
use super::records::{Allocation, Asked};
use super::{CONTEXT, QUOTE, TERMS};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use libra_batch::front_end::Deferred;
use libra_core::decision::class::Class;
use libra_core::decision::job::Shape;
use libra_units::duration;
use libra_wording::terms::{self, PartialTerms, TermsError, deadline_as_duration};

/// Requests that are limits of the job itself, which queues have to keep: nothing that could be short.
const LIMITS: [&str; 18] = [
    "h_rt",
    "s_rt",
    "h_cpu",
    "s_cpu",
    "h_fsize",
    "s_fsize",
    "h_data",
    "s_data",
    "h_stack",
    "s_stack",
    "h_core",
    "s_core",
    "h_rss",
    "s_rss",
    "h_vmem",
    "s_vmem",
    "h_descriptors",
    "s_descriptors",
];

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Submission {
    /// Number of the job that it will be.
    pub job: u32,
    /// Name of the user, as qmaster knows it.
    pub user: String,
    /// Terms, by the keys of [`TERMS`].
    pub terms: Vec<(String, String)>,
    /// `-l quote=…`
    pub quote: Option<String>,
    /// All other hard requests, as they came.
    pub requests: Vec<String>,
    /// `-q`, hard: patterns.
    pub queues: Vec<String>,
    /// `-ac`, without Libra's own.
    pub context: Vec<String>,
    /// It sets Libra's own variable.
    pub claims: bool,
    /// `-pe`: name, least and most slots.
    pub environment: Option<(String, u32, u32)>,
    /// `-t`: first, last, step.
    pub array: Option<(u32, u32, u32)>,
    /// `-P`
    pub project: Option<String>,
    /// It waits for its user or for others' jobs before it may start: `-h`, `-hold_jid`.
    pub waits: bool,
    /// `-a`: the times that it may mean, Unix time.
    pub begins: Vec<f64>,
    /// A term that it asks for where it can be had (`-soft`), and not whatever happens.
    pub soft: Option<String>,
    /// Options with which it is not judged, and why not.
    pub against: Vec<Problem>,
}

fn list(parameters: &Parameters, name: &str) -> Vec<String> {
    let text = parameters.get(name).map_or("", String::as_str);
    (text.split(','))
        .filter(|part| !part.is_empty())
        .map(str::to_string)
        .collect()
}

/// `202610231800.00`, as qmaster writes the time of `-a`, in this host's zone: the Unix times that it may mean. 8.1.9 counts months from 0 there;
/// another one may not, and the one that is ahead is meant. When a job may start its own record says.
fn local_times(text: &str) -> Vec<f64> {
    let Some((year, month, rest)) = text
        .split_at_checked(4)
        .and_then(|(year, rest)| Some((year, rest.split_at_checked(2)?)))
        .and_then(|(year, (month, rest))| Some((year, month.parse::<u32>().ok()?, rest)))
    else {
        return Vec::new();
    };
    let at = |month: u32| {
        let text = format!("{year}{month:02}{rest}");
        let read = DateTime::strptime("%Y%m%d%H%M.%S", text).ok()?;
        let at = read.to_zoned(TimeZone::system()).ok()?;
        Some(at.timestamp().as_second() as f64)
    };
    [month, month + 1].into_iter().filter_map(at).collect()
}

/// Tells whether whoever reads the name of a variable could take it for Libra's own: readers of qstat drop what stands around it.
fn is_ours(name: &str) -> bool {
    let kept = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    name.chars().filter(kept).eq(CONTEXT.chars())
}

/// The key before '='.
fn key(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(key, _)| key)
}

impl Submission {
    /// Takes what qmaster says of a job.
    pub fn new(parameters: &Parameters) -> Submission {
        let text = |name: &str| {
            parameters
                .get(name)
                .filter(|text| !text.is_empty())
                .cloned()
        };
        let number = |name: &str| text(name).and_then(|text| text.parse().ok());
        let mut submission = Submission {
            job: number("JOB_ID").unwrap_or(0),
            user: text("USER").unwrap_or_default(),
            project: text("P"),
            queues: list(parameters, "q_hard"),
            ..Submission::default()
        };
        for request in list(parameters, "l_hard") {
            let (name, value) = request.split_once('=').unwrap_or((&request, ""));
            match name {
                QUOTE => submission.quote = Some(value.to_string()),
                name if TERMS.contains(&name) => {
                    (submission.terms).push((name.to_string(), value.to_string()));
                }
                _ => submission.requests.push(request),
            }
        }
        // Alone and of any other meaning it is a complex of the cell's own.
        match &submission.terms[..] {
            [(key, value)] if key == terms::CLASS && Class::of_word(value).is_none() => {
                submission.requests.push(format!("{key}={value}"));
                submission.terms.clear();
            }
            _ => {}
        }
        for variable in list(parameters, "ac") {
            match is_ours(key(&variable)) {
                true => submission.claims = true,
                false => submission.context.push(variable),
            }
        }
        if let Some(name) = text("pe_name") {
            let least = number("pe_min").unwrap_or(1);
            let most = number("pe_max").unwrap_or(least);
            submission.environment = Some((name, least, most));
        }
        if let Some(first) = number("t_min") {
            let last = number("t_max").unwrap_or(first);
            submission.array = Some((first, last, number("t_step").unwrap_or(1)));
        }
        // It would run without a promise, and nobody would be told.
        let soft = list(parameters, "l_soft");
        let soft = soft.iter().map(|request| key(request));
        let is_term = |name: &&str| TERMS.contains(name) && *name != terms::CLASS || *name == QUOTE;
        submission.soft = soft.filter(is_term).map(str::to_string).next();
        let is_set = |name: &str| text(name).is_some_and(|value| value != "n" && value != "0");
        submission.waits = is_set("h") || is_set("hold_jid");
        if let Some(begin) = text("a").filter(|begin| begin != "0") {
            submission.begins = local_times(&begin);
            if submission.begins.is_empty() {
                submission.against.push(Problem::Time(begin));
            }
        }
        for (name, problem) in [
            ("hold_jid_ad", Problem::Waits(Wait::Tasks)),
            ("ar", Problem::Waits(Wait::Reservation)),
            ("tc", Problem::LimitedArray),
            ("masterq", Problem::Unjudged("-masterq".to_string())),
        ] {
            if is_set(name) {
                submission.against.push(problem);
            }
        }
        submission
    }

    /// A job that waits in the queue, as qmaster has it: where it may go. Without terms, which are committed.
    pub fn of_record(job: u32, asked: &Asked) -> Submission {
        Submission {
            job,
            user: asked.owner.clone(),
            requests: asked.requests.clone(),
            queues: asked.queues.clone(),
            environment: (asked.environment.clone()).map(|(name, slots)| (name, slots, slots)),
            array: asked.array,
            ..Submission::default()
        }
    }

    /// When it may start, if it may not at once. `now`: Unix time.
    pub fn deferred(&self, now: f64) -> Option<Deferred> {
        let ahead = self.begins.iter().map(|begin| begin - now);
        let earliest = ahead
            .filter(|seconds| *seconds > 0.0)
            .min_by(f64::total_cmp);
        (self.waits || earliest.is_some()).then_some(Deferred {
            earliest: earliest.unwrap_or(0.0),
            from_start: false,
        })
    }

    /// Returns true if it comes with terms, or asks about a quote.
    pub fn has_terms(&self) -> bool {
        !self.terms.is_empty() || self.quote.is_some() || self.soft.is_some()
    }

    /// The terms; a hard limit of its run time stands in for a missing estimate.
    ///
    /// # Errors
    /// What of them cannot be read.
    pub fn terms(&self) -> Result<PartialTerms, TermsError> {
        self.terms_until(&deadline_as_duration)
    }

    /// As [`Submission::terms`]. `until`: seconds from now until a deadline as it was typed.
    ///
    /// # Errors
    /// As [`Submission::terms`].
    pub fn terms_until(
        &self,
        until: &dyn Fn(&str) -> Result<f64, String>,
    ) -> Result<PartialTerms, TermsError> {
        let mut terms = PartialTerms::default();
        for (key, value) in &self.terms {
            terms.set(key, value, until)?;
        }
        if terms.estimate.is_none() {
            terms.estimate = (self.request("h_rt"))
                .and_then(|limit| duration::parse(limit).ok())
                .filter(|seconds| *seconds > 0.0);
        }
        Ok(terms)
    }

    fn request(&self, name: &str) -> Option<&str> {
        (self.requests.iter()).find_map(|request| request.strip_prefix(name)?.strip_prefix('='))
    }

    /// Hosts that it may have: patterns with `*` and `?`; None for all.
    pub fn hosts(&self) -> Option<&str> {
        self.request("hostname").or_else(|| self.request("h"))
    }

    /// Checks that it asks for nothing that could keep it waiting.
    ///
    /// # Errors
    /// What it asks for.
    pub fn check(&self) -> Result<(), Problem> {
        if self.claims {
            return Err(Problem::Context);
        }
        if let Some(term) = &self.soft {
            return Err(Problem::Soft(term.clone()));
        }
        if let Some(problem) = self.against.first() {
            return Err(problem.clone());
        }
        let is_judged = |name: &str| LIMITS.contains(&name) || ["hostname", "h"].contains(&name);
        match (self.requests.iter()).find(|request| !is_judged(key(request))) {
            Some(request) => Err(Problem::Unjudged(format!("-l {request}"))),
            None => Ok(()),
        }
    }

    /// Chunks are hosts where the environment says how many slots each host gets; else all slots are on one.
    ///
    /// # Errors
    /// What of it cannot be placed for sure.
    pub fn shape(&self, allocation: Option<Allocation>) -> Result<Shape, Problem> {
        let Some((environment, least, most)) = self.environment.clone() else {
            return Ok(Shape::default());
        };
        if least != most {
            return Err(Problem::Range { environment, most });
        }
        match allocation {
            None => Err(Problem::NoEnvironment(environment)),
            Some(Allocation::Anyhow) => Ok(Shape {
                processors_per_chunk: most,
                ..Shape::default()
            }),
            Some(Allocation::Each(each)) if most % each != 0 => {
                Err(Problem::Uneven { environment, each })
            }
            Some(Allocation::Each(each)) => Ok(Shape {
                chunks: most / each,
                processors_per_chunk: each,
                scatter: most > each,
                ..Shape::default()
            }),
        }
    }

    /// Slots that it asks for, the most of a range.
    pub fn slots(&self) -> u32 {
        (self.environment.as_ref()).map_or(1, |(_, _, most)| *most)
    }

    /// How many jobs it is; None for one that is no array.
    ///
    /// # Errors
    /// When it is no range.
    pub fn count(&self) -> Result<Option<u32>, Problem> {
        let Some((first, last, step)) = self.array else {
            return Ok(None);
        };
        if first == 0 || last < first || step == 0 {
            return Err(Problem::Array(format!("{first}-{last}:{step}")));
        }
        Ok(Some((last - first) / step + 1))
    }
}
