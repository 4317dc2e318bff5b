/* A SPANK plugin for tests of the nodes alone: what the variable TEST_SOLD of a client says was sold to its job. With Libra's own
 * plugin in slurmctld nobody can say that but itself. */
#include <slurm/spank.h>
#include <stdlib.h>

SPANK_PLUGIN(sold, 1)

int slurm_spank_init_post_opt(spank_t spank, int ac, char **av) {
    char *line = getenv("TEST_SOLD");
    (void)ac, (void)av;
    if (line && (spank_context() == S_CTX_ALLOCATOR || spank_context() == S_CTX_LOCAL))
        spank_job_control_setenv(spank, "LIBRA_SOLD", line, 1);
    return 0;
}
