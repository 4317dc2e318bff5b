# A job has got its id: what was reserved for it goes under that id.

event = pbs.event()
sold = string(resource(event.job.Resource_List, "libra_terms"))
if sold:
    try:
        Libra().ask("postqueuejob", job={"id": event.job.id, "sold": sold,
                                         "array": string(event.job.array_indices_submitted)})
    except Exception as fault:
        log("fault in postqueuejob of %s: %s" % (event.job.id, fault), pbs.EVENT_ERROR)
event.accept()
