# shellcheck shell=bash
# Sourced by the other scripts: where things are, and which Rust is used.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export root
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
# One place to change when the crate's minimum moves: rust-version in Cargo.toml.
rust_min=$(sed -n 's/^rust-version *= *"\([0-9.]*\)"/\1/p' "$root/Cargo.toml")
export rust_min

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# version_ge A B: is version A the same as B or newer?
version_ge() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The version a cargo or rustc reports, and nothing when it does not run.
rust_version() { "$1" --version 2>/dev/null | awk 'NR == 1 { print $2 }' | sed 's/-.*//'; }

new_enough() {
    local v
    v=$(rust_version "$1")
    [ -n "$v" ] && version_ge "$v" "$rust_min"
}

# Sets CARGO, RUSTC and RUSTDOC to a Rust that is new enough. Ubuntu installs several side by side,
# under names that carry the version (cargo-1.85) and in a directory of their own, where the
# subcommands (clippy, fmt) have their plain names.
find_rust() {
    local c v
    if [ -n "${CARGO:-}" ] && new_enough "$CARGO" && new_enough "${RUSTC:-rustc}"; then
        return 0
    fi
    for c in cargo "$HOME/.cargo/bin/cargo"; do
        if new_enough "$c" && new_enough "${c%cargo}rustc"; then
            CARGO=$(command -v "$c")
            RUSTC=$(command -v "${c%cargo}rustc")
            RUSTDOC=$(command -v "${c%cargo}rustdoc" || true)
            export CARGO RUSTC
            [ -z "$RUSTDOC" ] || export RUSTDOC
            return 0
        fi
    done
    while read -r c; do
        v=${c##*-}
        if new_enough "$c" && new_enough "/usr/bin/rustc-$v"; then
            export CARGO=$c RUSTC=/usr/bin/rustc-$v RUSTDOC=/usr/bin/rustdoc-$v
            [ ! -d "/usr/lib/rust-$v/bin" ] || PATH=/usr/lib/rust-$v/bin:$PATH
            return 0
        fi
    done < <(compgen -G '/usr/bin/cargo-[0-9]*.[0-9]*' | sort -rV)
    return 1
}

# For scripts that cannot go on without Rust.
need_rust() {
    find_rust || die "no cargo $rust_min or newer; run scripts/bootstrap build"
}

# bindgen loads libclang when the build script runs. Any of these names will do for it.
find_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null ||
        compgen -G '/usr/lib/*/libclang*.so*' >/dev/null || compgen -G '/usr/lib64/libclang*.so*' >/dev/null
}
