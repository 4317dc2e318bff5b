//! The form for a job, with the price beside it.

use super::{View, hidden, wrong};
use crate::form::{EXTRAS, FieldError};
use crate::system::Kind;
use crate::system::submission::{Extra, Submission};
use crate::system::templates::Owner;
use libra_core::decision::class::Class;
use libra_plots::markup::Escaped;
use maud::{Markup, PreEscaped, Render, html};

/// What is said of a form.
#[derive(Debug, Clone)]
pub enum Said {
    /// Nothing yet.
    Nothing,
    /// This, beside the form.
    Beside(Markup),
    /// What is wrong with its fields, at each of them.
    Wrong(Vec<FieldError>),
}

impl Said {
    fn errors(&self) -> &[FieldError] {
        match self {
            Said::Wrong(errors) => errors,
            _ => &[],
        }
    }
}

/// What goes on the page: the form as it was typed, and what was said of it. `live`: a price can be asked for.
pub fn body(
    view: &View<'_>,
    typed: &Submission,
    once: &str,
    said: &Said,
    live: bool,
    templates: &[(Owner, String)],
) -> Markup {
    let needed = view.kind.directive.is_none();
    html! {
        @if !templates.is_empty() {
            form.find method="get" action="submit" {
                div.field {
                    label for="template" { "Template" }
                    select #template name="template" {
                        @for (owner, name) in templates {
                            option value={ (owner.word()) "." (Escaped(name)) } {
                                (Escaped(name)) @if *owner == Owner::Site { " (the site's)" } @else { " (yours)" }
                            }
                        }
                    }
                }
                button type="submit" { "Fill in the form" }
            }
        }
        // PBS judges nothing that is not submitted.
        form #submit .two method="post" action="submit#verdict" enctype="multipart/form-data"
            data-live=[(!live).then_some("no")] data-batch=[(!needed).then_some("yes")] {
            (hidden("word", view.word))
            (hidden("once", once))
            div.left {
                (what_to_run(view.kind, typed, said))
                (terms(view, typed, said))
                (extras(view.kind, typed, said.errors()))
            }
            // What it costs stays in view while the rest is typed.
            div.right {
                div.actions {
                    button.main type="submit" name="do" value="submit" { "Submit" }
                    @if live {
                        button #ask type="submit" name="do" value="quote" formnovalidate { "Show the price" }
                    }
                }
                div #verdict aria-live="polite" {
                    @match said {
                        Said::Nothing => {}
                        Said::Beside(said) => (said),
                        Said::Wrong(errors) => (wrong(errors)),
                    }
                }
                // Its button is not the first of the form, which is what Enter means.
                (keep())
            }
            // The verdict in a line, where it is not beside the fields; for the eye, the verdict itself is read out.
            a #brief href="#verdict" aria-hidden="true" tabindex="-1" hidden {}
        }
    }
}

/// The script and what it is called.
fn what_to_run(kind: &Kind, typed: &Submission, said: &Said) -> Markup {
    let errors = said.errors();
    let script = Noted::of("script", errors);
    let directory = Noted::of("directory", errors);
    // Whoever opens the page types there.
    let focus = matches!(said, Said::Nothing) || script.first;
    html! {
        fieldset {
            legend { "What to run" }
            div.field {
                label for="script" { "Script" }
                textarea #script name="script" rows="9" spellcheck="false" autocapitalize="none" autocomplete="off"
                    aria-describedby="script-error script-hint" aria-invalid=[script.invalid()] autofocus[focus] {
                    // A line break right behind the tag is dropped; the script may begin with one.
                    "\n" (unaltered(&typed.script))
                }
                (script)
                small #script-hint {
                    "A first line such as " code { "#!/bin/bash" } " says what reads it; without one that is " code { "/bin/sh" } "."
                }
            }
            div.field {
                label for="file" { "or a file of yours" }
                input #file name="file" type="file" aria-describedby="file-hint";
                small #file-hint { "It takes the place of what is typed above. 1 MiB at the most." }
            }
            // Without scripts a page of its own, and the form begins anew with what is chosen there.
            p { a #choose href="files" { "Find one in your home directory" } }
            div #chosen hidden {}
            div.row {
                (Field::new("name", "Name", &typed.name, html! { "Letters, digits and . _ + -" }).noted(errors))
                @if let Some(label) = kind.queues {
                    (Field::new("queue", label, &typed.queue, html! { "Empty: the site's own choice." }).noted(errors))
                }
            }
            div.field {
                label for="directory" { "Working directory" }
                input #directory name="directory" value=(Escaped(&typed.directory)) autocomplete="off" autocapitalize="none"
                    spellcheck="false" required aria-describedby="directory-error directory-hint" aria-invalid=[directory.invalid()]
                    autofocus[directory.first];
                (directory)
                small #directory-hint {
                    @if kind.begins_at_home {
                        "Output files come here. The script itself begins in your home directory; "
                        code { "cd $PBS_O_WORKDIR" } " leads here."
                    } @else {
                        "The script begins here."
                    }
                }
            }
        }
    }
}

