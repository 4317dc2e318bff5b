/* Every error of accept_reject_all_nodes: its code, its text, and nothing written. */
#include "check.h"

struct everything {
    libra_job j;
    libra_node n[2];
    libra_running_job r[2];
    libra_placement p[2];
    libra_decision d;
    char text[64];
};

static void prepare(struct everything *e)
{
    libra_job j = LIBRA_JOB_INIT;
    libra_node n = LIBRA_NODE_INIT;
    libra_running_job r = LIBRA_RUNNING_JOB_INIT;
    libra_placement p = LIBRA_PLACEMENT_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    memset(e, 0, sizeof *e); /* the padding too: what is compared is all of it */
    j.estimate = 10;
    j.deadline = 20;
    r.estimate = 10;
    r.deadline = 40;
    e->j = j;
    e->r[0] = e->r[1] = r;
    e->n[0] = e->n[1] = n;
    e->n[1].jobs = e->r;
    e->n[1].job_count = 2;
    e->p[0] = e->p[1] = p;
    e->d = d;
    e->d.placements = e->p;
    e->d.placement_capacity = 2;
    e->d.text = e->text;
    e->d.text_capacity = sizeof e->text;
}

static int ask(struct everything *e)
{
    return accept_reject_all_nodes(&e->j, e->n, 2, &e->d);
}

/* The code is the one, its text has the word, and not one byte changed. */
static int fails(struct everything *e, int code, const char *word)
{
    struct everything before;
    int got;
    memcpy(&before, e, sizeof before);
    got = ask(e);
    if (got == code && strstr(libra_last_error(), word) != NULL &&
        memcmp(&before, e, sizeof before) == 0)
        return 1;
    fprintf(stderr, "got %d '%s', expected %d '%s'\n", got, libra_last_error(), code, word);
    return 0;
}

#define FAILS(change, code, word)        \
    do {                                 \
        struct everything e;             \
        prepare(&e);                     \
        CHECK(ask(&e) == 1);             \
        prepare(&e);                     \
        change;                          \
        CHECK(fails(&e, (code), (word))); \
    } while (0)

static void numbers_out_of_range(void)
{
    static const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL, -1.0, 0.0, 1e11, 1e-4};
    size_t i;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FAILS(e.j.estimate = bad[i], LIBRA_E_RANGE, "estimate");
        FAILS(e.j.deadline = bad[i], LIBRA_E_RANGE, "deadline");
        FAILS(e.r[1].estimate = bad[i], LIBRA_E_RANGE, "node 1: job 1: estimate");
        FAILS(e.r[0].deadline = bad[i], LIBRA_E_RANGE, "node 1: job 0: deadline");
    }
    for (i = 0; i < 4; i++) {
        FAILS(e.n[1].processors = bad[i], LIBRA_E_RANGE, "node 1: processors");
        FAILS(e.n[0].rating = bad[i], LIBRA_E_RANGE, "node 0: rating");
        FAILS(e.r[1].cput = bad[i], LIBRA_E_RANGE, "cput");
        FAILS(e.r[1].walltime = bad[i], LIBRA_E_RANGE, "walltime");
        FAILS(e.r[1].share = bad[i], LIBRA_E_RANGE, "share");
        FAILS(e.j.penalty_rate = bad[i], LIBRA_E_RANGE, "penalty_rate");
        if (i != 1)
            FAILS(e.j.budget = bad[i], LIBRA_E_RANGE, "budget");
    }
    FAILS(e.n[0].rating = 0, LIBRA_E_RANGE, "rating");
    FAILS(e.j.chunks = 0, LIBRA_E_RANGE, "chunks");
    FAILS(e.j.chunks = UINT32_MAX, LIBRA_E_RANGE, "chunks");
    FAILS(e.j.processors_per_chunk = 0, LIBRA_E_RANGE, "processors_per_chunk");
    FAILS(e.j.deadline_type = 2, LIBRA_E_RANGE, "deadline_type");
    FAILS(e.j.deadline_type = -1, LIBRA_E_RANGE, "deadline_type");
    FAILS(e.j.scatter = 2, LIBRA_E_RANGE, "scatter");
    FAILS(e.n[0].available = -1, LIBRA_E_RANGE, "available");
    FAILS(e.r[0].slots = 0, LIBRA_E_RANGE, "slots");
    FAILS(e.r[0].reserved = 1, LIBRA_E_RESERVED, "INIT");
    FAILS(e.n[1].reserved = 1, LIBRA_E_RESERVED, "INIT");
}

static void sizes(void)
{
    static const size_t bad[] = {0, 1, 7, SIZE_MAX, SIZE_MAX - 7, 5000};
    size_t i;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FAILS(e.j.size = bad[i], LIBRA_E_SIZE, "libra_job");
        FAILS(e.n[0].size = bad[i], LIBRA_E_SIZE, "libra_node");
        FAILS(e.n[1].size = bad[i], LIBRA_E_SIZE, "node 1");
        FAILS(e.r[0].size = bad[i], LIBRA_E_SIZE, "libra_running_job");
        FAILS(e.r[1].size = bad[i], LIBRA_E_SIZE, "libra_running_job 1");
        FAILS(e.p[0].size = bad[i], LIBRA_E_SIZE, "libra_placement");
        FAILS(e.d.size = bad[i], LIBRA_E_SIZE, "libra_decision");
    }
    FAILS(e.j.size -= 8, LIBRA_E_SIZE, "libra_job");
    FAILS(e.j.size += 1, LIBRA_E_SIZE, "libra_job");
    FAILS(e.r[1].size += 8, LIBRA_E_SIZE, "libra_running_job 1");
}

