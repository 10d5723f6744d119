/* checksum.h - 64 bits by which damaged bytes are known: a disk's, a cut file's, not an attacker's (sha256.h).
 *
 * Four lanes take eight bytes each in turn: lane <- (lane xor word) * odd, then its upper half is folded down. Every
 * step is a bijection of the lane, so a change within one word is always seen, others but once in 2^64. It runs at the
 * memory's speed.
 */
#ifndef AF_CHECKSUM_H
#define AF_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t af_checksum(const void *bytes, size_t n);

#endif
