/* The files of many projections at once: `state/projection.py` and `state/files.py` have the rules, and this does what is
 * plain of them. One call for all that an order takes, and none of Python between two files.
 *
 * It uses libc alone, and nothing of Python: ctypes calls it without the interpreter's lock. Whatever is not as expected
 * is left as it is, and told: a link or a pipe in the place of a file, another content than was written last, no space. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHER = -1, FILE_MODE = 0644 };

/* Return 0 if a file is a regular one with exactly this content. Merely opening a planted device may do harm. */
static int compare(int at, const char *name, const char *content, size_t size, char *room) {
    char again[32];
    struct stat is;
    int found = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (found < 0) return OTHER;
    int file = -1;
    if (!fstat(found, &is) && S_ISREG(is.st_mode) && (size_t)is.st_size == size) {
        snprintf(again, sizeof again, "/proc/self/fd/%d", found);
        file = open(again, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    }
    close(found);
    if (file < 0) return OTHER;
    ssize_t length = read(file, room, size + 1);
    close(file);
    return length == (ssize_t)size && !memcmp(room, content, size) ? 0 : OTHER;
}

/* Write a fresh file in `staging`, and move it over one of that name. Return the error. */
static int replace(int staging, int at, const char *name, const char *content, size_t size) {
    char fresh[64];
    snprintf(fresh, sizeof fresh, ".%s.new", name);
    int file = openat(staging, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (file < 0) return errno;
    int error = fchmod(file, FILE_MODE) ? errno : 0;
    if (!error) {
        ssize_t written = write(file, content, size);
        /* A full disk takes a part, and tells why with the next write. */
        if (written < 0) error = errno;
        else if ((size_t)written < size) error = ENOSPC;
    }
    if (close(file) && !error) error = errno;
    if (!error && renameat(staging, fresh, at, name)) error = errno;
    if (error) unlinkat(staging, fresh, 0);
    return error;
}

/* `entries`: for each of so many directories in `above` four lengths, and so many bytes: its name with a null, the status
 * that is there, the one that is to be there, and the CPUs. In `done` is what became of each: 0, OTHER, or the error. */
int replacer_put(int above, int staging, const char *entries, size_t count, int *done) {
    uint32_t of[4], most = 0;
    const char *at = entries;
    for (size_t i = 0; i < count; i++, at += sizeof of + of[0] + of[1] + of[2] + of[3]) {
        memcpy(of, at, sizeof of);
        if (of[1] > most) most = of[1];
    }
    char *room = malloc((size_t)most + 1);
    if (!room) return ENOMEM;
    for (size_t i = 0; i < count; i++) {
        memcpy(of, entries, sizeof of);
        const char *name = entries + sizeof of, *was = name + of[0], *status = was + of[1], *cpus = status + of[2];
        entries = cpus + of[3];
        int folder = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0) { done[i] = errno; continue; }
        done[i] = compare(folder, "status.json", was, of[1], room);
        if (!done[i]) done[i] = replace(staging, folder, "status.json", status, of[2]);
        if (!done[i]) done[i] = replace(staging, folder, "cpuset", cpus, of[3]);
        close(folder);
    }
    free(room);
    return 0;
}

/* Change it, and INTERFACE in file_replacer.py, with any change of a call or of what it means. */
int replacer_interface(void) { return 1; }
