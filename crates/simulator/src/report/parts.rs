//! What all parts of a report look like.

use libra_plots::markup::Escaped;
use maud::{Markup, html};

/// A part of a report.
pub fn section(heading: &str, body: &Markup) -> Markup {
    html! {
        section {
            h2 { (heading) }
            (body)
        }
    }
}

/// One point for each text.
pub fn bullets<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Markup {
    html! {
        ul {
            @for text in texts {
                li { (Escaped(text)) }
            }
        }
    }
}
