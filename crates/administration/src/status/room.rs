//! What the output has room for: lines are cut to it, visibly.

use super::paint::Paint;

/// What the output has room for.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Characters a line; None if nothing is to be cut.
    pub width: Option<usize>,
    /// Lines; None if all are to be shown.
    pub lines: Option<usize>,
    /// More than ASCII can be shown.
    pub utf8: bool,
    /// Whether colours can be shown.
    pub paint: Paint,
}

impl Room {
    /// For what is written once: nothing is cut off.
    pub fn unlimited(paint: Paint) -> Room {
        Room {
            width: None,
            lines: None,
            utf8: true,
            paint,
        }
    }

    /// A line that fits.
    pub fn fitted(&self, line: &str) -> String {
        match self.width {
            Some(width) => self.cut(line, width),
            None => line.to_string(),
        }
    }

    /// What stands for what was cut off.
    pub fn more(&self) -> &'static str {
        if self.utf8 { "…" } else { "..." }
    }

    /// Cuts what does not fit into `width`, visibly.
    pub fn cut(&self, text: &str, width: usize) -> String {
        if columns(text) <= width {
            return text.to_string();
        }
        let more = self.more();
        let mut left = width.saturating_sub(more.chars().count());
        let mut cut: String = text
            .chars()
            .take_while(|&c| match left.checked_sub(column(c)) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => false,
            })
            .collect();
        cut.push_str(more);
        // Where there is less room than for the dots themselves.
        cut.chars().take(width).collect()
    }
}

/// Columns of a character on a terminal: never fewer than it takes, so that no line wraps.
fn column(c: char) -> usize {
    let narrow = c < '\u{1100}' || ('\u{2010}'..'\u{2600}').contains(&c);
    if narrow { 1 } else { 2 }
}

/// Columns of a text on a terminal.
pub fn columns(text: &str) -> usize {
    text.chars().map(column).sum()
}
