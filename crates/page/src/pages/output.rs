//! What a job has printed, as a terminal shows it: on the job's page its end, on a page of its own any part of it, and what was searched for.

use super::{hidden, note, problem};
use crate::address::InAddress;
use crate::system::Problem;
use crate::system::job::Detail;
use crate::system::output::OutputChunk;
use crate::system::search::{Found, Hit};
use crate::terminal::{self, Colour, Style};
use libra_plots::markup::Escaped;
use libra_units::memory;
use maud::{Markup, html};

/// The longest text that is searched for, in bytes.
pub const LONGEST_SEARCH: usize = 200;

/// Lines as a terminal shows them. `style`: what holds at the beginning, and then at the end.
pub fn shown(text: &str, style: &mut Style) -> Markup {
    html! {
        @for line in text.split_inclusive('\n') {
            @let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            @for run in terminal::line(line, style) {
                @match classes(run.style).as_str() {
                    "" => (Escaped(&run.text)),
                    class => span class=(class) { (Escaped(&run.text)) },
                }
            }
            (end)
        }
    }
}

/// The classes of a style; what is written on a coloured ground has the colour that can be read there.
fn classes(style: Style) -> String {
    let name = |colour| match colour {
        Colour::Black => "black",
        Colour::Red => "red",
        Colour::Green => "green",
        Colour::Yellow => "yellow",
        Colour::Blue => "blue",
        Colour::Magenta => "magenta",
        Colour::Cyan => "cyan",
        Colour::White => "white",
    };
    let ground = match (style.inverse, style.ground) {
        (false, ground) => ground.map(name),
        (true, _) => Some(style.colour.map_or("ink", name)),
    };
    let mut classes: Vec<String> = Vec::new();
    match (ground, style.colour) {
        (Some(ground), _) => classes.push(format!("on-{ground}")),
        (None, Some(colour)) => classes.push(format!("in-{}", name(colour))),
        (None, None) if style.faint => classes.push("in-black".to_string()),
        (None, None) => {}
    }
    let more = [
        (style.bold, "bold"),
        (style.italic, "italic"),
        (style.underlined, "underlined"),
        (style.crossed, "crossed"),
    ];
    classes.extend(
        more.iter()
            .filter(|(is, _)| *is)
            .map(|(_, name)| name.to_string()),
    );
    classes.join(" ")
}

/// The end of the output on the page of its job, which a script goes on reading.
pub fn end(detail: &Detail, output: Option<&Result<OutputChunk, Problem>>) -> Markup {
    let part = match output {
        None => return note(&detail.no_output),
        Some(Err(error)) => return problem(&error.to_string()),
        Some(Ok(part)) => part,
    };
    let nothing = part.text.is_empty() && part.rest.is_empty();
    let said = match (nothing, detail.job.live) {
        (false, _) => "",
        (true, true) => "Nothing yet.",
        (true, false) => "It has printed nothing.",
    };
    let mut style = Style::default();
    let lines = shown(&part.text, &mut style);
    let code = style.to_string();
    html! {
        (ways(detail, part.size, ""))
        @if part.from > 0 {
            p.soft { "The end of it; the first " (memory::show(part.from)) " are not shown here." }
        }
        p.soft #nothing hidden[said.is_empty()] { (said) }
        pre #output hidden[nothing] tabindex="0" role="region" aria-label="Output" data-id=(Escaped(&detail.job.key)) data-next=(part.next) data-style=(code) {
            span #lines { (lines) }
            span #last { (shown(&part.rest, &mut style)) }
        }
    }
}

/// What can be done with an output of so many bytes.
fn ways(detail: &Detail, size: u64, words: &str) -> Markup {
    let key = InAddress(&detail.job.key);
    html! {
        form.find method="get" action="read" role="search" aria-label="Output" {
            (hidden("id", &detail.job.key))
            div.field {
                label for="words" { "Search the output" }
                input #words type="search" name="q" value=(Escaped(words)) maxlength=(LONGEST_SEARCH) autocomplete="off" autocapitalize="none" spellcheck="false";
            }
            button type="submit" { "Search" }
            a.button href={ "read?id=" (key) } { "From the beginning" }
            a.button href={ "download?id=" (key) } { "Download" @if size > 0 { " (" (memory::show(size)) ")" } }
        }
    }
}

/// Any part of an output, on a page of its own.
pub fn part(detail: &Detail, part: &OutputChunk) -> Markup {
    let mut style = Style::default();
    let lines = shown(&part.text, &mut style);
    // The beginning of a line is shown where there is nothing more of it yet.
    let is_end = part.end >= part.size;
    let rest = if is_end { part.rest.as_str() } else { "" };
    let last = if is_end { part.end } else { part.next };
    html! {
        (back(detail))
        (ways(detail, part.size, ""))
        @if part.size == 0 {
            p.soft { "It has printed nothing." }
        } @else {
            p {
                @if part.from == 0 && is_end { "All of it, " (memory::show(part.size)) "." }
                @else { "Bytes " (part.from + 1) " to " (last) " of " (part.size) "." }
            }
            (pages(detail, part, is_end))
            pre tabindex="0" role="region" aria-label="Output" { (lines) (shown(rest, &mut style)) }
            (pages(detail, part, is_end))
        }
    }
}

