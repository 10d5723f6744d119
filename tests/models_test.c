/* models_test.c - the registry of models over a keeper that loads nothing: who waits, who goes, what a name means. */
#include "http/models.h"
#include "temp_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS      1000000u     /* nanoseconds */
#define FOREVER 10000000000u /* ... more than any test waits */

enum { OFFERS = 8 };

/* What the keeper does, and did: "+a" loaded, "-a" closed, "!a" failed, "=a" stopped. */
typedef struct world {
    af_mutex *lock;
    af_cond *changed;
    bool holds;        /* loads do not end */
    const char *fails; /* the name of a model that does not load */
    char log[256];
    shimmy_offer offers[OFFERS];
    size_t offer_count;
    shimmy_models *models;
} world;

typedef struct asked {
    shimmy_waiter waiter;
    world *world;
    bool over;
    shimmy_loaded *model;
    shimmy_refusal refusal;
} asked;

/* ---- The keeper ---- */

static void note(world *w, char what, const char *name) {
    const size_t n = strlen(w->log);
    snprintf(w->log + n, sizeof w->log - n, "%c%s", what, name);
    af_cond_broadcast(w->changed);
}

static int open_model(void *user, const shimmy_load *what, shimmy_loaded **out, af_error *error) {
    world *w = user;
    af_mutex_lock(w->lock);
    atomic_store(what->permille, 420);
    while (w->holds) af_cond_wait(w->changed, w->lock);
    const bool fails = w->fails && strcmp(w->fails, what->name) == 0;
    note(w, fails ? '!' : '+', what->name);
    af_mutex_unlock(w->lock);
    if (fails) return af_fail(error, AF_EFORMAT, "%s: is broken", what->path);
    *out = calloc(1, sizeof **out);
    (*out)->name = what->name;
    (*out)->path = strdup(what->path);
    return 0;
}

static void close_model(void *user, shimmy_loaded *loaded) {
    world *w = user;
    af_mutex_lock(w->lock);
    note(w, '-', loaded->name);
    af_mutex_unlock(w->lock);
    free(loaded->path);
    free(loaded);
}

static void stop_model(void *user, shimmy_loaded *loaded) {
    world *w = user;
    note(w, '=', loaded->name);
}

static void count_model(void *user, const shimmy_loaded *loaded, shimmy_model_numbers *sum) {
    sum->generated_tokens += 10;
}

static int discover(void *user, shimmy_offer_fn offer, void *to, af_error *error) {
    const world *w = user;
    for (size_t i = 0; i < w->offer_count; i++) offer(to, &w->offers[i]);
    return 0;
}

static void offer(world *w, const char *name, const char *path) {
    assert_true(w->offer_count < OFFERS);
    w->offers[w->offer_count++] = (shimmy_offer){name, path, "llama", "F32", 1};
}

/* ---- A registry under test ---- */

static shimmy_models_options defaults(void) {
    return (shimmy_models_options){.max = 1, .waiting = 8, .load_time = FOREVER, .patience = FOREVER};
}

static void open_world(world *w, shimmy_models_options options, const char *own, const char *path) {
    af_error error;
    w->lock = af_mutex_open();
    w->changed = af_cond_open();
    options.keeper = (shimmy_model_keeper){open_model, stop_model, close_model, count_model, discover, w};
    assert_int_equal(shimmy_models_open(&options, &w->models, &error), 0);
    if (own) assert_int_equal(shimmy_models_add(w->models, own, path, &error), 0);
    assert_int_equal(shimmy_models_refresh(w->models, &error), 0);
    assert_int_equal(shimmy_models_start(w->models, &error), 0);
}

static void open_abc(world *w, shimmy_models_options options) {
    offer(w, "a", "/nowhere/a.gguf");
    offer(w, "b", "/nowhere/b.gguf");
    offer(w, "c", "/nowhere/c.gguf");
    open_world(w, options, NULL, NULL);
}

static void close_world(world *w) {
    assert_true(shimmy_models_stop(w->models));
    shimmy_models_close(w->models);
    af_cond_close(w->changed);
    af_mutex_close(w->lock);
}

