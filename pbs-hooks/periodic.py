# Every half minute: what PBS has, for the library to compare with what it has. This runs in a process of
# its own, beside the server; the library reads the file at the next event.

import math
import re
import subprocess

# PBS has no event of a hold, nor of a time that passes, so owners are told from here.
HELD = "held: its share is given back, and is asked for anew when it is released"
GIVEN_BACK = "its deferred promise is given back", "its planned promise is given back"
SLIPPED = GIVEN_BACK[0] + ": it still waits, and cannot end by its deadline any more; nothing is set aside for it. When it may start it is asked for once more; or delete it and submit it anew"
# What the library says of one that was asked for anew, and what became of it.
PLACE_TAKEN = "deferred: it is held, so its planned place is not kept any more; it is asked for anew when it may start"
ANEW = ("(its promise was deferred)", "(asked anew after a hold)", "(it was planned)")
# As in crates/pbs/src/alarms.rs.
BACK = "(it was taken back into its queue)"
MOST_TOLD = 50
SOON = 5
# As in crates/pbs/src/alarms.rs.
BEHIND_DEADLINE = 86400
# As often as this runs.
HALF_MINUTE = 30


def write(event):
    directory = settings()["state"]
    os.makedirs(directory, mode=0o700, exist_ok=True)
    # The kernel counts in ticks, and a job may just then have been on its way into the server.
    taken = time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - split_off()) - 1
    path = os.path.join(directory, "records.json")
    try:
        found = records()
    except AssertionError as fault:
        # PBS could not make an object of what it has ("Failed to create job object", seen once, on a busy machine).
        log("PBS is asked once more for what it has: %s" % fault)
        found = records()
    with open(path + ".new", "w") as file:
        json.dump(dict(found, taken=taken), file)
    os.replace(path + ".new", path)
    look_at_waiting(found["jobs"])
    let_begin(found["jobs"])
    tell_held(found["jobs"])
    take_places(found["jobs"])
    tell_slipped(found["jobs"])
    mail_changes(found["jobs"], os.path.join(directory, "mailed.json"))


def look_at_waiting(jobs):
    """PBS deletes a waiting job without an event, and time passes without one. Where others have planned starts, or stand still, one of them is looked at, so that there is an
    event; and each that stands still when it is due to go on, by crates/pbs/src/suspended.rs."""
    planned = [job["id"] for job in jobs if is_planned(job["commitment"]) and not job["held"]]
    now, goes_on = time.time(), {job["id"]: goes_on_by(job) for job in jobs}
    still = [job for job, by in goes_on.items() if by is not None]
    for job in (still or planned)[:1]:
        leave_behind("%s is not looked at" % job, LOOK_AT, job)
    for job in still:
        if now < goes_on[job] <= now + HALF_MINUTE:
            leave_behind("%s is not looked at" % job, 'sleep "$2"; ' + LOOK_AT, job, str(int(goes_on[job] - now) + 1))


def goes_on_by(job):
    """When a running job goes on at the latest that stands still, or is to: its start time is a day behind what it is while others run."""
    if job["state"] not in "RSU" or not job["commitment"]:
        return None
    terms = terms_of(job["commitment"])
    try:
        deadline = float(terms["deadline"])
        after = job["start"] - float(terms["submitted"]) - deadline - 2 * BEHIND_DEADLINE
        count = math.ceil(deadline) + 1
        return None if after < 0 else float(terms["submitted"]) + after % count
    except (KeyError, TypeError, ValueError):
        return None  # a line that the library does not take either


def tell_held(jobs):
    """Held jobs say so themselves: in qstat -f, as libra_info. One that runs has its share, and PBS alters nothing of it: its hold is for later.
    One that starts in a moment is not held."""
    def is_held(job):
        later = job["state"] == "W" and (job["start"] or 0) > time.time() + SOON and not is_put_back(job)
        return job["held"] or job["state"] == "H" or later

    tell_owners(HELD, "held jobs", [job["id"] for job in jobs if job["commitment"] and not is_deferred(job["commitment"]) and is_held(job)
                             and job["state"] not in "RSUE" and job["info"] != HELD])


def is_put_back(job):
    """Taken back into its queue, with the start time that it was given while it ran."""
    terms = terms_of(job["commitment"])
    try:
        deadline = float(terms["deadline"])
        after = job["start"] - float(terms["submitted"]) - deadline - BEHIND_DEADLINE
        return job["runs"] >= 1 and (abs(after) <= 2 or abs(after - BEHIND_DEADLINE / 2) <= 2 or 0 <= after - BEHIND_DEADLINE <= 2 * deadline + 3)
    except (KeyError, TypeError, ValueError):
        return False  # a line that the library does not take either


def terms_of(line):
    return dict(pair.partition("=")[::2] for pair in line.split(":"))


def let_begin(jobs):
    """Those of them that nobody has told to begin at once: the server was down, or PBS had no event of it."""
    back = [job for job in jobs if job["commitment"] and job["state"] == "W" and not job["held"] and not is_deferred(job["commitment"]) and is_put_back(job)]
    for job in back[:MOST_TOLD]:
        info = job["info"] or ""
        begin_again(job["id"], None if info.endswith(ANEW[2]) or info.endswith(BACK) else "%s %s" % (info, BACK))


