/* One book and many threads; errors of each thread its own; the log while threads come and go. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, ROUNDS = 300 };

static libra_book *shared;
static int lines;
static libra_book *called_back;
static int reentered;

static void *many_jobs(void *which)
{
    char id[32];
    int i;
    long failures = 0;
    for (i = 0; i < ROUNDS; i++) {
        libra_job j = LIBRA_JOB_INIT;
        libra_decision d = LIBRA_DECISION_INIT;
        double cput = i % 7;
        /* The threads are not in step, and no reservation may expire for that. */
        double now = i * 0.01;
        j.estimate = 10;
        j.deadline = 100 + i % 50;
        sprintf(id, "%d.%d", *(int *)which, i);
        if (libra_book_admit(shared, &j, now, &d) != 1 ||
            libra_book_bind(shared, d.token, id, now) != 0 ||
            libra_book_started(shared, id, now) != 0 ||
            libra_book_progress(shared, id, NULL, cput, now) != 0 ||
            libra_book_ended(shared, id, now, NULL) != 0)
            failures++;
        /* An error, and no other thread's. */
        sprintf(id, "missing-%d", *(int *)which);
        if (libra_book_ended(shared, id, now, NULL) != LIBRA_E_UNKNOWN_JOB ||
            strstr(libra_last_error(), id) == NULL)
            failures++;
    }
    return (void *)failures;
}

static void one_book_from_many_threads(void)
{
    pthread_t thread[THREADS];
    int which[THREADS];
    int i;
    libra_node n = LIBRA_NODE_INIT;
    double committed;
    long failures = 0;
    n.processors = 64;
    CHECK(libra_book_open(EXACT, &shared) == 0);
    CHECK(libra_book_set_node(shared, "n", &n) == 0);
    for (i = 0; i < THREADS; i++) {
        which[i] = i;
        CHECK(pthread_create(&thread[i], NULL, many_jobs, &which[i]) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        void *failed;
        CHECK(pthread_join(thread[i], &failed) == 0);
        failures += (long)failed;
    }
    CHECK(failures == 0);
    CHECK(libra_book_committed(shared, "n", &committed) == 0 && committed == 0);
    libra_book_close(shared);
}

static void count_lines(int level, const char *target, const char *text, void *user_data)
{
    if (level == LIBRA_LOG_INFO && strstr(target, "libra") == target &&
        strstr(text, "expired") != NULL)
        (*(int *)user_data)++;
    if (called_back != NULL) {
        reentered = libra_book_advance(called_back, 1) == LIBRA_E_REENTRANT &&
                    libra_set_log(NULL, NULL, 0) == LIBRA_E_REENTRANT;
    }
}

static void the_log(void)
{
    libra_book *book;
    libra_node n = LIBRA_NODE_INIT;
    libra_job j = LIBRA_JOB_INIT;
    libra_decision d = LIBRA_DECISION_INIT;
    double now = 0;
    j.estimate = 10;
    j.deadline = 1000;
    CHECK(libra_book_open(EXACT, &book) == 0 && libra_book_set_node(book, "n", &n) == 0);
    CHECK(libra_set_log(count_lines, &lines, LIBRA_LOG_INFO) == 0);
    CHECK(libra_book_admit(book, &j, now, &d) == 1);
    CHECK(libra_book_advance(book, now += 40) == 0 && lines == 1);
    CHECK(libra_set_log(count_lines, &lines, LIBRA_LOG_WARN) == 0);
    CHECK(libra_book_admit(book, &j, now, &d) == 1);
    CHECK(libra_book_advance(book, now += 40) == 0 && lines == 1);
    called_back = book; /* from the callback: refused, not deadlocked */
    CHECK(libra_set_log(count_lines, &lines, LIBRA_LOG_TRACE) == 0);
    CHECK(libra_book_admit(book, &j, now, &d) == 1);
    CHECK(libra_book_advance(book, now += 40) == 0 && lines == 2 && reentered);
    CHECK(libra_set_log(NULL, NULL, LIBRA_LOG_TRACE) == 0);
    CHECK(libra_book_admit(book, &j, now, &d) == 1);
    CHECK(libra_book_advance(book, now += 40) == 0 && lines == 2);
    CHECK(libra_set_log(count_lines, &lines, 6) == LIBRA_E_RANGE);
    CHECK(libra_set_log(count_lines, &lines, -1) == LIBRA_E_RANGE);
    libra_book_close(book);
}

int main(void)
{
    RUN(one_book_from_many_threads);
    RUN(the_log);
    return 0;
}
