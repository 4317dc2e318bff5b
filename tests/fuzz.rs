//! Replays what fuzzing found worth keeping: each border of trust with each input of its corpus, and with a megabyte made of it.

#[path = "../fuzz/targets/mod.rs"]
mod targets;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use targets::Target;

/// Memory is measured of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Processor seconds for an input, twice as many for a megabyte: patience, as nothing is optimised and the machine may be slow.
const PATIENCE: f64 = 60.0;

/// What an input of a megabyte may take beside itself, in MiB.
const MOST_MEMORY: u64 = 128;

/// The corpus of a target with their names, in the order of these.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(name);
    let files = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = files
        .map(|file| {
            let path = file.expect("a directory entry").path();
            let bytes =
                std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path.display().to_string(), bytes)
        })
        .collect();
    assert!(!inputs.is_empty(), "{} has no input", directory.display());
    inputs.sort();
    inputs
}

fn replay((target, run): &Target, input: &[u8], name: &str) {
    if let Err(panic) = std::panic::catch_unwind(|| targets::run(*run, input, PATIENCE)) {
        let shown = &input[..input.len().min(4096)];
        eprintln!(
            "it was {name} of {target}, {} bytes: {:?}",
            input.len(),
            String::from_utf8_lossy(shown)
        );
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn no_input_of_the_corpus_breaks_a_border() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut replayed = 0;
    for target in targets::TARGETS {
        for (name, input) in corpus(target.0) {
            replay(target, &input, &name);
            replayed += 1;
        }
    }
    println!("{replayed} inputs");
}

/// Largest that this process has been since it was asked last, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    // Begins to measure anew.
    std::fs::write("/proc/self/clear_refs", "5").expect("a peak of its own");
    let kib = (status.lines())
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.expect("a peak") / 1024
}

/// This over and over, as long as a megabyte.
fn repeated(part: &[u8]) -> Vec<u8> {
    let mut input = part.repeat(LONG / part.len() + 1);
    input.truncate(LONG);
    input
}

const LONG: usize = 1 << 20;

#[test]
fn a_megabyte_takes_neither_long_nor_much_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let of_signs = [
        "1", "1,", "0-1,", "a=1,", "a=1:", "1+", "\"", "(", ":", "[", "{\"a\":", "[1,", "\n",
        "\u{1}", "<", " 1",
    ];
    // All of them different.
    let of_numbers = [
        ("a", "=1:"),
        ("a", "=1,"),
        ("1:a", "=1+"),
        ("(n", ")+"),
        ("", ","),
    ];
    let numbered = of_numbers.map(|(before, after)| {
        let mut all: String = (0..200_000)
            .map(|number| format!("{before}{number}{after}"))
            .collect();
        all.truncate(LONG);
        all.into_bytes()
    });
    let mut everywhere: Vec<Vec<u8>> = of_signs.map(|part| repeated(part.as_bytes())).into();
    everywhere.extend(numbered);
    for target in targets::TARGETS {
        // Of a target's own inputs eight, with what stands between two of them in turn.
        let between = ["", "\n", ",", "\u{1}"];
        let own = (corpus(target.0).into_iter().take(8).enumerate())
            .map(|(place, (_, input))| [&input, between[place % 4].as_bytes()].concat())
            .filter(|part| !part.is_empty())
            .map(|part| repeated(&part));
        for input in own.chain(everywhere.iter().cloned()) {
            let _ = peak();
            let before = peak();
            replay(target, &input, "a megabyte");
            let took = peak().saturating_sub(before);
            let shown = String::from_utf8_lossy(&input[..200]);
            assert!(
                took <= MOST_MEMORY,
                "{} takes {took} MiB for {shown:?}",
                target.0
            );
        }
    }
}
