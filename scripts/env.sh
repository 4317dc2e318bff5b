# shellcheck shell=bash
# Sourced by the other scripts: where things are, and which Rust is used.

# What it names would be printed, or taken for a directory of the tree.
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export root
CARGO_TARGET_DIR=$(realpath -sm -- "${CARGO_TARGET_DIR:-$root/target}")
export CARGO_TARGET_DIR
# Programs are looked for where cargo puts those for this machine.
unset CARGO_BUILD_TARGET
# Whoever became root with su has a user's PATH.
for place in /usr/local/sbin /usr/sbin /sbin; do
    case :$PATH: in *:$place:*) ;; *) PATH=$PATH:$place ;; esac
done
# Programs that make temporary files would end where there is no such place.
if [ -n "${TMPDIR:-}" ] && ! { [ -d "$TMPDIR" ] && [ -w "$TMPDIR" ]; }; then unset TMPDIR; fi
# A proxy is not asked for what is on this machine.
if [ -n "${http_proxy:-}${HTTP_PROXY:-}${https_proxy:-}${HTTPS_PROXY:-}${all_proxy:-}${ALL_PROXY:-}" ]; then
    no_proxy=${no_proxy:-${NO_PROXY:-}}
    for place in localhost 127.0.0.1 ::1; do
        case ,$no_proxy, in ,\*, | *,$place,*) ;; *) no_proxy=${no_proxy:+$no_proxy,}$place ;; esac
    done
    export no_proxy NO_PROXY=$no_proxy
fi
unset place
# One place to change when the crate's minimum moves: rust-version in Cargo.toml.
rust_min=$(sed -n 's/^rust-version *= *"\([0-9.]*\)"/\1/p' "$root/Cargo.toml")
export rust_min

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# version_ge A B: is version A the same as B or newer?
version_ge() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Asked for set or not, an empty LIBCLANG_PATH would keep bindgen from looking anywhere.
[ -n "${LIBCLANG_PATH:-}" ] || unset LIBCLANG_PATH

# shellcheck source=probe/probes.sh
. "$root/scripts/probe/probes.sh"

# The version a cargo or rustc reports, and nothing when it does not run: rustup's cargo is there without any toolchain, too.
rust_version() { (cd "$root" && "$1" --version 2>/dev/null) | awk 'NR == 1 { print $2 }' | sed 's/-.*//'; }

new_enough() {
    local v
    v=$(rust_version "$1")
    [ -n "$v" ] && version_ge "$v" "$rust_min"
}

# Every cargo there may be, best first: each one on PATH, as an old one may be in front of a new one, then where installers put it.
# Ubuntu has several side by side, under names that carry the version (cargo-1.85), and with plain names in a directory of their own.
cargos() {
    # Package managers that run by themselves have no HOME.
    local home=${HOME:-$(getent passwd "$(id -u)" | cut -d : -f 6)} rustups=() place
    rustups=("${RUSTUP_HOME:-$home/.rustup}")
    # That of whoever has become root by sudo.
    if [ "$(id -u)" -eq 0 ] && [ "${SUDO_UID:-0}" != 0 ]; then rustups+=("$(getent passwd "$SUDO_UID" | cut -d : -f 6)/.rustup"); fi
    # What is not there ends nothing: with the "set -e" of whoever sources this it would, in a process that lists for another one.
    set +e
    type -aP cargo
    printf '%s\n' "${CARGO_HOME:-$home/.cargo}/bin/cargo" /usr/local/bin/cargo /usr/bin/cargo
    # Where the one of rustup's that is its default is too old.
    for place in "${rustups[@]}"; do
        compgen -G "$place/toolchains/stable-*/bin/cargo"
        compgen -G "$place/toolchains/[0-9]*/bin/cargo" | sort -rV
    done
    compgen -G '/usr/lib/rust-[0-9]*/bin/cargo' | sort -rV
    compgen -G '/usr/bin/cargo-[0-9]*.[0-9]*' | sort -rV
}

# Sets CARGO, RUSTC and RUSTDOC to a Rust that is new enough: of one directory, as a compiler and a cargo of two versions do not
# always go together. The subcommands (clippy, fmt) are looked for on PATH, so that directory goes in front.
find_rust() {
    local c directory suffix
    if [ -n "${CARGO:-}" ] && new_enough "$CARGO" && new_enough "${RUSTC:-rustc}"; then
        return 0
    fi
    while read -r c; do
        directory=${c%/*} suffix=${c##*/cargo}
        if ! new_enough "$c" || ! new_enough "$directory/rustc$suffix"; then continue; fi
        export CARGO=$c RUSTC=$directory/rustc$suffix
        if [ -x "$directory/rustdoc$suffix" ]; then export RUSTDOC=$directory/rustdoc$suffix; fi
        if [ "$(command -v cargo)" != "$c" ] && [ -z "$suffix" ]; then PATH=$directory:$PATH; fi
        return 0
    done < <(cargos)
    return 1
}

# For scripts that cannot go on without Rust.
need_rust() {
    find_rust || die "no cargo $rust_min or newer; run scripts/bootstrap build"
}

# Sets plain to what cargo is told so that the dev profile optimises nothing: for what is built and hardly run.
# shellcheck disable=SC2034 # of whoever asks
read_plain() { mapfile -t plain < <(sed -n 's/^\[\(profile\.dev\.package\.[a-z0-9_-]*\)\]$/--config=\1.opt-level=0/p' "$root/Cargo.toml"); }
