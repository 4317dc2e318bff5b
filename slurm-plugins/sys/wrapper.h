/* What the plugins use of Slurm; build.rs makes Rust of it. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
