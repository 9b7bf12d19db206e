/* The content of a container's config.json: the question that it makes, and its changes.
 *
 * A change is a splice: a value takes the place of another, or a member comes last in its object. All other bytes stay as
 * they were, unknown fields and spelling included. Values may be anything, since users who create containers influence
 * them. */
#include "front.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const char OURS[] = "cpuset.", SWARMS[] = "com.docker.swarm.", ASKING[] = "cpuset.exclusive";

/* Annotations and labels. */

struct pair { struct text key; struct value item; size_t place; };
struct pairs { struct pair *at; size_t count, seen; int are_ours; };

/* Keep at most MOST_PAIRS of them; of annotations, ours. */
static void keep(void *with, struct value name, struct value item) {
    struct pairs *p = with;
    if (p->count == MOST_PAIRS) { p->seen = SIZE_MAX; return; }
    struct text key = json_text(name);
    if (p->are_ours && !starts(key, OURS)) { drop(&key); return; }
    if (p->count % 64 == 0) p->at = needed(realloc(p->at, (p->count + 64) * sizeof *p->at));
    p->at[p->count++] = (struct pair){key, item, p->seen++};
}

static int rank(struct text key) { return starts(key, OURS) ? 0 : starts(key, SWARMS) ? 1 : 2; }

static int by_key(const struct text one, const struct text other) {
    size_t size = one.size < other.size ? one.size : other.size;
    int found = size ? memcmp(one.at, other.at, size) : 0;
    return found ? found : (one.size > other.size) - (one.size < other.size);
}

static int by_rank(const void *a, const void *b) {
    const struct pair *one = a, *other = b;
    int found = rank(one->key) - rank(other->key);
    if (!found) found = by_key(one->key, other->key);
    return found ? found : (one->place > other->place) - (one->place < other->place);
}

/* Return whether a value of the label that asks for CPUs asks for none. */
static int is_none(struct text value) {
    static const char *const words[] = {"", "false", "no", "off", "0"};
    const char *at = value.at, *end = at + value.size;
    while (at < end && isspace((unsigned char)*at)) at++;
    while (at < end && isspace((unsigned char)end[-1])) end--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == (size_t)(end - at) && !strncasecmp(words[i], at, end - at)) return 1;
    return 0;
}

/* Return 0 if there are too many. Of one that stands there twice, the last one counts, whatever it is. */
static int put_pairs(struct question *q, struct value object, int are_ours) {
    struct pairs pairs = {.are_ours = are_ours};
    size_t asking = strlen(ASKING), written = 0, most = are_ours ? MOST_PAIRS : MOST_LABELS;
    if (object.kind == '{') json_each(object, keep, &pairs);
    if (pairs.seen == SIZE_MAX) return 0;
    if (pairs.count) qsort(pairs.at, pairs.count, sizeof *pairs.at, by_rank);
    put_word(&q->body, "{");
    for (size_t i = 0; i < pairs.count && written < most; i++) {
        struct text key = pairs.at[i].key, value = json_text(pairs.at[i].item);
        if (i + 1 < pairs.count && !by_key(key, pairs.at[i + 1].key)) continue;
        if (pairs.at[i].item.kind != '"' || (!are_ours && characters(key) + characters(value) > MOST_NAME)) continue;
        if (written++) put_word(&q->body, ", ");
        put_json(&q->body, key);
        put_word(&q->body, ": ");
        put_json(&q->body, value);
        q->is_ours |= rank(key) < 2;
        q->asks |= starts(key, ASKING) && (key.size == asking || key.at[asking] == '/') && !is_none(value);
    }
    put_word(&q->body, "}");
    return 1;
}

/* Docker's own books: they lie beside files that every container of its mounts. */

enum { MOST_BOOKS = 16 };

struct books { struct text container; char *folders[MOST_BOOKS]; size_t count; };

