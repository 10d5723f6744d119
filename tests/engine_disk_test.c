/* engine_disk_test.c - what was run before a restart need not run again, and nobody can tell from the text: exact
 * counts of cached tokens over engines that come one after another, damaged folders, windows, a disk that is slow or
 * small.
 *
 * The backend's answers are words that all tokens before decide, as its cache has them (engine_recall.h), so a page of
 * another text would show in the next word.
 */
#include "engine_recall.h"

#include <dirent.h>
#include <sys/stat.h>

static const char *fresh(void) {
    static int number;
    char name[32];
    snprintf(name, sizeof name, "cache-%d", number++);
    return temp_path(name);
}

static af_engine_options options_for(const char *folder) {
    af_engine_options options = small_options();
    options.cache_dir = folder;
    return options;
}

/* Changes every file of the folder by fn. */
static uint32_t each_file(const char *folder, void (*fn)(const char *path)) {
    DIR *dir = opendir(folder);
    uint32_t count = 0;
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] == '.') continue;
        count++;
        if (fn) fn(path);
    }
    closedir(dir);
    return count;
}

static af_engine_info info_of(const bench *b) {
    af_engine_info info;
    af_engine_get_info(b->engine, &info);
    return info;
}

/* ---- Restarts ---- */

static const af_cache_group kinds[][3] = {
    {{0}}, {{0}, {FAKE_WINDOW}}, {{FAKE_WINDOW}, {0}}, {{FAKE_WINDOW}}, {{0}, {33}, {100}}};
static const size_t kind_groups[] = {1, 2, 2, 1, 3};

static af_plan plan_of(size_t kind) {
    af_plan of = plan;
    memcpy(of.groups, kinds[kind], sizeof kinds[kind]);
    of.group_count = kind_groups[kind];
    return of;
}

static void a_text_need_not_run_again_after_a_restart(void **state) {
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        const af_plan of = plan_of(kind);
        const char *folder = fresh();
        int32_t ids[1100];
        fill(ids, 1000, 3);
        words_by_history(ids, 1000, 90);
        bench b = recalling(&of, options_for(folder));
        assert_int_equal(run(&b, ids, 1000, 50), 0);
        bench_close(&b);
        b = recalling(&of, options_for(folder));
        assert_int_equal(run(&b, ids, 1000, 50), 992);
        assert_int_equal(tokens_run(&b), 1000 - 992 + 49);
        assert_true(info_of(&b).disk_restored > 0);
        assert_int_equal(info_of(&b).disk_refused, 0);
        assert_int_equal(run(&b, ids, 1050, 40), 1024); /* from memory now, the answer's last tokens but one too */
        bench_close(&b);
        b = recalling(&of, options_for(folder));
        assert_int_equal(run(&b, ids, 1050, 40), 1024);
        bench_close(&b);
    }
}

static void a_text_that_parts_from_one_on_disk_takes_what_is_before(void **state) {
    const char *folder = fresh();
    const af_plan of = plan_of(0);
    int32_t ids[400], other[400];
    fill(ids, 300, 1);
    words_by_history(ids, 300, 3);
    bench b = recalling(&of, options_for(folder));
    run(&b, ids, 300, 3);
    bench_close(&b);
    for (uint32_t at = 20; at < 300; at += 37) {
        b = recalling(&of, options_for(folder));
        memcpy(other, ids, sizeof other);
        other[at] = other[at] == FAKE_WORD ? FAKE_WORD + 1 : FAKE_WORD;
        words_by_history(other, 300, 3);
        assert_int_equal(run(&b, other, 300, 3), at / 32 * 32);
        bench_close(&b);
    }
}

static void what_left_memory_comes_from_disk(void **state) {
    const char *folder = fresh();
    af_engine_options options = options_for(folder);
    const af_plan of = plan_of(1);
    options.ctx = 256;
    options.parallel = 1;
    bench b = recalling(&of, options);
    for (int round = 0; round < 2; round++) {
        for (uint32_t text = 0; text < 6; text++) { /* each takes all of memory */
            int32_t ids[256];
            fill(ids, 230, text);
            words_by_history(ids, 230, 20);
            assert_int_equal(run(&b, ids, 230, 20), round ? 224 : 0);
            while (info_of(&b).disk_saved < (round ? 42 : 7 * (text + 1))) usleep(1000);
        }
    }
    assert_true(info_of(&b).kept_pages > 0 && info_of(&b).kept_pages <= 8);
    bench_close(&b);
}

/* ---- Whose pages ---- */

