/*
 * libra.h - deadlines, budgets and CPU shares for batch jobs, for C and whatever can call C.
 *
 * Link with -llibra (liblibra.so.0). Valid as C99 and as C++11.
 *
 * Units
 *   Times are seconds. Processors are fractional: 1.0 is one processor for one second per second.
 *   Money is credits. Memory is bytes.
 *
 * Results
 *   Questions (req_budget, accept_reject_all_nodes, libra_book_admit, libra_book_modify) return 1 for
 *   yes, 0 for no. Everything else returns 0 (or a count, where its comment says so). A negative
 *   value is an error, see section 1; then nothing has changed, nothing has been written into the
 *   caller's memory (but see LIBRA_E_BUFFER), and libra_last_error() has a sentence about it.
 *   Only after LIBRA_E_INTERNAL a book may be half changed: it can be used, and is better rebuilt.
 *
 * Structures
 *   Every structure begins with `size`; the caller sets it to sizeof. A structure larger than this
 *   library knows is taken and the rest of it neither read nor written; a smaller one is an error.
 *   In an array the first element's size is the distance between elements, and every element that
 *   is read must have the same. LIBRA_*_INIT give sound starting values.
 *   `reserved` fields must be 0.
 *
 * Memory
 *   The library keeps no pointer that it is given, but for the one of libra_set_log. Strings are
 *   UTF-8 and end with a NUL. A `char **` result is the caller's, to be given to libra_string_free.
 *   A `const char *` result is the library's. Buffers that are written must not overlap others.
 *
 * Threads
 *   All calls may be made from any thread. A libra_book is locked inside. libra_book_close must be
 *   the last call on its book. After fork() the child may go on with a book only if no other thread
 *   was inside a call at that moment; what it does there, the parent does not see.
 *
 * The library writes nothing to stdout or stderr, starts no threads, installs no signal handlers,
 * opens no files (sections 5 and 6 excepted), and does not let a panic of its own out: that is
 * LIBRA_E_INTERNAL.
 */
#ifndef LIBRA_H
#define LIBRA_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== 1. Codes ================================================================================ */

/*
 * Errors. The ranges are kinds; a number is never given another meaning and never used again:
 *   -100 ... -199  an argument: pointers, sizes, encodings
 *   -200 ... -299  a value or a text
 *   -300 ... -399  the book does not have it, or has it already
 *   -400 ... -499  not in this situation
 *   -500 ... -599  execution hosts
 *   -900 ... -999  the library itself
 */
enum {
    LIBRA_E_NULL = -101,     /* a pointer is NULL that may not be */
    LIBRA_E_SIZE = -102,     /* a structure's size is smaller than version 1 of it, or absurd, or
                                differs within an array */
    LIBRA_E_ALIGN = -103,    /* a pointer is not aligned as its type must be */
    LIBRA_E_COUNT = -104,    /* a count of elements exceeds what memory can hold */
    LIBRA_E_UTF8 = -105,     /* a string is not UTF-8 */
    LIBRA_E_BUFFER = -106,   /* a buffer is too small; the count that is needed was written */
    LIBRA_E_RESERVED = -107, /* a field that must be 0 is not */

    LIBRA_E_RANGE = -201,    /* a number is out of range; NaN always is */
    LIBRA_E_TERMS = -202,    /* a list of terms cannot be read */
    LIBRA_E_NAME = -203,     /* a name is empty, longer than 255 bytes or has control characters */
    LIBRA_E_CONFIG = -204,   /* a configuration cannot be taken */
    LIBRA_E_SNAPSHOT = -205, /* a snapshot cannot be taken */

    LIBRA_E_UNKNOWN_JOB = -301,  /* no such job; it ended, was cancelled, or its reservation expired */
    LIBRA_E_UNKNOWN_NODE = -302, /* no such node */
    LIBRA_E_ID_TAKEN = -303,     /* the id belongs to another job */

    LIBRA_E_REENTRANT = -401, /* the library was called from its own log callback */
    LIBRA_E_LOGGER = -402,    /* the program around the library has another logger already */

    LIBRA_E_REGISTRY = -501, /* a file of the registry cannot be read, written or locked */
    LIBRA_E_CGROUP = -502,   /* the kernel refused something about a cgroup */
    LIBRA_E_SYSTEM = -503,   /* the system refused something else */

