/* openai_test.c - requests from JSON and answers to JSON, without a server. Each refusal is also asked for over HTTP in
 * server_openai_test.py; here are the values that do not show outside. */
#include "openai/fields.h"
#include "openai/request.h"
#include "openai/response.h"
#include "openai/write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

static const shimmy_request_limits limits = {
    .vocabulary = 100,
    .sampling = {.temperature = 0.7f, .top_p = 0.9f, .repeat_penalty = 1, .repeat_last_n = 64, .seed = AF_SEED_RANDOM},
};

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static shimmy_refusal refusal;

static int parse_bytes(const shimmy_request_limits *with, bool chat, const char *body, size_t n, shimmy_request *out) {
    json_t *json;
    memset(&refusal, 0, sizeof refusal);
    int rc = shimmy_parse_body(body, n, &json, &refusal);
    if (rc < 0) return rc;
    rc = shimmy_request_read(chat, json, with, out, &refusal);
    json_decref(json);
    return rc;
}

static int parse_with(const shimmy_request_limits *with, bool chat, const char *body, shimmy_request *out) {
    return parse_bytes(with, chat, body, strlen(body), out);
}

static shimmy_request parsed(const char *body) {
    shimmy_request request;
    if (parse_with(&limits, true, body, &request) < 0) fail_msg("%s: %s", body, refusal.message);
    return request;
}

static void refuses(bool chat, const char *body, const char *param) {
    shimmy_request request;
    if (parse_with(&limits, chat, body, &request) == 0) fail_msg("%s: accepted", body);
    assert_string_equal(refusal.param, param);
    assert_in_range(refusal.status, 400, 404);
}

static void defaults_come_from_the_model(void **state) {
    shimmy_request r = parsed("{" MESSAGES "}");
    assert_true(r.sampling.temperature == 0.7f && r.sampling.top_p == 0.9f && r.sampling.seed == AF_SEED_RANDOM);
    assert_true(r.max_tokens == -1 && r.n == 1 && !r.stream && !r.ignore_eos && r.stop_count == 0);
    assert_string_equal(r.render, "{" MESSAGES "}");
    shimmy_request_clear(&r);
    r = parsed("{" MESSAGES ",\"temperature\":null,\"seed\":null,\"max_tokens\":null,\"stream\":null,\"stop\":null}");
    assert_true(r.sampling.temperature == 0.7f && r.sampling.seed == AF_SEED_RANDOM && r.max_tokens == -1);
    shimmy_request_clear(&r);
}

static void every_sampling_field_is_read(void **state) {
    shimmy_request r =
        parsed("{" MESSAGES ",\"temperature\":1e6,\"top_k\":40,\"top_p\":0,\"min_p\":0.25,\"seed\":42,"
               "\"repeat_penalty\":1.5,\"repeat_last_n\":-1,\"presence_penalty\":-2,\"frequency_penalty\":2,"
               "\"ignore_eos\":true,\"max_tokens\":7.0,\"n\":4}");
    assert_true(r.sampling.temperature == 1e6f && r.sampling.top_k == 40 && r.sampling.min_p == 0.25f);
    assert_true(r.sampling.top_p == FLT_MIN); /* 0: the best token alone, and still within the engine's bounds */
    assert_true(r.sampling.repeat_penalty == 1.5f && r.sampling.repeat_last_n == -1);
    assert_true(r.sampling.presence_penalty == -2 && r.sampling.frequency_penalty == 2);
    assert_true(r.sampling.seed == 42 && r.ignore_eos && r.max_tokens == 7 && r.n == 4);
    shimmy_request_clear(&r);
    r = parsed("{" MESSAGES ",\"top_k\":-1,\"seed\":-1}");
    assert_true(r.sampling.top_k == 0 && r.sampling.seed == AF_SEED_RANDOM);
    shimmy_request_clear(&r);
}

