//! All work on the caller's pointers: strings, structures, arrays and buffers, checked for what can
//! be checked (NULL, alignment, sizes, counts, encoding) before the first byte is touched.
//!
//! What cannot be checked is the contract of every entry: a pointer that is not NULL points to as
//! much memory as the structure's `size`, the count or the capacity says.

use super::fault::Fault;
use super::header as c;
use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::ptr;

/// A larger structure is an uninitialised `size`, not a newer caller.
const LARGEST: usize = 4096;

/// A structure of the header.
///
/// # Safety
/// `repr(C)`, begins with its `size: usize`, and any bytes are a valid value.
pub(super) unsafe trait Structure: Copy {
    const NAME: &'static str;
}

macro_rules! structures {
    ($($name:ident),*) => {$(
        // SAFETY: made by bindgen from the header, where each begins with `size_t size`; all fields
        // are numbers and pointers.
        unsafe impl Structure for c::$name {
            const NAME: &'static str = stringify!($name);
        }
        const _: () = assert!(std::mem::offset_of!(c::$name, size) == 0);
    )*};
}
structures!(
    libra_job,
    libra_running_job,
    libra_node,
    libra_placement,
    libra_decision,
    libra_outcome,
    libra_allocation,
    libra_host_job,
    libra_usage
);

#[cold]
fn null(name: &str) -> Fault {
    Fault::new(c::LIBRA_E_NULL, format!("{name} is NULL"))
}

#[cold]
fn misaligned<T>(name: &str) -> Fault {
    Fault::new(
        c::LIBRA_E_ALIGN,
        format!("{name} is not aligned to {} bytes", align_of::<T>()),
    )
}

#[inline(always)]
fn check_pointer<T>(name: &str, pointer: *const T) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(null(name));
    }
    if !pointer.is_aligned() {
        return Err(misaligned::<T>(name));
    }
    Ok(())
}

#[inline(always)]
fn check_size<T: Structure>(size: usize) -> Result<(), Fault> {
    if size < size_of::<T>() || size > LARGEST || size % align_of::<T>() != 0 {
        return Err(wrong_size::<T>(size));
    }
    Ok(())
}

#[cold]
fn wrong_size<T: Structure>(size: usize) -> Fault {
    Fault::new(
        c::LIBRA_E_SIZE,
        format!(
            "{} has size {size}, expected {} or a little more; set it to sizeof({0})",
            T::NAME,
            size_of::<T>()
        ),
    )
}

/// Reads a structure.
///
/// # Safety
/// `pointer` is NULL, misaligned, or readable for its `size`.
pub(super) unsafe fn read<T: Structure>(pointer: *const T) -> Result<T, Fault> {
    check_pointer(T::NAME, pointer)?;
    // SAFETY: aligned, not NULL; `size` comes first (Structure).
    check_size::<T>(unsafe { pointer.cast::<usize>().read() })?;
    // SAFETY: `size` says that a whole T can be read, and any bytes are one.
    Ok(unsafe { pointer.read() })
}

/// A structure of the caller that will be written, if all goes well.
pub(super) struct OutStruct<T: Structure>(*mut T);

impl<T: Structure> OutStruct<T> {
    /// Checks the pointer and reads what is there.
    ///
    /// # Safety
    /// `pointer` is NULL, misaligned, or readable and writable for its `size` while this lives.
    pub unsafe fn open(pointer: *mut T) -> Result<(OutStruct<T>, T), Fault> {
        // SAFETY: the caller's promise.
        let value = unsafe { read(pointer.cast_const()) }?;
        Ok((OutStruct(pointer), value))
    }

    /// Writes the part of the structure that this library knows.
    pub fn write(&self, value: T) {
        // SAFETY: `open` found it aligned and large enough, and was promised that it stays.
        unsafe { self.0.write(value) }
    }
}

/// A plain value of the caller that will be written, if all goes well.
pub(super) struct Out<T: Copy>(*mut T);

