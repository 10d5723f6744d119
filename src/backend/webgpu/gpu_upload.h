/* gpu_upload.h - rows of matrices from the file's memory into a chunk, in the device's layout.
 *
 * All threads fill a ring's buffer, each with runs of rows; the device takes it from there. Who packs is the adapter's
 * to decide: a GPU is given the file's bytes and packs itself (gpu_repack.h), one in software is given packed rows,
 * since its work is the processor's anyway. AIRFRAME_GPU_PACK=device or host decides otherwise, for tests.
 */
#ifndef AF_GPU_UPLOAD_H
#define AF_GPU_UPLOAD_H

#include "backend/webgpu/gpu_backend.h"

typedef struct af_gpu_upload af_gpu_upload;

/* `expected`: about how many bytes will come. */
int af_gpu_upload_open(af_gpu *gpu, uint32_t threads, uint64_t expected, af_gpu_upload **out, af_error *error);
/* The rows of a segment; `parts` are the matrices that m joins. They are there for whatever is submitted later. */
int af_gpu_upload_segment(af_gpu_upload *upload, const af_matrix *const *parts, const af_gpu_matrix *m,
                          const af_gpu_segment *s, af_error *error);
/* Waits until all rows are there. NULL does nothing. */
void af_gpu_upload_close(af_gpu_upload *upload);

#endif
