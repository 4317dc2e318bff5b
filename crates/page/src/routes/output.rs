//! What a job has printed: its end as it grows, any part of it, what is searched for in it, and all of it as a file.

use super::{Answer, Words, get_word, html, json};
use crate::connections::Entered;
use crate::guard::Word;
use crate::pages::{self, PageKind};
use crate::site::{OLD, Site, ask};
use crate::system::job::Detail;
use crate::system::output::{self, Position};
use crate::system::{Problem, search};
use crate::terminal::Style;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use maud::Markup;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// So much of a file is read ahead of a browser, in parts of [`PART`] bytes.
const AHEAD: usize = 4;
const PART: usize = 64 << 10;

/// One of the user's jobs, and where its output is.
fn of_job(site: &Site, key: &str) -> Result<(Detail, PathBuf), Problem> {
    let Some(mut detail) = site.job(key, OLD)? else {
        return Err(Problem::new("there is no such job of yours"));
    };
    match detail.output.take() {
        Some(file) => Ok((detail, file)),
        None => Err(Problem::new(detail.no_output)),
    }
}

/// From an offset on, as JSON: whole lines in HTML, the last one as far as it is there, and where to go on with which style.
pub(super) async fn grown(State(site): State<Arc<Site>>, words: Words) -> Answer {
    let key = get_word(&words, "id").to_string();
    let from = get_word(&words, "from").parse().unwrap_or(0);
    let mut style = Style::of(get_word(&words, "style"));
    let part = ask(&site, move |site| {
        let (detail, file) = of_job(site, &key)?;
        // Asked before it is read: of one that has ended, all is there.
        Ok((detail.job.live, output::read(&file, Position::At(from))?))
    });
    let answer: Result<_, Problem> = part.await?;
    Ok(json(&match answer {
        Ok((live, part)) => {
            if part.again {
                style = Style::default();
            }
            let lines = pages::output::shown(&part.text, &mut style).into_string();
            let code = style.to_string();
            let last = pages::output::shown(&part.rest, &mut style).into_string();
            serde_json::json!({
                "html": lines, "last": last, "next": part.next, "style": code, "again": part.again,
                "more": live || part.end < part.size,
            })
        }
        Err(error) => serde_json::json!({"problem": error.to_string(), "more": false}),
    }))
}

/// Any part of it, or what is searched for in it.
pub(super) async fn read(
    State(site): State<Arc<Site>>,
    Extension(word): Extension<Word>,
    words: Words,
) -> Answer {
    let key = get_word(&words, "id").to_string();
    let number = |name: &str| get_word(&words, name).parse::<u64>().ok();
    let (at, before, lines) = (number("at").unwrap_or(0), number("before"), number("lines"));
    let wanted: String = get_word(&words, "q")
        .chars()
        .filter(|c| !c.is_control())
        .take(pages::output::LONGEST_SEARCH)
        .collect();
    let found = ask(&site, move |site| {
        let (detail, file) = of_job(site, &key)?;
        let part = part(&detail, &file, &wanted, at, before, lines.unwrap_or(0));
        let (status, body) = match part {
            Ok(body) => (StatusCode::OK, body),
            Err(error) => (
                StatusCode::CONFLICT,
                pages::output::none(&detail, &error.to_string()),
            ),
        };
        Ok((detail, status, body))
    });
    let view = site.view(&word);
    let (status, title, body) = match found.await? {
        Ok((detail, status, body)) => (
            status,
            format!("Output of {}", pages::job::title(&detail.job)),
            body,
        ),
        Err(error) => {
            let error: Problem = error;
            let body = pages::problem(&error.to_string());
            (StatusCode::NOT_FOUND, "No output".to_string(), body)
        }
    };
    let page = pages::page(&view, PageKind::Job, &title, None, &body);
    Ok((status, html(page)).into_response())
}

fn part(
    detail: &Detail,
    file: &Path,
    wanted: &str,
    at: u64,
    before: Option<u64>,
    lines: u64,
) -> Result<Markup, Problem> {
    if !wanted.is_empty() {
        let found = search::search(file, wanted, at, lines, &search::LIMITS)?;
        return Ok(pages::output::found(detail, wanted, at, &found));
    }
    let position = before.map_or(Position::At(at), Position::Before);
    Ok(pages::output::part(detail, &output::read(file, position)?))
}

