# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # root, work, http_proxy and the functions are of scripts/env.sh and tests/clean/system.sh
# Sourced by tests/systemd/run: images of a Debian with systemd, a batch system in it and nothing of Libra, for user-mode Linux.
#
# They are kept as target/systemd/NAME.ext4 beside what they were made of; a run works on a copy-on-write file of its own. The host is called n1 and has
# 192.0.2.1 (nobody's address) on its loopback, since PBS and Slurm want another address than 127.0.0.1. alice is an ordinary user.

common=(systemd systemd-sysv dbus iproute2 procps python3)
pbs_packages=(postgresql libpython3.11 libical3 libhwloc15 libpq5 libexpat1 libssl3 tcl8.6 tk8.6 hostname)

# libraries_of_pbs: the packages that have, here, what this machine's OpenPBS is linked with: which those are depends on how it was built
libraries_of_pbs() {
    local library
    for library in $(for file in "$PBS_EXEC"/{bin,sbin}/*; do ldd "$file" 2>/dev/null; done | awk '$3 ~ "^/" { print $3 }' | sort -u); do
        # Where /lib is a link, a package may say either.
        dpkg-query -S "$library" 2>/dev/null || dpkg-query -S "/usr$library" 2>/dev/null || true
    done | sed 's/[:,].*//' | sort -u
}
slurm_packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins libslurm-dev munge hostname)
# Of a Slurm that was built from source, which has its own units and plugins (tests/slurm/from_source.sh).
built_packages=("${run_packages[@]}" hostname)

# guest_files: what every guest has, in $dir
guest_files() {
    echo n1 >"$dir/etc/hostname"
    printf '127.0.0.1 localhost\n192.0.2.1 n1\n' >"$dir/etc/hosts"
    : >"$dir/etc/fstab"
    cat >"$dir/etc/systemd/system/address.service" <<'END'
[Unit]
Description=The address of this host
DefaultDependencies=no
After=systemd-sysctl.service
Before=network.target network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/ip address add 192.0.2.1/32 dev lo
[Install]
WantedBy=sysinit.target
END
    # What is to be done comes from outside, and what came of it goes there. Its shell is in no control group of a batch system or of Libra.
    cat >"$dir/etc/systemd/system/checks.service" <<'END'
[Unit]
Description=What this guest was started for
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/bash -c 'mount -t hostfs -o "sync,$(sed "s/.*libra_shared=\\([^ ]*\\).*/\\1/" /proc/cmdline)" none /mnt; exec bash /mnt/start'
[Install]
WantedBy=multi-user.target
END
    # Whatever boots here shares a slow processor with all the rest.
    mkdir -p "$dir/etc/systemd/system.conf.d"
    printf '[Manager]\nDefaultTimeoutStartSec=15min\nDefaultTimeoutStopSec=15min\n' >"$dir/etc/systemd/system.conf.d/patience.conf"
    quietly inside "$dir" systemctl enable address checks
    # Neither terminals nor updates; and this kernel has all that it has in itself.
    quietly inside "$dir" systemctl mask systemd-modules-load getty.target systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
    quietly inside "$dir" useradd --create-home --shell /bin/bash alice
}

# on_n1 COMMAND...: in $dir, as a host of that name with that address, and with no other network
on_n1() {
    # shellcheck disable=SC2016 # of the inner shell
    quietly unshare --mount --pid --fork --uts --net --ipc --kill-child --mount-proc="$dir/proc" bash -c '
        dir=$1
        shift
        hostname n1 && ip link set lo up && ip address add 192.0.2.1/32 dev lo || exit
        # Its own ones: whatever changes their modes there, changes none here.
        mount -t tmpfs tmpfs "$dir/dev" && mkdir -m 1777 "$dir/dev/shm" && mknod -m 666 "$dir/dev/null" c 1 3 && mknod -m 666 "$dir/dev/zero" c 1 5 &&
            mknod -m 666 "$dir/dev/urandom" c 1 9 || exit
        exec chroot "$dir" "$@"' on_n1 "$dir" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@" </dev/null
}