static void the_seeds_penalties_become_one(void **state) {
    shimmy_request_limits compat = limits;
    compat.penalty_compat = true;
    shimmy_request r;
    assert_int_equal(parse_with(&compat, true, "{" MESSAGES ",\"presence_penalty\":0.5,\"frequency_penalty\":1}", &r),
                     0);
    assert_true(r.sampling.repeat_penalty == 1.5f && r.sampling.presence_penalty == 0 &&
                r.sampling.frequency_penalty == 0);
    shimmy_request_clear(&r);
    assert_int_equal(parse_with(&compat, true, "{" MESSAGES ",\"presence_penalty\":-1}", &r), 0);
    assert_true(r.sampling.repeat_penalty == 1);
    shimmy_request_clear(&r);
}

static void a_template_sees_its_fields_and_no_others(void **state) {
    shimmy_request r = parsed(
        "{\"model\":\"name:tag\",\"tools\":[{\"b\":1,\"a\":null}]," MESSAGES
        ",\"documents\":null,\"chat_template_kwargs\":{\"x\":true},\"add_generation_prompt\":false,\"user\":\"u\"}");
    assert_string_equal(r.render,
                        "{" MESSAGES ",\"tools\":[{\"b\":1,\"a\":null}],\"chat_template_kwargs\":{\"x\":true},"
                        "\"add_generation_prompt\":false}");
    shimmy_request_clear(&r);
    r = parsed("{\"tools\":[1]," MESSAGES ",\"tool_choice\":\"none\"}");
    assert_string_equal(r.render, "{" MESSAGES "}");
    shimmy_request_clear(&r);
    r = parsed("{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}]}");
    shimmy_request_clear(&r);
}

static void prompts_keep_their_order_and_kind(void **state) {
    shimmy_request r;
    assert_int_equal(parse_with(&limits, false, "{\"prompt\":[[1,99],\"x\\n\"],\"n\":2,\"echo\":true}", &r), 0);
    assert_true(r.prompt_count == 2 && r.n == 2 && r.echo);
    assert_true(r.prompts[0].count == 2 && r.prompts[0].ids[1] == 99 && !r.prompts[0].text);
    assert_true(r.prompts[1].length == 2 && strcmp(r.prompts[1].text, "x\n") == 0);
    shimmy_request_clear(&r);
    assert_int_equal(parse_with(&limits, false, "{\"prompt\":\"\"}", &r), 0);
    assert_true(r.prompt_count == 1 && r.prompts[0].text && r.prompts[0].length == 0);
    shimmy_request_clear(&r);
    refuses(false, "{\"prompt\":[1,100]}", "prompt[1]");
    refuses(false, "{\"prompt\":[[1],[2,true]]}", "prompt[1][1]");
    refuses(false, "{\"prompt\":[\"a\",\"b\"],\"n\":17}", "prompt");
    refuses(false, "{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix");
    refuses(false, "{\"prompt\":[\"a\",\"b\"],\"best_of\":17}", "prompt");
    refuses(false, "{\"prompt\":\"a\",\"best_of\":2,\"stream\":true}", "best_of");
    refuses(false, "{\"prompt\":\"a\",\"best_of\":2,\"n\":3}", "best_of");
}

static void stages_are_read_in_their_order(void **state) {
    shimmy_request r = parsed("{" MESSAGES ",\"samplers\":[\"top_k\",\"typ_p\",\"temperature\"]}");
    const uint8_t order[] = {AF_STAGE_TOP_K, AF_STAGE_TYPICAL_P, AF_STAGE_TEMPERATURE, AF_STAGE_END};
    assert_memory_equal(r.sampling.order, order, sizeof order);
    shimmy_request_clear(&r);
    refuses(true, "{" MESSAGES ",\"samplers\":\"kpt\"}", "samplers");
    refuses(true, "{" MESSAGES ",\"samplers\":[\"top_k\",\"top_k\"]}", "samplers[1]");
    refuses(true, "{" MESSAGES ",\"samplers\":[\"grammar\"]}", "samplers[0]");
}