/// The ways to the other parts.
fn pages(detail: &Detail, part: &OutputChunk, is_end: bool) -> Markup {
    let key = InAddress(&detail.job.key);
    html! {
        @if part.from > 0 || !is_end {
            div.pages {
                @if part.from > 0 {
                    a.button href={ "read?id=" (key) } { "Beginning" }
                    a.button href={ "read?id=" (key) "&before=" (part.from) } { "Earlier" }
                }
                @if !is_end {
                    a.button href={ "read?id=" (key) "&at=" (part.next) } { "Later" }
                    a.button href={ "read?id=" (key) "&before=" (part.size) } { "End" }
                }
            }
        }
    }
}

fn back(detail: &Detail) -> Markup {
    html! { p { a href={ "job?id=" (InAddress(&detail.job.key)) } { "Back to the job" } } }
}

/// What was searched for in an output. `from`: where the search began.
pub fn found(detail: &Detail, words: &str, from: u64, found: &Found) -> Markup {
    let key = InAddress(&detail.job.key);
    let is_end = found.to >= found.size;
    let count = found.hits.len();
    html! {
        (back(detail))
        (ways(detail, found.size, words))
        p role="status" {
            @if count == 0 { "No line has it" } @else if count == 1 { "1 line has it" } @else { (count) " lines have it" }
            @match (from, is_end) {
                (0, true) => ".",
                (_, true) => " in the rest of the output.",
                (0, false) => { ", up to " (memory::show(found.to)) " of " (memory::show(found.size)) "." },
                (_, false) => { " from " (memory::show(from)) " to " (memory::show(found.to)) " of " (memory::show(found.size)) "." },
            }
        }
        ol.hits {
            @for hit in &found.hits { (self::hit(detail, hit)) }
        }
        @if !is_end {
            p {
                a.button href={ "read?id=" (key) "&q=" (InAddress(words)) "&at=" (found.to) "&lines=" (found.lines) } { "Search on" }
            }
        }
    }
}

fn hit(detail: &Detail, hit: &Hit) -> Markup {
    let [before, words, behind] = &hit.text;
    html! {
        li {
            a href={ "read?id=" (InAddress(&detail.job.key)) "&at=" (hit.at) } { "Line " (hit.line) }
            code { (Escaped(before)) mark { (Escaped(words)) } (Escaped(behind)) }
        }
    }
}

/// In place of an output that cannot be shown.
pub fn none(detail: &Detail, why: &str) -> Markup {
    html! { (back(detail)) (problem(why)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_classes_and_text_is_text() {
        let show = |text: &str| shown(text, &mut Style::default()).into_string();
        assert_eq!(
            show("a\n\u{1b}[31m<b>\u{1b}[0m\n"),
            "a\n<span class=\"in-red\">&lt;b&gt;</span>\n"
        );
        assert_eq!(
            show("\u{1b}[1;30;44mx"),
            "<span class=\"on-blue bold\">x</span>"
        );
        assert_eq!(
            show("\u{1b}[7mx\u{1b}[33my"),
            "<span class=\"on-ink\">x</span><span class=\"on-yellow\">y</span>"
        );
        assert_eq!(
            show("\u{1b}[2;4mx"),
            "<span class=\"in-black underlined\">x</span>"
        );
        assert_eq!(show("10 %\r20 %\r\n\n"), "20 %\n\n");
        let mut style = Style::default();
        let first = shown("\u{1b}[32ma\nb", &mut style).into_string();
        assert_eq!(
            first,
            "<span class=\"in-green\">a</span>\n<span class=\"in-green\">b</span>"
        );
        assert_eq!(style.to_string(), "32");
    }

    #[test]
    fn a_part_leads_to_the_others() {
        let detail = Detail {
            job: crate::system::job::JobSummary {
                key: "7_[1]".into(),
                ..Default::default()
            },
            ..Detail::default()
        };
        let chunk = OutputChunk {
            text: "x\n".into(),
            rest: "half".into(),
            from: 100,
            next: 200,
            end: 204,
            size: 300,
            again: false,
        };
        let page = part(&detail, &chunk).into_string();
        for needed in [
            "read?id=7_%5B1%5D&amp;before=100",
            "&amp;at=200",
            "&amp;before=300",
            "Bytes 101 to 200 of 300",
        ] {
            assert!(page.contains(needed), "{needed}: {page}");
        }
        assert!(!page.contains("half"), "it comes with the next part");
        let last = OutputChunk {
            from: 0,
            end: 300,
            ..chunk
        };
        let page = part(&detail, &last).into_string();
        assert!(
            page.contains("half") && page.contains("All of it") && !page.contains("Later"),
            "{page}"
        );
    }
}
