//! The book as a handle.
//!
//! A handle is a mutex with a book in it. A panic inside (which would be a fault of ours) does not
//! lock it up: the next call takes the book as it is.

use super::answer::{self, Answer};
use super::enter;
use super::fault::Fault;
use super::header as c;
use super::pointers::{
    Out, OutArray, OutStruct, TextBuffer, hand_out, handle, optional_string, read, string,
    take_back,
};
use super::strings::give;
use libra_config::Config;
use libra_core::book::{Book, BookError, Snapshot};
use libra_core::decision::admission::affordable;
use libra_core::decision::job::OutOfRange;
use libra_wording::errors;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

type Handle = Mutex<Book>;

/// Runs something on the book behind a handle.
///
/// # Safety
/// `book` is NULL or an open handle.
unsafe fn with_book<T>(
    book: *mut c::libra_book,
    work: impl FnOnce(&mut Book) -> Result<T, Fault>,
) -> Result<T, Fault> {
    // SAFETY: the caller's promise; handles come from libra_book_open, which makes this type.
    let book: &Handle = unsafe { handle("book", book) }?;
    work(&mut book.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The latest time a book takes, in seconds.
const LATEST: f64 = 1e12;

/// A book's time never goes back, so one wild value would stop its clock for good.
fn time(now: f64) -> Result<f64, Fault> {
    seconds("now", now)
}

fn seconds(field: &'static str, value: f64) -> Result<f64, Fault> {
    if !(0.0..=LATEST).contains(&value) {
        return Err(OutOfRange {
            field,
            value,
            expected: "seconds, from 0 to 1e12",
        }
        .into());
    }
    Ok(value)
}

/// See `libra.h`.
///
/// # Safety
/// `config` is NULL or ends with a NUL; `book` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_open(
    config: *const c_char,
    book: *mut *mut c::libra_book,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::open("book", book) }?;
        // SAFETY: the caller's promise.
        let config = match unsafe { optional_string("config", config) }? {
            Some(text) => Config::from_toml(text)
                .map_err(|error| Fault::new(c::LIBRA_E_CONFIG, error.to_string()))?,
            None => Config::default(),
        };
        let book = Book::new(
            libra_rules::admission(&config),
            config.provisional_seconds(),
        );
        out.write(hand_out(Handle::new(book)));
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// `book` is NULL or an open handle, and this is its last use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_close(book: *mut c::libra_book) {
    enter(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { take_back::<Handle, _>(book) });
        Ok(0)
    });
}

