# A job has ended, or goes back into its queue: its share is free, or waits with it.


def end(event):
    job = event.job
    if not commitment_of(job):
        tell("jobobit", job)
    else:
        ask_server(Libra(), "jobobit", job=dict(
            job_record(job), exit=None if job.Exit_status is None else int(job.Exit_status),
            staged=bool(string(job.stagein) or string(job.stageout))))


run(end)
