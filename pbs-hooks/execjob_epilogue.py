# A job has ended here: what is left of it is killed, its cgroup removed.


def end(event):
    sold = sold_to(event.job)
    if sold:
        ask_host("execjob_epilogue", {"id": event.job.id, "sold": sold})


run(end)
