//! PostgreSQL by its own client library, libpq, which is loaded when it is first needed: a site that has no database needs no such library.
//!
//! It runs inside servers of others (slurmctld, pbs_server). So nothing waits longer than it may: everything is asked without blocking, and
//! waited for with a limit. Only names of hosts are looked up by the system's resolver, whose waiting nobody can end. What libpq would print
//! is dropped, and it makes no threads and no signal handlers; it writes to its socket so that no SIGPIPE comes of it (MSG_NOSIGNAL).

use std::ffi::{CStr, CString, c_char, c_int, c_short, c_uint, c_void};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The library's name, as the system's loader looks for it.
const LIBRARY: &CStr = c"libpq.so.5";

/// Types of parameters, as the server numbers them (pg_type.dat).
const BIGINT: c_uint = 20;
const TEXT: c_uint = 25;

/// What PQstatus, PQconnectPoll and PQresultStatus say (libpq-fe.h).
const CONNECTION_OK: c_int = 0;
const CONNECTION_BAD: c_int = 1;
const POLLING_FAILED: c_int = 0;
const POLLING_READING: c_int = 1;
const POLLING_WRITING: c_int = 2;
const POLLING_OK: c_int = 3;
const EMPTY_QUERY: c_int = 0;
const COMMAND_OK: c_int = 1;
const TUPLES_OK: c_int = 2;
const SINGLE_TUPLE: c_int = 9;

/// Fields of an error (postgres_ext.h).
const SQLSTATE: c_int = 'C' as c_int;
const MESSAGE: c_int = 'M' as c_int;

/// What the server says where nothing is wrong with what was asked: it goes down, comes up, is a standby, has too many sessions or no room on its
/// disk, somebody else has a lock. Classes of its manual's appendix A.
const PASSING: [&str; 8] = ["08", "25", "40", "53", "55", "57", "58", "XX"];

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresError {
    /// libpq is not there, or cannot be loaded.
    Library(String),
    /// There is no connection, nor was any question asked.
    Connect(String),
    /// The connection is lost. Whether what was asked was done is not known.
    Lost(String),
    /// No answer in time; the connection is given up. Whether what was asked was done is not known.
    TimedOut(Duration),
    /// The server has answered, and does not do it.
    Refused {
        /// Five letters and digits that say why (appendix A of PostgreSQL's manual).
        state: String,
        /// In words.
        message: String,
    },
}

impl std::fmt::Display for PostgresError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PostgresError::Library(problem) => write!(
                f,
                "the client library of PostgreSQL cannot be loaded ({problem}); install it: package libpq5 on Debian and Ubuntu, libpq on RHEL"
            ),
            PostgresError::Connect(problem) => write!(f, "no connection: {problem}"),
            PostgresError::Lost(problem) => write!(f, "the connection is lost: {problem}"),
            PostgresError::TimedOut(time) => {
                write!(f, "no answer within {:.1} s", time.as_secs_f64())
            }
            PostgresError::Refused { state, message } => write!(f, "{message} ({state})"),
        }
    }
}

impl std::error::Error for PostgresError {}

impl PostgresError {
    /// Returns true if the server does not answer now and may do so later: nothing is wrong with what was asked.
    pub fn is_away(&self) -> bool {
        match self {
            PostgresError::Refused { state, .. } => {
                PASSING.iter().any(|class| state.starts_with(class))
            }
            _ => true,
        }
    }
}

/// Stands for `$1`, `$2` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parameter {
    /// Nothing.
    Null,
    /// A number.
    Integer(i64),
    /// A text. It ends with the first NUL that is in it: PostgreSQL has none.
    Text(String),
}

/// A value of a row, as text; None if it is null.
pub type Field<'a> = Option<&'a str>;

type Conn = c_void;
type Answer = c_void;
type Notice = unsafe extern "C" fn(*mut c_void, *const c_char);

macro_rules! library {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// What is used of libpq. Its functions and their types are the same since version 9.2 (2012).
        struct Library {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn load() -> Result<Library, String> {
                // SAFETY: the name ends with NUL; what the library does when it is loaded is libpq's and its dependencies' own business, as
                // in any program that is linked with it.
                let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
                if handle.is_null() {
                    return Err(loader_error());
                }
                Ok(Library {
                    $($name: {
                        let symbol: &CStr = $symbol;
                        // SAFETY: the handle is open and never closed, the name ends with NUL.
                        let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
                        if found.is_null() {
                            return Err(loader_error());
                        }
                        // SAFETY: a function of this name in libpq.so.5 has this type.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found) }
                    },)*
                })
            }
        }
    };
}

