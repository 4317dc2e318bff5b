//! What qmaster starts: a verifier for each of its worker threads, one of which keeps the book for all.
//!
//! The one that has the lock reads qmaster's records, in threads of its own, and answers the others at a socket beside it. When it ends another one
//! takes over and makes the book again. It begins after [`SETTLING`], so that what its forerunner has accepted is in the records. A
//! verifier waits for its answer and qmaster for it: never for longer than [`WITHIN`], in which qmaster's other workers answer the one that reads.

use super::follow::{Shared, files, follow, quotes};
use super::{GridEngineError, cell, file_error};
use crate::Common;
use crate::Done;
use libra_config::{Config, site};
use libra_gridengine::admission::{not_ready, without_terms};
use libra_gridengine::commands::Cell;
use libra_gridengine::jsv::{Answer, Event, Parameters, Reader, ambiguous};
use libra_gridengine::submission::Submission;
use libra_system::clock;
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, poll};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// A submission is answered within this time; qmaster ends a verifier after 10 s (`jsv_timeout`).
const WITHIN: Duration = Duration::from_secs(4);

/// What was accepted so long ago is in qmaster's records.
const SETTLING: Duration = Duration::from_secs(1);

/// Time between two tries of what did not work.
const AGAIN: Duration = Duration::from_millis(50);

/// Bytes that qmaster writes at once, at the least, and how long what it writes after them may take, in milliseconds.
const AT_ONCE: usize = 4000;
const PIECES: u16 = 10;

/// Longest request at the socket, in bytes: a job's parameters, its arguments among them.
const LONGEST: u64 = 16 << 20;

pub fn jsv(args: &Common) -> Done {
    let cell = cell();
    let config = site::load(args.config.as_deref()).map_err(|error| error.to_string());
    if let Err(problem) = &config {
        log::error!("{problem}");
    }
    let place = place(&cell)?;
    if let Ok(config) = config.clone() {
        let place = place.clone();
        thread::spawn(move || {
            loop {
                if let Err(error) = lead(&cell, &config, &place) {
                    log::error!("{error}");
                }
                thread::sleep(20 * AGAIN);
            }
        });
    }
    let answer = |parameters: &Parameters| -> String {
        let submission = Submission::new(parameters);
        match &config {
            Ok(config) if !submission.has_terms() => {
                let answer = without_terms(&submission, config.gridengine.without_terms);
                if matches!(answer, Answer::Reject(_)) {
                    // That it is counted. It waits for nothing.
                    let _ = ask_once(&place, parameters, Instant::now());
                }
                answer.write()
            }
            Ok(_) => ask(&place, parameters),
            Err(_) if !submission.has_terms() && !submission.claims => Answer::Accept.write(),
            Err(problem) => {
                Answer::TryAgain(format!("libra: {problem}; tell the administrators")).write()
            }
        }
    };
    let stdin = io::stdin();
    let more = |read: usize| {
        // A job that is longer than what qmaster writes at once may come in pieces.
        let patience = if read < AT_ONCE { 0 } else { PIECES };
        let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, patience).unwrap_or(0) > 0
    };
    let input = File::from(stdin.as_fd().try_clone_to_owned()?);
    serve(
        &mut BufReader::new(input),
        &mut io::stdout().lock(),
        &more,
        &answer,
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Where the lock and the socket are: below qmaster's own spool directory, for qmaster's user alone.
fn place(cell: &Cell) -> Result<PathBuf, GridEngineError> {
    let spool = cell
        .bootstrap("qmaster_spool_dir")
        .ok_or(GridEngineError::Bootstrap("qmaster_spool_dir"))?;
    let place = Path::new(&spool).join("libra");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&place)
        .map_err(file_error(&place))?;
    Ok(place)
}

/// Speaks with qmaster until that ends it. `more`: tells whether more is to be read, after so many bytes of a job.
fn serve<R: Read>(
    input: &mut BufReader<R>,
    output: &mut dyn Write,
    more: &dyn Fn(usize) -> bool,
    answer: &dyn Fn(&Parameters) -> String,
) -> io::Result<()> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    let mut read = 0;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        read += line.len();
        let is_buffered = !input.buffer().is_empty();
        let text = String::from_utf8_lossy(&line);
        let mut more = || is_buffered || more(read);
        let said = match reader.take(text.trim_end_matches(['\n', '\r']), &mut more) {
            Event::Nothing => continue,
            Event::Quit => return Ok(()),
            Event::Started(line) => {
                read = 0;
                format!("{line}\n")
            }
            Event::Judge(parameters) => answer(&parameters),
            Event::Ambiguous => ambiguous().write(),
            // An answer would be taken for that to the next job: qmaster starts another verifier.
            Event::Astray => return Err(io::ErrorKind::InvalidData.into()),
        };
        output.write_all(said.as_bytes())?;
        output.flush()?;
    }
}

/// The answer of the one that keeps the book.
fn ask(place: &Path, parameters: &Parameters) -> String {
    let until = Instant::now() + WITHIN;
    let not_ready = not_ready().write();
    loop {
        let answered = ask_once(place, parameters, until);
        if let Ok(text) = &answered {
            if *text != not_ready {
                return text.clone();
            }
        }
        if Instant::now() + AGAIN >= until {
            return not_ready;
        }
        thread::sleep(AGAIN);
    }
}

