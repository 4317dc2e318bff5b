# pbs_attach: a process that was started by other means becomes the job's.


def attach(event):
    sold = sold_to(event.job)
    if sold:
        ask_host("execjob_attach", {"id": event.job.id, "sold": sold, "pid": int(event.pid)})


run(attach)
