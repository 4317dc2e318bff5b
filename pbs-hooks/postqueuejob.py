# A job has got its id: what was reserved for it goes under that id.


def name(event):
    commitment = commitment_of(event.job)
    if commitment:
        Libra().ask("postqueuejob", job=dict(owner_of(event.job), id=event.job.id, commitment=commitment,
                                             array=string(event.job.array_indices_submitted)))


# It ends by reject(), which changes nothing about a job that is queued already. After accept() PBS 23.06 keeps the
# job's resources in a list that it frees when the next job comes, also when the resources were deleted meanwhile:
# an uninstallation would then kill pbs_server.
try:
    name(pbs.event())
except Exception as fault:
    log_fault(pbs.event(), fault)
pbs.event().reject("libra: it has its id")
