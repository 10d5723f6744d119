/* page_store_test.c - pages in a folder: what is written is what is read, nothing else is ever given out, and the
 * folder keeps to itself and to its size.
 */
#include "temp_file.h"

#include "base/os.h"
#include "base/os_folder.h"
#include "engine/page_index.h"
#include "engine/page_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { BYTES = 200, BYTES_OF_WINDOW = 72 };

static const af_page_kind kind = {.identity = {1, 2, 3}, .bytes = {BYTES, BYTES_OF_WINDOW}};

/* A folder that is not there yet. */
static const char *fresh(void) {
    static int number;
    char name[32];
    snprintf(name, sizeof name, "folder-%d", number++);
    return temp_path(name);
}

static af_page_store *open_store(const char *folder, const af_page_kind *of, uint64_t limit) {
    af_page_store *store = NULL;
    af_error error;
    if (af_page_store_open(folder, of, limit, &store, &error) < 0) fail_msg("%s", error.text);
    return store;
}

/* The text whose only page holds ids from `first` on. */
static af_page_text text_of(const af_page_kind *of, int32_t first) {
    int32_t ids[AF_KV_PAGE];
    af_page_text text;
    for (int32_t i = 0; i < AF_KV_PAGE; i++) ids[i] = first + i;
    af_page_text_after(of->identity, ids, &text);
    return text;
}

static void save(af_page_store *store, int32_t first, uint32_t groups, int64_t stamp) {
    af_page_slot *slot;
    const af_page_kind *of = af_page_store_kind(store);
    while (!(slot = af_page_store_slot_to_save(store))) af_page_store_wait(store, 1000000);
    slot->text = text_of(of, first);
    slot->groups = groups;
    slot->stamp = stamp;
    for (size_t i = sizeof(af_page_header); i < af_page_file_bytes(of, groups); i++)
        slot->file[i] = (unsigned char)((size_t)first + i);
    af_page_store_save(store, slot);
}

/* True if it comes, and as it was saved. */
static bool load(af_page_store *store, int32_t first, uint32_t groups) {
    af_page_slot *slot = af_page_store_slot_to_load(store);
    const af_page_kind *of = af_page_store_kind(store);
    assert_non_null(slot);
    slot->text = text_of(of, first);
    slot->groups = groups;
    slot->stamp = 1;
    af_page_store_load(store, slot);
    af_page_load came;
    while ((came = af_page_store_look(store, slot)) == AF_PAGE_LOADING) af_page_store_wait(store, 1000000);
    for (size_t i = sizeof(af_page_header); came == AF_PAGE_LOADED && i < af_page_file_bytes(of, groups); i++)
        assert_int_equal(slot->file[i], (unsigned char)((size_t)first + i));
    af_page_store_give_back(store, slot);
    return came == AF_PAGE_LOADED;
}

