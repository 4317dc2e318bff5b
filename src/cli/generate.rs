//! `libra generate`: man pages and completions, from the same source as the help texts.

use super::Done;
use super::args::{Args, GenerateArgs, Generated};
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

pub fn generate(generate: &GenerateArgs) -> Done {
    std::fs::create_dir_all(&generate.directory)?;
    let mut command = Args::command();
    match generate.what {
        Generated::Man => {
            command.build();
            clap_mangen::generate_to(command, &generate.directory)?;
        }
        Generated::Completions => {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                clap_complete::generate_to(shell, &mut command, "libra", &generate.directory)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
