# A job has ended, or goes back into its queue: its share is free, or waits with it.

event = pbs.event()
job = event.job
sold = string(resource(job.Resource_List, "libra_terms"))
if sold:
    try:
        ask_server(Libra(), "jobobit", job=dict(job_record(job), substate=int(job.substate or 0)))
    except Exception as fault:
        log("fault in jobobit of %s: %s" % (job.id, fault), pbs.EVENT_ERROR)
event.accept()