def tell_slipped(jobs):
    """Jobs whose promises were deferred, and which would have had to begin by now."""
    def has_slipped(line):
        terms = terms_of(line)
        return "from" not in terms and float(terms["submitted"]) + float(terms.get("begin", terms["deadline"])) < time.time()

    slipped = [job for job in jobs if is_deferred(job["commitment"]) and job["state"] not in "RSUEB" and job["info"] != SLIPPED and has_slipped(job["commitment"])]
    # Their mail follows half a minute later, from what they have then: a promise that was given back meanwhile has a reason of its own.
    tell_owners(SLIPPED, "jobs that wait for too long", [job["id"] for job in slipped])


def take_places(jobs):
    """Who holds a planned job gives its place away: its record says so from now on, and it is asked for when it is released."""
    planned = [job for job in jobs if is_planned(job["commitment"]) and job["held"]]
    for job in planned[:MOST_TOLD]:
        line = re.sub(":starts-by=[^:]*", "", job["commitment"])
        done = qalter("%s is held, and its record does not say that its place is free" % job["id"], "-a", start_of(time.time()), "-l", 'libra_terms="%s"' % line, "-l", 'libra_info="%s"' % PLACE_TAKEN, job["id"])
        job.update(commitment=line, info=PLACE_TAKEN)
        if not done:
            return


def mail_changes(jobs, path):
    """What became of promises while their jobs waited, by mail: as PBS mails that a job is aborted (-m a) what is given back, and as PBS mails its begin
    (-m b) what is accepted. What was mailed is in a file."""
    points = {job["id"]: point_of(job["info"] or "") for job in jobs}
    due = {job["id"]: job["info"] for job in jobs if points[job["id"]]}
    try:
        with open(path) as file:
            mailed = json.load(file)
    except (OSError, ValueError):
        mailed = {}
    fresh = [job for job in due if mailed.get(job) != due[job]]
    if not fresh and mailed.keys() == due.keys():
        return
    # First written down: mailed twice is worse than not at all.
    fresh = fresh[:MOST_TOLD]
    with open(path + ".new", "w") as file:
        json.dump({job: info for job, info in due.items() if job in fresh or job in mailed}, file)
    os.replace(path + ".new", path)
    for number, job in enumerate(fresh, 1):
        if not mail(job, points[job], due[job]):
            log("%d more owners are not mailed" % (len(fresh) - number))
            return


def point_of(info):
    """PBS's letter for such news (-m); None for what its owner knows."""
    if info.startswith(GIVEN_BACK):
        return "a"
    return "b" if info.endswith(ANEW) else None


# A mailer takes an address that begins with '-' for an option, and some take '|' and '/' for what to run or write.
ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._%+=-]*(@[A-Za-z0-9.-]+)?")


def mail(job_id, point, info):
    """By the program, from the sender and to the people that PBS mails. False if it takes too long."""
    server = pbs.server()
    job = server.job(job_id)
    mailer, points = string(server.mailer), "a" if job is None or job.Mail_Points is None else str(job.Mail_Points)
    if job is None or mailer is None or point not in points or not os.access(mailer, os.X_OK):
        return True
    domain = pbs.get_pbs_conf().get("PBS_MAIL_HOST_NAME")
    if job.Mail_Users:
        people = [one if "@" in one or not domain else "%s@%s" % (one, domain) for one in str(job.Mail_Users).replace(",", " ").split()]
    else:
        owner = str(job.Job_Owner)
        people = ["%s@%s" % (owner.partition("@")[0], domain) if domain else owner]
    people = [one for one in people if ADDRESS.fullmatch(one)]
    if not people:
        return True
    text = "To: %s\nSubject: PBS JOB %s\n\nPBS Job Id: %s\nJob Name:   %s\nlibra: %s\n" % (", ".join(people), job_id, job_id, job.Job_Name, info)
    return run_program("%s: its owner is not mailed" % job_id, [mailer, "-f", string(server.mail_from) or "adm", *people], timeout=10, input=text)


def tell_owners(text, whom, ids):
    if ids:
        qalter("%s are not told so" % whom, "-l", 'libra_info="%s"' % text, *ids[:MOST_TOLD])


def qalter(trouble, *words):
    """False if it takes too long."""
    program = os.path.join(pbs.get_pbs_conf()["PBS_EXEC"], "bin/qalter")
    return run_program(trouble, [program, *words], timeout=60, stdin=subprocess.DEVNULL, env=dict(os.environ, TZ="UTC"))


def run_program(trouble, words, **how):
    """What fails is told, and keeps nobody from the rest. False if it takes too long: so might the next one."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, **how)
    except (OSError, subprocess.TimeoutExpired) as error:
        log("%s: %s" % (trouble, error))
        return isinstance(error, OSError)
    if done.returncode:
        log("%s: %s" % (trouble, done.stderr))
    return True


run(write)
