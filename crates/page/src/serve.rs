//! Listening, and ending: at SIGINT, SIGTERM or SIGHUP, or when nobody has used the page for a while.
//!
//! There are only so many connections at once, of which those that say nothing give way ([`super::connections`]): who is slow on purpose is in
//! nobody's way. One that the user has come in by is ended by an answer that says so, and not between two requests: a browser may be about to
//! send the next one just then, and whoever sent a form would see an error of the browser's in place of the answer.

use super::connections::{Connections, Entered};
use super::guard::{Entry, Guard};
use super::listener::{ListenAddress, Listener, Stream};
use super::overview::Overview;
use super::proxy::{Peer, Proxy};
use super::routes::{overview, router};
use super::site::Site;
use super::system::{Problem, System};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::signal::SigSet;
use std::convert::Infallible;
use std::fs;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};

/// So long a connection may wait for its next request, and the head of that may take. Browsers give up one that they do not use sooner: Chromium
/// after 300 s, Firefox after 115.
const KEPT_TIME: Duration = Duration::from_secs(330);
/// The first answer after this ends its connection.
const CONNECTION_TIME: Duration = Duration::from_secs(120);
/// A connection is ended when for so long no request has come by it and nothing of a file was taken. Longer than [`KEPT_TIME`]: what it ends is an
/// answer that nobody reads.
const STILL_TIME: Duration = Duration::from_secs(450);
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 32 << 10;
/// Requests that are under way at the end have so long.
const END_TIME: Duration = Duration::from_secs(5);

/// What the page is to be.
#[derive(Debug)]
pub struct Options {
    /// Where to listen.
    pub place: ListenAddress,
    /// What is shown.
    pub content: Content,
    /// Nobody uses it for so long: it ends.
    pub idle: Duration,
    /// Names that it is reached by through a proxy.
    pub hosts: Vec<String>,
    /// The path that all pages are below, without slashes around it; empty for none. A proxy that takes nothing away has it.
    pub base: String,
    /// Who logs users in; None if a token does.
    pub proxy: Option<Proxy>,
    /// What standard input is for.
    pub input: Input,
}

/// What is shown.
#[derive(Debug)]
pub enum Content {
    /// The jobs of the user.
    Own {
        /// Where jobs go.
        system: Box<dyn System>,
        /// The name of the user.
        user: String,
        /// The file that the site keeps its past in.
        history: Option<PathBuf>,
    },
    /// The whole site, to be read only.
    All(Overview),
}

/// What standard input is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// Enter prints a new address: it is a terminal.
    Enter,
    /// Its end ends the page: whoever started it has gone.
    End,
}

/// What is printed for the user: with which words, the caller knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It can be opened here, once. The address for a browser on this machine; of a socket, with a port to be chosen.
    Address(String),
    /// It listens for its proxy, which needs no token.
    Listens,
    /// It has ended, and why.
    Ended(&'static str),
}

/// Serves until it is ended.
///
/// # Errors
/// It cannot listen there.
pub fn serve(options: Options, tell: &dyn Fn(Told)) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::new(format!("no threads can be had: {error}")))?;
    let done = runtime.block_on(run(options, tell));
    // A program that is still asked something is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(200));
    done
}

async fn run(options: Options, tell: &dyn Fn(Told)) -> Result<(), Problem> {
    let others = |proxy: &Proxy| proxy.is_others(nix::unistd::geteuid().as_raw());
    let others = options.proxy.as_ref().is_some_and(others);
    let entry = options.proxy.map_or(Entry::Token, Entry::Proxy);
    let first = match &options.content {
        Content::Own { .. } => "submit",
        Content::All(_) => "jobs",
    };
    let guard = Arc::new(Guard::new(options.hosts, &options.base, entry, first));
    let listener = Listener::open(&options.place, others).await?;
    let base = match &listener {
        Listener::Tcp(tcp) => {
            let address = tcp.local_addr();
            let address = address.map_err(|error| Problem::new(error.to_string()))?;
            format!("http://{address}/{}/", guard.prefix())
        }
        Listener::Unix(..) => format!("http://localhost:8000/{}/", guard.prefix()),
    };
    let address = || match guard.token() {
        Some(token) => Told::Address(format!("{base}?token={token}")),
        None => Told::Listens,
    };
    let (routes, site) = match options.content {
        Content::Own {
            system,
            user,
            history,
        } => {
            let site = Arc::new(Site::new(system, user, history));
            (router(Arc::clone(&site), Arc::clone(&guard)), Some(site))
        }
        Content::All(all) => (overview::router(Arc::new(all), Arc::clone(&guard)), None),
    };
    let service = TowerToHyperService::new(routes);
    let mut interrupt = Stop::at(SignalKind::interrupt())?;
    let mut terminate = Stop::at(SignalKind::terminate())?;
    let mut hangup = Stop::at(SignalKind::hangup())?;
    let mut lines = read(options.input);
    let mut reads = options.input != Input::Nothing;
    tell(address());
    let began = Instant::now();
    let mut connections = Connections::default();
    let (ending, ended) = watch::channel(false);
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let why = loop {
        tokio::select! {
            (io, peer) = listener.accept() => {
                let (service, ended) = (service.clone(), ended.clone());
                connections.begin(|entered, leave| connection(io, peer, service, entered, leave, ended));
            }
            () = connections.ended() => {}
            () = interrupt.came() => break "interrupted",
            () = terminate.came() => break "terminated",
            () = hangup.came() => break "its terminal was closed",
            line = lines.recv(), if reads => match (options.input, line) {
                (Input::Enter, Some(())) => tell(address()),
                (Input::End, None) => break "standard input ended",
                (_, Some(())) => {}
                // No more of it is to come: the terminal is somebody else's.
                (_, None) => reads = false,
            },
            _ = tick.tick() => {
                if let Some(site) = &site {
                    site.system().tick();
                }
                if guard.last_use().unwrap_or(began).elapsed() > options.idle {
                    break "nobody used it";
                }
            }
        }
    };
    let _ = ending.send(true);
    let _ = tokio::time::timeout(END_TIME, connections.all_ended()).await;
    if let Some(site) = &site {
        site.end();
    }
    tell(Told::Ended(why));
    Ok(())
}

