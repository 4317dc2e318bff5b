/* A SPANK plugin for tests, loaded before Libra's: from its hook on, one system call fails in the process of a prolog or an epilog, and in its
 * children. The argument and the node's name together name a file; what is in it is `HOOK CALL`, as in `prolog openat`. Nothing fails where there is
 * no such file. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <slurm/spank.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

SPANK_PLUGIN(fault, 1)

#define CALL(name, error) {#name, SYS_##name, error}
static const struct {
    const char *name;
    int number, error;
} calls[] = {
    CALL(openat, EMFILE),  CALL(read, EIO),     CALL(getdents64, EIO), CALL(mkdir, ENOSPC), CALL(mkdirat, ENOSPC), CALL(rename, EIO), CALL(unlink, EIO),
    CALL(rmdir, EBUSY),    CALL(flock, ENOLCK), CALL(fcntl, ENOLCK),   CALL(pipe2, EMFILE), CALL(clone, EAGAIN),   CALL(poll, ENOMEM), CALL(wait4, ECHILD),
    CALL(socket, EMFILE),  CALL(connect, EPERM), CALL(kill, EPERM),    CALL(statx, EIO),    CALL(newfstatat, EIO), CALL(fsync, EIO),  CALL(ftruncate, EIO),
    CALL(mmap, ENOMEM),    CALL(brk, ENOMEM),   CALL(prctl, EPERM),    CALL(clock_nanosleep, EINVAL), CALL(getrandom, ENOSYS), CALL(sched_getaffinity, EPERM),
};

static int fail(const char *place, const char *hook) {
    char wanted[32], name[32], file[4096];
    const char *node = getenv("SLURMD_NODENAME");
    snprintf(file, sizeof file, "%s/%s", place, node ? node : "");
    FILE *text = fopen(file, "r");
    if (!text)
        return 0;
    int found = fscanf(text, "%31s %31s", wanted, name);
    fclose(text);
    if (found != 2 || strcmp(wanted, hook))
        return 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, name)) {
            struct sock_filter rule[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)calls[i].error),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {sizeof rule / sizeof *rule, rule};
            // Before it does: Slurm's log makes calls too.
            slurm_info("fault: %s fails from now on in the %s", name, hook);
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
                slurm_error("fault: %s cannot fail: %s", name, strerror(errno));
            return 0;
        }
    slurm_error("fault: no call %s", name);
    return 0;
}

int slurm_spank_job_prolog(spank_t spank, int ac, char **av) { return (void)spank, ac > 0 ? fail(av[0], "prolog") : 0; }

int slurm_spank_job_epilog(spank_t spank, int ac, char **av) { return (void)spank, ac > 0 ? fail(av[0], "epilog") : 0; }
