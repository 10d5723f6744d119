/* sha256.h - SHA-256 (FIPS 180-4), for names that stand for contents: nobody can make two contents of one name.
 *
 * For kilobytes, not for gigabytes: it is plain C, a few hundred megabytes a second. Bytes that only have to be found
 * damaged are checked by checksum.h.
 */
#ifndef AF_SHA256_H
#define AF_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define AF_SHA256_BYTES 32

typedef struct af_sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[64];
} af_sha256;

void af_sha256_begin(af_sha256 *sha);
void af_sha256_add(af_sha256 *sha, const void *bytes, size_t n);
void af_sha256_end(af_sha256 *sha, unsigned char digest[AF_SHA256_BYTES]);

#endif
