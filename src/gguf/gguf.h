/* gguf.h - a GGUF file: mapped, validated before use, then read in place.
 *
 * Layout (little-endian; versions 2 and 3; source: the GGUF specification in ggml's repository, docs/gguf.md):
 *
 *     magic "GGUF"            4 bytes
 *     version                 u32      2 or 3
 *     tensor_count            u64
 *     kv_count                u64
 *     kv_count times:         key string, value type u32, value
 *         string              u64 length, that many bytes (no NUL)
 *         array               element type u32, u64 count, elements
 *     tensor_count times:     name string, n_dims u32, dims u64 each (contiguous first), type u32, offset u64
 *     padding to `general.alignment` (32 unless stated)
 *     tensor data             each tensor at data_start + offset, offset a multiple of the alignment
 *
 * A split model is several files NAME-00001-of-0000N.gguf with split.no, split.count and split.tensors.count; opening
 * any shard opens the set, metadata from the first.
 *
 * Invariants after a successful open:
 *   1. every slice and tensor lies inside its mapping; no two tensors overlap; names and keys are unique;
 *   2. element counts and byte sizes do not overflow; dims are at least 1;
 *   3. every tensor's type is known to quant.h and its rows are whole blocks.
 * Tensors of types this build does not read are refused by name.
 */
#ifndef AF_GGUF_H
#define AF_GGUF_H

#include "base/arena.h"
#include "base/buf.h"
#include "quant/quant.h"

typedef enum af_gguf_type {
    AF_GGUF_U8,
    AF_GGUF_I8,
    AF_GGUF_U16,
    AF_GGUF_I16,
    AF_GGUF_U32,
    AF_GGUF_I32,
    AF_GGUF_F32,
    AF_GGUF_BOOL,
    AF_GGUF_STRING,
    AF_GGUF_ARRAY,
    AF_GGUF_U64,
    AF_GGUF_I64,
    AF_GGUF_F64
} af_gguf_type;

typedef struct af_tensor {
    af_slice name;
    const af_format *format;
    uint32_t n_dims;
    uint64_t dims[4]; /* contiguous first; unused ones are 1 */
    uint64_t elements;
    const unsigned char *data;
    uint64_t bytes;
} af_tensor;

typedef struct af_gguf af_gguf;

int af_gguf_open(const char *path, af_gguf **out, af_error *error);
void af_gguf_close(af_gguf *file);

const char *af_gguf_path(const af_gguf *file); /* of the first shard */
uint32_t af_gguf_version(const af_gguf *file);
uint32_t af_gguf_shards(const af_gguf *file);
uint64_t af_gguf_file_bytes(const af_gguf *file);
size_t af_gguf_kv_count(const af_gguf *file);
size_t af_gguf_tensor_count(const af_gguf *file);
const af_tensor *af_gguf_tensor_at(const af_gguf *file, size_t index);
/* NULL if there is none of that name. */
const af_tensor *af_gguf_tensor(const af_gguf *file, const char *name);

/* Metadata. A getter returns true and writes *out if the key is there with a type that holds the value without loss
 * (any integer type serves u64 if not negative; u32 needs it to fit; any number serves f64); else false with *out
 * untouched, so that callers set defaults first. `af_gguf_has` tells absence from another type. */
bool af_gguf_has(const af_gguf *file, const char *key);
bool af_gguf_u32(const af_gguf *file, const char *key, uint32_t *out);
bool af_gguf_u64(const af_gguf *file, const char *key, uint64_t *out);
bool af_gguf_i64(const af_gguf *file, const char *key, int64_t *out);
bool af_gguf_f32(const af_gguf *file, const char *key, float *out);
bool af_gguf_bool(const af_gguf *file, const char *key, bool *out);
bool af_gguf_string(const af_gguf *file, const char *key, af_slice *out);

/* Arrays. Numbers are read one by one with the same widening; strings are slices of the mapping, indexed in constant
 * time (offsets are noted at open). */
typedef struct af_gguf_array af_gguf_array;
const af_gguf_array *af_gguf_get_array(const af_gguf *file, const char *key);
af_gguf_type af_gguf_array_type(const af_gguf_array *array);
size_t af_gguf_array_count(const af_gguf_array *array);
bool af_gguf_array_string(const af_gguf_array *array, size_t i, af_slice *out);
bool af_gguf_array_i64(const af_gguf_array *array, size_t i, int64_t *out);
bool af_gguf_array_f64(const af_gguf_array *array, size_t i, double *out);

/* 32 bytes that tell this model from others (gguf_fingerprint.c). */
void af_gguf_fingerprint(const af_gguf *file, unsigned char out[32]);

/* For `probe --metadata` and tests: key and a printable value of entry i. */
af_slice af_gguf_key_at(const af_gguf *file, size_t i);
void af_gguf_value_text(const af_gguf *file, size_t i, af_buf *out); /* long values are shortened */

#endif