static void biases_are_read_in_both_shapes(void **state) {
    shimmy_request r = parsed("{" MESSAGES ",\"logit_bias\":{\"5\":-100,\"99\":1.5}}");
    assert_int_equal(r.bias_count, 2);
    assert_true(r.bias[0].id == 5 && r.bias[0].value == -100 && r.bias[1].id == 99 && r.bias[1].value == 1.5f);
    shimmy_request_clear(&r);
    r = parsed("{" MESSAGES ",\"logit_bias\":[[7,false],[\"tea\",2]]}");
    assert_true(r.bias_count == 2 && r.bias[0].id == 7 && r.bias[0].value < -FLT_MAX);
    assert_true(strcmp(r.bias[1].text, "tea") == 0 && r.bias[1].length == 3 && r.bias[1].value == 2);
    shimmy_request_clear(&r);
    refuses(true, "{" MESSAGES ",\"logit_bias\":{\"100\":1}}", "logit_bias.100");
    refuses(true, "{" MESSAGES ",\"logit_bias\":{\"tea\":1}}", "logit_bias.tea");
    refuses(true, "{" MESSAGES ",\"logit_bias\":{\"1\":true}}", "logit_bias.1");
    refuses(true, "{" MESSAGES ",\"logit_bias\":[[1]]}", "logit_bias[0]");
    refuses(true, "{" MESSAGES ",\"logit_bias\":[[1.5,1]]}", "logit_bias[0]");
    refuses(true, "{" MESSAGES ",\"logit_bias\":\"5\"}", "logit_bias");
}

static void log_probabilities_are_asked_for_in_each_route_s_way(void **state) {
    shimmy_request r = parsed("{" MESSAGES ",\"logprobs\":true,\"top_logprobs\":3}");
    assert_int_equal(r.logprobs, 3);
    shimmy_request_clear(&r);
    r = parsed("{" MESSAGES ",\"logprobs\":false}");
    assert_int_equal(r.logprobs, -1);
    shimmy_request_clear(&r);
    assert_int_equal(parse_with(&limits, false, "{\"prompt\":\"a\",\"logprobs\":0}", &r), 0);
    assert_int_equal(r.logprobs, 0);
    shimmy_request_clear(&r);
    refuses(true, "{" MESSAGES ",\"top_logprobs\":3}", "top_logprobs");
    refuses(true, "{" MESSAGES ",\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs");
    refuses(true, "{" MESSAGES ",\"logprobs\":5}", "logprobs");
    refuses(false, "{\"prompt\":\"a\",\"logprobs\":21}", "logprobs");
    refuses(false, "{\"prompt\":\"a\",\"logprobs\":true}", "logprobs");
}

static void ends_and_breakers_are_read(void **state) {
    shimmy_request r =
        parsed("{" MESSAGES ",\"stop_token_ids\":[3,4],\"min_tokens\":7,\"n_keep\":9,\"dry_multiplier\":1}");
    assert_true(r.end_count == 2 && r.end_ids[1] == 4 && r.min_tokens == 7 && r.keep == 9 && r.breaker_count == 4);
    shimmy_request_clear(&r);
    r = parsed("{" MESSAGES ",\"dry_sequence_breakers\":[\"||\"],\"dry_multiplier\":1,\"dry_penalty_last_n\":0}");
    assert_true(r.breaker_count == 1 && strcmp(r.breakers[0], "||") == 0 && r.sampling.dry_multiplier == 0);
    shimmy_request_clear(&r);
    refuses(true, "{" MESSAGES ",\"stop_token_ids\":[100]}", "stop_token_ids[0]");
    refuses(true, "{" MESSAGES ",\"n_keep\":-1}", "n_keep");
    refuses(true, "{" MESSAGES ",\"min_tokens\":-1}", "min_tokens");
    refuses(true, "{" MESSAGES ",\"dry_sequence_breakers\":[1]}", "dry_sequence_breakers");
}

static void strings_are_escaped_and_made_valid(void **state) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *json;
    } rows[] = {
        {"a\"\\/\b\f\n\r\t\x01\x7f", 11, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\""},
        {"\0", 1, "\"\\u0000\""},
        {"\xC3\xA9\xF0\x9F\x8D\xB5", 6, "\"\xC3\xA9\xF0\x9F\x8D\xB5\""},
        {"\xC3", 1, "\"\xEF\xBF\xBD\""},
        {"a\xF0\x9F\x8D", 4, "\"a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xED\xA0\x80z", 4, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\""},
        {"", 0, "\"\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        af_buf out = {0};
        shimmy_write_string(&out, rows[i].bytes, rows[i].n);
        assert_string_equal(out.p, rows[i].json);
        af_buf_clear(&out);
    }
    af_buf out = {0};
    shimmy_write_string(&out, NULL, 0);
    assert_string_equal(out.p, "\"\"");
    af_buf_clear(&out);
}

