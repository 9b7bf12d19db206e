/* The standing order, as `standing.py` reads it: the shared lock first, then whether the file is still in its place.
 *
 * 1. The daemon replaces the file, and then finds no lock on the older one: so no start by that one is to come.
 * 2. An order counts only as a whole, if no other user can write it, and as far as its CPUs are online.
 * 3. One from an earlier boot counts too, on the same machine. */
#include "front.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 50 };

/* The hierarchy on cgroup v1. There no group can have a CPU that the one above has not: such a start would fail. */
#define CPUSETS "/sys/fs/cgroup/cpuset"

static const char HEAD[] = "cpuset-sidecar order 1";

uint32_t crc32_of(const char *at, size_t size) {
    uint32_t sum = ~0U;
    while (size--) {
        sum ^= (unsigned char)*at++;
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320U : 0);
    }
    return ~sum;
}

/* Return what an attribute of the kernel's says, without blank space around it; "" if it cannot be read. */
struct text attribute(const char *path) {
    size_t size;
    char *at = read_small(path, MOST_ORDER, &size);
    if (!at) return of_words("");
    while (size && isspace((unsigned char)at[size - 1])) at[--size] = 0;
    return of_words(at + strspn(at, " \t\n\r"));
}

struct text boot_of(void) { return attribute("/proc/sys/kernel/random/boot_id"); }

static struct text machine_of(void) {
    struct text possible = attribute("/sys/devices/system/cpu/possible"), id = attribute("/sys/class/dmi/id/product_uuid");
    struct text made = {0};
    put_words(&made, "%s%s%s", possible.at, possible.size && id.size ? " " : "", id.at);
    return made;
}

static int number_in(const char **at, const char *end, unsigned long *found) {
    const char *first = *at;
    for (*found = 0; *at < end && isdigit((unsigned char)**at); ++*at)
        if (*found < MOST_CPUS) *found = *found * 10 + (**at - '0');
    return *at > first;
}

int cpus_of(const char *at, size_t size, struct cpus *found) {
    const char *end = at + size;
    memset(found, 0, sizeof *found);
    while (at < end && strchr(" \t\n\r", *at) && *at) at++;
    while (at < end && strchr(" \t\n\r", end[-1]) && end[-1]) end--;
    while (at < end) {
        unsigned long first, last;
        const char *part = at;
        if (!number_in(&at, end, &first)) return 0;
        last = first;
        if (at < end && *at == '-' && (at++, !number_in(&at, end, &last))) return 0;
        if (first >= MOST_CPUS || last >= MOST_CPUS || at - part > 11) return 0;
        for (unsigned long cpu = first; cpu <= last; cpu++) found->has[cpu / 8] |= 1 << cpu % 8;
        if (at < end && (*at++ != ',' || at == end)) return 0;
    }
    return 1;
}

static int has(const struct cpus *cpus, int cpu) { return cpu < MOST_CPUS && cpus->has[cpu / 8] >> cpu % 8 & 1; }

struct text cpus_listed(const struct cpus *cpus) {
    struct text made = {0};
    put(&made, "", 0);
    for (int cpu = 0; cpu < MOST_CPUS; cpu++) {
        if (!cpus->has[cpu / 8]) { cpu |= 7; continue; }
        if (!has(cpus, cpu)) continue;
        int last = cpu;
        while (has(cpus, last + 1)) last++;
        put_words(&made, last > cpu ? "%s%d-%d" : "%s%d", made.size ? "," : "", cpu, last);
        cpu = last;
    }
    return made;
}

/* Take the last step from a path. */
static void cut_last(struct text *path) {
    while (path->size && path->at[--path->size] != '/');
    path->at[path->size] = 0;
}

static struct text both(struct text one, struct text other) {
    static struct cpus a, b;
    if (!cpus_of(one.at, one.size, &a) || !cpus_of(other.at, other.size, &b)) return (struct text){0};
    for (size_t i = 0; i < sizeof a.has; i++) a.has[i] &= b.has[i];
    return cpus_listed(&a);
}

/* Return the path of the group above a container's, as runtimes read a cgroupsPath: a path, or systemd's slice, prefix
 * and name; "" for the root. */
static struct text group_above(struct text cgroup) {
    struct text made = {0};
    const char *at = cgroup.at, *end = at + cgroup.size, *parts[3];
    size_t colons = 0;
    put(&made, "", 0);
    for (const char *each = at; each < end; each++)
        if (*each == ':' && colons++ < 3) parts[colons - 1] = each;
    if (colons == 2) {
        size_t size = parts[0] - at;
        if (size >= 6 && !memcmp(parts[0] - 6, ".slice", 6)) size -= 6;
        for (size_t i = 0; i <= size; i++)
            if (i == size || at[i] == '-') {
                put_word(&made, "/");
                put(&made, at, i);
                put_word(&made, ".slice");
            }
        return made;
    }
    for (const char *stop; at < end; at = stop + 1) {
        if (!(stop = memchr(at, '/', end - at))) stop = end;
        if (stop - at == 2 && !memcmp(at, "..", 2)) cut_last(&made);
        else if (stop > at && (stop - at > 1 || *at != '.')) {
            put_word(&made, "/");
            put(&made, at, stop - at);
        }
    }
    cut_last(&made);
    return made;
}

struct text cpus_within_above(struct text cpus, struct text cgroup) {
    struct text path = group_above(cgroup), found = {0};
    if (memchr(path.at, 0, path.size)) return cpus;     /* No group, and no start. */
    for (;; cut_last(&path)) {
        struct text file = {0};
        put_words(&file, CPUSETS "%s/cpuset.cpus", path.at);
        found = attribute(file.at);
        drop(&file);
        if (found.size || !path.size) return found.size ? both(cpus, found) : cpus;
    }
}

