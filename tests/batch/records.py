"""Records of jobs that exceed their estimates, as logs in the Standard Workload Format."""


def exceeding(percent):
    """400 jobs with an estimate of 100 s, of which one in forty needs so much more: what is proposed of them is a margin of that."""
    note = "; Note: Jobs that Libra promised something: estimates are theirs, and run times what they needed of a processor of their own\n"
    return note + "".join(f"{number} {number} 0 {100 + percent if number % 40 == 0 else 50} 1 -1 -1 1 100 -1 1 1 1 -1 -1 -1 -1 -1\n" for number in range(1, 401))
