# qmove: a share that was sold on this server stays on it.


def judge(event):
    sold = sold_to(event.job)
    if sold:
        answer = Libra().ask("movejob", job={"sold": sold, "destination": str(event.job.queue)})
        if answer["verdict"] == "refuse":
            event.reject(answer["text"])


run(judge, "this job is not moved")
