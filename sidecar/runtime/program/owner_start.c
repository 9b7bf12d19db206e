/* The start of an owner without a sidecar, as `owner_start.py` has it: the answer that it would get, from a file beside the
 * standing order, under that file's lock.
 *
 * 1. It counts in the boot in which it was written, for the whole id that the engine made.
 * 2. It counts as a whole: if one of its CPUs is offline, it is none. */
#include "front.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char HEAD[] = "cpuset-sidecar owners 1";

/* Put what stands in a line after the word that it begins with into `found`; return whether it begins so. */
static int after_word(const char *at, const char *stop, const char *word, struct text *found) {
    size_t length = strlen(word);
    if ((size_t)(stop - at) <= length || memcmp(at, word, length) || at[length] != ' ') return 0;
    drop(found);
    put(found, at + length + 1, stop - at - length - 1);
    return 1;
}

int owners_decoded(const char *content, size_t size, struct owners *owners) {
    const char *end = content + size, *at = unsealed(content, size, HEAD), *stop;
    struct text epoch = {0}, boot = {0}, own = {0}, answer = {0};
    put(&boot, "", 0);
    if (!at) return 0;
    for (; (stop = memchr(at, '\n', end - at)); at = stop + 1) {
        const char *space = memchr(at, ' ', stop - at);
        if (!space) return 0;
        if (after_word(at, stop, "epoch", &epoch) || after_word(at, stop, "boot", &boot)) continue;
        if (!after_word(at, stop, "own", &own)) continue;
        if (!memchr(own.at, ' ', own.size)) return 0;
        after_word(own.at, own.at + own.size, owners->id, &answer);
    }
    if (!epoch.size || epoch.size > 18 || strspn(epoch.at, "0123456789") != epoch.size) return 0;
    owners->epoch = atoll(epoch.at);
    owners->boot = boot;
    owners->answer = answer;
    return 1;
}

static int read_owners(const char *content, size_t size, void *owners) { return owners_decoded(content, size, owners); }

int owner_taken(const char *folder, struct text container, struct value *answer, struct order *order) {
    struct owners owners = {.id = container.at};
    struct why why = {0};
    struct update update;
    if (!is_id(container.at, container.size)) return -1;
    int opened = file_locked(folder, "owners", MOST_OWNERS, read_owners, &owners);
    if (opened < 0) return -1;
    if (owners.boot.size && is(owners.boot, boot_of().at) && owners.answer.size && !json_loaded(&why, owners.answer, answer)
        && !update_of(&why, *answer, &update) && update.is_there && are_online(update.cpus)) {
        *order = (struct order){.epoch = owners.epoch, .cpus = update.cpus};
        return opened;
    }
    close(opened);
    return -1;
}
