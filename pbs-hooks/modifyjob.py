# qalter: what was sold stays as it is.

event = pbs.event()
before = event.job_o.Resource_List
changed = event.job.Resource_List
keys = [str(key) for key in changed.keys() if changed[key] is not None] if changed else []
sold = string(resource(before, "libra_terms"))
if keys:
    answer = {}
    try:
        answer = Libra().ask("modifyjob", job={"sold": sold, "keys": keys})
    except Exception as fault:
        log("fault in modifyjob of %s: %s" % (event.job.id, fault), pbs.EVENT_ERROR)
        if sold:
            answer = {"verdict": "refuse", "text": "libra: cannot say whether this may be altered: %s" % fault}
    if answer.get("verdict") == "refuse":
        event.reject(answer["text"])
event.accept()
