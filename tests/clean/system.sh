# shellcheck shell=bash
# shellcheck disable=SC2154 # root is of scripts/env.sh
# Sourced by tests/clean/run and tests/packaging/run, after scripts/env.sh: clean systems of Debian or Ubuntu to try things in.
#
# The clean systems are kept as target/debian-root/SUITE.tar for the next time, and the packages that were fetched for them beside
# that; each run works on a copy below $work. What is mounted is mounted in a namespace of its own and goes with it.

# Sets work to a new directory for whole systems. Not in memory where that can be helped, as /tmp of Debian 13 is.
make_work() {
    work=$(directory_with devices_work "${TMPDIR:-/var/tmp}" /var/tmp "$root/target" /tmp) ||
        { say "not run: neither ${TMPDIR:-/var/tmp}, /var/tmp, $root/target nor /tmp is a place where devices and programs work"; exit 77; }
}

checks=0
ok() { checks=$((checks + 1)); say "ok: $*"; }
fail() { say "FAILED: $*"; exit 1; }

# Root is needed for a chroot; the script starts itself again with sudo where that asks nothing.
become_root() {
    if [ "$(id -u)" -ne 0 ]; then
        if have sudo && sudo -n true 2>/dev/null; then
            local settings
            mapfile -t settings < <(env | grep -a '^LIBRA_[A-Z_]*=')
            exec sudo -n env PATH="$PATH" ${HOME:+"HOME=$HOME"} CI="${CI:-}" "${settings[@]}" "$0" "$@"
        fi
        say "not run: a chroot needs root"
        exit 77
    fi
    unshare --mount --pid --fork true 2>/dev/null || { say "not run: a chroot needs namespaces of mounts and processes, which cannot be made here"; exit 77; }
    PATH=$PATH:/usr/sbin:/sbin
}

# clean_root [SUITE [Ubuntu]]: sets cache to the archive of a clean system, which is made where it is not there. Without SUITE it is the one that
# this machine itself has; others are Debian's, or Ubuntu's where that is said. The mirror is that of this machine, or where it has the other system its
# own main one.
clean_root() {
    local wanted=${1:-} family=${2:-Debian} uri suite origin line proxy=''
    # shellcheck disable=SC2016 # apt fills these in
    line=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
        awk '$3 == "main" && ($4 == "Debian" || $4 == "Ubuntu" || NF == 3) && $2 !~ /-/ && !n++ { print $1, $2, $4 }')
    read -r uri suite origin <<<"$line" || true
    if [ -z "$wanted" ] || [ "$wanted" = "${suite:-}" ]; then
        family=${origin:-Debian}
    else
        [ "${origin:-Debian}" = "$family" ] || uri=''
        suite=$wanted
    fi
    # apt knows more kinds of addresses than debootstrap: cloud images have mirror+file.
    case ${uri:-} in http://* | https://* | file:*) ;; *) uri='' ;; esac
    [ -n "${suite:-}" ] || fail "apt names no source to make a clean system from"
    # For apt in the clean system too.
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    [ -z "$proxy" ] || export http_proxy=$proxy
    cache=$root/target/debian-root/$suite.tar
    mkdir -p "${cache%/*}"
    # Several steps may want it at the same time, and one makes it.
    local lock
    exec {lock}>>"$cache.lock"
    flock "$lock"
    [ -e "$cache" ] || make_root
    exec {lock}>&-
}

