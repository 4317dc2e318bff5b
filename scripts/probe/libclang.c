/* Reads a header as bindgen does: loads this libclang, parses, and says what is wrong in one line.
 *
 *   libclang LIBRARY HEADER ARGUMENT...      exits 0 where a build would go through
 *
 * libclang's own header is in a package that nobody needs for this, so what is used of it is declared here. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { const void *data; unsigned flags; } string; /* CXString */

static void *library;

static void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int argc, char **argv)
{
    const unsigned is_error = 3; /* CXDiagnostic_Error */
    unsigned i, count;
    void *index, *unit;

    if (argc < 3) {
        printf("usage: libclang LIBRARY HEADER ARGUMENT...\n");
        return 2;
    }
    library = dlopen(argv[1], RTLD_LAZY);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    void *(*create)(int, int) = symbol("clang_createIndex");
    void *(*parse)(void *, const char *, const char *const *, int, void *, unsigned, unsigned) =
        symbol("clang_parseTranslationUnit");
    unsigned (*diagnostics)(void *) = symbol("clang_getNumDiagnostics");
    void *(*diagnostic)(void *, unsigned) = symbol("clang_getDiagnostic");
    unsigned (*severity)(void *) = symbol("clang_getDiagnosticSeverity");
    string (*spelling)(void *) = symbol("clang_getDiagnosticSpelling");
    const char *(*text)(string) = symbol("clang_getCString");

    index = create(0, 0);
    unit = parse(index, argv[2], (const char *const *)argv + 3, argc - 3, NULL, 0, 0);
    if (!unit) {
        printf("it does not read %s\n", argv[2]);
        return 1;
    }
    count = diagnostics(unit);
    for (i = 0; i < count; i++) {
        void *one = diagnostic(unit, i);
        if (severity(one) >= is_error) {
            printf("%s\n", text(spelling(one)));
            return 1;
        }
    }
    return 0;
}