library! {
    connect_start = c"PQconnectStartParams": fn(*const *const c_char, *const *const c_char, c_int) -> *mut Conn;
    connect_poll = c"PQconnectPoll": fn(*mut Conn) -> c_int;
    status = c"PQstatus": fn(*const Conn) -> c_int;
    error_message = c"PQerrorMessage": fn(*const Conn) -> *const c_char;
    socket = c"PQsocket": fn(*const Conn) -> c_int;
    finish = c"PQfinish": fn(*mut Conn);
    set_nonblocking = c"PQsetnonblocking": fn(*mut Conn, c_int) -> c_int;
    set_notice_processor = c"PQsetNoticeProcessor": fn(*mut Conn, Notice, *mut c_void) -> *const c_void;
    send_query = c"PQsendQuery": fn(*mut Conn, *const c_char) -> c_int;
    send_query_params = c"PQsendQueryParams": fn(*mut Conn, *const c_char, c_int, *const c_uint, *const *const c_char, *const c_int, *const c_int, c_int) -> c_int;
    set_single_row_mode = c"PQsetSingleRowMode": fn(*mut Conn) -> c_int;
    flush = c"PQflush": fn(*mut Conn) -> c_int;
    consume_input = c"PQconsumeInput": fn(*mut Conn) -> c_int;
    is_busy = c"PQisBusy": fn(*mut Conn) -> c_int;
    get_result = c"PQgetResult": fn(*mut Conn) -> *mut Answer;
    result_status = c"PQresultStatus": fn(*const Answer) -> c_int;
    result_field = c"PQresultErrorField": fn(*const Answer, c_int) -> *const c_char;
    rows = c"PQntuples": fn(*const Answer) -> c_int;
    columns = c"PQnfields": fn(*const Answer) -> c_int;
    value = c"PQgetvalue": fn(*const Answer, c_int, c_int) -> *const c_char;
    is_null = c"PQgetisnull": fn(*const Answer, c_int, c_int) -> c_int;
    clear = c"PQclear": fn(*mut Answer);
}

fn loader_error() -> String {
    // SAFETY: takes nothing; what it returns is text of this thread's that stays until its next call of the loader.
    let said = unsafe { libc::dlerror() };
    match said.is_null() {
        true => "unknown".to_string(),
        // SAFETY: not null, so a text that ends with NUL.
        false => one_line(unsafe { CStr::from_ptr(said) }),
    }
}

/// The library, loaded at most once. Where it is missing it is looked for again the next time: it may be installed meanwhile.
fn library() -> Result<&'static Library, PostgresError> {
    static LOADED: OnceLock<Library> = OnceLock::new();
    match LOADED.get() {
        Some(loaded) => Ok(loaded),
        None => {
            let loaded = Library::load().map_err(PostgresError::Library)?;
            Ok(LOADED.get_or_init(|| loaded))
        }
    }
}

/// libpq's messages have lines of their own.
fn one_line(text: &CStr) -> String {
    let text = text.to_string_lossy();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

unsafe extern "C" fn silent(_: *mut c_void, _: *const c_char) {}

/// A connection to a server.
pub struct Postgres {
    library: &'static Library,
    connection: NonNull<Conn>,
    /// An answer did not come in time, or half of it: nothing more can be asked.
    given_up: bool,
}

// SAFETY: libpq lets a connection be used by any thread, by one at a time; Postgres is not Sync, and what changes anything wants it mutable.
unsafe impl Send for Postgres {}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SAFETY: it was made by PQconnectStartParams, and is given back once. It does not block: the connection is a non-blocking one.
        unsafe { (self.library.finish)(self.connection.as_ptr()) };
    }
}

