/* page_sweep.h - the oldest pages leave a folder that has grown past its limit. */
#ifndef AF_PAGE_SWEEP_H
#define AF_PAGE_SWEEP_H

#include "base/os_folder.h"

/* If the folder's pages take more than `limit` bytes, removes the oldest until an eighth of it is free again, so that
 * this is not done for every page; other files are left alone. Calls removed() with each name. Returns the bytes that
 * are left. */
uint64_t af_page_sweep(af_folder *folder, uint64_t limit, void (*removed)(void *user, const char *name), void *user);

#endif
