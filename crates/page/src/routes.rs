//! The addresses, and what each of them does: asks the system, makes a page of the answer.
//!
//! What asks a program is done on threads for that, a few at a time: a batch system's server has other things to do. What is
//! asked for again and again is asked once for all open pages.

use super::account::{self, neighbours};
use super::address::InAddress;
use super::form::{self, Fields};
use super::guard::{self, Guard, Word, redirect};
use super::history::History;
use super::list::{self, Query};
use super::news::News;
use super::pages::jobs::{Known, Rendered};
use super::pages::submit::Said;
use super::pages::{self, PageKind, View};
use super::secret;
use super::system::quote::Quote;
use super::system::{
    self, Cluster, Detail, JobSummary, Problem, Submission, Submitted, System, output, templates,
};
use axum::extract::{DefaultBodyLimit, Extension, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use libra_system::clock;
use maud::Markup;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Programs at a time.
const AT_ONCE: usize = 4;

/// So long an answer about all jobs or all nodes is good.
const FRESH: Duration = Duration::from_millis(1500);

/// So old may be what is known of a job whose output is read on: that is asked for every second.
const OLD: Duration = Duration::from_secs(5);

/// Forms that are remembered as sent, so that one that is sent twice submits once.
const MOST_SENT: usize = 200;

/// Lists that browsers have, so that they are sent what is new to them: a page of 50 rows has some kilobytes.
const MOST_LISTS: usize = 32;

/// Something that was asked for, when, and the answer.
type Cached<T> = Mutex<Option<(Instant, Result<T, Problem>)>>;

/// What handlers share.
pub struct Site {
    system: Box<dyn System>,
    user: String,
    host: String,
    history: Option<PathBuf>,
    programs: Arc<Semaphore>,
    jobs: Cached<Vec<JobSummary>>,
    details: Mutex<BTreeMap<String, (Instant, Detail)>>,
    cluster: Cached<Cluster>,
    /// Forms by their own word, with the job they made; None while that is not known.
    sent: Mutex<VecDeque<(String, Option<String>)>>,
    /// Lists that were sent, the latest last.
    lists: Mutex<VecDeque<Known>>,
    news: Mutex<News>,
}

/// A handler's end: a page, or what stopped it.
type Answer = Result<Response, Problem>;

impl Site {
    /// `history`: the file that the site keeps its past in.
    pub fn new(system: Box<dyn System>, user: String, history: Option<PathBuf>) -> Site {
        Site {
            system,
            user,
            host: super::system::records::host(),
            history,
            programs: Arc::new(Semaphore::new(AT_ONCE)),
            jobs: Mutex::new(None),
            details: Mutex::new(BTreeMap::new()),
            cluster: Mutex::new(None),
            sent: Mutex::new(VecDeque::new()),
            lists: Mutex::new(VecDeque::new()),
            news: Mutex::new(News::default()),
        }
    }

    /// The system.
    pub fn system(&self) -> &dyn System {
        self.system.as_ref()
    }

    fn view<'a>(&'a self, word: &'a Word) -> View<'a> {
        View {
            kind: self.system.kind(),
            host: &self.host,
            user: &self.user,
            word: &word.0,
            now: clock::unix_time(),
            news: locked(&self.news).latest(),
            time: time_of_day,
        }
    }

    /// The jobs, at most [`FRESH`] old.
    fn jobs(&self) -> Result<Vec<JobSummary>, Problem> {
        cached(&self.jobs, || {
            let jobs = self.system.jobs();
            if let Ok(jobs) = &jobs {
                locked(&self.news).observe(jobs);
            }
            jobs
        })
    }

    /// The list that a browser has, by its version.
    fn list(&self, version: &str) -> Option<Known> {
        let lists = locked(&self.lists);
        lists.iter().find(|list| list.version == version).cloned()
    }

    /// Takes note of a list that is sent.
    fn sends(&self, list: Known) {
        let mut lists = locked(&self.lists);
        lists.retain(|known| known.version != list.version);
        if lists.len() == MOST_LISTS {
            lists.pop_front();
        }
        lists.push_back(list);
    }

    /// One of the user's jobs, as it was so long ago at most.
    fn job(&self, key: &str, age: Duration) -> Result<Option<Detail>, Problem> {
        let known = locked(&self.details).get(key).cloned();
        if let Some((at, detail)) = known {
            if at.elapsed() < age {
                return Ok(Some(detail));
            }
        }
        let found = self.system.job(key)?;
        let mut details = locked(&self.details);
        details.retain(|_, (at, _)| at.elapsed() < OLD);
        if let Some(detail) = &found {
            details.insert(key.to_string(), (Instant::now(), detail.clone()));
        }
        Ok(found)
    }

    fn cluster(&self) -> Result<Cluster, Problem> {
        cached(&self.cluster, || self.system.cluster())
    }

    /// Submits it; a refusal comes with the prices of other deadlines, where somebody knows them.
    fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem> {
        let mut done = self.system.submit(wanted);
        if let Ok(Submitted::Refused(quote)) = &mut done {
            if quote.curve.is_empty() && self.system.quotes() {
                let asked = self.system.quote(wanted);
                quote.curve = asked.map(|asked| asked.curve).unwrap_or_default();
            }
        }
        done
    }

    /// What is known of jobs and nodes is old: something was changed.
    fn changed(&self) {
        *locked(&self.jobs) = None;
        locked(&self.details).clear();
        *locked(&self.cluster) = None;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cached<T: Clone>(
    place: &Cached<T>,
    ask: impl FnOnce() -> Result<T, Problem>,
) -> Result<T, Problem> {
    // Held while it is asked: others wait for the same answer.
    let mut place = locked(place);
    if let Some((at, answer)) = &*place {
        if at.elapsed() < FRESH {
            return answer.clone();
        }
    }
    let answer = ask();
    *place = Some((Instant::now(), answer.clone()));
    answer
}

/// A time in the zone of this host.
fn time_of_day(at: f64) -> String {
    let time = Timestamp::from_second(at.clamp(0.0, 1e11) as i64).unwrap_or_default();
    let time = time.to_zoned(TimeZone::system());
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

/// All addresses, behind their guard.
pub fn router(site: Arc<Site>, guard: Arc<Guard>) -> Router {
    let pages = Router::new()
        .route("/", get(|| async { redirect("submit") }))
        .route("/submit", get(show_form).post(send_form))
        .route("/quote", post(quote_part))
        .route("/jobs", get(jobs))
        .route("/jobs-part", get(jobs_part))
        .route("/news", get(news))
        .route("/job", get(job))
        .route("/job-part", get(job_part))
        .route("/output", get(output_part))
        .route("/cancel", post(cancel))
        .route("/account", get(account))
        .route("/cluster", get(cluster))
        .route("/cluster-part", get(cluster_part))
        .route("/icon.svg", get(icon))
        .route("/style.css", get(style))
        .route("/script.js", get(script));
    let prefix = format!("/{}", guard.prefix());
    Router::new()
        .nest(&prefix, pages.clone())
        // With and without a slash: cookies and links are relative to what is before it.
        .route(&format!("{prefix}/"), get(|| async { redirect("submit") }))
        // For who asks without the path.
        .route("/icon.svg", get(icon))
        .route("/style.css", get(style))
        .fallback(nowhere)
        .layer(middleware::from_fn_with_state(guard, guard::check))
        // The guard has a limit of its own.
        .layer(DefaultBodyLimit::disable())
        .with_state(site)
}

/// Runs something that may wait for programs on a thread for that.
async fn ask<T: Send + 'static>(
    site: &Arc<Site>,
    work: impl FnOnce(&Site) -> T + Send + 'static,
) -> Result<T, Problem> {
    let gone = || Problem::new("this was not finished; try again");
    let permit = Arc::clone(&site.programs).acquire_owned().await;
    let permit = permit.map_err(|_| gone())?;
    let site = Arc::clone(site);
    // The work has the permit: it goes on where nobody waits for it any more.
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work(&site)
    })
    .await;
    done.map_err(|_| gone())
}

async fn nowhere() -> Response {
    let page = pages::alone("Nothing here", "There is no page of this name.");
    (StatusCode::NOT_FOUND, html(page)).into_response()
}

async fn style() -> Response {
    (
        [(header::CONTENT_TYPE, "text/css; charset=utf-8")],
        pages::stylesheet(),
    )
        .into_response()
}

async fn icon() -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], pages::ICON).into_response()
}

