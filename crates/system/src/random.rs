//! Random bits of the kernel's, for numbers that nobody may guess and for identities that no other host has.

use std::fs::File;
use std::io::{self, Read};

/// 128 random bits.
///
/// # Errors
/// When /dev/urandom cannot be read: nothing that depends on it may go on then.
pub fn bits() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}
