/* The two questions of the 2004 paper, and its examples. */
#include "check.h"

static libra_job job(double estimate, double deadline)
{
    libra_job j = LIBRA_JOB_INIT;
    j.estimate = estimate;
    j.deadline = deadline;
    return j;
}

static libra_running_job running(double estimate, double deadline, double cput, double walltime)
{
    libra_running_job r = LIBRA_RUNNING_JOB_INIT;
    r.estimate = estimate;
    r.deadline = deadline;
    r.cput = cput;
    r.walltime = walltime;
    return r;
}

static void the_budget_of_the_papers_form(void)
{
    /* 10 + 10 / 20 = 10.5 */
    CHECK(req_budget(15, 10, 20) == 1);
    CHECK(req_budget(10.5, 10, 20) == 1);
    CHECK(req_budget(10.49, 10, 20) == 0);
    CHECK(req_budget(0, 10, 20) == 0);
    CHECK(req_budget(LIBRA_UNLIMITED, 10, 20) == 1);
    CHECK(libra_last_error()[0] == '\0');
}

static void a_budget_that_cannot_be_judged(void)
{
    CHECK(req_budget(NAN, 10, 20) == LIBRA_E_RANGE);
    CHECK(strstr(libra_last_error(), "budget") != NULL);
    CHECK(req_budget(-1, 10, 20) == LIBRA_E_RANGE);
    CHECK(req_budget(-LIBRA_UNLIMITED, 10, 20) == LIBRA_E_RANGE);
    CHECK(req_budget(15, 0, 20) == LIBRA_E_RANGE);
    CHECK(req_budget(15, NAN, 20) == LIBRA_E_RANGE);
    CHECK(req_budget(15, 10, 0) == LIBRA_E_RANGE);
    CHECK(req_budget(15, 10, LIBRA_UNLIMITED) == LIBRA_E_RANGE);
    CHECK(strstr(libra_last_error(), "deadline") != NULL);
    CHECK(req_budget(15, 10, -20) == LIBRA_E_RANGE);
}

/* 20 of 30 CPU-seconds after 20 s, deadline 50: the job needs 1/3 from now on. */
static void the_share_of_the_paper(void)
{
    libra_running_job r = running(30, 50, 20, 20);
    libra_node n = LIBRA_NODE_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(2, 3);
    n.jobs = &r;
    n.job_count = 1;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1);
    CHECK(d.node == 0 && NEAR(d.share, 2.0 / 3.0) && NEAR(d.loadfree, 0.0));
    CHECK(NEAR(d.price, 2 + 2.0 / 3.0) && d.reason == LIBRA_REASON_NONE && d.token == 0);
    CHECK(d.placement_count == 1);
    j = job(2.01, 3);
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 0);
    CHECK(d.reason == LIBRA_REASON_SHARE && d.evidence_node == 0);
    CHECK(NEAR(d.needed, 0.67) && NEAR(d.available, 2.0 / 3.0));
    CHECK(d.node == LIBRA_NO_NODE && isnan(d.share));
}

static void the_best_node_has_the_least_left_over(void)
{
    libra_running_job r[3];
    libra_node n[4];
    libra_node init = LIBRA_NODE_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(3, 10);
    int i;
    for (i = 0; i < 4; i++)
        n[i] = init;
    r[0] = running(20, 100, 0, 0); /* 0.8 free */
    r[1] = running(60, 100, 0, 0); /* 0.4 free: best */
    r[2] = running(80, 100, 0, 0); /* 0.2 free: too little */
    for (i = 0; i < 3; i++) {
        n[i].jobs = &r[i];
        n[i].job_count = 1;
    }
    CHECK(accept_reject_all_nodes(&j, n, 4, &d) == 1);
    CHECK(d.node == 1 && NEAR(d.loadfree, 0.1) && NEAR(d.share, 0.3));
    n[1].available = 0;
    CHECK(accept_reject_all_nodes(&j, n, 4, &d) == 1);
    CHECK(d.node == 0 && NEAR(d.loadfree, 0.5));
}

static void a_job_shown_as_reserved_counts(void)
{
    libra_running_job r[2];
    libra_node n = LIBRA_NODE_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(10, 20);
    r[0] = running(10, 20, 0, 0);
    r[1] = r[0];
    n.jobs = r;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1);
    n.job_count = 1;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1 && NEAR(d.loadfree, 0));
    n.job_count = 2;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 0 && d.reason == LIBRA_REASON_SHARE);
}

static void overrun_and_late_jobs(void)
{
    libra_running_job r = running(10, 100, 12, 20);
    libra_node n = LIBRA_NODE_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(1, 100);
    n.jobs = &r;
    n.job_count = 1;
    r.share = 0.25; /* outlived its estimate: keeps what it had */
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1 && NEAR(d.loadfree, 0.74));
    r.share = 0; /* not known: 10 / 100 */
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1 && NEAR(d.loadfree, 0.89));
    r.walltime = 100; /* late: a whole processor */
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 0 && NEAR(d.available, 0));
}