static void seen_mount(void *with, struct value key, struct value item) {
    struct books *books = with;
    struct text source = json_text(json_member(item, "source"));
    (void)key;
    size_t slash = source.size;
    while (slash && source.at[slash - 1] != '/') slash--;
    const char *name = source.at + slash;
    if (!has_null(source) && (!strcmp(name, "hostname") || !strcmp(name, "resolv.conf") || !strcmp(name, "hosts"))) {
        size_t end = slash;
        while (end && source.at[end - 1] == '/') end--;
        if (!end) end = slash;  /* As os.path.split: a folder that is all slashes keeps them. */
        source.at[source.size = end] = 0;
        const char *last = strrchr(source.at, '/');
        last = last ? last + 1 : source.at;
        if (!has_null(books->container) && !strcmp(last, books->container.at) && books->count < MOST_BOOKS) {
            books->folders[books->count++] = source.at;
            return;
        }
    }
    drop(&source);
}

static struct text without_slashes(struct text name) {
    while (name.size && *name.at == '/') { name.at++; name.size--; }
    return name;
}

static void describe(struct question *q, struct text container, struct value spec) {
    struct value mounts = json_member(spec, "mounts");
    struct books books = {.container = container};
    if (mounts.kind == '[') json_each(mounts, seen_mount, &books);
    for (size_t i = 0; i < books.count; i++) {
        struct text path = {0}, content;
        struct why why = {0};
        struct value root;
        put_words(&path, "%s/config.v2.json", books.folders[i]);
        if (read_whole(path.at, &content)) continue;
        if (json_loaded(&why, content, &root)) { drop(&content); continue; }
        size_t before = q->body.size;
        put_word(&q->body, ", \"name\": ");
        put_json(&q->body, cut(without_slashes(json_text(json_member(root, "Name"))), MOST_NAME));
        put_word(&q->body, ", \"labels\": ");
        q->has_labels = put_pairs(q, json_member(json_member(root, "Config"), "Labels"), 0);
        if (q->has_labels) return;
        q->body.at[q->body.size = before] = 0;
        drop(&content);
    }
}

/* The question. */

static void put_field(struct text *body, const char *name, struct text words) {
    put_words(body, ", \"%s\": ", name);
    put_json(body, words);
}

static void put_number(struct text *body, const char *name, struct value item) {
    put_words(body, ", \"%s\": ", name);
    if (json_is_whole(item)) put(body, item.at, item.size);
    else put_word(body, "null");
}

int question_of(struct why *why, struct text container, struct value spec, int is_strict, struct question *q) {
    struct member top[] = {{.name = "linux"}, {.name = "annotations"}};
    struct member limits[] = {{.name = "cpu"}, {.name = "memory"}}, linux_[] = {{.name = "cgroupsPath"}, {.name = "resources"}};
    struct member cpu[] = {{.name = "cpus"}, {.name = "mems"}, {.name = "quota"}, {.name = "period"}};
    *q = (struct question){.id = container};
    json_pick(spec, top, 2);
    json_pick(top[0].found, linux_, 2);
    json_pick(linux_[1].found, limits, 2);
    json_pick(limits[0].found, cpu, 4);
    q->cgroup = json_text(linux_[0].found);
    q->cpus = json_text(cpu[0].found);
    q->mems = json_text(cpu[1].found);
    put_word(&q->body, "{\"id\": ");
    put_json(&q->body, container);
    put_field(&q->body, "cgroup", q->cgroup);
    put_field(&q->body, "cpus", q->cpus);
    put_field(&q->body, "mems", q->mems);
    put_number(&q->body, "quota", cpu[2].found);
    put_number(&q->body, "period", cpu[3].found);
    put_number(&q->body, "memory", json_member(limits[1].found, "limit"));
    put_word(&q->body, ", \"annotations\": ");
    if (!put_pairs(q, top[1].found, 1)) return refuse(why, REFUSED, "there are more than %d annotations of ours", MOST_PAIRS);
    describe(q, container, spec);
    put_word(&q->body, is_strict ? "}" : ", \"strict\": false}");
    return 0;
}

