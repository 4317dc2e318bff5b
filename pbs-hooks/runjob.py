# PBS is about to run a job: is its node still what is committed? Does it take what is promised to another?


def start(event):
    job = event.job
    if not commitment_of(job):
        answer = tell("runjob", job)
        if answer["verdict"] == "refuse":
            reject(event, answer["text"])
        return
    record = job_record(job)
    if is_deferred(record["commitment"]):
        # It has no place yet: all that its place depends on is looked at.
        record.update(select=string(resource(job.Resource_List, "select")), place=string(resource(job.Resource_List, "place")), reservations=reservations())
    answer = ask_server(Libra(), "runjob", job=record)
    # Of a job that waited: what was committed to it this time, or why it was not.
    for name, value in answer.get("resources", {}).items():
        set_resource(job, name, value)
    if "start" in answer:
        set_start(job, answer["start"])
    if answer["verdict"] == "refuse":
        if answer.get("hold"):
            job.Hold_Types = pbs.hold_types("s")
        reject(event, answer["text"])


run(start, "this job is not run")