/* Whatever an answer holds, it is JSON. */
static void answers_are_json(void **state) {
    char every_byte[256];
    for (int i = 0; i < 256; i++) every_byte[i] = (char)i;
    for (int chat = 0; chat < 2; chat++) {
        shimmy_answer_head head;
        shimmy_answer_begin(&head, chat, "a \"model\"\n", 5);
        head.include_usage = true;
        shimmy_piece pieces[] = {
            {.index = 0, .opens = true, .text = every_byte, .length = 256, .finish = AF_FINISH_STOP},
            {.index = 1, .text = "", .finish = AF_FINISH_NONE}};
        shimmy_usage usage = {UINT64_MAX / 4, 1, 2, 3, 4};
        af_buf texts[4] = {{0}};
        shimmy_write_answer(&texts[0], &head, pieces, 2, &usage);
        shimmy_write_chunk(&texts[1], &head, &pieces[0]);
        shimmy_write_chunk(&texts[2], &head, &pieces[1]);
        shimmy_write_usage_chunk(&texts[3], &head, &usage);
        for (size_t i = 0; i < 4; i++) {
            json_error_t where;
            json_t *json = json_loadb(texts[i].p, texts[i].len, JSON_ALLOW_NUL, &where);
            if (!json) fail_msg("%s: %s", where.text, texts[i].p);
            assert_string_equal(json_string_value(json_object_get(json, "model")), "a \"model\"\n");
            json_decref(json);
            af_buf_clear(&texts[i]);
        }
    }
}

static void refusals_have_openais_shape(void **state) {
    af_buf out = {0};
    shimmy_refuse(&refusal, 400, NULL, NULL, "no \"%s\"", "way");
    shimmy_write_refusal(&out, &refusal);
    assert_string_equal(
        out.p,
        "{\"error\":{\"message\":\"no \\\"way\\\"\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}");
    out.len = 0;
    const af_error full = {AF_EFULL, "full"};
    assert_int_equal(shimmy_refuse_error(&refusal, &full, "messages"), AF_EINVAL);
    assert_true(refusal.status == 503 && refusal.retry_after > 0);
    shimmy_write_refusal(&out, &refusal);
    assert_string_equal(
        out.p,
        "{\"error\":{\"message\":\"full\",\"type\":\"server_error\",\"param\":\"messages\",\"code\":\"queue_full\"}}");
    af_buf_clear(&out);
}

/* Every prefix of a request is refused or, whole, accepted: never read past, never leaked. */
static void cut_requests_are_refused(void **state) {
    const char body[] = "{" MESSAGES ",\"stop\":[\"a\",\"\\u00e9\"],\"tools\":[{\"x\":[1,2.5,true]}],\"seed\":5}";
    for (size_t n = 0; n < sizeof body - 1; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, body, n);
        shimmy_request request;
        assert_int_equal(parse_bytes(&limits, true, cut, n, &request), AF_EINVAL);
        assert_int_equal(refusal.status, 400);
        free(cut);
    }
    shimmy_request r = parsed(body);
    assert_int_equal(r.stop_count, 2);
    shimmy_request_clear(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_model),
        cmocka_unit_test(every_sampling_field_is_read),
        cmocka_unit_test(the_seeds_penalties_become_one),
        cmocka_unit_test(a_template_sees_its_fields_and_no_others),
        cmocka_unit_test(prompts_keep_their_order_and_kind),
        cmocka_unit_test(stages_are_read_in_their_order),
        cmocka_unit_test(biases_are_read_in_both_shapes),
        cmocka_unit_test(log_probabilities_are_asked_for_in_each_route_s_way),
        cmocka_unit_test(ends_and_breakers_are_read),
        cmocka_unit_test(strings_are_escaped_and_made_valid),
        cmocka_unit_test(answers_are_json),
        cmocka_unit_test(refusals_have_openais_shape),
        cmocka_unit_test(cut_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