static void chunks_are_placed_all_or_none(void)
{
    libra_node n[3];
    libra_node init = LIBRA_NODE_INIT;
    libra_placement p[4];
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(10, 20);
    unsigned sum = 0;
    size_t i;
    n[0] = n[1] = n[2] = init;
    n[1].processors = 2;
    memset(p, 0x55, sizeof p);
    p[0].size = sizeof p[0];
    d.placements = p;
    d.placement_capacity = 3;
    j.chunks = 3;
    CHECK(accept_reject_all_nodes(&j, n, 3, &d) == 1);
    CHECK(d.placement_count == 2 && d.node == p[0].node);
    for (i = 0; i < d.placement_count; i++) {
        CHECK(p[i].size == sizeof p[0] && p[i].reserved == 0 && NEAR(p[i].share, 0.5));
        sum += p[i].chunks;
    }
    CHECK(sum == 3);
    CHECK(p[2].chunks == 0x55555555u && p[3].chunks == 0x55555555u);
    j.scatter = 1;
    CHECK(accept_reject_all_nodes(&j, n, 3, &d) == 1 && d.placement_count == 3);
    CHECK(p[3].chunks == 0x55555555u);
    j.chunks = 4;
    CHECK(accept_reject_all_nodes(&j, n, 3, &d) == 0 && d.reason == LIBRA_REASON_CHUNKS);
    CHECK(d.needed == 4 && d.available == 3 && d.counter_chunks == 3 && d.counter_processors == 1);
    /* The work of four on three of them, as the header says. */
    CHECK(NEAR(d.counter_shape_price, 3 * (13.34 + 13.34 / 20)));
    j.estimate = 10.0 * 4 / 3;
    j.chunks = 3;
    CHECK(accept_reject_all_nodes(&j, n, 3, &d) == 1);
    j.estimate = 10;
    j.scatter = 0;
    j.chunks = 9; /* 8 halves fit, and the work of 9 on no fewer */
    CHECK(accept_reject_all_nodes(&j, n, 3, &d) == 0);
    CHECK(d.counter_chunks == 0 && isnan(d.counter_shape_price));
    j.chunks = 8;
    CHECK(accept_reject_all_nodes(&j, n, 3, &d) == 1 && d.placement_count == 3);
}

static void speed_and_memory(void)
{
    libra_node n = LIBRA_NODE_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(10, 8);
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 0 && d.reason == LIBRA_REASON_DEADLINE);
    CHECK(NEAR(d.needed, 10) && NEAR(d.available, 8) && NEAR(d.counter_deadline, 10));
    n.rating = 2;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1 && NEAR(d.share, 5.0 / 8.0));
    n.memory = 1000;
    j.memory_per_chunk = 1001;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 0 && d.reason == LIBRA_REASON_MEMORY);
    CHECK(d.needed == 1001 && d.available == 1000 && isnan(d.counter_deadline));
    j.memory_per_chunk = 1000;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1);
}

static void no_node_at_all(void)
{
    libra_node n = LIBRA_NODE_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(10, 20);
    CHECK(accept_reject_all_nodes(&j, NULL, 0, &d) == 0 && d.reason == LIBRA_REASON_NO_NODE);
    n.available = 0;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 0 && d.reason == LIBRA_REASON_NO_NODE);
    CHECK(isnan(d.needed) && d.evidence_node == LIBRA_NO_NODE && d.counter_chunks == 0);
}

static void counter_offers_are_accepted(void)
{
    libra_running_job r = running(60, 100, 0, 0);
    libra_node n = LIBRA_NODE_INIT;
    char text[300];
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(10, 20), other;
    n.jobs = &r;
    n.job_count = 1;
    d.text = text;
    d.text_capacity = sizeof text;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 0 && d.reason == LIBRA_REASON_SHARE);
    CHECK(NEAR(d.counter_deadline, 25) && NEAR(d.counter_deadline_price, 10.4));
    CHECK(strstr(text, "node 0") != NULL && strstr(text, "deadline=25") != NULL);
    CHECK(d.text_length == strlen(text));
    other = j;
    other.deadline = d.counter_deadline;
    CHECK(accept_reject_all_nodes(&other, &n, 1, &d) == 1 && text[0] == '\0');
    other.deadline = 24.9;
    CHECK(accept_reject_all_nodes(&other, &n, 1, &d) == 0);
}