/// See `libra.h`.
///
/// # Safety
/// `book` is NULL or an open handle, the others NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_set_node(
    book: *mut c::libra_book,
    name: *const c_char,
    node: *const c::libra_node,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (name, node) = unsafe { (string("name", name)?, read(node)?) };
        let (spec, available) = answer::node(&node)?;
        if !node.jobs.is_null() || node.job_count != 0 {
            return Err(Fault::new(
                c::LIBRA_E_RESERVED,
                "node->jobs must be NULL: the book knows the jobs of its nodes",
            ));
        }
        // SAFETY: the caller's promise.
        unsafe { with_book(book, |book| Ok(book.set_node(name, spec, available)?)) }?;
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_set_available(
    book: *mut c::libra_book,
    name: *const c_char,
    available: c_int,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        let available = answer::flag("available", available)?;
        // SAFETY: the caller's promise.
        unsafe { with_book(book, |book| Ok(book.set_available(name, available)?)) }?;
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_admit(
    book: *mut c::libra_book,
    job: *const c::libra_job,
    now: f64,
    decision: *mut c::libra_decision,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let job = unsafe { read(job) }?;
        // SAFETY: the caller's promise.
        let answer = unsafe { Answer::open(decision) }?;
        let request = answer::request(&job)?;
        let now = time(now)?;
        let work = |book: &mut Book| match book.admit(&request, now) {
            Ok(admitted) => {
                if let Err(fault) = answer.room_for(admitted.places.len()) {
                    book.cancel_token(admitted.token, now)?;
                    return Err(fault);
                }
                Ok(answer.accept(
                    admitted.token,
                    admitted.price,
                    true,
                    f64::NAN,
                    &admitted.places,
                ))
            }
            Err(BookError::Refused(refusal)) => {
                let price = book.price_now(&request);
                let within_budget = affordable(price, request.terms.budget);
                answer.refuse(price, within_budget, &refusal, |node| {
                    book.node_name(node).to_string()
                })
            }
            Err(error) => Err(error.into()),
        };
        // SAFETY: the caller's promise.
        unsafe { with_book(book, work) }
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_bind(
    book: *mut c::libra_book,
    token: u64,
    id: *const c_char,
    now: f64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { string("id", id) }?;
        let now = time(now)?;
        // SAFETY: the caller's promise.
        unsafe { with_book(book, |book| Ok(book.bind(token, id, now)?)) }?;
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_started(
    book: *mut c::libra_book,
    id: *const c_char,
    now: f64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { string("id", id) }?;
        let now = time(now)?;
        // SAFETY: the caller's promise.
        unsafe { with_book(book, |book| Ok(book.started(id, now)?)) }?;
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_progress(
    book: *mut c::libra_book,
    id: *const c_char,
    node: *const c_char,
    cput: f64,
    now: f64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (id, node) = unsafe { (string("id", id)?, optional_string("node", node)?) };
        let (cput, now) = (seconds("cput", cput)?, time(now)?);
        let work = |book: &mut Book| Ok(book.progress(id, node, cput, now)?);
        // SAFETY: the caller's promise.
        unsafe { with_book(book, work) }?;
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_ended(
    book: *mut c::libra_book,
    id: *const c_char,
    now: f64,
    outcome: *mut c::libra_outcome,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { string("id", id) }?;
        let now = time(now)?;
        let out = if outcome.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(unsafe { OutStruct::open(outcome) }?)
        };
        // SAFETY: the caller's promise.
        let ending = unsafe { with_book(book, |book| Ok(book.ended(id, now)?)) }?;
        if let Some((place, given)) = out {
            place.write(c::libra_outcome {
                size: given.size,
                delay: ending.delay,
                price: ending.price,
                penalty: ending.penalty,
                met: ending.met.into(),
                reserved: 0,
            });
        }
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_cancel(
    book: *mut c::libra_book,
    id: *const c_char,
    now: f64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { string("id", id) }?;
        let now = time(now)?;
        // SAFETY: the caller's promise.
        unsafe { with_book(book, |book| Ok(book.cancel(id, now)?)) }?;
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_cancel_token(
    book: *mut c::libra_book,
    token: u64,
    now: f64,
) -> c_int {
    enter(|| {
        let now = time(now)?;
        // SAFETY: the caller's promise.
        unsafe { with_book(book, |book| Ok(book.cancel_token(token, now)?)) }?;
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_modify(
    book: *mut c::libra_book,
    id: *const c_char,
    job: *const c::libra_job,
    now: f64,
    decision: *mut c::libra_decision,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (id, job) = unsafe { (string("id", id)?, read(job)?) };
        let answer = if decision.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(unsafe { Answer::open(decision) }?)
        };
        let terms = answer::terms(&job)?;
        let now = time(now)?;
        let work = |book: &mut Book| match (book.modify(id, &terms, now), &answer) {
            (Ok(price), Some(answer)) => Ok(answer.accept_terms(price)),
            (Ok(_), None) => Ok(1),
            (Err(BookError::Refused(refusal)), Some(answer)) => {
                let price = book.price_with(id, &terms)?;
                let within_budget = affordable(price, terms.budget);
                answer.refuse(price, within_budget, &refusal, |node| {
                    book.node_name(node).to_string()
                })
            }
            (Err(BookError::Refused(_)), None) => Ok(0),
            (Err(error), _) => Err(error.into()),
        };
        // SAFETY: the caller's promise.
        unsafe { with_book(book, work) }
    })
}

/// See `libra.h`.
///
/// # Safety
/// `book` is NULL or an open handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_advance(book: *mut c::libra_book, now: f64) -> c_int {
    enter(|| {
        let now = time(now)?;
        let work = |book: &mut Book| {
            book.advance(now);
            Ok(0)
        };
        // SAFETY: the caller's promise.
        unsafe { with_book(book, work) }
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_allocations(
    book: *mut c::libra_book,
    id: *const c_char,
    places: *mut c::libra_allocation,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { string("id", id) }?;
        // SAFETY: the caller's promise.
        let count = unsafe { Out::open("count", count) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { OutArray::open(places, capacity) }?;
        let work = |book: &mut Book| {
            let places = book.places(id)?;
            count.write(places.len());
            if out.too_small_for(places.len()) {
                return Err(Fault::new(
                    c::LIBRA_E_BUFFER,
                    format!("the job is on {} nodes, places has less room", places.len()),
                ));
            }
            for (index, place) in places.iter().enumerate().take(capacity) {
                out.write(
                    index,
                    c::libra_allocation {
                        size: out.stride(),
                        share: place.share,
                        chunks: place.chunks,
                        deadline_status: answer::deadline_status(place.deadline_status),
                        node: name_field(place.node),
                    },
                );
            }
            Ok(0)
        };
        // SAFETY: the caller's promise.
        unsafe { with_book(book, work) }
    })
}

/// A name, which has at most 255 bytes, with its NUL.
fn name_field(name: &str) -> [c_char; c::LIBRA_NAME_SIZE as usize] {
    let mut field = [0; c::LIBRA_NAME_SIZE as usize];
    for (to, from) in field
        .iter_mut()
        .zip(name.bytes().take(libra_core::book::LONGEST_NAME))
    {
        *to = from as c_char;
    }
    field
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_committed(
    book: *mut c::libra_book,
    name: *const c_char,
    processors: *mut f64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::open("processors", processors) }?;
        // SAFETY: the caller's promise.
        out.write(unsafe { with_book(book, |book| Ok(book.committed(name)?)) }?);
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_node_name(
    book: *mut c::libra_book,
    index: usize,
    name: *mut c_char,
    capacity: usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { TextBuffer::open("name", name, capacity) }?;
        let work = |book: &mut Book| {
            if index >= book.node_count() {
                return Err(BookError::UnknownNode(format!("{index}")).into());
            }
            let name = book.node_name(index);
            if name.len() >= out.capacity() {
                return Err(Fault::new(
                    c::LIBRA_E_BUFFER,
                    format!("the name has {} bytes and its NUL", name.len()),
                ));
            }
            out.write(name);
            Ok(0)
        };
        // SAFETY: the caller's promise.
        unsafe { with_book(book, work) }
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_snapshot(
    book: *mut c::libra_book,
    json: *mut *mut c_char,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::open("json", json) }?;
        // SAFETY: the caller's promise.
        let snapshot = unsafe { with_book(book, |book| Ok(book.snapshot())) }?;
        let text = serde_json::to_string(&snapshot)
            .map_err(|error| Fault::new(c::LIBRA_E_INTERNAL, error.to_string()))?;
        out.write(give(text)?);
        Ok(0)
    })
}

/// See `libra.h`.
///
/// # Safety
/// As [`libra_book_set_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_book_rebuild(
    book: *mut c::libra_book,
    json: *const c_char,
    problems: *mut *mut c_char,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let json = unsafe { string("json", json) }?;
        let out = if problems.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(unsafe { Out::open("problems", problems) }?)
        };
        let snapshot: Snapshot = serde_json::from_slice(json.as_bytes()).map_err(|error| {
            Fault::new(c::LIBRA_E_SNAPSHOT, errors::no_snapshot(&error.to_string()))
        })?;
        time(snapshot.now)?;
        // SAFETY: the caller's promise.
        let found = unsafe { with_book(book, |book| Ok(book.rebuild(&snapshot)?)) }?;
        if let Some(out) = out {
            out.write(if found.is_empty() {
                std::ptr::null_mut()
            } else {
                // A record's name may be any text, even one with a NUL.
                let found: Vec<String> = found.iter().map(errors::untaken).collect();
                give(found.join("\n").replace('\0', "?"))?
            });
        }
        Ok(c_int::try_from(found.len()).unwrap_or(c_int::MAX))
    })
}

/// Panics with the book in hand.
#[cfg(test)]
pub(super) fn poison(book: *mut c::libra_book) -> c_int {
    // SAFETY: tests give an open handle.
    enter(|| unsafe { with_book(book, |_| panic!("with the book in hand")) })
}
