/* options_table.h - a row of the options' table, shared by the parser (options.c) and its help (options_help.c). */
#ifndef SHIMMY_OPTIONS_TABLE_H
#define SHIMMY_OPTIONS_TABLE_H

#include "cli/options.h"

enum { SHIMMY_OPTIONS_MOST = 128 };

typedef enum shimmy_option_kind {
    SHIMMY_FLAG,   /* bool */
    SHIMMY_TEXT,   /* const char * */
    SHIMMY_CHOICE, /* const char *, one of `choices` */
    SHIMMY_NUMBER, /* int64_t within low..high */
    SHIMMY_REAL,   /* double within low..high */
    SHIMMY_STOPS   /* given again and again: stops[] */
} shimmy_option_kind;

typedef struct shimmy_option {
    const char *name; /* without its dashes */
    shimmy_option_kind kind;
    const char *value;    /* what the help calls its value; NULL for flags */
    const char *variable; /* environment variable that stands in for it, or NULL */
    size_t offset;        /* of its field in shimmy_options */
    double low, high;     /* exact for every bound in the table: all are below 2^53 */
    const char *choices;  /* "f16|f32" */
    unsigned commands;    /* those that have it */
    const char *help;
} shimmy_option;

/* Ends with a row whose name is NULL. */
extern const shimmy_option shimmy_option_table[];

#endif