impl<T: Copy> Out<T> {
    /// Checks the pointer.
    ///
    /// # Safety
    /// `pointer` is NULL, misaligned, or writable for a T while this lives.
    pub unsafe fn open(name: &str, pointer: *mut T) -> Result<Out<T>, Fault> {
        check_pointer(name, pointer.cast_const())?;
        Ok(Out(pointer))
    }

    pub fn write(&self, value: T) {
        // SAFETY: `open` found it aligned and not NULL, and was promised that it stays.
        unsafe { self.0.write(value) }
    }
}

/// An array of the caller's, to read.
#[derive(Clone, Copy)]
pub(super) struct Array<'a, T> {
    base: *const u8,
    stride: usize,
    count: usize,
    elements: PhantomData<&'a T>,
}

impl<'a, T: Structure> Array<'a, T> {
    /// Checks the pointer, the first element's size, and that the whole array can exist.
    ///
    /// # Safety
    /// Where `count` > 0, `base` is NULL, misaligned, or readable for count × the first element's
    /// `size` bytes for 'a.
    #[inline(always)]
    pub unsafe fn open(base: *const T, count: usize) -> Result<Array<'a, T>, Fault> {
        if count == 0 {
            return Ok(Array {
                base: ptr::null(),
                stride: 0,
                count: 0,
                elements: PhantomData,
            });
        }
        check_pointer(T::NAME, base)?;
        // SAFETY: aligned, not NULL, at least one element; `size` comes first (Structure).
        let stride = unsafe { base.cast::<usize>().read() };
        check_size::<T>(stride)?;
        check_count::<T>(count, stride)?;
        Ok(Array {
            base: base.cast(),
            stride,
            count,
            elements: PhantomData,
        })
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// An element, which must be as large as the first.
    ///
    /// # Panics
    /// When there is no such element.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Result<&'a T, Fault> {
        assert!(index < self.count);
        // SAFETY: index < count, and `open` was promised count × stride bytes.
        let element = unsafe { self.base.add(index * self.stride) }.cast::<T>();
        // SAFETY: `size` comes first; the stride is a multiple of the alignment.
        let size = unsafe { element.cast::<usize>().read() };
        if size != self.stride {
            return Err(self.uneven(index, size));
        }
        // SAFETY: stride ≥ size_of T, any bytes are a T, and nobody writes to it during the call.
        Ok(unsafe { &*element })
    }

    #[cold]
    fn uneven(&self, index: usize, size: usize) -> Fault {
        Fault::new(
            c::LIBRA_E_SIZE,
            format!(
                "{} {index} has size {size} and the first of the array {}",
                T::NAME,
                self.stride
            ),
        )
    }
}

#[inline(always)]
fn check_count<T: Structure>(count: usize, stride: usize) -> Result<(), Fault> {
    match count.checked_mul(stride) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(too_many(T::NAME, count)),
    }
}

#[cold]
fn too_many(name: &str, count: usize) -> Fault {
    Fault::new(
        c::LIBRA_E_COUNT,
        format!("{count} of {name} are more than memory can hold"),
    )
}

/// An array of the caller's, to write; it may be absent.
pub(super) struct OutArray<T> {
    base: *mut T,
    stride: usize,
    capacity: usize,
}

impl<T: Structure> OutArray<T> {
    /// Checks as [`Array::open`] does; NULL or a capacity of 0 means that it is not wanted.
    ///
    /// # Safety
    /// Where `capacity` > 0, `base` is NULL, misaligned, or writable for capacity × the first
    /// element's `size` bytes while this lives.
    pub unsafe fn open(base: *mut T, capacity: usize) -> Result<OutArray<T>, Fault> {
        let stride = if capacity == 0 {
            0
        } else {
            check_pointer(T::NAME, base.cast_const())?;
            // SAFETY: aligned, not NULL, at least one element; `size` comes first (Structure).
            let stride = unsafe { base.cast::<usize>().read() };
            check_size::<T>(stride)?;
            check_count::<T>(capacity, stride)?;
            stride
        };
        Ok(OutArray {
            base,
            stride,
            capacity,
        })
    }

    /// Size to be set in each element.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns true if it is wanted, and too small for so many.
    pub fn too_small_for(&self, count: usize) -> bool {
        self.capacity > 0 && count > self.capacity
    }

