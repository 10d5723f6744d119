/* gpu_store.h - what Dawn made of shaders, kept on disk for the next start.
 *
 * Dawn asks for bytes by a key, which names its own version, the device and the shader, and gives bytes to keep. Each
 * is a file of a folder of ours: AIRFRAME_PIPELINE_CACHE if it is set (empty: nothing is kept), else
 * $XDG_CACHE_HOME/shimmy/pipelines, else ~/.cache/shimmy/pipelines. wgpu-native has no such way (docs/GPU_PIPELINE.md).
 *
 *     <hex of the key's SHA-256>    "AFpipe1\n", checksum of the value (checksum.h), the value
 *
 * A file that is damaged, cut, or of more than 16 MiB counts as not there; what cannot be written is not kept. The
 * folder holds at most AF_GPU_STORE_BYTES in AF_GPU_STORE_FILES: those not used for longest go when it is opened.
 */
#ifndef AF_GPU_STORE_H
#define AF_GPU_STORE_H

#include <stddef.h>
#include <stdint.h>

#define AF_GPU_STORE_BYTES (128ull << 20)
#define AF_GPU_STORE_FILES 2048

typedef struct af_gpu_store af_gpu_store;

/* NULL where nothing is to be or can be kept. */
af_gpu_store *af_gpu_store_open(void);
void af_gpu_store_close(af_gpu_store *store);

/* As Dawn calls them, from any thread (gpu_dawn.h). Load gives the value's size, 0 for none, and fills `value` if that
 * has room. A key longer than AF_GPU_STORE_KEY is none. */
#define AF_GPU_STORE_KEY (1u << 20)
size_t af_gpu_store_load(size_t key_size, const uint8_t *key, size_t value_size, uint8_t *value, void *store,
                         void *unused);
void af_gpu_store_save(size_t key_size, const uint8_t *key, size_t value_size, const uint8_t *value, void *store,
                       void *unused);

#endif