async fn script() -> Response {
    let kind = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (kind, pages::SCRIPT).into_response()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let page = pages::alone("It did not work", &self.to_string());
        (StatusCode::INTERNAL_SERVER_ERROR, html(page)).into_response()
    }
}

fn html(page: Markup) -> Response {
    Html(page.into_string()).into_response()
}

// ---- the form

type Words = axum::extract::Query<Vec<(String, String)>>;

fn get_word<'a>(words: &'a Words, name: &str) -> &'a str {
    let found = words.0.iter().find(|(key, _)| key == name);
    found.map_or("", |(_, value)| value.as_str())
}

async fn show_form(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let again = get_word(&words, "again").to_string();
    let template = get_word(&words, "template").to_string();
    let asked = ask(&site, move |site| match template.as_str() {
        "" => Ok(system::again(site.system(), &again)),
        // What a template does not say is as in an empty form.
        template => {
            let fields = templates::read(site.system().site(), template)?;
            let mut typed = form::typed(&fields);
            let empty = empty_form(site);
            if typed.directory.is_empty() {
                typed.directory = empty.directory;
            }
            if typed.processors.is_empty() {
                typed.processors = empty.processors;
            }
            Ok(Some(typed))
        }
    });
    let (typed, said, status) = match asked.await? {
        Ok(typed) => (typed, Said::Nothing, StatusCode::OK),
        Err(error) => {
            let error: Problem = error;
            let said = Said::Beside(pages::problem(&error.to_string()));
            (None, said, StatusCode::NOT_FOUND)
        }
    };
    let typed = typed.unwrap_or_else(|| empty_form(&site));
    Ok(form_page(&site, &word, &typed, &said, status))
}

