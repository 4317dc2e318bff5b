# shellcheck shell=bash
# Sourced by tests/uml/run and tests/systemd/run: starts user-mode Linux, waits for its end, and ends it when the script ends.
#
# shellcheck disable=SC2154 # work is that of who sources this
# What is its own is below $work, which the script makes and end_kernel removes; $guest is the process that was started.

kernel_there() { command -v linux.uml >/dev/null; }

# shellcheck disable=SC2034 # for who sources this
guest=
kernel_id=libra-$$

# run_kernel SECONDS ARGUMENT…: one guest, until its end or that limit; what is on its console is in $work/console.
run_kernel() {
    local limit=$1 preload=()
    shift
    # Registers that this kernel does not know of. Where there is no compiler it runs without, as it does on most machines.
    if ${CC:-cc} -O2 -shared -fPIC -o "$work/xstate.so" "${BASH_SOURCE[0]%/*}/xstate.c" 2>"$work/compiler"; then preload=("LD_PRELOAD=$work/xstate.so"); fi
    # A session of its own, so that all of the guest's processes can be ended together; signals as a terminal's, whatever this script's starter ignores.
    setsid env --default-signal "${preload[@]}" timeout -k 5 "$limit" linux.uml "$@" rw panic=-1 \
        umid="$kernel_id" uml_dir="$work" con=null con0=fd:0,fd:1 </dev/null >"$work/console" 2>&1 &
    guest=$!
    wait "$guest"
}

# For a trap: the guest and $work are gone.
end_kernel() {
    local uml
    set +e
    # The guest makes a group of its own, and notes which.
    if uml=$(cat "$work/$kernel_id/pid" 2>/dev/null); then kill -KILL -- "-$uml" "$uml" 2>/dev/null; fi
    if [ -n "$guest" ]; then kill -KILL -- "-$guest" 2>/dev/null; fi
    rm -rf -- "$work"
}
