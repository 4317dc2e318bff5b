# A task of a job is about to be started, in the process that this hook is a child of: into the job's cgroup,
# and all that it starts will be there.


def launch(event):
    commitment = commitment_of(event.job)
    if commitment:
        ask_host("execjob_launch", {"id": event.job.id, "commitment": commitment, "pid": os.getppid()})


run(launch)
