# A job is about to begin on this host: its cgroup is made before its first process.

import pwd


def owner(name):
    """Its user id; somebody who is not known here is nobody's owner, root's least of all."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise Fault("there is no user '%s' here" % name) from None


def note(job, answer):
    """What its first host writes down of it, and so its accounting record: PBS takes it from there."""
    if job.in_ms_mom():
        for name, amount in answer.get("used", {}).items():
            job.resources_used[name] = amount


def undo(job_id):
    """No other event comes for a job that a hook rejects here."""
    try:
        ask_host("execjob_abort", {"id": job_id})
    except Exception as fault:
        log("%s: %s" % (job_id, fault))


def begin(event):
    job = event.job
    commitment = commitment_of(job)
    if not commitment:
        # It begins, whatever goes wrong with its group.
        if concerns_host(job):
            note(job, ask_host("execjob_begin", {"id": job.id, "exec_vnode": string(job.exec_vnode)}))
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
            undo(job.id)
            reject(event, "libra: %s cannot hold this job to its share: %s" % (host, fault))
        raise
    note(job, answer)


run(begin)
