//! A batch system that is a directory: a job is a file in it, with the line that was committed. It runs nothing.
//!
//! It is what a third batch system needs at least: a [`FrontEnd`] for the admission server, and a [`System`] for the page.

use libra_batch::front_end::{Domain, FrontEnd, JobSpecification, OnAccount};
use libra_batch::quote::Quote;
use libra_batch::server::{AdmissionServer, Answer, Committed};
use libra_batch::{verdict, words};
use libra_config::Config;
use libra_core::book::held_quote::NoOrder;
use libra_core::book::{
    AllocationRecord, Book, JobRecord, NodeRecord, Phase, SNAPSHOT_VERSION, Snapshot,
};
use libra_core::commitment::Commitment;
use libra_core::decision::job::{Request, Shape};
use libra_core::decision::refusal::Category;
use libra_page::system::job::{Detail, JobSummary};
use libra_page::system::quote::Quote as Shown;
use libra_page::system::submission::{Submission, Submitted};
use libra_page::system::{Cluster, Kind, Node, Problem as PageProblem, Site, System};
use libra_wording::errors::no_order;
use libra_wording::terms::{PartialTerms, TermsError, deadline_as_duration};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is submitted: the fields of the page's form, and what is said about a quote.
#[derive(Debug, Clone, Default)]
pub struct Job {
    pub user: String,
    pub wanted: Submission,
    pub quote: Option<String>,
}

/// What this system has against a job.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Terms(#[from] TermsError),
    #[error("processors={0}: expected a number of 1 or more")]
    Processors(String),
    #[error("quote: {}", no_order(.0))]
    Order(NoOrder),
}

impl From<NoOrder> for Problem {
    fn from(given: NoOrder) -> Problem {
        Problem::Order(given)
    }
}

impl verdict::Problem for Problem {
    fn category(&self) -> Category {
        Category::Request
    }
}

/// Nothing is known of a directory beside its jobs.
pub struct Directory;

impl FrontEnd for Directory {
    type Submission = Job;
    type Asked = ();
    type Problem = Problem;

    const LONGEST_ANSWER: usize = 8000;
    const PINS_ALL: bool = true;

    fn specification(
        &self,
        _book: &Book,
        job: &Job,
        question: bool,
        _now: f64,
    ) -> Result<JobSpecification<Directory>, Problem> {
        let wanted = &job.wanted;
        let mut terms = PartialTerms::default();
        for (key, value) in [
            ("estimate", &wanted.estimate),
            ("deadline", &wanted.deadline),
            ("budget", &wanted.budget),
        ] {
            if !value.is_empty() {
                terms.set(key, value, &deadline_as_duration)?;
            }
        }
        let has_budget = terms.budget.is_some();
        if question {
            terms.budget.get_or_insert(f64::INFINITY);
        }
        let processors = match wanted.processors.as_str() {
            "" => 1,
            count => match count.parse() {
                Ok(count @ 1..) => count,
                _ => return Err(Problem::Processors(count.to_string())),
            },
        };
        Ok(JobSpecification {
            request: Request {
                terms: terms.complete()?,
                shape: Shape {
                    processors_per_chunk: processors,
                    ..Shape::default()
                },
            },
            class_line: None,
            has_budget,
            array: None,
            deferred: None,
            account: Ok(OnAccount {
                user: job.user.clone(),
                project: None,
            }),
            domain: Domain {
                name: String::new(),
                nodes: Ok(None),
                limit: None,
            },
            alternatives: Vec::new(),
            conditions: Vec::new(),
            asked: (),
        })
    }

    fn order<'a>(&self, job: &'a Job) -> Option<&'a str> {
        job.quote.as_deref()
    }

    fn user(&self, job: &Job) -> String {
        job.user.clone()
    }

    fn pieces(_jobs: u32) -> Option<&'static str> {
        None
    }

    fn write_quote(number: &str) -> String {
        format!("quote={number}")
    }
}

/// How the page speaks of it.
pub static KIND: Kind = Kind {
    name: "spool",
    help: "A directory of jobs",
    says: "jobs go to a directory",
    queues: None,
    directive: Some("#SPOOL"),
    classes: &[],
    extras: &[],
    gpu_types: false,
    clock_deadlines: false,
    begins_at_home: false,
    judges_without_terms: true,
    is_here: || false,
    open: |site| Ok(Box::new(Spool::new(site, 1))),
};

/// The system: its server, its queue and its clients in one.
pub struct Spool {
    site: Site,
    admission: Mutex<AdmissionServer>,
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool")
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}

fn unix_time() -> f64 {
    libra_system::clock::unix_time()
}

impl Spool {
    /// Over the jobs that are in the directory `queue` of the site's, on nodes of one processor: what was committed is read from the jobs.
    pub fn new(site: Site, nodes: usize) -> Spool {
        fs::create_dir_all(site.state.join("queue")).expect("a directory");
        let config = Config::default();
        let book = Book::new(
            libra_rules::admission(&config),
            config.provisional_seconds(),
        );
        let mut admission = AdmissionServer::new(book, libra_rules::quote_limits(&config));
        let now = unix_time();
        admission.book.tokens_from((now * 1e6) as u64);
        let spool = Spool {
            site,
            admission: Mutex::new(admission),
        };
        let jobs = (spool.files().into_iter())
            .map(|path| spool.record(&path))
            .collect();
        let untaken = (spool.server().book).rebuild(&Snapshot {
            consumables: Vec::new(),
            version: SNAPSHOT_VERSION,
            now,
            nodes: (1..=nodes)
                .map(|number| NodeRecord {
                    name: format!("n{number}"),
                    processors: 1.0,
                    rating: 1.0,
                    memory: None,
                    consumables: Vec::new(),
                    available: true,
                    committed: 0.0,
                })
                .collect(),
            jobs,
        });
        assert_eq!(untaken.expect("its own records"), []);
        spool
    }

