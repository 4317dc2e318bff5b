# pbs_attach: a process that was started by other means becomes the job's.


def attach(event):
    if concerns_host(event.job):
        ask_host("execjob_attach", {"id": event.job.id, "pid": int(event.pid)})


run(attach)