fn ask_once(place: &Path, parameters: &Parameters, until: Instant) -> io::Result<String> {
    let mut stream = UnixStream::connect(place.join("socket"))?;
    let left = until.saturating_duration_since(Instant::now()).max(AGAIN);
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))?;
    let mut request = String::from("START\n");
    for (name, value) in parameters {
        request.push_str(&format!("PARAM {name} {value}\n"));
    }
    request.push_str("BEGIN\n");
    stream.write_all(request.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text)?;
    // Its own first answer is to START.
    match text.strip_prefix("STARTED\n") {
        Some(text) if text.contains("RESULT STATE ") && text.ends_with('\n') => {
            Ok(text.to_string())
        }
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Keeps the book, once nobody else does. Returns only when it cannot.
fn lead(cell: &Cell, config: &Config, place: &Path) -> Result<(), GridEngineError> {
    let _lock = lock(&place.join("lock"))?;
    let socket = place.join("socket");
    match fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(file_error(&socket)(error));
        }
        _ => {}
    }
    thread::sleep(SETTLING);
    let listener = UnixListener::bind(&socket).map_err(file_error(&socket))?;
    let shared = Shared::new(config, files(place)?, quotes(place));
    thread::scope(|scope| {
        scope.spawn(|| follow(cell, config, &shared));
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => {
                    let shared = &shared;
                    scope.spawn(move || {
                        if let Err(error) = reply(&stream, shared) {
                            log::warn!("a submission was not answered: {error}");
                        }
                    });
                }
                Err(error) => {
                    log::error!("{}: {error}", socket.display());
                    thread::sleep(AGAIN);
                }
            }
        }
    });
    Ok(())
}

fn lock(path: &Path) -> Result<Flock<File>, GridEngineError> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(file_error(path))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| file_error(path)(errno.into()))
}

fn reply(stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    let answer = |parameters: &Parameters| {
        let submission = Submission::new(parameters);
        let answer = shared.judged(|admission| admission.answer(&submission, clock::unix_time()));
        answer.write()
    };
    serve(
        &mut BufReader::new(stream.take(LONGEST)),
        &mut &*stream,
        &|_| false,
        &answer,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes at once is one piece.
    struct Pieces<'a>(Vec<&'a str>);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = match self.0.is_empty() {
                true => "",
                false => self.0.remove(0),
            };
            buffer[..piece.len()].copy_from_slice(piece.as_bytes());
            Ok(piece.len())
        }
    }

    fn said(pieces: &[&str]) -> (String, io::Result<()>) {
        let mut output = Vec::new();
        let answer = |parameters: &Parameters| {
            Answer::Reject(format!("{} parameters", parameters.len())).write()
        };
        let mut input = BufReader::new(Pieces(pieces.to_vec()));
        let done = serve(&mut input, &mut output, &|_| false, &answer);
        (String::from_utf8(output).expect("text"), done)
    }

    #[test]
    fn a_verifier_speaks_as_long_as_qmaster_does() {
        let first = "START\nPARAM JOB_ID 7\nPARAM l_hard a=1\nBEGIN\n";
        let (text, done) = said(&[first, "START\n", "BEGIN\n", "QUIT\n", "START\n"]);
        done.expect("it is spoken to");
        assert_eq!(
            text,
            "STARTED\nRESULT STATE REJECT 2 parameters\nSTARTED\nRESULT STATE REJECT 0 parameters\n"
        );
    }

    #[test]
    fn nothing_in_a_job_is_an_answer_to_another() {
        let hidden = "START\nPARAM o x\nBEGIN\nSTART\nPARAM ac libra\nBEGIN\n";
        let (text, done) = said(&[hidden, "START\nPARAM a 1\nBEGIN\n"]);
        done.expect("it goes on");
        let expected = format!(
            "STARTED\n{}STARTED\nRESULT STATE REJECT 1 parameters\n",
            ambiguous().write()
        );
        assert_eq!(text, expected);
        let (text, done) = said(&["START\nPARAM o x\nBEGIN\n", "PARAM ac libra\nBEGIN\n"]);
        done.expect_err("it ends");
        assert_eq!(text, "STARTED\nRESULT STATE REJECT 1 parameters\n");
    }

    #[test]
    fn who_does_not_keep_the_book_asks_who_does() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().to_path_buf();
        let listener = UnixListener::bind(place.join("socket")).expect("a socket");
        let of_shared = place.clone();
        thread::spawn(move || {
            let shared = Shared::new(
                &Config::default(),
                files(&of_shared).expect("ours"),
                quotes(&of_shared),
            );
            for stream in listener.incoming() {
                reply(&stream.expect("a caller"), &shared).expect("answered");
            }
        });
        let asked = |request: &str| {
            let parameters = Parameters::from([("l_hard".to_string(), request.to_string())]);
            ask_once(
                &place,
                &parameters,
                Instant::now() + Duration::from_secs(60),
            )
            .expect("an answer")
        };
        assert_eq!(
            asked("deadline=1h,budget=1,estimate=1"),
            not_ready().write()
        );
        assert_eq!(asked("h_rt=1"), Answer::Accept.write());
        ask_once(
            &directory.path().join("nowhere"),
            &Parameters::new(),
            Instant::now(),
        )
        .expect_err("nobody is there");
    }
}