/// A form in which nobody has typed anything.
fn empty_form(site: &Site) -> Submission {
    Submission {
        directory: site.system.site().home.display().to_string(),
        // A script of a batch system may say how many.
        processors: match site.system.kind().directive {
            None => "1".to_string(),
            Some(_) => String::new(),
        },
        ..Submission::default()
    }
}

fn form_page(
    site: &Site,
    word: &Word,
    typed: &Submission,
    said: &Said,
    status: StatusCode,
) -> Response {
    let view = site.view(word);
    let live = site.system.quotes();
    let templates = templates::all(site.system.site());
    let body = pages::submit::body(&view, typed, &secret::word(), said, live, &templates);
    let page = pages::page(&view, PageKind::Submit, "Submit a job", None, &body);
    (status, html(page)).into_response()
}

async fn send_form(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    Extension(fields): Extension<Fields>,
) -> Answer {
    let mut typed = form::typed(&fields);
    let kind = site.system.kind();
    let wrong = |typed: &Submission, said: Said| {
        let mut typed = typed.clone();
        // A file that is no text; what was typed is still there.
        if typed.script.contains('\0') {
            let script = fields.get("script").cloned().unwrap_or_default();
            typed.script = script.replace("\r\n", "\n");
        }
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Ok(form_page(&site, &word, &typed, &said, status))
    };
    let beside = |error: &Problem| Said::Beside(pages::problem(&error.to_string()));
    // Of an offer, or of what a price needs: an offer is submitted at once.
    for name in ["take", "fill"] {
        if let Some(offer) = fields.get(name) {
            if let Err(error) = form::take(&mut typed, offer) {
                return wrong(&typed, beside(&error));
            }
        }
    }
    if fields.get("do").is_some_and(|what| what == "keep") {
        let name = fields.get("template-name").map_or("", |name| name.trim());
        let kept = form::kept(&typed);
        return match templates::write(site.system.site(), name, &kept, &typed.script) {
            Ok(()) => {
                let file = templates::own(site.system.site()).join(name);
                let said = format!("Kept as the template {name}, in {}.", file.display());
                let said = Said::Beside(pages::note(&said));
                Ok(form_page(&site, &word, &typed, &said, StatusCode::OK))
            }
            Err(error) => wrong(&typed, beside(&error)),
        };
    }
    if fields.get("do").is_some_and(|what| what == "quote") || fields.contains_key("fill") {
        let said = quote_of(&site, &typed).await?;
        return Ok(form_page(&site, &word, &typed, &said, StatusCode::OK));
    }
    let wanted = match form::checked(&typed, kind) {
        Ok(wanted) => wanted,
        Err(errors) => return wrong(&typed, Said::Wrong(errors)),
    };
    let once = fields.get("once").cloned().unwrap_or_default();
    if let Some(before) = begin_once(&site, &once) {
        return Ok(match before {
            Some(key) => redirect(&format!("job?id={key}")),
            None => redirect("jobs"),
        });
    }
    // A browser that goes away does not stop it half-way.
    let work = tokio::spawn({
        let (site, once) = (Arc::clone(&site), once.clone());
        async move {
            let done = ask(&site, move |site| site.submit(&wanted)).await;
            let done = done.and_then(|done| done);
            end_once(&site, &once, &done);
            site.changed();
            done
        }
    });
    let done = work.await.map_err(|_| {
        Problem::new("the submission broke off; look under Jobs whether it is there")
    })?;
    match done {
        Ok(Submitted::Accepted(key)) => Ok(redirect(&format!("job?id={key}"))),
        Ok(Submitted::Refused(quote)) => {
            let said = pages::verdict::part(&quote, &typed, true);
            let said = Said::Beside(said);
            Ok(form_page(&site, &word, &typed, &said, StatusCode::OK))
        }
        Ok(Submitted::Unknown(said)) => {
            let view = site.view(&word);
            let body = pages::problem(&said);
            let page = pages::page(&view, PageKind::Jobs, "Perhaps submitted", None, &body);
            Ok((StatusCode::GATEWAY_TIMEOUT, html(page)).into_response())
        }
        Err(error) => wrong(&typed, beside(&error)),
    }
}

