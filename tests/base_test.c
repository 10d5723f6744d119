/* base_test.c - errors, buffers, arenas, maps, UTF-8 and the system calls. The pool has pool_test.c. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "base/os.h"
#include "base/utf8.h"
#include "temp_file.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Errors ---- */

static void an_error_keeps_its_code_and_one_line(void **state) {
    af_error error;
    assert_int_equal(af_fail(&error, AF_EIO, "%s: %d", "model.gguf", 7), AF_EIO);
    assert_int_equal(error.code, AF_EIO);
    assert_string_equal(error.text, "model.gguf: 7");
    assert_int_equal(af_fail(NULL, AF_EFULL, "nobody listens"), AF_EFULL);
}

static void hostile_bytes_in_a_message_are_escaped(void **state) {
    af_error error;
    af_fail(&error, AF_EFORMAT, "key %s", "a\nb\x1b[2J\x80\xc3\xa9\xe2\x80\xae");
    assert_string_equal(error.text, "key a\\nb\\x1b[2J\\x80\xc3\xa9\\xe2\\x80\\xae");
}

static void a_long_message_is_cut_at_a_characters_edge(void **state) {
    char text[2000] = "";
    for (size_t i = 0; i < 500; i++) strcat(text, "\xe2\x82\xac");
    af_error error;
    af_fail(&error, AF_EINVAL, "%s", text);
    assert_int_equal(strlen(error.text), 507 / 3 * 3);
    assert_true(af_utf8_valid(error.text, strlen(error.text)));
}

static void a_message_may_quote_the_error_it_replaces(void **state) {
    af_error error;
    af_fail(&error, AF_EIO, "cannot read");
    assert_int_equal(af_fail_within(&error, AF_EINVAL, "shard %d", 2), AF_EIO);
    assert_string_equal(error.text, "shard 2: cannot read");
    assert_int_equal(af_fail_within(NULL, AF_EINVAL, "shard"), AF_EINVAL);
    af_fail_memory(&error, 64, "plan");
    assert_int_equal(error.code, AF_ENOMEM);
    assert_string_equal(error.text, "plan: out of memory (64 bytes)");
}

static void every_status_has_a_name(void **state) {
    assert_string_equal(af_status_name(AF_OK), "ok");
    assert_string_equal(af_status_name(AF_ECONTEXT), "context");
    assert_string_equal(af_status_name(-10), "unknown");
    assert_string_equal(af_status_name(1), "unknown");
}

/* ---- Buffers ---- */

static void a_buffer_grows_and_stays_terminated(void **state) {
    af_buf b = {0};
    for (int i = 0; i < 1000; i++) assert_true(af_buf_printf(&b, "%d,", i % 10));
    assert_int_equal(b.len, 2000);
    assert_int_equal(strlen(b.p), 2000);
    assert_true(af_buf_append(&b, "", 0) && af_buf_byte(&b, 'x') && af_buf_fill(&b, '-', 3) && af_buf_text(&b, "end"));
    assert_string_equal(b.p + 2000, "x---end");
    size_t n;
    char *taken = af_buf_take(&b, &n);
    assert_int_equal(n, 2007);
    assert_null(b.p);
    assert_int_equal(b.len, 0);
    af_free(taken);
}

static void a_buffer_refuses_what_passes_its_ceiling_and_stays_failed(void **state) {
    af_buf b = {.ceiling = 8};
    assert_true(af_buf_text(&b, "12345678"));
    assert_false(af_buf_byte(&b, '9'));
    assert_true(b.failed);
    assert_string_equal(b.p, "12345678");
    assert_false(af_buf_append(&b, "", 0));
    assert_null(af_buf_take(&b, NULL));
    assert_false(b.failed);
    assert_int_equal(b.ceiling, 8);
    assert_false(af_buf_reserve(&b, SIZE_MAX));
    af_buf_clear(&b);
}

static void an_empty_buffer_is_taken_as_an_empty_string(void **state) {
    af_buf b = {0};
    char *taken = af_buf_take(&b, NULL);
    assert_string_equal(taken, "");
    af_free(taken);
}