static void pointers(void)
{
    struct everything e;
    prepare(&e);
    CHECK(accept_reject_all_nodes(NULL, e.n, 2, &e.d) == LIBRA_E_NULL);
    CHECK(strstr(libra_last_error(), "libra_job") != NULL);
    CHECK(accept_reject_all_nodes(&e.j, NULL, 2, &e.d) == LIBRA_E_NULL);
    CHECK(accept_reject_all_nodes(&e.j, e.n, 2, NULL) == LIBRA_E_NULL);
    CHECK(accept_reject_all_nodes((libra_job *)(void *)((char *)&e.j + 1), e.n, 2, &e.d) ==
          LIBRA_E_ALIGN);
    CHECK(accept_reject_all_nodes(&e.j, (libra_node *)(void *)((char *)e.n + 4), 1, &e.d) ==
          LIBRA_E_ALIGN);
    CHECK(accept_reject_all_nodes(&e.j, e.n, 2, (libra_decision *)(void *)((char *)&e.d + 2)) ==
          LIBRA_E_ALIGN);
    FAILS(e.n[1].jobs = NULL, LIBRA_E_NULL, "libra_running_job");
    FAILS(e.n[1].jobs = (libra_running_job *)(void *)((char *)e.r + 4), LIBRA_E_ALIGN, "aligned");
    FAILS(e.d.placements = NULL, LIBRA_E_NULL, "libra_placement");
    FAILS(e.d.placements = (libra_placement *)(void *)((char *)e.p + 4), LIBRA_E_ALIGN, "aligned");
    FAILS(e.d.text = NULL, LIBRA_E_NULL, "text");
}

static void counts_that_overflow(void)
{
    struct everything e;
    prepare(&e);
    CHECK(accept_reject_all_nodes(&e.j, e.n, SIZE_MAX, &e.d) == LIBRA_E_COUNT);
    CHECK(accept_reject_all_nodes(&e.j, e.n, SIZE_MAX / sizeof(libra_node) + 2, &e.d) ==
          LIBRA_E_COUNT);
    FAILS(e.n[1].job_count = SIZE_MAX, LIBRA_E_COUNT, "libra_running_job");
    FAILS(e.n[1].job_count = SIZE_MAX / sizeof(libra_running_job) + 2, LIBRA_E_COUNT, "memory");
    FAILS(e.d.placement_capacity = SIZE_MAX, LIBRA_E_COUNT, "libra_placement");
    FAILS(e.d.text_capacity = SIZE_MAX, LIBRA_E_COUNT, "text");
}

static void too_little_room_for_placements(void)
{
    struct everything e;
    libra_placement before;
    prepare(&e);
    e.j.chunks = 3; /* two halves on node 0, one on node 1 */
    e.d.placement_capacity = 1;
    before = e.p[0];
    CHECK(ask(&e) == LIBRA_E_BUFFER && e.d.placement_count == 2);
    CHECK(memcmp(&before, &e.p[0], sizeof before) == 0);
    e.d.placements = NULL; /* not wanted */
    e.d.placement_capacity = 0;
    CHECK(ask(&e) == 1 && e.d.placement_count == 2);
}

static void a_sentence_is_cut_to_its_room(void)
{
    struct everything e;
    size_t room, whole;
    prepare(&e);
    e.j.chunks = 9;
    e.d.text_capacity = 0;
    e.d.text = NULL;
    CHECK(ask(&e) == 0 && e.d.text_length > 20);
    whole = e.d.text_length;
    e.d.text = e.text;
    for (room = 1; room < 40; room++) {
        memset(e.text, 'x', sizeof e.text);
        e.d.text_capacity = room;
        CHECK(ask(&e) == 0 && e.d.text_length == whole);
        CHECK(strlen(e.text) == room - 1 && e.text[room] == 'x');
    }
}

static void codes_have_texts(void)
{
    CHECK(strcmp(libra_code_text(LIBRA_REASON_NO_NODE), "no-node") == 0);
    CHECK(strcmp(libra_code_text(LIBRA_E_RANGE), "a value is out of range") == 0);
    CHECK(libra_code_text(-12345) != NULL);
    CHECK(libra_code_text(12345) != NULL);
    CHECK(strlen(libra_version()) >= 5);
    libra_string_free(NULL);
}

static void an_error_is_of_the_last_call(void)
{
    CHECK(req_budget(NAN, 10, 20) < 0 && libra_last_error()[0] != '\0');
    CHECK(libra_code_text(0) != NULL && libra_version() != NULL && libra_last_error()[0] != '\0');
    CHECK(req_budget(15, 10, 20) == 1 && libra_last_error()[0] == '\0');
}

int main(void)
{
    RUN(numbers_out_of_range);
    RUN(sizes);
    RUN(pointers);
    RUN(counts_that_overflow);
    RUN(too_little_room_for_placements);
    RUN(a_sentence_is_cut_to_its_room);
    RUN(codes_have_texts);
    RUN(an_error_is_of_the_last_call);
    return 0;
}
