/* options.c - arguments and variables to values, through the table. What is wrong is said with the option's own name,
 * what was found and what is allowed; a mistyped name gets the nearest one that exists. */
#include "cli/options_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LENGTH 64 /* of words compared for a suggestion */
#define TOO_FAR         3  /* edits between two words that are no longer near */

/* ---- Near names ---- */

static size_t smallest(size_t a, size_t b, size_t c) {
    const size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edit distance: insertions, deletions, substitutions and swaps of neighbours each count one. Three rows suffice. */
static size_t distance(const char *a, const char *b) {
    const size_t n = strlen(b);
    size_t rows[3][NAME_MAX_LENGTH + 1];
    size_t *before = rows[0], *previous = rows[1], *current = rows[2];
    for (size_t j = 0; j <= n; j++) previous[j] = before[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        current[0] = i;
        for (size_t j = 1; j <= n; j++) {
            const size_t cost = a[i - 1] != b[j - 1];
            current[j] = smallest(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + cost);
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < current[j]) current[j] = before[j - 2] + 1;
        }
        size_t *const free_row = before;
        before = previous;
        previous = current;
        current = free_row;
    }
    return previous[n];
}

const char *shimmy_nearest(const char *word, const char *(*candidate)(const void *user, size_t index),
                           const void *user) {
    if (strlen(word) > NAME_MAX_LENGTH) return NULL;
    const char *best = NULL;
    size_t best_distance = TOO_FAR;
    const char *name;
    for (size_t i = 0; (name = candidate(user, i)) != NULL; i++) {
        if (!*name || strlen(name) > NAME_MAX_LENGTH) continue;
        /* Half a word changed is another word; a word begun (--max for --max-tokens) is near whatever its length. */
        const size_t length = strlen(word);
        const bool begun = length >= 3 && strncmp(name, word, length) == 0;
        const size_t d = begun ? 1 : distance(word, name);
        if (d < best_distance && (begun || 2 * d <= length)) {
            best = name;
            best_distance = d;
        }
    }
    return best;
}

static const char *option_name(const void *user, size_t index) {
    const shimmy_command *command = user;
    const shimmy_option *option = &shimmy_option_table[index];
    if (!option->name) return NULL;
    return option->commands & command->bit ? option->name : "";
}

/* ---- One value ---- */

static int set_number(const shimmy_option *option, const char *shown, const char *text, void *field, af_error *error) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    const bool number = *text && !*end && (*text == '-' || (*text >= '0' && *text <= '9'));
    if (!number || errno == ERANGE || (double)value < option->low || (double)value > option->high)
        return af_fail(error, SHIMMY_USAGE, "%s: found '%s', allowed: a whole number from %.0f to %.0f", shown, text,
                       option->low, option->high);
    *(int64_t *)field = value;
    return 0;
}

static int set_real(const shimmy_option *option, const char *shown, const char *text, void *field, af_error *error) {
    char *end;
    const double value = strtod(text, &end);
    if (!*text || *end || !isfinite(value) || value < option->low || value > option->high)
        return af_fail(error, SHIMMY_USAGE, "%s: found '%s', allowed: a number from %g to %g", shown, text, option->low,
                       option->high);
    *(double *)field = value;
    return 0;
}

static int set_choice(const shimmy_option *option, const char *shown, const char *text, void *field, af_error *error) {
    for (const char *p = option->choices; *p; p += *p == '|') {
        const size_t n = strcspn(p, "|");
        if (strlen(text) == n && memcmp(p, text, n) == 0) {
            *(const char **)field = text;
            return 0;
        }
        p += n;
    }
    return af_fail(error, SHIMMY_USAGE, "%s: found '%s', allowed: %s", shown, text, option->choices);
}

static int add_stop(const char *text, shimmy_options *out, af_error *error) {
    if (!*text) return af_fail(error, SHIMMY_USAGE, "--stop: found an empty text, allowed: at least one character");
    if (out->stop_count == SHIMMY_MAX_STOPS)
        return af_fail(error, SHIMMY_USAGE, "--stop: given more than %d times", SHIMMY_MAX_STOPS);
    out->stops[out->stop_count++] = text;
    return 0;
}

/* A flag's variable is set unless it says "" or "0". `shown` names the option or the variable in errors. */
static int set_value(const shimmy_option *option, const char *shown, const char *text, shimmy_options *out,
                     af_error *error) {
    void *const field = (char *)out + option->offset;
    switch (option->kind) {
    case SHIMMY_FLAG:
        *(bool *)field = !text || strcmp(text, "0") != 0;
        return 0;
    case SHIMMY_TEXT:
        *(const char **)field = text;
        return 0;
    case SHIMMY_CHOICE:
        return set_choice(option, shown, text, field, error);
    case SHIMMY_NUMBER:
        return set_number(option, shown, text, field, error);
    case SHIMMY_REAL:
        return set_real(option, shown, text, field, error);
    case SHIMMY_STOPS:
        return add_stop(text, out, error);
    }
    return 0;
}

