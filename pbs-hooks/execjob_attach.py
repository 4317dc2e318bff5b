# pbs_attach: a process that was started by other means becomes the job's.


def attach(event):
    commitment = commitment_of(event.job)
    if commitment:
        ask_host("execjob_attach", {"id": event.job.id, "commitment": commitment, "pid": int(event.pid)})


run(attach)
