/* A line for each test: `ok <name>` or `FAILED <name>: <where> <what>`. `run` counts them. */
#ifndef CHECK_H
#define CHECK_H

#include <libra.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The examples of the specification know no margin. */
#define EXACT "[admission]\nestimate-margin = '0%'\n"

static const char *check_failed;
static int check_line;

/* Ends the test at the first that does not hold. */
#define CHECK(condition)              \
    do {                              \
        if (!(condition)) {           \
            check_failed = #condition; \
            check_line = __LINE__;    \
            return;                   \
        }                             \
    } while (0)

#define NEAR(a, b) (fabs((a) - (b)) < 1e-9)

#define RUN(test)                                                                       \
    do {                                                                                \
        check_failed = NULL;                                                            \
        test();                                                                         \
        if (check_failed == NULL)                                                       \
            printf("ok %s\n", #test);                                                   \
        else                                                                            \
            printf("FAILED %s: %s:%d %s [%s]\n", #test, __FILE__, check_line, check_failed, \
                   libra_last_error());                                                 \
    } while (0)

#endif
