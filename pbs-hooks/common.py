# Shared by Libra's hooks; 'libra pbs install' puts it in front of each of them.
#
# A hook shows its event to liblibra.so as JSON and does what the answer says; nothing is decided here.
# Nothing is kept here either: PBS restarts the interpreter. Standard library only.

import json
import os
import time

import _ctypes
import pbs

TERMS = ("estimate", "deadline", "budget", "deadline_type", "penalty_rate", "class")


# The few types that one call needs, on the C module that ctypes is made of. Importing ctypes itself leaves some
# 240 kB behind in pbs_server at every restart of the interpreter, this as much as a hook that does nothing.

class Pointer(_ctypes._SimpleCData):
    _type_ = "P"


class Text(_ctypes._SimpleCData):
    _type_ = "z"


class Int(_ctypes._SimpleCData):
    _type_ = "i"


class IntFunction(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL
    _restype_ = Int


class TextFunction(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL
    _restype_ = Text


# qsub has a field of 1024 bytes for what a server says and its own words around it, and writes past its end (23.06). As LONGEST_TEXT in crates/pbs.
LONGEST_TEXT = 1000


class Fault(Exception):
    """Libra cannot answer."""


def settings():
    """What 'libra pbs install' was told."""
    with open(pbs.hook_config_filename) as file:
        return json.load(file)


class Libra:
    """The library, as one event needs it."""

    def __init__(self):
        self.settings = settings()
        # It stays loaded: its state outlives the interpreter.
        self.handle = _ctypes.dlopen(self.settings["library"], 0)

    def function(self, kind, name):
        return kind(_ctypes.dlsym(self.handle, name))

    def ask(self, event, config="config", **facts):
        path = self.settings[config].replace("%h", pbs.get_local_nodename())
        facts.update(event=event, now=time.time(), config=path)
        facts["records"] = os.path.join(self.settings["state"], "records.json")
        answer = Pointer()
        asked = json.dumps(facts).encode()
        if self.function(IntFunction, "libra_pbs_event")(asked, _ctypes.byref(answer)) < 0:
            raise Fault(self.function(TextFunction, "libra_last_error")().decode(errors="replace"))
        text = Text.from_buffer(answer).value
        self.function(IntFunction, "libra_string_free")(answer)
        answer = json.loads(text)
        for line in answer.get("log", ()):
            log(line)
        if answer.get("wake"):
            wake(answer["wake"])
        if answer.get("start_when_running"):
            alter_when_running(facts["job"]["id"], answer["start_when_running"])
        if answer.get("again"):
            begin_again(**answer["again"])
        for order in answer.get("orders", ()):
            carry_out(**order)
        if answer.get("look"):
            self.show(answer["look"])
        return answer

    def show(self, ids):
        """Jobs that stand still for others, or are to: what becomes of them now. Whatever else the event is about goes on without that."""
        try:
            found = {job: pbs.server().job(job) for job in ids}
            self.ask("jobs", jobs=[job_record(job) for job in found.values() if job is not None], gone=[job for job in ids if found[job] is None])
        except Exception as fault:
            log("jobs that stand still were not looked at: %s" % fault, pbs.EVENT_ERROR)


def log(text, level=None):
    """One line, whatever line breaks are in the text: an error in a file shows the place."""
    line = " ".join(text.split())
    pbs.logmsg(pbs.EVENT_DEBUG if level is None else level, "libra: " + line)


def start_of(when):
    """A time as qalter -a takes it, where the time zone is UTC."""
    return time.strftime("%Y%m%d%H%M.%S", time.gmtime(when))


def wake(jobs):
    """Planned jobs begin sooner than they would: their start time is a moment from now. Who is not reached begins by its time."""
    leave_behind("%s could begin sooner, and PBS is not told so" % " ".join(jobs), 'qalter -a "$@"', start_of(time.time() + 1), *jobs)


def begin_again(job, info=None):
    """One that was taken back into its queue begins at once, whatever its start time was while it ran."""
    leave_behind("%s is not told to begin again" % job, 'qalter -a "$2" ${3:+-l libra_info="\\"$3\\""} "$1"', job, start_of(time.time() + 1), info or "")


def alter_when_running(job, start):
    """A planned job runs in a moment, and has another start time from then on: crates/pbs/src/alarms.rs says why. While it does not run it must not have that one: it is looked
    at first, and the hook of qalter refuses it."""
    leave_behind("%s: its alarms stay with PBS" % job, WHEN_RUNNING, start_of(start), job)


# 42: its host has said that it runs (job.h).
WHEN_RUNNING = """
for pause in 1 1 1 2 3 5 10 20; do
    sleep "$pause"
    qstat -f "$2" | grep -q '^ *substate = 42$' && qalter -a "$1" "$2" && exit
done
"""


# Of a job with terms, which has a select, the hook of qalter refuses this, which is an event; PBS itself refuses it as well, so it changes nothing. The first word is the job.
LOOK_AT = 'qalter -l ncpus=0 "$1"'


def carry_out(order, job, start=0, comment=None, due=None):
    """What becomes of a job that stands still for others, or is to: crates/pbs/src/suspended.rs. When that is done it is looked at again."""
    leave_behind("%s: PBS is not told to %s it" % (job, order), ORDERS[order], job, start_of(start), comment or "", "" if due is None else str(int(due)))


ORDERS = {
    "mark": """
for pause in 0 1 2 3; do
    sleep "$pause"
    qalter -a "$2" ${3:+-W comment="$3"} "$1" && break
done
%s
""" % LOOK_AT,
    "suspend": """
for pause in 0 1 2 3; do
    sleep "$pause"
    qsig -s suspend "$1" && break
done
%s
[ -z "$4" ] || { sleep "$4"; %s; }
""" % (LOOK_AT, LOOK_AT),
    # PBS's scheduler resumes it.
    "resume": """
qsig -s resume "$1" || qsig -s SIGCONT "$1"
for pause in 0.3 0.3 0.5 1 1 2 3 5 10 20; do
    sleep "$pause"
    qstat -f "$1" | grep -q '^ *substate = 42$' && break
done
%s
""" % LOOK_AT,
}


def leave_behind(trouble, script, *words):
    """The server answers PBS's commands when this hook is over, so nobody waits for them here: a shell leaves them behind, of which nothing has to be collected, and
    which has none of the server's files."""
    try:
        import subprocess  # seldom needed, and what is imported stays behind in pbs_server
        path = "%s:%s" % (os.path.join(pbs.get_pbs_conf()["PBS_EXEC"], "bin"), os.environ.get("PATH") or "/usr/bin:/bin")
        subprocess.run(["/bin/sh", "-c", "(%s\n) &" % script, "sh", *words], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, TZ="UTC", PATH=path), timeout=10, check=False)
    except Exception as fault:
        log("%s: %s" % (trouble, fault), pbs.EVENT_ERROR)


def split_off():
    """When this process was split off its daemon, in seconds since the host was booted: what it is shown is as of then, however late it comes to look."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


# PBS's states as hooks see them, numbers, and as people do.
STATES = "TQHWREXBMF"


def state_of(job):
    return STATES[int(job.job_state)]


def is_over(job):
    """Finished, moved away, or an expired subjob."""
    return state_of(job) in "FMX"


def string(value):
    return None if value is None or value == "" else str(value)


def resource(resources, name):
    """None if it is not set, and where PBS does not know it."""
    try:
        return resources[name]
    except Exception:
        return None


def seconds(duration):
    """Of what PBS calls a duration; None if there is none."""
    return None if duration is None else int(duration)


def is_up(state):
    """Would PBS start a job on a node of this state?"""
    closed = 0
    for name in ("ND_STATE_VNODE_UNAVAILABLE", "ND_STATE_MAINTENANCE", "ND_STATE_UNKNOWN", "ND_STATE_SLEEP",
                 "ND_STATE_JOBBUSY", "ND_STATE_JOB_EXCLUSIVE", "ND_STATE_RESV_EXCLUSIVE", "ND_STATE_BUSY"):
        closed |= int(getattr(pbs, name, 0))
    return int(state) & closed == 0


def holds(job):
    """The kinds of hold on a job; None without one."""
    kinds = str(job.Hold_Types or "n")
    return None if kinds == "n" else kinds


def node_record(vnode):
    available = vnode.resources_available
    share = string(resource(available, "libra_share"))
    record = {"name": vnode.name, "share": share}
    if share is not None:
        record["rating"] = string(resource(available, "libra_rating"))
        record["mem"] = string(resource(available, "mem"))
        record["up"] = is_up(vnode.state)
        record["queue"] = string(vnode.queue)
        record["resources"] = texts(available)
    return record


def texts(resources):
    """All of a list of resources of which one was looked at before: PBS reads them only then."""
    return {str(key): str(resources[key]) for key in resources.keys() if resources[key] is not None}


def definitions():
    """Types and flags of the site's resources, as the server keeps them: {"ngpus": ["long", "hn"]}."""
    found = {}
    with open(os.path.join(pbs.get_pbs_conf()["PBS_HOME"], "server_priv", "resourcedef")) as file:
        for line in file:
            name, *words = line.replace(",", " ").split() or [""]
            said = dict(word.partition("=")[::2] for word in words)
            found[name] = [said.get("type", "string"), said.get("flag", "")]
    return found


def cluster():
    """Nodes, what the server itself has, and what the names of resources mean."""
    server = pbs.server()
    available = server.resources_available
    resource(available, "ncpus")
    site = dict(limits(server), name=server.name, released=string(server.restrict_res_to_release_on_suspend), default_queue=None if server.default_queue is None else server.default_queue.name)
    return {"nodes": [node_record(vnode) for vnode in server.vnodes()], "server": texts(available), "definitions": definitions(),
            "site": site, "queues": {queue.name: limits(queue) for queue in server.queues()}}


def limits(place):
    """What the server or a queue allows."""
    found = {key: string(getattr(place, key, None)) for key in ("max_run", "max_running", "max_user_run", "max_group_run")}
    for key in ("max_run_res", "max_user_res", "max_group_res", "resources_max", "resources_min"):
        resources = getattr(place, key, None)
        if resources is not None:
            resource(resources, "ncpus")
            found[key] = texts(resources)
    for key in ("started", "enabled"):
        value = getattr(place, key, None)
        found[key] = None if value is None else bool(value)
    # PBS's number of a queue that only sends jobs on.
    found["routes"] = str(getattr(place, "queue_type", None)) in ("2", "Route")
    found["destinations"] = string(getattr(place, "route_destinations", None)) if found["routes"] else None
    return found


# What is counted otherwise, is no reason to run a job or not to, or is Libra's own.
UNCOUNTED = ("ncpus", "mem", "nodes", "nodect", "select", "place", "walltime", "cput", *TERMS)


def wide(asked):
    """Of what a job asks for with -l, what has no place of its own."""
    return {key: str(value) for key, value in asked.items() if value is not None and key not in UNCOUNTED and not key.startswith("libra_")}


def other_record(job):
    """A job that nothing is promised to: what it uses of what PBS counts."""
    asked = texts(job.Resource_List)
    return dict(owner_of(job), id=job.id, exec_vnode=string(job.exec_vnode), wide=wide(asked), asked=asked)


def owner_of(job):
    """Whose limits it is counted in."""
    return {"owner": str(job.Job_Owner).partition("@")[0], "group": string(job.egroup), "project": string(job.project),
            "queue": None if job.queue is None else job.queue.name}


def job_record(job):
    resources = job.Resource_List
    return dict(
        owner_of(job),
        id=job.id,
        state=state_of(job),
        commitment=commitment_of(job),
        exec_vnode=string(job.exec_vnode),
        array=string(job.array_indices_submitted),
        remaining=string(job.array_indices_remaining),
        # Does somebody hold it, and since when could it run? (PBS forgets the second when a job is held, and writes it anew.)
        held=holds(job),
        eligible=seconds(job.etime),
        start=seconds(job.Execution_Time),
        started=seconds(job.stime),
        ran=seconds(resource(job.resources_used, "walltime")),
        substate=int(job.substate or 0),
        runs=seconds(job.run_count),
        info=string(resource(resources, "libra_info")),
        progress=string(resource(job.resources_used, "libra_progress")),
    )


def records():
    """All jobs with terms and all nodes: only after a restart of the server, and in the periodic hook."""
    server = pbs.server()
    jobs, others = [], []
    # Not server.jobs(): PBS keeps jobs of a reservation that is over, in no queue any more, until its history of them ends, and an object of one is made of what
    # it has freed (23.06): whoever asks for it may crash.
    for job in (job for queue in server.queues() for job in queue.jobs()):
        if is_over(job):
            continue
        if resource(job.Resource_List, "libra_terms"):
            jobs.append(job_record(job))
        if not commitment_of(job) and state_of(job) in "RE":
            others.append(other_record(job))
    return dict(cluster(), jobs=jobs, others=others)


def ask_server(libra, event, **facts):
    """Asks, and shows what the answer wants to see first."""
    answer = libra.ask(event, **facts)
    if answer.get("wants") == "records":
        libra.ask("records", **records())
        answer = libra.ask(event, **facts)
    return answer


def tell(event, job):
    """Of a job that nothing is promised to: why it may not run now. Without Libra such a job goes on as ever."""
    try:
        return Libra().ask(event, job=other_record(job))
    except Exception as fault:
        log_fault(pbs.event(), fault)
        return {"verdict": "accept"}


def reservations():
    """Those that have nodes: from when to when, and which."""
    found = []
    for resv in pbs.server().resvs():
        nodes = string(resv.resv_nodes)
        if nodes:
            found.append({"name": resv.resvid, "queue": str(resv.queue), "start": int(resv.reserve_start), "end": int(resv.reserve_end), "nodes": nodes})
    return found


# PBS takes some resources only as what they are to it.
KINDS = {"select": "select", "place": "place", "walltime": "duration"}


def set_resource(job, name, value):
    job.Resource_List[name] = getattr(pbs, KINDS[name])(value) if name in KINDS else value


def is_deferred(commitment):
    """Of a job that may not start yet: nothing is promised to it before it is asked for anew."""
    return ":deferred=1:" in (commitment or "")


def is_planned(commitment):
    """Of one of these that has a planned start."""
    return is_deferred(commitment) and ":starts-by=" in commitment


def concerns_host(job):
    """A job with terms always; any other where Libra is, and only there: another host is let be."""
    return bool(commitment_of(job)) or os.path.exists(settings()["library"])


def ask_host(event, job):
    """An event of an execution host; a fault of it is one of the hook."""
    answer = Libra().ask(event, "host-config", host=pbs.get_local_nodename(), job=job)
    if answer["verdict"] != "accept":
        raise Fault(answer["text"])
    return answer


def set_start(job, start):
    """A start time by Libra's answer. PBS takes none that is past, and on a busy host the answer may be seconds old."""
    job.Execution_Time = max(int(start), int(time.time()) + 2)


def reject(event, text):
    """Refuses, with so much of a text as fits. An answer to a question goes as it is: the library makes it fit, and where one of before is still loaded,
    which does not, a cut would lose the number of a quote that is held.
    """
    if not text.startswith("libra-quote: "):
        text = text.encode(errors="replace")[:LONGEST_TEXT].decode(errors="ignore")
    event.reject(text)


def run(work, refusal=None):
    """Runs a hook's work. Whatever goes wrong in it is ours, and the log has a line. The event passes, unless it is one that can be
    refused: then `refusal` says what is not done, and the site's rule for faults decides.

    accept() and reject() end a hook by SystemExit, which is not an Exception.
    """
    event = pbs.event()
    try:
        work(event)
    except Exception as fault:
        log_fault(event, fault)
        if refusal and on_fault() != "admit":
            reject(event, "libra: %s: Libra cannot answer; please tell the administrators (%s)" % (refusal, str(fault)[:300]))
    event.accept()


def on_fault():
    """The site's rule; the careful one where it cannot be read."""
    try:
        return settings().get("on-fault")
    except Exception:
        return "refuse"


def log_fault(event, fault):
    """A line for the administrators: a refusal's text is seen by the user alone."""
    log("fault in %s: %s: %s" % (event.hook_name, type(fault).__name__, fault), pbs.EVENT_ERROR)


def commitment_of(job):
    """The line of a job's commitment; None if nothing was, or nothing any more."""
    line = string(resource(job.Resource_List, "libra_terms"))
    return None if line == "-" else line
