# qmove: a share that was committed on this server stays on it.


def judge(event):
    commitment = commitment_of(event.job)
    if commitment:
        answer = Libra().ask("movejob", job={"commitment": commitment, "destination": str(event.job.queue)})
        if answer["verdict"] == "refuse":
            reject(event, answer["text"])


run(judge, "this job is not moved")