static void other_settings_and_other_devices_take_nothing(void **state) {
    static const unsigned char another[AF_SHA256_BYTES] = {9};
    const char *folder = fresh();
    int32_t ids[110];
    fill(ids, 100, 5);
    words_by_history(ids, 100, 4);
    bench b = recalling(&plan, options_for(folder));
    run(&b, ids, 100, 4);
    bench_close(&b);
    af_engine_options options = options_for(folder);
    options.kv = AF_KV_Q8_0;
    b = recalling(&plan, options);
    assert_int_equal(run(&b, ids, 100, 4), 0);
    bench_close(&b);
    options = options_for(folder);
    options.exact = true;
    b = recalling(&plan, options);
    assert_int_equal(run(&b, ids, 100, 4), 0);
    bench_close(&b);
    const unsigned char *same = bench_model;
    bench_model = another;
    b = recalling(&plan, options_for(folder));
    assert_int_equal(run(&b, ids, 100, 4), 0);
    bench_close(&b);
    bench_model = same;
    bench_kind = "another device";
    b = recalling(&plan, options_for(folder));
    assert_int_equal(run(&b, ids, 100, 4), 0);
    bench_close(&b);
    bench_kind = "fake";
    float frequencies[2] = {1, 0.5f};
    af_rope rope = {.rotated = 4, .inv_freq = frequencies, .magnitude = 1};
    af_plan turned = plan;
    turned.ropes = &rope;
    turned.rope_count = 1;
    b = recalling(&turned, options_for(folder));
    assert_int_equal(run(&b, ids, 100, 4), 0);
    bench_close(&b);
    b = recalling(&plan, options_for(folder));
    assert_int_equal(run(&b, ids, 100, 4), 96);
    bench_close(&b);
}

static void where_nothing_can_be_kept_nothing_goes_to_disk(void **state) {
    const char *folder = fresh();
    af_engine_options options = options_for(folder);
    af_carry carry = {.floats = 1};
    af_plan recurrent = plan;
    int32_t ids[110];
    fill(ids, 100, 5);
    words_by_history(ids, 100, 4);
    recurrent.carries = &carry;
    recurrent.carry_count = 1;
    bench b = recalling(&recurrent, options);
    for (int i = 0; i < 2; i++) assert_int_equal(run(&b, ids, 100, 4), 0);
    bench_close(&b);
    struct stat s;
    assert_int_not_equal(stat(folder, &s), 0);
    options.cache_ram = 0;
    fake_backend *backend = fake_open(&plan);
    const af_engine_parts parts = {.plan = &plan, .tokenizer = af_model_tokenizer(model), .backend = &backend->base};
    af_engine *engine;
    af_error error;
    assert_int_equal(af_engine_open_with(&parts, &options, &engine, &error), AF_EINVAL);
    assert_non_null(strstr(error.text, "cache_ram is 0"));
    backend->base.ops->close(&backend->base);
}

/* ---- Faults ---- */

static void spoil(const char *path) {
    FILE *f = fopen(path, "r+b");
    fseek(f, 300, SEEK_SET);
    const int c = fgetc(f);
    fseek(f, 300, SEEK_SET);
    fputc(c ^ 4, f);
    fclose(f);
}

static void cut(const char *path) {
    assert_int_equal(truncate(path, 100), 0);
}

static void be_gone(const char *path) {
    assert_int_equal(unlink(path), 0);
}

static int countdown;

static void spoil_one(const char *path) {
    if (countdown-- == 0) spoil(path);
}

/* The prompt simply runs. */
static void what_is_damaged_cut_or_gone_runs_again(void **state) {
    void (*const harm[])(const char *) = {spoil, cut, be_gone};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        const af_plan of = plan_of(kind);
        for (size_t how = 0; how < 3; how++) {
            const char *folder = fresh();
            int32_t ids[310];
            fill(ids, 300, 8);
            words_by_history(ids, 300, 5);
            bench b = recalling(&of, options_for(folder));
            run(&b, ids, 300, 5);
            bench_close(&b);
            b = recalling(&of, options_for(folder)); /* it knows the files by now */
            each_file(folder, harm[how]);
            assert_int_equal(run(&b, ids, 300, 5), 0);
            assert_int_equal(info_of(&b).disk_restored, 0);
            if (how == 2)
                assert_int_equal(info_of(&b).disk_refused, 0);
            else
                assert_true(info_of(&b).disk_refused > 0);
            bench_close(&b);
            b = recalling(&of, options_for(folder)); /* and writes them anew */
            assert_int_equal(run(&b, ids, 300, 5), 288);
            bench_close(&b);
        }
    }
}

