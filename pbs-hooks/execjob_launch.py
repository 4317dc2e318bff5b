# A task of a job is about to be started, in the process that this hook is a child of: into the job's cgroup,
# and all that it starts will be there.

event = pbs.event()
if resource(event.job.Resource_List, "libra_terms"):
    try:
        answer = Libra().ask("execjob_launch", "host-config", job={
            "id": event.job.id, "sold": str(event.job.Resource_List["libra_terms"]), "pid": os.getppid()})
        if answer["verdict"] != "accept":
            raise Fault(answer.get("text", "no answer"))
    except Exception as fault:
        log("fault in execjob_launch: %s" % fault, pbs.EVENT_ERROR)
event.accept()
