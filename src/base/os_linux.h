/* os_linux.h - what the files of os.h's Linux part share: reading the system's small files and control groups. `root`
 * is put before every path, "" but in tests, which describe machines of their own. And what they write.
 */
#ifndef AF_OS_LINUX_H
#define AF_OS_LINUX_H

#include "base/os.h"

/* The beginning of folder/file as text; false if it cannot be read. */
bool af_linux_text(const char *folder, const char *file, char *out, size_t out_size);
/* The number that a file holds alone; false for words such as "max". */
bool af_linux_number(const char *folder, const char *file, int64_t *out);

/* All bytes, however often the system takes only some; false with errno if it takes no more. */
bool af_linux_write(int fd, const void *bytes, size_t n);

/* Calls v1 or v2 (for control groups of that version) with each folder from this process's group up to the mount. */
typedef void (*af_linux_group_fn)(void *user, const char *folder);
void af_linux_groups(const char *root, const char *controller, af_linux_group_fn v1, af_linux_group_fn v2, void *user);

uint64_t af_linux_memory(const char *root); /* af_os_memory_available */

/* af_os_core_list for a process that may run on the processors of `mask`. */
uint32_t af_linux_core_list(const char *root, const af_cpu_mask *mask, af_core *out, uint32_t most);
/* `cores`, or fewer where a group's quota of processor time allows no more. 1 or more. */
uint32_t af_linux_quota(const char *root, uint32_t cores);

#endif