    /// Writes element `index`; beyond the capacity nothing happens.
    pub fn write(&self, index: usize, value: T) {
        if index < self.capacity {
            // SAFETY: index < capacity, and `open` was promised capacity × stride bytes.
            let element = unsafe { self.base.cast::<u8>().add(index * self.stride) };
            // SAFETY: stride is ≥ size_of T and a multiple of the alignment.
            unsafe { element.cast::<T>().write(value) }
        }
    }
}

/// A buffer of the caller's for text; it may be absent.
pub(super) struct TextBuffer {
    base: *mut c_char,
    capacity: usize,
}

impl TextBuffer {
    /// Checks the pointer and the capacity; a capacity of 0 means that it is not wanted.
    ///
    /// # Safety
    /// Where `capacity` > 0, `base` is NULL or writable for so many bytes while this lives.
    pub unsafe fn open(
        name: &str,
        base: *mut c_char,
        capacity: usize,
    ) -> Result<TextBuffer, Fault> {
        if capacity > 0 && base.is_null() {
            return Err(null(name));
        }
        if capacity > isize::MAX as usize {
            return Err(too_many(name, capacity));
        }
        Ok(TextBuffer { base, capacity })
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes the text, cut to the room, and its NUL.
    pub fn write(&self, text: &str) {
        if self.capacity == 0 {
            return;
        }
        let kept = cut(text, self.capacity - 1);
        // SAFETY: kept + NUL fit into the capacity that `open` was promised; a &str of ours cannot
        // overlap the caller's buffer.
        unsafe {
            ptr::copy_nonoverlapping(kept.as_ptr(), self.base.cast(), kept.len());
            self.base.add(kept.len()).write(0);
        }
    }
}

/// The longest beginning of a text that has so many bytes at most and no broken character.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Writes a text into a buffer of ours, cut to the room, with its NUL.
pub(super) fn write_cut(buffer: &mut [u8], text: &str) {
    let Some(most) = buffer.len().checked_sub(1) else {
        return;
    };
    let kept = cut(text, most);
    buffer[..kept.len()].copy_from_slice(kept.as_bytes());
    buffer[kept.len()] = 0;
}

/// A string that must be there.
///
/// # Safety
/// `pointer` is NULL or points to a string with its NUL that stays as it is for 'a.
pub(super) unsafe fn string<'a>(name: &str, pointer: *const c_char) -> Result<&'a str, Fault> {
    // SAFETY: the caller's promise.
    unsafe { optional_string(name, pointer) }?.ok_or_else(|| null(name))
}

/// A string that may be NULL.
///
/// # Safety
/// As [`string`].
pub(super) unsafe fn optional_string<'a>(
    name: &str,
    pointer: *const c_char,
) -> Result<Option<&'a str>, Fault> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, and the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|error| {
        Fault::new(
            c::LIBRA_E_UTF8,
            format!("{name} is not UTF-8 from byte {} on", error.valid_up_to()),
        )
    })
}

/// What a handle points to.
///
/// # Safety
/// `handle` is NULL or came from [`hand_out`] with the same T and was not taken back for 'a.
pub(super) unsafe fn handle<'a, T, H>(name: &str, handle: *const H) -> Result<&'a T, Fault> {
    let inner = handle.cast::<T>();
    check_pointer(name, inner)?;
    // SAFETY: the caller's promise; only shared references are ever made of it.
    Ok(unsafe { &*inner })
}

/// Gives something away as a handle.
pub(super) fn hand_out<T, H>(inner: T) -> *mut H {
    Box::into_raw(Box::new(inner)).cast()
}

/// Takes a handle back; NULL is nothing.
///
/// # Safety
/// As [`handle`]; it is the last use.
pub(super) unsafe fn take_back<T, H>(handle: *mut H) -> Option<T> {
    let inner = handle.cast::<T>();
    if inner.is_null() || !inner.is_aligned() {
        return None;
    }
    // SAFETY: by the contract it came from `hand_out` and is not used again.
    Some(*unsafe { Box::from_raw(inner) })
}
