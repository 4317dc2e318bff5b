# shellcheck shell=sh
# Libra's qsub ahead of PBS's own: it knows -W deadline=…,budget=…,estimate=… and hands all else on as it is.
# Delete this file, or comment it out, where users are to say 'libra qsub' instead.
case ":${PATH}:" in
    *:/usr/lib/libra/pbs/bin:*) ;;
    *) PATH="/usr/lib/libra/pbs/bin:${PATH}" ;;
esac
export PATH
