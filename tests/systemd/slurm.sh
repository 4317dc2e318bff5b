# shellcheck shell=bash disable=SC2317
# (Functions are called by name, as what is waited for.)
# Run by the guest that tests/systemd/run starts: Slurm under systemd, with its own cgroup plugins, from Libra's installation to its end.
# shellcheck source=tests/systemd/guest.sh
. /mnt/guest.sh
export SLURM_CONF=/etc/slurm/slurm.conf

more_evidence() {
    timeout 20 scontrol show job
    timeout 20 scontrol show node
    tail -n 40 /var/log/slurm/*.log
}
slurm() { timeout $patience "$@"; }
state() { slurm scontrol show job "$1" 2>/dev/null | sed -n 's/.* *JobState=\([A-Z_]*\).*/\1/p' | head -n 1; }
is_state() { [ "$(state "$1")" = "$2" ]; }
node_up() { grep -qE '^(idle|mixed|allocated)$' <<<"$(slurm sinfo -h -o %T)"; }
controller_up() { grep -q 'is UP' <<<"$(slurm scontrol ping)"; }
# Slurm's own group of a job, by what its script has said: job_N, or from 26.05 on named after its SLUID.
place() {
    local group
    group=/sys/fs/cgroup$(sed -n 's|^0::\(/.*slurmstepd\.scope/[^/]*\)/.*|\1|p' "/home/alice/$1.started" 2>/dev/null)
    [ "$group" = /sys/fs/cgroup ] || [ ! -d "$group" ] || echo "$group"
}
works() { grep -q runs "/home/alice/$1.started" && [ -n "$(place "$1")" ]; }
no_group() { [ -z "$(place "$1")" ]; }
no_groups() { [ -z "$(find /sys/fs/cgroup -type d \( -path '*slurmstepd.scope/*' ! -path '*slurmstepd.scope/system*' -o -name 'job-*' \))" ]; }
followed() { case $1 in *slurmctld) wait_for "slurmctld is up" controller_up ;; *slurmd) wait_for "the node is up" node_up ;; esac; }

# submit ARGUMENT…: sets job to the number of alice's job with these arguments; it says that it was accepted. After a restart of slurmctld its users are told
# to try again until it has read its jobs.
submit() {
    try() { as_alice "timeout $patience sbatch --parsable $*" >/tmp/answer 2>&1 || ! grep -q 'try again' /tmp/answer; }
    wait_for "sbatch $*" try "$@"
    job=$(sed -n 's/^\([0-9]\+\)$/\1/p' /tmp/answer)
    [ -n "$job" ] || { cat /tmp/answer; fail "sbatch $* gives no number"; }
    grep -q 'libra: accepted' /tmp/answer || { cat /tmp/answer; fail "sbatch $* is not accepted"; }
    say "$(tr '\n' ' ' </tmp/answer)"
}
running() {
    wait_for "$1 runs in a group of Slurm's" works "$1"
    wait_for "$1 has its limits" limited "$1"
}
limited() { ! grep -q '^max' "$(place "$1")/cpu.max"; }
ended() {
    wait_for "$1 has ended" is_state "$1" "$2"
    wait_for "no group of $1 is left" no_group "$1"
}
# held_as_promised JOB PART: cpu.max and cpu.weight are what was promised, and what libra status says
held_as_promised() {
    local max weight share
    read -r max weight <<<"$(held "$(place "$1")")"
    share=$(share_of "$1")
    [ -n "$share" ] || { libra status --json; fail "libra status does not show $1"; }
    near "$max" "$2" 0.02 || fail "cpu.max of $1 is $max of a processor, and $2 was promised"
    near "$max" "$share" 0.01 || fail "cpu.max of $1 is $max of a processor, and libra status says $share"
    # The greatest weight, 10000, is that of all processors that there are to share.
    near "$weight" "$(awk -v s="$2" 'BEGIN { print 10000 * s / 0.95 }')" 0.02 || fail "cpu.weight of $1 is $weight, and its share is $2"
    ok "$1 runs in $(place "$1"): cpu.max $max, cpu.weight $weight, libra status $share"
}

