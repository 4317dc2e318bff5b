# shellcheck shell=bash disable=SC2317
# (Functions are called by name, as what is waited for.)
# Sourced by what tests/systemd/run starts in a guest: checks, waiting, commands of the guide, control groups.
#
# /mnt is the directory that guest and starter share.
set -uo pipefail
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /root || exit

say() { printf '%s\n' "$*"; }
ok() { say "ok: $*"; }
fail() {
    say "FAILED: $*"
    evidence
    exit 1
}
# What one wants to know when something went wrong; each system adds its own.
evidence() {
    systemctl --no-pager --no-legend list-units --failed
    libra status 2>&1
    find /sys/fs/cgroup/libra.slice /sys/fs/cgroup/system.slice -name 'cpu.max' -path '*job*' -printf '%p: ' -exec cat {} \;
    journalctl --no-pager -q -n 40 -o short-monotonic
    more_evidence 2>&1
}

# quietly COMMAND…: what it prints only where it fails
quietly() { "$@" >/tmp/said 2>&1 || { local rc=$?; cat /tmp/said; fail "'$*' exits $rc"; }; }

# Seconds that anything may take, a minute's work of an idle machine ten times over.
patience=600

# wait_for WHAT COMMAND…: until the command succeeds
wait_for() {
    local what=$1 until=$((SECONDS + patience))
    shift
    until "$@" >/tmp/waited 2>&1; do
        if [ $SECONDS -ge $until ]; then
            cat /tmp/waited
            fail "after $patience s not yet: $what"
        fi
        # To look costs a guest's only processor much, and the job that is waited for has none of it meanwhile.
        sleep 2
    done
}
not() { ! "$@"; }

# commands_of SECTION: the commands in the blocks of code of that section of the guide, without their comments; not those with a prompt, which show what is printed
commands_of() {
    awk -v section="## $1" '
        /^#/ { inside = $0 == section }
        !/^    / { shown = 0 }
        /^    \$ / { shown = 1 }
        inside && !shown && /^    [a-z]/ { sub(/^    /, ""); sub(/ +#.*/, ""); print }' /mnt/install.md
}

# follow SECTION [COMMAND]...: runs them, word for word, in their order; each COMMAND is one that says, and by its exit code, that it has not done all, as the
# guide tells
follow() {
    local command rc count=0 section=$1
    shift
    while read -r command <&3; do
        say "guide: $command"
        rc=0
        bash -c "$command" >/tmp/said 2>&1 || rc=$?
        if [[ "|$(printf '%s|' "$@")" == *"|$command|"* ]]; then
            [ $rc -ne 0 ] || fail "'$command', of the section '$section', does all at once"
        elif [ $rc -ne 0 ]; then
            cat /tmp/said
            fail "'$command', of the section '$section', exits $rc"
        fi
        count=$((count + 1))
        followed "$command"
    done 3< <(commands_of "$section")
    [ $count -gt 0 ] || fail "the guide has no commands in a section '$section' any more"
    ok "$count commands of the guide's section '$section'"
}
# What must be waited for between two commands of the guide; each system says.
followed() { :; }

# says TEXT COMMAND…: the command succeeds and prints TEXT
says() {
    local text=$1
    shift
    "$@" >/tmp/said 2>&1 || { local rc=$?; cat /tmp/said; fail "'$*' exits $rc"; }
    grep -qF -- "$text" /tmp/said || { cat /tmp/said; fail "'$*' does not say '$text'"; }
    ok "$* says: $text"
}

# in the guide's table of what is needed: in_guide TEXT
in_guide() { grep -qF -- "$1" /mnt/install.md || fail "the guide does not say '$1' any more"; }

# as_alice COMMAND: at a login
as_alice() { su - alice -c "$1"; }

boots() {
    [ "$(cat /proc/1/comm)" = systemd ] || fail "process 1 is $(cat /proc/1/comm)"
    [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ] || fail "there is no cgroup v2 in /sys/fs/cgroup"
    up() { case $(systemctl is-system-running) in running | degraded) ;; *) systemctl list-jobs; return 1 ;; esac; }
    wait_for "the system is up" up
    [ -z "$(systemctl --no-legend list-units --failed)" ] || fail "units failed"
    ok "boots with $(systemctl --version | head -n 1), cgroup v2"
}

