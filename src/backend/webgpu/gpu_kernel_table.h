/* gpu_kernel_table.h - the rows of the kernel table: name, files, entry point, bindings and which of them are written.
 */
#ifndef AF_GPU_KERNEL_TABLE_H
#define AF_GPU_KERNEL_TABLE_H

#include <stdint.h>

typedef struct af_gpu_kernel_row {
    const char *name;
    const char *files[6]; /* ends with NULL */
    const char *entry;
    uint32_t binding_count;
    uint32_t written; /* bit i: binding i is read and written */
} af_gpu_kernel_row;

/* Ends with a row without a name. */
extern const af_gpu_kernel_row af_gpu_kernel_table[];

#endif
