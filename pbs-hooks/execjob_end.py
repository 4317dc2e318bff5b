# The same, where no epilogue ran.


def end(event):
    sold = sold_to(event.job)
    if sold:
        ask_host("execjob_end", {"id": event.job.id, "sold": sold})


run(end)
