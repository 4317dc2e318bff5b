# A job did not come to run here: what was made for it goes.


def end(event):
    sold = sold_to(event.job)
    if sold:
        ask_host("execjob_abort", {"id": event.job.id, "sold": sold})


run(end)