static void on_over(shimmy_waiter *waiter, shimmy_loaded *model, const shimmy_refusal *refusal) {
    asked *a = (asked *)(void *)((char *)waiter - offsetof(asked, waiter));
    af_mutex_lock(a->world->lock);
    a->over = true;
    a->model = model;
    if (refusal) a->refusal = *refusal;
    af_cond_broadcast(a->world->changed);
    af_mutex_unlock(a->world->lock);
}

static void ask(world *w, const char *name, asked *a) {
    *a = (asked){.waiter.over = on_over, .world = w};
    shimmy_loaded *model = NULL;
    shimmy_refusal refusal = {0};
    const int rc = shimmy_models_take(w->models, name, &a->waiter, &model, &refusal);
    if (rc != SHIMMY_MODEL_WAITS) *a = (asked){.world = w, .over = true, .model = model, .refusal = refusal};
}

static bool is_over(asked *a) {
    af_mutex_lock(a->world->lock);
    const bool over = a->over;
    af_mutex_unlock(a->world->lock);
    return over;
}

static void await(asked *a) {
    af_mutex_lock(a->world->lock);
    while (!a->over) assert_true(af_cond_wait_for(a->world->changed, a->world->lock, FOREVER));
    af_mutex_unlock(a->world->lock);
}

/* The model that a name gets, waited for. */
static shimmy_loaded *get(world *w, const char *name) {
    asked a;
    ask(w, name, &a);
    await(&a);
    if (!a.model) fail_msg("%s: %s", name, a.refusal.message);
    return a.model;
}

static void use(world *w, const char *name) {
    shimmy_loaded *model = get(w, name);
    assert_string_equal(model->name, name);
    shimmy_models_release(w->models, model);
}

static void await_log(world *w, const char *log) {
    const uint64_t end = af_os_nanoseconds() + FOREVER;
    af_mutex_lock(w->lock);
    while (strcmp(w->log, log) != 0 && af_os_nanoseconds() < end) af_cond_wait_for(w->changed, w->lock, 100 * MS);
    assert_string_equal(w->log, log);
    af_mutex_unlock(w->lock);
}

static void set(world *w, bool holds, const char *fails) {
    af_mutex_lock(w->lock);
    w->holds = holds;
    w->fails = fails;
    af_cond_broadcast(w->changed);
    af_mutex_unlock(w->lock);
}

/* Puts another file in a file's place, as programs do that write it whole first. */
static const char *replace(const char *name, const char *text) {
    const char *path = temp_path(name), *fresh = temp_write("fresh", text, strlen(text));
    if (rename(fresh, path) != 0) abort();
    return path;
}

static void sleep_ms(unsigned ms) {
    usleep(ms * 1000);
}

/* ---- Names ---- */

static void keep_name(void *user, const shimmy_model_view *view) {
    *(const char **)user = view->name;
}

static void a_name_means_one_model_or_none(void **state) {
    static const struct {
        const char *asked, *meant;
    } rows[] = {
        {"", "own:tag"},
        {"own:tag", "own:tag"},
        {"/models/file.Q4_0.gguf", "own:tag"},
        {"file.Q4_0.gguf", "own:tag"},
        {"file.Q4_0", "own:tag"},
        {"llama", "llama:latest"},
        {"llama:latest", "llama:latest"},
        {"org/one/x", "org/one/x"},
        {"org/two/x", "org/two/x"},
        {"plain", "plain"},
        {"own", NULL},
        {"file", NULL},
        {"file.Q4_0.ggu", NULL},
        {"Own:tag", NULL},
        {"models/file.Q4_0.gguf", NULL},
        {"own:tag2", NULL},
        {"llama:8b", NULL},
        {"LLAMA", NULL},
        {"plai", NULL},
        {"x", NULL}, /* the file of two models */
    };
    world w = {0};
    offer(&w, "llama:latest", "/blobs/sha256-1");
    offer(&w, "org/one/x", "/hub/one/x.gguf");
    offer(&w, "org/two/x", "/hub/two/x.gguf");
    offer(&w, "plain", "/models/plain.gguf");
    open_world(&w, defaults(), "own:tag", "/models/file.Q4_0.gguf");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shimmy_refusal refusal;
        const char *name = NULL;
        const int rc = shimmy_models_look(w.models, rows[i].asked, keep_name, &name, &refusal);
        assert_true((rc == 0) == (rows[i].meant != NULL));
        if (rc == 0) assert_string_equal(name, rows[i].meant);
        if (rc < 0) assert_true(refusal.status == 404 && strcmp(refusal.code, "model_not_found") == 0);
    }
    close_world(&w);
}

