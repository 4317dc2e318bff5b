# A job did not come to run here: what was made for it goes.


def end(event):
    if concerns_host(event.job):
        ask_host("execjob_abort", {"id": event.job.id})


run(end)
