/* page_file.c - see page_file.h. A file is read by the machine that wrote it: numbers are in its own order. */
#include "engine/page_file.h"

#include "base/checksum.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MAGIC   "AFKVPAGE"
#define VERSION 1u
#define SUFFIX  ".kvpage"

void af_page_text_after(const unsigned char name[AF_SHA256_BYTES], const int32_t ids[AF_KV_PAGE], af_page_text *out) {
    af_sha256 sha;
    af_sha256_begin(&sha);
    af_sha256_add(&sha, name, AF_SHA256_BYTES);
    af_sha256_add(&sha, ids, sizeof out->ids);
    memcpy(out->ids, ids, sizeof out->ids);
    af_sha256_end(&sha, out->name);
}

size_t af_page_file_at(const af_page_kind *kind, uint32_t groups, uint32_t group) {
    size_t at = sizeof(af_page_header);
    for (uint32_t g = 0; g < group; g++) at += groups >> g & 1 ? kind->bytes[g] : 0;
    return at;
}

size_t af_page_file_bytes(const af_page_kind *kind, uint32_t groups) {
    return af_page_file_at(kind, groups, AF_PLAN_GROUPS);
}

static uint64_t header_sum(const af_page_header *header) {
    return af_checksum(header, offsetof(af_page_header, header_sum));
}

/* What the header of such a file says, but for its data's sum. */
static af_page_header header_of(const af_page_kind *kind, const af_page_text *text, uint32_t groups) {
    af_page_header header;
    memset(&header, 0, sizeof header);
    memcpy(header.magic, MAGIC, sizeof header.magic);
    header.version = VERSION;
    header.groups = groups;
    memcpy(header.identity, kind->identity, sizeof header.identity);
    header.text = *text;
    header.data_bytes = af_page_file_bytes(kind, groups) - sizeof header;
    return header;
}

void af_page_file_seal(const af_page_kind *kind, const af_page_text *text, uint32_t groups, unsigned char *file) {
    af_page_header header = header_of(kind, text, groups);
    header.data_sum = af_checksum(file + sizeof header, header.data_bytes);
    header.header_sum = header_sum(&header);
    memcpy(file, &header, sizeof header);
}

bool af_page_file_holds(const af_page_kind *kind, const af_page_text *text, uint32_t groups,
                        const unsigned char *file) {
    af_page_header found, expected = header_of(kind, text, groups);
    memcpy(&found, file, sizeof found);
    expected.data_sum = found.data_sum;
    expected.header_sum = header_sum(&expected);
    return memcmp(&found, &expected, sizeof found) == 0 &&
           af_checksum(file + sizeof found, expected.data_bytes) == found.data_sum;
}

/* ---- Names ---- */

void af_page_file_name(const unsigned char name[AF_SHA256_BYTES], uint32_t groups, char out[AF_PAGE_NAME]) {
    uint64_t half[2];
    memcpy(half, name, sizeof half);
    snprintf(out, AF_PAGE_NAME, "%016" PRIx64 "%016" PRIx64 "-%" PRIx32 SUFFIX, half[0], half[1], groups);
}

bool af_page_file_read_name(const char *file, uint64_t half[2], uint32_t *groups) {
    char again[AF_PAGE_NAME];
    unsigned char name[AF_SHA256_BYTES] = {0};
    if (strlen(file) >= AF_PAGE_NAME) return false;
    if (sscanf(file, "%16" SCNx64 "%16" SCNx64 "-%1" SCNx32, &half[0], &half[1], groups) != 3) return false;
    memcpy(name, half, 2 * sizeof *half);
    af_page_file_name(name, *groups, again);
    return *groups != 0 && strcmp(again, file) == 0;
}
