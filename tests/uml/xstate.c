/*
 * Lets a user-mode Linux run where processors have more registers than it knows of (AMX, since Intel's Sapphire Rapids). It keeps 2696 bytes of a process's
 * registers, and Linux takes none back that are not whole: such a kernel ends before its first program. Preloaded, this gives the rest back as it
 * is. Where a kernel knows all registers, or writes them otherwise, nothing here is ever done.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

static long (*libc_ptrace)(int, pid_t, void *, void *);
/* Of some process, with what the kernel does not know of as it is at first: a program would have to ask for AMX, and is not answered there. */
static unsigned char whole[1 << 16];
/* How many of these bytes Linux takes; 0 until it has not taken less. */
static size_t length;

__attribute__((constructor)) static void find(void)
{
    libc_ptrace = (long (*)(int, pid_t, void *, void *))dlsym(RTLD_NEXT, "ptrace");
}

long ptrace(enum __ptrace_request request, ...)
{
    struct iovec all = {whole, sizeof whole};
    const struct iovec *given;
    void *address, *data;
    va_list arguments;
    pid_t process;
    long answer;

    va_start(arguments, request);
    process = va_arg(arguments, pid_t);
    address = va_arg(arguments, void *);
    data = va_arg(arguments, void *);
    va_end(arguments);
    if ((int)request != PTRACE_SETREGSET || (uintptr_t)address != NT_X86_XSTATE)
        return libc_ptrace((int)request, process, address, data);
    given = data;
    if (length == 0) {
        answer = libc_ptrace((int)request, process, address, data);
        if (answer == 0 || libc_ptrace(PTRACE_GETREGSET, process, address, &all) < 0)
            return answer;
        length = all.iov_len;
    }
    if (given->iov_len >= length) {
        errno = EFAULT;
        return -1;
    }
    all.iov_len = length;
    memcpy(whole, given->iov_base, given->iov_len);
    return libc_ptrace(PTRACE_SETREGSET, process, address, &all);
}
