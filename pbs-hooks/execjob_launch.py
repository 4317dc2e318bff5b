# A task of a job is about to be started, in the process that this hook is a child of: into the job's cgroup,
# and all that it starts will be there.


def launch(event):
    sold = sold_to(event.job)
    if sold:
        ask_host("execjob_launch", {"id": event.job.id, "sold": sold, "pid": os.getppid()})


run(launch)