    LIBRA_E_INTERNAL = -901, /* a fault of the library; please report it with libra_last_error() */
    LIBRA_E_MEMORY = -902    /* out of memory */
};

/* Why a job was refused; the comments give libra_decision's `needed` / `available`. */
enum {
    LIBRA_REASON_NONE = 0,     /* it was not */
    LIBRA_REASON_BUDGET = 1,   /* it costs more than its budget: credits / credits */
    LIBRA_REASON_DEADLINE = 2, /* a whole processor per slot is too slow: seconds / seconds */
    LIBRA_REASON_SHARE = 3,    /* no node has the processors for one chunk: processors / processors */
    LIBRA_REASON_MEMORY = 4,   /* no node has the memory for one chunk: bytes / bytes */
    LIBRA_REASON_CHUNKS = 5,   /* some chunks fit, not all: chunks asked for / chunks that fit */
    LIBRA_REASON_NO_NODE = 6,  /* no node takes new jobs: NaN / NaN */
    LIBRA_REASON_TIME = 7,     /* libra-adaptive: no time is left before a deadline: processor seconds / the same */
    LIBRA_REASON_RISK = 8,     /* libra-risk: somebody would be late: seconds of delay / 0 */
    LIBRA_REASON_RETURN = 9    /* libra-sla: penalties outweigh it: return with the job / without */
};

enum {
    LIBRA_DEADLINE_HARD = 0, /* a late result is useless */
    LIBRA_DEADLINE_SOFT = 1  /* a late result is paid for: penalty_rate per second of delay */
};

/* How a job stands on a node. */
enum {
    LIBRA_STATUS_ON_TRACK = 0,
    LIBRA_STATUS_AT_RISK = 1, /* not even a whole processor per slot would end it in time */
    LIBRA_STATUS_OVERRUN = 2, /* has used its estimate and runs on; it keeps the share it held */
    LIBRA_STATUS_LATE = 3     /* its deadline has passed; it counts a whole processor per slot */
};

/* Levels of the log; each includes those before it. */
enum {
    LIBRA_LOG_OFF = 0,
    LIBRA_LOG_ERROR = 1,
    LIBRA_LOG_WARN = 2,
    LIBRA_LOG_INFO = 3,
    LIBRA_LOG_DEBUG = 4,
    LIBRA_LOG_TRACE = 5
};

#define LIBRA_UNLIMITED HUGE_VAL            /* as a budget */
#define LIBRA_MEMORY_NOT_COUNTED UINT64_MAX /* as a node's memory */
#define LIBRA_NO_NODE SIZE_MAX              /* as an index of a node */
#define LIBRA_NAME_SIZE 256                 /* a name of 255 bytes and its NUL */

/* ==== 2. Structures =========================================================================== */

/* A job as it is asked for. */
typedef struct libra_job {
    size_t size;
    double estimate;     /* run time of one slot on a reference processor: 0.001 ... 1e10 s */
    double deadline;     /* seconds after submission: 0.001 ... 1e10 s */
    double budget;       /* credits: 0 ... 1e15, or LIBRA_UNLIMITED; 0 means nothing at all */
    double penalty_rate; /* credits paid back per second of delay of a soft job: 0 ... 1e15 */
    uint64_t memory_per_chunk;     /* bytes; 0: none asked for */
    uint32_t chunks;               /* 1 ... 65536; a chunk sits on one node */
    uint32_t processors_per_chunk; /* slots in each chunk: 1 ... 65536 */
    int32_t deadline_type;         /* LIBRA_DEADLINE_* */
    int32_t scatter;               /* 1: no two chunks on one node; 0: as they fit */
} libra_job;

#define LIBRA_JOB_INIT { sizeof(libra_job), 0.0, 0.0, LIBRA_UNLIMITED, 0.0, 0, 1, 1, \
                         LIBRA_DEADLINE_HARD, 0 }