static void slices_compare_by_length_and_bytes(void **state) {
    assert_true(af_slice_is(af_slice_of("abcd", 3), "abc"));
    assert_false(af_slice_is(af_slice_of("abcd", 4), "abc"));
    assert_true(af_slice_equal((af_slice){0}, af_slice_text("")));
    assert_false(af_slice_equal(af_slice_of("a\0b", 3), af_slice_of("a\0c", 3)));
}

static void ids_grow_one_by_one_and_many_at_once(void **state) {
    af_ids ids = {0};
    for (int32_t i = 0; i < 1000; i++) assert_true(af_ids_push(&ids, i));
    const int32_t more[] = {-1, -2, -3};
    assert_true(af_ids_append(&ids, more, 3));
    assert_int_equal(ids.len, 1003);
    assert_int_equal(ids.p[999], 999);
    assert_int_equal(ids.p[1002], -3);
    assert_false(af_ids_append(&ids, more, SIZE_MAX / 4));
    assert_false(af_ids_push(&ids, 1));
    af_ids_clear(&ids);
    assert_int_equal(ids.len, 0);
}

/* ---- Arenas ---- */

static void an_arena_aligns_and_never_overlaps(void **state) {
    af_arena *arena = af_arena_open(0);
    unsigned char *blocks[400];
    for (size_t i = 0; i < 400; i++) {
        size_t size = i * 37 % 5000;
        blocks[i] = af_arena_alloc(arena, size);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % (size >= 64 ? 64 : 16), 0);
        memset(blocks[i], (int)(i & 255), size);
    }
    for (size_t i = 0; i < 400; i++)
        for (size_t j = 0; j < i * 37 % 5000; j++) assert_int_equal(blocks[i][j], i & 255);
    af_arena_close(arena);
}

static void an_arena_stops_at_its_ceiling(void **state) {
    af_arena *arena = af_arena_open(1000);
    assert_non_null(af_arena_alloc(arena, 600));
    assert_null(af_arena_alloc(arena, 401));
    assert_non_null(af_arena_alloc(arena, 400));
    assert_int_equal(af_arena_used(arena), 1000);
    assert_null(af_arena_alloc(arena, SIZE_MAX));
    af_arena_close(arena);
}

static void an_arenas_arrays_are_zeroed_and_checked_for_overflow(void **state) {
    af_arena *arena = af_arena_open(0);
    assert_null(af_arena_array(arena, SIZE_MAX / 4, 8));
    assert_null(af_arena_alloc(arena, SIZE_MAX - 8));
    memset(af_arena_alloc(arena, 100), 255, 100);
    const unsigned char *p = af_arena_array(arena, 5000, 3);
    for (size_t i = 0; i < 15000; i++) assert_int_equal(p[i], 0);
    assert_string_equal(af_arena_copy(arena, "token", 3), "tok");
    assert_string_equal(af_arena_copy(arena, NULL, 0), "");
    assert_non_null(af_arena_alloc(arena, 0));
    af_arena_close(arena);
    af_arena_close(NULL);
}

/* ---- Maps ---- */

static void a_map_finds_what_was_put_and_keeps_the_first(void **state) {
    enum { COUNT = 20000 };
    static char keys[COUNT][12];
    af_map *map = af_map_open(COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "token%u", i);
        assert_true(af_map_put(map, af_slice_text(keys[i]), i * 3));
    }
    assert_false(af_map_put(map, af_slice_text("token5"), 1));
    assert_int_equal(af_map_count(map), COUNT);
    uint32_t value = 1;
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(af_map_get(map, af_slice_text(keys[i]), &value));
        assert_int_equal(value, i * 3);
    }
    assert_false(af_map_get(map, af_slice_text("token20000"), &value));
    assert_int_equal(value, (COUNT - 1) * 3);
    af_map_close(map);
}

