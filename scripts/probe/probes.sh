# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # root is of env.sh; what is wrong is told in variables
# Sourced by scripts/env.sh: is a thing there in the way in which it will be used? A name on PATH is no proof of that.

# directory_with PROPERTY PLACE...: makes a directory in the first of these places that has the property, and prints its name; nothing where none has. Whoever
# made it removes it.
directory_with() {
    local property=$1 place at
    shift
    for place; do
        at=$(mktemp -d "$place/libra.XXXXXX" 2>/dev/null) || continue
        if "$property" "$at"; then
            printf '%s\n' "$at"
            return
        fi
        rm -rf "$at"
    done
    return 1
}

# Do programs run there? In many a /tmp they may not (noexec).
programs_run() {
    printf '#!/bin/sh\n' >"$1/true" && chmod 755 "$1/true" && "$1/true"
} 2>/dev/null

# And may other users come in? Systems with a /tmp for each user let nobody.
all_may_enter() {
    local at
    at=$(realpath -- "$1") && programs_run "$1" || return 1
    while at=$(dirname "$at") && [ "$at" != / ]; do
        case $(stat -L -c %A "$at") in *[xt]) ;; *) return 1 ;; esac
    done
}

# And do devices work? Root's to ask. In the memory that Debian 13 has as /tmp they do not (nodev).
devices_work() {
    programs_run "$1" && mknod "$1/null" c 1 3 && : >"$1/null" && rm "$1/null" "$1/true"
} 2>/dev/null

# A place for what a probe builds and runs. Small.
probe_directory() { directory_with programs_run "${TMPDIR:-/tmp}" /var/tmp "$(dirname "$CARGO_TARGET_DIR")"; }
probe_error=''
no_place="there is no directory where programs can be built and run: not ${TMPDIR:-/tmp}, /var/tmp or $(dirname "$CARGO_TARGET_DIR"); say TMPDIR=DIRECTORY"

# compiles COMPILER LANGUAGE TEXT: does it make a program of the text, with the system's headers, and does that run?
# What is wrong is in $probe_error, one line.
compiles() {
    local at rc=0
    at=$(probe_directory) || { probe_error=$no_place; return 1; }
    probe_error=''
    # shellcheck disable=SC2086 # CC may be several words
    if ! printf '%s\n' "$3" | $1 -x "$2" -o "$at/program" - >"$at/log" 2>&1 || ! "$at/program" >>"$at/log" 2>&1; then
        rc=1
        probe_error=$(grep -m 1 -E 'error|cannot|not found' "$at/log" || head -n 1 "$at/log")
    fi
    rm -rf "$at"
    return $rc
}
links_c() { compiles "$1" c $'#include <stdio.h>\nint main(void) { return fflush(stdout); }'; }
links_cxx() { compiles "$1" c++ $'#include <vector>\nint main() { return std::vector<int>(1).size() != 1; }'; }

# What rustc links with is 'cc'; what is in C (SQLite) is compiled by CC where that is set.
find_cc() { links_c cc && { [ -z "${CC:-}" ] || links_c "$CC"; }; }
find_cxx() { links_cxx g++; }

# Does it run and end well? Debian's wrappers and half-removed programs are on PATH and do not.
runs() { timeout 60 "$@" >/dev/null 2>&1 </dev/null; }

# The libclang that bindgen loads: what clang-sys 1.9 searches, in its order (build/common.rs and build/dynamic.rs of that
# crate). LIBCLANG_PATH alone where it is set; else llvm-config, two variables for libraries, and these directories. The highest
# version wins, and among those of one version the first. Prints nothing where there is none.
libclang_candidates() {
    local prefix place
    if [ -n "${LIBCLANG_PATH+set}" ]; then
        if [ -f "$LIBCLANG_PATH" ]; then
            libclang_files "$(dirname "$LIBCLANG_PATH")" | grep -xF "$LIBCLANG_PATH"
        else
            libclang_files "$LIBCLANG_PATH"
        fi
        return
    fi
    prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null | head -n 1)
    [ -z "$prefix" ] || for place in bin lib lib64; do libclang_files "$prefix/$place"; done
    while read -r place; do
        [ -z "$place" ] || libclang_files "$place"
    done < <(tr : '\n' <<<"${LD_LIBRARY_PATH:-}:${LIBRARY_PATH:-}")
    for place in '/usr/local/llvm*/lib*' '/usr/local/lib*/*/*' '/usr/local/lib*/*' '/usr/local/lib*' '/usr/lib*/*/*' '/usr/lib*/*' '/usr/lib*'; do
        libclang_files "$place"
    done
}

