# A job did not come to run here: what was made for it goes.


def end(event):
    commitment = commitment_of(event.job)
    if commitment:
        ask_host("execjob_abort", {"id": event.job.id, "commitment": commitment})


run(end)
