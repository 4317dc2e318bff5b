/* The life of a book and of the jobs in it. */
#include "check.h"

static libra_book *with_nodes(int count)
{
    libra_book *book = NULL;
    libra_node n = LIBRA_NODE_INIT;
    char name[16];
    int i;
    if (libra_book_open(EXACT, &book) != 0)
        return NULL;
    for (i = 0; i < count; i++) {
        sprintf(name, "n%d", i);
        if (libra_book_set_node(book, name, &n) != 0)
            return NULL;
    }
    return book;
}

static libra_job half(void)
{
    libra_job j = LIBRA_JOB_INIT;
    j.estimate = 10;
    j.deadline = 20;
    j.budget = 100;
    return j;
}

static void two_submissions_in_a_row(void)
{
    libra_book *book = with_nodes(1);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = half();
    uint64_t first;
    char text[200];
    CHECK(libra_book_admit(book, &j, 0, &d) == 1 && d.token != 0 && d.node == 0);
    CHECK(d.within_budget == 1 && NEAR(d.loadfree, 0.5));
    first = d.token;
    CHECK(libra_book_admit(book, &j, 0, &d) == 1 && d.token != first && NEAR(d.loadfree, 0));
    d.text = text;
    d.text_capacity = sizeof text;
    CHECK(libra_book_admit(book, &j, 0, &d) == 0 && d.token == 0);
    CHECK(d.reason == LIBRA_REASON_SHARE && strstr(text, "n0") != NULL);
    CHECK(libra_book_cancel_token(book, first, 0) == 0);
    CHECK(libra_book_admit(book, &j, 0, &d) == 1);
    libra_book_close(book);
}

static void the_budget_decides_here(void)
{
    libra_book *book = with_nodes(1);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = half();
    j.budget = 10;
    CHECK(libra_book_admit(book, &j, 0, &d) == 0 && d.reason == LIBRA_REASON_BUDGET);
    CHECK(NEAR(d.needed, 10.5) && NEAR(d.available, 10) && NEAR(d.counter_budget, 10.5));
    CHECK(d.within_budget == 0);
    j.budget = d.counter_budget;
    CHECK(libra_book_admit(book, &j, 0, &d) == 1 && NEAR(d.price, 10.5));
    libra_book_close(book);
}

static void a_job_from_admission_to_its_end(void)
{
    libra_book *book = with_nodes(1);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_allocation p = LIBRA_ALLOCATION_INIT;
    libra_outcome o = LIBRA_OUTCOME_INIT;
    libra_job j = half();
    double committed;
    size_t count;
    j.deadline_type = LIBRA_DEADLINE_SOFT;
    j.penalty_rate = 2;
    CHECK(libra_book_admit(book, &j, 1000, &d) == 1);
    CHECK(libra_book_bind(book, d.token, "1.server", 1000) == 0);
    CHECK(libra_book_started(book, "1.server", 1000) == 0);
    CHECK(libra_book_progress(book, "1.server", NULL, 8, 1010) == 0);
    CHECK(libra_book_allocations(book, "1.server", NULL, 0, &count) == 0 && count == 1);
    CHECK(libra_book_allocations(book, "1.server", &p, 1, &count) == 0);
    CHECK(NEAR(p.share, 0.2) && p.chunks == 1 && p.deadline_status == LIBRA_STATUS_ON_TRACK);
    CHECK(strcmp(p.node, "n0") == 0);
    CHECK(libra_book_progress(book, "1.server", "n0", 10, 1012) == 0);
    CHECK(libra_book_allocations(book, "1.server", &p, 1, &count) == 0);
    CHECK(NEAR(p.share, 0.2) && p.deadline_status == LIBRA_STATUS_OVERRUN);
    CHECK(libra_book_advance(book, 1020) == 0);
    CHECK(libra_book_allocations(book, "1.server", &p, 1, &count) == 0);
    CHECK(p.share == 1 && p.deadline_status == LIBRA_STATUS_LATE);
    CHECK(libra_book_committed(book, "n0", &committed) == 0 && committed == 1);
    CHECK(libra_book_ended(book, "1.server", 1023, &o) == 0);
    CHECK(o.met == 0 && NEAR(o.delay, 3) && NEAR(o.penalty, 6) && NEAR(o.price, 10.5));
    CHECK(libra_book_committed(book, "n0", &committed) == 0 && committed == 0);
    CHECK(libra_book_ended(book, "1.server", 1023, &o) == LIBRA_E_UNKNOWN_JOB);
    libra_book_close(book);
}

