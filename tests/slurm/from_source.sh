# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # root, work and the functions are of scripts/env.sh and tests/clean/system.sh
# Sourced by tests/slurm/headers, tests/slurm/versions and tests/systemd/run: releases of Slurm out of a clone of its source.

# newest_tag REPOSITORY RELEASE: sets tag and version to those of the newest micro version of a release (24.05), or of that one (24.05.8)
newest_tag() {
    local major minor micro
    IFS=. read -r major minor micro <<<"$2"
    tag=$(git -C "$1" tag --list "slurm-$major-$minor-${micro:-*}*" | grep -E "^slurm-$major-$minor-${micro:-[0-9]+}-[0-9.]+$" | sort -V | tail -n 1)
    [ -n "$tag" ] || return 1
    version=$(git -C "$1" show "$tag:META" | awk '$1 == "Version:" && !n++ { print $2 }')
}

# is_repository DIRECTORY, or the script ends
is_repository() {
    git -C "$1" rev-parse --git-dir >/dev/null 2>&1 || die "$1 is not a git repository; it is to be a clone of https://github.com/SchedMD/slurm"
}

releases=(22.05 23.02 23.11 24.05 24.11 25.05 25.11 26.05)

# What Slurm is built with in a Debian 12, and what it then needs there to run.
build_packages=(gcc make libc6-dev pkg-config python3 libmunge-dev libhwloc-dev libdbus-1-dev libjson-c-dev liblua5.4-dev libssl-dev zlib1g-dev libreadline-dev)
run_packages=(munge libmunge2 libhwloc15 libdbus-1-3 libjson-c5 liblua5.4-0 libssl3 zlib1g libreadline8 libnuma1)

# built REPOSITORY: sets archive to what $version, of $tag, installs, as a package of Debian 12 would: below /usr, with units
# of systemd. It is compiled where it is not there yet, in a clean Debian 12, and kept in target/slurm-source.
built() {
    local lock
    archive=$root/target/slurm-source/$version.tar
    mkdir -p "${archive%/*}"
    # Who wants it at the same time waits for it.
    exec {lock}>>"$archive.lock"
    flock "$lock"
    [ -e "$archive" ] || build_slurm "$1"
    exec {lock}>&-
}

# For built, whose variables it uses.
build_slurm() {
    say "Building Slurm $version ($tag); kept for the next time"
    local dir=$work/build-$version
    clean_root bookworm
    fresh "$dir"
    with_archives bookworm
    quietly inside "$dir" apt-get -q update
    quietly inside "$dir" apt-get -q -y install --no-install-recommends "${build_packages[@]}"
    keep_archives bookworm
    binds=()
    mkdir "$dir/source"
    git -C "$1" archive "$tag" | tar -C "$dir/source" -xf - || fail "the source of $tag"
    # As Debian does: several slurmd on a host, which the tests need. Neither what speaks with other systems, nor documents.
    # shellcheck disable=SC2016 # of the inner shell
    quietly inside "$dir" sh -c 'cd /source &&
        ./configure --quiet --prefix=/usr --libdir=/usr/lib --sysconfdir=/etc/slurm --localstatedir=/var --with-systemdsystemunitdir=/usr/lib/systemd/system \
            --disable-slurmrestd --without-pmix --without-ucx --without-rdkafka --disable-static --enable-multiple-slurmd &&
        sed -i "s/^SUBDIRS = .*/SUBDIRS = auxdir src etc/" Makefile &&
        find . -name Makefile -exec sed -i "/^CFLAGS = /s/ -g[^ ]*//g" {} + &&
        make -s -j"$(nproc)" && make -s install DESTDIR=/installed'
    tar -C "$dir/installed" --exclude='*.a' --exclude='*.la' -cf "$archive.new" . || fail "the archive of $version"
    mv "$archive.new" "$archive"
    rm -rf --one-file-system "$dir"
}
