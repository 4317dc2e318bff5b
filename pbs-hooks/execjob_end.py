# The same, where no epilogue ran.


def end(event):
    if concerns_host(event.job):
        ask_host("execjob_end", {"id": event.job.id})


run(end)
