//! The account and the cluster.

use super::{Answer, Words, get_word, html};
use crate::account::{self, neighbours};
use crate::guard::Word;
use crate::history::History;
use crate::pages::{self, PageKind};
use crate::site::{Site, ask, time_of_day};
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use std::sync::Arc;

pub(super) async fn account(
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
    let user = view.user.to_string();
    let read = ask(&site, move |site| {
        account::read(site.system.site(), &user, &asked)
    })
    .await?;
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

/// A statement as a file for spreadsheets.
pub(super) async fn account_csv(State(site): State<Arc<Site>>, words: Words) -> Answer {
    let account = get_word(&words, "account").to_string();
    let month = get_word(&words, "month").to_string();
    if neighbours(&month).is_none() {
        return Ok((StatusCode::BAD_REQUEST, "this is not a month").into_response());
    }
    let name: String = account
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(60)
        .collect();
    let file = format!("attachment; filename=\"{name}-{month}.csv\"");
    let text = ask(&site, move |site| {
        account::csv(site.system.site(), &account, &month)
    })
    .await?;
    Ok(match text {
        Ok(text) => {
            let head = [
                (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_string()),
                (header::CONTENT_DISPOSITION, file),
            ];
            (head, text).into_response()
        }
        Err(error) => {
            let page = pages::alone("No statement", &error.to_string());
            (StatusCode::NOT_FOUND, html(page)).into_response()
        }
    })
}

pub(super) async fn cluster(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
) -> Answer {
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

pub(super) async fn cluster_part(State(site): State<Arc<Site>>) -> Answer {
    let cluster = ask(&site, Site::cluster).await?;
    Ok(html(pages::cluster::part(&cluster)))
}