/// All of it, as it is, as a file to be kept.
pub(super) async fn download(
    State(site): State<Arc<Site>>,
    Extension(entered): Extension<Entered>,
    words: Words,
) -> Answer {
    let key = get_word(&words, "id").to_string();
    let opened = ask(&site, move |site| {
        let (detail, path) = of_job(site, &key)?;
        match output::open(&path)? {
            Some((file, size)) => Ok((detail, file, size)),
            None => Err(Problem::new("it has printed nothing yet")),
        }
    });
    let (detail, file, size) = match opened.await? {
        Ok(opened) => opened,
        Err(error) => {
            let error: Problem = error;
            let page = pages::alone("No output", &error.to_string());
            return Ok((StatusCode::NOT_FOUND, html(page)).into_response());
        }
    };
    let Ok(permit) = Arc::clone(&site.downloads).try_acquire_owned() else {
        let text = "As many files as are sent at a time are under way; try again when one of them is there.";
        let page = pages::alone("Later", text);
        return Ok((StatusCode::SERVICE_UNAVAILABLE, html(page)).into_response());
    };
    let name = file_name(&detail.job.name, &detail.job.id);
    let head = [
        (header::CONTENT_TYPE, "application/octet-stream".to_string()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
        (header::CONTENT_LENGTH, size.to_string()),
    ];
    let body = Body::new(Download::begin(file, size, entered, permit));
    Ok((head, body).into_response())
}

/// What a download is called: never a path, nor hidden, nor anything that a header or a shell reads otherwise.
fn file_name(name: &str, id: &str) -> String {
    let plain = |text: &str| -> String {
        let kept = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let text: String = text
            .chars()
            .map(|c| if kept(c) { c } else { '_' })
            .take(60)
            .collect();
        text.trim_start_matches(['.', '-']).to_string()
    };
    let parts = [plain(name), plain(id)];
    let parts: Vec<&str> = parts
        .iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    match &parts[..] {
        [] => "output.txt".to_string(),
        parts => format!("{}.txt", parts.join("-")),
    }
}

/// A file on its way, as large as it was when it was opened.
struct Download {
    parts: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
    /// Its connection lasts for as long as something of it is taken.
    entered: Entered,
    _permit: OwnedSemaphorePermit,
}

impl Download {
    fn begin(file: File, size: u64, entered: Entered, permit: OwnedSemaphorePermit) -> Download {
        let (send, parts) = mpsc::channel(AHEAD);
        // Waits for the browser, and ends with it.
        tokio::task::spawn_blocking(move || {
            let mut left = size;
            let mut file = file.take(size);
            while left > 0 {
                let mut part = vec![0; PART];
                let read = match file.read(&mut part) {
                    // It was cut: said by breaking off, lest half of it passes for all.
                    Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    read => read,
                };
                let read = read.map(|count| {
                    part.truncate(count);
                    left -= count as u64;
                    Bytes::from(part)
                });
                let failed = read.is_err();
                if send.blocking_send(read).is_err() || failed {
                    return;
                }
            }
        });
        Download {
            parts,
            left: size,
            entered,
            _permit: permit,
        }
    }
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.parts.poll_recv(context).map(|part| {
            let part = part?.map(|part| {
                self.left = self.left.saturating_sub(part.len() as u64);
                self.entered.moves();
                Frame::data(part)
            });
            Some(part)
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_has_a_plain_name() {
        for (name, id, is) in [
            ("fit", "12.server", "fit-12.server.txt"),
            (
                "../../etc/passwd",
                "7_[1-3%2]",
                "_.._etc_passwd-7__1-3_2_.txt",
            ),
            ("-rf", ".x", "rf-x.txt"),
            ("a\"\r\nb", "", "a___b.txt"),
            ("", "", "output.txt"),
            ("\u{202e}gr\u{fc}n", "1", "_gr_n-1.txt"),
        ] {
            assert_eq!(file_name(name, id), is);
        }
        assert!(file_name(&"x".repeat(1000), "1").len() < 80);
    }
}
