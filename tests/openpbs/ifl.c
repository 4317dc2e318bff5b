/* What a client of an ordinary user could send that PBS's commands would not: resources by PBS's own interface (IFL).
 *
 *     ifl submit SCRIPT [NAME=VALUE]...     submits a job with these resources, prints its id
 *     ifl alter JOB NAME=VALUE...           changes those of a job
 */
#include <pbs_error.h>
#include <pbs_ifl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    struct attropl list[64] = {{0}};
    int count = 0, server = pbs_connect(NULL);
    if (argc < 3 || server <= 0)
        return 2;
    for (int i = 3; i < argc && count < 63; i++, count++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            return 2;
        *value = 0;
        list[count] = (struct attropl){.name = ATTR_l, .resource = argv[i], .value = value + 1, .op = SET};
        if (count)
            list[count - 1].next = &list[count];
    }
    struct attropl *given = count ? list : NULL;
    if (!strcmp(argv[1], "submit")) {
        char *job = pbs_submit(server, given, argv[2], NULL, NULL);
        if (job)
            printf("%s\n", job);
        else
            fprintf(stderr, "%d %s\n", pbs_errno, pbs_geterrmsg(server) ? pbs_geterrmsg(server) : "");
        return job == NULL;
    }
    struct attrl changed[64] = {{0}};
    for (int i = 0; i < count; i++) {
        changed[i] = (struct attrl){.name = list[i].name, .resource = list[i].resource, .value = list[i].value, .op = SET};
        if (i)
            changed[i - 1].next = &changed[i];
    }
    int failed = pbs_alterjob(server, argv[2], changed, NULL);
    if (failed)
        fprintf(stderr, "%d %s\n", pbs_errno, pbs_geterrmsg(server) ? pbs_geterrmsg(server) : "");
    return failed != 0;
}
