/* quant.c - the table of formats, and the names of all type ids that GGUF has given out. */
#include "quant/quant.h"

#include "quant/formats.h"

static const af_format *const formats[] = {
    &af_format_f32,   &af_format_f16,     &af_format_bf16,   &af_format_q4_0,   &af_format_q4_1,
    &af_format_q5_0,  &af_format_q5_1,    &af_format_q8_0,   &af_format_q2_k,   &af_format_q3_k,
    &af_format_q4_k,  &af_format_q5_k,    &af_format_q6_k,   &af_format_iq4_nl, &af_format_iq4_xs,
    &af_format_mxfp4, &af_format_iq2_xxs, &af_format_iq2_xs, &af_format_iq2_s,  &af_format_iq3_xxs,
    &af_format_iq3_s, &af_format_iq1_s,   &af_format_iq1_m,  &af_format_tq1_0,  &af_format_tq2_0,
};

/* Ids as in ggml's ggml_type; those it has removed keep their number and are never used again. */
static const char *const names[] = {
    [0] = "F32",         [1] = "F16",         [2] = "Q4_0",        [3] = "Q4_1",      [4] = "Q4_2",     [5] = "Q4_3",
    [6] = "Q5_0",        [7] = "Q5_1",        [8] = "Q8_0",        [9] = "Q8_1",      [10] = "Q2_K",    [11] = "Q3_K",
    [12] = "Q4_K",       [13] = "Q5_K",       [14] = "Q6_K",       [15] = "Q8_K",     [16] = "IQ2_XXS", [17] = "IQ2_XS",
    [18] = "IQ3_XXS",    [19] = "IQ1_S",      [20] = "IQ4_NL",     [21] = "IQ3_S",    [22] = "IQ2_S",   [23] = "IQ4_XS",
    [24] = "I8",         [25] = "I16",        [26] = "I32",        [27] = "I64",      [28] = "F64",     [29] = "IQ1_M",
    [30] = "BF16",       [31] = "Q4_0_4_4",   [32] = "Q4_0_4_8",   [33] = "Q4_0_8_8", [34] = "TQ1_0",   [35] = "TQ2_0",
    [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8", [39] = "MXFP4",    [40] = "NVFP4",   [41] = "Q1_0",
};

const af_format *af_format_at(size_t index) {
    return index < sizeof formats / sizeof *formats ? formats[index] : NULL;
}

const af_format *af_format_of(uint32_t type) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if ((uint32_t)formats[i]->type == type) return formats[i];
    return NULL;
}

const char *af_type_name(uint32_t type) {
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

bool af_type_removed(uint32_t type) {
    return type == 4 || type == 5 || (type >= 31 && type <= 33) || (type >= 36 && type <= 38);
}
