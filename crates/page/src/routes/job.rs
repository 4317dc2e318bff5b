//! One job.

use super::{Answer, Words, get_word, html};
use crate::address::InAddress;
use crate::guard::Word;
use crate::pages::{self, PageKind};
use crate::site::{FRESH, OLD, Site, ask};
use crate::system::Problem;
use crate::system::output::{self, Position};
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn job(
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
            .map(|file| output::read(file, Position::End));
        let told = detail.as_ref().map(|detail| site.told(detail));
        let profile = detail.as_ref().and_then(|detail| site.profile(&detail.job));
        Ok((detail.zip(told), output, profile))
    });
    let (detail, output, profile) = found.await??;
    let view = site.view(&word);
    let Some((detail, told)) = detail else {
        let page = pages::page(
            &view,
            PageKind::Job,
            "No such job",
            None,
            &pages::job::gone(),
        );
        return Ok((StatusCode::NOT_FOUND, html(page)).into_response());
    };
    let title = pages::job::title(&detail.job);
    let body = pages::job::body(&view, &detail, output.as_ref(), profile.as_ref(), &told);
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

pub(super) async fn job_part(
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

/// Its share and its progress over time, and what is told of it at its end.
pub(super) async fn story_part(State(site): State<Arc<Site>>, words: Words) -> Answer {
    let key = get_word(&words, "id").to_string();
    let found = ask(&site, move |site| {
        let Some(detail) = site.job(&key, OLD)? else {
            return Ok(None);
        };
        let (told, profile) = (site.told(&detail), site.profile(&detail.job));
        Ok::<_, Problem>(Some((detail, told, profile)))
    });
    Ok(html(match found.await?? {
        Some((detail, told, profile)) => pages::job::story_part(&detail, profile.as_ref(), &told),
        None => pages::job::gone(),
    }))
}
