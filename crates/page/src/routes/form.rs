//! The form: shown, asked what it would cost, submitted, kept as a template.

use super::{Answer, Words, get_word, html};
use crate::form::{self, Fields};
use crate::guard::{Word, redirect};
use crate::pages::submit::Said;
use crate::pages::{self, PageKind};
use crate::secret;
use crate::site::{Site, ask, begin_once, end_once};
use crate::system::quote::Quote;
use crate::system::submission::{Submission, Submitted};
use crate::system::{self, Problem, templates};
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::Markup;
use std::sync::Arc;

pub(super) async fn show_form(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let again = get_word(&words, "again").to_string();
    let template = get_word(&words, "template").to_string();
    // What is proposed on the page of a job that has ended.
    let estimate = get_word(&words, "estimate").to_string();
    let file = get_word(&words, "file").to_string();
    let directory = get_word(&words, "directory").to_string();
    let asked = ask(&site, move |site| match template.as_str() {
        "" if !file.is_empty() => {
            let chosen = system::files::script(site.system().site(), &file)?;
            Ok(Some(Submission {
                script: chosen.script,
                name: chosen.name,
                directory: chosen.directory,
                ..empty_form(site)
            }))
        }
        "" if !directory.is_empty() => {
            let listing = system::files::list(site.system().site(), &directory)?;
            Ok(Some(Submission {
                directory: listing.path.display().to_string(),
                ..empty_form(site)
            }))
        }
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
            if typed.class.is_empty() {
                typed.class = empty.class;
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
    let mut typed = typed.unwrap_or_else(|| empty_form(&site));
    if libra_units::duration::parse(&estimate).is_ok() {
        typed.estimate = estimate;
    }
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
        class: match (site.system.kind().directive, site.system.site()) {
            (None, of) if of.class_of(false) == of.class_of(true) => {
                of.class_of(false).word().to_string()
            }
            _ => String::new(),
        },
        ..Submission::default()
    }
}

/// A form as it is checked: a job of this host that names no class has the site's, and what that needs is asked for. What is handed on names none, so
/// that `libra` itself says which it is, and why.
fn with_class(site: &Site, typed: &Submission) -> Submission {
    let mut typed = typed.clone();
    if typed.class.is_empty() && site.system.kind().directive.is_none() {
        let several = typed.processors.parse().is_ok_and(|count: u32| count > 1);
        typed.class = site.system.site().class_of(several).word().to_string();
    }
    typed
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

pub(super) async fn send_form(
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
    let wanted = match form::checked(&with_class(&site, &typed), kind) {
        Ok(wanted) => Submission {
            class: typed.class.clone(),
            ..wanted
        },
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

pub(super) async fn quote_part(
    State(site): State<Arc<Site>>,
    Extension(fields): Extension<Fields>,
) -> Answer {
    Ok(html(match quote_of(&site, &form::typed(&fields)).await? {
        Said::Wrong(errors) => pages::wrong(&errors),
        Said::Beside(said) => said,
        Said::Nothing => Markup::default(),
    }))
}

/// What is said of a form.
async fn quote_of(site: &Arc<Site>, typed: &Submission) -> Result<Said, Problem> {
    let class = typed.class.clone();
    let typed = &with_class(site, typed);
    let wanted = match form::checked_terms(typed, site.system.kind()) {
        Ok(wanted) => Submission { class, ..wanted },
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
