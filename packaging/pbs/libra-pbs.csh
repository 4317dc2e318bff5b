# Libra's qsub ahead of PBS's own, see libra-pbs.sh.
if ( ":${PATH}:" !~ *:/usr/lib/libra/pbs/bin:* ) setenv PATH "/usr/lib/libra/pbs/bin:${PATH}"