static void the_own_model_met_where_models_lie_has_two_names(void **state) {
    world w = {0};
    const char *path = temp_write("given.gguf", "x", 1);
    offer(&w, "found:latest", path);
    open_world(&w, defaults(), "given", path);
    assert_int_equal(shimmy_models_count(w.models), 1);
    shimmy_loaded *model = get(&w, "found");
    assert_string_equal(model->name, "given");
    shimmy_models_release(w.models, model);
    close_world(&w);
}

static void a_name_that_is_taken_becomes_a_path(void **state) {
    world w = {0};
    offer(&w, "same", "/elsewhere/same.gguf");
    open_world(&w, defaults(), "same", "/here/same.gguf");
    assert_int_equal(shimmy_models_count(w.models), 2);
    use(&w, "same");
    use(&w, "/elsewhere/same.gguf");
    close_world(&w);
    assert_string_equal(w.log, "+same-same+/elsewhere/same.gguf=/elsewhere/same.gguf-/elsewhere/same.gguf");
}

static void no_name_means_the_first_that_is_there(void **state) {
    world w = {0};
    af_error error;
    open_abc(&w, defaults());
    shimmy_models_release(w.models, get(&w, ""));
    w.offers[0] = w.offers[2];
    assert_int_equal(shimmy_models_refresh(w.models, &error), 0);
    use(&w, "a"); /* is in memory still */
    use(&w, "c");
    shimmy_models_release(w.models, get(&w, ""));
    await_log(&w, "+a-a+c-c+b");
    asked gone;
    ask(&w, "a", &gone);
    assert_true(gone.over && gone.refusal.status == 404);
    close_world(&w);
}

static void a_name_that_comes_to_mean_another_file_is_loaded_again(void **state) {
    world w = {0};
    open_abc(&w, defaults());
    use(&w, "a");
    w.offers[0].path = "/nowhere/newer.gguf";
    af_error error;
    assert_int_equal(shimmy_models_refresh(w.models, &error), 0);
    shimmy_loaded *model = get(&w, "a");
    assert_string_equal(model->path, "/nowhere/newer.gguf");
    shimmy_models_release(w.models, model);
    await_log(&w, "+a+a-a");
    close_world(&w);
}

/* ---- Loading ---- */

static void a_model_is_loaded_once_for_all_who_ask(void **state) {
    world w = {.holds = true};
    asked all[4];
    open_abc(&w, defaults());
    for (int i = 0; i < 4; i++) ask(&w, "a", &all[i]);
    sleep_ms(20);
    for (int i = 0; i < 4; i++) assert_false(is_over(&all[i]));
    set(&w, false, NULL);
    for (int i = 0; i < 4; i++) {
        await(&all[i]);
        assert_ptr_equal(all[i].model, all[0].model);
    }
    use(&w, "a");
    assert_int_equal(all[0].model->refs, 4);
    for (int i = 0; i < 4; i++) shimmy_models_release(w.models, all[i].model);
    await_log(&w, "+a");
    close_world(&w);
}

