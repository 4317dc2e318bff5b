# A task of a job is about to be started, in the process that this hook is a child of: into the job's cgroup,
# and all that it starts will be there.


def launch(event):
    if concerns_host(event.job):
        ask_host("execjob_launch", {"id": event.job.id, "pid": os.getppid()})


run(launch)