boots
wait_for "Slurm is up" node_up
ok "Slurm $(slurmctld -V) is up: units slurmctld and slurmd"

installs_packages
cp -a /etc/slurm /root/slurm
follow 'Install'
says 'ok ' libra slurm check

cat >/home/alice/idle <<'END'
#!/bin/sh
{ echo runs; cat /proc/self/cgroup; } >"$HOME/$SLURM_JOB_ID.started"
while ! [ -e "$HOME/enough" ]; do sleep 2; done
END
cat >/home/alice/busy <<'END'
#!/bin/sh
{ echo runs; cat /proc/self/cgroup; } >"$HOME/$SLURM_JOB_ID.started"
while ! [ -e "$HOME/measured" ]; do :; done
while ! [ -e "$HOME/enough" ]; do sleep 2; done
END

# 1.05 is the margin of the estimate.
submit --estimate=48h --sla-deadline=168h --budget=unlimited busy
first=$job
submit --estimate=24h --sla-deadline=168h --budget=unlimited busy
second=$job
running "$first"
running "$second"
held_as_promised "$first" 0.3
held_as_promised "$second" 0.15
shared "$(place "$first")" "$(place "$second")"
as_alice 'touch measured'
if as_alice "timeout $patience sbatch --estimate=144h --sla-deadline=168h --budget=unlimited idle" >/tmp/said 2>&1; then fail "what does not fit beside them is accepted"; fi
grep -q 'libra: re' /tmp/said || { cat /tmp/said; fail "what does not fit is not refused by Libra"; }
ok "what does not fit beside them is refused: $(head -n 1 /tmp/said)"
one=$(held "$(place "$first")") other=$(held "$(place "$second")")

both_run() {
    local job
    for job in "$first" "$second"; do
        is_state "$job" RUNNING || fail "$job is in state $(state "$job") after $1"
        works "$job" || fail "no process of $job is left after $1"
    done
    kept "$(place "$first")" "$one" "$1"
    kept "$(place "$second")" "$other" "$1"
}
never_else "$(place "$first")" "$one" 'systemctl daemon-reload' systemctl daemon-reload
both_run 'systemctl daemon-reload'
for unit in libra-agent slurmd slurmctld; do
    quietly systemctl restart "$unit"
    wait_for "slurmctld is up after $unit" controller_up
    wait_for "the node is up after $unit" node_up
    both_run "systemctl restart $unit"
done
never_else "$(place "$first")" "$one" 'scontrol reconfigure' slurm scontrol reconfigure
wait_for "the node is up after scontrol reconfigure" node_up
both_run 'scontrol reconfigure'
held_as_promised "$first" 0.3
grep -q 'Restarts=0' <<<"$(slurm scontrol show job "$first")" || fail "$first was started again"
ok "both jobs run on, and were started once"

quietly as_alice "scancel $first"
ended "$first" CANCELLED
held_as_promised "$second" 0.15
ok "scancel: $first is gone, with its group"

submit --estimate=12h --sla-deadline=168h --budget=unlimited --array=1-2 idle
array=$job
for task in 1 2; do
    number() { slurm squeue -h -r -j "${array}_$task" -o %A | grep -x '[0-9]*'; }
    wait_for "${array}_$task is there" number
    job=$(number)
    running "$job"
    held_as_promised "$job" 0.075
done
ok "an array: each of its jobs has its share"
as_alice 'touch enough'
ended "$second" COMPLETED
wait_for "no group of any job is left" no_groups
ok "all jobs have ended, and no group is left"

# The guide's restart of slurmd on the nodes is in a comment.
follow 'Uninstall' 'libra slurm uninstall'
quietly systemctl restart slurmd
wait_for "the node is up" node_up
diff -r /root/slurm /etc/slurm || fail "Slurm's files are not as they were"
ok "Slurm's files are as they were before, to the byte"
removes_packages libra-slurm libra
rm /home/alice/enough
job=$(as_alice 'sbatch --parsable idle') || fail "Slurm takes no job any more"
wait_for "$job runs" works "$job"
as_alice 'touch enough'
ended "$job" COMPLETED
ok "Slurm runs jobs without Libra as before"
