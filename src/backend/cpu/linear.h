/* linear.h - matrices packed for this machine, and their product with a batch of tokens: the CPU's hot path.
 *
 * A matrix is packed once at load into panels of AF_PANEL rows, quants interleaved so that one vector holds the same
 * columns of all rows of a panel: a row is a lane, sums run down the columns in one fixed order, nothing is reduced
 * across lanes. Activations are quantized once for all matrices that share them. For one (row, token) the sequence of
 * integer and float operations is the same in every kernel, the scalar reference included: results are equal bit for
 * bit whatever the instruction set, the number of tokens or the split of panels over threads.
 *
 * In exact mode nothing is packed or rounded: rows are decoded to f32 and multiplied in f32.
 */
#ifndef AF_CPU_LINEAR_H
#define AF_CPU_LINEAR_H

#include "base/pool.h"
#include "quant/quant.h"

#define AF_PANEL 16

/* The instruction sets that this executable has kernels for, each with all that those before it have. */
typedef enum af_isa {
    AF_ISA_SCALAR,
#if defined(__x86_64__)
    AF_ISA_AVX2,
    AF_ISA_AVX512, /* F, BW, VL, DQ, VNNI */
    AF_ISA_AMX,    /* and int8 tiles */
#elif defined(__aarch64__)
    AF_ISA_NEON,    /* which every such processor has */
    AF_ISA_DOTPROD, /* and dots of 4 bytes */
    AF_ISA_I8MM,    /* and 2 x 8 by 8 x 2 products of bytes */
#endif
} af_isa;
af_isa af_cpu_isa(void);             /* the best this machine has; AF_CPU_ISA=NAME, or how a name begins, lowers it */
const char *af_isa_name(af_isa isa); /* "avx512-vnni" */

typedef struct af_packed af_packed;

/* Matrices packed into one region of memory in the order given, so that large pages hold them all and a token's way
 * through the layers reads it from front to end. */
typedef struct af_packed_set af_packed_set;

/* Packs with the pool's threads, and releases the mapped pages it read (af_os_release). In exact mode keeps pointing at
 * each w->data. `progress` (or NULL) is called on this thread with the fraction done. */
int af_packed_set_open(af_pool *pool, const af_matrix *w, size_t count, bool exact, af_isa isa,
                       void (*progress)(void *user, double fraction), void *user, af_packed_set **out, af_error *error);
void af_packed_set_close(af_packed_set *set);
const af_packed *af_packed_at(const af_packed_set *set, size_t i); /* lives as long as the set */

uint32_t af_packed_rows(const af_packed *packed);
uint32_t af_packed_panels(const af_packed *packed); /* ceil(rows / AF_PANEL) */
uint64_t af_packed_bytes(const af_packed *packed);
bool af_packed_wants_int8(const af_packed *packed); /* false: it multiplies the f32 activations */

/* A batch of activations. x is the caller's; the rest is memory for the int8 form, allocated once at load. */
typedef struct af_acts af_acts;
int af_acts_open(uint32_t max_tokens, uint32_t max_width, af_acts **out, af_error *error);
void af_acts_close(af_acts *acts);
/* Points at x (tokens rows of width floats, `stride` floats apart) and forgets what was quantized. `fine` asks for 11
 * bits in place of 8: twice the products of bytes (tiles of short codes: no more), and the room of two tokens for each.
 * Meant for the head, whose rounding nothing averages out before it is seen: in SmolLM2 it is two fifths of all
 * divergence from exact. */
void af_acts_set(af_acts *acts, const float *x, size_t stride, uint32_t tokens, uint32_t width, bool fine);
/* What a matrix needs of rounded activations (layout.h, af_needs). */
uint32_t af_packed_needs(const af_packed *packed);
/* After af_acts_set: that of all matrices to come. Until it is said, whatever any may need is made. */
void af_acts_need(af_acts *acts, uint32_t needs);
/* Quantizes rows token_begin .. token_end - 1 to int8 (call from pool tasks, disjoint ranges). */
void af_acts_quantize(af_acts *acts, af_isa isa, uint32_t token_begin, uint32_t token_end);
/* The same for some columns, multiples of 32, of some tokens, from where they lie: x is their first. */
typedef struct af_acts_part {
    const float *x;
    size_t stride;
    uint32_t token_begin, token_end, column_begin, column_end;
} af_acts_part;
void af_acts_quantize_part(const af_acts *acts, af_isa isa, const af_acts_part *part);

/* out[t * stride + r] = (W x_t)[r] for the rows of panels panel_begin .. panel_end - 1 and all tokens of acts. Rows
 * past w->rows are not written. Call from pool tasks, disjoint ranges. `scratch` is a worker's own,
 * af_linear_scratch_bytes() large, 64-byte aligned. */
size_t af_linear_scratch_bytes(const af_packed *packed);
void af_packed_multiply(const af_packed *packed, const af_acts *acts, uint32_t panel_begin, uint32_t panel_end,
                        float *out, size_t stride, void *scratch);

#define AF_LANES 16
/* Where a part of the products goes: token `first`'s row of panel `panel`. */
typedef struct af_product_place {
    float *out;
    size_t stride;
    uint32_t first, panel;
} af_product_place;
/* The same for tokens begin .. end - 1 alone; begin is a multiple of AF_LANES. */
void af_packed_multiply_some(const af_packed *packed, const af_acts *acts, uint32_t begin, uint32_t end,
                             uint32_t panel_begin, uint32_t panel_end, const af_product_place *to, void *scratch);

#endif
