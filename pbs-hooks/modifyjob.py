# qalter: what is committed stays as it is.


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
        answer = ask_server(Libra(), "modifyjob", job={
            "id": event.job_o.id, "commitment": commitment, "keys": keys, "start": seconds(event.job.Execution_Time), "by": str(event.requestor),
            "state": state_of(event.job_o), "substate": int(event.job_o.substate or 0), "start_before": seconds(event.job_o.Execution_Time),
            "terms": string(changed["libra_terms"]) if "libra_terms" in keys else None})
        if answer["verdict"] == "refuse":
            reject(event, answer["text"])


run(judge, "this job is not altered")
