/* A job_submit plugin for tests of the nodes alone: what the variable LIBRA_COMMITMENT of a job says was committed to it is put on record, as Libra's own
 * plugin does with what it has decided. Any other spelling is left as it came. */
#include <slurm/slurm.h>
#include <stdio.h>
#include <string.h>

const char plugin_name[] = "What tests say was committed";
const char plugin_type[] = "job_submit/record";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

extern char *slurm_xstrdup(const char *text);

int job_submit(job_desc_msg_t *job, uint32_t user, char **error) {
    static const char name[] = "LIBRA_COMMITMENT=";
    static char comment[65536];
    (void)user, (void)error;
    for (uint32_t i = 0; i < job->spank_job_env_size; i++)
        if (!strncmp(job->spank_job_env[i], name, strlen(name))) {
            snprintf(comment, sizeof comment, "libra:%s", job->spank_job_env[i] + strlen(name));
            job->admin_comment = slurm_xstrdup(comment);
        }
    return SLURM_SUCCESS;
}

/* With or without a place for a text: neither is looked at. */
int job_modify(job_desc_msg_t *job, void *record, uint32_t user, char **error) {
    (void)job, (void)record, (void)user, (void)error;
    return SLURM_SUCCESS;
}