/* A job that a node has: running, or accepted and not started. */
typedef struct libra_running_job {
    size_t size;
    double estimate;   /* as in libra_job */
    double deadline;   /* as in libra_job */
    double cput;       /* processor seconds used so far, per slot */
    double walltime;   /* seconds since submission */
    double share;      /* processors per slot that it was last given; counts once it outlives its
                          estimate; 0: not known, estimate / deadline is taken */
    uint64_t memory;   /* bytes reserved for it on this node */
    uint32_t slots;    /* its slots on this node, 1 or more */
    uint32_t reserved; /* 0 */
} libra_running_job;

#define LIBRA_RUNNING_JOB_INIT { sizeof(libra_running_job), 0.0, 0.0, 0.0, 0.0, 0.0, 0, 1, 0 }

/* A node. */
typedef struct libra_node {
    size_t size;
    double processors;  /* capacity: 0 ... 1e6, may be fractional */
    double rating;      /* speed against a reference node, 1e-6 ... 1e6: an estimate E takes
                           E / rating here */
    uint64_t memory;    /* bytes, or LIBRA_MEMORY_NOT_COUNTED */
    const libra_running_job *jobs; /* its jobs; may be NULL where job_count is 0 */
    size_t job_count;
    int32_t available;  /* 1: takes new jobs; 0: does not */
    uint32_t reserved;  /* 0 */
} libra_node;

#define LIBRA_NODE_INIT { sizeof(libra_node), 1.0, 1.0, LIBRA_MEMORY_NOT_COUNTED, NULL, 0, 1, 0 }

/* Some of a job's chunks on one node. */
typedef struct libra_placement {
    size_t size;
    size_t node;       /* index of the node */
    double share;      /* processors for each slot there */
    double loadfree;   /* processors left over on the node with these chunks on it */
    uint32_t chunks;   /* chunks on it */
    uint32_t reserved; /* 0 */
} libra_placement;

#define LIBRA_PLACEMENT_INIT { sizeof(libra_placement), 0, 0.0, 0.0, 0, 0 }

/*
 * The answer to a job. The caller sets size, the two buffers and their capacities; the rest is
 * written when the answer is 1 or 0. A number that does not apply is NaN (or 0, or LIBRA_NO_NODE).
 */
typedef struct libra_decision {
    size_t size;

    /* In: room for the placements, best node first, or NULL and 0 where they are not wanted. Only
       placements[0].size must be set; the others' is written. Room for min(chunks, nodes) is always
       enough. Too little room (but not none) is LIBRA_E_BUFFER, and nothing is reserved. */
    libra_placement *placements;
    size_t placement_capacity;

    /* Out: how many nodes the job uses. Also written with LIBRA_E_BUFFER. */
    size_t placement_count;

    /* In: room for a sentence to the user, or NULL and 0. It is cut to fit, between characters, and
       always ended by a NUL. Written on refusal; empty on acceptance. */
    char *text;
    size_t text_capacity;
    /* Out: bytes of the whole sentence, the NUL not among them, even where it was cut. */
    size_t text_length;

    int32_t reason;        /* LIBRA_REASON_* */
    int32_t within_budget; /* 1: price <= budget */
    uint64_t token;        /* names an accepted job until it has an id; 0 without a book */
    double price;          /* of the job as asked for, credits */

    /* Accepted: the best node. */
    size_t node;
    double share;    /* processors for each slot on it */
    double loadfree; /* processors left over on it, with this job */

    /* Refused: the evidence, see LIBRA_REASON_*. */
    double needed;
    double available;
    size_t evidence_node; /* the node that came nearest */

    /* Refused: what would be accepted now instead, each change by itself, the rest as asked. */
    double counter_deadline;       /* the earliest deadline */
    double counter_deadline_price; /* what it costs then */
    double counter_budget;         /* the smallest budget */
    /* The same work on fewer processors: the offer holds for an estimate of that of the job, times
       the processors that it asks for, divided by those of the next two; and so it must be asked. */
    double counter_shape_price;    /* what it costs then, the estimate rounded up as in the sentence */
    uint32_t counter_chunks;       /* as many chunks as would fit ... */
    uint32_t counter_processors;   /* ... of so many processors each; 0 and 0: no fewer would do */
} libra_decision;

#define LIBRA_DECISION_INIT { sizeof(libra_decision), NULL, 0, 0, NULL, 0, 0, LIBRA_REASON_NONE, 0, \
                              0, 0.0, LIBRA_NO_NODE, 0.0, 0.0, 0.0, 0.0, LIBRA_NO_NODE, 0.0, 0.0, \
                              0.0, 0.0, 0, 0 }

