//! Words that nobody can guess, and their comparison.

use std::fs::File;
use std::io::Read;

/// 128 random bits as 32 hexadecimal digits, from the kernel.
///
/// # Panics
/// When /dev/urandom cannot be read: nothing that depends on it may go on then.
#[must_use]
pub fn word() -> String {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .expect("/dev/urandom gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if they are the same. Takes as long wherever they differ; how long `given` is can be learnt.
#[must_use]
pub fn same(secret: &str, given: &str) -> bool {
    let (secret, given) = (secret.as_bytes(), given.as_bytes());
    let mut different = u8::from(secret.len() != given.len());
    for (index, byte) in given.iter().enumerate() {
        different |= byte ^ secret.get(index).copied().unwrap_or(0xff);
    }
    // Keeps the compiler from ending the loop early.
    std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_and_not_the_same() {
        let one = word();
        assert_eq!(one.len(), 32);
        assert_ne!(one, word());
        assert!(same(&one, &one.clone()));
        assert!(same("", ""));
        for other in ["", &one[1..], &format!("{one}0"), &one.to_uppercase()] {
            assert!(!same(&one, other) || *other == one, "{other}");
        }
        assert!(!same("", "a"));
    }
}
