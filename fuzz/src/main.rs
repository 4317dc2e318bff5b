//! One program for all targets: `libra-fuzz TARGET`, started by AFL++ (`fuzz/run`).

#[path = "../targets/mod.rs"]
mod targets;

/// Processor seconds for an input, which is optimised here.
const MOST_SECONDS: f64 = 3.0;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, target)) = targets::TARGETS.iter().find(|(known, _)| *known == name) else {
        for (name, _) in targets::TARGETS {
            println!("{name}");
        }
        // Without a name it is a list; with one that is none, a mistake.
        std::process::exit(if name.is_empty() { 0 } else { 2 });
    };
    afl::fuzz!(|input: &[u8]| targets::run(*target, input, MOST_SECONDS));
}
