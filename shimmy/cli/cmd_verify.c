/* cmd_verify.c - `shimmy verify`: a device's arithmetic beside the file's exact answer, as a table.
 *
 * Rows are printed as they come, a mode at a time: a large model takes minutes.
 */
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Rows ---- */

static json_t *row_json(const af_verify_row *r) {
    return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:b, s:o}", "mode", r->mode, "what", r->what, "format",
                     r->format, "compared", (json_int_t)r->compared, "rms", shimmy_json_real(r->rms), "rms_allowed",
                     shimmy_json_real(r->rms_allowed), "largest", shimmy_json_real(r->largest), "largest_allowed",
                     shimmy_json_real(r->largest_allowed), "excess", r->excess, "where", shimmy_json_string(r->where));
}

static void keep_row(void *user, const af_verify_row *row) {
    json_array_append_new(user, row_json(row));
}

static void print_row(void *user, const af_verify_row *r) {
    bool *headed = user;
    if (!*headed)
        printf("%-6s%-11s%-7s%12s  %9s %8s  %9s %8s\n", "mode", "what", "format", "compared", "rms", "allowed",
               "largest", "allowed");
    *headed = true;
    printf("%-6s%-11s%-7s%12" PRIu64 "  %9.2g %8.2g  %9.2g %8.2g%s%s\n", r->mode, r->what, r->format, r->compared,
           r->rms, r->rms_allowed, r->largest, r->largest_allowed, r->excess ? "  EXCESS: " : "",
           r->excess ? r->where : "");
    fflush(stdout);
}

/* ---- The command ---- */

static int print_result(const shimmy_options *options, json_t *rows, const af_verify_result *result, af_error *error) {
    if (options->json)
        return shimmy_print_json(json_pack("{s:O, s:o, s:o, s:i}", "rows", rows, "device",
                                           shimmy_json_string(result->device), "passed_over",
                                           *result->passed ? shimmy_json_string(result->passed) : json_null(),
                                           "excesses", (int)result->excesses),
                                 error);
    printf("device: %s\n", result->device);
    if (*result->passed) printf("passed over: exact mode: %s\n", result->passed);
    return 0;
}

static int verify(const shimmy_options *options, const af_model *model, af_error *error) {
    af_engine_options engine;
    af_verify_options verify = af_verify_options_default();
    af_verify_result result;
    int status = shimmy_engine_options(options, 1, &engine, error);
    if (status) return status;
    verify.device = engine.device;
    verify.threads = engine.threads;
    verify.kv = engine.kv;
    bool headed = false;
    json_t *rows = json_array();
    status = options->json ? af_verify(model, &verify, keep_row, rows, &result, error)
                           : af_verify(model, &verify, print_row, &headed, &result, error);
    if (!status) status = print_result(options, rows, &result, error);
    json_decref(rows);
    if (status || !result.excesses) return status;
    return af_fail(error, AF_EFORMAT, "verify: %u of the errors are larger than allowed", result.excesses);
}

int shimmy_cmd_verify(const shimmy_options *options, af_error *error) {
    shimmy_session session;
    int status = shimmy_session_model(options, options->arguments[0], AF_LOAD_MODEL, &session, error);
    if (status) return status;
    status = verify(options, session.model, error);
    shimmy_session_close(&session);
    return status;
}