/// Takes note that a form is being submitted. Some: it was before, and became this job, if that is known.
fn begin_once(site: &Site, once: &str) -> Option<Option<String>> {
    let mut sent = locked(&site.sent);
    if let Some((_, key)) = sent
        .iter()
        .find(|(word, _)| word == once && !once.is_empty())
    {
        return Some(key.clone());
    }
    if sent.len() == MOST_SENT {
        sent.pop_front();
    }
    sent.push_back((once.to_string(), None));
    None
}

/// Takes note of what became of it: what was not accepted may be sent again.
fn end_once(site: &Site, once: &str, done: &Result<Submitted, Problem>) {
    let mut sent = locked(&site.sent);
    match done {
        Ok(Submitted::Accepted(key)) => {
            for (_, known) in sent.iter_mut().filter(|(word, _)| word == once) {
                *known = Some(key.clone());
            }
        }
        // Sent again, the form leads to the jobs.
        Ok(Submitted::Unknown(_)) => {}
        _ => sent.retain(|(word, _)| word != once),
    }
}

async fn quote_part(State(site): State<Arc<Site>>, Extension(fields): Extension<Fields>) -> Answer {
    Ok(html(match quote_of(&site, &form::typed(&fields)).await? {
        Said::Wrong(errors) => pages::wrong(&errors),
        Said::Beside(said) => said,
        Said::Nothing => Markup::default(),
    }))
}

/// What is said of a form.
async fn quote_of(site: &Arc<Site>, typed: &Submission) -> Result<Said, Problem> {
    let wanted = match form::checked_terms(typed, site.system.kind()) {
        Ok(wanted) => wanted,
        Err(errors) => return Ok(Said::Wrong(errors)),
    };
    if !site.system.kind().judges_without_terms && !wanted.says_terms() {
        return Ok(Said::Beside(pages::note(
            "Without an estimate, a deadline and a budget it is a job like any other: nothing is promised and nothing is charged.",
        )));
    }
    let quote: Result<Quote, Problem> = ask(site, move |site| site.system.quote(&wanted)).await?;
    Ok(Said::Beside(match quote {
        Ok(quote) => pages::verdict::part(&quote, typed, false),
        Err(error) => pages::problem(&error.to_string()),
    }))
}

// ---- jobs

async fn jobs(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let query = Query::of(|name| get_word(&words, name));
    let jobs = ask(&site, Site::jobs).await?;
    let view = site.view(&word);
    let rendered = Rendered::new(&view, &jobs, &query);
    site.sends(rendered.known());
    let body = pages::jobs::body(&view, &rendered, &query);
    let to = query.address("jobs");
    Ok(html(pages::page(
        &view,
        PageKind::Jobs,
        "Your jobs",
        (!query.still).then_some((5, to.as_str())),
        &body,
    )))
}

