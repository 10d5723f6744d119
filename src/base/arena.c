/* arena.c - chained chunks, each filled from its start. A chunk doubles its predecessor up to a megabyte; an allocation
 * larger than what the next chunk would hold gets one to itself, and the current chunk stays in use. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_LARGE 64 /* a cache line, and the widest vector */
#define ALIGN_SMALL 16
#define CHUNK_FIRST 4096
#define CHUNK_MAX   ((size_t)1 << 20)

typedef struct chunk {
    struct chunk *next;
    size_t size, used; /* of the bytes after the header */
} chunk;

/* The header takes a whole line, so that what follows it is aligned. */
#define HEADER ALIGN_LARGE
_Static_assert(sizeof(chunk) <= HEADER, "a chunk's header fits its line");

struct af_arena {
    chunk *chunks; /* the one being filled comes first */
    size_t next_size, used, ceiling;
};

af_arena *af_arena_open(size_t ceiling) {
    af_arena *arena = calloc(1, sizeof *arena);
    if (!arena) return NULL;
    arena->next_size = CHUNK_FIRST;
    arena->ceiling = ceiling;
    return arena;
}

void af_arena_close(af_arena *arena) {
    if (!arena) return;
    for (chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(arena);
}

static size_t round_up(size_t n, size_t align) {
    return (n + align - 1) & ~(align - 1);
}

static chunk *chunk_open(size_t size) {
    chunk *c = aligned_alloc(ALIGN_LARGE, HEADER + round_up(size, ALIGN_LARGE));
    if (c) *c = (chunk){.size = size};
    return c;
}

static void *chunk_take(chunk *c, size_t size, size_t align) {
    size_t at = round_up(c->used, align);
    if (at > c->size || size > c->size - at) return NULL;
    c->used = at + size;
    return (unsigned char *)c + HEADER + at;
}

/* A chunk for `size` bytes, linked so that the one with more room left stays in front. */
static void *take_from_new(af_arena *arena, size_t size, size_t align) {
    bool own = size > arena->next_size / 2;
    chunk *c = chunk_open(own ? size : arena->next_size);
    if (!c) return NULL;
    if (own && arena->chunks) {
        c->next = arena->chunks->next;
        arena->chunks->next = c;
    } else {
        c->next = arena->chunks;
        arena->chunks = c;
    }
    if (arena->next_size < CHUNK_MAX) arena->next_size *= 2;
    return chunk_take(c, size, align);
}

void *af_arena_alloc(af_arena *arena, size_t size) {
    size_t limit = arena->ceiling ? arena->ceiling : SIZE_MAX / 2;
    if (size > limit - arena->used) return NULL;
    size_t align = size >= ALIGN_LARGE ? ALIGN_LARGE : ALIGN_SMALL;
    void *p = arena->chunks ? chunk_take(arena->chunks, size, align) : NULL;
    if (!p) p = take_from_new(arena, size, align);
    if (p) arena->used += size;
    return p;
}

void *af_arena_zalloc(af_arena *arena, size_t size) {
    void *p = af_arena_alloc(arena, size);
    return p ? memset(p, 0, size) : NULL;
}

void *af_arena_array(af_arena *arena, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    return af_arena_zalloc(arena, count * size);
}

char *af_arena_copy(af_arena *arena, const char *bytes, size_t n) {
    char *copy = n < SIZE_MAX ? af_arena_alloc(arena, n + 1) : NULL;
    if (!copy) return NULL;
    if (n) memcpy(copy, bytes, n);
    copy[n] = '\0';
    return copy;
}

size_t af_arena_used(const af_arena *arena) {
    return arena->used;
}