static void a_reservation_expires(void)
{
    libra_book *book = with_nodes(1);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = half();
    CHECK(libra_book_admit(book, &j, 0, &d) == 1);
    CHECK(libra_book_bind(book, d.token, "1", 31) == LIBRA_E_UNKNOWN_JOB);
    CHECK(strstr(libra_last_error(), "expired") != NULL);
    CHECK(libra_book_admit(book, &j, 31, &d) == 1);
    CHECK(libra_book_bind(book, d.token, "1", 32) == 0);
    CHECK(libra_book_bind(book, d.token, "1", 32) == 0);
    /* A job that waits to be started needs more with every second. */
    CHECK(libra_book_admit(book, &j, 33, &d) == 0 && d.reason == LIBRA_REASON_SHARE);
    j.deadline = 30;
    CHECK(libra_book_admit(book, &j, 33, &d) == 1);
    CHECK(libra_book_bind(book, d.token, "1", 33) == LIBRA_E_ID_TAKEN);
    CHECK(libra_book_cancel(book, "1", 34) == 0);
    CHECK(libra_book_cancel(book, "1", 34) == LIBRA_E_UNKNOWN_JOB);
    libra_book_close(book);
}

static void new_terms(void)
{
    libra_book *book = with_nodes(1);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = half();
    CHECK(libra_book_admit(book, &j, 0, &d) == 1);
    CHECK(libra_book_bind(book, d.token, "a", 0) == 0);
    CHECK(libra_book_admit(book, &j, 0, &d) == 1);
    CHECK(libra_book_bind(book, d.token, "b", 0) == 0);
    j.deadline = 15;
    CHECK(libra_book_modify(book, "a", &j, 0, &d) == 0 && d.reason == LIBRA_REASON_SHARE);
    CHECK(NEAR(d.needed, 10.0 / 15.0) && NEAR(d.available, 0.5));
    j.budget = 1;
    CHECK(libra_book_modify(book, "a", &j, 0, &d) == 0 && d.reason == LIBRA_REASON_BUDGET);
    j.budget = 100;
    CHECK(libra_book_modify(book, "a", &j, 0, NULL) == 0);
    CHECK(libra_book_cancel(book, "b", 0) == 0);
    CHECK(libra_book_modify(book, "a", &j, 0, &d) == 1 && NEAR(d.price, 10 + 10.0 / 15.0));
    CHECK(libra_book_modify(book, "c", &j, 0, &d) == LIBRA_E_UNKNOWN_JOB);
    libra_book_close(book);
}

static void chunks_over_nodes_and_room_for_them(void)
{
    libra_book *book = with_nodes(4);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_placement p[4];
    libra_allocation places[4];
    libra_job j = half();
    char name[LIBRA_NAME_SIZE];
    size_t count, i;
    double committed;
    p[0].size = sizeof p[0];
    places[0].size = sizeof places[0];
    j.chunks = 4;
    j.scatter = 1;
    d.placements = p;
    d.placement_capacity = 3;
    CHECK(libra_book_admit(book, &j, 0, &d) == LIBRA_E_BUFFER && d.placement_count == 4);
    CHECK(libra_book_committed(book, "n0", &committed) == 0 && committed == 0);
    d.placement_capacity = 4;
    CHECK(libra_book_admit(book, &j, 0, &d) == 1 && d.placement_count == 4);
    for (i = 0; i < 4; i++) {
        CHECK(libra_book_node_name(book, p[i].node, name, sizeof name) == 0);
        CHECK(libra_book_committed(book, name, &committed) == 0 && NEAR(committed, 0.5));
    }
    CHECK(libra_book_bind(book, d.token, "k", 0) == 0);
    CHECK(libra_book_allocations(book, "k", places, 3, &count) == LIBRA_E_BUFFER && count == 4);
    CHECK(libra_book_allocations(book, "k", places, 4, &count) == 0 && count == 4);
    CHECK(places[3].size == sizeof places[0] && places[3].chunks == 1);
    CHECK(libra_book_node_name(book, 4, name, sizeof name) == LIBRA_E_UNKNOWN_NODE);
    CHECK(libra_book_node_name(book, 0, name, 2) == LIBRA_E_BUFFER);
    CHECK(libra_book_node_name(book, 0, name, 3) == 0 && strcmp(name, "n0") == 0);
    libra_book_close(book);
}

