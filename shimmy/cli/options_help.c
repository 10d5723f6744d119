/* options_help.c - a command's --help, printed from the options' table within 80 columns. */
#include "cli/options_table.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 79
#define INDENT  28 /* where an option's explanation begins */

/* Prints words from column `indent`, where the cursor is, going on there in further lines. */
static void wrap(const char *text, size_t indent) {
    size_t at = indent;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        const size_t word = strcspn(text, " ");
        if (at > indent && at + 1 + word > COLUMNS) {
            printf("\n%*s", (int)indent, "");
            at = indent;
        }
        at += (size_t)printf(at > indent ? " %.*s" : "%.*s", (int)word, text);
        text += word;
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
    wrap(help, INDENT);
}

void shimmy_options_help(const shimmy_command *command) {
    printf("usage: shimmy %s%s%s [OPTION]...\n\n", command->name, *command->arguments ? " " : "", command->arguments);
    wrap(command->summary, 0);
    printf("%s%s\n", *command->details ? "\n" : "", command->details);
    for (const shimmy_option *o = shimmy_option_table; o->name; o++)
        if (o->commands & command->bit) print_option(o);
}
