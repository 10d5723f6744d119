/* options_help.c - a command's --help, printed from the options' table within 80 columns. */
#include "cli/options_table.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 80
#define INDENT  28 /* where an option's explanation begins */

/* Prints words from column `at`, going on at column `indent` in further lines. */
static void wrap(const char *text, size_t at, size_t indent) {
    while (*text) {
        const size_t word = strcspn(text, " ");
        if (at + word > COLUMNS - 1 && at > indent) {
            printf("\n%*s", (int)indent, "");
            at = indent;
        }
        printf("%.*s", (int)word, text);
        at += word;
        text += word;
        if (*text == ' ') {
            if (at < COLUMNS - 1) putchar(' ');
            at++;
            text++;
        }
    }
    putchar('\n');
}

static void print_option(const shimmy_option *option) {
    char left[128], help[512];
    const bool named = option->value != NULL;
    const int n = snprintf(left, sizeof left, "  --%s%s%s", option->name, named ? " " : "", named ? option->value : "");
    snprintf(help, sizeof help, "%s%s%s%s", option->help, option->variable ? " [" : "",
             option->variable ? option->variable : "", option->variable ? "]" : "");
    const size_t width = (size_t)n;
    if (width + 2 > INDENT)
        printf("%s\n%*s", left, INDENT, "");
    else
        printf("%-*s", INDENT, left);
    wrap(help, INDENT, INDENT);
}

void shimmy_options_help(const shimmy_command *command) {
    printf("usage: shimmy %s%s%s [OPTION]...\n\n", command->name, *command->arguments ? " " : "", command->arguments);
    wrap(command->summary, 0, 0);
    printf("%s%s\n", *command->details ? "\n" : "", command->details);
    for (const shimmy_option *o = shimmy_option_table; o->name; o++)
        if (o->commands & command->bit) print_option(o);
}