# Files and units whose names have Libra's, without the package manager's books, logs, and what each system says may stay: an expression.
stays='-'
libras() {
    { find /etc /usr /opt /var /run /tmp /home /root /sys/fs/cgroup -xdev -iname '*libra*' ! -path '/var/lib/dpkg/*' ! -path '/var/log/*' ! -path '/var/cache/*' ! -path '/var/lib/apt/*' 2>/dev/null
      systemctl --no-legend --all --plain list-units '*libra*' 2>/dev/null | awk '{ print "unit " $1 }'; } | grep -vxE -- "$stays" | sort
}

installs_packages() {
    libras >/root/before
    quietly apt-get -q -y install --no-install-recommends /mnt/*.deb
    ok "apt installs $(cd /mnt && echo *.deb)"
    in_guide 'systemctl enable --now libra-agent'
    quietly systemctl enable --now libra-agent
    wait_for "the agent is active" systemctl -q is-active libra-agent
    says 'cgroup v2' libra config check
    ok "systemctl enable --now libra-agent"
}

# removes_packages PACKAGE…
removes_packages() {
    quietly systemctl disable --now libra-agent
    quietly apt-get -q -y purge "$@"
    quietly systemctl daemon-reload
    libras >/root/after
    diff /root/before /root/after || fail "something of Libra's is left"
    ok "apt purge: no unit, no group and no file is left"
}

# share_of ID: that of a job of this host which has not ended, as libra status has it
share_of() {
    libra status --json | python3 -c '
import json, sys
jobs = [job for job in json.load(sys.stdin)["jobs"] if job["id"] == sys.argv[1] and job["share"] and job["enforced"]]
print(jobs[0]["share"] if jobs else "")' "$1"
}

# held GROUP: what the kernel has of it, as processors and a weight
held() { awk -v weight="$(cat "$1/cpu.weight")" '{ print ($1 == "max" ? "max" : $1 / $2), weight }' "$1/cpu.max"; }

# near A B TOLERANCE: are they the same to that part?
near() { awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a / b - 1; exit !(a + 0 > 0 && d <= t && d >= -t) }'; }

# same_held BEFORE AFTER: to a hundredth; a share goes up a little while its job waits
same_held() {
    near "${2% *}" "${1% *}" 0.01 && near "${2#* }" "${1#* }" 0.01
}

# kept GROUP BEFORE WHAT: its share is soon (the agent writes each second) as it was
kept() {
    is_as_before() { same_held "$2" "$(held "$1")"; }
    wait_for "the share is as it was ($2) after: $3 (now $(held "$1"))" is_as_before "$1" "$2"
    ok "$3: the share is as it was: $(held "$1")"
}

# never_else GROUP BEFORE WHAT COMMAND…: the share is the same in each moment of the command and two seconds longer
never_else() {
    local group=$1 before=$2 what=$3 now looked
    shift 3
    rm -f /tmp/enough
    # In one process: to start another takes longer here than what is looked for may last.
    python3 -c '
import os, sys, time
seen, looked = set(), 0
while not os.path.exists("/tmp/enough"):
    quota, period = open(sys.argv[1] + "/cpu.max").read().split()
    seen.add((quota if quota == "max" else int(quota) / int(period), open(sys.argv[1] + "/cpu.weight").read().strip()))
    looked += 1
    time.sleep(0.01)
print(looked)
for quota, weight in sorted(seen, key=str):
    print(quota, weight)' "$group" >/tmp/seen 2>&1 &
    quietly "$@"
    sleep 2
    touch /tmp/enough
    wait $!
    {
        read -r looked
        while read -r now; do
            same_held "$before" "$now" || fail "$what: the share was '$now' for a moment, and '$before' before"
        done
    } </tmp/seen
    ok "$what: the share was as before each of the $looked times that it was looked at: $before"
}

used() { awk '$1 == "usage_usec" { print $2 }' "$1/cpu.stat"; }

# shared GROUP GROUP: what two busy jobs use is as their caps are; longer where the machine is busy
shared() {
    local seconds first second
    for seconds in 5 10 20 40 40 40 40 40 40 40 40 40 40 40 40; do
        first=$(used "$1") second=$(used "$2")
        sleep $seconds
        first=$(($(used "$1") - first)) second=$(($(used "$2") - second))
        say "in $seconds s: $first and $second us, of $(held "$1") and $(held "$2")"
        if near "$(awk -v a=$first -v b=$second 'BEGIN { print a / b }')" "$(awk -v a="$(held "$1")" -v b="$(held "$2")" 'BEGIN { split(a, x, " "); split(b, y, " "); print x[1] / y[1] }')" 0.1; then
            ok "two busy jobs use the processor as their shares are"
            return
        fi
    done
    fail "two busy jobs do not use the processor as their shares are"
}
