//! Panics: none may leave the library, and none may print.
//!
//! There should be none at all; a panic in here is a fault of ours. `catch_unwind` keeps it from
//! the caller. What remains is std's hook, which prints to stderr before the unwinding starts, and a
//! batch server's stderr is not ours. liblibra.so has a std of its own, so a hook set in it is not
//! the hook of the program around it, even when that is written in Rust. In a Rust program that links
//! the rlib std is shared; therefore the hook is set once, stays, keeps the one before it, and hands
//! on every panic that does not come from inside a call of this module.

use super::fault::Fault;
use super::header::LIBRA_E_INTERNAL;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::{Once, OnceLock};

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

static BEFORE: OnceLock<Hook> = OnceLock::new();

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn install() {
    static ONCE: Once = Once::new();
    // Hooks cannot be changed while this thread panics; then the next call does it.
    if ONCE.is_completed() || std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        // Neither box takes memory: the closure has no captures, std's own hook is a function.
        let _ = BEFORE.set(take_hook());
        set_hook(Box::new(|info| {
            if INSIDE.get() {
                log::error!("{info}");
            } else if let Some(before) = BEFORE.get() {
                before(info);
            }
        }));
    });
}

/// Runs the work; a panic becomes [`LIBRA_E_INTERNAL`].
pub(super) fn contain<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    install();
    let outer = INSIDE.replace(true);
    // Unwind safety: the only state that outlives a call is a book, and each of its calls checks.
    let result = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(outer);
    result.unwrap_or_else(|payload| Err(fault(payload)))
}

fn fault(payload: Box<dyn Any + Send>) -> Fault {
    let said = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    if said.is_none() {
        // Dropping something unknown could panic once more, outside of the boundary.
        std::mem::forget(payload);
    }
    Fault::new(
        LIBRA_E_INTERNAL,
        format!(
            "fault of the library, please report it: {}",
            said.as_deref().unwrap_or("panic")
        ),
    )
}