    fn server(&self) -> MutexGuard<'_, AdmissionServer> {
        self.admission
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.site.state.join("queue")).expect("its own directory");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    }

    fn commitment(path: &Path) -> Commitment {
        let line = fs::read_to_string(path).expect("its own file");
        Commitment::parse(line.trim()).expect("its own line")
    }

    fn record(&self, path: &Path) -> JobRecord {
        let commitment = Spool::commitment(path);
        JobRecord {
            id: Some(id_of(path)),
            token: commitment.token,
            request: commitment.request,
            margin: commitment.margin,
            price: commitment.price,
            submitted: commitment.submitted,
            phase: Phase::Running,
            starts_by: None,
            suspended: None,
            places: (commitment.places.iter())
                .map(|place| AllocationRecord {
                    node: place.node.clone(),
                    chunks: place.chunks,
                    share: place.share,
                    cput: 0.0,
                    committed_share: place.share,
                    delay: 0.0,
                })
                .collect(),
        }
    }

    /// What its server answers: the id and what was committed, or what is said instead.
    pub fn send(&self, job: &Job) -> Result<(String, Committed), String> {
        let now = unix_time();
        let mut server = self.server();
        let committed = match server.answer(&Directory, job, now) {
            Answer::Accepted(accepted) | Answer::Redeemed(accepted) => accepted.0,
            Answer::Answered { line, .. } => return Err(line),
            Answer::NotTaken(not) => return Err(not.lines(job).join("\n")),
        };
        let id = committed.commitment.token.to_string();
        let path = self.site.state.join("queue").join(&id);
        fs::write(path, committed.commitment.line()).expect("a file");
        let named = server.book.bind(committed.commitment.token, &id, now);
        named
            .and_then(|()| server.book.started(&id, now))
            .expect("it was just accepted");
        Ok((id, committed))
    }

    /// The answer to a question.
    pub fn ask(&self, wanted: &Submission, order: &str) -> Result<Quote, String> {
        let job = Job {
            user: "ann".to_string(),
            wanted: wanted.clone(),
            quote: Some(order.to_string()),
        };
        match self.send(&job) {
            Ok(_) => panic!("a question is never queued"),
            Err(line) => Quote::find(&line).ok_or(line),
        }
    }
}

fn id_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

impl System for Spool {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn quote(&self, wanted: &Submission) -> Result<Shown, PageProblem> {
        let quote = self.ask(wanted, "ask").map_err(PageProblem::new)?;
        Shown::from_json(&quote.json(KIND.name)).ok_or_else(|| PageProblem::new("no quote"))
    }

    fn submit(&self, wanted: &Submission) -> Result<Submitted, PageProblem> {
        let job = Job {
            user: "ann".to_string(),
            wanted: wanted.clone(),
            quote: None,
        };
        match self.send(&job) {
            Ok((id, _)) => Ok(Submitted::Accepted(id)),
            Err(said) => match self.quote(wanted) {
                Ok(quote) if !quote.accepted => Ok(Submitted::Refused(Box::new(quote))),
                _ => Err(PageProblem::new(said)),
            },
        }
    }

    fn jobs(&self) -> Result<Vec<JobSummary>, PageProblem> {
        let job = |path: &PathBuf| {
            let commitment = Spool::commitment(path);
            JobSummary {
                key: id_of(path),
                id: id_of(path),
                state: "running".to_string(),
                live: true,
                node: commitment.places[0].node.clone(),
                share: Some(commitment.share_on("")),
                price: Some(commitment.price),
                ..JobSummary::default()
            }
        };
        Ok(self.files().iter().map(job).collect())
    }

    fn job(&self, key: &str) -> Result<Option<Detail>, PageProblem> {
        let found = self.jobs()?.into_iter().find(|job| job.key == key);
        let detail = |job: JobSummary| {
            let commitment = Spool::commitment(&self.site.state.join("queue").join(key));
            Detail {
                job,
                said: words::accepted(&commitment, commitment.price, true),
                ..Detail::default()
            }
        };
        Ok(found.map(detail))
    }

    fn end(&self, ids: &[String]) -> Result<(), PageProblem> {
        for id in ids {
            fs::remove_file(self.site.state.join("queue").join(id))
                .map_err(|error| PageProblem::new(error.to_string()))?;
            let ended = self.server().book.ended(id, unix_time());
            ended.map_err(|error| PageProblem::new(libra_wording::errors::book(&error)))?;
        }
        Ok(())
    }

    fn cluster(&self) -> Result<Cluster, PageProblem> {
        let server = self.server();
        let node = |index: usize| {
            let name = server.book.node_name(index).to_string();
            Node {
                committed: server.book.committed(&name).unwrap_or(0.0),
                name,
                processors: server.book.processors(index),
                ..Node::default()
            }
        };
        Ok(Cluster {
            nodes: (0..server.book.node_count()).map(node).collect(),
            ..Cluster::default()
        })
    }
}
