# A job is about to begin on this host: its cgroup is made before its first process.

import pwd


def owner(name):
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return 0


event = pbs.event()
job = event.job
sold = string(resource(job.Resource_List, "libra_terms"))
if sold:
    try:
        answer = Libra().ask("execjob_begin", "host-config", host=pbs.get_local_nodename(), job={
            "id": job.id, "sold": sold, "exec_vnode": string(job.exec_vnode),
            "user": owner(str(job.Job_Owner).split("@")[0]),
        })
        if answer["verdict"] != "accept":
            raise Fault(answer.get("text", "no answer"))
    except Exception as fault:
        log("fault in execjob_begin: %s" % fault, pbs.EVENT_ERROR)
        if settings().get("on-fault") != "admit":
            event.reject("libra: %s cannot hold this job to its share: %s" % (pbs.get_local_nodename(), fault))
event.accept()
