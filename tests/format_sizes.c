/* format_sizes.c - what quantization_doc_test.py checks the table of docs/QUANTIZATION.md with: a line a format, its
 * name, the elements and bytes of a block, and the bytes that a matrix of SIDE by SIDE takes in the file, in the CPU's
 * panels and on the GPU. */
#include "backend/cpu/kernels.h"
#include "backend/webgpu/gpu_pack.h"

#include <stdio.h>

#define SIDE 4096u

int main(void) {
    for (size_t i = 0; af_format_at(i); i++) {
        const af_format *f = af_format_at(i);
        const af_gpu_layout *layout = af_gpu_layout_for(f, false);
        printf("%s %u %u %zu %zu %llu\n", f->name, f->block_elems, f->block_bytes, af_row_bytes(f, SIDE) * SIDE,
               af_panel_bytes(af_panel_kind_of(f->type), SIDE) * (SIDE / AF_PANEL),
               (unsigned long long)af_gpu_streams_of(layout, SIDE, SIDE).bytes);
    }
    return 0;
}
