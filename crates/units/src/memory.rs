//! Amounts of memory as people write them: `512MiB`, `64GiB`, `4gb`, plain bytes.

/// Why a text is not an amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an amount of memory; write bytes (1048576) or a unit (512MiB, 64GiB, 4gb)")]
pub struct NotMemory(String);

/// Units as PBS, Slurm and people write them. PBS's `kb mb gb` and Slurm's `K M G` are powers of
/// 1024 in both systems, so they are here.
const UNITS: [(&str, u32); 13] = [
    ("kib", 10),
    ("mib", 20),
    ("gib", 30),
    ("tib", 40),
    ("kb", 10),
    ("mb", 20),
    ("gb", 30),
    ("tb", 40),
    ("k", 10),
    ("m", 20),
    ("g", 30),
    ("t", 40),
    ("b", 0),
];

/// Reads an amount of memory, in bytes.
///
/// # Errors
/// When it is not a whole number with an optional unit, or does not fit into 64 bits.
pub fn parse(text: &str) -> Result<u64, NotMemory> {
    let lower = text.trim().to_ascii_lowercase();
    let refuse = || NotMemory(super::cut(text.trim()));
    let (digits, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?, *shift)))
        .unwrap_or((lower.as_str(), 0));
    let digits = digits.trim_end();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refuse());
    }
    let count: u64 = digits.parse().map_err(|_| refuse())?;
    count.checked_mul(1 << shift).ok_or_else(refuse)
}

/// An amount of memory for reading.
pub fn show(bytes: u64) -> String {
    if bytes == u64::MAX {
        return "unlimited".to_string();
    }
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        let amount = bytes as f64 / f64::from(1u32 << (shift / 2)).powi(2);
        if amount >= 1.0 {
            let text = format!("{amount:.1}");
            return format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text));
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_write_memory() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("512MiB", 512 << 20),
            ("4gb", 4 << 30),
            ("64 GiB", 64 << 30),
            ("2T", 2 << 40),
            ("10b", 10),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5GiB", "99999999999T", "ten"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_memory() {
        assert_eq!(show(512 << 20), "512 MiB");
        assert_eq!(show(3 << 29), "1.5 GiB");
        assert_eq!(show(7), "7 B");
        assert_eq!(show(u64::MAX), "unlimited");
    }
}