/// Lines of standard input, as they come; closed at its end.
fn read(input: Input) -> mpsc::Receiver<()> {
    let (send, lines) = mpsc::channel::<()>(1);
    if input != Input::Nothing {
        std::thread::spawn(move || {
            // In the background of a shell the terminal is somebody else's: without this, reading it stops the whole
            // program; with it, it fails.
            let mut signals = SigSet::empty();
            signals.add(nix::sys::signal::Signal::SIGTTIN);
            if signals.thread_block().is_err() {
                return;
            }
            for line in io::stdin().lock().lines() {
                if line.is_err() || send.blocking_send(()).is_err() {
                    return;
                }
            }
        });
    }
    lines
}

/// A signal that ends it; None if whoever started it has it ignored, as nohup does.
struct Stop(Option<Signal>);

impl Stop {
    fn at(kind: SignalKind) -> Result<Stop, Problem> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0);
        if ignored >> (kind.as_raw_value() - 1) & 1 == 1 {
            return Ok(Stop(None));
        }
        let signal = signal(kind).map_err(|error| Problem::new(error.to_string()))?;
        Ok(Stop(Some(signal)))
    }

    async fn came(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

/// Serves one connection to its end, for as long as `leave` does not resolve.
async fn connection(
    io: Box<dyn Stream>,
    peer: Option<Peer>,
    service: TowerToHyperService<axum::Router>,
    entered: Entered,
    leave: oneshot::Receiver<()>,
    mut ended: watch::Receiver<bool>,
) {
    let (shown, began) = (entered.clone(), tokio::time::Instant::now());
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        shown.moves();
        request.extensions_mut().insert(shown.clone());
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        let answer = service.call(request);
        async move {
            let mut answer = answer.await?;
            if began.elapsed() > CONNECTION_TIME {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(KEPT_TIME)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let done = tokio::select! {
        done = connection.as_mut() => Some(done),
        () = still(&entered, STILL_TIME) => return,
        _ = leave => match entered.is_set() {
            true => None,
            false => return,
        },
        _ = ended.changed() => None,
    };
    let done = match done {
        Some(done) => done,
        None => {
            // What is under way is answered first.
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                done = connection.as_mut() => done,
                () = still(&entered, CONNECTION_TIME) => return,
            }
        }
    };
    if let Err(error) = done {
        log::debug!("a connection broke off: {error}");
    }
}

/// Waits until for so long no request has come and nothing of a file was taken. A large file goes on for as long as it is.
async fn still(entered: &Entered, patience: Duration) {
    loop {
        let before = entered.moved();
        tokio::time::sleep(patience).await;
        if entered.moved() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    /// A connection to a page that says `here`, with the other side of what makes it give way.
    fn begun() -> (DuplexStream, oneshot::Sender<()>, watch::Sender<bool>) {
        let (browser, ours) = tokio::io::duplex(1 << 16);
        let (stays, leave) = oneshot::channel();
        let (ending, ended) = watch::channel(false);
        let routes = axum::Router::new().route("/", axum::routing::get(|| async { "here" }));
        let service = TowerToHyperService::new(routes);
        tokio::spawn(connection(
            Box::new(ours),
            None,
            service,
            Entered::default(),
            leave,
            ended,
        ));
        (browser, stays, ending)
    }

    /// Asks for the page, and reads until it has come.
    async fn asked(browser: &mut DuplexStream) -> String {
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        browser.write_all(request).await.expect("it is open");
        let mut answer = Vec::new();
        while !answer.ends_with(b"here") {
            let read = browser.read_buf(&mut answer).await.expect("it is open");
            assert_ne!(read, 0, "it was closed");
        }
        String::from_utf8(answer).expect("text")
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_a_connection_and_no_clock_does_while_browsers_keep_it() {
        let (mut browser, _stays, _ending) = begun();
        assert!(!asked(&mut browser).await.contains("connection: close"));
        // As long as Chromium keeps one that it does not use.
        tokio::time::sleep(Duration::from_secs(300)).await;
        let mut end = [0];
        let closed = tokio::time::timeout(Duration::from_millis(1), browser.read(&mut end));
        assert!(closed.await.is_err(), "it was closed between two requests");
        let answer = asked(&mut browser).await;
        assert!(answer.contains("connection: close"), "{answer}");
        assert_eq!(browser.read(&mut end).await.expect("its end"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_is_ended() {
        let (mut browser, _stays, _ending) = begun();
        let began = tokio::time::Instant::now();
        browser.write_all(b"GET / HT").await.expect("it is open");
        let mut rest = Vec::new();
        let _ = browser.read_to_end(&mut rest).await;
        assert!(began.elapsed() >= KEPT_TIME && began.elapsed() < STILL_TIME);
    }
}
