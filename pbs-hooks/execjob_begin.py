# A job is about to begin on this host: its cgroup is made before its first process.

import pwd


def owner(name):
    """Its user id; somebody who is not known here is nobody's owner, root's least of all."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise Fault("there is no user '%s' here" % name) from None


def undo(job_id, commitment):
    """No other event comes for a job that a hook rejects here."""
    try:
        ask_host("execjob_abort", {"id": job_id, "commitment": commitment})
    except Exception as fault:
        log("%s: %s" % (job_id, fault))


def begin(event):
    job = event.job
    commitment = commitment_of(job)
    if not commitment:
        return
    host = pbs.get_local_nodename()
    try:
        answer = Libra().ask("execjob_begin", "host-config", host=host, job={
            "id": job.id, "commitment": commitment, "exec_vnode": string(job.exec_vnode),
            "user": owner(str(job.Job_Owner).split("@")[0]),
        })
        if answer["verdict"] != "accept":
            raise Fault(answer["text"])
    except Exception as fault:
        if settings().get("on-fault") != "admit":
            log_fault(event, fault)
            undo(job.id, commitment)
            event.reject("libra: %s cannot hold this job to its share: %s" % (host, fault))
        raise


run(begin)
