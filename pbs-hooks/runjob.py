# PBS is about to run a job: is its node still what was sold?


def start(event):
    job = event.job
    if not sold_to(job):
        return
    answer = ask_server(Libra(), "runjob", job=job_record(job))
    if answer["verdict"] == "refuse":
        if answer.get("hold"):
            job.Hold_Types = pbs.hold_types("s")
        event.reject(answer["text"])


run(start)
