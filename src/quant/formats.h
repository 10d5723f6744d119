/* formats.h - each format's row of the table, defined in the file named after it. Used inside src/quant only. */
#ifndef AF_QUANT_FORMATS_H
#define AF_QUANT_FORMATS_H

#include "quant/quant.h"

extern const af_format af_format_f32, af_format_f16, af_format_bf16;
extern const af_format af_format_q4_0, af_format_q4_1, af_format_q5_0, af_format_q5_1, af_format_q8_0;
extern const af_format af_format_q2_k, af_format_q3_k, af_format_q4_k, af_format_q5_k, af_format_q6_k;
extern const af_format af_format_iq4_nl, af_format_iq4_xs, af_format_mxfp4;
extern const af_format af_format_iq2_xxs, af_format_iq2_xs, af_format_iq2_s, af_format_iq3_xxs, af_format_iq3_s;
extern const af_format af_format_iq1_s, af_format_iq1_m, af_format_tq1_0, af_format_tq2_0;

#endif
