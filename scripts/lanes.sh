# shellcheck shell=bash disable=SC2154,SC2034
# (What is not assigned here scripts/test has, and what is not used here it uses.)
# Sourced by scripts/test: runs steps one after the other, or with LIBRA_TEST_LANES=yes side by side, in lanes.
#
# Side by side, steps that wait more than they work have a lane each, so that the machine is not idle; those that keep processors busy go
# one after the other in the lane "work". What measures processor time (classes of tests/batch/turns.py) waits until no other lane runs any
# more. On two processors that was a load of 40, at which Slurm itself drains nodes whose controller is killed; so it is not the default.

# lane | steps, in order. A step of no lane is of the last one.
lanes=(
    'openpbs | openpbs'
    'slurm   | slurm'
    'uml     | uml slurmv2'
    'work    | '
)
[ "${LIBRA_TEST_LANES:-}" = yes ] || lanes=('work | ')

lane_of() { # step
    local line
    for line in "${lanes[@]}"; do
        [[ " ${line#*|} " != *" $1 "* ]] || break
    done
    trim "${line%%|*}"
}

# All programs of the tests, and by that the command line, are built once, in one profile. Whoever comes second waits here, and
# finds them built.
use_built() {
    [ -z "${LIBRA:-}" ] || return 0
    "$CARGO" test --locked --no-run --quiet || return 1
    export LIBRA=$CARGO_TARGET_DIR/debug/libra
}

# Runs the steps with these indices. The output of each is in $results/NAME.out, exit code and seconds are in $results/NAME.end.
run_lane() { # lane, index...
    local lane=$1 i name began rc
    shift
    set +m
    trap - EXIT INT TERM HUP
    # Nobody measures while this is open; the steps' own processes do not have it.
    if [ ${#lanes[@]} -gt 1 ] && { [ "$lane" = work ] || [ "$lane" = uml ]; }; then
        if mkdir -p "$turns" 2>/dev/null && { exec 8>>"$turns/noise"; } 2>/dev/null; then flock -s 8; fi
    fi
    for i; do
        name=${names[$i]} began=$SECONDS
        say ">> $name: ${titles[$i]}"
        if [ "$alone" = yes ]; then
            (${commands[$i]}) 2>&1 8>&- | tee "$results/$name.out"
            rc=${PIPESTATUS[0]}
        else
            (${commands[$i]}) >"$results/$name.out" 2>&1 8>&-
            rc=$?
        fi
        echo "$rc $((SECONDS - began))" >"$results/$name.end"
        echo "$i" >&"$done_fd"
    done
}

# Starts the lanes of the steps with these indices; next_done then says which has ended, until all have.
run_lanes() { # index...
    local i lane line
    results=$(mktemp -d) left=$# alone=no running=()
    # What is alone shows what it prints as it comes.
    if [ $# -eq 1 ] || [ ${#lanes[@]} -eq 1 ]; then alone=yes; fi
    mkfifo "$results/done"
    # Open for both, so that neither waits for the other.
    exec {done_fd}<>"$results/done"
    # With job control a lane is a process group, and does not ignore SIGINT as what runs behind a script does.
    set -m
    for line in "${lanes[@]}"; do
        lane=$(trim "${line%%|*}")
        local of_lane=()
        for i; do
            [ "$(lane_of "${names[$i]}")" != "$lane" ] || of_lane+=("$i")
        done
        [ ${#of_lane[@]} -gt 0 ] || continue
        run_lane "$lane" "${of_lane[@]}" &
        running+=($!)
    done
    set +m
}

# Waits for the end of a step: its index is in i, its exit code in rc, its seconds in took, its output in the file $out. What it
# printed is shown, where it was not shown as it came.
next_done() {
    local name
    [ "$left" -gt 0 ] || return 1
    left=$((left - 1))
    read -r i <&"$done_fd" || return 1
    case $i in '' | *[!0-9]*) die "a lane said '$i', which is no step: something else reads $results" ;; esac
    name=${names[$i]} out=$results/$name.out
    read -r rc took <"$results/$name.end"
    [ "$alone" = yes ] || { say "== $name: ${titles[$i]}" && cat "$out"; }
}

# What a run that is broken off leaves. Throw-away clusters are taken down by who has them.
end_lanes() {
    local group
    trap '' INT TERM HUP
    for group in "${running[@]}"; do kill -TERM -- "-$group" 2>/dev/null; done
    wait
    rm -rf "$results"
}
