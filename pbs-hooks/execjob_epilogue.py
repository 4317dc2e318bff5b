# A job has ended here: what is left of it is killed, its cgroup removed.

event = pbs.event()
if resource(event.job.Resource_List, "libra_terms"):
    try:
        Libra().ask("execjob_epilogue", "host-config", job={
            "id": event.job.id, "sold": str(event.job.Resource_List["libra_terms"])})
    except Exception as fault:
        log("fault in execjob_epilogue: %s" % fault, pbs.EVENT_ERROR)
event.accept()
