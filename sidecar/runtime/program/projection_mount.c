/* The mount of a container's own projection: where it belongs, and why it is left out. */
#include "front.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

double directory_seconds = 1.0;     /* how long to wait for the directory: the sidecar makes it right after its decision */

/* Return a mount's place in one spelling: no part of it is empty, "." or "..", and it is not below /var/run. */
struct text place_of(struct text destination) {
    struct text made = {0};
    put(&made, "", 0);
    if (!destination.size) return made;
    for (size_t at = 0, size; at <= destination.size; at += size + 1) {
        const char *slash = at < destination.size ? memchr(destination.at + at, '/', destination.size - at) : NULL;
        size = (slash ? (size_t)(slash - destination.at) : destination.size) - at;
        const char *part = destination.at + at;
        if (!size || (size == 1 && *part == '.')) continue;
        if (size == 2 && !memcmp(part, "..", 2)) {
            while (made.size && made.at[--made.size] != '/') { }
            continue;
        }
        put(&made, "/", 1);
        put(&made, part, size);
    }
    if (!made.size) put(&made, "/", 1);
    if (starts(made, "/var/run") && (made.size == 8 || made.at[8] == '/')) memmove(made.at, made.at + 4, made.size -= 4);
    made.at[made.size] = 0;
    return made;
}

static int is_below(struct text place, struct text above) {
    return place.size > above.size && place.at[above.size] == '/' && !memcmp(place.at, above.at, above.size);
}

static void see_option(void *with, struct value key, struct value item) {
    (void)key;
    *(int *)with |= json_is(item, "ro");
}

struct places { struct text wanted, above; int is_taken; };

static void see_mount(void *with, struct value key, struct value item) {
    struct places *places = with;
    struct member members[] = {{.name = "destination"}, {.name = "options"}};
    (void)key;
    json_pick(item, members, 2);
    struct text destination = json_text(members[0].found), place = place_of(destination);
    drop(&destination);
    if (place.size && (is_below(place, places->wanted) || (place.size == places->wanted.size && is(place, places->wanted.at))))
        places->is_taken = 1;
    if (place.size > 1 && is_below(places->wanted, place)) {
        int is_read_only = 0;
        if (members[1].found.kind == '[') json_each(members[1].found, see_option, &is_read_only);
        drop(&places->above);
        if (is_read_only) { places->above = place; return; }
    }
    drop(&place);
}

static int is_folder(const char *path) {
    struct stat found;
    return !stat(path, &found) && S_ISDIR(found.st_mode);
}

static void make(char *path) {
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    mkdir(path, 0777);
}

/* Return whether the directory appears in time; make it if the sidecar uses this root. A sidecar that has reached no
 * engine makes no directories yet, and a container without the mount would never see one. */
static int appears(const char *root, char *directory) {
    double end = now() + directory_seconds;
    struct text staging = {0};
    while (!is_folder(directory)) {
        if (now() > end) {
            put_words(&staging, "%s/.staging", root);
            if (is_folder(staging.at)) make(directory);
            return is_folder(directory);
        }
        rest(0.001);
    }
    return 1;
}

static int is_plain(struct text directory) {
    for (size_t at = 0, size; at <= directory.size; at += size + 1) {
        size = strcspn(directory.at + at, "/");
        if (!size || (size == 1 && directory.at[at] == '.') || (size == 2 && !memcmp(directory.at + at, "..", 2))) return 0;
    }
    return 1;
}

static struct text below(const char *root, struct text directory) {
    struct text made = {0};
    size_t size = strlen(root);
    put_words(&made, "%s%s%s", root, size && root[size - 1] == '/' ? "" : "/", directory.at);
    return made;
}

/* Return the mount as JSON; nothing if the container's own suffices, or for the reason that is `left_out`. */
struct text mount_of(struct value spec, const char *root, struct text directory, struct text destination, struct text *left_out) {
    struct text made = {0}, source;
    struct value mounts = json_member(spec, "mounts");
    if (!starts(destination, "/") || has_null(directory) || has_null(destination) || !is_plain(directory)) {
        put_repr(left_out, directory);
        put_word(left_out, " is not a projection directory");
        return made;
    }
    source = below(root, directory);
    struct places places = {.wanted = place_of(destination)};
    if (mounts.kind == '[') json_each(mounts, see_mount, &places);
    if (places.is_taken) return made;
    if (places.above.size)
        put_words(left_out, "%s is mounted read-only, so %s cannot be created in it", places.above.at, destination.at);
    else if (!appears(root, source.at))
        put_words(left_out, "there is no %s on the host (the sidecar's projections must be a directory of the host)", source.at);
    else if (strcmp(resolved(source.at), below(resolved(root), directory).at))
        put_words(left_out, "%s is a symbolic link that leads elsewhere", source.at);
    if (left_out->size) return made;
    put_word(&made, "{\"destination\": ");
    put_json(&made, destination);
    put_word(&made, ", \"type\": \"bind\", \"source\": ");
    put_json(&made, source);
    put_word(&made, ", \"options\": [\"bind\", \"ro\", \"nosuid\", \"nodev\", \"noexec\"]}");
    return made;
}
