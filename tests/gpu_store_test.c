/* gpu_store_test.c - what Dawn compiled comes back from disk as it was given, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/webgpu/gpu_store.h"
#include "base/os.h"
#include "temp_file.h"

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[64];

static void each_file(void (*act)(const char *path)) {
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (*e->d_name != '.') act(path);
    }
    closedir(dir);
}

static void remove_file(const char *path) {
    unlink(path);
}

static int new_folder(void **state) {
    strcpy(folder, "/tmp/gpu_store_test.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    return setenv("AIRFRAME_PIPELINE_CACHE", folder, 1);
}

static int remove_folder(void **state) {
    each_file(remove_file);
    return rmdir(folder);
}

static void save(af_gpu_store *s, const char *key, const void *value, size_t n) {
    af_gpu_store_save(strlen(key), (const uint8_t *)key, n, value, s, NULL);
}

/* Whether a key's value is this text; an empty one: whether there is none. */
static bool holds(af_gpu_store *s, const char *key, const char *value) {
    uint8_t found[64] = {0};
    const size_t n = strlen(value), size = af_gpu_store_load(strlen(key), (const uint8_t *)key, 0, NULL, s, NULL);
    if (size != n || n == 0) return size == n;
    assert_int_equal(af_gpu_store_load(strlen(key), (const uint8_t *)key, n, found, s, NULL), n);
    return memcmp(found, value, n) == 0;
}

static void what_is_kept_is_there_at_once_and_after_a_restart(void **state) {
    af_gpu_store *s = af_gpu_store_open();
    assert_non_null(s);
    assert_true(holds(s, "a", ""));
    save(s, "a", "first", 5);
    save(s, "b", "second", 6);
    assert_true(holds(s, "a", "first") && holds(s, "b", "second"));
    save(s, "a", "third", 5);
    assert_true(holds(s, "a", "third"));
    af_gpu_store_close(s);
    s = af_gpu_store_open();
    assert_true(holds(s, "a", "third") && holds(s, "b", "second") && holds(s, "c", ""));
    af_gpu_store_close(s);
}

static void flip_last_byte(const char *path) {
    FILE *f = fopen(path, "r+b");
    fseek(f, -1, SEEK_END);
    const int c = getc(f);
    fseek(f, -1, SEEK_END);
    putc(c ^ 1, f);
    fclose(f);
}

static void cut_to_its_name(const char *path) {
    assert_int_equal(truncate(path, 8), 0);
}

static void grow_beyond_all_bounds(const char *path) {
    assert_int_equal(truncate(path, 1 << 30), 0);
}

static void a_damaged_file_counts_as_not_there_and_is_written_anew(void **state) {
    void (*const damages[])(const char *) = {flip_last_byte, cut_to_its_name, grow_beyond_all_bounds};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        af_gpu_store *s = af_gpu_store_open();
        save(s, "a", "first", 5);
        af_gpu_store_close(s);
        each_file(damages[i]);
        s = af_gpu_store_open();
        assert_true(holds(s, "a", ""));
        save(s, "a", "again", 5);
        assert_true(holds(s, "a", "again"));
        af_gpu_store_close(s);
    }
}

static void a_file_damaged_while_it_is_open_counts_as_not_there(void **state) {
    af_gpu_store *s = af_gpu_store_open();
    save(s, "a", "first", 5);
    each_file(cut_to_its_name);
    assert_true(holds(s, "a", ""));
    af_gpu_store_close(s);
}

/* An older Dawn calls another function with a key where this one has its length. */
static void a_key_of_absurd_length_is_never_read(void **state) {
    af_gpu_store *s = af_gpu_store_open();
    assert_int_equal(af_gpu_store_load((size_t)(uintptr_t)s, (const uint8_t *)64, 0, NULL, s, NULL), 0);
    af_gpu_store_save((size_t)(uintptr_t)s, (const uint8_t *)64, 8, (const uint8_t *)"12345678", s, NULL);
    af_gpu_store_close(s);
}

static void the_folder_is_bounded_and_loses_what_was_used_least(void **state) {
    const size_t n = 12u << 20;
    uint8_t *large = calloc(1, n);
    assert_non_null(large);
    af_gpu_store *s = af_gpu_store_open();
    for (char key[2] = "a"; *key <= 'j'; ++*key) save(s, key, large, n); /* 120 MiB */
    assert_false(holds(s, "a", ""));
    save(s, "k", large, n);
    assert_true(holds(s, "b", "")); /* used before a was */
    for (char key[2] = "a"; *key <= 'k'; ++*key) assert_int_equal(holds(s, key, ""), *key == 'b');
    af_gpu_store_close(s);
    free(large);
}

static void nothing_is_kept_where_nothing_may_be(void **state) {
    setenv("AIRFRAME_PIPELINE_CACHE", "", 1);
    assert_null(af_gpu_store_open());
    setenv("AIRFRAME_PIPELINE_CACHE", "/nonexistent/folder", 1);
    assert_null(af_gpu_store_open());
    chmod(folder, 0777);
    setenv("AIRFRAME_PIPELINE_CACHE", folder, 1);
    assert_null(af_gpu_store_open());
}

/* ---- Inside a server's sandbox ---- */

static void unset_folder(void) {
    unsetenv("AIRFRAME_PIPELINE_CACHE");
    setenv("XDG_CACHE_HOME", temp_path("not/there/yet"), 1);
    setenv("AIRFRAME_WEBGPU_LIB", "/usr/lib/libwebgpu_dawn.so", 1);
}

static void name_folder(void) {
    setenv("AIRFRAME_PIPELINE_CACHE", temp_path("named"), 1);
}

/* In a child: nothing brings its rights back. */
static void keep_in_sandbox(void (*prepare)(void)) {
    const pid_t child = fork();
    if (child == 0) {
        af_sandbox *sandbox;
        unsigned in_force;
        prepare();
        if (af_sandbox_open(&sandbox, NULL) || af_sandbox_allow_gpu(sandbox, NULL)) _exit(2);
        if (af_sandbox_enter(sandbox, &in_force, NULL)) _exit(3);
        af_gpu_store *s = af_gpu_store_open();
        if (!s) _exit(4);
        save(s, "a", "kept", 4);
        const bool kept = holds(s, "a", "kept");
        af_gpu_store_close(s);
        _exit(kept ? 0 : 5);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void a_sandbox_leaves_the_folder_and_makes_it(void **state) {
    struct stat s;
    assert_int_not_equal(stat(temp_path("not"), &s), 0);
    keep_in_sandbox(unset_folder);
    assert_int_equal(stat(temp_path("not/there/yet/shimmy/pipelines"), &s), 0);
    keep_in_sandbox(name_folder);
    assert_int_equal(stat(temp_path("named"), &s), 0);
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, new_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        FRESH(what_is_kept_is_there_at_once_and_after_a_restart),
        FRESH(a_damaged_file_counts_as_not_there_and_is_written_anew),
        FRESH(a_file_damaged_while_it_is_open_counts_as_not_there),
        FRESH(a_key_of_absurd_length_is_never_read),
        FRESH(the_folder_is_bounded_and_loses_what_was_used_least),
        FRESH(nothing_is_kept_where_nothing_may_be),
        cmocka_unit_test(a_sandbox_leaves_the_folder_and_makes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
