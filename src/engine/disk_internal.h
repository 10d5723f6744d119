/* disk_internal.h - the parts of an af_disk, for disk.c (saving) and disk_restore.c (reading again). */
#ifndef AF_DISK_INTERNAL_H
#define AF_DISK_INTERNAL_H

#include "engine/engine_internal.h"

#define AF_DISK_TEXTS 64 /* that wait to be saved, at most */

typedef struct af_disk_text {
    int32_t *ids; /* (pages, AF_KV_PAGE) */
    uint32_t pages;
    uint32_t at;                         /* the page to save next */
    unsigned char name[AF_SHA256_BYTES]; /* of the text before it */
    int64_t stamp;
} af_disk_text;

struct af_disk {
    af_page_store *store;
    bool off; /* what the device makes now is not what lies on disk */
    unsigned char model[AF_SHA256_BYTES];
    af_disk_text texts[AF_DISK_TEXTS]; /* a ring */
    uint32_t first_text, text_count;
    uint32_t *groups; /* (pages of a context): what each page of a prompt has on disk */
};

int64_t af_disk_now(void);

#endif
