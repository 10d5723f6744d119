/* os_folder.h - a folder of this program's own, whose files it writes whole and reads with suspicion.
 *
 * Files are named within the folder that was opened, so whatever happens to its path later, nothing outside it is
 * touched. Links are never followed; what is not a plain file of this user counts as not there. A file is written
 * aside, synced and renamed: it is there whole or not at all.
 */
#ifndef AF_OS_FOLDER_H
#define AF_OS_FOLDER_H

#include "base/status.h"

typedef struct af_folder af_folder;

typedef struct af_folder_entry {
    const char *name;
    uint64_t size;
    int64_t modified; /* nanoseconds since 1970 */
} af_folder_entry;

/* Opens a folder, making it (0700) where its parent is there. Refuses one that others than this user may write to. */
int af_folder_open(const char *path, af_folder **out, af_error *error);
void af_folder_close(af_folder *folder);

/* Calls fn with each plain file of this user, in no order. */
int af_folder_list(af_folder *folder, void (*fn)(void *user, const af_folder_entry *entry), void *user,
                   af_error *error);

/* Reads a file of exactly n bytes. AF_OK; AF_EIO where there is no such file or it cannot be read; AF_EFORMAT where it
 * has another size. */
int af_folder_read(af_folder *folder, const char *name, void *bytes, size_t n, af_error *error);
/* Replaces a file (0600); `modified` as above. */
int af_folder_write(af_folder *folder, const char *name, const void *bytes, size_t n, int64_t modified,
                    af_error *error);
/* What cannot be done is passed over. */
void af_folder_touch(af_folder *folder, const char *name, int64_t modified);
void af_folder_remove(af_folder *folder, const char *name);

#endif
