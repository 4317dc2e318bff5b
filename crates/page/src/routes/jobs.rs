//! The list of jobs, what is new on it, and ending jobs.

use super::{Answer, Words, get_word, html, json};
use crate::form::Fields;
use crate::guard::{Word, redirect};
use crate::list::{self, Query};
use crate::pages::jobs::Rendered;
use crate::pages::{self, PageKind};
use crate::site::{FRESH, Site, ask, locked};
use crate::system::job::JobSummary;
use crate::system::{self, Problem};
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use std::sync::Arc;

pub(super) async fn jobs(
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
pub(super) async fn jobs_part(
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
pub(super) async fn news(State(site): State<Arc<Site>>, words: Words) -> Answer {
    let after = get_word(&words, "after").parse().unwrap_or(u64::MAX);
    // What cannot be asked for is said by pages that somebody looks at.
    let _ = ask(&site, Site::jobs).await?;
    let news = locked(&site.news).after(after);
    Ok(match news.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => json(&serde_json::json!(news)),
    })
}

/// Ends jobs: a form that does not say that somebody is sure is answered with a question.
pub(super) async fn cancel(
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
