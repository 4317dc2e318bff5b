//! What text and numbers are in markup, and writing SVG: the elements that the plots are made of.

use super::Size;
use super::style;
use maud::{Markup, PreEscaped, Render};
use std::fmt::{self, Display, Write};

/// Text that comes from outside, as it may stand in an element or in a quoted attribute, of SVG or in a template of HTML.
///
/// A template escapes every string by itself, but lets control characters through. Names and outputs of jobs, the words of batch systems
/// and what users type may hold them: an escape sequence in a page that is saved is obeyed by the terminal that shows it, a NUL is an
/// error of parsing, and no SVG may hold either. So whatever is not of our own making goes through here, where they become the
/// replacement character; line breaks and tabs stay.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<T: AsRef<str>>(pub T);

impl<T: AsRef<str>> Render for Escaped<T> {
    fn render_to(&self, buffer: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(buffer, "{self}");
    }
}

impl<T: AsRef<str>> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.as_ref().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' => f.write_char(c)?,
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    f.write_char('\u{fffd}')?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A length in pixels, to a tenth; 0 for what is no number, so that no drawing is ever invalid.
#[derive(Debug, Clone, Copy)]
pub struct Px(pub f64);

impl Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0.clamp(-1e6, 1e6) * 10.0).round();
        let tenths = if tenths.is_finite() { tenths } else { 0.0 };
        // Adding 0 turns -0 into 0.
        write!(f, "{}", tenths / 10.0 + 0.0)
    }
}

/// Where a text stands against its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// An SVG in the making.
#[derive(Debug)]
pub struct Drawing {
    size: Size,
    body: String,
}

impl Drawing {
    /// An empty one.
    pub fn new(size: Size) -> Drawing {
        Drawing {
            size,
            body: String::new(),
        }
    }

    /// Its size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// A line of text whose baseline is at `y`. A class or none, see [`style::CSS`].
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = attribute("class", class);
        self.raw(format_args!(
            "<text{class} x=\"{}\" y=\"{}\"{anchor}>{}</text>\n",
            Px(x),
            Px(y),
            Escaped(text)
        ));
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, y1, x2, y2) = (Px(x1), Px(y1), Px(x2), Px(y2));
        self.path(class, &format!("M{x1} {y1}L{x2} {y2}"));
    }

    /// Any path. `data` is made of [`Px`] and letters only.
    pub fn path(&mut self, class: &str, data: &str) {
        let class = attribute("class", class);
        self.raw(format_args!("<path{class} d=\"{data}\"/>\n"));
    }

    /// A rectangle.
    pub fn rectangle(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let class = attribute("class", class);
        self.raw(format_args!(
            "<rect{class} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
            Px(x),
            Px(y),
            Px(width.max(0.0)),
            Px(height.max(0.0))
        ));
    }

    /// A part of a page: without style, which the page has. `id` must be unique there and a plain word.
    pub fn inline(&self, id: &str, class: &str, title: &str, description: &str) -> Markup {
        let (Size { width, height }, body) = (self.size, &self.body);
        let (width, height, class) = (Px(width), Px(height), format!("plot {class}"));
        let head = head(id, title, description);
        let class = class.trim_end();
        PreEscaped(format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\">\n{head}{body}</svg>\n"
        ))
    }

    /// A file of its own.
    pub fn file(&self, title: &str, description: &str) -> String {
        let (body, css) = (&self.body, style::CSS);
        // A margin around what reaches to the edges.
        let (width, height) = (Px(self.size.width + 24.0), Px(self.size.height + 16.0));
        let head = head("plot", title, description);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"-12 -6 {width} {height}\" role=\"img\" \
             aria-labelledby=\"plot-t plot-d\">\n{head}<style>\n{css}</style>\n\
             <rect class=\"ground\" x=\"-12\" y=\"-6\" width=\"{width}\" height=\"{height}\"/>\n\
             {body}</svg>\n"
        )
    }

    fn raw(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.body.write_fmt(markup);
    }
}

fn head(id: &str, title: &str, description: &str) -> String {
    format!(
        "<title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n",
        Escaped(title),
        Escaped(description)
    )
}

fn attribute(name: &str, value: &str) -> String {
    match value {
        "" => String::new(),
        value => format!(" {name}=\"{value}\""),
    }
}

/// About how wide a text is, in pixels: rather too wide, since fonts differ.
pub fn width(text: &str, font: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' | ' ' => 0.34,
            'f' | 't' | 'r' | '(' | ')' | '-' | '/' | 'I' => 0.42,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
            'A'..='Z' => 0.74,
            c if c < '\u{1100}' => 0.64,
            _ => 1.05,
        })
        .sum();
    em * font
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_place() {
        let nasty = "</title><script>alert('x')</script> \"&\u{0}\u{1b}[31m";
        let escaped = Escaped(nasty).to_string();
        assert_eq!(
            escaped,
            "&lt;/title&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &quot;&amp;\u{fffd}\u{fffd}[31m"
        );
    }

    #[test]
    fn lengths_are_short_and_always_numbers() {
        for (length, text) in [
            (1.0, "1"),
            (1.24, "1.2"),
            (-0.01, "0"),
            (f64::NAN, "0"),
            (f64::INFINITY, "1000000"),
        ] {
            assert_eq!(Px(length).to_string(), text);
        }
    }
}
