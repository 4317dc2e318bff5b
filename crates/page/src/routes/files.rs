//! The user's files, to choose a script of.

use super::{Answer, Words, get_word, html};
use crate::guard::Word;
use crate::pages::{self, PageKind};
use crate::site::{Site, ask};
use crate::system::files;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use maud::Markup;
use serde_json::json;
use std::sync::Arc;

async fn listed(site: &Arc<Site>, words: &Words) -> Result<(StatusCode, Markup), super::Problem> {
    let path = get_word(words, "in").to_string();
    let found = ask(site, move |site| files::list(site.system().site(), &path)).await?;
    Ok(match found {
        Ok(listing) => (StatusCode::OK, pages::files::body(&listing)),
        Err(error) => (StatusCode::NOT_FOUND, pages::problem(&error.to_string())),
    })
}

pub(super) async fn page(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let (status, body) = listed(&site, &words).await?;
    let view = site.view(&word);
    let page = pages::page(&view, PageKind::Submit, "A file of yours", None, &body);
    Ok((status, html(page)).into_response())
}

/// For the form, which shows it beside what is typed.
pub(super) async fn part(State(site): State<Arc<Site>>, words: Words) -> Answer {
    let (_, body) = listed(&site, &words).await?;
    Ok(html(body))
}

/// The fields that a file fills in, or why it cannot.
pub(super) async fn script(State(site): State<Arc<Site>>, words: Words) -> Answer {
    let path = get_word(&words, "file").to_string();
    let found = ask(&site, move |site| {
        files::script(site.system().site(), &path)
    })
    .await?;
    Ok(super::json(&match found {
        Ok(found) => {
            json!({"script": found.script, "name": found.name, "directory": found.directory})
        }
        Err(error) => json!({"problem": error.to_string()}),
    }))
}
