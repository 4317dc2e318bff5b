# shellcheck shell=bash disable=SC2317
# (Functions are called by name, as what is waited for.)
# Run by the guest that tests/systemd/run starts: OpenPBS under systemd, from Libra's installation to its end.
# shellcheck source=tests/systemd/guest.sh
. /mnt/guest.sh
. /etc/pbs.conf
export PATH=$PATH:$PBS_EXEC/bin:$PBS_EXEC/sbin
echo "PATH=\$PATH:$PBS_EXEC/bin" >/etc/profile.d/pbs.sh
place=/sys/fs/cgroup/libra.slice/libra-agent.service/jobs

more_evidence() {
    qstat -f
    pbsnodes -a
    tail -n 30 "$PBS_HOME"/mom_logs/* "$PBS_HOME"/server_logs/*
}
state() { qstat -xf "$1" 2>/dev/null | awk '$1 == "job_state" { print $3 }'; }
is_state() { [ "$(state "$1")" = "$2" ]; }
node_free() { grep -q '^ *state = free' <<<"$(pbsnodes n1)"; }
works() { [ -n "$(cat "$place/job-$1/cgroup.procs" 2>/dev/null)" ] && grep -q runs "/home/alice/$1.started"; }
# The hosts hear of hooks a second or two later; jobs that come before are tried again.
told() { grep -q libra_terms "$PBS_HOME/mom_priv/hooks/resourcedef" && [ -s "$PBS_HOME/mom_priv/hooks/libra_execjob_begin.PY" ] && [ -s "$PBS_HOME/mom_priv/hooks/libra_execjob_epilogue.PY" ]; }
followed() { case $1 in 'libra pbs install') wait_for "mom has the hooks" told ;; esac; }

# submit ARGUMENT…: sets job to the number of alice's job with these arguments. Whether it was accepted is on record: on a busy machine qsub does not wait to say it.
submit() {
    as_alice "qsub $*" >/tmp/answer 2>&1 || { cat /tmp/answer; fail "qsub $*"; }
    job=$(sed -n 's/^\([0-9]\+\(\[\]\)\?\.n1\)$/\1/p' /tmp/answer)
    [ -n "$job" ] || { cat /tmp/answer; fail "qsub $* gives no number"; }
    accepted() { qstat -xf "$job" | grep 'libra_info = accepted'; }
    wait_for "$job is accepted" accepted
    say "$job $(sed 's/^ *//' /tmp/waited)"
}
running() { wait_for "$1 runs in $place" works "$1"; }
ended() {
    wait_for "$1 has ended" is_state "$1" F
    wait_for "no group of $1 is left" not test -e "$place/job-$1"
}
# held_as_promised JOB PART: cpu.max and cpu.weight are what was promised, and what libra status says
held_as_promised() {
    local max weight share
    read -r max weight <<<"$(held "$place/job-$1")"
    share=$(share_of "$1")
    [ -n "$share" ] || { libra status --json; fail "libra status does not show $1"; }
    near "$max" "$2" 0.02 || fail "cpu.max of $1 is $max of a processor, and $2 was promised"
    near "$max" "$share" 0.01 || fail "cpu.max of $1 is $max of a processor, and libra status says $share"
    # The greatest weight, 10000, is that of all processors that there are to share.
    near "$weight" "$(awk -v s="$2" 'BEGIN { print 10000 * s / 0.95 }')" 0.02 || fail "cpu.weight of $1 is $weight, and its share is $2"
    ok "$1 runs in $place/job-$1: cpu.max $max, cpu.weight $weight, libra status $share"
}

# The book, as the guide says, and what mom keeps for a while of the hooks that it ran.
in_guide 'PBS_HOME/server_priv/libra'
stays="$PBS_HOME/server_priv/libra|$PBS_HOME/mom_priv/hooks/tmp/.*"

boots
wait_for "PBS is up" node_free
ok "OpenPBS $(cat "$PBS_HOME/pbs_version") is up: units pbs and pbs-mom"

installs_packages
follow 'What is needed'
follow 'Install'
says 'ok ' libra pbs check
says 'nothing to do' libra pbs install
wait_for "the node is free" node_free