static void no_more_than_so_many_wait(void **state) {
    world w = {.holds = true};
    asked all[3];
    shimmy_models_options options = defaults();
    options.waiting = 2;
    open_abc(&w, options);
    for (int i = 0; i < 3; i++) ask(&w, "a", &all[i]);
    assert_true(all[2].over && all[2].refusal.status == 503 && all[2].refusal.retry_after);
    assert_true(shimmy_models_forget(w.models, &all[0].waiter));
    ask(&w, "a", &all[2]);
    assert_false(is_over(&all[2]));
    set(&w, false, NULL);
    await(&all[1]);
    await(&all[2]);
    assert_false(all[0].over);
    assert_false(shimmy_models_forget(w.models, &all[1].waiter));
    shimmy_models_release(w.models, all[1].model);
    shimmy_models_release(w.models, all[2].model);
    close_world(&w);
}

static void what_nobody_waits_for_any_more_is_not_loaded(void **state) {
    world w = {.holds = true};
    asked first, second;
    open_abc(&w, defaults());
    ask(&w, "a", &first);
    sleep_ms(20); /* the loader has begun */
    ask(&w, "b", &second);
    assert_true(shimmy_models_forget(w.models, &second.waiter));
    set(&w, false, NULL);
    await(&first);
    shimmy_models_release(w.models, first.model);
    sleep_ms(20);
    await_log(&w, "+a");
    close_world(&w);
}

static void keep_view(void *user, const shimmy_model_view *view) {
    *(shimmy_model_view *)user = *view;
}

static shimmy_model_view look(world *w, const char *name) {
    shimmy_model_view view;
    shimmy_refusal refusal;
    assert_int_equal(shimmy_models_look(w->models, name, keep_view, &view, &refusal), 0);
    return view;
}

static void a_failure_is_told_to_all_and_tried_again(void **state) {
    world w = {.holds = true};
    asked all[2];
    open_abc(&w, defaults());
    for (int i = 0; i < 2; i++) ask(&w, "a", &all[i]);
    set(&w, false, "a");
    for (int i = 0; i < 2; i++) {
        await(&all[i]);
        assert_int_equal(all[i].refusal.status, 500);
        assert_non_null(strstr(all[i].refusal.message, "/nowhere/a.gguf: is broken"));
    }
    assert_non_null(strstr(look(&w, "a").error, "is broken"));
    set(&w, false, NULL);
    use(&w, "a");
    assert_string_equal(look(&w, "a").error, "");
    await_log(&w, "!a+a");
    close_world(&w);
}

static void a_request_waits_only_so_long(void **state) {
    world w = {.holds = true};
    asked a;
    shimmy_models_options options = defaults();
    options.load_time = 100 * MS;
    open_abc(&w, options);
    ask(&w, "a", &a);
    sleep_ms(30);
    const shimmy_model_view view = look(&w, "a");
    assert_true(view.state == SHIMMY_MODEL_LOADING && view.progress == 0.42 && view.waiting == 1);
    await(&a); /* though the loader is at it */
    assert_true(!a.model && a.refusal.status == 503 && a.refusal.retry_after);
    assert_non_null(strstr(a.refusal.message, "still being loaded (42%)"));
    set(&w, false, NULL);
    await_log(&w, "+a");
    use(&w, "a"); /* what was begun was finished */
    await_log(&w, "+a");
    close_world(&w);
}

static void an_old_file_serves_those_whom_the_new_one_keeps_waiting(void **state) {
    world w = {0};
    shimmy_models_options options = defaults();
    options.load_time = 50 * MS;
    offer(&w, "a", replace("hot.gguf", "one"));
    open_world(&w, options, NULL, NULL);
    shimmy_loaded *old = get(&w, "a");
    set(&w, true, NULL);
    replace("hot.gguf", "two");
    shimmy_loaded *still = get(&w, "a");
    assert_ptr_equal(still, old);
    set(&w, false, NULL);
    await_log(&w, "+a+a");
    shimmy_models_release(w.models, old);
    shimmy_models_release(w.models, still);
    await_log(&w, "+a+a-a");
    close_world(&w);
}

/* ---- Room ---- */

