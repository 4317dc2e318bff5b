/* What a client of an ordinary user could send that no command of Slurm's does: a job with an admin comment, and with any SPANK environment.
 *
 *     submit [-w NODE] [-e NAME=VALUE]... [ADMIN_COMMENT]     submits a job, prints its number
 *     submit -u JOB [-e NAME=VALUE]... [ADMIN_COMMENT]        changes one
 */
#include <slurm/slurm.h>
#include <slurm/slurm_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* From 25.11 on a job is known by its number and its SLUID together. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define NUMBER(of) (of)->step_id.job_id
#else
#define NUMBER(of) (of)->job_id
#endif

extern char **environ;

int main(int argc, char **argv) {
    job_desc_msg_t job;
    submit_response_msg_t *answer = NULL;
    char *spank[64] = {NULL};
    char *change = NULL;
    slurm_init(NULL);
    slurm_init_job_desc_msg(&job);
    job.spank_job_env_size = 0;
    for (int option; (option = getopt(argc, argv, "w:e:u:")) != -1;) {
        switch (option) {
        case 'w':
            job.req_nodes = optarg;
            break;
        case 'e':
            if (job.spank_job_env_size < 64)
                spank[job.spank_job_env_size++] = optarg;
            break;
        case 'u':
            change = optarg;
            break;
        default:
            return 2;
        }
    }
    job.spank_job_env = spank;
    job.admin_comment = optind < argc ? argv[optind] : NULL;
    if (change) {
        NUMBER(&job) = strtoul(change, NULL, 10);
        if (slurm_update_job(&job)) {
            slurm_perror("update");
            return 1;
        }
        return 0;
    }
    job.user_id = getuid();
    job.group_id = getgid();
    job.name = "forged";
    job.script = "#!/bin/sh\ntouch began.$SLURM_JOB_ID\nsleep 1000\n";
    job.work_dir = getenv("HOME");
    job.environment = environ;
    for (job.env_size = 0; environ[job.env_size];)
        job.env_size++;
    job.min_nodes = 1;
    if (slurm_submit_batch_job(&job, &answer)) {
        slurm_perror("submit");
        return 1;
    }
    printf("%u\n", NUMBER(answer));
    return 0;
}