static size_t ids_in(struct text cgroup) {
    size_t found = 0;
    for (size_t begin = 0, end; begin <= cgroup.size; begin = end + 1) {
        for (end = begin; end < cgroup.size && (!cgroup.at[end] || !strchr("/:-.", cgroup.at[end])); end++);
        found += is_id(cgroup.at + begin, end - begin);
    }
    return found;
}

int lies_in_another(struct text cgroup) { return ids_in(cgroup) > 1; }

int surely_asks_nothing(const struct question *q) { return !q->cpus.size && !q->mems.size && q->has_labels && !q->is_ours; }

/* The changes. */

int update_of(struct why *why, struct value answer, struct update *update) {
    struct value found = json_member(answer, "update");
    struct member members[] = {{.name = "cpus"}, {.name = "mems"}, {.name = "quota"}};
    *update = (struct update){0};
    if (!found.kind || (found.kind == 'w' && *found.at == 'n')) return 0;
    if (found.kind != '{') return refuse(why, REFUSED, "the sidecar's answer cannot be understood");
    json_pick(found, members, 3);
    struct text cpus = json_text(members[0].found);
    if (!cpus.size || strspn(cpus.at, "0123456789,-") != cpus.size) return refuse(why, REFUSED, "the sidecar's answer names no CPUs");
    *update = (struct update){.is_there = 1, .cpus = cpus};
    if (members[1].found.kind == '"' && members[1].found.size > 2) update->mems = members[1].found;
    /* In Python a truth is an integer, too. */
    if (json_is_whole(members[2].found) || (members[2].found.kind == 'w' && *members[2].found.at != 'n')) update->quota = members[2].found;
    return 0;
}

struct splice { const char *from, *to; struct text with; };
struct splices { struct splice at[8]; size_t count; };

static void replace(struct splices *all, struct value old, struct text with) {
    all->at[all->count++] = (struct splice){old.at, old.at + old.size, with};
}

static int is_empty(struct value above) {
    size_t inner = strspn(above.at + 1, " \t\n\r");
    return above.at[1 + inner] == (above.kind == '{' ? '}' : ']');
}

/* Let something come last in an object or an array. */
static void append(struct splices *all, struct value above, struct text what) {
    const char *end = above.at + above.size - 1;
    struct text with = {0};
    put_word(&with, is_empty(above) ? "" : ", ");
    put_text(&with, what);
    all->at[all->count++] = (struct splice){end, end, with};
}

static struct text named(const char *name, struct text value) {
    struct text made = {0};
    put_words(&made, "\"%s\": ", name);
    put_text(&made, value);
    return made;
}

static struct text enclosed(struct text inner) {
    struct text made = {0};
    put_word(&made, "{");
    put_text(&made, inner);
    put_word(&made, "}");
    return made;
}

static struct text raw(struct value item) { return (struct text){.at = (char *)item.at, .size = item.size}; }

/* Write the limits where they belong; what is in the way and no object is replaced. */
static void limit(struct splices *all, struct value spec, const struct update *update) {
    static const char *const path[] = {"linux", "resources", "cpu"};
    static const char *const names[] = {"cpus", "mems", "quota"};
    struct text quoted = {0}, wanted[3];
    struct member old[] = {{.name = names[0]}, {.name = names[1]}, {.name = names[2]}};
    struct value above = spec, next = {0};
    int depth = 0;
    put_json(&quoted, update->cpus);
    wanted[0] = quoted; wanted[1] = raw(update->mems); wanted[2] = raw(update->quota);
    for (; depth < 3; depth++, above = next)
        if ((next = json_member(above, path[depth])).kind != '{') break;
    if (depth == 3) {
        json_pick(above, old, 3);
        struct text more = {0};
        for (int i = 0; i < 3; i++) {
            if (!wanted[i].size) continue;
            if (old[i].found.kind) { replace(all, old[i].found, wanted[i]); continue; }
            if (more.size) put_word(&more, ", ");
            put_text(&more, named(names[i], wanted[i]));
        }
        if (more.size) append(all, above, more);
        return;
    }
    struct text inner = {0};
    for (int i = 0; i < 3; i++) {
        if (!wanted[i].size) continue;
        if (inner.size) put_word(&inner, ", ");
        put_text(&inner, named(names[i], wanted[i]));
    }
    inner = enclosed(inner);
    for (int i = 2; i > depth; i--) inner = enclosed(named(path[i], inner));
    if (next.kind) replace(all, next, inner);
    else append(all, above, named(path[depth], inner));
}

