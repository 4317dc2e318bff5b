//! The one function of PBS's hooks, and the one book that a pbs_server process has.
//!
//! A static, because nothing else outlives the hooks' interpreter: PBS restarts that every hundred hooks, and
//! a handle that Python holds would be lost with it. pbs_server calls on one thread.

use super::enter;
use super::fault::Fault;
use super::header as c;
use super::pointers::{Out, string};
use super::strings::give;
use libra_pbs::process::{Failure, Process};
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

/// The budget of the job that the event is about; the budgets of other jobs are in it too.
#[cfg(feature = "test-faults")]
fn own_budget(event: &str) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(event).ok()?;
    Some(event["job"]["terms"]["budget"].as_str()?.to_string())
}

/// See `libra.h`.
///
/// # Safety
/// `event` ends with a NUL; `answer` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_pbs_event(event: *const c_char, answer: *mut *mut c_char) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, event) = unsafe { (Out::open("answer", answer)?, string("event", event)?) };
        #[cfg(feature = "test-faults")]
        assert_ne!(
            own_budget(event).as_deref(),
            Some("666"),
            "as the test asked"
        );
        // After a panic inside, what there is may be half changed: it is built anew from PBS's records.
        let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut working = process.take().unwrap_or_default();
        let answered = working.answer(event);
        *process = Some(working);
        let text = answered.map_err(|failure| match &failure {
            Failure::Config(error) => Fault::new(c::LIBRA_E_CONFIG, error.to_string()),
            Failure::Event(error) => Fault::new(c::LIBRA_E_TERMS, error.to_string()),
            Failure::Host(error) => Fault::new(c::LIBRA_E_SYSTEM, error.to_string()),
        })?;
        out.write(give(text)?);
        Ok(0)
    })
}
