# PBS is about to run a job: is its node still what was sold?

event = pbs.event()
job = event.job
sold = string(resource(job.Resource_List, "libra_terms"))
if sold:
    answer = {}
    try:
        answer = ask_server(Libra(), "runjob", job=job_record(job))
    except Exception as fault:
        log("fault in runjob of %s: %s" % (job.id, fault), pbs.EVENT_ERROR)
    if answer.get("verdict") == "refuse":
        if answer.get("hold"):
            job.Hold_Types = pbs.hold_types("s")
        event.reject(answer["text"])
event.accept()
