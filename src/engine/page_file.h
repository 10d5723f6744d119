/* page_file.h - one page of KV cache as a file: what it says of itself, and how it is doubted.
 *
 * A file is a header and then, for each cache group it has, the page as the backend's memory holds it. It is read again
 * only by the same build with the same model, device and settings: all of that is in `identity`. The text that leads to
 * the page is named by a SHA-256 over the name of the text before it and the page's ids, so one name means one text;
 * the ids are there too and are compared. The rest is checked by sums. Nothing in a file is ever used as an index or
 * size before it equals what it must be.
 *
 * The file's name is the text's name and the groups it has: the index of a folder is made of names alone.
 */
#ifndef AF_PAGE_FILE_H
#define AF_PAGE_FILE_H

#include "base/sha256.h"
#include "plan/plan.h"

#define AF_PAGE_NAME 48 /* bytes of a file's name, with its end */

/* A text that is a whole number of pages long, by its last page. */
typedef struct af_page_text {
    unsigned char name[AF_SHA256_BYTES];
    int32_t ids[AF_KV_PAGE];
} af_page_text;

/* Whose pages: everything that decides over their bits, and how many those are. */
typedef struct af_page_kind {
    unsigned char identity[AF_SHA256_BYTES];
    uint64_t bytes[AF_PLAN_GROUPS]; /* of a page; 0: there is no such group */
} af_page_kind;

typedef struct af_page_header {
    char magic[8];
    uint32_t version, groups; /* a bit for each that it has */
    unsigned char identity[AF_SHA256_BYTES];
    af_page_text text;
    uint64_t data_bytes, data_sum, header_sum;
} af_page_header;

/* The text that goes on with these ids after the text of that name. The empty text's name is the identity. */
void af_page_text_after(const unsigned char name[AF_SHA256_BYTES], const int32_t ids[AF_KV_PAGE], af_page_text *out);

/* Bytes of a file with these groups, and from its beginning to a group's page. */
size_t af_page_file_bytes(const af_page_kind *kind, uint32_t groups);
size_t af_page_file_at(const af_page_kind *kind, uint32_t groups, uint32_t group);

/* Fills in the header of a file whose pages are in place. */
void af_page_file_seal(const af_page_kind *kind, const af_page_text *text, uint32_t groups, unsigned char *file);
/* True if a file of af_page_file_bytes holds what it must. */
bool af_page_file_holds(const af_page_kind *kind, const af_page_text *text, uint32_t groups, const unsigned char *file);

void af_page_file_name(const unsigned char name[AF_SHA256_BYTES], uint32_t groups, char out[AF_PAGE_NAME]);
/* The half of a text's name that stands in a file's, and the groups; false where it is no such name. */
bool af_page_file_read_name(const char *file, uint64_t half[2], uint32_t *groups);

#endif
