# The same, where no epilogue ran.


def end(event):
    commitment = commitment_of(event.job)
    if commitment:
        ask_host("execjob_end", {"id": event.job.id, "commitment": commitment})


run(end)
