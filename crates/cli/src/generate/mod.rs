//! `libra generate`: man pages and completions, from the same source as the help texts; the page of the configuration ([`settings`]) from its
//! own table.

mod completions;
mod settings;

use crate::args::{Args, GenerateArgs, Generated};
use crate::{Done, Failure};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

pub fn generate(generate: &GenerateArgs) -> Done {
    let directory = &generate.directory;
    let written = match generate.what {
        Generated::Man => man_pages(directory),
        Generated::Completions => completions(directory),
    };
    written.map_err(|error| Failure::Generate {
        directory: directory.clone(),
        error,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn completions(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut command = completions::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let file = clap_complete::generate_to(shell, &mut command, "libra", directory)?;
        let made = std::fs::read_to_string(&file)?;
        std::fs::write(&file, completions::with_values(shell, &made))?;
    }
    Ok(())
}

fn man_pages(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    // 'libra help run' is what 'libra run --help' says: no page of its own.
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let source = concat!("libra ", env!("CARGO_PKG_VERSION"));
    page_and_those_below(&command, None, source, directory)?;
    std::fs::write(directory.join("libra.toml.5"), settings::page(source))
}

fn page_and_those_below(
    command: &Command,
    above: Option<&str>,
    source: &str,
    directory: &Path,
) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let below: Vec<&Command> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .collect();
    let man = Man::new(command.clone()).source(source).manual("Libra");
    let mut page = BufWriter::new(File::create(directory.join(man.get_filename()))?);
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    // Those of 'libra qsub' are another program's.
    if command.get_name() != "qsub" {
        man.render_options_section(&mut page)?;
    }
    if !below.is_empty() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    sections(&after.map(ToString::to_string).unwrap_or_default()).to_writer(&mut page)?;
    let siblings = below.iter().filter_map(|c| c.get_display_name());
    let mut pages: Vec<(&str, u8)> = above
        .into_iter()
        .chain(siblings)
        .map(|name| (name, 1))
        .collect();
    if above.is_none() || command.get_name() == "config" {
        pages.push(("libra.toml", 5));
    }
    see_also(&pages).to_writer(&mut page)?;
    page.flush()?;
    for command in below {
        page_and_those_below(command, Some(name), source, directory)?;
    }
    Ok(())
}

/// As the help texts have it: clap_mangen would list every option and none of their values.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (index, line) in usage
        .trim_start_matches("Usage:")
        .trim()
        .lines()
        .enumerate()
    {
        if index > 0 {
            roff.control("br", []);
        }
        roff.text([roman(line.trim())]);
    }
    roff
}

/// What stands after the options in the help text: headings, and below them, indented, lines that
/// stay as they are.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut verbatim = false;
    let mut empty = false;
    for line in text.lines() {
        if let Some(heading) = line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            if verbatim {
                roff.control("fi", []);
            }
            roff.control("SH", [heading.to_uppercase().as_str()]);
            roff.control("nf", []);
            verbatim = true;
        } else if !line.is_empty() {
            if empty {
                roff.control("sp", []);
            }
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        empty = line.is_empty();
    }
    if verbatim {
        roff.control("fi", []);
    }
    roff
}

/// Names of pages and their sections.
fn see_also(pages: &[(&str, u8)]) -> Roff {
    let mut roff = Roff::new();
    let mut text = Vec::new();
    for (name, section) in pages {
        if !text.is_empty() {
            text.push(roman(", "));
        }
        text.extend([bold(*name), roman(format!("({section})"))]);
    }
    if !text.is_empty() {
        roff.control("SH", ["SEE ALSO"]);
        roff.text(text);
    }
    roff
}