static void the_one_unused_longest_goes(void **state) {
    world w = {0};
    shimmy_models_options options = defaults();
    options.max = 2;
    open_abc(&w, options);
    use(&w, "a");
    use(&w, "b");
    use(&w, "a");
    use(&w, "c");
    await_log(&w, "+a+b-b+c");
    use(&w, "a");
    use(&w, "b");
    await_log(&w, "+a+b-b+c-c+b");
    assert_int_equal(look(&w, "b").loads, 2);
    assert_int_equal(look(&w, "b").numbers.generated_tokens, 20); /* of an engine that is no more, and of one that is */
    assert_int_equal(look(&w, "c").numbers.generated_tokens, 10);
    close_world(&w);
}

static void one_that_has_requests_stays(void **state) {
    world w = {0};
    asked b;
    shimmy_models_options options = defaults();
    options.load_time = 50 * MS;
    open_abc(&w, options);
    shimmy_loaded *a = get(&w, "a");
    ask(&w, "b", &b);
    await(&b);
    assert_true(!b.model && b.refusal.status == 503 && b.refusal.retry_after);
    assert_non_null(strstr(b.refusal.message, "--models-max 1"));
    use(&w, "a");
    shimmy_models_release(w.models, a);
    use(&w, "b");
    await_log(&w, "+a-a+b");
    close_world(&w);
}

static void a_busy_one_gives_way_after_a_while(void **state) {
    world w = {0};
    asked b, late;
    shimmy_models_options options = defaults();
    options.patience = 50 * MS;
    open_abc(&w, options);
    shimmy_loaded *a = get(&w, "a");
    ask(&w, "b", &b);
    use(&w, "a"); /* is served meanwhile */
    sleep_ms(200);
    ask(&w, "a", &late); /* but not any more: it waits behind */
    sleep_ms(50);
    assert_false(is_over(&b) || is_over(&late));
    shimmy_models_release(w.models, a);
    await(&b);
    assert_non_null(b.model);
    assert_false(is_over(&late));
    shimmy_models_release(w.models, b.model);
    await(&late);
    assert_non_null(late.model);
    shimmy_models_release(w.models, late.model);
    await_log(&w, "+a-a+b-b+a");
    close_world(&w);
}

static void who_waits_for_one_that_gave_way_in_vain_is_served(void **state) {
    world w = {0};
    asked b, late;
    shimmy_models_options options = defaults();
    options.patience = 20 * MS;
    open_abc(&w, options);
    shimmy_loaded *a = get(&w, "a");
    ask(&w, "b", &b);
    sleep_ms(100);
    ask(&w, "a", &late);
    assert_false(is_over(&late));
    assert_true(shimmy_models_forget(w.models, &b.waiter));
    asked next;
    ask(&w, "a", &next); /* has the loader look */
    await(&late);
    await(&next);
    assert_true(late.model == a && next.model == a);
    for (int i = 0; i < 3; i++) shimmy_models_release(w.models, a);
    await_log(&w, "+a");
    close_world(&w);
}

static void an_unused_one_goes_by_itself(void **state) {
    world w = {0};
    shimmy_models_options options = defaults();
    options.max = 2;
    options.idle_time = 50 * MS;
    open_abc(&w, options);
    shimmy_loaded *a = get(&w, "a");
    use(&w, "b");
    await_log(&w, "+a+b-b");
    sleep_ms(100);
    await_log(&w, "+a+b-b"); /* a has a request */
    shimmy_models_release(w.models, a);
    await_log(&w, "+a+b-b-a");
    close_world(&w);
}

/* ---- Files that are replaced ---- */

static void open_file(world *w) {
    offer(w, "a", replace("hot.gguf", "one"));
    open_world(w, defaults(), NULL, NULL);
}

static void a_replaced_file_is_loaded_and_the_old_one_finishes(void **state) {
    world w = {0};
    open_file(&w);
    shimmy_loaded *old = get(&w, "a");
    replace("hot.gguf", "two");
    shimmy_loaded *now = get(&w, "a");
    assert_true(now != old);
    use(&w, "a");
    await_log(&w, "+a+a");
    shimmy_models_release(w.models, old);
    await_log(&w, "+a+a-a");
    shimmy_models_release(w.models, now);
    close_world(&w);
}