/// Class, estimate, deadline, budget and what belongs to them. Which of them a job needs depends on its class, so no browser is told without scripts.
fn terms(view: &View<'_>, typed: &Submission, said: &Said) -> Markup {
    let kind = view.kind;
    let errors = said.errors();
    let hint = |text: &str| {
        html! {
            (text)
            @if let Some(directive) = kind.directive {
                " Empty: as in the script's " code { (directive) } " lines."
            }
        }
    };
    let deadline = match kind.clock_deadlines {
        false => "When it must be finished, from now: 2h, 1h30m.",
        true => "When it must be finished, from now: 2h, 1h30m, or a clock time: @17:30.",
    };
    let choice = |value: &str, checked: bool, text: &str| {
        html! {
            label { input type="radio" name="deadline-type" value=(value) checked[checked]; " " (text) }
        }
    };
    html! {
        fieldset {
            legend { "Terms" }
            (class_of_service(view, typed, errors))
            div.row {
                (Field::new("estimate", "Estimate", &typed.estimate, hint("Run time on a processor of its own: 90, 1h30m, 00:01:30."))
                    .noted(errors))
                (Field::new("processors", "Processors", &typed.processors, hint("On one node, each at the job's share."))
                    .keys("numeric").noted(errors))
            }
            (Field::new("deadline", "Deadline", &typed.deadline, hint(deadline)).noted(errors))
            div.field.slider hidden {
                label for="slider" { "Deadline, from hurry to patience" }
                input #slider type="range" min="0" max="200" value="100";
                span.ends { span #slider-least {} span #slider-most {} }
            }
            (Field::new("budget", "Budget", &typed.budget, hint("The most it may cost: credits, or unlimited."))
                .noted(errors))
            details open[typed.soft || errors.iter().any(|error| error.field == "penalty")] {
                summary { "Kind of deadline" }
                div.field.choice {
                    (choice("hard", !typed.soft, "Hard: a late result is useless"))
                    (choice("soft", typed.soft, "Soft: it is worth less the later it is"))
                }
                (Field::new("penalty", "Paid back", &typed.penalty, html! { "Credits per second of delay, for a soft deadline." })
                    .keys("decimal").noted(errors))
            }
        }
    }
}

/// The kind of promise. What a class needs is a part of it: the page asks for no more.
fn class_of_service(view: &View<'_>, typed: &Submission, errors: &[FieldError]) -> Markup {
    let (kind, [one, several]) = (view.kind, view.classes);
    let both: Vec<&str> = (one.needs().iter().copied())
        .filter(|term| several.needs().contains(term))
        .collect();
    let noted = Noted::of("class", errors);
    let promise = |class| match class {
        Class::Deadline => "Deadline: done in time, by the share that this takes",
        Class::Dedicated => "Dedicated: whole processors, done in time",
        Class::Immediate => "Immediate: whole processors, now",
        Class::BestEffort => "Best effort: what others leave, nothing promised",
    };
    html! {
        @if !kind.classes.is_empty() {
            div.field {
                label for="class" { "Class" }
                select #class name="class" aria-describedby="class-error class-hint" aria-invalid=[noted.invalid()] autofocus[noted.first] {
                    @if let Some(directive) = kind.directive {
                        option value="" data-needs=(Class::Deadline.needs().join(" ")) selected[typed.class.is_empty()] {
                            "As the script's " (directive) " lines say, else as the site does"
                        }
                    } @else if one != several {
                        option value="" data-needs=(both.join(" ")) selected[typed.class.is_empty()] {
                            "The site's: " (one.word()) ", with several processors " (several.word())
                        }
                    }
                    @for class in kind.classes {
                        option value=(class.word()) data-needs=(class.needs().join(" ")) selected[typed.class() == Some(*class)] {
                            (promise(*class))
                        }
                    }
                }
                (noted)
                small #class-hint {
                    @if kind.directive.is_some() {
                        "What is promised. A job without estimate, deadline and budget is promised nothing."
                    } @else {
                        "What is promised. Immediate needs no deadline, best effort nothing."
                    }
                }
            }
        }
    }
}

/// Keeps what is typed for another time.
fn keep() -> Markup {
    html! {
        details {
            summary { "Keep as a template" }
            (Field::new("template-name", "Name of the template", "", html! { "Letters, digits and . _ + -; one of this name is replaced." }))
            button type="submit" name="do" value="keep" formnovalidate { "Keep it" }
        }
    }
}

