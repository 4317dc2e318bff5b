//! `libra`: the command line. Reads arguments, calls the library, prints; decides nothing.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
