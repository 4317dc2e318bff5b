//! Strings that the library owns: the last error of each thread, texts of codes, the version; and
//! strings that it gives away.

use super::fault::Fault;
use super::header as c;
use super::pointers::write_cut;
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_char, c_int};

/// Bytes of the last error, the NUL among them.
const ROOM: usize = 1024;

thread_local! {
    // Plain bytes: no memory to allocate or free, not even when a thread ends.
    static LAST_ERROR: UnsafeCell<[u8; ROOM]> = const { UnsafeCell::new([0; ROOM]) };
}

pub(super) fn clear_last_error() {
    // SAFETY: only this thread reaches its own cell, and no reference to it outlives this statement.
    LAST_ERROR.with(|last| unsafe { (*last.get())[0] = 0 });
}

pub(super) fn set_last_error(text: &str) {
    // SAFETY: as above; `text` is not the cell's, nobody has a `&str` of that.
    LAST_ERROR.with(|last| write_cut(unsafe { &mut *last.get() }, text));
}

/// See `libra.h`.
///
/// # Safety
/// None needed; unsafe because the header's functions all are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.get().cast_const().cast())
}

/// See `libra.h`.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"unknown",
        };
    VERSION.as_ptr()
}

/// See `libra.h`.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_code_text(code: c_int) -> *const c_char {
    text_of(code).as_ptr()
}

pub(super) fn text_of(code: c_int) -> &'static CStr {
    // The enumerations without negative values come as unsigned.
    if let Ok(reason) = u32::try_from(code) {
        return match reason {
            c::LIBRA_REASON_NONE => c"none",
            c::LIBRA_REASON_BUDGET => c"budget",
            c::LIBRA_REASON_DEADLINE => c"deadline",
            c::LIBRA_REASON_SHARE => c"share",
            c::LIBRA_REASON_MEMORY => c"memory",
            c::LIBRA_REASON_CHUNKS => c"chunks",
            c::LIBRA_REASON_NO_NODE => c"no-node",
            c::LIBRA_REASON_TIME => c"time",
            c::LIBRA_REASON_RISK => c"risk",
            c::LIBRA_REASON_RETURN => c"return",
            _ => c"unknown code",
        };
    }
    match code {
        c::LIBRA_E_NULL => c"a pointer is NULL",
        c::LIBRA_E_SIZE => c"a structure has a wrong size",
        c::LIBRA_E_ALIGN => c"a pointer is not aligned",
        c::LIBRA_E_COUNT => c"a count is too large",
        c::LIBRA_E_UTF8 => c"a string is not UTF-8",
        c::LIBRA_E_BUFFER => c"a buffer is too small",
        c::LIBRA_E_RESERVED => c"a reserved field is not 0",
        c::LIBRA_E_RANGE => c"a value is out of range",
        c::LIBRA_E_TERMS => c"the list of terms cannot be read",
        c::LIBRA_E_NAME => c"not a name",
        c::LIBRA_E_CONFIG => c"the configuration cannot be taken",
        c::LIBRA_E_SNAPSHOT => c"the snapshot cannot be taken",
        c::LIBRA_E_UNKNOWN_JOB => c"no such job",
        c::LIBRA_E_UNKNOWN_NODE => c"no such node",
        c::LIBRA_E_ID_TAKEN => c"the id is taken",
        c::LIBRA_E_REENTRANT => c"called from the log callback",
        c::LIBRA_E_LOGGER => c"another logger is set",
        c::LIBRA_E_REGISTRY => c"the registry failed",
        c::LIBRA_E_CGROUP => c"a cgroup failed",
        c::LIBRA_E_SYSTEM => c"the system failed",
        c::LIBRA_E_INTERNAL => c"fault of the library",
        c::LIBRA_E_MEMORY => c"out of memory",
        _ => c"unknown code",
    }
}

/// A string for the caller, who gives it back to [`libra_string_free`].
pub(super) fn give(text: String) -> Result<*mut c_char, Fault> {
    // Names and ids have no control characters and JSON escapes them, so this does not fail.
    CString::new(text)
        .map(CString::into_raw)
        .map_err(|_| Fault::new(c::LIBRA_E_INTERNAL, "a text has a NUL in it"))
}

/// See `libra.h`.
///
/// # Safety
/// `text` is NULL or came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: by the contract it came from `give`.
        drop(unsafe { CString::from_raw(text) });
    }
}