/// What a job may say besides, where its system takes it.
fn extras(kind: &Kind, typed: &Submission, errors: &[FieldError]) -> Markup {
    let taken = || EXTRAS.iter().filter(|field| kind.extras.contains(&field.0));
    let open = taken().any(|(extra, name, ..)| {
        !typed.extra(*extra).is_empty() || errors.iter().any(|error| error.field == *name)
    });
    let hint = |extra| match extra {
        Extra::Project => "Who pays, where the site has accounts. Empty: you.",
        Extra::Memory => "That the node must have left: 512MiB, 4GiB.",
        Extra::Gpus => "Of its node: 2, or with a type tesla:2.",
        Extra::Array => "A job for each index: 1-10, 0-20:5. Budget and price are for all of them.",
        Extra::Environment => "Variables: NAME=value,NAME=value.",
        Extra::Mail => "An address that is told when it ends or fails.",
    };
    html! {
        @if taken().next().is_some() {
            details open[open] {
                summary { "More" }
                div.row {
                    @for (extra, name, label, longest, _) in taken() {
                        (Field::new(name, label, typed.extra(*extra), html! { (hint(*extra)) }).longest(*longest).noted(errors))
                    }
                }
            }
        }
    }
}

/// A field for a line of text.
struct Field<'a> {
    /// Its name in the form, unique in the page.
    name: &'static str,
    label: &'a str,
    /// What was typed.
    value: &'a str,
    hint: Markup,
    /// Characters.
    longest: usize,
    /// The keys that a telephone shows; None for all.
    keys: Option<&'static str>,
    noted: Noted<'a>,
}

/// What is wrong with a field, in the place for it below the field, which is there also while nothing is.
#[derive(Debug, Clone, Copy)]
struct Noted<'a> {
    field: &'static str,
    text: &'a str,
    /// It is the first on the page of which something is wrong.
    first: bool,
}

impl<'a> Noted<'a> {
    fn of(field: &'static str, errors: &'a [FieldError]) -> Noted<'a> {
        let error = errors.iter().find(|error| error.field == field);
        Noted {
            field,
            text: error.map_or("", |error| &error.text),
            first: errors.first().is_some_and(|first| first.field == field),
        }
    }

    fn invalid(&self) -> Option<&'static str> {
        (!self.text.is_empty()).then_some("true")
    }
}

impl Render for Noted<'_> {
    fn render(&self) -> Markup {
        html! {
            span.error id={ (self.field) "-error" } hidden[self.text.is_empty()] { (Escaped(self.text)) }
        }
    }
}

impl<'a> Field<'a> {
    fn new(name: &'static str, label: &'a str, value: &'a str, hint: Markup) -> Field<'a> {
        Field {
            name,
            label,
            value,
            hint,
            longest: 64,
            keys: None,
            noted: Noted::of(name, &[]),
        }
    }

    fn noted(self, errors: &'a [FieldError]) -> Field<'a> {
        let noted = Noted::of(self.name, errors);
        Field { noted, ..self }
    }

    fn longest(self, longest: usize) -> Field<'a> {
        Field { longest, ..self }
    }

    fn keys(self, keys: &'static str) -> Field<'a> {
        let keys = Some(keys);
        Field { keys, ..self }
    }
}

impl Render for Field<'_> {
    fn render(&self) -> Markup {
        html! {
            div.field {
                label for=(self.name) { (self.label) }
                input id=(self.name) name=(self.name) value=(Escaped(self.value)) autocomplete="off" autocapitalize="none"
                    spellcheck="false" maxlength=(self.longest) aria-describedby={ (self.name) "-error " (self.name) "-hint" }
                    aria-invalid=[self.noted.invalid()] autofocus[self.noted.first] inputmode=[self.keys];
                (self.noted)
                small id={ (self.name) "-hint" } { (self.hint) }
            }
        }
    }
}

/// Text that is sent back as it is: control characters stay what they are, unlike those in [`Escaped`].
fn unaltered(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('\r').enumerate() {
            // As it stands, a parser of HTML makes a line feed of it.
            @if index > 0 { (PreEscaped("&#13;")) }
            (part)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_comes_back_as_it_was() {
        let script = "printf '\u{1b}[1m\u{7f}\u{c}\t</textarea>&amp;'\r\n\rx";
        let text = unaltered(script).into_string();
        assert_eq!(
            text,
            "printf '\u{1b}[1m\u{7f}\u{c}\t&lt;/textarea&gt;&amp;amp;'&#13;\n&#13;x"
        );
    }
}
