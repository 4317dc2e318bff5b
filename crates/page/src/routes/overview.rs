//! The addresses of the whole site's page. None of them changes anything.

use super::{Words, common, get_word, html, within};
use crate::guard::Guard;
use crate::overview::{Find, Overview};
use crate::pages::overview::{self as pages, OverviewView};
use crate::site::time_of_day;
use crate::system::Problem;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use libra_system::clock;
use std::sync::Arc;

/// All addresses, behind their guard.
pub fn router(overview: Arc<Overview>, guard: Arc<Guard>) -> Router {
    let pages = Router::new()
        .route("/jobs", get(jobs))
        .route("/nodes", get(nodes))
        .route("/days", get(days));
    within(common(pages).with_state(overview), guard)
}

/// Runs something that may wait for a program on a thread for that.
async fn ask<T: Send + 'static>(
    overview: &Arc<Overview>,
    work: impl FnOnce(&Overview) -> T + Send + 'static,
) -> Result<T, Problem> {
    let overview = Arc::clone(overview);
    let done = tokio::task::spawn_blocking(move || work(&overview)).await;
    done.map_err(|_| Problem::new("this was not finished; try again"))
}

fn view<'a>(overview: &'a Overview, words: &Words) -> OverviewView<'a> {
    OverviewView {
        host: &overview.host,
        now: clock::unix_time(),
        reloads: get_word(words, "reloads") == "yes",
        time: time_of_day,
    }
}

async fn jobs(State(overview): State<Arc<Overview>>, words: Words) -> Result<Response, Problem> {
    let search = get_word(&words, "q").chars().filter(|c| !c.is_control());
    let find = Find {
        search: search.take(200).collect(),
        which: get_word(&words, "which").to_string(),
        page: get_word(&words, "page").parse().unwrap_or(0),
    };
    let status = ask(&overview, Overview::status).await?;
    let view = view(&overview, &words);
    let body = pages::jobs(&view, &status, &find);
    let page = find.page.to_string();
    let asked = [
        ("q", find.search.as_str()),
        ("which", &find.which),
        ("page", &page),
    ];
    Ok(html(pages::page(&view, "jobs", &asked, &body)))
}

async fn nodes(State(overview): State<Arc<Overview>>, words: Words) -> Result<Response, Problem> {
    let status = ask(&overview, Overview::status).await?;
    let view = view(&overview, &words);
    Ok(html(pages::page(
        &view,
        "nodes",
        &[],
        &pages::nodes(&status),
    )))
}

async fn days(State(overview): State<Arc<Overview>>, words: Words) -> Result<Response, Problem> {
    let kept = ask(&overview, Overview::days).await?;
    let view = view(&overview, &words);
    let body = pages::days(kept.as_deref());
    Ok(html(pages::page(&view, "days", &[], &body)))
}
