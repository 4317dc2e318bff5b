# PBS has stopped the sessions of a job's tasks on this host: the rest of its processes too.


def suspended(event):
    if concerns_host(event.job):
        ask_host("execjob_postsuspend", {"id": event.job.id})


run(suspended)
