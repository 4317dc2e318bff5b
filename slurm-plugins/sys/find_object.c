/*
 * The question that gcc's static unwinder asks of glibc since 2.35: which object is at an address, and where does it say how its frames are
 * unwound? Answered here by what every glibc has, so that plugins built on a newer system load on one with an older glibc (RHEL 9: 2.34). It
 * is asked when something panics, never else. Linked into the plugins and seen by nobody else: build.rs compiles it with hidden visibility.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#if defined __GLIBC__ && __GLIBC_PREREQ(2, 35)

struct question {
    ElfW(Addr) address;
    struct dl_find_object *answer;
};

static int is_it(struct dl_phdr_info *object, size_t size, void *data)
{
    struct question *question = data;
    const ElfW(Phdr) *holds = NULL, *frames = NULL;

    (void)size;
    for (size_t at = 0; at < object->dlpi_phnum; at++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[at];

        if (segment->p_type == PT_LOAD && question->address - (object->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
            holds = segment;
        if (segment->p_type == PT_GNU_EH_FRAME)
            frames = segment;
    }
    if (holds == NULL || frames == NULL)
        return 0;
    *question->answer = (struct dl_find_object){
        .dlfo_map_start = (void *)(object->dlpi_addr + holds->p_vaddr),
        .dlfo_map_end = (void *)(object->dlpi_addr + holds->p_vaddr + holds->p_memsz),
        .dlfo_eh_frame = (void *)(object->dlpi_addr + frames->p_vaddr),
    };
    return 1;
}

int _dl_find_object(void *address, struct dl_find_object *answer)
{
    struct question question = {(ElfW(Addr))address, answer};

    return dl_iterate_phdr(is_it, &question) == 1 ? 0 : -1;
}

#endif