/// An answer, given back when it is dropped.
struct Received(&'static Library, NonNull<Answer>);

impl Drop for Received {
    fn drop(&mut self) {
        // SAFETY: it was made by PQgetResult, and is given back once.
        unsafe { (self.0.clear)(self.1.as_ptr()) };
    }
}

impl Received {
    fn status(&self) -> c_int {
        // SAFETY: it is an answer of libpq's that was not given back.
        unsafe { (self.0.result_status)(self.1.as_ptr()) }
    }

    fn field(&self, which: c_int) -> Option<String> {
        // SAFETY: as above; what it returns is part of the answer, or null.
        let text = unsafe { (self.0.result_field)(self.1.as_ptr(), which) };
        // SAFETY: not null, so a text of the answer that ends with NUL.
        (!text.is_null()).then(|| one_line(unsafe { CStr::from_ptr(text) }))
    }

    /// Has each row taken.
    fn rows(&self, each: &mut dyn FnMut(&[Field<'_>]) -> bool) -> bool {
        let (library, answer) = (self.0, self.1.as_ptr());
        // SAFETY: as above.
        let (rows, columns) = unsafe { ((library.rows)(answer), (library.columns)(answer)) };
        (0..rows).all(|row| {
            let fields: Vec<Field<'_>> = (0..columns)
                .map(|column| {
                    // SAFETY: row and column are there; the value is a text of the answer, which `self` keeps, and ends with NUL.
                    let text = unsafe {
                        match (library.is_null)(answer, row, column) {
                            0 => CStr::from_ptr((library.value)(answer, row, column)),
                            _ => return None,
                        }
                    };
                    // All sessions are in UTF-8.
                    Some(text.to_str().unwrap_or("\u{fffd}"))
                })
                .collect();
            each(&fields)
        })
    }
}

impl Postgres {
    /// Connects, by a connection string as libpq reads it, until a moment at most.
    ///
    /// # Errors
    /// [`PostgresError::Library`], [`PostgresError::Connect`] or [`PostgresError::TimedOut`].
    pub fn connect(string: &str, time: Duration) -> Result<Postgres, PostgresError> {
        let library = library()?;
        let string = CString::new(string)
            .map_err(|_| PostgresError::Connect("NUL in the connection string".to_string()))?;
        // What stands in the string goes before what is ahead of it here, and what is behind it goes before the string. Kerberos would be asked
        // in ways that block; a host that is gone without a word is noticed in seconds.
        let settings: [(&CStr, &CStr); 8] = [
            (c"gssencmode", c"disable"),
            (c"keepalives_idle", c"3"),
            (c"keepalives_interval", c"2"),
            (c"keepalives_count", c"3"),
            (c"tcp_user_timeout", c"10000"),
            (c"dbname", string.as_c_str()),
            (c"client_encoding", c"UTF8"),
            (c"application_name", c"libra"),
        ];
        let list = |texts: [&CStr; 8]| {
            let mut pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
            pointers.push(ptr::null());
            pointers
        };
        let keys = list(settings.map(|(key, _)| key));
        let values = list(settings.map(|(_, value)| value));
        let began = Instant::now();
        // SAFETY: two lists of texts of the same length that end with null, and live until it returns; it copies them.
        let made = unsafe { (library.connect_start)(keys.as_ptr(), values.as_ptr(), 1) };
        let connection = NonNull::new(made)
            .ok_or_else(|| PostgresError::Connect("no memory for it".to_string()))?;
        let postgres = Postgres {
            library,
            connection,
            given_up: false,
        };
        let raw = postgres.connection.as_ptr();
        // SAFETY: the connection is open, and the function is there for ever and looks at nothing that it is given.
        unsafe { (library.set_notice_processor)(raw, silent, ptr::null_mut()) };
        let mut wanted = POLLING_WRITING;
        // SAFETY: the connection is libpq's, and not given back.
        if unsafe { (library.status)(raw) } == CONNECTION_BAD {
            return Err(PostgresError::Connect(postgres.message()));
        }
        loop {
            let left = time.saturating_sub(began.elapsed());
            let flags = match wanted {
                POLLING_READING => libc::POLLIN,
                _ => libc::POLLOUT,
            };
            if !postgres.wait(flags, left)? {
                return Err(PostgresError::TimedOut(time));
            }
            // SAFETY: as above.
            wanted = unsafe { (library.connect_poll)(raw) };
            match wanted {
                POLLING_OK => break,
                POLLING_FAILED => return Err(PostgresError::Connect(postgres.message())),
                _ => {}
            }
        }
        // SAFETY: as above; it is idle.
        let (ok, set) = unsafe {
            (
                (library.status)(raw) == CONNECTION_OK,
                (library.set_nonblocking)(raw, 1) == 0,
            )
        };
        match ok && set {
            true => Ok(postgres),
            false => Err(PostgresError::Connect(postgres.message())),
        }
    }

    /// What libpq says of the connection.
    fn message(&self) -> String {
        // SAFETY: the connection is libpq's; what it returns is a text of the connection's that ends with NUL, copied at once.
        one_line(unsafe { CStr::from_ptr((self.library.error_message)(self.connection.as_ptr())) })
    }

    /// Waits until the socket is ready. Returns false if the time is up.
    fn wait(&self, events: c_short, time: Duration) -> Result<bool, PostgresError> {
        let began = Instant::now();
        loop {
            // SAFETY: the connection is libpq's. The socket may be another one after each of its steps, so it is asked for anew.
            let socket = unsafe { (self.library.socket)(self.connection.as_ptr()) };
            if socket < 0 {
                return Err(PostgresError::Lost(self.message()));
            }
            let left = time.saturating_sub(began.elapsed());
            // Rounded up: a wait of nothing would go round and round.
            let millis = c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
            let mut waited = libc::pollfd {
                fd: socket,
                events,
                revents: 0,
            };
            // SAFETY: one descriptor, of which the kernel fills in what has happened. libpq closes it no sooner than in its next step.
            match unsafe { libc::poll(&mut waited, 1, millis) } {
                0 if began.elapsed() >= time => return Ok(false),
                0 => {}
                many if many > 0 => return Ok(true),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(PostgresError::Lost(error.to_string())),
                },
            }
        }
    }

    /// Returns true if nothing more can be asked by this connection.
    pub fn is_given_up(&self) -> bool {
        // SAFETY: the connection is libpq's, and not given back.
        self.given_up || unsafe { (self.library.status)(self.connection.as_ptr()) } != CONNECTION_OK
    }

    /// Asks, and has each row taken, until `each` wants no more (then the connection is given up). One statement, or several where there are no
    /// parameters. Waits `time` at most for all of it.
    ///
    /// # Errors
    /// All but [`PostgresError::Connect`].
    pub fn ask(
        &mut self,
        statement: &str,
        parameters: &[Parameter],
        time: Duration,
        each: &mut dyn FnMut(&[Field<'_>]) -> bool,
    ) -> Result<(), PostgresError> {
        if self.is_given_up() {
            return Err(PostgresError::Lost("it was given up".to_string()));
        }
        // Until the answer is there to its end.
        self.given_up = true;
        let began = Instant::now();
        self.send(statement, parameters)?;
        let time_is_up = |postgres: &Postgres, flags| {
            let left = time.saturating_sub(began.elapsed());
            match postgres.wait(flags, left)? {
                true => Ok(()),
                false => Err(PostgresError::TimedOut(time)),
            }
        };
        let raw = self.connection.as_ptr();
        loop {
            // SAFETY: the connection is libpq's, and not given back; so below.
            match unsafe { (self.library.flush)(raw) } {
                0 => break,
                1 => time_is_up(self, libc::POLLIN | libc::POLLOUT)?,
                _ => return Err(PostgresError::Lost(self.message())),
            }
            // A server that is sending may read no more until somebody reads. SAFETY: as above.
            if unsafe { (self.library.consume_input)(raw) } == 0 {
                return Err(PostgresError::Lost(self.message()));
            }
        }
        let mut refused = None;
        loop {
            // SAFETY: as above.
            while unsafe { (self.library.is_busy)(raw) } != 0 {
                time_is_up(self, libc::POLLIN)?;
                // SAFETY: as above.
                if unsafe { (self.library.consume_input)(raw) } == 0 {
                    return Err(PostgresError::Lost(self.message()));
                }
            }
            // SAFETY: as above; it does not block, as it is not busy.
            let Some(answer) = NonNull::new(unsafe { (self.library.get_result)(raw) }) else {
                break;
            };
            let answer = Received(self.library, answer);
            match answer.status() {
                TUPLES_OK | SINGLE_TUPLE => {
                    if !answer.rows(each) {
                        return Ok(());
                    }
                }
                COMMAND_OK | EMPTY_QUERY => {}
                _ => {
                    refused = Some(match answer.field(SQLSTATE) {
                        Some(state) => PostgresError::Refused {
                            state,
                            message: answer.field(MESSAGE).unwrap_or_default(),
                        },
                        // Not the server has said it.
                        None => PostgresError::Lost(self.message()),
                    });
                }
            }
        }
        self.given_up = false;
        match refused {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn send(&self, statement: &str, parameters: &[Parameter]) -> Result<(), PostgresError> {
        let unsent = |problem: &str| PostgresError::Lost(problem.to_string());
        let statement = CString::new(statement).map_err(|_| unsent("NUL in a statement"))?;
        let texts: Vec<Option<CString>> = parameters
            .iter()
            .map(|parameter| match parameter {
                Parameter::Null => None,
                Parameter::Integer(number) => CString::new(number.to_string()).ok(),
                Parameter::Text(text) => {
                    let whole = text.split('\0').next().unwrap_or_default();
                    CString::new(whole).ok()
                }
            })
            .collect();
        let types: Vec<c_uint> = parameters
            .iter()
            .map(|parameter| match parameter {
                Parameter::Integer(_) => BIGINT,
                Parameter::Text(_) => TEXT,
                Parameter::Null => 0,
            })
            .collect();
        let values: Vec<*const c_char> = texts
            .iter()
            .map(|text| text.as_ref().map_or(ptr::null(), |text| text.as_ptr()))
            .collect();
        let raw = self.connection.as_ptr();
        // SAFETY: the connection is libpq's; the statement and the lists, which have as many parts as is said, live until it returns and are
        // copied. Lengths and formats are those of texts where they are null.
        let sent = unsafe {
            match parameters.len() {
                0 => (self.library.send_query)(raw, statement.as_ptr()),
                count => (self.library.send_query_params)(
                    raw,
                    statement.as_ptr(),
                    c_int::try_from(count).unwrap_or(0),
                    types.as_ptr(),
                    values.as_ptr(),
                    ptr::null(),
                    ptr::null(),
                    0,
                ),
            }
        };
        if sent == 0 {
            return Err(unsent(&self.message()));
        }
        // Rows are taken as they come: all of a ledger need not be in memory. SAFETY: as above, and nothing of the answer was taken.
        unsafe { (self.library.set_single_row_mode)(raw) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_waited_for_no_longer_than_may_be() {
        let directory = std::env::temp_dir().join(format!("libra-pq-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a directory");
        let socket = directory.join(".s.PGSQL.5432");
        // It takes the connection, by the kernel, and nothing else.
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        let string = format!("host={} dbname=x user=x", directory.display());
        let time = Duration::from_millis(50);
        match Postgres::connect(&string, time) {
            // Not where tests run without it: what is said then is right, too.
            Err(PostgresError::Library(_)) => eprintln!("not run: libpq.so.5 is not here"),
            Err(error) => assert_eq!(error, PostgresError::TimedOut(time)),
            Ok(_) => panic!("nobody answers"),
        }
        drop(listener);
        let gone = Postgres::connect(&string, time).err().expect("nobody");
        assert!(gone.is_away(), "{gone}");
        assert!(!gone.to_string().contains('\n'), "{gone}");
        std::fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn a_server_that_is_gone_is_an_error_and_no_signal() {
        use std::io::{Read, Write};
        let directory = std::env::temp_dir().join(format!("libra-pq-gone-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a directory");
        let socket = directory.join(".s.PGSQL.5432");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("asked");
            let mut length = [0; 4];
            stream.read_exact(&mut length).expect("a startup packet");
            let rest = u32::from_be_bytes(length) as usize - length.len();
            stream.read_exact(&mut vec![0; rest]).expect("all of it");
            // It lets everybody in, is ready for queries, and gone.
            stream
                .write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
                .expect("told");
        });
        let string = format!("host={} dbname=x user=x", directory.display());
        let time = Duration::from_secs(60);
        let connected = Postgres::connect(&string, time);
        if let Err(PostgresError::Library(_)) = connected {
            std::fs::remove_dir_all(&directory).expect("removed");
            return eprintln!("not run: libpq.so.5 is not here");
        }
        server.join().expect("no panic");
        let mut connection = connected.expect("let in");
        // As in a server that is written in C. SAFETY: no handler is installed or replaced that anybody could be inside of.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        for _ in 0..3 {
            let asked = connection.ask("SELECT 1", &[], time, &mut |_| true);
            assert!(matches!(asked, Err(PostgresError::Lost(_))), "{asked:?}");
        }
        drop(connection);
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, before) };
        std::fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn what_is_wrong_with_a_string_is_said_in_one_line() {
        let wrong = Postgres::connect("hots=x", Duration::from_secs(1));
        let said = wrong.err().expect("no such key").to_string();
        assert!(said.contains("hots") || said.contains("libpq"), "{said}");
        let away = PostgresError::Refused {
            state: "57P03".to_string(),
            message: "the database system is starting up".to_string(),
        };
        assert!(away.is_away());
    }
}
