//! Makes the Rust side of `include/libra.h`, so that the two cannot drift apart, names the shared library, and says which
//! commit it is.

#[path = "build/bindings.rs"]
mod bindings;
#[path = "build/commit.rs"]
mod commit;

use std::env;
use std::path::PathBuf;

/// Changes when a program built against an older liblibra.so can no longer run with this one.
const SONAME: &str = "liblibra.so.0";

fn main() {
    println!("cargo:rerun-if-changed=include/libra.h");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // The library tells its version alone.
    if env::var_os("CARGO_FEATURE_CLI").is_some() {
        println!("cargo:rustc-env=LIBRA_BUILD={}", build());
    }

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let header = bindgen::Builder::default()
        .header("include/libra.h")
        .clang_args(["-x", "c", "-std=c99"])
        .allowlist_item("(libra|LIBRA)_.*|req_budget|accept_reject_all_nodes")
        .allowlist_recursively(false)
        .blocklist_item("LIBRA_(UNLIMITED|MEMORY_NOT_COUNTED|NO_NODE|[A-Z_]+_INIT)")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .anon_fields_prefix("anonymous")
        .allowlist_type("_bindgen_ty_.*")
        .size_t_is_usize(true)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .merge_extern_blocks(true)
        .layout_tests(true)
        .derive_default(false);
    bindings::write(header, &out.join("header.rs"), "include/libra.h", "");
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
                "cargo::warning=LIBRA_COMMIT is '{said}', which is no commit; 7 or more hexadecimal digits are expected. It is left out"
            );
        }
    }
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return "development build".to_string();
    }
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    match commit::checked_out(&root) {
        Some((commit, watched)) => {
            for file in watched {
                println!("cargo:rerun-if-changed={}", file.display());
            }
            format!("commit {commit}")
        }
        None => "commit unknown".to_string(),
    }
}
