//! As much XML as qstat and qhost write: elements, attributes, texts and the five entities. No declarations, no namespaces; comments and
//! processing instructions are passed over. Pure.
//!
//! What 8.1.9 writes is not always XML: after a restart of qmaster the tasks of a job are elements called `JATASK:      49.`, and `<` in a
//! text is `%lt;`. Both are read as they are meant, or left as they are: a job must not hide the others.

/// Deepest nesting that is read; what Grid Engine writes has ten levels.
const DEEPEST: usize = 64;

/// An element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub attributes: Vec<(String, String)>,
    /// The text in it, of all its parts, without blanks at both ends.
    pub text: String,
    /// The elements in it.
    pub children: Vec<Element>,
}

/// Text that is not as Grid Engine writes it; where, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no XML of Grid Engine's: {what} at byte {at}")]
pub struct XmlError {
    what: &'static str,
    at: usize,
}

impl Element {
    /// The first child of this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All children of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child of this name; empty if there is none.
    pub fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.as_str())
    }

    /// The number in the first child of this name.
    pub fn number_of<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text_of(name).parse().ok()
    }

    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        (self.attributes.iter())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// All elements below of this name, at any depth.
    pub fn below(&self, name: &str) -> Vec<&Element> {
        let mut found = Vec::new();
        for child in &self.children {
            if child.name == name {
                found.push(child);
            }
            found.extend(child.below(name));
        }
        found
    }
}

/// Reads a document: its one element.
///
/// # Errors
/// Where it is none.
pub fn parse(text: &str) -> Result<Element, XmlError> {
    let mut parser = Parser { text, at: 0 };
    parser.pass_over()?;
    let root = parser.element(0)?;
    Ok(root)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, XmlError> {
        Err(XmlError { what, at: self.at })
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// What comes before `end`, which is taken too.
    fn until(&mut self, end: &str) -> Result<&'a str, XmlError> {
        match self.rest().find(end) {
            Some(length) => {
                let before = &self.rest()[..length];
                self.at += length + end.len();
                Ok(before)
            }
            None => self.fail("it is cut off"),
        }
    }

    /// Blanks, `<?…?>`, `<!…>` and comments.
    fn pass_over(&mut self) -> Result<(), XmlError> {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            if self.take("<!--") {
                self.until("-->")?;
            } else if self.take("<?") {
                self.until("?>")?;
            } else if self.take("<!") {
                self.until(">")?;
            } else {
                return Ok(());
            }
        }
    }

    fn element(&mut self, depth: usize) -> Result<Element, XmlError> {
        if depth > DEEPEST {
            return self.fail("too deep");
        }
        if !self.take("<") {
            return self.fail("no element");
        }
        let begin = self.at;
        let mut element = Element {
            name: self.name()?,
            ..Element::default()
        };
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            if self.take("/>") {
                return Ok(element);
            }
            if self.take(">") {
                break;
            }
            let key = self.name()?;
            let quote = ["=\"", "='"].into_iter().find(|quote| self.take(quote));
            let Some(quote) = quote else {
                // A name with blanks in it.
                self.at = begin;
                element.name = self.until(">")?.trim_end().to_string();
                break;
            };
            let value = self.until(&quote[1..])?;
            element.attributes.push((key, unescape(value)));
        }
        let mut text = String::new();
        loop {
            let Some(next) = self.rest().find('<') else {
                return self.fail("it is cut off");
            };
            text.push_str(&unescape(&self.rest()[..next]));
            self.at += next;
            if self.take("</") {
                if self.until(">")?.trim_end() != element.name {
                    return self.fail("the end of another element");
                }
                element.text = text.trim().to_string();
                return Ok(element);
            }
            if self.take("<!--") {
                self.until("-->")?;
            } else {
                element.children.push(self.element(depth + 1)?);
            }
        }
    }

    fn name(&mut self) -> Result<String, XmlError> {
        let is_end = |c: char| c.is_whitespace() || "<>/='\"".contains(c);
        let length = self.rest().find(is_end).unwrap_or(self.rest().len());
        if length == 0 {
            return self.fail("no name");
        }
        let name = self.rest()[..length].to_string();
        self.at += length;
        Ok(name)
    }
}

fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_string();
    }
    let mut plain = text.to_string();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(entity, character);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_texts_and_entities_are_read() {
        let text = "<?xml version='1.0'?>\n<!-- a --><job_info  xmlns:xsd=\"http://x\">\n <a state='r'> one &amp;amp; &lt;two&gt; </a><b/><a>2</a>\n</job_info>\n";
        let root = parse(text).expect("it is one");
        assert_eq!(root.name, "job_info");
        assert_eq!(root.text_of("a"), "one &amp; <two>");
        assert_eq!(
            root.child("a").and_then(|a| a.attribute("state")),
            Some("r")
        );
        assert_eq!(root.all("a").count(), 2);
        assert_eq!(root.below("b").len(), 1);
        assert_eq!(root.number_of::<u32>("b"), None);
    }

    #[test]
    fn a_name_with_blanks_is_a_name() {
        let root = parse("<t>\n <JATASK:      49.>\n<n>1</n> </JATASK:      49.>\n</t>")
            .expect("it is read");
        assert_eq!(root.children[0].name, "JATASK:      49.");
        assert_eq!(root.children[0].number_of("n"), Some(1));
        parse("<a b></b>").expect_err("another end");
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "x",
            "<a>",
            "<a></b>",
            "<a b></a>",
            "<a b='></a>",
            "<a",
            "<>",
            &"<a>".repeat(100_000),
        ] {
            parse(text).expect_err("it is none");
        }
    }
}
