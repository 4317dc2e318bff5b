//! Texts from and to Slurm. What Slurm is to keep is allocated by Slurm's own allocator: it frees it so.

use crate::slurm;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

unsafe extern "C" {
    // Of libslurm's plugin interface; slurm.h does not declare them.
    fn slurm_xstrdup(text: *const c_char) -> *mut c_char;
    fn slurm_xfree(item: *mut *mut c_void);
    fn slurm_xrecalloc(
        item: *mut *mut c_void,
        count: usize,
        size: usize,
        clear: bool,
        may_fail: bool,
        file: *const c_char,
        line: c_int,
        function: *const c_char,
    ) -> *mut c_void;
}

/// A text of Slurm's; None if there is none or it is empty.
///
/// # Safety
/// `text` is null or ends with a NUL and stays as it is during the call.
pub(crate) unsafe fn read(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    (!text.is_empty()).then(|| text.into_owned())
}

/// A copy in Slurm's memory; what is behind a NUL is cut off.
pub(crate) fn duplicate(text: &str) -> *mut c_char {
    let text = c_string(text);
    // SAFETY: a text that ends with a NUL; Slurm copies it.
    unsafe { slurm_xstrdup(text.as_ptr()) }
}

/// Puts another text into a field of Slurm's.
///
/// # Safety
/// `field` is null or a text of Slurm's allocator that nobody else holds.
pub(crate) unsafe fn replace(field: &mut *mut c_char, text: &str) {
    let new = duplicate(text);
    // SAFETY: the caller's; freeing null is nothing.
    unsafe { free(field) };
    *field = new;
}

/// Frees a text of Slurm's allocator and forgets it.
///
/// # Safety
/// As [`replace`].
pub(crate) unsafe fn free(field: &mut *mut c_char) {
    let item: *mut *mut c_char = field;
    // SAFETY: the caller's; slurm_xfree sets the field to null.
    unsafe { slurm_xfree(item.cast()) };
}

/// Makes a list of texts longer by one text.
///
/// # Safety
/// `list` is null or of Slurm's allocator, with `count` texts of the same.
pub(crate) unsafe fn append(list: &mut *mut *mut c_char, count: &mut u32, text: &str) {
    let item: *mut *mut *mut c_char = list;
    let place = *count as usize;
    // One more for the null that ends such a list where it is an environment.
    // SAFETY: the caller's; the new places are zeroed.
    unsafe {
        slurm_xrecalloc(
            item.cast(),
            place + 2,
            size_of::<*mut c_char>(),
            true,
            false,
            c"libra".as_ptr(),
            0,
            c"append".as_ptr(),
        );
        *list.add(place) = duplicate(text);
    }
    *count += 1;
}

/// Every text of a list of Slurm's.
///
/// # Safety
/// `list` is null or has `count` places, each null or a text.
pub(crate) unsafe fn list(list: *const *mut c_char, count: u32) -> Vec<String> {
    if list.is_null() {
        return Vec::new();
    }
    (0..count as usize)
        // SAFETY: the caller's.
        .filter_map(|place| unsafe { read(*list.add(place)) })
        .collect()
}

/// Takes texts out of a list, and closes the gap.
///
/// # Safety
/// As [`append`].
pub(crate) unsafe fn take_out(list: *mut *mut c_char, count: &mut u32, out: fn(&[u8]) -> bool) {
    if list.is_null() {
        return;
    }
    let mut kept = 0;
    for place in 0..*count as usize {
        // SAFETY: within the list.
        let text = unsafe { &mut *list.add(place) };
        // SAFETY: a text of the list, which nobody changes meanwhile.
        if !text.is_null() && out(unsafe { CStr::from_ptr(*text) }.to_bytes()) {
            // SAFETY: it is Slurm's and in no other list.
            unsafe { free(text) };
            continue;
        }
        let moved = std::mem::replace(text, std::ptr::null_mut());
        // SAFETY: before or at this place.
        unsafe { *list.add(kept) = moved };
        kept += 1;
    }
    *count = u32::try_from(kept).unwrap_or(0);
}

pub(crate) fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Longest list of a user's that is read, in bytes: what names a thousand nodes one by one is written as a few ranges.
const LONGEST_LIST: usize = 16 * 1024;

/// Most names in it: Slurm itself takes no more in one range.
const MOST_NAMES: usize = 65_536;

/// The names in a list of hosts: `n[1-3],x`.
pub fn hosts(list: &str) -> Vec<String> {
    first_hosts(list, usize::MAX)
}

/// The same of a list that a user has written. None if it is too long: a range of ten bytes is 65,536 names, a megabyte of
/// them more than any memory holds, and slurmctld holds its locks meanwhile.
pub fn hosts_of_user(list: &str) -> Option<Vec<String>> {
    if list.len() > LONGEST_LIST {
        return None;
    }
    let names = first_hosts(list, MOST_NAMES + 1);
    (names.len() <= MOST_NAMES).then_some(names)
}

fn first_hosts(list: &str, most: usize) -> Vec<String> {
    let list = c_string(list);
    let mut names = Vec::new();
    // SAFETY: Slurm copies what it needs; each name that it hands out is malloc'ed and ours to free.
    unsafe {
        let hosts = slurm::slurm_hostlist_create(list.as_ptr());
        if hosts.is_null() {
            return names;
        }
        while names.len() < most {
            let name = slurm::slurm_hostlist_shift(hosts);
            if name.is_null() {
                break;
            }
            names.extend(read(name));
            libc_free(name);
        }
        slurm::slurm_hostlist_destroy(hosts);
    }
    names
}

unsafe fn libc_free(text: *mut c_char) {
    unsafe extern "C" {
        fn free(item: *mut c_void);
    }
    // SAFETY: the caller's: memory of malloc.
    unsafe { free(text.cast()) };
}
