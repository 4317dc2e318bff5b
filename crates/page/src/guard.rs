//! Who may ask, and what leaves: everything passes here before a page is made, and after.
//!
//! - Host: a page of somebody else's, whose name was made to mean this machine (DNS rebinding), has another name in its Host.
//! - A token, used once, opens a session; its cookie is for scripts of nobody and for pages of this origin only.
//! - Every POST needs the session, an Origin that is this one, and the session's own word in the form.
//! - Bodies are read here, up to a size and for a time.
//! - Behind a proxy that has logged the user in there is neither token nor cookie: every request says whose it is ([`super::proxy`]).
//! - Headers: nothing is loaded from elsewhere, nothing runs that is not a file of ours, nothing is kept.
//!
//! The pages are below a path that is a secret of its own. Cookies do not know ports: a browser would show that of one
//! user's page to the page of another on the same machine, if the path did not differ.

use super::connections::Entered;
use super::form::Fields;
use super::pages;
use super::proxy::{Peer, Proxy};
use super::secret;
use axum::Form;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The largest body of a request, in bytes: a script, percent-encoded at the worst, and the rest of a form.
const LARGEST: usize = 4 << 20;
/// A larger one is read to its end up to here, so that the browser shows the answer.
const LARGEST_READ: usize = 32 << 20;
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Sessions at a time: a browser each.
const MOST_SESSIONS: usize = 16;

/// What may be loaded, run and addressed by a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

struct Session {
    /// What the cookie says.
    id: String,
    /// What forms say.
    word: String,
}

#[derive(Default)]
struct Open {
    /// The one that may be used next; None when it was.
    token: Option<String>,
    sessions: Vec<Session>,
    used: Option<Instant>,
}

/// How a browser shows whose it is.
#[derive(Debug)]
pub enum Entry {
    /// By a token, used once, and then by a cookie.
    Token,
    /// A proxy says so with every request.
    Proxy(Proxy),
}

/// What is known of who may ask.
pub struct Guard {
    entry: Entry,
    /// The page that whoever comes in is led to.
    first: &'static str,
    /// Names of this page, besides loopback's.
    hosts: Vec<String>,
    /// The path that all pages are below: a secret word, unless a proxy says who it is.
    prefix: String,
    /// What forms say behind a proxy: there is one user, and no cookie that tells browsers apart.
    word: Word,
    open: Mutex<Open>,
}

/// A session, as handlers see it: what forms have to say.
#[derive(Debug, Clone)]
pub struct Word(pub String);

impl Guard {
    /// A guard that lets nobody in yet. `hosts`: names that this page is reached by through a proxy. `base`: the path that all pages are below, without slashes
    /// around it. `first`: the page that whoever comes in is led to.
    pub fn new(hosts: Vec<String>, base: &str, entry: Entry, first: &'static str) -> Guard {
        let secret = match entry {
            Entry::Token => secret::word()[..16].to_string(),
            Entry::Proxy(_) => String::new(),
        };
        let parts = [base, &secret];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Guard {
            entry,
            first,
            hosts,
            prefix: parts.join("/"),
            word: Word(secret::word()),
            open: Mutex::new(Open::default()),
        }
    }

    /// The path that all pages are below, without slashes around it; empty where they are at the root.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A new token, in place of one that was not used; None if nobody needs one.
    pub fn token(&self) -> Option<String> {
        match self.entry {
            Entry::Token => {
                let token = secret::word();
                self.open().token = Some(token.clone());
                Some(token)
            }
            Entry::Proxy(_) => None,
        }
    }

