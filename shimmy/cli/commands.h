/* commands.h - one function a command, each in its own cmd_*.c; main.c's table lists them. */
#ifndef SHIMMY_COMMANDS_H
#define SHIMMY_COMMANDS_H

#include "cli/options.h"

int shimmy_cmd_serve(const shimmy_options *options, af_error *error);
int shimmy_cmd_generate(const shimmy_options *options, af_error *error);
int shimmy_cmd_list(const shimmy_options *options, af_error *error);
int shimmy_cmd_discover(const shimmy_options *options, af_error *error);
int shimmy_cmd_probe(const shimmy_options *options, af_error *error);
int shimmy_cmd_tokenize(const shimmy_options *options, af_error *error);
int shimmy_cmd_detokenize(const shimmy_options *options, af_error *error);
int shimmy_cmd_render(const shimmy_options *options, af_error *error);
int shimmy_cmd_logits(const shimmy_options *options, af_error *error);
int shimmy_cmd_perplexity(const shimmy_options *options, af_error *error);
int shimmy_cmd_bench(const shimmy_options *options, af_error *error);
int shimmy_cmd_gpu_info(const shimmy_options *options, af_error *error);
int shimmy_cmd_verify(const shimmy_options *options, af_error *error);

#endif
