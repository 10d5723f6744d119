/* checksum.c - see checksum.h. */
#include "base/checksum.h"

#include <string.h>

#define LANES 4
#define ODD   UINT64_C(0x9E3779B97F4A7C15) /* 2^64 over the golden ratio */

static uint64_t stir(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * ODD;
    return lane ^ lane >> 32;
}

uint64_t af_checksum(const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    uint64_t lanes[LANES] = {1, 2, 3, 4}, words[LANES], sum = n;
    size_t left = n;
    for (; left >= sizeof words; left -= sizeof words, p += sizeof words) {
        memcpy(words, p, sizeof words);
        for (size_t i = 0; i < LANES; i++) lanes[i] = stir(lanes[i], words[i]);
    }
    memset(words, 0, sizeof words);
    memcpy(words, p, left);
    for (size_t i = 0; i < LANES; i++) sum = stir(sum, stir(lanes[i], words[i]));
    return sum;
}