/* How a job ended. */
typedef struct libra_outcome {
    size_t size;
    double delay;     /* seconds past its deadline, 0 where it met it */
    double price;     /* as committed, credits */
    double penalty;   /* credits to pay back */
    int32_t met;      /* 1: ended by its deadline */
    uint32_t reserved;
} libra_outcome;

#define LIBRA_OUTCOME_INIT { sizeof(libra_outcome), 0.0, 0.0, 0.0, 0, 0 }

/* What a job has on one node of a book. */
typedef struct libra_allocation {
    size_t size;
    double share;    /* processors for each slot, now */
    uint32_t chunks; /* chunks there */
    int32_t deadline_status; /* LIBRA_STATUS_* */
    char node[LIBRA_NAME_SIZE]; /* name of the node */
} libra_allocation;

#define LIBRA_ALLOCATION_INIT { sizeof(libra_allocation), 0.0, 0, 0, "" }

/* A job on an execution host, as it was accepted. */
typedef struct libra_host_job {
    size_t size;
    double share;      /* processors for each slot: 0 ... 1 */
    double price;      /* of the whole job, credits */
    double elapsed;    /* seconds since its submission */
    uint32_t slots;    /* its slots on this host, 1 or more */
    uint32_t user;     /* user number of its owner */
} libra_host_job;

#define LIBRA_HOST_JOB_INIT { sizeof(libra_host_job), 0.0, 0.0, 0.0, 1, 0 }

/* How a job stands on an execution host. */
typedef struct libra_usage {
    size_t size;
    double cput;         /* processor seconds used here, per slot */
    double share;        /* processors that each slot holds now */
    double needed_share; /* processors that each slot needs from now on */
    int32_t deadline_status;    /* LIBRA_STATUS_* */
    uint32_t processes;  /* its processes here */
} libra_usage;

#define LIBRA_USAGE_INIT { sizeof(libra_usage), 0.0, 0.0, 0.0, 0, 0 }

/* ==== 3. Decisions without a memory =========================================================== */

/*
 * Is the budget enough for a job of one processor? By formula (1) of the 2004 paper with
 * alpha = beta = 1: budget >= estimate + estimate / deadline. Ranges as in libra_job.
 * 1: acceptable. 0: not. Negative: error.
 */
int req_budget(double budget, double estimate, double deadline);

/*
 * Which nodes take the job? By the 2004 paper: a node takes a chunk when the shares of all its jobs
 * and of this chunk fit into its processors; of those, the one with the least left over.
 *
 * 1: accepted; decision has the best node, its loadfree and every placement. 0: refused; decision
 * has reason, evidence, sentence and counter-offers. Negative: error.
 *
 * The budget is req_budget's question, not this one's: a job is not refused for it here. The answer
 * carries price and within_budget; where the nodes accept and the budget is too small,
 * counter_budget is the one that would do. Counter-offers keep to the budget if the job as asked does.
 *
 * Nothing is reserved: the caller has to show the job as one of the node's jobs next time (or use
 * a book). Nodes with available = 0 are passed over. Accepting a job of up to 64 chunks allocates
 * no memory.
 */
int accept_reject_all_nodes(const libra_job *jinfo, const libra_node *nodes, size_t node_count,
                            libra_decision *decision);

/*
 * Reads a list of terms as users give it (deadline=20,budget=15,estimate=10) into estimate,
 * deadline, budget, deadline_type and penalty_rate; estimate, deadline and budget must be there.
 * The rest of *job stays as it is; job->size must be set. Durations: 90, 1h30m, 00:01:30.
 * 0, or negative: error, and *job is as it was.
 */
int libra_parse_terms(const char *text, libra_job *job);

/* ==== 4. The book: nodes and the jobs that hold shares of them ================================= */

/*
 * `now` is seconds on any clock that does not go back, 0 ... 1e12, the same for all calls on a book
 * and across a snapshot (Unix time will do). An earlier one counts as the latest that was seen. Every
 * call with a `now` first lets expire what has expired by then.
 */
typedef struct libra_book libra_book;