cat >/home/alice/idle <<'END'
#!/bin/sh
echo runs >"$HOME/$PBS_JOBID.started"
while ! [ -e "$HOME/enough" ]; do sleep 2; done
END
cat >/home/alice/busy <<'END'
#!/bin/sh
echo runs >"$HOME/$PBS_JOBID.started"
while ! [ -e "$HOME/measured" ]; do :; done
while ! [ -e "$HOME/enough" ]; do sleep 2; done
END

# 1.05 is the margin of the estimate.
submit -W estimate=48h,deadline=168h,budget=unlimited -l ncpus=1 busy
first=$job
submit -W estimate=24h,deadline=168h,budget=unlimited -l ncpus=1 busy
second=$job
running "$first"
running "$second"
held_as_promised "$first" 0.3
held_as_promised "$second" 0.15
shared "$place/job-$first" "$place/job-$second"
as_alice 'touch measured'
if as_alice "qsub -W estimate=144h,deadline=168h,budget=unlimited -l ncpus=1 idle" >/tmp/said 2>&1; then fail "what does not fit beside them is accepted"; fi
grep -q '^qsub: libra: refused' /tmp/said || { cat /tmp/said; fail "what does not fit is not refused by Libra"; }
ok "what does not fit beside them is refused: $(head -n 1 /tmp/said)"
one=$(held "$place/job-$first") other=$(held "$place/job-$second")

never_else "$place/job-$first" "$one" 'systemctl daemon-reload' systemctl daemon-reload
kept "$place/job-$second" "$other" 'systemctl daemon-reload'
for unit in libra-agent pbs-mom pbs; do
    quietly systemctl restart "$unit"
    wait_for "the node is free after $unit" node_free
    for job in "$first" "$second"; do
        is_state "$job" R || fail "$job is in state $(state "$job") after a restart of $unit"
        works "$job" || fail "no process of $job is left after a restart of $unit"
    done
    kept "$place/job-$first" "$one" "systemctl restart $unit"
    kept "$place/job-$second" "$other" "systemctl restart $unit"
done
held_as_promised "$first" 0.3
[ "$(qstat -xf "$first" | awk '$1 == "run_count" { print $3 }')" = 1 ] || fail "$first was started again"
ok "both jobs run on, and were started once"

quietly as_alice "qdel $first"
ended "$first"
held_as_promised "$second" 0.15
ok "qdel: $first is gone, with its group"

submit -W estimate=12h,deadline=168h,budget=unlimited -l ncpus=1 -J 1-2 idle
array=${job%\[\].n1}
for task in 1 2; do
    running "${array}[$task].n1"
    held_as_promised "${array}[$task].n1" 0.075
done
ok "an array: each of its jobs has its share"
as_alice 'touch enough'
for job in "$second" "${array}[1].n1" "${array}[2].n1"; do wait_for "no group of $job is left" not test -e "$place/job-$job"; done
ended "$second"
wait_for "the array has ended" is_state "${array}[].n1" F
[ -z "$(find "$place" -name 'job-*' 2>/dev/null)" ] || fail "groups are left: $(find "$place" -name 'job-*')"
ok "all jobs have ended, and no group is left"

# The jobs above are in PBS's history, which keeps some resources.
follow 'Uninstall' 'libra pbs uninstall --dry-run' 'libra pbs uninstall'
grep -q 'in the history of PBS' /tmp/said || { cat /tmp/said; fail "uninstall does not say what keeps resources"; }
in_guide --delete-history
says '' libra pbs uninstall --delete-history
if qmgr -c 'list hook' | grep libra || qmgr -c 'list resource' | grep libra || qmgr -c 'list node n1' | grep libra; then fail "PBS has something of Libra's"; fi
ok "PBS has no hook, no resource and no value of Libra's"
removes_packages libra-pbs libra
rm /home/alice/enough
job=$(as_alice 'qsub -l ncpus=1 idle') || fail "PBS takes no job any more"
wait_for "$job runs" grep -q runs "/home/alice/$job.started"
as_alice 'touch enough'
wait_for "$job has ended" is_state "$job" F
ok "PBS runs jobs without Libra as before"
