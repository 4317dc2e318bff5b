# pbs_attach: a process that was started by other means becomes the job's.

event = pbs.event()
if resource(event.job.Resource_List, "libra_terms"):
    try:
        Libra().ask("execjob_attach", "host-config", job={
            "id": event.job.id, "sold": str(event.job.Resource_List["libra_terms"]), "pid": int(event.pid)})
    except Exception as fault:
        log("fault in execjob_attach: %s" % fault, pbs.EVENT_ERROR)
event.accept()
