//! Listening, and ending: at SIGINT, SIGTERM or SIGHUP, or when nobody has used the page for a while.
//!
//! A connection has little time for its request and a bounded life, and there are only so many at once, of which those that say nothing give
//! way ([`super::connections`]): who is slow on purpose is in nobody's way.

use super::connections::{Connections, Entered};
use super::guard::Guard;
use super::routes::{Site, router};
use super::system::{Problem, System};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};
use std::fs;
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

/// The longest that the head of a request may take, and that a connection may wait for the next one.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// A connection is asked to end after this, and is ended after as much again.
const CONNECTION_TIME: Duration = Duration::from_secs(120);
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 32 << 10;
/// Requests that are under way at the end have so long.
const END_TIME: Duration = Duration::from_secs(5);

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A loopback address; port 0 is any that is free.
    Address(SocketAddr),
    /// A socket in the file system, for its owner alone.
    Socket(PathBuf),
}

/// What the page is to be.
#[derive(Debug)]
pub struct Options {
    /// Where to listen.
    pub place: ListenAddress,
    /// Where jobs go.
    pub system: Box<dyn System>,
    /// Nobody uses it for so long: it ends.
    pub idle: Duration,
    /// Names that it is reached by through a proxy.
    pub hosts: Vec<String>,
    /// The name of the user.
    pub user: String,
    /// The file that the site keeps its past in.
    pub history: Option<PathBuf>,
    /// Enter in the terminal prints a new address.
    pub terminal: bool,
}

/// What is printed for the user: with which words, the caller knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It can be opened here, once. The address for a browser on this machine; of a socket, with a port to be chosen.
    Address(String),
    /// It has ended, and why.
    Ended(&'static str),
}

enum Listener {
    Tcp(TcpListener),
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "it removes the socket when it is dropped")] Remove,
    ),
}

/// Removes the socket at the end.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
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
    let site = Arc::new(Site::new(options.system, options.user, options.history));
    let guard = Arc::new(Guard::new(options.hosts));
    let listener = listen(&options.place).await?;
    let base = match &listener {
        Listener::Tcp(tcp) => {
            let address = tcp.local_addr();
            let address = address.map_err(|error| Problem::new(error.to_string()))?;
            format!("http://{address}/{}/", guard.prefix())
        }
        Listener::Unix(..) => format!("http://localhost:8000/{}/", guard.prefix()),
    };
    let address = || Told::Address(format!("{base}?token={}", guard.token()));
    let service = TowerToHyperService::new(router(Arc::clone(&site), Arc::clone(&guard)));
    let mut interrupt = Stop::at(SignalKind::interrupt())?;
    let mut terminate = Stop::at(SignalKind::terminate())?;
    let mut hangup = Stop::at(SignalKind::hangup())?;
    let (pressed, mut enter) = tokio::sync::mpsc::channel::<()>(1);
    if options.terminal {
        std::thread::spawn(move || {
            // In the background of a shell the terminal is somebody else's: without this, reading it stops the whole
            // program; with it, it fails.
            let mut signals = SigSet::empty();
            signals.add(nix::sys::signal::Signal::SIGTTIN);
            if signals.thread_block().is_err() {
                return;
            }
            for line in io::stdin().lock().lines() {
                if line.is_err() || pressed.blocking_send(()).is_err() {
                    return;
                }
            }
        });
    }
    tell(address());
    let began = Instant::now();
    let mut connections = Connections::default();
    let (ending, ended) = watch::channel(false);
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let why = loop {
        tokio::select! {
            io = accept(&listener) => {
                let (service, ended) = (service.clone(), ended.clone());
                connections.begin(|entered, leave| connection(io, service, entered, leave, ended));
            }
            () = connections.ended() => {}
            () = interrupt.came() => break "interrupted",
            () = terminate.came() => break "terminated",
            () = hangup.came() => break "its terminal was closed",
            Some(()) = enter.recv() => tell(address()),
            _ = tick.tick() => {
                site.system().tick();
                if guard.last_use().unwrap_or(began).elapsed() > options.idle {
                    break "nobody used it";
                }
            }
        }
    };
    let _ = ending.send(true);
    let _ = tokio::time::timeout(END_TIME, connections.all_ended()).await;
    tell(Told::Ended(why));
    Ok(())
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

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn accept(listener: &Listener) -> Box<dyn Stream> {
    loop {
        let accepted: io::Result<Box<dyn Stream>> = match listener {
            Listener::Tcp(tcp) => tcp.accept().await.map(|(stream, _)| {
                let _ = stream.set_nodelay(true);
                Box::new(stream) as Box<dyn Stream>
            }),
            Listener::Unix(unix, _) => {
                let accepted = unix.accept().await;
                accepted.map(|(stream, _)| Box::new(stream) as Box<dyn Stream>)
            }
        };
        match accepted {
            Ok(stream) => return stream,
            // Too many open files, or a client that is gone: not for ever.
            Err(error) => {
                log::debug!("a connection was not taken: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves one connection to its end, for as long as `leave` does not resolve.
async fn connection(
    io: Box<dyn Stream>,
    service: TowerToHyperService<axum::Router>,
    entered: Entered,
    leave: oneshot::Receiver<()>,
    mut ended: watch::Receiver<bool>,
) {
    let shown = entered.clone();
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(shown.clone());
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let done = tokio::select! {
        done = connection.as_mut() => Some(done),
        () = tokio::time::sleep(CONNECTION_TIME) => None,
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
            match tokio::time::timeout(CONNECTION_TIME, connection).await {
                Ok(done) => done,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = done {
        log::debug!("a connection broke off: {error}");
    }
}

async fn listen(place: &ListenAddress) -> Result<Listener, Problem> {
    match place {
        ListenAddress::Address(address) => {
            if !address.ip().is_loopback() {
                return Err(Problem::new(format!("{address} is not a loopback address")));
            }
            let bound = TcpListener::bind(address).await;
            bound.map(Listener::Tcp).map_err(|error| {
                Problem::new(format!(
                    "--listen {address}: {error}; leave it out for a port that is free"
                ))
            })
        }
        ListenAddress::Socket(path) => unix(path),
    }
}

fn unix(path: &Path) -> Result<Listener, Problem> {
    let problem = |what: String| Problem::new(format!("--socket {}: {what}", path.display()));
    if let Ok(metadata) = fs::symlink_metadata(path) {
        let own = metadata.uid() == nix::unistd::geteuid().as_raw();
        if !own || !metadata.file_type().is_socket() {
            return Err(problem(
                "a file of this name exists and is not a socket; name another file".to_string(),
            ));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(problem(
                "another program listens there; name another file".to_string(),
            ));
        }
        // Left by one that was killed.
        fs::remove_file(path).map_err(|error| problem(error.to_string()))?;
    }
    // There is no other thread yet that could make a file meanwhile.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let bound = bound.map_err(|error| problem(error.to_string()))?;
    Ok(Listener::Unix(bound, Remove(path.to_path_buf())))
}