# libclang_files DIRECTORIES: what is named like libclang in the directories that match. libclang-cpp is another library.
libclang_files() {
    local file
    while read -r file; do
        case ${file##*/} in
            *-cpp.*) ;;
            libclang.so) printf '%s\t1\t%s\n' "${file%/*}" "$file" ;;
            libclang-*.so) printf '%s\t2\t%s\n' "${file%/*}" "$file" ;;
            libclang.so.*) printf '%s\t3\t%s\n' "${file%/*}" "$file" ;;
            libclang-*.so.*) printf '%s\t4\t%s\n' "${file%/*}" "$file" ;;
        esac
    done < <(compgen -G "$1/libclang[-.]*so*") | LC_ALL=C sort -s -t $'\t' -k1,1 -k2,2 | cut -f 3
}

# elf_of FILE: class and machine of an ELF file, as hexadecimal digits; nothing where it is none.
elf_of() { od -An -v -tx1 -N20 "$1" 2>/dev/null | tr -d ' \n' | sed -nE 's/^7f454c46(..).{26}(....)$/\1 \2/p'; }

libclang_of_bindgen() {
    local file name version best='' best_version='' own
    own=$(elf_of /proc/self/exe)
    while read -r file; do
        [ "$(elf_of "$file" | cut -d ' ' -f 1)" = "${own% *}" ] || continue
        name=${file##*/}
        case $name in
            libclang.so.*) version=${name#libclang.so.} ;;
            # clang-sys takes three letters off the end, whatever they are.
            libclang-*) version=${name#libclang-} version=${version:0:-3} ;;
            *) version='' ;;
        esac
        version=$(awk -v RS=. '{ printf "%09d", /^[0-9]+$/ ? $0 : 0 }' <<<"$version." | head -c 90)
        [ -n "${name##libclang.so}" ] || version=''
        if [ -z "$best" ] || [[ $version > $best_version ]]; then best=$file best_version=$version; fi
    done < <(libclang_candidates)
    [ -n "$best" ] && printf '%s\n' "$best"
}

# Would bindgen read include/libra.h? $libclang_problem says in one line why not; it is empty where there simply is no libclang.
find_libclang() {
    local file at rc=0
    libclang_problem=''
    file=$(libclang_of_bindgen) || true
    if [ -z "$file" ]; then
        [ -z "${LIBCLANG_PATH+set}" ] ||
            libclang_problem="LIBCLANG_PATH is '$LIBCLANG_PATH', where there is no libclang.so, and the build then looks nowhere else; unset it, or name the file or its directory"
        return 1
    fi
    if [ "$(elf_of "$file")" != "$(elf_of /proc/self/exe)" ]; then
        libclang_problem="$file is for another kind of processor; say LIBCLANG_PATH=DIRECTORY of another libclang"
        return 1
    fi
    at=$(probe_directory) || { libclang_problem=$no_place; return 1; }
    # Without a compiler it cannot be tried; then that is missing, and it is tried after that.
    if cc -o "$at/probe" "$root/scripts/probe/libclang.c" -ldl >/dev/null 2>&1; then
        # shellcheck disable=SC2086 # several words, as for bindgen
        libclang_problem=$("$at/probe" "$file" "$root/include/libra.h" -x c -std=c99 ${BINDGEN_EXTRA_CLANG_ARGS:-} 2>&1 | head -n 1; exit "${PIPESTATUS[0]}") || rc=1
        [ $rc -eq 0 ] || libclang_problem="$file cannot read include/libra.h: ${libclang_problem:-it crashed}"
    fi
    rm -rf "$at"
    return $rc
}

# Python with the part that makes places for packages; Debian has that in a package of its own.
find_venv() {
    runs python3 -c 'import ensurepip, venv'
}

# Sets browser to the first that starts, or browser_problem. The first of these names has no windows, and does what the tests ask for less than half of the
# processor time. One that only has the name does not start: Ubuntu's is a snap. tests/web/drive.py knows them too.
browsers=(chromium-headless-shell chromium chromium-browser google-chrome)
find_browser() {
    local name at rc=1
    browser_problem=$no_place
    at=$(probe_directory) || return 1
    browser_problem='there is no chromium'
    for name in "${browsers[@]}"; do
        have "$name" || continue
        TMPDIR=$at timeout 300 "$name" --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$at/profile" --dump-dom \
            'data:text/html,<title>ready</title>' >"$at/page" 2>"$at/log" </dev/null || true
        if grep -q '<title>ready' "$at/page"; then
            browser=$name rc=0
            break
        fi
        browser_problem="$name does not start here: $(grep -v '^$' "$at/log" | tail -n 1 | cut -c 1-100)"
    done
    rm -rf "$at"
    return $rc
}