static void a_map_takes_empty_keys_and_keys_with_nul(void **state) {
    af_map *map = af_map_open(3);
    uint32_t value;
    assert_true(af_map_put(map, (af_slice){0}, 1));
    assert_true(af_map_put(map, af_slice_of("\0", 1), 2));
    assert_true(af_map_put(map, af_slice_of("\0\0", 2), 3));
    assert_true(af_map_get(map, af_slice_text(""), &value) && value == 1);
    assert_true(af_map_get(map, af_slice_of("\0\0", 2), &value) && value == 3);
    af_map_close(map);
    map = af_map_open(0);
    assert_false(af_map_get(map, af_slice_text("a"), &value));
    af_map_close(map);
    assert_null(af_map_open(UINT32_MAX));
}

static void the_hash_depends_on_every_byte_and_the_length(void **state) {
    unsigned char bytes[33] = {0};
    for (size_t n = 1; n <= 32; n++) {
        uint64_t before = af_hash(bytes, n);
        assert_int_equal(before, af_hash(bytes, n));
        assert_int_not_equal(before, af_hash(bytes, n - 1));
        bytes[n - 1] ^= 1;
        assert_int_not_equal(before, af_hash(bytes, n));
        bytes[n - 1] ^= 1;
    }
}

/* ---- UTF-8 ---- */

static void every_character_survives_encoding_and_decoding(void **state) {
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char out[4];
        uint32_t back;
        size_t n = af_utf8_encode(c, out);
        assert_int_equal(af_utf8_decode(out, n, &back), n);
        assert_int_equal(back, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
        assert_int_equal(af_utf8_lead((unsigned char)out[0]), n);
        for (size_t part = 1; part < n; part++) {
            assert_int_equal(af_utf8_decode(out, part, &back), 0);
            assert_int_equal(af_utf8_pending(out, part), part);
        }
        assert_int_equal(af_utf8_pending(out, n), 0);
    }
}

static void malformed_utf8_is_refused(void **state) {
    static const char *const cases[] = {"\x80",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xff",
                                        "\xc3(",
                                        "\xe2\x82(",
                                        "\xe2(\xa1",
                                        "a\xc3"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) assert_false(af_utf8_valid(cases[i], strlen(cases[i])));
    assert_true(af_utf8_valid("", 0));
    assert_true(af_utf8_valid("a\0\xc3\xa9", 4));
    char out[4];
    assert_int_equal(af_utf8_encode(0x110000, out), 3);
    assert_memory_equal(out, "\xef\xbf\xbd", 3);
}

static void only_a_real_beginning_of_a_character_is_pending(void **state) {
    assert_int_equal(af_utf8_pending("ab\xf0\x9f\x98", 5), 3);
    assert_int_equal(af_utf8_pending("ab\xf0\x9f\x98\x80", 6), 0);
    assert_int_equal(af_utf8_pending("ab\xe0\x80", 4), 0); /* cannot become one */
    assert_int_equal(af_utf8_pending("\x80\x80\x80\x80", 4), 0);
    assert_int_equal(af_utf8_pending("", 0), 0);
    assert_int_equal(af_utf8_count("a\xc3\xa9\xf0\x9f\x98\x80", 7), 3);
}

/* ---- Files ---- */

static void a_file_is_mapped_whole_and_survives_release(void **state) {
    size_t n = 300000;
    unsigned char *bytes = malloc(n);
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)(i * 7);
    af_mapping map;
    assert_int_equal(af_os_map_file(temp_write("whole", bytes, n), &map, NULL), 0);
    assert_int_equal(map.size, n);
    af_os_prefetch(map.p + 5, n - 10);
    assert_memory_equal(map.p, bytes, n);
    af_os_release(map.p + 100, n - 200);
    af_os_release(map.p + 1, 10);
    assert_memory_equal(map.p, bytes, n);
    af_os_unmap(&map);
    assert_null(map.p);
    free(bytes);
}

