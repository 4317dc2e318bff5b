//! Makes the Rust side of `include/libra.h`, so that the two cannot drift apart, and names the shared library.

#[path = "build/bindings.rs"]
mod bindings;

use std::env;
use std::path::PathBuf;

/// Changes when a program built against an older liblibra.so can no longer run with this one.
const SONAME: &str = "liblibra.so.0";

fn main() {
    println!("cargo:rerun-if-changed=include/libra.h");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
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
