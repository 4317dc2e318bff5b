# A job is submitted: is there room for it, and what does it cost?

import grp
import pwd


# Of a job that is only a question about price, which is never queued, or that comes with the answer to one.
QUOTE = "libra_quote"


def looked_up(ids):
    """Of waiting jobs, those that PBS does not have any more, and the records of those that somebody holds."""
    server, gone, held = pbs.server(), [], {}
    for job_id in ids:
        job = server.job(job_id)
        if job is None or is_over(job):
            gone.append(job_id)
            continue
        if "[" in job_id:
            # An array is held as a whole.
            name, _, rest = job_id.partition("[")
            array = "%s[]%s" % (name, rest.partition("]")[2])
            job = held.get(array) or server.job(array)
        if job is not None and not isinstance(job, dict):
            record = job_record(job)
            if record["held"] or record["state"] in "HW":
                held[record["id"]] = record
    return gone, list(held.values())


def queue_of(job):
    return str(job.queue or "").partition("@")[0]


def group_of(job):
    """The group that limits count it in, as PBS will find it."""
    if job.group_list:
        return str(job.group_list).split(",")[0].partition("@")[0]
    try:
        return grp.getgrgid(pwd.getpwnam(str(pbs.event().requestor)).pw_gid).gr_name
    except KeyError:
        return None


def facts(job):
    # Only what is there is read: PBS takes a resource that was looked at in vain for one that was given.
    wanted = {str(key): job.Resource_List[key] for key in job.Resource_List.keys()}
    walltime = wanted.get("walltime")
    asked = {key: string(wanted.get(key)) for key in ("select", "place", "ncpus", "mem", "nodes")}
    asked.update(
        # With PBS's own attributes of these names, for sites that built it so.
        terms={key: string(wanted.get(key)) or string(getattr(job, key, None)) for key in TERMS},
        wide=wide(wanted),
        walltime=None if walltime is None else int(walltime),
        array=string(job.array_indices_submitted),
        quote=string(wanted.get(QUOTE)),
        user=str(pbs.event().requestor),
        hold=holds(job),
        start=string(job.Execution_Time),
        depend=string(job.depend),
        # Who pays, where the site has accounts.
        account=string(job.Account_Name),
        project=string(job.project),
        queue=queue_of(job),
        group=group_of(job),
    )
    return asked


def write(job, resources, moved):
    if "select" in resources:
        # PBS refuses these beside a select, and one that was set to None is there to it.
        for key in [str(key) for key in job.Resource_List.keys()]:
            if key in ("ncpus", "mem", "mpiprocs", "ompthreads", "nodes", "nodect", *moved):
                delattr(job.Resource_List, key)
    for key, value in resources.items():
        set_resource(job, key, value)


def judge(event):
    job = event.job
    asked = facts(job)
    ours = [str(key) for key in job.Resource_List.keys() if str(key).startswith("libra_")]
    if QUOTE in ours:
        ours.remove(QUOTE)
    if ours:
        reject(event, "libra: %s is written by Libra; leave it out, and give deadline, budget and estimate" % ours[0])
    # PBS looks for the queue after its hooks, and a question never comes so far.
    queue = asked["queue"]
    wants_promise = any(asked["terms"].values())
    if queue and (asked["quote"] or wants_promise) and pbs.server().queue(queue) is None:
        if asked["quote"]:
            reject(event, "libra: there is no queue '%s'; qstat -Q lists them" % queue)
        # PBS says so.
        event.accept()
    try:
        libra = Libra()
        if asked["quote"] or wants_promise:
            asked["reservations"] = reservations()
        # Another installation than before: what happened in between is not known.
        installed = str(os.stat(pbs.hook_config_filename).st_mtime_ns)
        answer = ask_server(libra, "queuejob", job=asked, installed=installed)
        if "check" in answer:
            missing, held = looked_up(answer["check"])
            if missing:
                libra.ask("gone", jobs=missing)
            if held:
                libra.ask("held", jobs=held)
            answer = libra.ask("queuejob", job=dict(asked, checked="yes"))
        if answer["verdict"] == "refuse":
            reject(event, answer["text"])
        write(job, answer.get("resources", {}), answer.get("moved", ()))
        if "start" in answer:
            set_start(job, answer["start"])
    except Exception as fault:
        if asked["quote"] or wants_promise and on_fault() != "admit":
            log_fault(event, fault)
            reject(event, "libra: cannot judge this job, so it is refused; please tell the administrators "
                   "(%s)" % str(fault)[:300])
        if wants_promise:
            job.Resource_List["libra_info"] = "admitted without a promise: Libra could not judge it"
        raise


run(judge)