static void what_cannot_be_mapped_is_named(void **state) {
    af_error error;
    af_mapping map;
    assert_int_equal(af_os_map_file(temp_path("nowhere"), &map, &error), AF_EIO);
    assert_non_null(strstr(error.text, "nowhere: cannot open: No such file"));
    assert_int_equal(af_os_map_file("/", &map, &error), AF_EIO);
    assert_string_equal(error.text, "/: is a directory, not a file");
    assert_int_equal(af_os_map_file("/dev/null", &map, &error), AF_EIO);
    assert_int_equal(af_os_map_file(temp_write("empty", "", 0), &map, &error), AF_EFORMAT);
    assert_non_null(strstr(error.text, "empty: is empty"));
    const char *pipe = temp_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(af_os_map_file(pipe, &map, &error), AF_EIO); /* and does not wait for a writer */
}

static void a_file_is_read_up_to_its_ceiling(void **state) {
    const char *path = temp_write("text", "hello\n", 6);
    char *text;
    size_t n;
    af_error error;
    assert_int_equal(af_os_read_file(path, 6, &text, &n, &error), 0);
    assert_int_equal(n, 6);
    assert_string_equal(text, "hello\n");
    af_free(text);
    assert_int_equal(af_os_read_file(path, 5, &text, &n, &error), AF_EFORMAT);
    assert_non_null(strstr(error.text, "larger than 5 bytes"));
    assert_int_equal(af_os_read_file("/", 5, &text, &n, &error), AF_EIO);
    assert_int_equal(af_os_read_file(temp_write("none", "", 0), 5, &text, &n, &error), 0);
    assert_int_equal(n, 0);
    af_free(text);
}

static void stat_tells_files_folders_and_nothing_apart(void **state) {
    const char *path = temp_write("seven", "1234567", 7);
    af_file_stat file = af_os_stat(path);
    assert_int_equal(file.kind, AF_FILE_REGULAR);
    assert_int_equal(file.size, 7);
    assert_true(file.modified > 1600000000);
    assert_int_equal(af_os_stat("/").kind, AF_FILE_DIRECTORY);
    assert_int_equal(af_os_stat("/dev/null").kind, AF_FILE_OTHER);
    assert_int_equal(af_os_stat(temp_path("nowhere")).kind, AF_FILE_NONE);
}

static bool collect(void *user, const char *name) {
    af_buf *names = user;
    af_buf_printf(names, "%s ", name);
    return names->len < 6;
}

static void a_folder_is_listed_in_byte_order_until_told_to_stop(void **state) {
    const char *folder = temp_path("folder");
    assert_int_equal(mkdir(folder, 0700), 0);
    temp_write("folder/b", "", 0);
    temp_write("folder/a", "", 0);
    temp_write("folder/Z", "", 0);
    temp_write("folder/c", "", 0);
    af_buf names = {0};
    assert_int_equal(af_os_list(folder, collect, &names, NULL), 0);
    assert_string_equal(names.p, "Z a b ");
    af_buf_clear(&names);
    assert_int_equal(af_os_list(temp_path("nowhere"), collect, &names, NULL), AF_EIO);
}

static void a_real_path_has_its_links_resolved(void **state) {
    char out[512], small[4];
    const char *target = temp_write("target", "x", 1), *link = temp_path("link");
    assert_int_equal(symlink(target, link), 0);
    assert_true(af_os_real_path(link, out, sizeof out));
    assert_string_equal(out, target);
    assert_false(af_os_real_path(link, small, sizeof small));
    assert_false(af_os_real_path(temp_path("nowhere"), out, sizeof out));
}

/* ---- Memory, processor, time ---- */

static void pages_are_zeroed_aligned_and_cost_nothing_untouched(void **state) {
    size_t size = (size_t)1 << 32;
    uint64_t before = af_os_memory_resident();
    unsigned char *p = af_os_pages(size, true);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(p[0] | p[size / 2] | p[size - 1], 0);
    assert_true(before > 0 && af_os_memory_resident() < before + (64 << 20));
    af_os_pages_free(p, size);
    assert_null(af_os_pages(SIZE_MAX / 2, false));
}

static void the_machine_has_cores_memory_and_a_clock(void **state) {
    assert_in_range(af_os_cores(), 1, 4096);
    assert_true(af_os_memory_available() > 1 << 20);
    assert_true(af_os_memory_available() < UINT64_MAX);
    uint64_t earlier = af_os_nanoseconds();
    assert_true(af_os_nanoseconds() >= earlier);
    assert_true(af_os_unix_time() > 1600000000);
    assert_non_null(af_os_home());
}

