# A job did not come to run here: what was made for it goes.

event = pbs.event()
if resource(event.job.Resource_List, "libra_terms"):
    try:
        Libra().ask("execjob_abort", "host-config", job={
            "id": event.job.id, "sold": str(event.job.Resource_List["libra_terms"])})
    except Exception as fault:
        log("fault in execjob_abort: %s" % fault, pbs.EVENT_ERROR)
event.accept()
