# A job has ended here: what is left of it is killed, its cgroup removed.


def end(event):
    if concerns_host(event.job):
        status = event.job.Exit_status
        answer = ask_host("execjob_epilogue", {"id": event.job.id, "exit": None if status is None else int(status)})
        # How much it used and when it ended: PBS itself says so a second or two later.
        if "progress" in answer:
            event.job.resources_used["libra_progress"] = answer["progress"]


run(end)