void append_last(struct text content, struct value object, struct text member, struct text *fresh) {
    struct splices one = {0};
    append(&one, object, member);
    put(fresh, content.at, one.at[0].from - content.at);
    put_text(fresh, one.at[0].with);
    put(fresh, one.at[0].to, content.at + content.size - one.at[0].to);
}

static int by_place(const void *a, const void *b) {
    const char *one = ((const struct splice *)a)->from, *other = ((const struct splice *)b)->from;
    return (one > other) - (one < other);
}

int changed(struct why *why, struct text content, struct value spec, const struct update *update, struct text mount,
            struct text *fresh) {
    struct splices all = {0};
    struct value mounts = json_member(spec, "mounts");
    const char *at = content.at;
    if (json_has_infinite(spec)) return refuse(why, REFUSED, "this cannot be written as JSON: a number is too large");
    limit(&all, spec, update);
    if (mount.size) {
        struct text list = {0};
        put_words(&list, "[%s]", mount.at);
        if (mounts.kind == '[') append(&all, mounts, mount);
        else if (mounts.kind) replace(&all, mounts, list);
        else append(&all, spec, named("mounts", list));
    }
    /* Two that come last in the same object: the second one follows the first, and never an empty beginning. */
    if (all.count > 1 && all.at[all.count - 1].from == all.at[0].from && *all.at[all.count - 1].with.at != ',') {
        struct text with = {0};
        put_words(&with, ", %s", all.at[all.count - 1].with.at);
        all.at[all.count - 1].with = with;
    }
    if (all.count > 2 || (all.count == 2 && all.at[0].from > all.at[1].from)) qsort(all.at, all.count, sizeof *all.at, by_place);
    for (size_t i = 0; i < all.count; at = all.at[i++].to) {
        put(fresh, at, all.at[i].from - at);
        put_text(fresh, all.at[i].with);
    }
    put(fresh, at, content.at + content.size - at);
    return 0;
}

/* Return 0, or why it could not be done. The fresh file takes the place of the old one by one rename. */
int replace_file(struct why *why, const char *path, struct text content) {
    struct text fresh = {0};
    struct stat was, other;
    int opened = -1, failed;
    put_words(&fresh, "%s.cpuset-sidecar", path);
    failed = stat(path, &was) || (!lstat(fresh.at, &other) && unlink(fresh.at));
    if (!failed) failed = (opened = open(fresh.at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0;
    if (!failed && (was.st_uid != geteuid() || was.st_gid != getegid())) failed = fchown(opened, was.st_uid, was.st_gid);
    if (!failed) failed = fchmod(opened, was.st_mode & 07777);
    for (size_t done = 0; !failed && done < content.size;) {
        ssize_t more = write(opened, content.at + done, content.size - done);
        if (more > 0) done += more;
        failed = more < 0 && errno != EINTR;
    }
    int reason = errno;
    if (opened >= 0) close(opened);
    if (!failed && (failed = rename(fresh.at, path))) reason = errno;
    return failed ? refuse(why, REFUSED, "the bundle cannot be changed: %s: %s", path, strerror(reason)) : 0;
}
