/* sha256.c - FIPS 180-4, section 6.2. */
#include "base/sha256.h"

#include <string.h>

#define BLOCK sizeof(((af_sha256 *)0)->block)

/* The fractional parts of the cube roots of the first 64 primes, 32 bits of each. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n) {
    return x >> n | x << (32 - n);
}

static uint32_t load(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void extend(const unsigned char *block, uint32_t w[64]) {
    for (size_t i = 0; i < 16; i++) w[i] = load(block + 4 * i);
    for (size_t i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] =
            w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
}

static void take_block(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], s[8];
    extend(block, w);
    memcpy(s, state, sizeof s);
    for (size_t i = 0; i < 64; i++) {
        const uint32_t e = s[4], a = s[0];
        const uint32_t chosen = (e & s[5]) ^ (~e & s[6]), most = (a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]);
        const uint32_t one = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + chosen + round_constants[i] + w[i];
        const uint32_t two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + most;
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (size_t i = 0; i < 8; i++) state[i] += s[i];
}

void af_sha256_begin(af_sha256 *sha) {
    /* likewise of the square roots of the first eight */
    *sha = (af_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void af_sha256_add(af_sha256 *sha, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    while (n > 0) {
        const size_t at = sha->length % BLOCK, part = n < BLOCK - at ? n : BLOCK - at;
        memcpy(sha->block + at, p, part);
        sha->length += part;
        if (at + part == BLOCK) take_block(sha->state, sha->block);
        p += part;
        n -= part;
    }
}

void af_sha256_end(af_sha256 *sha, unsigned char digest[AF_SHA256_BYTES]) {
    static const unsigned char padding[BLOCK] = {0x80};
    const uint64_t bits = sha->length * 8;
    const size_t at = sha->length % BLOCK;
    unsigned char length[8];
    for (size_t i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    af_sha256_add(sha, padding, (at < 56 ? 56 : 120) - at);
    af_sha256_add(sha, length, sizeof length);
    for (size_t i = 0; i < AF_SHA256_BYTES; i++) digest[i] = (unsigned char)(sha->state[i / 4] >> (24 - i % 4 * 8));
}