    /// The page that whoever comes in is led to.
    pub fn first(&self) -> &'static str {
        self.first
    }

    /// When a person last did something; none since the start.
    pub fn last_use(&self) -> Option<Instant> {
        self.open().used
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session with the token; its cookie. None: it was another, or used before.
    fn enter(&self, given: &str) -> Option<String> {
        let mut open = self.open();
        let token = open.token.take()?;
        if !secret::same(&token, given) {
            // Still good: a wrong guess must not lock the user out.
            open.token = Some(token);
            return None;
        }
        if open.sessions.len() == MOST_SESSIONS {
            open.sessions.remove(0);
        }
        let (id, word) = (secret::word(), secret::word());
        let cookie = format!("{COOKIE}={id}; HttpOnly; SameSite=Strict");
        open.sessions.push(Session { id, word });
        open.used = Some(Instant::now());
        Some(cookie)
    }

    /// The word of the session that these headers are of.
    fn session(&self, headers: &HeaderMap, by_person: bool) -> Option<Word> {
        let mut open = self.open();
        let given = headers.get_all(header::COOKIE).iter();
        let given = given
            .filter_map(|value| value.to_str().ok())
            .flat_map(|v| v.split(';'));
        let mut found = None;
        for (name, value) in given.filter_map(|pair| pair.trim().split_once('=')) {
            for session in open.sessions.iter().filter(|_| name == COOKIE) {
                if secret::same(&session.id, value) {
                    found = Some(Word(session.word.clone()));
                }
            }
        }
        if found.is_some() && by_person {
            open.used = Some(Instant::now());
        }
        found
    }

    /// Returns true if this is one of the names of this page. Any port: a forwarded one has another number.
    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let Some(host) = only(headers, &header::HOST) else {
            return false;
        };
        let name = match host.strip_prefix("[::1]") {
            Some(rest) if rest.is_empty() || rest.starts_with(':') => return port_is_number(rest),
            _ => host.split(':').next().unwrap_or_default(),
        };
        // Whoever reaches the socket is the proxy, and which names are its own it knows itself.
        let any = matches!(self.entry, Entry::Proxy(_)) && self.hosts.is_empty();
        let known = ["127.0.0.1", "localhost"].into_iter();
        let known = known.chain(self.hosts.iter().map(String::as_str));
        let port = host.get(name.len()..).unwrap_or_default();
        port_is_number(port)
            && (any && !name.is_empty()
                || known
                    .into_iter()
                    .any(|known| known.eq_ignore_ascii_case(name)))
    }
}

/// Nothing, or a colon and digits.
fn port_is_number(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

const COOKIE: &str = "libra";

/// The one value of a header; None if it is missing or there twice.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Returns true if it was sent by a page of this origin. Browsers say so with every POST.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let (Some(origin), Some(host)) = (only(headers, &header::ORIGIN), only(headers, &header::HOST))
    else {
        return false;
    };
    let place = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    place.is_some_and(|place| place.eq_ignore_ascii_case(host))
}

/// Lets a request through, or answers it.
pub async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let answer = match pass(&guard, request).await {
        Ok(request) => next.run(request).await,
        Err(answer) => *answer,
    };
    with_headers(answer)
}

/// What goes on to the pages, or the answer in their place.
async fn pass(guard: &Guard, mut request: Request) -> Result<Request, Box<Response>> {
    let headers = request.headers();
    if !guard.is_own_host(headers) {
        return Err(no(
            StatusCode::FORBIDDEN,
            "Not by this name",
            "This page answers only to 127.0.0.1 and localhost, and to names given with --host. \
             Open the address that 'libra web' printed.",
        ));
    }
    let path = request.uri().path().trim_start_matches('/');
    let below = path.strip_prefix(guard.prefix()).unwrap_or_default();
    let below = match guard.prefix().is_empty() {
        true => path.to_string(),
        false => below.strip_prefix('/').unwrap_or_default().to_string(),
    };
    // No secret is in them, and the pages below have them too.
    let public = ["style.css", "icon.svg"];
    if public.contains(&below.as_str()) || public.contains(&path) {
        return Ok(request);
    }
    let word = match &guard.entry {
        Entry::Token => by_token(guard, &request, &below)?,
        Entry::Proxy(proxy) => {
            let peer = request.extensions().get::<Peer>().copied();
            proxy.ask_for(peer, request.headers()).await;
            if let Err((title, text)) = proxy.check(peer, request.headers()) {
                return Err(no(StatusCode::FORBIDDEN, title, &text));
            }
            if !is_by_itself(&request) {
                guard.open().used = Some(Instant::now());
            }
            guard.word.clone()
        }
    };
    entered(&request);
    match *request.method() {
        Method::GET | Method::HEAD => {}
        Method::POST => request = read_form(&word, request).await?,
        _ => {
            return Err(no(
                StatusCode::METHOD_NOT_ALLOWED,
                "Not so",
                "Pages are asked for with GET, and changed with POST.",
            ));
        }
    }
    request.extensions_mut().insert(word);
    Ok(request)
}

