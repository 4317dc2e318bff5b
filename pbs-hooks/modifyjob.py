# qalter: what is committed stays as it is.


# PBS's substate of a job whose host has said that it runs (job.h).
RUNNING = 42


def judge(event):
    if event.job_o is None:
        return
    changed = event.job.Resource_List
    str(changed)  # PBS reads them only then
    keys = [str(key) for key in changed.keys() if changed[key] is not None]
    # With PBS's own attributes of these names, for sites that built it so.
    keys += [key for key in TERMS if getattr(event.job, key, None) is not None]
    commitment = commitment_of(event.job_o)
    # Whatever else is altered of a job without terms is nothing to us, and goes on without us as well.
    if commitment or any(key in TERMS or key.startswith("libra_") for key in keys):
        answer = Libra().ask("modifyjob", job={
            "id": event.job_o.id, "commitment": commitment, "keys": keys, "start": seconds(event.job.Execution_Time), "by": str(event.requestor),
            "runs": state_of(event.job_o) == "R" and int(event.job_o.substate or 0) == RUNNING,
            "terms": string(changed["libra_terms"]) if "libra_terms" in keys else None})
        if answer["verdict"] == "refuse":
            reject(event, answer["text"])


run(judge, "this job is not altered")