int are_online(struct text cpus) {
    static struct cpus wanted, online;
    struct text found = attribute("/sys/devices/system/cpu/online");
    if (!cpus_of(cpus.at, cpus.size, &wanted) || !cpus_of(found.at, found.size, &online)) return 0;
    int some = 0;
    for (size_t i = 0; i < sizeof wanted.has; i++) {
        if (wanted.has[i] & ~online.has[i]) return 0;
        some |= wanted.has[i];
    }
    return some != 0;
}

struct text cpus_within(struct text cpus, const struct order *order) {
    struct text found = both(cpus, order->cpus);
    return found.size ? found : order->cpus;
}

const char *unsealed(const char *content, size_t size, const char *head) {
    size_t length = strlen(head) + 1;
    char sum[16];
    const char *end = content + size, *at = content + length;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)content[i] >= 0x80) return NULL;
    if (size < length || memcmp(content, head, length - 1) || at[-1] != '\n') return NULL;
    const char *rest = memchr(at, '\n', end - at);
    if (!rest++) return NULL;
    snprintf(sum, sizeof sum, "sum %08x", crc32_of(rest, end - rest));
    return (size_t)(rest - 1 - at) == strlen(sum) && !memcmp(at, sum, strlen(sum)) ? rest : NULL;
}

int order_decoded(const char *content, size_t size, struct order *order) {
    static const char *const names[] = {"epoch", "cpus", "asks", "boot", "machine"};
    struct text found[5] = {{0}}, epoch;
    static struct cpus cpus;
    const char *end = content + size, *at = unsealed(content, size, HEAD);
    if (!at) return 0;
    while (at < end) {
        const char *line = memchr(at, '\n', end - at), *stop = line ? line : end, *space = memchr(at, ' ', stop - at);
        if (!space) return 0;
        for (int i = 0; i < 5; i++)
            if (strlen(names[i]) == (size_t)(space - at) && !memcmp(names[i], at, space - at)) {
                drop(&found[i]);
                put(&found[i], space + 1, stop - space - 1);
            }
        at = line ? line + 1 : end;
    }
    for (int i = 0; i < 5; i++)
        if (!found[i].at) return 0;
    epoch = found[0];
    if (!epoch.size || epoch.size > 18 || strspn(epoch.at, "0123456789") != epoch.size) return 0;
    if (!cpus_of(found[1].at, found[1].size, &cpus)) return 0;
    *order = (struct order){atoll(epoch.at), found[1], found[2], found[3], found[4]};
    return 1;
}

int is_private(const struct stat *found) {
    return (found->st_uid == 0 || found->st_uid == geteuid()) && !(found->st_mode & 022);
}

/* Return 1 with a file that is locked and read, 0 if there is none that counts, -1 if it was replaced meanwhile. */
static int tried(const char *path, int opened, size_t most, reader *read_it, void *found_in_it) {
    struct stat found, in_place;
    if (fstat(opened, &found)) return -1;
    if (!S_ISREG(found.st_mode) || !is_private(&found)) return 0;
    if (flock(opened, LOCK_SH | LOCK_NB) || lstat(path, &in_place)) return -1;
    if (in_place.st_dev != found.st_dev || in_place.st_ino != found.st_ino) return -1;
    static char content[MOST_OWNERS];
    ssize_t size = read(opened, content, most);
    if (size < 0) return -1;
    return read_it(content, size, found_in_it);
}

int file_locked(const char *folder, const char *name, size_t most, reader *read_it, void *found_in_it) {
    struct text path = {0};
    struct stat found;
    put_words(&path, "%s/%s", folder, name);
    for (int i = 0; i < TRIES; i++) {
        if (stat(folder, &found) || !is_private(&found)) return -1;
        int opened = open(path.at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (opened < 0) return -1;
        int is_so = tried(path.at, opened, most, read_it, found_in_it);
        if (is_so > 0) return opened;
        close(opened);
        if (!is_so) return -1;
    }
    return -1;
}

static int read_order(const char *content, size_t size, void *order) { return order_decoded(content, size, order); }

/* Cut an order to the CPUs that are online; return whether it counts here. */
static int usable(struct order *order) {
    struct text boot = boot_of(), online;
    if (!is(order->boot, boot.at) && !is(order->machine, machine_of().at)) return 0;
    online = attribute("/sys/devices/system/cpu/online");
    order->cpus = both(order->cpus, online);
    return order->cpus.size > 0;
}

int order_taken(const char *folder, struct order *order) {
    int opened = file_locked(folder, "order", MOST_ORDER, read_order, order);
    if (opened >= 0 && !usable(order)) { close(opened); return -1; }
    return opened;
}

int order_kept(const char *folder, struct order *order) {
    int opened = file_locked(folder, "order.kept", MOST_ORDER, read_order, order);
    if (opened < 0) return 0;
    close(opened);
    return usable(order);
}

int is_id(const char *at, size_t size) {
    if (size != 64) return 0;
    for (; size; size--, at++)
        if (!isdigit((unsigned char)*at) && (*at < 'a' || *at > 'f')) return 0;
    return 1;
}

void order_noted(const char *folder, struct text container, const struct order *order) {
    struct text path = {0}, line = {0};
    if (!is_id(container.at, container.size)) return;
    put_words(&path, "%s/begun/%s", folder, container.at);
    put_words(&line, "%lld %d %s\n", order->epoch, (int)getpid(), order->cpus.at);
    int opened = open(path.at, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (opened < 0) return;
    if (write(opened, line.at, line.size) < 0) { /* The lock counts. */ }
    close(opened);
}
