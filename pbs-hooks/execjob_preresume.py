# PBS is about to let a job go on: what it does not reach itself as well. Where that fails the job stays suspended, and may be resumed again: it would
# run with a part of its processes otherwise.


def resumed(event):
    if not concerns_host(event.job):
        return
    try:
        ask_host("execjob_preresume", {"id": event.job.id})
    except Exception as fault:
        log_fault(event, fault)
        reject(event, "libra: job %s stays suspended, as its processes cannot all be let go on (%s); resume it again" % (event.job.id, str(fault)[:300]))


run(resumed)
