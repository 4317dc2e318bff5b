# qmove: a share that was sold on this server stays on it.

event = pbs.event()
job = event.job
sold = string(resource(job.Resource_List, "libra_terms"))
if sold:
    answer = {}
    try:
        answer = Libra().ask("movejob", job={"sold": sold, "destination": str(event.job.queue)})
    except Exception as fault:
        log("fault in movejob of %s: %s" % (job.id, fault), pbs.EVENT_ERROR)
    if answer.get("verdict") == "refuse":
        event.reject(answer["text"])
event.accept()