/* ---- The whole line ---- */

typedef struct parser {
    const shimmy_command *command;
    char **arguments;
    int count, at;
    bool given[SHIMMY_OPTIONS_MOST]; /* each row of the table */
    size_t taken;                    /* arguments that are no options */
    shimmy_options *out;
    af_error *error;
} parser;

static const shimmy_option *find_option(const shimmy_command *command, const char *name, size_t length) {
    for (const shimmy_option *o = shimmy_option_table; o->name; o++)
        if (o->commands & command->bit && strncmp(o->name, name, length) == 0 && !o->name[length]) return o;
    return NULL;
}

static int unknown_option(const parser *p, const char *argument, const char *name) {
    const char *near = shimmy_nearest(name, option_name, p->command);
    if (near) return af_fail(p->error, SHIMMY_USAGE, "unknown option %s; did you mean --%s?", argument, near);
    return af_fail(p->error, SHIMMY_USAGE, "unknown option %s%s", argument,
                   strchr(p->command->arguments, ' ') ? " (text that begins with a dash goes after --)" : "");
}

/* --name, --name=value or --name value; `argument` begins with a dash. */
static int parse_option(parser *p, const char *argument) {
    const bool shortened = strcmp(argument, "-h") == 0;
    const char *name = shortened ? "help" : argument + strspn(argument, "-");
    const char *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const shimmy_option *option = argument[1] == '-' || shortened ? find_option(p->command, name, length) : NULL;
    if (!option) return unknown_option(p, argument, name);

    char shown[NAME_MAX_LENGTH];
    snprintf(shown, sizeof shown, "--%s", option->name);
    const char *value = equals ? equals + 1 : NULL;
    if (option->kind == SHIMMY_FLAG) {
        if (value) return af_fail(p->error, SHIMMY_USAGE, "%s takes no value, found '%s'", shown, value);
    } else if (!value) {
        if (p->at == p->count) return af_fail(p->error, SHIMMY_USAGE, "%s needs a value: %s", shown, option->value);
        value = p->arguments[p->at++];
    }
    p->given[option - shimmy_option_table] = true;
    return set_value(option, shown, value, p->out, p->error);
}

/* Words of "MODEL [TEXT|-]": how many there may be, how many there must be. */
static void count_arguments(const char *spec, size_t *least, size_t *most) {
    *least = *most = 0;
    for (const char *p = spec; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
        *most += 1;
        *least += *p != '[';
    }
}

static int take_argument(parser *p, const char *argument, size_t most) {
    if (p->taken == most)
        return af_fail(p->error, SHIMMY_USAGE, "%s: unexpected argument '%s'", p->command->name, argument);
    p->out->arguments[p->taken++] = argument;
    return 0;
}

static int apply_variables(const parser *p) {
    for (size_t i = 0; shimmy_option_table[i].name; i++) {
        const shimmy_option *option = &shimmy_option_table[i];
        const bool wanted = option->variable && option->commands & p->command->bit && !p->given[i];
        const char *text = wanted ? getenv(option->variable) : NULL;
        if (!text || !*text) continue;
        const int status = set_value(option, option->variable, text, p->out, p->error);
        if (status) return status;
    }
    return 0;
}

static shimmy_options no_options(void) {
    return (shimmy_options){
        .ctx = SHIMMY_UNSET,
        .parallel = SHIMMY_UNSET,
        .queue = SHIMMY_UNSET,
        .threads = SHIMMY_UNSET,
        .prefill_chunk = SHIMMY_UNSET,
        .n_cpu_moe = SHIMMY_UNSET,
        .max_body = SHIMMY_UNSET,
        .models_max = SHIMMY_UNSET,
        .load_timeout = SHIMMY_UNSET,
        .model_idle = SHIMMY_UNSET,
        .max_tokens = -1,
        .seed = -1,
        .top_k = SHIMMY_UNSET,
        .temperature = NAN,
        .top_p = NAN,
        .min_p = NAN,
        .repeat_penalty = NAN,
        .prompt_tokens = 512,
        .gen_tokens = 128,
        .runs = 3,
    };
}

int shimmy_options_parse(const shimmy_command *command, int count, char **arguments, shimmy_options *out,
                         af_error *error) {
    *out = no_options();
    parser p = {.command = command, .arguments = arguments, .count = count, .out = out, .error = error};
    size_t least, most;
    count_arguments(command->arguments, &least, &most);
    bool options_over = false;
    while (p.at < p.count) {
        const char *argument = p.arguments[p.at++];
        int status = 0;
        if (options_over || argument[0] != '-' || !argument[1])
            status = take_argument(&p, argument, most);
        else if (strcmp(argument, "--") == 0)
            options_over = true;
        else
            status = parse_option(&p, argument);
        if (status) return status;
    }
    if (out->help) return 0;
    if (p.taken < least) return af_fail(error, SHIMMY_USAGE, "%s needs: %s", command->name, command->arguments);
    return apply_variables(&p);
}
