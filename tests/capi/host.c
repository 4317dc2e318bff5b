/* Enforcement as a hook on an execution host calls it: real cgroups, a real process. Needs root.
 * Arguments: a name for the cgroup root, a directory for the registry. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char config[1024];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_for(double seconds)
{
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

/* Nothing takes longer, however busy the machine is. */
#define PATIENCE 300.0

/* In 12.5 days, so that what it needs does not change while a test runs. */
static libra_job job_of_five_days(void)
{
    libra_job j = LIBRA_JOB_INIT;
    j.estimate = 432000;
    j.deadline = 1080000;
    j.budget = 1e6;
    return j;
}

/* A child that waits until it may run, and then uses all that it gets. */
static pid_t waiting_child(int *go)
{
    int ends[2];
    pid_t pid;
    char byte;
    if (pipe(ends) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        if (read(ends[0], &byte, 1) < 0)
            _exit(1);
        for (;;) {
        }
    }
    close(ends[0]);
    *go = ends[1];
    return pid;
}

/* Waits until it sleeps, as its entry in /proc says: then it uses nothing. */
static int sleeps(pid_t pid)
{
    const double end = now() + PATIENCE;
    char name[64], line[512], *state;
    FILE *file;
    sprintf(name, "/proc/%ld/stat", (long)pid);
    while (now() < end) {
        file = fopen(name, "r");
        if (file == NULL)
            return 0;
        state = fgets(line, sizeof line, file) == NULL ? NULL : strrchr(line, ')');
        fclose(file);
        if (state != NULL && strncmp(state, ") S", 3) == 0)
            return 1;
        pause_for(0.01);
    }
    return 0;
}

/* Waits until a measurement is what is committed, 0.4 processors to within a tenth; each is longer, as the machine may be busy, and the first
 * quota comes at once. What is wrong by itself is wrong in each. */
static int uses_its_share(libra_host *host, const char *id)
{
    const double end = now() + PATIENCE;
    double start, before, used, interval = 2;
    libra_usage usage = LIBRA_USAGE_INIT;
    do {
        if (libra_host_usage(host, id, &usage) != 0)
            return 0;
        start = now();
        before = usage.cput;
        pause_for(interval);
        if (libra_host_usage(host, id, &usage) != 0)
            return 0;
        used = (usage.cput - before) / (now() - start);
        if (used > 0.36 && used < 0.44)
            return 1;
        interval = interval < 15 ? 2 * interval : 30;
    } while (now() < end);
    return 0;
}

static void a_job_from_begin_to_end(void)
{
    libra_host *host = NULL;
    libra_job job = job_of_five_days();
    libra_host_job part = LIBRA_HOST_JOB_INIT;
    libra_usage usage = LIBRA_USAGE_INIT;
    libra_outcome outcome = LIBRA_OUTCOME_INIT;
    pid_t child;
    int go = -1, status;

    CHECK(libra_host_open(config, &host) == 1);
    part.share = 0.4;
    part.price = 10.4;
    part.elapsed = 1;
    CHECK(libra_host_begin(host, "12[3].server", &job, &part) == 1);
    CHECK(libra_host_begin(host, "12[3].server", &job, &part) == LIBRA_E_NAME);
    child = waiting_child(&go);
    CHECK(child > 0 && sleeps(child));
    CHECK(libra_host_attach(host, "12[3].server", child) == 1);
    /* A hook of the next event is another process: it opens the host again. */
    libra_host_close(host);
    CHECK(libra_host_open(config, &host) == 1);
    CHECK(libra_host_usage(host, "12[3].server", &usage) == 0);
    CHECK(usage.processes == 1 && usage.cput < 0.1 && fabs(usage.share - 0.4) < 0.01);
    CHECK(write(go, "g", 1) == 1);
    CHECK(uses_its_share(host, "12[3].server"));
    CHECK(libra_host_usage(host, "12[3].server", &usage) == 0);
    CHECK(usage.deadline_status == LIBRA_STATUS_ON_TRACK);
    CHECK(libra_host_adjust(host) == 1);
    CHECK(libra_host_end(host, "12[3].server", &outcome) == 0);
    CHECK(outcome.met == 1 && outcome.delay == 0 && NEAR(outcome.price, 10.4));
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(libra_host_end(host, "12[3].server", NULL) == LIBRA_E_UNKNOWN_JOB);
    CHECK(libra_host_usage(host, "12[3].server", &usage) == LIBRA_E_UNKNOWN_JOB);
    close(go);
    libra_host_close(host);
}

/* Which groups a process is in. */
static int groups_of(pid_t process, char *text, size_t size)
{
    char path[64];
    size_t length;
    FILE *file;
    sprintf(path, "/proc/%d/cgroup", (int)process);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    length = fread(text, 1, size - 1, file);
    text[length] = 0;
    fclose(file);
    return length > 0;
}

