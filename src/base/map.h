/* map.h - byte string to 32-bit number: vocabularies, tensor names, metadata keys.
 *
 * Open addressing over slices that the caller keeps alive (nothing is copied), a keyed hash (seeded once a process from
 * the system's randomness) so that a hostile file cannot force collisions, capacity fixed at creation.
 */
#ifndef AF_MAP_H
#define AF_MAP_H

#include "base/buf.h"

typedef struct af_map af_map;

/* Room for `count` entries. NULL when out of memory. */
af_map *af_map_open(size_t count);
void af_map_close(af_map *map);
/* False if the key is there already (its value stays). Asserts that there is room. */
bool af_map_put(af_map *map, af_slice key, uint32_t value);
bool af_map_get(const af_map *map, af_slice key, uint32_t *value);
size_t af_map_count(const af_map *map);
/* The hash, for other tables. */
uint64_t af_hash(const void *bytes, size_t n);

#endif