/* Opens an empty book. config: TOML text, or NULL for the defaults. 0, or negative: error. */
int libra_book_open(const char *config, libra_book **book);

/* Closes it. NULL is nothing. No call on it may be under way, and none may follow. */
void libra_book_close(libra_book *book);

/*
 * Declares a node or changes it; node->jobs must be NULL (the book knows the jobs). Jobs that are on
 * it stay, even where they no longer fit. 0, or negative: error.
 */
int libra_book_set_node(libra_book *book, const char *name, const libra_node *node);

/* Opens (1) or closes (0) a node to new jobs. 0, or negative: error. */
int libra_book_set_available(libra_book *book, const char *name, int available);

/*
 * Judges a job, budget included, and if it is accepted reserves its shares at once. The reservation
 * goes under decision->token until libra_book_bind gives it an id; without one it expires (after 30
 * seconds, unless configured otherwise). 1: accepted. 0: refused. Negative: error.
 */
int libra_book_admit(libra_book *book, const libra_job *job, double now, libra_decision *decision);

/* Gives an accepted job the batch system's id. 0, or negative: error. */
int libra_book_bind(libra_book *book, uint64_t token, const char *id, double now);

/* The job runs from now on; one that is started again begins anew. 0, or negative: error. */
int libra_book_started(libra_book *book, const char *id, double now);

/*
 * The job has used cput processor seconds per slot so far, on that node, or with node NULL on each
 * of its nodes. 0, or negative: error.
 */
int libra_book_progress(libra_book *book, const char *id, const char *node, double cput, double now);

/* The job has ended; its shares are free. outcome may be NULL. 0, or negative: error. */
int libra_book_ended(libra_book *book, const char *id, double now, libra_outcome *outcome);

/* The job will not run, or its end is of no interest; its shares are free. 0, or negative: error. */
int libra_book_cancel(libra_book *book, const char *id, double now);

/* The same for a job that has no id yet. 0, or negative: error. */
int libra_book_cancel_token(libra_book *book, uint64_t token, double now);

/*
 * Changes the terms of a job where its own nodes can keep the new ones. Of *job only the terms are
 * read, not chunks, processors and memory. 1: taken; decision->price is the new price. 0: refused;
 * decision has reason and evidence (no counter-offers), and the old terms stand. decision may be
 * NULL. Negative: error.
 */
int libra_book_modify(libra_book *book, const char *id, const libra_job *job, double now,
                      libra_decision *decision);

/* Moves the book's time on: reservations expire, deadlines pass. 0, or negative: error. */
int libra_book_advance(libra_book *book, double now);

/*
 * Where the job is, and its shares now. places: room for `capacity` of them, places[0].size set; or
 * NULL and 0 to ask for the count. *count: how many there are. 0, or negative: error
 * (LIBRA_E_BUFFER where the room is too small but not none).
 */
int libra_book_allocations(libra_book *book, const char *id, libra_allocation *places, size_t capacity,
                      size_t *count);

/* Processors committed on a node. 0, or negative: error. */
int libra_book_committed(libra_book *book, const char *name, double *processors);

/*
 * Name of a node by its index, as placements give it; LIBRA_NAME_SIZE bytes are always enough.
 * An index holds until libra_book_rebuild. 0, or negative: error.
 */
int libra_book_node_name(libra_book *book, size_t index, char *name, size_t capacity);

/* All of the book as JSON, into *json: give it to libra_string_free. 0, or negative: error. */
int libra_book_snapshot(libra_book *book, char **json);

/*
 * Replaces all of the book by a snapshot, one that libra_book_snapshot gave or one that was written
 * from the batch system's records. A job on a node that the snapshot does not have brings the node,
 * closed to new jobs. Returns how many records could not be taken (0: all were); the others are in,
 * and *problems has a line for each (else NULL): give it to libra_string_free. problems may be NULL.
 * Negative: error, and the book is as it was.
 */
int libra_book_rebuild(libra_book *book, const char *json, char **problems);

/* ==== 5. Execution hosts ====================================================================== */