/// The session of a request; or the answer to one that opens a session, or has none.
fn by_token(guard: &Guard, request: &Request, below: &str) -> Result<Word, Box<Response>> {
    let given = request
        .uri()
        .query()
        .and_then(|query| query.strip_prefix("token="));
    if let (true, Some(token)) = (below.is_empty() && request.method() == Method::GET, given) {
        if let Some(cookie) = guard.enter(token) {
            entered(request);
            let mut answer = redirect(guard.first);
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                answer.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            return Err(Box::new(answer));
        }
    }
    let word = guard.session(request.headers(), !is_by_itself(request));
    word.ok_or_else(|| {
        no(
            StatusCode::FORBIDDEN,
            "No session",
            "This page is for who has started it. Open the address that 'libra web' printed: it opens one browser, once. \
             If it was used already, press Enter in the terminal in which 'libra web' runs, and it prints another; \
             or end it there with Ctrl-C and start it again. Jobs run on.",
        )
    })
}

/// Returns true if a page asks again by itself.
fn is_by_itself(request: &Request) -> bool {
    request.headers().contains_key("x-libra-refresh")
}

/// The connection by which this came is the user's.
fn entered(request: &Request) {
    if let Some(connection) = request.extensions().get::<Entered>() {
        connection.set();
    }
}

/// Checks a POST and reads its form, which goes with the request.
async fn read_form(word: &Word, request: Request) -> Result<Request, Box<Response>> {
    if !is_own_origin(request.headers()) {
        return Err(no(
            StatusCode::FORBIDDEN,
            "From another page",
            "This was sent by a page of another origin, or by something that does not say where it comes from. Nothing was done.",
        ));
    }
    let (mut parts, body) = request.into_parts();
    let length = parts.headers.get(header::CONTENT_LENGTH);
    let length = length
        .and_then(|l| l.to_str().ok())
        .and_then(|l| l.parse::<usize>().ok());
    let too_large = || {
        no(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Too large",
            "A script may have 1 MiB. Put data and programs into files of their own and name them in the script. Nothing was submitted.",
        )
    };
    if length.is_some_and(|length| length > LARGEST_READ) {
        return Err(too_large());
    }
    let bytes = match tokio::time::timeout(BODY_TIME, to_bytes(body, LARGEST_READ)).await {
        Err(_) => {
            return Err(no(
                StatusCode::REQUEST_TIMEOUT,
                "Too slow",
                "The form took longer than 30 s to arrive. Nothing was done; send it again.",
            ));
        }
        Ok(Err(_)) => return Err(too_large()),
        Ok(Ok(bytes)) if bytes.len() > LARGEST => return Err(too_large()),
        Ok(Ok(bytes)) => bytes,
    };
    let unreadable = || {
        no(
            StatusCode::BAD_REQUEST,
            "Unreadable",
            "This form cannot be read. Nothing was done.",
        )
    };
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let kind = kind
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default()
        .to_string();
    let again = Request::from_parts(parts.clone(), Body::from(bytes));
    let fields = if kind.starts_with("multipart/form-data") {
        multipart(again).await
    } else {
        urlencoded(again).await
    };
    let fields = fields.ok_or_else(unreadable)?;
    let given = fields.get("word").map_or("", String::as_str);
    if !secret::same(&word.0, given) {
        return Err(no(
            StatusCode::FORBIDDEN,
            "An old form",
            "This form was not made by this run of 'libra web'. Nothing was done. Go back, reload the page, and send it again.",
        ));
    }
    parts.extensions.insert(fields);
    Ok(Request::from_parts(parts, Body::empty()))
}

