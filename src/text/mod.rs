//! Text for people and from people: durations, amounts, memory, and the `-W` list of terms.
//!
//! Durations and amounts that are printed here can be typed in again.

pub mod duration;
pub mod indices;
pub mod memory;
pub mod terms;
pub mod words;

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

/// A share as percent of a processor, to a tenth.
pub fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}