/*
 * For hooks on execution hosts. The state is not in the handle but in the host's registry (/run/libra
 * unless configured otherwise) and in the kernel's cgroups, so a hook that is a process of its own for
 * every event opens a handle each time, and 'libra status' and 'libra agent' see the same jobs. Needs
 * the right to write both: root. These calls take the registry's lock for milliseconds; where another
 * process hangs with it, they fail after 20 seconds. libra_host_end waits up to 5 seconds for killed
 * processes to go.
 */
typedef struct libra_host libra_host;

/*
 * Opens this host. config: TOML text, or NULL for the defaults. 1: shares are enforced here. 0: they are
 * not (libra_host_describe has the reason), and everything else works. Negative: error.
 */
int libra_host_open(const char *config, libra_host **host);

/* Closes it; jobs are not touched. NULL is nothing. */
void libra_host_close(libra_host *host);

/* How shares are enforced here, or why not, into *text: give it to libra_string_free. 1, 0 or negative
   as libra_host_open. */
int libra_host_describe(libra_host *host, char **text);

/*
 * A job is about to begin here: makes its cgroup at its share and writes it into the registry. id: the
 * batch system's, 1 to 180 bytes, no '/', not starting with '.'. Nothing is judged, but nothing is taken from
 * others either: a job that does not fit beside what they were promised begins with what is left. 1: done.
 * 0: done, but its share is not enforced, and libra_last_error() says why. Negative: error (LIBRA_E_NAME also
 * where a job of that id is here already, LIBRA_E_RANGE also where the host has not that many processors).
 */
int libra_host_begin(libra_host *host, const char *id, const libra_job *job, const libra_host_job *part);

/*
 * Puts a process and all its children into the job's cgroup. To have everything inside, call it from or
 * for the process that is about to become the job, before its exec. The calling process stays outside, even
 * as one of these children, unless it is the one that is named: what is inside waits for the job's share.
 * Returns how many were put there (0: not enforced, or the process has ended). Negative: error.
 */
int libra_host_attach(libra_host *host, const char *id, int32_t pid);

/* How a job stands here. 0, or negative: error. */
int libra_host_usage(libra_host *host, const char *id, libra_usage *usage);

/*
 * Takes the shares of all jobs of this host anew, once: for a periodic hook where no agent runs.
 * 1: done. 0: an agent does it. Negative: error.
 */
int libra_host_adjust(libra_host *host);

/*
 * A job has ended here: kills what is left of it and removes its cgroup. outcome may be NULL. 0, or
 * negative: error.
 */
int libra_host_end(libra_host *host, const char *id, libra_outcome *outcome);

/* ==== 6. OpenPBS ============================================================================== */

/*
 * For PBS's hooks: an event as JSON, the answer as JSON into *answer (give it to libra_string_free). The hooks
 * that come with Libra (pbs-hooks/) are its only callers so far, and events and answers may change with
 * them. On a server the book lives in this process, whoever calls; on execution hosts every call stands for
 * itself. Reads the files that the event names (configuration, records). 0, or negative: error.
 */
int libra_pbs_event(const char *event, char **answer);

/* ==== 7. The library itself =================================================================== */

/* Its version, such as "0.1.0". Never NULL. */
const char *libra_version(void);

/*
 * What went wrong in this thread's last call, up to 1023 bytes; empty where nothing did. Never NULL.
 * It holds until this thread's next call; the calls of this section's strings do not change it.
 */
const char *libra_last_error(void);

/* A few words for a code LIBRA_E_*, or the word for a LIBRA_REASON_*. Never NULL. */
const char *libra_code_text(int code);

/* Frees a string that the library gave through a char **. NULL is nothing. */
void libra_string_free(char *text);

/*
 * Takes a line of the log: level LIBRA_LOG_*, where it comes from, what it says (up to 1023 bytes).
 * Both texts hold until it returns. It is called on the thread that is inside the library, with locks
 * held: it must not throw, and the library's calls return LIBRA_E_REENTRANT from inside of it.
 */
typedef void (*libra_log_callback)(int level, const char *target, const char *text, void *user_data);

/*
 * Sends the library's log to callback, up to this level; NULL or LIBRA_LOG_OFF ends it. Without this
 * call there is no log. When it returns, the callback set before is not being called any more and
 * will not be. 0, or negative: error.
 */
int libra_set_log(libra_log_callback callback, void *user_data, int level);

#ifdef __cplusplus
}
#endif

#endif