static const char *path_of(const char *folder, const af_page_kind *of, int32_t first, uint32_t groups) {
    char name[AF_PAGE_NAME];
    static char path[512];
    af_page_file_name(text_of(of, first).name, groups, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool is_there(const char *path) {
    struct stat s;
    return lstat(path, &s) == 0;
}

/* ---- Round trips ---- */

static void what_is_saved_is_there_again_after_a_restart(void **state) {
    const char *folder = fresh();
    af_page_store *store = open_store(folder, &kind, 1 << 20);
    for (int32_t i = 0; i < 40; i++) save(store, i * 100, i % 2 ? 3 : 1, 1);
    af_page_store_close(store); /* waits for what is queued */
    store = open_store(folder, &kind, 1 << 20);
    for (int32_t i = 0; i < 40; i++) {
        assert_int_equal(af_page_store_find(store, text_of(&kind, i * 100).name), i % 2 ? 3 : 1);
        assert_true(load(store, i * 100, i % 2 ? 3 : 1));
    }
    assert_int_equal(af_page_store_find(store, text_of(&kind, 1).name), 0);
    const af_page_stats stats = af_page_store_stats(store);
    assert_int_equal(stats.restored, 40);
    assert_int_equal(stats.refused, 0);
    assert_int_equal(stats.bytes, 20 * (af_page_file_bytes(&kind, 1) + af_page_file_bytes(&kind, 3)));
    af_page_store_close(store);
}

static void a_page_with_more_groups_takes_the_place_of_the_one_before(void **state) {
    const char *folder = fresh();
    af_page_store *store = open_store(folder, &kind, 1 << 20);
    save(store, 7, 1, 1);
    save(store, 7, 3, 1);
    af_page_store_close(store);
    assert_false(is_there(path_of(folder, &kind, 7, 1)));
    store = open_store(folder, &kind, 1 << 20);
    assert_int_equal(af_page_store_find(store, text_of(&kind, 7).name), 3);
    assert_true(load(store, 7, 3));
    af_page_store_close(store);
}

static void slots_are_few_and_saving_leaves_some_to_loading(void **state) {
    af_page_store *store = open_store(fresh(), &kind, 1 << 20);
    af_page_slot *taken[AF_PAGE_SLOTS];
    size_t count = 0;
    while (count < AF_PAGE_SLOTS && (taken[count] = af_page_store_slot_to_save(store))) count++;
    assert_true(count > 0 && count < AF_PAGE_SLOTS);
    while (count < AF_PAGE_SLOTS && (taken[count] = af_page_store_slot_to_load(store))) count++;
    assert_int_equal(count, AF_PAGE_SLOTS);
    assert_null(af_page_store_slot_to_load(store));
    while (count-- > 0) af_page_store_give_back(store, taken[count]);
    af_page_store_close(store);
}

/* ---- Doubt ---- */

static void put_file(const char *path, const unsigned char *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void no_changed_byte_is_ever_given_out(void **state) {
    const char *folder = fresh();
    unsigned char file[sizeof(af_page_header) + BYTES + BYTES_OF_WINDOW];
    af_page_store *store = open_store(folder, &kind, 1 << 20);
    save(store, 5, 3, 1);
    af_page_store_close(store);
    const char *path = path_of(folder, &kind, 5, 3);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fread(file, 1, sizeof file, f), sizeof file);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    for (size_t i = 0; i < sizeof file; i++) {
        file[i] ^= (unsigned char)(1 + i % 255);
        put_file(path, file, sizeof file);
        store = open_store(folder, &kind, 1 << 20);
        assert_false(load(store, 5, 3));
        assert_int_equal(af_page_store_stats(store).refused, 1);
        assert_int_equal(af_page_store_find(store, text_of(&kind, 5).name), 0);
        assert_false(is_there(path)); /* it is removed, once */
        assert_false(load(store, 5, 3));
        assert_int_equal(af_page_store_stats(store).refused, 1);
        af_page_store_close(store);
        file[i] ^= (unsigned char)(1 + i % 255);
    }
    put_file(path, file, sizeof file);
    store = open_store(folder, &kind, 1 << 20);
    assert_true(load(store, 5, 3));
    af_page_store_close(store);
}

static void files_of_another_length_are_refused(void **state) {
    const char *folder = fresh();
    unsigned char file[sizeof(af_page_header) + BYTES + 1] = {0};
    af_page_store *store = open_store(folder, &kind, 1 << 20);
    save(store, 5, 1, 1);
    af_page_store_close(store);
    const char *path = path_of(folder, &kind, 5, 1);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fread(file, 1, sizeof file, f), sizeof file - 1);
    fclose(f);
    for (size_t n = 0; n <= sizeof file; n++) {
        if (n == sizeof file - 1) continue;
        put_file(path, file, n);
        store = open_store(folder, &kind, 1 << 20);
        assert_false(load(store, 5, 1));
        assert_int_equal(af_page_store_stats(store).refused, 1);
        assert_false(is_there(path));
        af_page_store_close(store);
    }
}

static void another_model_s_files_and_other_texts_are_not_taken(void **state) {
    const char *folder = fresh();
    af_page_kind other = kind;
    other.identity[0]++;
    af_page_store *store = open_store(folder, &kind, 1 << 20);
    save(store, 5, 1, 1);
    af_page_store_close(store);
    store = open_store(folder, &other, 1 << 20);
    assert_int_equal(af_page_store_find(store, text_of(&other, 5).name), 0);
    af_page_store_close(store);
    char mine[512]; /* under the name that it would have */
    strcpy(mine, path_of(folder, &kind, 5, 1));
    assert_int_equal(rename(mine, path_of(folder, &other, 5, 1)), 0);
    store = open_store(folder, &other, 1 << 20);
    assert_int_equal(af_page_store_find(store, text_of(&other, 5).name), 1);
    assert_false(load(store, 5, 1));
    assert_int_equal(af_page_store_stats(store).refused, 1);
    save(store, 6, 1, 1);
    af_page_store_close(store);
    strcpy(mine, path_of(folder, &other, 6, 1));
    assert_int_equal(rename(mine, path_of(folder, &other, 8, 1)), 0);
    store = open_store(folder, &other, 1 << 20);
    assert_false(load(store, 8, 1));
    assert_int_equal(af_page_store_stats(store).refused, 1);
    af_page_store_close(store);
}

static void links_and_what_is_no_file_count_as_not_there(void **state) {
    const char *folder = fresh(), *outside = fresh();
    af_page_store *store = open_store(outside, &kind, 1 << 20);
    save(store, 5, 1, 1);
    af_page_store_close(store);
    char target[512], path[512];
    strcpy(target, path_of(outside, &kind, 5, 1));
    store = open_store(folder, &kind, 1 << 20); /* the links come after the index was made, and before */
    for (int i = 0; i < 2; i++) {
        strcpy(path, path_of(folder, &kind, 5, 1));
        if (i == 0) assert_int_equal(symlink(target, path), 0);
        assert_false(load(store, 5, 1));
        strcpy(path, path_of(folder, &kind, 6, 1));
        if (i == 0) assert_int_equal(mkfifo(path, 0600), 0);
        assert_false(load(store, 6, 1));
        assert_int_equal(af_page_store_stats(store).refused, 0);
        af_page_store_close(store);
        store = open_store(folder, &kind, 1 << 20);
        assert_int_equal(af_page_store_stats(store).bytes, 0);
    }
    save(store, 5, 1, 1); /* takes the link's place, and leaves what it led to alone */
    af_page_store_close(store);
    struct stat s;
    assert_int_equal(lstat(path_of(folder, &kind, 5, 1), &s), 0);
    assert_true(S_ISREG(s.st_mode));
    assert_true(is_there(target));
}

/* ---- The folder ---- */

static void the_folder_and_its_files_are_for_their_owner_alone(void **state) {
    const char *folder = fresh();
    struct stat s;
    const mode_t before = umask(0);
    af_page_store *store = open_store(folder, &kind, 1 << 20);
    save(store, 5, 1, 1);
    af_page_store_close(store);
    umask(before);
    assert_int_equal(stat(folder, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0700);
    assert_int_equal(stat(path_of(folder, &kind, 5, 1), &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
}

static void a_folder_that_others_may_write_to_is_refused(void **state) {
    const char *folder = fresh();
    af_page_store *store;
    af_error error;
    assert_int_equal(mkdir(folder, 0700), 0);
    const mode_t open_to_others[] = {0777, 0770, 0702};
    for (size_t i = 0; i < 3; i++) {
        chmod(folder, open_to_others[i]);
        assert_int_equal(af_page_store_open(folder, &kind, 1, &store, &error), AF_EIO);
        assert_non_null(strstr(error.text, "others may write to it"));
    }
    assert_int_equal(af_page_store_open(temp_path("nowhere/deeper"), &kind, 1, &store, &error), AF_EIO);
    assert_int_equal(af_page_store_open(temp_write("file", "x", 1), &kind, 1, &store, &error), AF_EIO);
}

static void the_oldest_files_leave_when_there_are_too_many(void **state) {
    const char *folder = fresh();
    const uint64_t bytes = af_page_file_bytes(&kind, 1);
    af_folder *other;
    af_page_store *store = open_store(folder, &kind, 16 * bytes);
    assert_int_equal(af_folder_open(folder, &other, NULL), AF_OK);
    assert_int_equal(af_folder_write(other, "notes.txt", "mine", 4, 1, NULL), AF_OK);
    for (int32_t i = 0; i < 16; i++) save(store, i * 100, 1, 1000000000ll * (100 + i));
    while (af_page_store_stats(store).saved < 16) af_page_store_wait(store, 1000000);
    assert_int_equal(af_page_store_stats(store).bytes, 16 * bytes);
    assert_true(load(store, 0, 1)); /* at time 1: the oldest from now on */
    af_page_slot *slot = af_page_store_slot_to_save(store);
    slot->text = text_of(&kind, 100);
    slot->groups = 1;
    slot->stamp = 1000000000ll * 1000;
    af_page_store_touch(store, slot); /* the youngest */
    for (int32_t i = 16; i < 18; i++) save(store, i * 100, 1, 1000000000ll * (100 + i));
    af_page_store_close(store);
    store = open_store(folder, &kind, 16 * bytes);
    assert_true(af_page_store_stats(store).bytes <= 16 * bytes);
    const int32_t gone[] = {0, 2}, left[] = {1, 5, 9, 15, 16, 17};
    for (size_t i = 0; i < 2; i++) assert_int_equal(af_page_store_find(store, text_of(&kind, gone[i] * 100).name), 0);
    for (size_t i = 0; i < 6; i++) assert_true(load(store, left[i] * 100, 1));
    af_page_store_close(store);
    char notes[4];
    assert_int_equal(af_folder_read(other, "notes.txt", notes, 4, NULL), AF_OK);
    af_folder_close(other);
}

static void a_full_disk_is_told_once_and_costs_nothing_else(void **state) {
    const char *folder = fresh(), *told = temp_path("told");
    af_page_store *store = open_store(folder, &kind, 1 << 20);
    const int standard = dup(STDERR_FILENO);
    assert_int_equal(rmdir(folder), 0);
    assert_non_null(freopen(told, "w", stderr));
    for (int32_t i = 0; i < 20; i++) save(store, i * 100, 1, 1);
    while (af_page_store_slot_to_save(store) == NULL) af_page_store_wait(store, 1000000);
    assert_false(load(store, 0, 1));
    assert_int_equal(af_page_store_stats(store).saved, 0);
    af_page_store_close(store);
    fflush(stderr);
    dup2(standard, STDERR_FILENO);
    int lines = 0;
    FILE *f = fopen(told, "r");
    for (int c; (c = fgetc(f)) != EOF;) lines += c == '\n';
    fclose(f);
    assert_int_equal(lines, 1);
}

/* ---- The index ---- */

static void an_index_knows_what_was_put_and_not_removed(void **state) {
    enum { NAMES = 5000 };
    af_page_index index = {0};
    static uint32_t groups[NAMES];
    uint32_t seed = 1;
    for (int round = 0; round < 40000; round++) {
        seed = seed * 1664525 + 1013904223;
        const uint32_t name = (seed >> 8) % NAMES;
        const uint64_t half[2] = {name % 512, name}; /* crowded */
        assert_int_equal(af_page_index_find(&index, half), groups[name]);
        if (round % 3 == 2) {
            af_page_index_remove(&index, half);
            groups[name] = 0;
        } else {
            groups[name] = 1 + round % 15;
            assert_true(af_page_index_put(&index, half, groups[name]));
        }
    }
    size_t count = 0;
    for (uint32_t name = 0; name < NAMES; name++) {
        assert_int_equal(af_page_index_find(&index, (uint64_t[]){name % 512, name}), groups[name]);
        count += groups[name] != 0;
    }
    assert_int_equal(index.count, count);
    af_page_index_close(&index);
}

static void only_names_of_pages_are_read_as_such(void **state) {
    static const char *const wrong[] = {"",
                                        "0123456789abcdef0123456789abcdef-1.kvpage.aside-1-1",
                                        "0123456789abcdef0123456789abcdef-1",
                                        "0123456789abcdef0123456789abcdef-.kvpage",
                                        "0123456789abcdef0123456789abcdeg-1.kvpage",
                                        "0123456789abcdef0123456789abcdef-0.kvpage",
                                        "0123456789ABCDEF0123456789abcdef-1.kvpage",
                                        "0123456789abcdef0123456789abcdef-10.kvpage",
                                        "+123456789abcdef0123456789abcdef-1.kvpage",
                                        "../23456789abcdef0123456789abcdef-1.kvpage"};
    uint64_t half[2];
    uint32_t groups;
    assert_true(af_page_file_read_name("0123456789abcdef0123456789abcdef-3.kvpage", half, &groups));
    assert_int_equal(groups, 3);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(af_page_file_read_name(wrong[i], half, &groups));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_is_there_again_after_a_restart),
        cmocka_unit_test(a_page_with_more_groups_takes_the_place_of_the_one_before),
        cmocka_unit_test(slots_are_few_and_saving_leaves_some_to_loading),
        cmocka_unit_test(no_changed_byte_is_ever_given_out),
        cmocka_unit_test(files_of_another_length_are_refused),
        cmocka_unit_test(another_model_s_files_and_other_texts_are_not_taken),
        cmocka_unit_test(links_and_what_is_no_file_count_as_not_there),
        cmocka_unit_test(the_folder_and_its_files_are_for_their_owner_alone),
        cmocka_unit_test(a_folder_that_others_may_write_to_is_refused),
        cmocka_unit_test(the_oldest_files_leave_when_there_are_too_many),
        cmocka_unit_test(a_full_disk_is_told_once_and_costs_nothing_else),
        cmocka_unit_test(an_index_knows_what_was_put_and_not_removed),
        cmocka_unit_test(only_names_of_pages_are_read_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
