/* gguf_tensors.c - reading the list of tensors and checking it against the file: shapes, types, and that every tensor
 * has its bytes to itself. */
#include "gguf/gguf_internal.h"

#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX       (1u << 20)
#define NAME_MAX_BYTES    255 /* four times what writers keep to */
#define TENSOR_MIN        33  /* bytes: name length, a byte of name, n_dims, one dim, type, offset */
#define DIMS_MAX          4
#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MIN     8 /* the specification's; decodes rely on it */
#define ALIGNMENT_MAX     (1u << 20)

/* Where a tensor's data lies, from the beginning of the data, until the end of the list tells where that is. */
typedef struct place {
    uint64_t offset, bytes;
    const af_tensor *tensor;
} place;

static int read_alignment(const gguf_reader *r, const gguf_shard *shard, uint64_t *out) {
    const gguf_entry *entry = gguf_find(shard, "general.alignment");
    *out = ALIGNMENT_DEFAULT;
    if (!entry) return 0;
    if (!gguf_entry_u64(entry, out))
        return gguf_fail(r, AF_EFORMAT, "key general.alignment: is not a positive integer");
    bool power = *out && (*out & (*out - 1)) == 0;
    if (power && *out >= ALIGNMENT_MIN && *out <= ALIGNMENT_MAX) return 0;
    return gguf_fail(r, AF_EFORMAT, "key general.alignment: %llu, allowed a power of two from %d to %u",
                     (unsigned long long)*out, ALIGNMENT_MIN, ALIGNMENT_MAX);
}

static int take_dims(gguf_reader *r, af_tensor *t) {
    int status = gguf_take_u32(r, "its number of dimensions", &t->n_dims);
    if (status) return status;
    if (t->n_dims < 1 || t->n_dims > DIMS_MAX)
        return gguf_fail(r, AF_EFORMAT, "%u dimensions, allowed 1 to %d", t->n_dims, DIMS_MAX);
    t->elements = 1;
    for (uint32_t i = 0; i < DIMS_MAX; i++) {
        t->dims[i] = 1;
        if (i < t->n_dims) status = gguf_take_u64(r, "its dimensions", &t->dims[i]);
        if (status) return status;
        if (t->dims[i] < 1) return gguf_fail(r, AF_EFORMAT, "dimension %u is 0, allowed 1 and more", i);
        if (t->dims[i] > (uint64_t)INT64_MAX / t->elements)
            return gguf_fail(r, AF_EFORMAT, "its dimensions multiply to more than 2^63 elements (dimension %u is %llu)",
                             i, (unsigned long long)t->dims[i]);
        t->elements *= t->dims[i];
    }
    return 0;
}

static int take_format(gguf_reader *r, af_tensor *t) {
    uint32_t type;
    int status = gguf_take_u32(r, "its type", &type);
    if (status) return status;
    t->format = af_format_of(type);
    if (t->format) return 0;
    const char *name = af_type_name(type);
    if (af_type_removed(type))
        return gguf_fail(r, AF_EUNSUPPORTED, "type %s (%u) has been removed from the format; convert the model again",
                         name, type);
    if (name) return gguf_fail(r, AF_EUNSUPPORTED, "type %s (%u) is not one this build reads", name, type);
    return gguf_fail(r, AF_EFORMAT, "type %u is not known", type);
}

static int measure(const gguf_reader *r, af_tensor *t) {
    const af_format *f = t->format;
    if (t->dims[0] % f->block_elems)
        return gguf_fail(r, AF_EFORMAT, "rows of %llu elements, but %s has blocks of %u",
                         (unsigned long long)t->dims[0], f->name, f->block_elems);
    uint64_t blocks = t->elements / f->block_elems;
    if (blocks > (uint64_t)INT64_MAX / f->block_bytes)
        return gguf_fail(r, AF_EFORMAT, "%llu elements of %s are more than 2^63 bytes", (unsigned long long)t->elements,
                         f->name);
    t->bytes = blocks * f->block_bytes;
    return 0;
}

static int take_tensor(gguf_reader *r, uint64_t alignment, af_tensor *t, place *where) {
    int status = gguf_take_name(r, NAME_MAX_BYTES);
    if (!status) status = take_dims(r, t);
    if (!status) status = take_format(r, t);
    if (!status) status = measure(r, t);
    if (!status) status = gguf_take_u64(r, "its offset", &where->offset);
    if (status) return status;
    if (where->offset % alignment)
        return gguf_fail(r, AF_EFORMAT, "offset %llu, allowed multiples of the alignment %llu",
                         (unsigned long long)where->offset, (unsigned long long)alignment);
    t->name = r->name;
    where->bytes = t->bytes;
    where->tensor = t;
    return 0;
}

static int by_offset(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Every tensor ends within the data (`room` bytes) and before the next begins. Sorts the places. */
static int check_places(gguf_reader *r, place *places, uint64_t count, uint64_t room) {
    qsort(places, count, sizeof *places, by_offset);
    for (uint64_t i = 0; i < count; i++) {
        const place *here = &places[i];
        r->item = "tensor";
        r->name = here->tensor->name;
        if (here->offset > room || here->bytes > room - here->offset)
            return gguf_fail(
                r, AF_EFORMAT, "offset %llu and %llu bytes, but the file has %llu bytes of tensor data (cut short?)",
                (unsigned long long)here->offset, (unsigned long long)here->bytes, (unsigned long long)room);
        if (i + 1 < count && places[i + 1].offset - here->offset < here->bytes)
            return gguf_fail(r, AF_EFORMAT, "overlaps tensor %.*s: ends at offset %llu, which begins at %llu",
                             (int)places[i + 1].tensor->name.n, places[i + 1].tensor->name.p,
                             (unsigned long long)(here->offset + here->bytes),
                             (unsigned long long)places[i + 1].offset);
    }
    return 0;
}

/* Where the data begins: the end of the list, rounded up. It may lie past the file's end if there are no tensors. */
static uint64_t data_start(const gguf_reader *r, uint64_t alignment) {
    uint64_t start = (r->at + alignment - 1) / alignment * alignment; /* both far below 2^63 */
    return start < r->size ? start : r->size;
}

static int read_list(gguf_reader *r, gguf_shard *shard, uint64_t alignment, place *places) {
    uint64_t count = shard->tensor_count;
    for (uint64_t i = 0; i < count; i++) {
        gguf_item(r, "tensor", i, count);
        int status = take_tensor(r, alignment, &shard->tensors[i], &places[i]);
        if (status) return status;
    }
    r->item = NULL;
    uint64_t start = data_start(r, alignment);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = places[i].offset < r->size ? places[i].offset : 0; /* check_places refuses the others */
        shard->tensors[i].data = r->p + start + (offset <= r->size - start ? offset : 0);
    }
    return check_places(r, places, count, r->size - start);
}

int gguf_read_tensors(gguf_reader *r, af_arena *arena, gguf_shard *shard) {
    uint64_t alignment, count = shard->tensor_count;
    int status = read_alignment(r, shard, &alignment);
    if (!status) status = gguf_check_count(r, count, TENSOR_MIN, TENSORS_MAX, "tensors");
    if (status) return status;
    shard->tensors = af_arena_array(arena, count, sizeof *shard->tensors);
    place *places = calloc(count ? count : 1, sizeof *places);
    status = shard->tensors && places ? read_list(r, shard, alignment, places)
                                      : af_fail_memory(r->error, count * sizeof *shard->tensors, r->path);
    free(places);
    return status;
}