# For clean_root, whose variables it uses.
make_root() {
    say "Making a clean $suite; kept for the next time"
    # A mirror that fails for a moment does not fail the tests: what was fetched is kept for the next attempt.
    local attempt script='' options=()
    mkdir -p "$work/fetched-$suite"
    if [ "$family" = Ubuntu ]; then
        : "${uri:=$ubuntu_mirror}"
        options=(--components 'main,universe')
        [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || options+=(--keyring="$(ubuntu_keys)")
        # That of all releases; an older debootstrap has no name for a new one.
        [ -e "/usr/share/debootstrap/scripts/$suite" ] || script=/usr/share/debootstrap/scripts/gutsy
    fi
    for attempt in 1 2 3; do
        rm -rf --one-file-system "$work/base-$suite"
        # debootstrap mounts /proc and /sys in it.
        # shellcheck disable=SC2086 # no mirror is none
        if unshare --mount debootstrap --variant=minbase --cache-dir="$work/fetched-$suite" "${options[@]}" "$suite" "$work/base-$suite" ${uri:-} $script >"$work/log" 2>&1; then break; fi
        if grep -q 'signed by unknown key' "$work/log"; then
            # Of what went before, some may have failed.
            [ "${failed:-0}" -eq 0 ] || fail "debootstrap of $suite: this system's keys of $family are older"
            say "not run: this system's keys of $family are older than $suite ($(grep -m 1 'signed by unknown key' "$work/log"))"
            exit 77
        fi
        grep '^E: ' "$work/log" || tail -n 5 "$work/log" "$work/base-$suite/debootstrap/debootstrap.log" 2>/dev/null || true
        [ "$attempt" -lt 3 ] || fail "debootstrap of $suite, $attempt times"
        sleep $((attempt * 10))
    done
    rm -rf "$work/fetched-$suite"
    # As its images have it: newer compilers come as updates.
    [ "$family" != Ubuntu ] || printf 'deb %s %s main universe\n' "$uri" "$suite" "$uri" "$suite-updates" >"$work/base-$suite/etc/apt/sources.list"
    rm -rf "$work/base-$suite"/var/cache/apt/archives/*.deb "$work/base-$suite"/var/lib/apt/lists/*
    tar -C "$work/base-$suite" -cf "$cache.$$" .
    mv "$cache.$$" "$cache"
    rm -rf --one-file-system "$work/base-$suite"
}

ubuntu_mirror=http://archive.ubuntu.com/ubuntu

# ubuntu_there SUITE: can it be fetched from here?
ubuntu_there() { wget -q --spider --timeout=30 --tries=3 "$ubuntu_mirror/dists/$1/InRelease"; }

# Prints the file with the keys of Ubuntu's releases, which Debian does not have: out of Ubuntu's own package, which is known by its sum.
ubuntu_keys() {
    local package=ubuntu-keyring_2023.11.28.1_all.deb sum=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8
    wget -q --timeout=60 --tries=5 -O "$work/$package" "$ubuntu_mirror/pool/main/u/ubuntu-keyring/$package" || fail "$package, with Ubuntu's keys, cannot be fetched" >&2
    sha256sum --status -c <<<"$sum  $work/$package" || fail "$package is not the one whose sum is known" >&2
    dpkg-deb -x "$work/$package" "$work/ubuntu-keys"
    say "$work/ubuntu-keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"
}

# fresh DIR: a copy of the clean system
fresh() {
    mkdir "$1"
    tar -C "$1" -xpf "$cache"
    printf 'Acquire::Retries "5";\n' >"$1/etc/apt/apt.conf.d/80libra-tests"
}

# with_archives SUITE: from now on apt has in it what it has fetched before for this suite. Copies, so that two steps may do so at the same time: apt locks
# its directory, and waits for nobody.
with_archives() {
    mkdir -p "$root/target/debian-root/archives/$1" "$work/archives/partial"
    find "$root/target/debian-root/archives/$1" -maxdepth 1 -name '*.deb' -exec ln -t "$work/archives" {} + 2>/dev/null ||
        find "$root/target/debian-root/archives/$1" -maxdepth 1 -name '*.deb' -exec cp -n -t "$work/archives" {} +
    binds=("$work/archives:/var/cache/apt/archives")
}

# keep_archives SUITE: for the next time, what apt has fetched since.
keep_archives() {
    local deb to
    for deb in "$work"/archives/*.deb; do
        to=$root/target/debian-root/archives/$1/${deb##*/}
        [ -e "$to" ] || { cp "$deb" "$to.$$" && mv "$to.$$" "$to"; }
    done
}

# inside DIR COMMAND...: with /proc, without the host's processes. What is in the array 'binds' (SOURCE:PLACE) is mounted there, and
# 'settings' (NAME=VALUE) is in the environment.
binds=()
settings=()
inside() {
    local dir=$1
    shift
    # shellcheck disable=SC2016 # of the inner shell
    unshare --mount --pid --fork --mount-proc="$dir/proc" bash -c '
        dir=$1
        shift
        while [ "$1" != -- ]; do
            mkdir -p "$dir${1#*:}" && mount --bind "${1%%:*}" "$dir${1#*:}" || exit
            shift
        done
        shift
        exec chroot "$dir" "$@"' inside "$dir" "${binds[@]}" -- \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+"http_proxy=$http_proxy"} "${settings[@]}" "$@" </dev/null
}
