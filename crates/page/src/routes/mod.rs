//! The addresses, and what each of them does: asks the system, makes a page of the answer.

mod files;
mod form;
mod job;
mod jobs;
mod others;
mod output;
pub mod overview;

use super::guard::{self, Guard, redirect};
use super::pages;
use super::site::Site;
use super::system::Problem;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use maud::Markup;
use std::sync::Arc;

/// A handler's end: a page, or what stopped it.
type Answer = Result<Response, Problem>;

/// All addresses, behind their guard.
pub fn router(site: Arc<Site>, guard: Arc<Guard>) -> Router {
    let pages = Router::new()
        .route("/submit", get(form::show_form).post(form::send_form))
        .route("/files", get(files::page))
        .route("/files-part", get(files::part))
        .route("/script-file", get(files::script))
        .route("/quote", post(form::quote_part))
        .route("/jobs", get(jobs::jobs))
        .route("/jobs-part", get(jobs::jobs_part))
        .route("/news", get(jobs::news))
        .route("/job", get(job::job))
        .route("/job-part", get(job::job_part))
        .route("/story-part", get(job::story_part))
        .route("/output", get(output::grown))
        .route("/read", get(output::read))
        .route("/download", get(output::download))
        .route("/cancel", post(jobs::cancel))
        .route("/account", get(others::account))
        .route("/account.csv", get(others::account_csv))
        .route("/cluster", get(others::cluster))
        .route("/cluster-part", get(others::cluster_part))
        .route("/script.js", get(script));
    within(common(pages).with_state(site), guard)
}

/// What all our pages load.
fn common<S: Clone + Send + Sync + 'static>(pages: Router<S>) -> Router<S> {
    pages
        .route("/icon.svg", get(icon))
        .route("/style.css", get(style))
}

/// Pages below their path, behind their guard.
fn within(pages: Router, guard: Arc<Guard>) -> Router {
    let first = guard.first();
    let below = match guard.prefix() {
        "" => pages.route("/", get(async move || redirect(first))),
        prefix => {
            let last = prefix.rsplit('/').next().unwrap_or_default();
            // Without its slash, what links are relative to is before its last part; cookies and links need it.
            let inside = format!("{last}/{first}");
            Router::new()
                .route(&format!("/{prefix}"), get(async move || redirect(&inside)))
                .route(&format!("/{prefix}/"), get(async move || redirect(first)))
                .nest(&format!("/{prefix}"), pages)
                // For who asks without the path.
                .route("/icon.svg", get(icon))
                .route("/style.css", get(style))
        }
    };
    Router::new()
        .merge(below)
        .fallback(nowhere)
        .layer(middleware::from_fn_with_state(guard, guard::check))
        // The guard has a limit of its own.
        .layer(DefaultBodyLimit::disable())
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

type Words = axum::extract::Query<Vec<(String, String)>>;

fn get_word<'a>(words: &'a Words, name: &str) -> &'a str {
    let found = words.0.iter().find(|(key, _)| key == name);
    found.map_or("", |(_, value)| value.as_str())
}

fn json(value: &serde_json::Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, value.to_string()).into_response()
}
