# Now and then on each host: shares are taken anew where no agent does it, leftovers are ended, and the
# server is told how far the jobs are.


def readjust(event):
    answer = Libra().ask("exechost_periodic", "host-config", host=pbs.get_local_nodename(),
                         jobs=list(event.job_list.keys()), listed=split_off())
    for job_id, progress in answer.get("progress", {}).items():
        event.job_list[job_id].resources_used["libra_progress"] = progress


run(readjust)