static void the_budget_is_told_and_does_not_decide(void)
{
    libra_node n = LIBRA_NODE_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = job(10, 20);
    j.budget = 10.4;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1);
    CHECK(d.within_budget == 0 && NEAR(d.price, 10.5) && NEAR(d.counter_budget, 10.5));
    j.budget = 10.5;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 1 && d.within_budget == 1);
    CHECK(isnan(d.counter_budget));
    j.budget = 0; /* nothing at all: offers by the nodes alone */
    j.deadline = 8;
    CHECK(accept_reject_all_nodes(&j, &n, 1, &d) == 0 && NEAR(d.counter_deadline, 10));
    CHECK(d.within_budget == 0);
}

static void a_larger_structure_of_a_newer_caller(void)
{
    struct { libra_node n; uint64_t more[3]; } n[2];
    struct { libra_running_job r; uint64_t more; } r[2];
    struct { libra_decision d; unsigned char more[16]; } d;
    struct { libra_placement p; uint64_t more; } p[2];
    libra_node node = LIBRA_NODE_INIT;
    libra_decision decision = LIBRA_DECISION_INIT;
    libra_placement placement = LIBRA_PLACEMENT_INIT;
    libra_job j = job(10, 20);
    int i;
    memset(d.more, 0xAA, sizeof d.more);
    d.d = decision;
    d.d.size = sizeof d;
    for (i = 0; i < 2; i++) {
        r[i].r = running(5, 20, 0, 0);
        r[i].r.size = sizeof r[0];
        n[i].n = node;
        n[i].n.size = sizeof n[0];
        n[i].n.jobs = &r[0].r;
        n[i].n.job_count = 2;
        p[i].p = placement;
        p[i].p.size = sizeof p[0];
        p[i].more = 77;
    }
    j.chunks = 2;
    d.d.placements = &p[0].p;
    d.d.placement_capacity = 2;
    CHECK(accept_reject_all_nodes(&j, &n[0].n, 2, &d.d) == 1);
    CHECK(d.d.placement_count == 2 && d.d.size == sizeof d);
    CHECK(p[0].p.node == 0 && p[1].p.node == 1 && p[1].p.size == sizeof p[0]);
    CHECK(p[0].more == 77 && p[1].more == 77);
    for (i = 0; i < (int)sizeof d.more; i++)
        CHECK(d.more[i] == 0xAA);
}

static void terms_as_users_write_them(void)
{
    libra_job j = LIBRA_JOB_INIT;
    j.chunks = 7;
    CHECK(libra_parse_terms("deadline=20,budget=15,estimate=10", &j) == 0);
    CHECK(j.deadline == 20 && j.budget == 15 && j.estimate == 10 && j.chunks == 7);
    CHECK(j.deadline_type == LIBRA_DEADLINE_HARD);
    CHECK(libra_parse_terms("deadline=1h,budget=unlimited,estimate=00:10:00,"
                            "deadline_type=soft,penalty_rate=0.5", &j) == 0);
    CHECK(j.deadline == 3600 && j.budget == LIBRA_UNLIMITED && j.estimate == 600);
    CHECK(j.deadline_type == LIBRA_DEADLINE_SOFT && j.penalty_rate == 0.5);
    CHECK(libra_parse_terms("deadline=20,budget=15", &j) == LIBRA_E_TERMS);
    CHECK(strstr(libra_last_error(), "estimate") != NULL && j.deadline == 3600);
    CHECK(libra_parse_terms("deadline=20,budget=15,estimate=0", &j) == LIBRA_E_RANGE);
    CHECK(libra_parse_terms("colour=blue", &j) == LIBRA_E_TERMS);
    CHECK(libra_parse_terms("", &j) == LIBRA_E_TERMS);
    CHECK(libra_parse_terms("deadline=\xff", &j) == LIBRA_E_UTF8);
    CHECK(libra_parse_terms(NULL, &j) == LIBRA_E_NULL);
    CHECK(libra_parse_terms("deadline=20,budget=15,estimate=10", NULL) == LIBRA_E_NULL);
    j.size = 8;
    CHECK(libra_parse_terms("deadline=20,budget=15,estimate=10", &j) == LIBRA_E_SIZE);
}

int main(void)
{
    RUN(the_budget_of_the_papers_form);
    RUN(a_budget_that_cannot_be_judged);
    RUN(the_share_of_the_paper);
    RUN(the_best_node_has_the_least_left_over);
    RUN(a_job_shown_as_reserved_counts);
    RUN(overrun_and_late_jobs);
    RUN(chunks_are_placed_all_or_none);
    RUN(speed_and_memory);
    RUN(no_node_at_all);
    RUN(counter_offers_are_accepted);
    RUN(the_budget_is_told_and_does_not_decide);
    RUN(a_larger_structure_of_a_newer_caller);
    RUN(terms_as_users_write_them);
    return 0;
}
