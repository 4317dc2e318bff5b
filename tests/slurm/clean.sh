# shellcheck shell=bash
# shellcheck disable=SC2154 # root, work, CARGO and the functions are of scripts/env.sh, tests/clean/system.sh and who sources this
# Sourced by tests/slurm/debian13 and tests/slurm/versions: tests of tests/slurm in a clean system that has another Slurm than this machine.
#
# Plugins are built for that Slurm's headers, by this machine's Rust, into target/slurm/VERSION, and of what they are made of that knows no Slurm nothing is
# built anew where scripts/slurm-plugins has built it for another one. The program is this machine's too, so its C library must not be newer
# than that of the clean system. In the clean system are this machine's processes, control groups, network and /srv and /run, by which suites that run
# side by side know of each other (tests/batch): only programs, libraries and users are its own.

quietly() { "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail "$*"; }; }

# What is needed of the machine, or the script ends: these tests measure by cgroup v1.
needs_of_clean() {
    have apt-get || { say "not run: this is neither Debian nor Ubuntu"; exit 77; }
    become_root "$@"
    have debootstrap || { say "not run: debootstrap is missing (scripts/bootstrap test)"; exit 77; }
    [ -d /sys/fs/cgroup/cpu ] || { say "not run: no cgroup v1 controller cpu, in which these tests measure"; exit 77; }
}

c_library() { LC_ALL=C "$@" getconf GNU_LIBC_VERSION | awk '{ print $2 }'; }

# not_newer DIR: can this machine's programs run there? Else the script ends.
not_newer() {
    local here there
    here=$(c_library env) there=$(c_library inside "$1")
    version_ge "$there" "$here" || { say "not run: this machine's C library, $here, is newer than that of the clean system, $there, which its programs would need"; exit 77; }
}

# users_of DIR NUMBER: its users have the 500 numbers from there on, which no other suite's have.
users_of() {
    sed -i "s/^UID_MIN.*/UID_MIN $2/; s/^UID_MAX.*/UID_MAX $(($2 + 499))/; s/^GID_MIN.*/GID_MIN $2/; s/^GID_MAX.*/GID_MAX $(($2 + 499))/" "$1/etc/login.defs"
    printf '127.0.0.1 localhost %s\n' "$(uname -n)" >"$1/etc/hosts"
}

# plugins_for DIR NAME: sets plugins to those for the Slurm whose headers are in DIR/usr/include/slurm, and include to where they are from now on. They alone,
# since those of another C library do not go with this machine's; always at the same place and of the same times, so that nothing is built anew without need,
# and left as they are where they are the same, as another step may be building with them.
plugins_for() {
    local lock
    include=$root/target/debian-root/include/$2
    mkdir -p "$include"
    exec {lock}>>"$include.lock"
    flock "$lock"
    if ! diff -r "$1/usr/include/slurm" "$include/slurm" >/dev/null 2>&1; then
        rm -rf "$include/slurm"
        cp -rp "$1/usr/include/slurm" "$include"
    fi
    exec {lock}>&-
    plugins=$(SLURM_INCLUDE=$include scripts/slurm-plugins --locked | tail -n 1)
}

# suite_in DIR PROGRAM ARGUMENT...: a program of tests/slurm there, with $plugins
suite_in() {
    local dir=$1 program=$2
    shift 2
    need_rust
    if [ -z "${LIBRA:-}" ]; then
        "$CARGO" build --locked --quiet --bin libra || fail "the program was not built"
        LIBRA=$CARGO_TARGET_DIR/debug/libra
    fi
    install "$LIBRA" "$dir/usr/local/bin/libra" || fail "the program cannot be put into $dir"
    say "Slurm $(inside "$dir" /usr/sbin/slurmd -V), plugins in $plugins: $program $*"
    # With this machine's processes, not in a namespace of its own: a suite beside it looks whether the owner of a cluster lives.
    # shellcheck disable=SC2016 # of the inner shell
    unshare --mount bash -c '
        dir=$1 root=$2
        shift 2
        mkdir -p "$dir$root" "$dir/srv" "$dir/run"
        for place in /proc /sys /dev /run /srv "$root"; do mount --rbind "$place" "$dir$place" || exit; done
        exec chroot "$dir" "$@"' suite_in "$dir" "$root" \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 LIBRA=/usr/local/bin/libra LIBRA_SLURM_PLUGINS="$plugins" \
        ${faulty:+"LIBRA_FAULTY_PLUGIN=$faulty"} \
        ${LIBRA_TEST_TURNS:+"LIBRA_TEST_TURNS=$LIBRA_TEST_TURNS"} PYTHONDONTWRITEBYTECODE=1 "$root/tests/slurm/$program" "$@" </dev/null
}
