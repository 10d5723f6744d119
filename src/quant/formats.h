/* formats.h - each format's row of the table, defined in the file named after it. Used inside src/quant only. */
#ifndef AF_QUANT_FORMATS_H
#define AF_QUANT_FORMATS_H

#include "quant/quant.h"

extern const af_format af_format_f32, af_format_f16, af_format_bf16;
extern const af_format af_format_q4_0, af_format_q4_1, af_format_q5_0, af_format_q5_1, af_format_q8_0;
extern const af_format af_format_q2_k, af_format_q3_k, af_format_q4_k, af_format_q5_k, af_format_q6_k;
extern const af_format af_format_iq4_nl, af_format_iq4_xs, af_format_mxfp4;

#endif
