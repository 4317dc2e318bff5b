//! What jobs print.

use libra_page::pages::output::shown;
use libra_page::terminal::{self, Style};

/// The output of a job, as the page shows it: nothing of it is an element, moves a cursor or becomes much longer, and where it is read on the
/// colours go on.
pub fn web_output(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut style = Style::default();
    let html = shown(&text, &mut style).into_string();
    let bad = html
        .chars()
        .find(|c| c.is_control() && !"\n\t".contains(*c));
    assert_eq!(bad, None, "{html:?}");
    for part in html.split('<').skip(1) {
        if part.starts_with("/span>") {
            continue;
        }
        let class = part
            .strip_prefix("span class=\"")
            .and_then(|part| part.split_once("\">"));
        let (class, _) = class.unwrap_or_else(|| panic!("an element: {part:?}"));
        let is = |c: char| c.is_ascii_lowercase() || "- ".contains(c);
        assert!(!class.is_empty() && class.chars().all(is), "{class:?}");
    }
    assert_eq!(
        html.matches("<span").count(),
        html.matches("</span>").count()
    );
    assert_eq!(html.matches('\n').count(), text.matches('\n').count());
    assert!(
        html.len() <= 100 * input.len() + 100,
        "{} bytes of {}",
        html.len(),
        input.len()
    );
    // As it is read in pieces.
    assert_eq!(Style::of(&style.to_string()), style);
    let mut read_on = Style::default();
    let mut left = html.as_str();
    for line in text.split_inclusive('\n') {
        read_on = Style::of(&read_on.to_string());
        let piece = shown(line, &mut read_on).into_string();
        left = left
            .strip_prefix(&piece)
            .unwrap_or_else(|| panic!("{piece:?} is not {left:.1000?}"));
    }
    assert_eq!(left, "");
    for line in text.lines() {
        assert!(!terminal::plain(line).contains(|c: char| c.is_control() && c != '\t'));
    }
}