static void random_bytes_differ(void **state) {
    unsigned char a[32] = {0}, b[32] = {0};
    af_os_random(a, sizeof a);
    af_os_random(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

static void a_flag_of_the_environment_is_set_unless_empty_or_zero(void **state) {
    setenv("AIRFRAME_TEST_FLAG", "1", 1);
    assert_true(af_env_flag("AIRFRAME_TEST_FLAG"));
    setenv("AIRFRAME_TEST_FLAG", "0", 1);
    assert_false(af_env_flag("AIRFRAME_TEST_FLAG"));
    setenv("AIRFRAME_TEST_FLAG", "", 1);
    assert_false(af_env_flag("AIRFRAME_TEST_FLAG"));
    unsetenv("AIRFRAME_TEST_FLAG");
    assert_false(af_env_flag("AIRFRAME_TEST_FLAG"));
}

/* ---- Surviving an abort ---- */

static void call_abort(void *user) {
    ++*(int *)user;
    abort();
}

static void call_nothing(void *user) {
    ++*(int *)user;
}

static void an_abort_in_a_guarded_call_is_survived_again_and_again(void **state) {
    int calls = 0;
    for (int i = 0; i < 3; i++) {
        assert_false(af_os_survive(call_abort, &calls));
        assert_true(af_os_survive(call_nothing, &calls));
    }
    assert_int_equal(calls, 6);
}

static void any_other_abort_still_ends_the_process(void **state) {
    const pid_t child = fork();
    if (child == 0) {
        int calls = 0;
        const struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        if (!af_os_survive(call_abort, &calls)) abort();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_keeps_its_code_and_one_line),
        cmocka_unit_test(hostile_bytes_in_a_message_are_escaped),
        cmocka_unit_test(a_long_message_is_cut_at_a_characters_edge),
        cmocka_unit_test(a_message_may_quote_the_error_it_replaces),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(a_buffer_grows_and_stays_terminated),
        cmocka_unit_test(a_buffer_refuses_what_passes_its_ceiling_and_stays_failed),
        cmocka_unit_test(an_empty_buffer_is_taken_as_an_empty_string),
        cmocka_unit_test(slices_compare_by_length_and_bytes),
        cmocka_unit_test(ids_grow_one_by_one_and_many_at_once),
        cmocka_unit_test(an_arena_aligns_and_never_overlaps),
        cmocka_unit_test(an_arena_stops_at_its_ceiling),
        cmocka_unit_test(an_arenas_arrays_are_zeroed_and_checked_for_overflow),
        cmocka_unit_test(a_map_finds_what_was_put_and_keeps_the_first),
        cmocka_unit_test(a_map_takes_empty_keys_and_keys_with_nul),
        cmocka_unit_test(the_hash_depends_on_every_byte_and_the_length),
        cmocka_unit_test(every_character_survives_encoding_and_decoding),
        cmocka_unit_test(malformed_utf8_is_refused),
        cmocka_unit_test(only_a_real_beginning_of_a_character_is_pending),
        cmocka_unit_test(a_file_is_mapped_whole_and_survives_release),
        cmocka_unit_test(what_cannot_be_mapped_is_named),
        cmocka_unit_test(a_file_is_read_up_to_its_ceiling),
        cmocka_unit_test(stat_tells_files_folders_and_nothing_apart),
        cmocka_unit_test(a_folder_is_listed_in_byte_order_until_told_to_stop),
        cmocka_unit_test(a_real_path_has_its_links_resolved),
        cmocka_unit_test(pages_are_zeroed_aligned_and_cost_nothing_untouched),
        cmocka_unit_test(the_machine_has_cores_memory_and_a_clock),
        cmocka_unit_test(random_bytes_differ),
        cmocka_unit_test(a_flag_of_the_environment_is_set_unless_empty_or_zero),
        cmocka_unit_test(an_abort_in_a_guarded_call_is_survived_again_and_again),
        cmocka_unit_test(any_other_abort_still_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