static void a_book_from_its_snapshot(void)
{
    libra_book *book = with_nodes(2), *again = NULL;
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = half();
    char *json = NULL, *problems = NULL, *second = NULL;
    double committed;
    CHECK(libra_book_admit(book, &j, 5, &d) == 1);
    CHECK(libra_book_bind(book, d.token, "quote\"and\\slash \xc3\xa9", 5) == 0);
    CHECK(libra_book_snapshot(book, &json) == 0 && json != NULL);
    CHECK(libra_book_open(EXACT, &again) == 0);
    CHECK(libra_book_rebuild(again, json, &problems) == 0 && problems == NULL);
    CHECK(libra_book_committed(again, "n0", &committed) == 0 && NEAR(committed, 0.5));
    CHECK(libra_book_snapshot(again, &second) == 0 && strcmp(json, second) == 0);
    CHECK(libra_book_cancel(again, "quote\"and\\slash \xc3\xa9", 6) == 0);
    libra_string_free(json);
    libra_string_free(second);
    CHECK(libra_book_rebuild(again, "{\"version\":1,\"now\":1,\"nodes\":["
                             "{\"name\":\"\",\"processors\":1},{\"name\":\"a\\u0000b\",\"processors\":1},"
                             "{\"name\":\"n\",\"processors\":1}],\"jobs\":[]}", &problems) == 2);
    CHECK(problems != NULL && strchr(problems, '\n') != NULL);
    libra_string_free(problems);
    CHECK(libra_book_rebuild(again, "{\"version\":9}", NULL) == LIBRA_E_SNAPSHOT);
    CHECK(libra_book_rebuild(again, "nonsense", NULL) == LIBRA_E_SNAPSHOT);
    CHECK(libra_book_rebuild(again, "{\"version\":1,\"now\":1e300,\"nodes\":[],\"jobs\":[]}", NULL) ==
          LIBRA_E_RANGE);
    CHECK(libra_book_committed(again, "n", &committed) == 0 && committed == 0);
    libra_book_close(book);
    libra_book_close(again);
}

static void nodes_come_and_go(void)
{
    libra_book *book = with_nodes(1);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_node n = LIBRA_NODE_INIT;
    libra_running_job r = LIBRA_RUNNING_JOB_INIT;
    libra_job j = half();
    CHECK(libra_book_set_available(book, "n0", 0) == 0);
    CHECK(libra_book_admit(book, &j, 0, &d) == 0 && d.reason == LIBRA_REASON_NO_NODE);
    n.processors = 4;
    CHECK(libra_book_set_node(book, "n1", &n) == 0);
    CHECK(libra_book_admit(book, &j, 0, &d) == 1 && d.node == 1 && NEAR(d.loadfree, 3.5));
    CHECK(libra_book_set_available(book, "n9", 0) == LIBRA_E_UNKNOWN_NODE);
    CHECK(libra_book_set_available(book, "n0", 3) == LIBRA_E_RANGE);
    CHECK(libra_book_set_node(book, "", &n) == LIBRA_E_NAME);
    CHECK(libra_book_set_node(book, "a\nb", &n) == LIBRA_E_NAME);
    CHECK(libra_book_set_node(book, "\xff", &n) == LIBRA_E_UTF8);
    n.jobs = &r;
    n.job_count = 1;
    CHECK(libra_book_set_node(book, "n2", &n) == LIBRA_E_RESERVED);
    libra_book_close(book);
}

