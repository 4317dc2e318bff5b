//! Enforcement for hooks on execution hosts, as a handle.

use super::answer;
use super::enter;
use super::fault::Fault;
use super::header as c;
use super::pointers::{Out, OutStruct, hand_out, handle, optional_string, read, string, take_back};
use super::strings::give;
use libra_config::Config;
use libra_host::batch::BatchJob;
use libra_host::{Host, HostError};
use std::ffi::{c_char, c_int};

impl From<HostError> for Fault {
    fn from(error: HostError) -> Fault {
        let code = match &error {
            HostError::Registry(_) | HostError::OtherAdmitter(_) => c::LIBRA_E_REGISTRY,
            HostError::Cgroup(_) | HostError::NoCap { .. } => c::LIBRA_E_CGROUP,
            HostError::System { .. } | HostError::StillThere(_) => c::LIBRA_E_SYSTEM,
            HostError::UnknownJob(_) => c::LIBRA_E_UNKNOWN_JOB,
            HostError::Id { .. } => c::LIBRA_E_NAME,
            // No job of this interface has another class than that of deadlines.
            HostError::OutOfRange(_) | HostError::NoRoom { .. } | HostError::Class(_) => {
                c::LIBRA_E_RANGE
            }
            // No function of this interface asks for one.
            HostError::Quote(_) => c::LIBRA_E_UNKNOWN_JOB,
        };
        Fault::new(code, error.to_string())
    }
}

/// The host behind a handle.
///
/// # Safety
/// `host` is NULL or an open handle.
unsafe fn open_host<'a>(host: *mut c::libra_host) -> Result<&'a Host, Fault> {
    // SAFETY: the caller's promise; handles come from libra_host_open, which makes this type.
    unsafe { handle("host", host) }
}

/// See `libra.h`.
///
/// # Safety
/// `config` is NULL or ends with a NUL; `host` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_host_open(
    config: *const c_char,
    host: *mut *mut c::libra_host,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, config) =
            unsafe { (Out::open("host", host)?, optional_string("config", config)?) };
        let config = match config {
            Some(text) => Config::from_toml(text)
                .map_err(|error| Fault::new(c::LIBRA_E_CONFIG, error.to_string()))?,
            None => Config::default(),
        };
        let host = Host::open(config)?;
        let enforced = host.unenforced().is_none();
        out.write(hand_out(host));
        Ok(c_int::from(enforced))
    })
}

/// See `libra.h`.
///
/// # Safety
/// `host` is NULL or an open handle, and this is its last use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_host_close(host: *mut c::libra_host) {
    enter(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { take_back::<Host, _>(host) });
        Ok(0)
    });
}

/// See `libra.h`.
///
/// # Safety
/// `host` is NULL or an open handle, `text` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_host_describe(
    host: *mut c::libra_host,
    text: *mut *mut c_char,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (host, out) = unsafe { (open_host(host)?, Out::open("text", text)?) };
        out.write(give(host.enforcement())?);
        Ok(c_int::from(host.unenforced().is_none()))
    })
}

/// See `libra.h`.
///
/// # Safety
/// `host` is NULL or an open handle, the others NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_host_begin(
    host: *mut c::libra_host,
    id: *const c_char,
    job: *const c::libra_job,
    part: *const c::libra_host_job,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (host, id, job, part) =
            unsafe { (open_host(host)?, string("id", id)?, read(job)?, read(part)?) };
        let unenforced = host.begin(&BatchJob {
            id: id.to_string(),
            request: answer::request(&job)?,
            slots: part.slots,
            share: part.share,
            price: part.price,
            elapsed: part.elapsed,
            margin: None,
            user: part.user,
        })?;
        if let Some(reason) = &unenforced {
            super::strings::set_last_error(reason);
        }
        Ok(c_int::from(unenforced.is_none()))
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_host_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_host_attach(
    host: *mut c::libra_host,
    id: *const c_char,
    pid: i32,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (host, id) = unsafe { (open_host(host)?, string("id", id)?) };
        if pid < 1 {
            return Err(Fault::new(
                c::LIBRA_E_RANGE,
                format!("pid is {pid}, expected the number of a process"),
            ));
        }
        let placed = host.attach(id, pid, true)?;
        Ok(c_int::try_from(placed).unwrap_or(c_int::MAX))
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_host_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_host_usage(
    host: *mut c::libra_host,
    id: *const c_char,
    usage: *mut c::libra_usage,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (host, id, (place, given)) =
            unsafe { (open_host(host)?, string("id", id)?, OutStruct::open(usage)?) };
        let found = host.usage(id)?;
        place.write(c::libra_usage {
            cput: found.cput,
            share: found.share,
            needed_share: found.need.share,
            deadline_status: answer::deadline_status(found.need.deadline_status),
            processes: u32::try_from(found.processes).unwrap_or(u32::MAX),
            ..given
        });
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// `host` is NULL or an open handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_host_adjust(host: *mut c::libra_host) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let host = unsafe { open_host(host) }?;
        Ok(c_int::from(host.adjust()?))
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_host_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_host_end(
    host: *mut c::libra_host,
    id: *const c_char,
    outcome: *mut c::libra_outcome,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (host, id) = unsafe { (open_host(host)?, string("id", id)?) };
        let place = if outcome.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(unsafe { OutStruct::open(outcome) }?)
        };
        let entry = host.end(id)?;
        if let (Some((place, given)), Some(ending)) = (place, &entry.ending) {
            let delay = (ending.at - entry.due()).max(0.0);
            place.write(c::libra_outcome {
                delay,
                price: entry.price,
                penalty: delay * entry.request.terms.penalty_rate,
                met: i32::from(ending.met),
                ..given
            });
        }
        Ok(0)
    })
}