/// What is new to a browser that has the list of this version, as JSON; nothing, where nothing is.
async fn jobs_part(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let query = Query::of(|name| get_word(&words, name));
    let jobs = ask(&site, Site::jobs).await?;
    let rendered = Rendered::new(&site.view(&word), &jobs, &query);
    let old = site.list(get_word(&words, "version"));
    let new = rendered.known();
    let is_same = old.as_ref().is_some_and(|old| old.version == new.version);
    let news = locked(&site.news).after(get_word(&words, "news").parse().unwrap_or(u64::MAX));
    if is_same && news.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    site.sends(new);
    let mut changes = rendered.changes(old.as_ref());
    if !news.is_empty() {
        changes.insert("news".to_string(), serde_json::json!(news));
    }
    Ok(json(&changes.into()))
}

/// What has happened to the user's jobs after the news of this number, as JSON.
async fn news(State(site): State<Arc<Site>>, words: Words) -> Answer {
    let after = get_word(&words, "after").parse().unwrap_or(u64::MAX);
    // What cannot be asked for is said by pages that somebody looks at.
    let _ = ask(&site, Site::jobs).await?;
    let news = locked(&site.news).after(after);
    Ok(match news.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => json(&serde_json::json!(news)),
    })
}

fn json(value: &serde_json::Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, value.to_string()).into_response()
}

async fn job(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let key = get_word(&words, "id").to_string();
    let found = ask(&site, move |site| {
        // What is not asked for again and again, such as the heading, is never older than the list that led here.
        let detail = site.job(&key, Duration::ZERO)?;
        let output = detail
            .as_ref()
            .and_then(|d| d.output.as_deref())
            .map(|file| output::read(file, None));
        Ok((detail, output))
    });
    let (detail, output) = found.await??;
    let view = site.view(&word);
    let Some(detail) = detail else {
        let page = pages::page(
            &view,
            PageKind::Job,
            "No such job",
            None,
            &pages::job::gone(),
        );
        return Ok((StatusCode::NOT_FOUND, html(page)).into_response());
    };
    let name = match detail.job.name.as_str() {
        "" => "Job",
        name => name,
    };
    let title = format!("{name} ({})", detail.job.id);
    let body = pages::job::body(&view, &detail, output.as_ref());
    let to = format!("job?id={}", InAddress(&detail.job.key));
    let reload = detail.job.live.then_some((5, to.as_str()));
    Ok(html(pages::page(
        &view,
        PageKind::Job,
        &title,
        reload,
        &body,
    )))
}

async fn job_part(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let key = get_word(&words, "id").to_string();
    let detail = ask(&site, move |site| site.job(&key, FRESH)).await??;
    Ok(html(match detail {
        Some(detail) => pages::job::part(&site.view(&word), &detail),
        None => pages::job::gone(),
    }))
}

/// The output from an offset on, as JSON.
async fn output_part(State(site): State<Arc<Site>>, words: Words) -> Answer {
    let key = get_word(&words, "id").to_string();
    let from = get_word(&words, "from").parse().unwrap_or(0);
    let part = ask(&site, move |site| {
        let Some(detail) = site.job(&key, OLD)? else {
            return Err(Problem::new("there is no such job of yours"));
        };
        let Some(file) = detail.output else {
            return Err(Problem::new(detail.no_output));
        };
        // Asked before it is read: of one that has ended, all is there.
        Ok((detail.job.live, output::read(&file, Some(from))?))
    });
    let json = match part.await? {
        Ok((live, part)) => serde_json::json!({
            "text": part.text, "next": part.next, "again": part.again,
            "more": live || part.text.len() as u64 >= output::MOST / 2,
        }),
        Err(error) => serde_json::json!({"problem": error.to_string(), "more": false}),
    };
    Ok(self::json(&json))
}

