/* A SPANK plugin for tests of the nodes alone: what the variable TEST_COMMITMENT of a client says was committed to its job. With Libra's own
 * plugin in slurmctld nobody can say that but itself. */
#include <slurm/spank.h>
#include <stdlib.h>

SPANK_PLUGIN(commitment, 1)

int slurm_spank_init_post_opt(spank_t spank, int ac, char **av) {
    char *line = getenv("TEST_COMMITMENT");
    (void)ac, (void)av;
    if (line && (spank_context() == S_CTX_ALLOCATOR || spank_context() == S_CTX_LOCAL))
        spank_job_control_setenv(spank, "LIBRA_COMMITMENT", line, 1);
    return 0;
}
