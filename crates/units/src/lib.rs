//! Numbers with units, written and read: durations, memory, GPUs, money, indices. A leaf: it knows nobody.
//!
//! Durations and amounts that are printed here can be typed in again.

pub mod duration;
pub mod gpus;
pub mod indices;
pub mod memory;
pub mod money;

/// What somebody else has written, as it may stand in a line of ours: its first 64 characters, none of which ends the line.
pub fn cut(text: &str) -> String {
    printable(text, 64)
}

/// The same of a list or a message: 400 characters, and no more than 900 bytes.
pub fn in_one_line(text: &str) -> String {
    let mut line = printable(text, 400);
    let mut most = line.len().min(900);
    while !line.is_char_boundary(most) {
        most -= 1;
    }
    line.truncate(most);
    line
}

/// Its first characters, none of which moves a cursor or ends the line.
pub fn printable(text: &str, most: usize) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(most).map(shown).collect()
}

/// A name as a key of TOML: in quotes, where it is not one of plain characters.
pub fn toml_key(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => cut(name),
        false => format!("\"{}\"", cut(name)),
    }
}

/// An amount of credits, to a hundredth where it is not whole, `unlimited` for no limit.
pub fn credits(amount: f64) -> String {
    if amount == f64::INFINITY {
        return "unlimited".to_string();
    }
    let hundredths = (amount * 100.0).round() / 100.0;
    if hundredths == amount {
        return format!("{amount}");
    }
    format!("{hundredths:.2}")
}

/// A number of processors, to a thousandth.
pub fn processors(count: f64) -> String {
    let text = format!("{count:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Numbers of processors of which one is too small for the other: to a thousandth, or as many digits more as it takes to see that.
pub fn processors_apart(needed: f64, free: f64) -> (String, String) {
    let both = |digits: usize| (format!("{needed:.digits$}"), format!("{free:.digits$}"));
    match (4..=9).map(both).find(|(needed, free)| needed != free) {
        Some(apart) if processors(needed) == processors(free) => apart,
        _ => (processors(needed), processors(free)),
    }
}

/// A share as percent of a processor, to a tenth.
pub fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// A share as percent of a processor: to a tenth, a tiny one to one figure.
pub fn fine_percent(share: f64) -> String {
    let percent = share * 100.0;
    if !(percent > 0.0 && percent < 0.1) {
        return self::percent(share);
    }
    let decimals = -percent.log10().floor() as usize;
    let text = format!("{percent:.decimals$}");
    // Rounding may have carried: 0.0099 is 0.010.
    format!("{} %", text.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::{fine_percent, in_one_line};

    #[test]
    fn a_line_is_short_whatever_is_in_it() {
        for (sign, bytes) in [("a", 400), ("\u{7f}", 900), ("é", 800), ("\u{1f600}", 900)] {
            let line = in_one_line(&sign.repeat(1000));
            assert_eq!(line.len(), bytes, "{sign}");
            assert!(!line.chars().any(char::is_control));
        }
        assert_eq!(in_one_line("a\nb"), "a\u{fffd}b");
    }

    #[test]
    fn a_share_is_never_shown_as_nothing() {
        for (share, text) in [
            (0.525, "52.5 %"),
            (0.001, "0.1 %"),
            (0.0006, "0.06 %"),
            (0.000_03, "0.003 %"),
            (0.000_099_6, "0.01 %"),
            (3e-9, "0.0000003 %"),
            (0.0, "0 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(fine_percent(share), text);
        }
    }
}
