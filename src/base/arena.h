/* arena.h - many small allocations that die together: a plan's arrays, a vocabulary's tables, a parsed template.
 *
 * Chunks are chained and grow; nothing moves; nothing is freed alone. A ceiling bounds what bytes from outside can make
 * it hold. Not for threads to share.
 */
#ifndef AF_ARENA_H
#define AF_ARENA_H

#include <stddef.h>

typedef struct af_arena af_arena;

/* ceiling: the most bytes it may hand out together; 0: none. NULL when out of memory. */
af_arena *af_arena_open(size_t ceiling);
void af_arena_close(af_arena *arena);

/* `size` bytes aligned for any type (64 for sizes of 64 and more), not zeroed; NULL when out of memory or past the
 * ceiling. A size of 0 gives a valid pointer. */
void *af_arena_alloc(af_arena *arena, size_t size);
void *af_arena_zalloc(af_arena *arena, size_t size);
/* Checks count * size for overflow. Zeroed. */
void *af_arena_array(af_arena *arena, size_t count, size_t size);
/* A NUL-terminated copy of n bytes. */
char *af_arena_copy(af_arena *arena, const char *bytes, size_t n);
size_t af_arena_used(const af_arena *arena);

#endif
