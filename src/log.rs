//! The log, handed to a callback of the caller's.

use super::fault::Fault;
use super::header as c;
use super::pointers::write_cut;
use super::strings;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Write;
use std::sync::{PoisonError, RwLock};

/// Bytes of one line, the NUL among them.
const ROOM: usize = 1024;

type Function = unsafe extern "C" fn(c_int, *const c_char, *const c_char, *mut c_void);

#[derive(Clone, Copy)]
struct Callback {
    function: Function,
    user_data: *mut c_void,
}

// SAFETY: the header says that the callback is called from any thread.
unsafe impl Send for Callback {}
// SAFETY: the same.
unsafe impl Sync for Callback {}

/// Held for reading during a call of the callback, so that whoever changes it waits for its end.
static CALLBACK: RwLock<Option<Callback>> = RwLock::new(None);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if this thread is inside the callback.
pub(super) fn inside_callback() -> bool {
    INSIDE.get()
}

struct ToCallback;

static LOGGER: ToCallback = ToCallback;

impl Log for ToCallback {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) || INSIDE.get() {
            return;
        }
        let guard = CALLBACK.read().unwrap_or_else(PoisonError::into_inner);
        let Some(callback) = *guard else {
            return;
        };
        let mut line = Line {
            bytes: [0; ROOM],
            used: 0,
        };
        // A line that is too long is cut; that is the only way this fails.
        let _ = line.write_fmt(*record.args());
        let mut target = [0u8; 128];
        write_cut(&mut target, record.target());
        let level = match record.level() {
            Level::Error => c::LIBRA_LOG_ERROR,
            Level::Warn => c::LIBRA_LOG_WARN,
            Level::Info => c::LIBRA_LOG_INFO,
            Level::Debug => c::LIBRA_LOG_DEBUG,
            Level::Trace => c::LIBRA_LOG_TRACE,
        };
        INSIDE.set(true);
        // SAFETY: libra_set_log was promised that it can be called like this until it is replaced,
        // which the lock holds off; both texts end with a NUL.
        unsafe {
            (callback.function)(
                level as c_int,
                target.as_ptr().cast(),
                line.bytes.as_ptr().cast(),
                callback.user_data,
            );
        }
        INSIDE.set(false);
    }

    fn flush(&self) {}
}

/// One line, cut to its room; the last byte stays NUL.
struct Line {
    bytes: [u8; ROOM],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let rest = &mut self.bytes[self.used..];
        write_cut(rest, text);
        let written = text.len().min(rest.len() - 1);
        if written < text.len() {
            // Nothing more fits, however short.
            self.used = ROOM - 1;
            return Err(std::fmt::Error);
        }
        self.used += written;
        Ok(())
    }
}

/// See `libra.h`.
///
/// # Safety
/// `callback` can be called from any thread with `user_data` until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_set_log(
    callback: c::libra_log_callback,
    user_data: *mut c_void,
    level: c_int,
) -> c_int {
    super::enter(|| {
        let filter = match u32::try_from(level) {
            Ok(c::LIBRA_LOG_OFF) => LevelFilter::Off,
            Ok(c::LIBRA_LOG_ERROR) => LevelFilter::Error,
            Ok(c::LIBRA_LOG_WARN) => LevelFilter::Warn,
            Ok(c::LIBRA_LOG_INFO) => LevelFilter::Info,
            Ok(c::LIBRA_LOG_DEBUG) => LevelFilter::Debug,
            Ok(c::LIBRA_LOG_TRACE) => LevelFilter::Trace,
            _ => {
                return Err(Fault::new(
                    c::LIBRA_E_RANGE,
                    format!("level is {level}, expected LIBRA_LOG_OFF to LIBRA_LOG_TRACE"),
                ));
            }
        };
        let wanted = callback
            .filter(|_| filter != LevelFilter::Off)
            .map(|function| Callback {
                function,
                user_data,
            });
        if wanted.is_some() && !ours() {
            return Err(Fault::new(
                c::LIBRA_E_LOGGER,
                strings::text_of(c::LIBRA_E_LOGGER).to_string_lossy(),
            ));
        }
        let on = wanted.is_some();
        *CALLBACK.write().unwrap_or_else(PoisonError::into_inner) = wanted;
        if ours() {
            log::set_max_level(if on { filter } else { LevelFilter::Off });
        }
        Ok(0)
    })
}

/// Makes this module the logger, once. False where a Rust program around the rlib has its own.
fn ours() -> bool {
    use std::sync::OnceLock;
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| log::set_logger(&LOGGER).is_ok())
}
