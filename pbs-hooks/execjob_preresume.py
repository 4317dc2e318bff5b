# PBS is about to let a job go on: what it does not reach itself as well.


def resumed(event):
    if concerns_host(event.job):
        ask_host("execjob_preresume", {"id": event.job.id})


run(resumed)
