# shellcheck shell=bash
# shellcheck disable=SC2154 # root is of env.sh
# Sourced by scripts/test: what was not run, and whether it has to run. With CI=true all of it has to, except what
# scripts/not-required lists with a reason.

# left_out FILE: the reasons why parts of a step were not run, one a line, out of what it printed: lines 'not run: REASON' of scripts
# and cargo's tests, and 'not run CLASS.TEST' of the Python suites, whose reason is in the next line.
left_out() {
    awk '/^not run: / { sub(/^not run: */, ""); print; next }
         /^not run [A-Za-z]/ { name = $3; if ((getline reason) <= 0) reason = ""; sub(/^not run: */, "", reason); print name ": " reason }' "$1" |
        awk 'NF && !seen[$0]++'
}

# excused STEP REASON: is it in the list?
excused() {
    local step part _why
    while IFS='|' read -r step part _why; do
        step=${step%"${step##*[![:space:]]}"} part=${part#"${part%%[![:space:]]*}"} part=${part%"${part##*[![:space:]]}"}
        if [ "$step" = "$1" ] && [ -n "$part" ] && [[ $2 == *"$part"* ]]; then return 0; fi
    done < <(grep -v '^#' "$root/scripts/not-required")
    return 1
}

# required STEP REASON: has it to run here?
required() { [ "${CI:-}" = true ] && ! excused "$1" "$2"; }

# required_of STEP FILE: the first reason in FILE that is no excuse; nothing where all are, or nobody asks.
required_of() {
    local reason
    while read -r reason; do
        if required "$1" "$reason"; then
            printf '%s\n' "$reason"
            return
        fi
    done < <(left_out "$2")
}