static void a_replaced_file_that_does_not_load_changes_nothing(void **state) {
    world w = {0};
    open_file(&w);
    shimmy_loaded *old = get(&w, "a");
    set(&w, false, "a");
    replace("hot.gguf", "bad");
    for (int i = 0; i < 3; i++) { /* tried once, not for each request */
        shimmy_loaded *still = get(&w, "a");
        assert_ptr_equal(still, old);
        shimmy_models_release(w.models, still);
    }
    await_log(&w, "+a!a");
    set(&w, false, NULL);
    replace("hot.gguf", "good");
    shimmy_loaded *now = get(&w, "a");
    assert_true(now != old);
    shimmy_models_release(w.models, now);
    shimmy_models_release(w.models, old);
    await_log(&w, "+a!a+a-a");
    close_world(&w);
}

static void a_file_that_is_gone_is_not_missed(void **state) {
    world w = {0};
    open_file(&w);
    use(&w, "a");
    unlink(temp_path("hot.gguf"));
    use(&w, "a");
    await_log(&w, "+a");
    close_world(&w);
}

/* ---- Many at once ---- */

typedef struct crowd {
    world *world;
    unsigned seed;
} crowd;

static void hurry(void *user) {
    crowd *c = user;
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 300; i++) {
        asked a;
        c->seed = c->seed * 1103515245u + 12345u;
        const char *name = names[(c->seed >> 16) % 3];
        ask(c->world, name, &a);
        if ((c->seed >> 20) % 8 == 0 && shimmy_models_forget(c->world->models, &a.waiter)) continue;
        await(&a);
        if (!a.model) abort();
        if (strcmp(a.model->name, name) != 0) abort();
        if ((c->seed >> 24) % 16 == 0) usleep(200);
        shimmy_models_release(c->world->models, a.model);
    }
}

static void a_crowd_gets_what_it_asks_for(void **state) {
    enum { CROWD = 6 };
    world w = {0};
    crowd crowds[CROWD];
    af_thread *threads[CROWD];
    shimmy_models_options options = defaults();
    options.max = 2;
    options.patience = MS;
    options.idle_time = MS;
    open_abc(&w, options);
    for (unsigned i = 0; i < CROWD; i++) {
        crowds[i] = (crowd){&w, i};
        assert_int_equal(af_thread_start(&threads[i], "crowd", hurry, &crowds[i], NULL), 0);
    }
    for (unsigned i = 0; i < CROWD; i++) af_thread_join(threads[i]);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_means_one_model_or_none),
        cmocka_unit_test(the_own_model_met_where_models_lie_has_two_names),
        cmocka_unit_test(a_name_that_is_taken_becomes_a_path),
        cmocka_unit_test(no_name_means_the_first_that_is_there),
        cmocka_unit_test(a_name_that_comes_to_mean_another_file_is_loaded_again),
        cmocka_unit_test(a_model_is_loaded_once_for_all_who_ask),
        cmocka_unit_test(no_more_than_so_many_wait),
        cmocka_unit_test(what_nobody_waits_for_any_more_is_not_loaded),
        cmocka_unit_test(a_failure_is_told_to_all_and_tried_again),
        cmocka_unit_test(a_request_waits_only_so_long),
        cmocka_unit_test(an_old_file_serves_those_whom_the_new_one_keeps_waiting),
        cmocka_unit_test(the_one_unused_longest_goes),
        cmocka_unit_test(one_that_has_requests_stays),
        cmocka_unit_test(a_busy_one_gives_way_after_a_while),
        cmocka_unit_test(who_waits_for_one_that_gave_way_in_vain_is_served),
        cmocka_unit_test(an_unused_one_goes_by_itself),
        cmocka_unit_test(a_replaced_file_is_loaded_and_the_old_one_finishes),
        cmocka_unit_test(a_replaced_file_that_does_not_load_changes_nothing),
        cmocka_unit_test(a_file_that_is_gone_is_not_missed),
        cmocka_unit_test(a_crowd_gets_what_it_asks_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
