/* Bytes that grow, and characters: UTF-8 as it comes, strings as Python would print them. */
#include "front.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *needed(void *allocated) {
    if (!allocated) without_memory();
    return allocated;
}

static void make_room(struct text *t, size_t more) {
    if (t->size + more + 1 <= t->room) return;
    t->room = t->room ? t->room * 2 : 64;
    if (t->room < t->size + more + 1) t->room = t->size + more + 1;
    t->at = needed(realloc(t->at, t->room));
}

void put(struct text *t, const void *bytes, size_t size) {
    make_room(t, size);
    if (size) memcpy(t->at + t->size, bytes, size);
    t->at[t->size += size] = 0;
}

void put_word(struct text *t, const char *word) { put(t, word, strlen(word)); }
void put_text(struct text *t, struct text more) { put(t, more.at, more.size); }

static void put_listed(struct text *t, const char *format, va_list list) {
    char *made;
    int size = vasprintf(&made, format, list);
    if (size < 0) without_memory();
    put(t, made, size);
    free(made);
}

void put_words(struct text *t, const char *format, ...) {
    va_list list;
    va_start(list, format);
    put_listed(t, format, list);
    va_end(list);
}

int refuse(struct why *why, int kind, const char *format, ...) {
    va_list list;
    va_start(list, format);
    drop(&why->said);
    put_listed(&why->said, format, list);
    va_end(list);
    return why->kind = kind;
}

void put_code(struct text *t, uint32_t code) {
    char made[4];
    int size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = size - 1; i > 0; i--, code >>= 6) made[i] = (char)(0x80 | (code & 0x3F));
    made[0] = (char)(heads[size] | code);
    put(t, made, size);
}

/* The longest beginning of a character counts as one that is wrong, as the Unicode standard recommends. */
static size_t code_or_surrogate(const char *text, size_t size, uint32_t *code, int with_surrogates) {
    const unsigned char *at = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xBF;
    int more = 0;
    if (*at < 0x80) { *code = *at; return 1; }
    if (*at >= 0xC2 && *at <= 0xDF) { more = 1; *code = *at & 0x1F; }
    else if (*at >= 0xE0 && *at <= 0xEF) {
        more = 2; *code = *at & 0x0F;
        if (*at == 0xE0) low = 0xA0;
        if (*at == 0xED && !with_surrogates) high = 0x9F;
    } else if (*at >= 0xF0 && *at <= 0xF4) {
        more = 3; *code = *at & 0x07;
        if (*at == 0xF0) low = 0x90;
        if (*at == 0xF4) high = 0x8F;
    }
    for (int i = 1; i <= more; i++, low = 0x80, high = 0xBF) {
        if ((size_t)i >= size || at[i] < low || at[i] > high) { *code = 0xFFFD; return i; }
        *code = *code << 6 | (at[i] & 0x3F);
    }
    if (!more) *code = 0xFFFD;
    return more + 1;
}

size_t code_at(const char *at, size_t size, uint32_t *code) { return code_or_surrogate(at, size, code, 0); }
static size_t own_code(const char *at, size_t size, uint32_t *code) { return code_or_surrogate(at, size, code, 1); }

static void put_escaped(struct text *t, uint32_t code) {
    if (code > 0xFFFF) {
        put_escaped(t, 0xD800 + ((code - 0x10000) >> 10));
        code = 0xDC00 + ((code - 0x10000) & 0x3FF);
    }
    put_words(t, "\\u%04x", code);
}

void put_json(struct text *t, struct text words) {
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    uint32_t code;
    put(t, "\"", 1);
    for (size_t i = 0; i < words.size;) {
        i += own_code(words.at + i, words.size - i, &code);
        const char *found = code && code < 0x80 ? strchr(from, (int)code) : NULL;
        char plain = (char)code;
        if (found) { put(t, "\\", 1); put(t, to + (found - from), 1); }
        else if (code >= 0x20 && code < 0x7F) put(t, &plain, 1);
        else put_escaped(t, code);
    }
    put(t, "\"", 1);
}

void put_repr(struct text *t, struct text words) {
    char quote = words.size && memchr(words.at, '\'', words.size) && !memchr(words.at, '"', words.size) ? '"' : '\'';
    uint32_t code;
    put(t, &quote, 1);
    for (size_t i = 0, size; i < words.size; i += size) {
        size = own_code(words.at + i, words.size - i, &code);
        if (code == (unsigned char)quote || code == '\\') put(t, "\\", 1);
        if (code == '\n') put_word(t, "\\n");
        else if (code == '\r') put_word(t, "\\r");
        else if (code == '\t') put_word(t, "\\t");
        else if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) put_words(t, "\\x%02x", code);
        else if (code >= 0xD800 && code <= 0xDFFF) put_words(t, "\\u%04x", code);
        else put(t, words.at + i, size);
    }
    put(t, &quote, 1);
}

void put_shown(struct text *t, struct text words) {
    uint32_t code;
    for (size_t i = 0, size; i < words.size; i += size) {
        size = own_code(words.at + i, words.size - i, &code);
        if (code >= 0xD800 && code <= 0xDFFF) put_words(t, "\\u%04x", code);
        else put(t, words.at + i, size);
    }
}

/* Bytes of an argument or a path that are no UTF-8 become what Python makes of them, surrogates. */
struct text of_system(const char *words) {
    struct text made = {0};
    uint32_t code;
    size_t left = strlen(words);
    put(&made, "", 0);
    while (left) {
        size_t size = code_at(words, left, &code);
        if (code == 0xFFFD && !(size == 3 && !memcmp(words, "\xEF\xBF\xBD", 3)))
            for (size_t i = 0; i < size; i++) put_code(&made, 0xDC00 + (unsigned char)words[i]);
        else put(&made, words, size);
        words += size;
        left -= size;
    }
    return made;
}

struct text of_words(const char *words) { return (struct text){.at = (char *)words, .size = strlen(words)}; }
int has_null(struct text t) { return t.size && memchr(t.at, 0, t.size) != NULL; }
int starts(struct text t, const char *with) { return t.size >= strlen(with) && !memcmp(t.at, with, strlen(with)); }
int is(struct text t, const char *word) { return t.size == strlen(word) && (!t.size || !memcmp(t.at, word, t.size)); }

size_t characters(struct text t) {
    size_t count = 0;
    for (size_t i = 0; i < t.size; i++) count += ((unsigned char)t.at[i] & 0xC0) != 0x80;
    return count;
}

struct text cut(struct text t, size_t most) {
    size_t end = 0;
    for (; end < t.size; end++)
        if (((unsigned char)t.at[end] & 0xC0) != 0x80 && !most--) break;
    return (struct text){.at = t.at, .size = end};
}

void drop(struct text *t) {
    free(t->at);
    *t = (struct text){0};
}
