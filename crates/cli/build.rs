//! Says which commit `libra` is.

#[path = "../../build/commit.rs"]
mod commit;

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../build/commit.rs");
    println!("cargo:rustc-env=LIBRA_BUILD={}", build());
    if for_tests() && env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // At an address of its own, as tests start it thousands of times: two fifths of the page faults of a start are for relocations otherwise,
        // and in a user-mode kernel they are what a start costs.
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}

fn for_tests() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "debug")
}

/// What `libra --version` says beside the version: the commit, as far as it can be known. Packages that are built elsewhere say it
/// with LIBRA_COMMIT. A build for tests does not follow it, as every commit would be a reason to compile everything anew.
fn build() -> String {
    println!("cargo:rerun-if-env-changed=LIBRA_COMMIT");
    if let Ok(said) = env::var("LIBRA_COMMIT") {
        if let Some(commit) = commit::shortened(said.trim()) {
            return format!("commit {commit}");
        }
        if !said.trim().is_empty() {
            println!(
                "cargo::warning=LIBRA_COMMIT is '{said}', which is not a commit; 7 or more hexadecimal digits are expected. It is left out"
            );
        }
    }
    if for_tests() {
        return "development build".to_string();
    }
    // The top of the tree, two directories up.
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&here)
        .ancestors()
        .nth(2)
        .expect("crates/cli is below it");
    match commit::checked_out(root) {
        Some((commit, watched)) => {
            for file in watched {
                println!("cargo:rerun-if-changed={}", file.display());
            }
            format!("commit {commit}")
        }
        None => "commit unknown".to_string(),
    }
}
