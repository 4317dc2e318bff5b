# A job has got its id: what was reserved for it goes under that id.


def name(event):
    sold = sold_to(event.job)
    if sold:
        Libra().ask("postqueuejob", job={"id": event.job.id, "sold": sold,
                                         "array": string(event.job.array_indices_submitted)})


run(name)