# OpenPBS of this machine, with its data service, this host as its node and a unit for mom alone: that of PBS stops all daemons at once, and
# mom by a signal at which it ends its jobs.
with_pbs() {
    mkdir -p "$dir$PBS_EXEC"
    cp -a "$PBS_EXEC/." "$dir$PBS_EXEC/"
    chmod 4755 "$dir$PBS_EXEC/sbin/pbs_iff" "$dir$PBS_EXEC/sbin/pbs_rcp"
    local missing
    missing=$(for file in "$PBS_EXEC"/bin/* "$PBS_EXEC"/sbin/*; do inside "$dir" ldd "$file" 2>/dev/null; done | grep "not found" | sort -u) || :
    [ -z "$missing" ] || fail "OpenPBS lacks in the guest: $missing"
    cat >"$dir/etc/pbs.conf" <<END
PBS_EXEC=$PBS_EXEC
PBS_HOME=/var/spool/pbs
PBS_SERVER=n1
PBS_START_SERVER=1
PBS_START_SCHED=1
PBS_START_COMM=1
PBS_START_MOM=0
PBS_CORE_LIMIT=0
END
    # The daemons but mom, by their own script.
    cat >"$dir/etc/systemd/system/pbs.service" <<END
[Unit]
Description=Daemons of OpenPBS
After=network-online.target
[Service]
Type=forking
GuessMainPID=no
Delegate=yes
ExecStart=$PBS_EXEC/libexec/pbs_init.d start
ExecStop=$PBS_EXEC/libexec/pbs_init.d stop
[Install]
WantedBy=multi-user.target
END
    cat >"$dir/etc/systemd/system/pbs-mom.service" <<END
[Unit]
Description=Execution host of PBS
After=network-online.target pbs.service
[Service]
Type=exec
ExecStart=$PBS_EXEC/sbin/pbs_mom -N -p
KillMode=process
KillSignal=SIGINT
Delegate=yes
TasksMax=infinity
[Install]
WantedBy=multi-user.target
END
    cat >"$dir/root/prepare" <<END
set -ex
$PBS_EXEC/libexec/pbs_habitat
printf '\$usecp *:/ /\n\$min_check_poll 5\n' >/var/spool/pbs/mom_priv/config
$PBS_EXEC/libexec/pbs_init.d start
for command in 'create node n1' 'set node n1 resources_available.ncpus = 1' 'set server flatuid = true' 'set server job_history_enable = true'; do
    $PBS_EXEC/bin/qmgr -c "\$command"
done
$PBS_EXEC/libexec/pbs_init.d stop
END
    on_n1 bash /root/prepare
    rm "$dir/root/prepare"
    quietly inside "$dir" systemctl enable pbs pbs-mom
}

# Debian's own Slurm, or that of the archive $installed, with its own units, as its documentation sets it up, and with the settings of docs/slurm-install.md but
# those that install writes.
with_slurm() {
    if [ -n "$installed" ]; then
        tar -C "$dir" -xf "$installed"
        quietly inside "$dir" useradd --system slurm
    fi
    mkdir -p "$dir/etc/slurm" "$dir/etc/munge"
    head -c 1024 /dev/urandom >"$dir/etc/munge/munge.key"
    quietly inside "$dir" sh -c 'chown munge:munge /etc/munge/munge.key; chmod 400 /etc/munge/munge.key; mkdir -p /var/spool/slurm; install -d -o slurm -g slurm /var/spool/slurm/ctld /var/log/slurm'
    cat >"$dir/etc/slurm/slurm.conf" <<'END'
ClusterName=guest
SlurmctldHost=n1
SlurmUser=slurm
StateSaveLocation=/var/spool/slurm/ctld
SlurmdSpoolDir=/var/spool/slurm/d
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=600
MessageTimeout=60
UnkillableStepTimeout=180
NodeName=n1 CPUs=1
PartitionName=main Nodes=n1 Default=YES OverSubscribe=FORCE:20 State=UP
END
    printf 'CgroupPlugin=cgroup/v2\n' >"$dir/etc/slurm/cgroup.conf"
    quietly inside "$dir" systemctl enable munge slurmctld slurmd
}

# image NAME: sets image to that of this name, of the release $suite with the batch system $batch (Slurm: of the archive $installed, if there is one), which is made
# where it is not there or was made of something else. Beside it are the headers of its Slurm, as $headers/usr/include/slurm.
image() {
    local name=$1 needed recipe lock made_of=()
    image=$root/target/systemd/$name.ext4
    mkdir -p "${image%/*}"
    case $batch in
        pbs)
            mapfile -t needed < <(libraries_of_pbs)
            needed+=("${common[@]}" "${pbs_packages[@]}")
            made_of=("$PBS_EXEC"/{bin,sbin}/*)
            ;;
        slurm)
            needed=("${common[@]}" "${slurm_packages[@]}")
            if [ -n "$installed" ]; then
                needed=("${common[@]}" "${built_packages[@]}")
                image=${image%.ext4}-$(basename "$installed" .tar).ext4 made_of=("$installed")
            fi
            ;;
    esac
    headers=${image%.ext4}-headers
    clean_root "$suite"
    # The system, the functions, the packages, and the batch system where it is not Debian's.
    recipe=$(stat -c '%n %Y' "$cache" "${made_of[@]}"; declare -f guest_files "with_$batch"; echo "${needed[@]}")
    exec {lock}>>"$image.lock"
    flock "$lock"
    if ! [ -e "$image" ] || ! cmp -s "$image.recipe" <<<"$recipe"; then
        say "Making a guest with $name; kept for the next time"
        dir=$work/root-$name
        fresh "$dir"
        with_archives "$suite"
        printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d"
        chmod 755 "$dir/usr/sbin/policy-rc.d"
        if [ "$batch" = pbs ]; then
            # PBS has a data service of its own.
            mkdir -p "$dir/etc/postgresql-common"
            echo 'create_main_cluster = false' >"$dir/etc/postgresql-common/createcluster.conf"
        fi
        quietly inside "$dir" apt-get -q update
        quietly inside "$dir" apt-get -q -y install --no-install-recommends "${needed[@]}"
        keep_archives "$suite"
        binds=()
        rm "$dir/usr/sbin/policy-rc.d"
        guest_files
        "with_$batch"
        rm -rf "$headers"
        [ "$batch" != slurm ] || { mkdir -p "$headers/usr/include" && cp -rp "$dir/usr/include/slurm" "$headers/usr/include"; }
        rm -rf "$dir"/var/lib/apt/lists/* "$dir"/usr/share/{doc,man,locale}/*
        quietly mke2fs -q -t ext4 -O '^has_journal' -d "$dir" "$image.new" 2G
        rm -rf --one-file-system "$dir"
        mv "$image.new" "$image"
        printf '%s\n' "$recipe" >"$image.recipe"
    fi
    exec {lock}>&-
}