static void one_damaged_page_costs_what_comes_after_it(void **state) {
    const af_plan of = plan_of(0), windowed = plan_of(1);
    for (int file = 0; file < 9; file++) {
        const char *folder = fresh();
        int32_t ids[310];
        fill(ids, 300, 8);
        words_by_history(ids, 300, 5);
        for (int i = 0; i < 2; i++) {
            const af_plan *which = i ? &windowed : &of;
            bench b = recalling(which, options_for(folder));
            run(&b, ids, 300, 5);
            bench_close(&b);
        }
        countdown = file * 2;
        each_file(folder, spoil_one);
        for (int i = 0; i < 2; i++) {
            bench b = recalling(i ? &windowed : &of, options_for(folder));
            const uint32_t cached = run(&b, ids, 300, 5);
            assert_true(cached % 32 == 0 && cached <= 288);
            assert_int_equal(tokens_run(&b), 300 - cached + 4);
            bench_close(&b);
        }
    }
}

static void a_disk_too_small_loses_the_ends_of_texts_first(void **state) {
    const char *folder = fresh();
    const af_plan of = plan_of(0);
    af_engine_options options = options_for(folder);
    options.cache_disk = 12 * 1024; /* pages of 32 slots and a header: some sixteen */
    int32_t ids[2000];
    fill(ids, 1900, 8);
    words_by_history(ids, 1900, 5);
    bench b = recalling(&of, options);
    run(&b, ids, 1900, 5);
    bench_close(&b);
    b = recalling(&of, options);
    assert_true(info_of(&b).disk_bytes <= options.cache_disk);
    const uint32_t cached = run(&b, ids, 1900, 5);
    assert_true(cached >= 32 && cached < 1900);
    bench_close(&b);
}

static void a_folder_that_cannot_be_had_is_said_at_once(void **state) {
    af_engine_options options = options_for("/proc/nowhere");
    fake_backend *backend = fake_open(&plan);
    const af_engine_parts parts = {
        .plan = &plan, .tokenizer = af_model_tokenizer(model), .backend = &backend->base, .model = bench_model};
    af_engine *engine;
    af_error error;
    assert_true(af_engine_open_with(&parts, &options, &engine, &error) < 0);
    assert_non_null(strstr(error.text, "cache_dir: /proc/nowhere: cannot open"));
    backend->base.ops->close(&backend->base);
}

static void what_a_lost_device_held_comes_from_disk(void **state) {
    const char *folder = fresh();
    bench b = recalling(&plan, options_for(folder));
    int32_t ids[110];
    fill(ids, 100, 5);
    words_by_history(ids, 100, 4);
    run(&b, ids, 100, 4);
    while (info_of(&b).disk_saved < 3) usleep(1000);
    assert_int_equal(lose_and_ask_again(&b, ids, 100), 96);
    bench_close(&b);
}

/* ---- Together ---- */

static void who_restores_can_be_cancelled_and_holds_nobody_up(void **state) {
    const char *folder = fresh();
    const af_plan of = plan_of(1);
    static int32_t ids[8][2000];
    bench b = recalling(&of, options_for(folder));
    for (uint32_t i = 0; i < 8; i++) {
        fill(ids[i], 1900, i / 2); /* pairs that begin alike */
        words_by_history(ids[i], 1900, 20);
        run(&b, ids[i], 1900, 20);
    }
    bench_close(&b);
    b = recalling(&of, options_for(folder));
    uint32_t cached = 0;
    for (int round = 0; round < 3; round++) {
        talk *talks[8];
        for (int i = 0; i < 8; i++) {
            talks[i] = talk_new(&b);
            af_request r = request_for(talks[i], ids[i], 1900);
            r.max_tokens = 20;
            submit(talks[i], &r);
        }
        for (int i = 0; i < 8; i += 3) af_cancel(b.engine, talks[i]->id);
        for (int i = 0; i < 8; i++) {
            wait_for_end(talks[i]);
            if (i % 3) {
                assert_int_equal(talks[i]->finish, AF_FINISH_LENGTH);
                assert_memory_equal(talks[i]->ids, ids[i] + 1900, 20 * sizeof(int32_t));
            }
            cached += talks[i]->cached_tokens;
            free(talks[i]);
        }
    }
    assert_true(cached > 0);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_need_not_run_again_after_a_restart),
        cmocka_unit_test(a_text_that_parts_from_one_on_disk_takes_what_is_before),
        cmocka_unit_test(what_left_memory_comes_from_disk),
        cmocka_unit_test(other_settings_and_other_devices_take_nothing),
        cmocka_unit_test(where_nothing_can_be_kept_nothing_goes_to_disk),
        cmocka_unit_test(what_is_damaged_cut_or_gone_runs_again),
        cmocka_unit_test(one_damaged_page_costs_what_comes_after_it),
        cmocka_unit_test(a_disk_too_small_loses_the_ends_of_texts_first),
        cmocka_unit_test(a_folder_that_cannot_be_had_is_said_at_once),
        cmocka_unit_test(what_a_lost_device_held_comes_from_disk),
        cmocka_unit_test(who_restores_can_be_cancelled_and_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
