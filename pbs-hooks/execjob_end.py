# The same, where no epilogue ran.

event = pbs.event()
if resource(event.job.Resource_List, "libra_terms"):
    try:
        Libra().ask("execjob_end", "host-config", job={
            "id": event.job.id, "sold": str(event.job.Resource_List["libra_terms"])})
    except Exception as fault:
        log("fault in execjob_end: %s" % fault, pbs.EVENT_ERROR)
event.accept()