static void null_is_safe_everywhere(void)
{
    libra_book *book = with_nodes(1);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_node n = LIBRA_NODE_INIT;
    libra_job j = half();
    double processors;
    char *text = NULL;
    char name[4];
    size_t count;
    libra_book_close(NULL);
    CHECK(libra_book_open(NULL, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_set_node(NULL, "a", &n) == LIBRA_E_NULL);
    CHECK(libra_book_set_node(book, NULL, &n) == LIBRA_E_NULL);
    CHECK(libra_book_set_node(book, "a", NULL) == LIBRA_E_NULL);
    CHECK(libra_book_set_available(NULL, "a", 1) == LIBRA_E_NULL);
    CHECK(libra_book_set_available(book, NULL, 1) == LIBRA_E_NULL);
    CHECK(libra_book_admit(NULL, &j, 0, &d) == LIBRA_E_NULL);
    CHECK(libra_book_admit(book, NULL, 0, &d) == LIBRA_E_NULL);
    CHECK(libra_book_admit(book, &j, 0, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_bind(NULL, 1, "a", 0) == LIBRA_E_NULL);
    CHECK(libra_book_bind(book, 1, NULL, 0) == LIBRA_E_NULL);
    CHECK(libra_book_started(NULL, "a", 0) == LIBRA_E_NULL);
    CHECK(libra_book_started(book, NULL, 0) == LIBRA_E_NULL);
    CHECK(libra_book_progress(NULL, "a", NULL, 0, 0) == LIBRA_E_NULL);
    CHECK(libra_book_progress(book, NULL, NULL, 0, 0) == LIBRA_E_NULL);
    CHECK(libra_book_ended(NULL, "a", 0, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_ended(book, NULL, 0, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_cancel(NULL, "a", 0) == LIBRA_E_NULL);
    CHECK(libra_book_cancel(book, NULL, 0) == LIBRA_E_NULL);
    CHECK(libra_book_cancel_token(NULL, 1, 0) == LIBRA_E_NULL);
    CHECK(libra_book_modify(NULL, "a", &j, 0, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_modify(book, NULL, &j, 0, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_modify(book, "a", NULL, 0, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_advance(NULL, 0) == LIBRA_E_NULL);
    CHECK(libra_book_allocations(NULL, "a", NULL, 0, &count) == LIBRA_E_NULL);
    CHECK(libra_book_allocations(book, NULL, NULL, 0, &count) == LIBRA_E_NULL);
    CHECK(libra_book_allocations(book, "a", NULL, 0, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_allocations(book, "a", NULL, 1, &count) == LIBRA_E_NULL);
    CHECK(libra_book_committed(NULL, "a", &processors) == LIBRA_E_NULL);
    CHECK(libra_book_committed(book, NULL, &processors) == LIBRA_E_NULL);
    CHECK(libra_book_committed(book, "n0", NULL) == LIBRA_E_NULL);
    CHECK(libra_book_node_name(NULL, 0, name, 4) == LIBRA_E_NULL);
    CHECK(libra_book_node_name(book, 0, NULL, 4) == LIBRA_E_NULL);
    CHECK(libra_book_node_name(book, 0, NULL, 0) == LIBRA_E_BUFFER);
    CHECK(libra_book_snapshot(NULL, &text) == LIBRA_E_NULL);
    CHECK(libra_book_snapshot(book, NULL) == LIBRA_E_NULL);
    CHECK(libra_book_rebuild(NULL, "{}", NULL) != 0);
    CHECK(libra_book_rebuild(book, NULL, NULL) == LIBRA_E_NULL);
    libra_book_close(book);
}

static void times_and_numbers_that_are_none(void)
{
    libra_book *book = with_nodes(1);
    libra_decision d = LIBRA_DECISION_INIT;
    libra_job j = half();
    static const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL, -1.0, 1e13};
    size_t i;
    CHECK(libra_book_admit(book, &j, 0, &d) == 1);
    CHECK(libra_book_bind(book, d.token, "a", 0) == 0);
    for (i = 0; i < 5; i++) {
        CHECK(libra_book_admit(book, &j, bad[i], &d) == LIBRA_E_RANGE);
        CHECK(libra_book_advance(book, bad[i]) == LIBRA_E_RANGE);
        CHECK(libra_book_started(book, "a", bad[i]) == LIBRA_E_RANGE);
        CHECK(libra_book_ended(book, "a", bad[i], NULL) == LIBRA_E_RANGE);
        CHECK(libra_book_progress(book, "a", NULL, 1, bad[i]) == LIBRA_E_RANGE);
        CHECK(libra_book_progress(book, "a", NULL, bad[i], 1) == LIBRA_E_RANGE);
        CHECK(libra_book_modify(book, "a", &j, bad[i], NULL) == LIBRA_E_RANGE);
    }
    j.estimate = NAN;
    CHECK(libra_book_admit(book, &j, 0, &d) == LIBRA_E_RANGE);
    CHECK(libra_book_progress(book, "a", "n7", 1, 1) == LIBRA_E_UNKNOWN_NODE);
    libra_book_close(book);
}

static void a_configuration_that_is_none(void)
{
    libra_book *book = NULL;
    CHECK(libra_book_open("no such = thing", &book) == LIBRA_E_CONFIG && book == NULL);
    CHECK(libra_book_open("no-such-key = 1", &book) == LIBRA_E_CONFIG && book == NULL);
    CHECK(libra_book_open("\xff", &book) == LIBRA_E_UTF8 && book == NULL);
    CHECK(libra_last_error()[0] != '\0');
}

int main(void)
{
    RUN(two_submissions_in_a_row);
    RUN(the_budget_decides_here);
    RUN(a_job_from_admission_to_its_end);
    RUN(a_reservation_expires);
    RUN(new_terms);
    RUN(chunks_over_nodes_and_room_for_them);
    RUN(a_book_from_its_snapshot);
    RUN(nodes_come_and_go);
    RUN(null_is_safe_everywhere);
    RUN(times_and_numbers_that_are_none);
    RUN(a_configuration_that_is_none);
    return 0;
}