/// Ends jobs: a form that does not say that somebody is sure is answered with a question.
async fn cancel(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    Extension(fields): Extension<Fields>,
) -> Answer {
    let query = Query::of(|name| fields.get(name).map_or("", String::as_str));
    let back = query.address("jobs");
    let sure = fields.get("sure").is_some_and(|sure| sure == "yes");
    let asked = query.clone();
    let done = ask(&site, move |site| {
        if !sure {
            return chosen(site, &fields, &asked);
        }
        let keys = fields.keys().filter_map(|name| name.strip_prefix("job."));
        let keys: Vec<String> = keys.map(str::to_string).collect();
        let done = system::cancel(site.system(), &keys);
        site.changed();
        done.map(|()| Vec::new())
    });
    let done = done.await?;
    let view = site.view(&word);
    let (status, title, body) = match done {
        Ok(_) if sure => return Ok(redirect(&back)),
        Ok(jobs) => {
            let jobs: Vec<&JobSummary> = jobs.iter().collect();
            let title = match jobs.len() {
                1 => "Cancel the job?".to_string(),
                count => format!("Cancel {count} jobs?"),
            };
            let body = pages::jobs::confirm(&view, &jobs, &query);
            (StatusCode::OK, title, body)
        }
        Err(error) => {
            let body = pages::problem(&error.to_string());
            (StatusCode::CONFLICT, "Not cancelled".to_string(), body)
        }
    };
    let page = pages::page(&view, PageKind::Jobs, &title, None, &body);
    Ok((status, html(page)).into_response())
}

/// The jobs that a form names, by themselves (`job.KEY`), by their groups (`group.KEY`), or as all that `query` shows.
fn chosen(site: &Site, fields: &Fields, query: &Query) -> Result<Vec<JobSummary>, Problem> {
    let jobs = site.jobs()?;
    let named = |job: &JobSummary| fields.contains_key(&format!("job.{}", job.key));
    let all = fields.get("do").is_some_and(|what| what == "all");
    let groups = fields.keys().any(|name| name.starts_with("group."));
    let mut chosen: Vec<JobSummary> = Vec::new();
    if all || groups {
        let is = |job: &&&JobSummary| {
            let group = || format!("group.{}", list::group_of(job));
            job.live && (all || named(job) || fields.contains_key(&group()))
        };
        chosen.extend(
            list::wanted(&jobs, query)
                .iter()
                .filter(is)
                .map(|job| (*job).clone()),
        );
    } else {
        for key in fields.keys().filter_map(|name| name.strip_prefix("job.")) {
            let found = jobs.iter().find(|job| job.key == key).cloned();
            // An array is not on the list by the key of its record once its parts have begun.
            let found = match found {
                None => site.job(key, FRESH)?.map(|detail| detail.job),
                found => found,
            };
            chosen.push(found.ok_or_else(|| Problem::new("there is no such job of yours"))?);
        }
        if let [job] = &chosen[..] {
            if !job.live {
                return Err(Problem::new(format!("job {} has ended already", job.id)));
            }
        }
        chosen.retain(|job| job.live);
    }
    match chosen.is_empty() {
        true => Err(Problem::new(
            "no job was chosen that has not ended; tick the boxes of those that are to end",
        )),
        false => Ok(chosen),
    }
}

// ---- the account and the cluster

async fn account(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let view = site.view(&word);
    let this = time_of_day(view.now)[..7].to_string();
    let month = match get_word(&words, "month") {
        "" => this.clone(),
        month => month.to_string(),
    };
    let Some((earlier, later)) = neighbours(&month) else {
        let body = pages::problem("This is not a month; expected one such as 2026-11.");
        let page = pages::page(&view, PageKind::Account, "Account", None, &body);
        return Ok((StatusCode::BAD_REQUEST, html(page)).into_response());
    };
    let asked = month.clone();
    let read = ask(&site, move |site| account::read(site.system.site(), &asked)).await?;
    let later = Some(later.as_str()).filter(|later| *later <= this.as_str());
    let body = pages::account::body(&view, &read, &month, &earlier, later);
    Ok(html(pages::page(
        &view,
        PageKind::Account,
        "Account",
        None,
        &body,
    )))
}

async fn cluster(State(site): State<Arc<Site>>, Extension(word): Extension<Word>) -> Answer {
    let (cluster, history) = ask(&site, |site| {
        let history = site.history.as_deref().and_then(History::read);
        (site.cluster(), history)
    })
    .await?;
    let view = site.view(&word);
    let body = pages::cluster::body(&view, &cluster, history.as_ref());
    Ok(html(pages::page(
        &view,
        PageKind::Cluster,
        "Cluster",
        Some((30, "cluster")),
        &body,
    )))
}

async fn cluster_part(State(site): State<Arc<Site>>) -> Answer {
    let cluster = ask(&site, Site::cluster).await?;
    Ok(html(pages::cluster::part(&cluster)))
}
