# PBS is about to run a job: is its node still what is committed? Does it take what is promised to another?


def start(event):
    job = event.job
    if not commitment_of(job):
        answer = tell("runjob", job)
        if answer["verdict"] == "refuse":
            event.reject(answer["text"])
        return
    answer = ask_server(Libra(), "runjob", job=job_record(job))
    # Of a job that waited: what was committed to it this time, or why it was not.
    for name, value in answer.get("resources", {}).items():
        job.Resource_List[name] = value
    if answer["verdict"] == "refuse":
        if answer.get("hold"):
            job.Hold_Types = pbs.hold_types("s")
        event.reject(answer["text"])


run(start, "this job is not run")
