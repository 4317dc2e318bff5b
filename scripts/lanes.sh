# shellcheck shell=bash disable=SC2154,SC2034
# (What is not assigned here scripts/test has, and what is not used here it uses.)
# Sourced by scripts/test: runs steps side by side, in lanes, so that what waits for batch systems and what compiles share the machine.
#
# The processes of idle lanes run only when no other process wants to, so that beside them a test runs as on an idle machine, to within milliseconds.
# What compiles is there. The other lanes are for what waits more than it works; when they have ended, the idle ones are as any other. With
# LIBRA_TEST_LANES=no, for a single step, and without root (most of what waits needs it), one step follows the other.

# lane | class | after: a step | steps, in order. A step of no lane is of the last one. The suites of batch systems measure shares when nothing
# else runs than measurements and idle lanes (tests/batch/turns.py): of the class "noise" is a lane that they wait for as well. What cargo
# builds for several steps is built before the lanes part; what measures the kernel's caps, or shows deadlines that are met, has the machine
# for itself. The packages and the clean systems wait for downloads and for each other's dpkg more than they compile: a lane each. clippy
# waits for the last who wants cargo's lock of what is built: idle it would keep it for long.
lanes=(
    'tests  | normal |       | build shares demo openpbs'
    'slurm  | normal | demo  | slurm'
    'cells  | normal | demo  | gridengine'
    'guests | noise  | demo  | uml slurmv2 web report'
    'units  | noise  | demo  | cargo metrics capi'
    'others | noise  | demo  | slurm24'
    'boots  | noise  | demo  | systemd'
    'lint   | idle   | cargo | clippy'
    'clean  | idle   | build | clean'
    'rest   | idle   | build | fmt shell deny packages'
)
if [ "${LIBRA_TEST_LANES:-yes}" != yes ] || [ $# -eq 1 ] || [ "$(id -u)" -ne 0 ] || ! have chrt; then lanes=('tests | normal | | '); fi

# The fields of a lane, into lane, class, after and steps_of.
read_lane() { # line
    IFS='|' read -r lane class after steps_of <<<"$1"
    lane=$(trim "$lane") class=$(trim "$class") after=$(trim "$after")
}

# Prints the lane of a step, and its class.
lane_of() { # step
    local lane class after steps_of line
    for line in "${lanes[@]}"; do
        read_lane "$line"
        [[ " $steps_of " != *" $1 "* ]] || break
    done
    say "$lane $class"
}

# All programs of the tests, and by that the command line, are built once, in one profile, by the step "build"; cargo, which lets one build
# wait for another, is asked only where that step is not of this run.
use_built() {
    [ -z "${LIBRA:-}" ] || return 0
    [ -e "${LIBRA_TEST_PROGRAMS:-}" ] || "$CARGO" test --locked --no-run --quiet || return 1
    export LIBRA=$CARGO_TARGET_DIR/debug/libra
}

# The path of the program that a test target is built to: of tests/NAME, or of the unit tests of the crate libra-NAME.
test_program() {
    local name=$1 target=(--test "$1")
    if [[ $1 == libra-* ]]; then name=${1//-/_} target=(--package "$1" --lib); fi
    { cat "${LIBRA_TEST_PROGRAMS:-}" 2>/dev/null || "$CARGO" test --locked --no-run "${target[@]}" --message-format=json; } | python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("target", {}).get("name") == sys.argv[1] and m.get("executable") and m["profile"]["test"]:
        print(m["executable"])
' "$name"
}

# Runs the steps with these indices. The output of each is in $results/NAME.out until it has ended; exit code, seconds and seconds of processor time are in
# $results/NAME.end.
run_lane() { # index...
    local i name began rc worked=0 before
    set +m
    trap - EXIT INT TERM HUP
    [ "$class" != idle ] || trap '[ ! -s "$results/idle-$lane" ] || kill -TERM -- "-$(cat "$results/idle-$lane")"; exit 143' TERM
    while [ -n "$after" ] && [ ! -e "$results/$after.end" ]; do sleep 1; done
    # Nobody measures while this is open; the steps' own processes do not have it.
    if [ "$class" = noise ] && mkdir -p "$turns" 2>/dev/null && { exec 8>>"$turns/noise"; } 2>/dev/null; then flock -s 8; fi
    for i; do
        name=${names[$i]} began=$SECONDS before=$worked
        say ">> $name: ${titles[$i]}"
        if [ "$alone" = yes ]; then
            (${commands[$i]}) 2>&1 8>&- | tee "$results/$name.out"
            rc=${PIPESTATUS[0]}
        elif [ "$class" = idle ] && [ ! -e "$results/awake" ]; then
            idle_step "$name" >"$results/$name.out" 2>&1 &
            echo $! >"$results/idle-$lane"
            wait $!
            rc=$?
        else
            (${commands[$i]}) >"$results/$name.out" 2>&1 8>&-
            rc=$?
        fi
        processor_time
        echo "$rc $((SECONDS - began)) $((worked - before))" >"$results/$name.end.new"
        mv "$results/$name.end.new" "$results/$name.end"
        echo "$i" >&"$done_fd"
    done
}

# A step as what runs when nobody else wants to: in the scheduling class SCHED_IDLE, and, where the kernel shares processors among sessions
# first (autogroup), in a session of the least weight.
idle_step() { # name
    # shellcheck disable=SC2016 # of the inner shell
    exec setsid chrt --idle 0 sh -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec "$@"' sh \
        env --unset=LIBRA_TEST_STARTED "$root/scripts/test" --step "$1"
}

# Sets worked to the whole seconds that the processes which this shell has waited for have used, in user mode and in the kernel.
processor_time() {
    # In a pipe it would be those of the pipe.
    times >"$results/times-$lane"
    worked=$(awk 'NR == 2 { gsub(/[ms]/, " "); print int($1 * 60 + $2 + $3 * 60 + $4) }' "$results/times-$lane")
}

# Starts the lanes of the steps with these indices; next_done then says which has ended, until all have.
run_lanes() { # index...
    local i line lane class after steps_of
    results=$(mktemp -d) left=$# alone=no running=() busy=0
    # What the step "build" has built, as cargo says it; there when it has passed.
    export LIBRA_TEST_PROGRAMS=$results/programs
    kept=$CARGO_TARGET_DIR/test-output
    mkdir -p "$kept" || die "what the steps print cannot be kept in $kept"
    # What is alone shows what it prints as it comes.
    if [ $# -eq 1 ] || [ ${#lanes[@]} -eq 1 ]; then alone=yes; fi
    mkfifo "$results/done"
    # Open for both, so that neither waits for the other.
    exec {done_fd}<>"$results/done"
    # With job control a lane is a process group, and does not ignore SIGINT as what runs behind a script does.
    set -m
    for line in "${lanes[@]}"; do
        read_lane "$line"
        local of_lane=() name
        # In the lane's own order; those that no lane names in that of the table.
        for name in $steps_of; do
            for i; do [ "${names[$i]}" != "$name" ] || of_lane+=("$i"); done
        done
        for i; do
            [[ -z "${steps_of// /}" && "$(lane_of "${names[$i]}")" == "$lane $class" ]] && of_lane+=("$i")
        done
        [ ${#of_lane[@]} -gt 0 ] || continue
        # Only a step that is run can be waited for.
        [[ " $(for i; do say "${names[$i]}"; done | tr '\n' ' ') " == *" $after "* ]] || after=''
        run_lane "${of_lane[@]}" &
        running+=($!)
        [ "$class" = idle ] || busy=$((busy + ${#of_lane[@]}))
    done
    set +m
    [ "$busy" -gt 0 ] || wake_idle
}

# Waits for the end of a step: its index is in i, its exit code in rc, its seconds in took, those of processor time in worked, its output in the
# file $out, which is kept in $kept until it runs again. Of a failed one what is about failures is shown, where it was not shown as it came.
next_done() {
    local name
    [ "$left" -gt 0 ] || return 1
    left=$((left - 1))
    read -r i <&"$done_fd" || return 1
    case $i in '' | *[!0-9]*) die "a lane said '$i', which is no step: something else reads $results" ;; esac
    name=${names[$i]} out=$results/$name.out
    [[ "$(lane_of "$name")" == *' idle' ]] || busy=$((busy - 1))
    if [ "$busy" -eq 0 ]; then wake_idle; fi
    read -r rc took worked <"$results/$name.end"
    mv "$out" "$kept/$name.log" && out=$kept/$name.log
    if [ "$alone" != yes ] && [ "$rc" -ne 0 ] && [ "$rc" -ne 77 ]; then
        say "== $name: ${titles[$i]} (all of it: $out)"
        "$root/scripts/failures" "$out"
    fi
}

# There is nobody left whom the idle lanes could disturb: their processes are as any others from now on.
wake_idle() {
    local stat pid session file idle
    [ ! -e "$results/awake" ] || return 0
    : >"$results/awake"
    for file in "$results"/idle-*; do
        idle=$(cat "$file" 2>/dev/null) || continue
        { echo 0 >"/proc/$idle/autogroup"; } 2>/dev/null || true
        for stat in /proc/[0-9]*/stat; do
            # The fields after the name, which is in brackets: state, parent, process group, session.
            read -r pid session < <(sed -E 's/^([0-9]+) \(.*\) . [0-9]+ [0-9]+ ([0-9]+) .*/\1 \2/' "$stat" 2>/dev/null) || continue
            [ "$session" != "$idle" ] || chrt --all-tasks --other --pid 0 "$pid" 2>/dev/null || true
        done
    done
}

# What a run that is broken off leaves. Throw-away clusters are taken down by who has them.
end_lanes() {
    local group
    trap '' INT TERM HUP
    for group in "${running[@]}"; do kill -TERM -- "-$group" 2>/dev/null; done
    wait
    rm -rf "$results"
}
