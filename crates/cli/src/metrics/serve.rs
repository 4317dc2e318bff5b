//! `/metrics` over HTTP, on a thread of its own.
//!
//! Whoever can reach the address may ask, so nobody may take more than a little: at most sixteen connections at a time, of which the oldest
//! gives way to one more, each for at most ten seconds. The agent needs its open files for jobs.

use super::Source;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use libra_metrics::Format;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::Sleep;

const MOST_CONNECTIONS: usize = 16;
const LONGEST_CONNECTION: Duration = Duration::from_secs(10);

/// Begins to serve; what is wrong is said in the log.
pub fn start(address: SocketAddr, source: Arc<Source>) {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok((listener.local_addr()?, listener))
    });
    let (address, listener) = match bound {
        Ok(bound) => bound,
        Err(error) => {
            let hint = match error.raw_os_error() {
                Some(libc::EADDRINUSE) => {
                    " ('ss -ltnp' shows who has the port; give another one as metrics.listen)"
                }
                Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => {
                    " (the unit of the package lets the agent use no network; see docs/metrics.md)"
                }
                _ => "",
            };
            log::error!(
                "cannot listen on {address}: {error}{hint}; metrics are not served, the agent goes on"
            );
            return;
        }
    };
    let begun = std::thread::Builder::new()
        .name("metrics".to_string())
        .spawn(move || {
            if let Err(error) = serve(listener, source) {
                log::error!("metrics are not served any more: {error}");
            }
        });
    match begun {
        Ok(_) => log::info!("metrics at http://{address}/metrics"),
        Err(error) => log::error!("metrics are not served: {error}"),
    }
}

fn serve(listener: std::net::TcpListener, source: Arc<Source>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let router = Router::new()
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, "metrics are at /metrics\n") })
        .with_state(source);
    runtime.block_on(async {
        let listener = Limited {
            listener: TcpListener::from_std(listener)?,
            open: VecDeque::new(),
        };
        axum::serve(listener, router).await
    })
}

async fn metrics(State(source): State<Arc<Source>>, headers: HeaderMap) -> impl IntoResponse {
    let accepted = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let format = match accepted {
        Some(types) if types.contains("application/openmetrics-text") => Format::OpenMetrics,
        _ => Format::Prometheus,
    };
    let text = source.page().text(format);
    ([(header::CONTENT_TYPE, format.content_type())], text)
}

struct Limited {
    listener: TcpListener,
    /// One for each connection, the oldest first. A connection whose end is dropped gives way.
    open: VecDeque<oneshot::Sender<()>>,
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    self.open.retain(|one| !one.is_closed());
                    if self.open.len() >= MOST_CONNECTIONS {
                        self.open.pop_front();
                    }
                    let (stays, leave) = oneshot::channel();
                    self.open.push_back(stays);
                    let connection = Connection {
                        stream,
                        end: Box::pin(tokio::time::sleep(LONGEST_CONNECTION)),
                        leave,
                    };
                    return (connection, from);
                }
                Err(error) => {
                    log::debug!("metrics: {error}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends by itself.
struct Connection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    leave: oneshot::Receiver<()>,
}

impl Connection {
    fn is_over(&mut self, context: &mut Context<'_>) -> Result<(), io::Error> {
        if self.end.as_mut().poll(context).is_ready()
            || Pin::new(&mut self.leave).poll(context).is_ready()
        {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.is_over(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_over(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
