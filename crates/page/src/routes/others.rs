//! The account and the cluster.

use super::{Answer, Words, get_word, html};
use crate::account::{self, neighbours};
use crate::guard::Word;
use crate::history::History;
use crate::pages::{self, PageKind};
use crate::site::{Site, ask, time_of_day};
use axum::extract::{Extension, State};
use axum::http::StatusCode;
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
