/* map.c - open addressing with linear probing at a load of at most two thirds.
 *
 * Slots hold half of the hash beside the index of a dense entry, so that a probe past other keys seldom touches their
 * bytes. The hash is SipHash-1-3 (Aumasson and Bernstein, 2012; the reduced rounds are what hash tables elsewhere use)
 * with a key drawn once a process.
 */
#include "base/map.h"

#include "base/os.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot {
    uint32_t hash;  /* upper half */
    uint32_t entry; /* index + 1; 0: empty */
} slot;

typedef struct entry {
    af_slice key;
    uint32_t value;
} entry;

struct af_map {
    slot *slots;
    entry *entries;
    size_t mask, count, capacity;
};

/* ---- Hash ---- */

static uint64_t hash_key[2];
static atomic_int hash_key_state; /* 0 none, 1 being drawn, 2 there */

static void hash_key_draw(void) {
    int expected = 0;
    if (atomic_compare_exchange_strong(&hash_key_state, &expected, 1)) {
        af_os_random(hash_key, sizeof hash_key);
        atomic_store_explicit(&hash_key_state, 2, memory_order_release);
    }
    while (atomic_load_explicit(&hash_key_state, memory_order_acquire) != 2) continue;
}

static uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t af_hash(const void *bytes, size_t n) {
    if (atomic_load_explicit(&hash_key_state, memory_order_acquire) != 2) hash_key_draw();
    uint64_t v[4] = {hash_key[0] ^ 0x736f6d6570736575, hash_key[1] ^ 0x646f72616e646f6d,
                     hash_key[0] ^ 0x6c7967656e657261, hash_key[1] ^ 0x7465646279746573};
    const unsigned char *p = bytes;
    uint64_t word, last = (uint64_t)n << 56;
    size_t left = n;
    for (; left >= 8; p += 8, left -= 8) {
        memcpy(&word, p, 8);
        sip_word(v, word);
    }
    for (size_t i = 0; i < left; i++) last |= (uint64_t)p[i] << (8 * i);
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- Table ---- */

af_map *af_map_open(size_t count) {
    if (count >= UINT32_MAX / 2) return NULL;
    size_t slots = 4;
    while (slots < count + count / 2 + 1) slots *= 2;
    af_map *map = calloc(1, sizeof *map);
    if (!map) return NULL;
    map->slots = calloc(slots, sizeof *map->slots);
    map->entries = malloc((count + 1) * sizeof *map->entries);
    map->mask = slots - 1;
    map->capacity = count;
    if (map->slots && map->entries) return map;
    af_map_close(map);
    return NULL;
}

void af_map_close(af_map *map) {
    if (!map) return;
    free(map->slots);
    free(map->entries);
    free(map);
}

/* The slot that holds the key, or the empty one where it belongs. There is always an empty one. */
static slot *find(const af_map *map, af_slice key, uint64_t hash) {
    uint32_t upper = (uint32_t)(hash >> 32);
    for (size_t at = hash & map->mask;; at = (at + 1) & map->mask) {
        slot *s = &map->slots[at];
        if (!s->entry) return s;
        if (s->hash == upper && af_slice_equal(map->entries[s->entry - 1].key, key)) return s;
    }
}

bool af_map_put(af_map *map, af_slice key, uint32_t value) {
    uint64_t hash = af_hash(key.p, key.n);
    slot *s = find(map, key, hash);
    if (s->entry) return false;
    assert(map->count < map->capacity);
    map->entries[map->count++] = (entry){key, value};
    *s = (slot){(uint32_t)(hash >> 32), (uint32_t)map->count};
    return true;
}

bool af_map_get(const af_map *map, af_slice key, uint32_t *value) {
    const slot *s = find(map, key, af_hash(key.p, key.n));
    if (!s->entry) return false;
    *value = map->entries[s->entry - 1].value;
    return true;
}

size_t af_map_count(const af_map *map) {
    return map->count;
}
