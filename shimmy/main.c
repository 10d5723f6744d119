/* main.c - the program's table of commands, its help, and the one place where results become exit codes:
 * 0 done, 1 failed with one line on standard error, 2 wrong usage. */
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

#include <stdio.h>
#include <string.h>

static const shimmy_command commands[] = {
    {"serve", SHIMMY_SERVE, "", "Serve models over HTTP, with OpenAI's API.",
     "Prints one line when ready: shimmy: listening on http://HOST:PORT\n"
     "With --model-path one model; without, all that `shimmy list` shows, in turns.\n"
     "SIGTERM and Ctrl-C let running requests finish for up to 30 seconds.\n",
     shimmy_cmd_serve},
    {"generate", SHIMMY_GENERATE, "MODEL", "Print a model's answer to one prompt, as it comes.", "",
     shimmy_cmd_generate},
    {"list", SHIMMY_LIST, "", "List the models that a server here would offer.",
     "A line each: name, size, architecture, quantization.\n", shimmy_cmd_list},
    {"discover", SHIMMY_DISCOVER, "", "Show every place models are looked for, and what was passed over.", "",
     shimmy_cmd_discover},
    {"probe", SHIMMY_PROBE, "MODEL", "Open a model file fully and describe it.", "", shimmy_cmd_probe},
    {"bench", SHIMMY_BENCH, "MODEL", "Measure loading, prompt and decoding speed, and memory.", "", shimmy_cmd_bench},
    {"tokenize", SHIMMY_TOKENIZE, "MODEL [TEXT|-]", "Text to token ids, a JSON array.",
     "With neither flag the ids are those of the text alone. - reads raw bytes from\n"
     "standard input. A file with a vocabulary and no tensors will do.\n",
     shimmy_cmd_tokenize},
    {"detokenize", SHIMMY_DETOKENIZE, "MODEL IDS|-", "Token ids to the bytes they stand for.",
     "IDS are apart by commas or white space; a JSON array will do.\n", shimmy_cmd_detokenize},
    {"render", SHIMMY_RENDER, "[MODEL]", "A chat request to the prompt that a model sees, exactly.", "",
     shimmy_cmd_render},
    {"logits", SHIMMY_LOGITS, "MODEL", "Print rows of logits, a JSON line a position.", "", shimmy_cmd_logits},
    {"perplexity", SHIMMY_PERPLEXITY, "MODEL", "Measure how likely a model finds a sequence of tokens.", "",
     shimmy_cmd_perplexity},
    {"verify", SHIMMY_VERIFY, "MODEL", "Compare a device's arithmetic with a file's exact answer.",
     "Every weight format, every operation of the forward pass, then logits: a table\n"
     "of what was compared, the errors and what is allowed. Exit 1 on any excess.\n",
     shimmy_cmd_verify},
    {"gpu-info", SHIMMY_GPU_INFO, "", "List the GPUs and what each can do for shimmy.", "", shimmy_cmd_gpu_info},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static const shimmy_command *find_command(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static const char *command_name(const void *user, size_t index) {
    (void)user;
    return index < COMMAND_COUNT ? commands[index].name : NULL;
}

static void print_help(void) {
    fputs("usage: shimmy COMMAND [OPTION]...\n\n"
          "Runs language models in GGUF files and serves them with OpenAI's API.\n\n",
          stdout);
    for (size_t i = 0; i < COMMAND_COUNT; i++) printf("  %-12s%s\n", commands[i].name, commands[i].summary);
    fputs("\n`shimmy help COMMAND` lists a command's options; `shimmy --version` the version.\n"
          "MODEL is a file's path or a name that `shimmy list` shows. Results go to\n"
          "standard output, all else to standard error. Exit codes: 0 done, 1 failed,\n"
          "2 usage.\n",
          stdout);
}

static int usage(const char *message, const char *help) {
    shimmy_note("%s", message);
    shimmy_note("try `shimmy %s`", help);
    return 2;
}

static int unknown_command(const char *name) {
    af_error error;
    const char *near = shimmy_nearest(name, command_name, NULL);
    if (near)
        af_fail(&error, SHIMMY_USAGE, "unknown command %s; did you mean %s?", name, near);
    else
        af_fail(&error, SHIMMY_USAGE, "unknown command %s", name);
    return usage(error.text, "--help");
}

static int help(const char *name) {
    const shimmy_command *command = name ? find_command(name) : NULL;
    if (name && !command) return unknown_command(name);
    if (command)
        shimmy_options_help(command);
    else
        print_help();
    return 0;
}

static int run(const shimmy_command *command, int count, char **arguments) {
    shimmy_options options;
    af_error error = {0};
    int status = shimmy_options_parse(command, count, arguments, &options, &error);
    if (!status && options.help) return help(command->name);
    if (!status) status = command->run(&options, &error);
    if (!status) return 0;
    if (status == SHIMMY_USAGE) {
        char hint[64];
        snprintf(hint, sizeof hint, "%s --help", command->name);
        return usage(error.text, hint);
    }
    shimmy_note("%s", error.text);
    return 1;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) return usage("a command is missing", "--help");
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return help(NULL);
    if (strcmp(word, "help") == 0) return help(argc > 2 ? argv[2] : NULL);
    if (strcmp(word, "--version") == 0) {
        printf("shimmy %s\n", af_version());
        return 0;
    }
    const shimmy_command *command = find_command(word);
    return command ? run(command, argc - 2, argv + 2) : unknown_command(word);
}

int main(int argc, char **argv) {
    const int code = dispatch(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    shimmy_note("standard output: cannot be written");
    return code ? code : 1;
}
