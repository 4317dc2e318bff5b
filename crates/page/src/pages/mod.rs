//! The pages: data in, HTML out. Pure; whatever comes from outside is escaped where it is written.
//!
//! Addresses are relative and all pages stand beside each other, so a proxy may put any path in front. There are no
//! styles in attributes and no scripts in pages: the policy of [`super::guard`] forbids them.

pub mod account;
pub mod cluster;
pub mod curve;
pub mod job;
pub mod jobs;
pub mod submit;
pub mod verdict;

use super::system::Kind;
use libra_plots::markup::Escaped;
use libra_plots::style;

/// What our pages run.
pub const SCRIPT: &str = include_str!("page.js");

/// The sign in the browser's tab: a pair of scales.
pub const ICON: &str = include_str!("icon.svg");

/// What they look like.
pub fn stylesheet() -> String {
    format!("{}{}", include_str!("page.css"), style::CSS)
}

/// What every page is told.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Where jobs go.
    pub kind: Kind,
    /// The name of this host.
    pub host: &'a str,
    /// The user.
    pub user: &'a str,
    /// The word that forms have to say.
    pub word: &'a str,
    /// Now, seconds since 1970.
    pub now: f64,
    /// A time of day in the site's zone, from seconds since 1970.
    pub time: fn(f64) -> String,
}

/// The pages that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The form.
    Submit,
    /// The list.
    Jobs,
    /// One of them.
    Job,
    /// Money.
    Account,
    /// Nodes.
    Cluster,
}

const MENU: [(Place, &str, &str); 4] = [
    (Place::Submit, "submit", "Submit"),
    (Place::Jobs, "jobs", "Jobs"),
    (Place::Account, "account", "Account"),
    (Place::Cluster, "cluster", "Cluster"),
];

/// A page. `reload`: seconds after which a browser without scripts asks again, and for what; none for never.
pub fn page(
    view: &View<'_>,
    place: Place,
    title: &str,
    reload: Option<(u32, &str)>,
    body: &str,
) -> String {
    let (title, user, host) = (Escaped(title), Escaped(view.user), Escaped(view.host));
    let menu: String = MENU
        .iter()
        .map(|(one, to, name)| {
            let here = match (*one == place, *one == Place::Jobs && place == Place::Job) {
                (true, _) => " aria-current=\"page\"",
                (_, true) => " aria-current=\"true\"",
                _ => "",
            };
            format!("<a href=\"{to}\"{here}>{name}</a>\n")
        })
        .collect();
    // With an address: without one, a browser that is at a place in the page stays there and asks for nothing.
    let reload = reload.map_or(String::new(), |(seconds, to)| {
        let to = Escaped(to);
        format!(
            "<noscript><meta http-equiv=\"refresh\" content=\"{seconds};url={to}\"></noscript>\n"
        )
    });
    let system = match view.kind {
        Kind::Local => "jobs run on this host",
        Kind::Slurm => "jobs go to Slurm",
        Kind::Pbs => "jobs go to PBS",
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n{reload}\
         <title>{title} – Libra</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n\
         <link rel=\"icon\" href=\"icon.svg\">\n<script src=\"script.js\" defer></script>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">To the content</a>\n\
         <header class=\"top\"><div class=\"bar-in\">\n<span class=\"brand\">Libra</span>\n<nav aria-label=\"Pages\">\n{menu}</nav>\n\
         <span class=\"who\">{user} on {host}, {system}</span>\n</div></header>\n\
         <p id=\"trouble\" class=\"notice bad\" role=\"alert\" hidden></p>\n\
         <main id=\"main\" tabindex=\"-1\">\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A page for who is not let in, or has lost the way: without a menu.
pub fn alone(title: &str, text: &str) -> String {
    let (title, text) = (Escaped(title), Escaped(text));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} – Libra</title>\n\
         <link rel=\"stylesheet\" href=\"style.css\">\n<link rel=\"icon\" href=\"icon.svg\">\n</head>\n\
         <body>\n<main class=\"alone\">\n<h1>{title}</h1>\n<p>{text}</p>\n</main>\n</body>\n</html>\n"
    )
}

/// Something that went wrong, as part of a page.
pub fn problem(text: &str) -> String {
    format!(
        "<p class=\"notice bad\" role=\"alert\">{}</p>\n",
        lines(text)
    )
}

/// A line for the user, as part of a page.
pub fn note(text: &str) -> String {
    format!("<p class=\"notice\">{}</p>\n", lines(text))
}

/// Text of several lines.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| Escaped(line).to_string()).collect();
    lines.join("<br>\n")
}

/// A key in an address: whatever is not a letter or a digit for certain as `%XX`. Needs no escaping in HTML.
pub struct InAddress<'a>(pub &'a str);

impl std::fmt::Display for InAddress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'-' | b'_' | b'.' => write!(f, "{}", char::from(byte))?,
                byte if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte))?,
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

/// A field of a form that nobody sees.
pub fn hidden(name: &str, value: &str) -> String {
    format!(
        "<input type=\"hidden\" name=\"{}\" value=\"{}\">\n",
        Escaped(name),
        Escaped(value)
    )
}

/// Names and values.
pub fn facts(facts: &[(String, String)]) -> String {
    let facts = facts.iter();
    let facts: String = facts
        .map(|(name, value)| {
            format!(
                "<div><dt>{}</dt><dd>{}</dd></div>\n",
                Escaped(name),
                Escaped(value)
            )
        })
        .collect();
    match facts.is_empty() {
        true => String::new(),
        false => format!("<dl class=\"facts\">\n{facts}</dl>\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_is_one_value_of_an_address() {
        let key = InAddress("7_[1-99%10]&x=\"é").to_string();
        assert_eq!(key, "7_%5B1-99%2510%5D%26x%3D%22%C3%A9");
    }
}
