# A job is about to begin on this host: its cgroup is made before its first process.

import pwd


def owner(name):
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return 0


def begin(event):
    job = event.job
    sold = sold_to(job)
    if not sold:
        return
    host = pbs.get_local_nodename()
    try:
        answer = Libra().ask("execjob_begin", "host-config", host=host, job={
            "id": job.id, "sold": sold, "exec_vnode": string(job.exec_vnode),
            "user": owner(str(job.Job_Owner).split("@")[0]),
        })
        if answer["verdict"] != "accept":
            raise Fault(answer["text"])
    except Exception as fault:
        if settings().get("on-fault") != "admit":
            event.reject("libra: %s cannot hold this job to its share: %s" % (host, fault))
        raise


run(begin)
