//! HTML that the live page and the reports have in common.

use super::markup::Escaped;
use maud::{DOCTYPE, Markup, html};

/// A document. `head`: what stands in its head besides what all documents have, its title first.
pub fn document(head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                (head)
            }
            body { (body) }
        }
        // A file of text ends with a line break.
        "\n"
    }
}

/// Names and what is said of each: what stands in a `dl`.
pub fn definitions<N: AsRef<str>, T: AsRef<str>>(
    pairs: impl IntoIterator<Item = (N, T)>,
) -> Markup {
    html! {
        @for (name, text) in pairs {
            dt { (Escaped(name)) }
            dd { (Escaped(text)) }
        }
    }
}

/// Headings of columns: what stands in the row of a `thead`.
pub fn headings<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Markup {
    html! {
        @for name in names {
            th scope="col" { (Escaped(name)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_what_all_have_and_ends_a_line() {
        let page = document(&html! { title { "a < b" } }, &html! { p { "c" } }).into_string();
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\"><head><meta charset"));
        assert!(page.contains("<title>a &lt; b</title></head><body><p>c</p></body>"));
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn names_and_texts_are_escaped() {
        let list = definitions([("<", "&\u{1b}")]).into_string();
        assert_eq!(list, "<dt>&lt;</dt><dd>&amp;\u{fffd}</dd>");
        let heads = headings(["a", "\""]).into_string();
        assert_eq!(
            heads,
            "<th scope=\"col\">a</th><th scope=\"col\">&quot;</th>"
        );
    }
}
