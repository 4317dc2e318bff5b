/* What a client of an ordinary user could send that no command of Slurm's does: a job with an admin comment. */
#include <slurm/slurm.h>
#include <stdio.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    job_desc_msg_t job;
    submit_response_msg_t *answer = NULL;
    slurm_init(NULL);
    slurm_init_job_desc_msg(&job);
    job.user_id = getuid();
    job.group_id = getgid();
    job.name = "forged";
    job.script = "#!/bin/sh\nsleep 1000\n";
    job.work_dir = "/";
    job.environment = environ;
    for (job.env_size = 0; environ[job.env_size];)
        job.env_size++;
    job.min_nodes = 1;
    job.admin_comment = argc > 1 ? argv[1] : NULL;
    if (slurm_submit_batch_job(&job, &answer)) {
        slurm_perror("submit");
        return 1;
    }
    printf("%u\n", answer->job_id);
    return 0;
}
