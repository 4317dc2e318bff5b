//! The form for a job, with the price beside it.

use super::{View, hidden};
use crate::system::{Kind, Submission};
use libra_plots::markup::Escaped;
use std::fmt::{self, Display, Write};

/// What goes on the page: the form as it was typed, and what was said of it. `live`: a price can be asked for.
pub fn body(view: &View<'_>, typed: &Submission, once: &str, said: &str, live: bool) -> String {
    let needed = view.kind == Kind::Local;
    let mark = if needed { " required" } else { "" };
    let text = |name: &str, label: &str, value: &str, hint: &str, more: &str| {
        format!(
            "<div class=\"field\"><label for=\"{name}\">{label}</label>\n\
             <input id=\"{name}\" name=\"{name}\" value=\"{}\" autocomplete=\"off\" autocapitalize=\"none\" \
             spellcheck=\"false\" maxlength=\"64\" aria-describedby=\"{name}-hint\"{more}>\n\
             <small id=\"{name}-hint\">{hint}</small></div>\n",
            Escaped(value)
        )
    };
    let in_script = match view.kind {
        Kind::Local => "",
        Kind::Slurm => " Empty: as in the script's <code>#SBATCH</code> lines.",
        Kind::Pbs => " Empty: as in the script's <code>#PBS</code> lines.",
    };
    let queue = view.kind.queues().map_or(String::new(), |name| {
        text(
            "queue",
            name,
            &typed.queue,
            "Empty: the site's own choice.",
            "",
        )
    });
    let home = match view.kind {
        Kind::Pbs => {
            "Output files come here. The script itself begins in your home directory; <code>cd $PBS_O_WORKDIR</code> leads here."
        }
        _ => "The script begins here.",
    };
    let checked = |is: bool| if is { " checked" } else { "" };
    let estimate = text(
        "estimate",
        "Estimate",
        &typed.estimate,
        &format!("Run time on a processor of its own: 90, 1h30m, 00:01:30.{in_script}"),
        mark,
    );
    let deadline = text(
        "deadline",
        "Deadline",
        &typed.deadline,
        &deadline_hint(view.kind, in_script),
        mark,
    );
    let budget = text(
        "budget",
        "Budget",
        &typed.budget,
        &format!("The most it may cost: credits, or unlimited.{in_script}"),
        mark,
    );
    let processors = text(
        "processors",
        "Processors",
        &typed.processors,
        &format!("On one node, each at the job's share.{in_script}"),
        " inputmode=\"numeric\"",
    );
    let name = text(
        "name",
        "Name",
        &typed.name,
        "Letters, digits and . _ + -",
        "",
    );
    let penalty = text(
        "penalty",
        "Paid back",
        &typed.penalty,
        "Credits per second of delay, for a soft deadline.",
        " inputmode=\"decimal\"",
    );
    let focus = if said.is_empty() { " autofocus" } else { "" };
    let ask = match live {
        true => {
            "<button type=\"submit\" name=\"do\" value=\"quote\" id=\"ask\" formnovalidate>Show the price</button>\n"
        }
        false => "",
    };
    let (word, once) = (hidden("word", view.word), hidden("once", once));
    let (script, directory) = (Unaltered(&typed.script), Escaped(&typed.directory));
    let (hard, soft) = (checked(!typed.soft), checked(typed.soft));
    format!(
        "<form id=\"submit\" class=\"two\" method=\"post\" action=\"submit#verdict\" enctype=\"multipart/form-data\"{live}{batch}>\n{word}{once}\
         <div class=\"left\">\n\
         <fieldset><legend>What to run</legend>\n\
         <div class=\"field\"><label for=\"script\">Script</label>\n\
         <textarea id=\"script\" name=\"script\" rows=\"9\" spellcheck=\"false\" autocapitalize=\"none\" autocomplete=\"off\" \
         aria-describedby=\"script-hint\"{focus}>\n{script}</textarea>\n\
         <small id=\"script-hint\">A first line such as <code>#!/bin/bash</code> says what reads it; without one that is <code>/bin/sh</code>.</small></div>\n\
         <div class=\"field\"><label for=\"file\">or a file of yours</label>\n\
         <input id=\"file\" name=\"file\" type=\"file\" aria-describedby=\"file-hint\">\n\
         <small id=\"file-hint\">It takes the place of what is typed above. 1 MiB at the most.</small></div>\n\
         <div class=\"row\">{name}{queue}</div>\n\
         <div class=\"field\"><label for=\"directory\">Working directory</label>\n\
         <input id=\"directory\" name=\"directory\" value=\"{directory}\" autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\" \
         required aria-describedby=\"directory-hint\">\n<small id=\"directory-hint\">{home}</small></div>\n\
         </fieldset>\n</div>\n\
         <div class=\"right\">\n<fieldset><legend>Terms</legend>\n\
         <div class=\"row\">{estimate}{processors}</div>\n\
         {deadline}\
         <div class=\"field slider\" hidden><label for=\"slider\">Deadline, from hurry to patience</label>\n\
         <input id=\"slider\" type=\"range\" min=\"0\" max=\"200\" value=\"100\">\n\
         <span class=\"ends\"><span id=\"slider-least\"></span><span id=\"slider-most\"></span></span></div>\n\
         {budget}\
         <details{open}><summary>Kind of deadline</summary>\n\
         <div class=\"field choice\"><label><input type=\"radio\" name=\"deadline-type\" value=\"hard\"{hard}> Hard: a late result is useless</label>\n\
         <label><input type=\"radio\" name=\"deadline-type\" value=\"soft\"{soft}> Soft: it is worth less the later it is</label></div>\n\
         {penalty}</details>\n</fieldset>\n\
         <div class=\"actions\">\n{ask}\
         <button type=\"submit\" name=\"do\" value=\"submit\" class=\"main\">Submit</button>\n</div>\n\
         <div id=\"verdict\" aria-live=\"polite\">{said}</div>\n</div>\n</form>\n",
        // PBS judges nothing that is not submitted.
        live = if live { "" } else { " data-live=\"no\"" },
        batch = if needed { "" } else { " data-batch=\"yes\"" },
        open = if typed.soft { " open" } else { "" },
    )
}

/// Text of an element that is sent back as it is: control characters stay what they are.
struct Unaltered<'a>(&'a str);

impl Display for Unaltered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // As it stands, a parser of HTML makes a line feed of it.
                '\r' => f.write_str("&#13;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

fn deadline_hint(kind: Kind, in_script: &str) -> String {
    let clock = match kind {
        // Its options know durations only.
        Kind::Slurm => "",
        _ => ", or a clock time: @17:30",
    };
    format!("When it must be finished, from now: 2h, 1h30m{clock}.{in_script}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_comes_back_as_it_was() {
        let script = "printf '\u{1b}[1m\u{7f}\u{c}\t</textarea>&amp;'\n";
        let text = Unaltered(script).to_string();
        assert_eq!(
            text,
            "printf '\u{1b}[1m\u{7f}\u{c}\t&lt;/textarea&gt;&amp;amp;'\n"
        );
    }
}