async fn urlencoded(request: Request) -> Option<Fields> {
    let Form(pairs) = Form::<Vec<(String, String)>>::from_request(request, &())
        .await
        .ok()?;
    Some(pairs.into_iter().collect())
}

async fn multipart(request: Request) -> Option<Fields> {
    let mut parts = Multipart::from_request(request, &()).await.ok()?;
    let mut fields = Fields::new();
    while let Some(part) = parts.next_field().await.ok()? {
        let name = part.name()?.to_string();
        let bytes = part.bytes().await.ok()?;
        // A script in another encoding is none that could be shown; its bytes are marked.
        let value = String::from_utf8(bytes.to_vec());
        fields.insert(name, value.unwrap_or_else(|_| "\0".to_string()));
    }
    Some(fields)
}

/// Sends the browser to another page beside this one.
pub fn redirect(to: &str) -> Response {
    let mut answer = StatusCode::SEE_OTHER.into_response();
    // Relative: a proxy may have put a path in front. What is not plain text goes to the jobs.
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("jobs"));
    answer.headers_mut().insert(header::LOCATION, to);
    answer
}

fn no(status: StatusCode, title: &str, text: &str) -> Box<Response> {
    Box::new((status, Html(pages::alone(title, text).into_string())).into_response())
}

fn with_headers(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Not "no-referrer", which would make the Origin of forms "null".
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().expect("a value"));
        }
        map
    }

    #[test]
    fn only_own_names_are_own() {
        let guard = Guard::new(
            vec!["portal.example".to_string()],
            "",
            Entry::Token,
            "submit",
        );
        for good in [
            "127.0.0.1:8000",
            "localhost",
            "LOCALHOST:1",
            "[::1]:80",
            "portal.example",
        ] {
            assert!(guard.is_own_host(&headers(&[("host", good)])), "{good}");
        }
        for bad in [
            "evil.example",
            "127.0.0.1.evil.example:80",
            "localhost:80@evil",
            "[::1].evil",
            "",
            "localhost:",
            "127.0.0.2",
        ] {
            assert!(!guard.is_own_host(&headers(&[("host", bad)])), "{bad}");
        }
        assert!(!guard.is_own_host(&headers(&[])));
        assert!(!guard.is_own_host(&headers(&[("host", "localhost"), ("host", "localhost")])));
    }

    #[test]
    fn an_origin_is_own_when_it_is_the_host() {
        let own =
            |origin| is_own_origin(&headers(&[("host", "localhost:8000"), ("origin", origin)]));
        assert!(own("http://localhost:8000"));
        assert!(own("https://localhost:8000"));
        for bad in [
            "null",
            "http://localhost:8001",
            "http://evil.example",
            "localhost:8000",
            "http://localhost:8000/",
        ] {
            assert!(!own(bad), "{bad}");
        }
        assert!(!is_own_origin(&headers(&[("host", "localhost:8000")])));
    }

    #[test]
    fn a_token_is_good_once_and_wrong_ones_change_nothing() {
        let guard = Guard::new(Vec::new(), "", Entry::Token, "submit");
        assert_eq!(guard.enter(""), None, "there is none yet");
        let token = guard.token().expect("a token");
        for wrong in ["", &token[1..], "0"] {
            assert_eq!(guard.enter(wrong), None);
        }
        let cookie = guard.enter(&token).expect("the right one");
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(guard.enter(&token), None, "used");
        let pair = cookie.split(';').next().expect("a pair");
        assert!(guard.session(&headers(&[("cookie", pair)]), true).is_some());
        let several = format!("a=b; {pair}; c");
        assert!(
            guard
                .session(&headers(&[("cookie", &several)]), true)
                .is_some()
        );
        assert!(
            guard
                .session(&headers(&[("cookie", "libra=0")]), true)
                .is_none()
        );
        assert!(guard.session(&headers(&[]), true).is_none());
    }
}