/* As a batch system's hook does it: for the process that it is a child of. What is inside waits for the job's share. */
static int attaches_its_parent(void)
{
    libra_host *host = NULL;
    char own[4096], parent[4096], now[4096];
    int is_so = groups_of(getpid(), own, sizeof own) && groups_of(getppid(), parent, sizeof parent) &&
                strcmp(own, parent) == 0 && libra_host_open(config, &host) == 1 &&
                libra_host_attach(host, "14.server", (int)getppid()) == 1 &&
                groups_of(getpid(), now, sizeof now) && strcmp(own, now) == 0 &&
                groups_of(getppid(), now, sizeof now) && strcmp(own, now) != 0;
    libra_host_close(host);
    return is_so;
}

static void a_hook_stays_outside(void)
{
    libra_host *host = NULL;
    libra_job job = job_of_five_days();
    libra_host_job part = LIBRA_HOST_JOB_INIT;
    pid_t starter, hook;
    int status;
    CHECK(libra_host_open(config, &host) == 1);
    part.share = 0.4;
    CHECK(libra_host_begin(host, "14.server", &job, &part) == 1);
    libra_host_close(host);
    starter = fork();
    if (starter == 0) {
        hook = fork();
        if (hook == 0)
            _exit(attaches_its_parent() ? 0 : 1);
        _exit(waitpid(hook, &status, 0) == hook && WIFEXITED(status) ? WEXITSTATUS(status) : 2);
    }
    CHECK(waitpid(starter, &status, 0) == starter && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(libra_host_open(config, &host) == 1);
    CHECK(libra_host_end(host, "14.server", NULL) == 0);
    libra_host_close(host);
}

static void what_is_wrong_is_said(void)
{
    static const char *const ids[] = { "", ".", "..", "../x", "a/b", ".hidden", "new\nline" };
    libra_host *host = NULL;
    libra_job job = job_of_five_days();
    libra_host_job part = LIBRA_HOST_JOB_INIT;
    libra_usage usage = LIBRA_USAGE_INIT;
    size_t i;

    CHECK(libra_host_open("[cgroup]\nroot = ''\n", &host) == LIBRA_E_CONFIG && host == NULL);
    CHECK(libra_host_open(config, NULL) == LIBRA_E_NULL);
    CHECK(libra_host_open(config, &host) == 1);
    for (i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        CHECK(libra_host_begin(host, ids[i], &job, &part) == LIBRA_E_NAME);
        CHECK(libra_host_end(host, ids[i], NULL) == LIBRA_E_NAME);
    }
    part.share = 1.5;
    CHECK(libra_host_begin(host, "1", &job, &part) == LIBRA_E_RANGE);
    part.share = NAN;
    CHECK(libra_host_begin(host, "1", &job, &part) == LIBRA_E_RANGE);
    part.share = 0.5;
    part.slots = 0;
    CHECK(libra_host_begin(host, "1", &job, &part) == LIBRA_E_RANGE);
    part.size = 8;
    CHECK(libra_host_begin(host, "1", &job, &part) == LIBRA_E_SIZE);
    CHECK(libra_host_begin(host, "1", &job, NULL) == LIBRA_E_NULL);
    CHECK(libra_host_attach(host, "1", 1) == LIBRA_E_UNKNOWN_JOB);
    CHECK(libra_host_attach(host, "1", 0) == LIBRA_E_RANGE);
    CHECK(libra_host_attach(host, "1", -1) == LIBRA_E_RANGE);
    CHECK(libra_host_usage(host, "1", &usage) == LIBRA_E_UNKNOWN_JOB);
    CHECK(libra_host_adjust(NULL) == LIBRA_E_NULL);
    libra_host_close(host);
    libra_host_close(NULL);
}

static void without_enforcement_everything_else_works(void)
{
    libra_host *host = NULL;
    libra_job job = job_of_five_days();
    libra_host_job part = LIBRA_HOST_JOB_INIT;
    char off[1100], *text = NULL;
    /* The last table of the configuration is [cgroup]. */
    sprintf(off, "%sversion = 'off'\n", config);
    CHECK(libra_host_open(off, &host) == 0);
    CHECK(libra_host_describe(host, &text) == 0 && strstr(text, "not enforced") != NULL);
    libra_string_free(text);
    part.share = 0.4;
    CHECK(libra_host_begin(host, "2", &job, &part) == 0 && libra_last_error()[0] != 0);
    CHECK(libra_host_attach(host, "2", (int)getpid()) == 0);
    CHECK(libra_host_end(host, "2", NULL) == 0);
    libra_host_close(host);
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    sprintf(config, "[registry]\ndirectory = '%.400s'\n[cgroup]\nroot = '%.200s'\n", arguments[2],
            arguments[1]);
    RUN(a_job_from_begin_to_end);
    RUN(a_hook_stays_outside);
    RUN(what_is_wrong_is_said);
    RUN(without_enforcement_everything_else_works);
    return 0;
}
