# qalter: what was sold stays as it is.


def judge(event):
    if event.job_o is None:
        return
    changed = event.job.Resource_List
    str(changed)  # PBS reads them only then
    keys = [str(key) for key in changed.keys() if changed[key] is not None]
    # With PBS's own attributes of these names, for sites that built it so.
    keys += [key for key in TERMS if getattr(event.job, key, None) is not None]
    if keys:
        answer = Libra().ask("modifyjob", job={"sold": sold_to(event.job_o), "keys": keys})
        if answer["verdict"] == "refuse":
            event.reject(answer["text"])


run(judge)
