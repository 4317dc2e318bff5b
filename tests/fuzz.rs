//! Replays what fuzzing found worth keeping: each border of trust with each input of its corpus.

#[path = "../fuzz/targets.rs"]
mod targets;

use std::path::Path;

#[test]
fn no_input_of_the_corpus_breaks_a_border() {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fuzz/corpus");
    let mut replayed = 0;
    for (name, target) in targets::TARGETS {
        let directory = corpus.join(name);
        let inputs = std::fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut of_target = 0;
        for input in inputs {
            let path = input.expect("a directory entry").path();
            let bytes =
                std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if let Err(panic) = std::panic::catch_unwind(|| target(&bytes)) {
                eprintln!(
                    "it was {}, {} bytes: {:?}",
                    path.display(),
                    bytes.len(),
                    String::from_utf8_lossy(&bytes)
                );
                std::panic::resume_unwind(panic);
            }
            of_target += 1;
        }
        assert!(of_target > 0, "{} has no input", directory.display());
        replayed += of_target;
    }
    println!("{replayed} inputs");
}
