/* threads_test.c - which processors the kernels' threads get, on machines described by files of our own; how nodes of
 * memory share a job; and how often a step of decoding makes threads wait for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "backend_test.h"
#include "base/os_linux.h"
#include "base/pool.h"
#include "temp_file.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- A machine of files ---- */

static const char *root;

/* Begins a machine that states nothing. */
static void new_machine(void) {
    static char path[256];
    static int count;
    char name[32];
    snprintf(name, sizeof name, "machine%d", count++);
    snprintf(path, sizeof path, "%s", temp_path(name));
    root = path;
}

static void state_of(const char *path, const char *text) {
    char command[1024], whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", whole);
    assert_int_equal(system(command), 0);
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Processors 0 .. count - 1; processor i's siblings are those with its number modulo `cores`. */
static void siblings_of(uint32_t count, uint32_t cores) {
    for (uint32_t cpu = 0; cpu < count; cpu++) {
        char path[128], list[128] = "";
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        for (uint32_t s = cpu % cores; s < count; s += cores)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%u", *list ? "," : "", s);
        state_of(path, list);
    }
}

static af_cpu_mask mask_of(uint32_t first, uint32_t last) {
    af_cpu_mask mask = {0};
    for (uint32_t cpu = first; cpu <= last; cpu++) af_cpu_mask_add(&mask, cpu);
    return mask;
}

static void expect_cores(const af_cpu_mask *mask, const af_core *wanted, uint32_t count) {
    af_core found[64];
    assert_int_equal(af_linux_core_list(root, mask, found, 64), count);
    assert_int_equal(af_linux_core_list(root, mask, NULL, 64), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(found[i].cpu, wanted[i].cpu);
        assert_int_equal(found[i].node, wanted[i].node);
    }
}

/* ---- Cores ---- */

static void siblings_count_as_one_core(void **state) {
    new_machine();
    siblings_of(8, 4);
    const af_cpu_mask all = mask_of(0, 7), some = mask_of(3, 6);
    expect_cores(&all, (af_core[]){{0, 0}, {1, 0}, {2, 0}, {3, 0}}, 4);
    expect_cores(&some, (af_core[]){{3, 0}, {4, 0}, {5, 0}, {6, 0}}, 4); /* 7 is not ours: 3 stands alone */
    state_of("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n");
    const af_cpu_mask two = mask_of(0, 1);
    expect_cores(&two, (af_core[]){{0, 0}}, 1);
}

static void a_machine_that_says_nothing_has_a_core_for_each_processor(void **state) {
    new_machine();
    const af_cpu_mask mask = mask_of(5, 6);
    expect_cores(&mask, (af_core[]){{5, 0}, {6, 0}}, 2);
    assert_int_equal(af_linux_quota(root, 2), 2);
    assert_true(af_linux_memory(root) == UINT64_MAX);
}

static void cores_stand_in_the_order_of_nodes(void **state) {
    new_machine();
    siblings_of(8, 4);
    state_of("/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
    state_of("/sys/devices/system/node/node2/cpulist", "1,3,5,7\n");
    const af_cpu_mask all = mask_of(0, 7);
    expect_cores(&all, (af_core[]){{0, 0}, {2, 0}, {1, 2}, {3, 2}}, 4);
    af_core few[3];
    assert_int_equal(af_linux_core_list(root, &all, few, 3), 3);
    assert_int_equal(few[2].cpu, 1);
}

static void lists_that_make_no_sense_hold_what_they_say_before(void **state) {
    new_machine();
    state_of("/sys/devices/system/node/node0/cpulist", "0-1,x,3\n");
    state_of("/sys/devices/system/node/node1/cpulist", "2-99999999\n");
    const af_cpu_mask mask = mask_of(0, 3);
    expect_cores(&mask, (af_core[]){{0, 0}, {1, 0}, {2, 1}, {3, 1}}, 4);
}

/* ---- Quotas ---- */

static void the_tightest_quota_of_the_path_holds(void **state) {
    new_machine();
    state_of("/proc/self/cgroup", "0::/outer/middle/inner\n");
    state_of("/sys/fs/cgroup/outer/cpu.max", "max 100000\n");
    assert_int_equal(af_linux_quota(root, 16), 16);
    state_of("/sys/fs/cgroup/outer/cpu.max", "250000 100000\n");
    assert_int_equal(af_linux_quota(root, 16), 3); /* two and a half */
    state_of("/sys/fs/cgroup/outer/middle/inner/cpu.max", "800000 100000\n");
    assert_int_equal(af_linux_quota(root, 16), 3);
    state_of("/sys/fs/cgroup/outer/middle/cpu.max", "20000 100000\n");
    assert_int_equal(af_linux_quota(root, 16), 1);
}

static void a_container_s_own_root_may_state_the_quota(void **state) {
    new_machine();
    state_of("/proc/self/cgroup", "0::/not/seen/from/here\n");
    state_of("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_int_equal(af_linux_quota(root, 16), 4);
    assert_int_equal(af_linux_quota(root, 2), 2);
}

static void quotas_of_the_first_version_count_too(void **state) {
    new_machine();
    state_of("/proc/self/cgroup", "5:cpu,cpuacct:/a/b\n0::/\n");
    state_of("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
    state_of("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    state_of("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    state_of("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
    assert_int_equal(af_linux_quota(root, 16), 2);
}

static void memory_is_what_the_tightest_group_leaves(void **state) {
    new_machine();
    state_of("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");
    assert_true(af_linux_memory(root) == 8000 * 1024);
    state_of("/proc/self/cgroup", "0::/a\n");
    state_of("/sys/fs/cgroup/a/memory.max", "5000000\n");
    state_of("/sys/fs/cgroup/a/memory.current", "4000000\n");
    state_of("/sys/fs/cgroup/a/memory.stat", "inactive_file 1000000\nactive_file 500000\n");
    assert_true(af_linux_memory(root) == 2500000);
}

/* ---- Nodes share a job ---- */

#define TASKS 10

typedef struct first_tasks {
    _Atomic uint32_t begun, runs[TASKS];
    uint32_t first[2];      /* of each worker */
    af_cpu_mask masks[2];   /* where each runs */
    _Atomic bool begins[2]; /* has each run one? */
} first_tasks;

/* The first task of each worker lasts until the other has one too. */
static void note_first(void *user, uint32_t task, uint32_t worker) {
    first_tasks *f = user;
    atomic_fetch_add(&f->runs[task], 1);
    if (atomic_exchange(&f->begins[worker], true)) return;
    f->first[worker] = task;
    af_os_thread_mask(&f->masks[worker]);
    atomic_fetch_add(&f->begun, 1);
    while (atomic_load(&f->begun) < 2) usleep(100);
}

/* Two of this machine's cores, or one twice, as if they were on two nodes. */
static af_pool_places two_nodes(af_core cores[2], bool pin) {
    af_core *all = malloc(AF_CPUS_MAX * sizeof *all);
    const uint32_t count = af_os_core_list(all, AF_CPUS_MAX);
    assert_true(count > 0);
    cores[0] = (af_core){all[0].cpu, 3};
    cores[1] = (af_core){all[count - 1].cpu, 7};
    free(all);
    return (af_pool_places){.cores = cores, .count = 2, .pin = pin};
}

static void expect_alone(const af_cpu_mask *mask, uint32_t cpu) {
    af_cpu_mask alone = {0};
    af_cpu_mask_add(&alone, cpu);
    assert_memory_equal(mask, &alone, sizeof alone);
}

static void a_node_takes_its_share_of_every_part_first(void **state) {
    af_core cores[2];
    const af_pool_places places = two_nodes(cores, true);
    af_cpu_mask before, after;
    af_pool *pool;
    af_os_thread_mask(&before);
    assert_int_equal(af_pool_open_on(&places, 2, &pool, NULL), 0);
    assert_int_equal(af_pool_nodes(pool), 2);
    af_pool_take_place(pool);
    for (int round = 0; round < 20; round++) {
        first_tasks f = {0};
        af_pool_run_parts(pool, note_first, &f, (uint32_t[]){4, 0, 6}, 3);
        for (uint32_t i = 0; i < TASKS; i++) assert_int_equal(f.runs[i], 1);
        assert_int_equal(f.first[0], 0);
        assert_int_equal(f.first[1], 2); /* of the first part's four, two are the other node's */
        for (uint32_t w = 0; w < 2; w++) expect_alone(&f.masks[w], cores[w].cpu);
    }
    af_pool_leave_place(pool);
    af_os_thread_mask(&after);
    assert_memory_equal(&before, &after, sizeof before);
    af_pool_close(pool);
}

static void count_run(void *user, uint32_t task, uint32_t worker) {
    atomic_fetch_add((_Atomic uint32_t *)user + task, 1);
}

static void every_task_runs_once_whatever_the_nodes(void **state) {
    const uint32_t cpu = 0;
    for (uint32_t nodes = 1; nodes <= 20; nodes++) {
        af_core cores[20];
        for (uint32_t i = 0; i < nodes; i++) cores[i] = (af_core){cpu, i};
        const af_pool_places places = {.cores = cores, .count = nodes};
        af_pool *pool;
        assert_int_equal(af_pool_open_on(&places, 5, &pool, NULL), 0);
        assert_int_equal(af_pool_nodes(pool), nodes < 5 ? nodes : 5);
        for (uint32_t a = 0; a < 12; a++)
            for (uint32_t b = 0; b < 12; b++) {
                _Atomic uint32_t runs[24] = {0};
                af_pool_run_parts(pool, count_run, (void *)runs, (uint32_t[]){a, b}, 2);
                for (uint32_t i = 0; i < 24; i++) assert_int_equal(runs[i], i < a + b);
            }
        af_pool_close(pool);
    }
}

static void threads_on_one_node_are_the_system_s_to_place(void **state) {
    const af_core cores[] = {{0, 0}, {1, 0}};
    af_cpu_mask before, after;
    af_pool *pool;
    af_os_thread_mask(&before);
    assert_int_equal(af_pool_open_on(&(af_pool_places){.cores = cores, .count = 2}, 2, &pool, NULL), 0);
    assert_int_equal(af_pool_nodes(pool), 1);
    af_pool_take_place(pool);
    af_os_thread_mask(&after);
    assert_memory_equal(&before, &after, sizeof before);
    af_pool_close(pool);
}

/* ---- Barriers ---- */

#define POSITIONS 320
#define PAGES     (POSITIONS / AF_KV_PAGE)

static af_backend *open_backend(const af_plan *plan) {
    af_backend_options options = {
        .threads = 2, .exact = true, .carries = 1, .max_tokens = POSITIONS, .max_rows = POSITIONS};
    for (size_t g = 0; g < plan->group_count; g++) options.pages[g] = PAGES;
    af_backend *backend = NULL;
    af_error error;
    if (af_backend_open("cpu", plan, &options, &backend, &error)) fail_msg("%s", error.text);
    return backend;
}

/* Runs positions begin .. end - 1 of a sequence; returns how many barriers that took. */
static uint64_t barriers_of(af_backend *backend, const af_plan *plan, uint32_t begin, uint32_t end) {
    static af_batch_token tokens[POSITIONS];
    uint32_t pages[PAGES];
    af_batch_seq seq = {0};
    for (uint32_t p = 0; p < PAGES; p++) pages[p] = p;
    for (size_t g = 0; g < plan->group_count; g++) seq.pages[g] = pages;
    for (uint32_t i = begin; i < end; i++)
        tokens[i - begin] = (af_batch_token){.id = 1, .position = i, .choose = AF_CHOOSE_GREEDY};
    const af_batch batch = {.tokens = tokens, .token_count = end - begin, .seqs = &seq, .seq_count = 1};
    const af_pool *pool = ((const af_cpu *)backend)->pool;
    const uint64_t before = af_pool_barriers(pool);
    af_ticket ticket;
    assert_int_equal(backend->ops->submit(backend, &batch, &ticket, NULL), 0);
    return af_pool_barriers(pool) - before;
}

static void decoding_waits_four_or_five_times_a_layer(void **state) {
    for (size_t i = 0; i < SHAPES; i++) {
        if (shapes[i]->recurrent) continue;
        af_plan *plan = make_plan(shapes[i]);
        af_backend *backend = open_backend(plan);
        const uint64_t head = 1;
        const uint64_t early = barriers_of(backend, plan, 0, 1);
        assert_int_equal(early, 4 * shapes[i]->layers + head); /* q, k, v; out; gate, up; down */
        barriers_of(backend, plan, 1, POSITIONS - 1);
        assert_in_range(barriers_of(backend, plan, POSITIONS - 1, POSITIONS), early,
                        5 * shapes[i]->layers + head); /* and attention, where it is much work */
        backend->ops->close(backend);
        af_plan_close(plan);
    }
}

int main(void) {
    alarm(300); /* a lost wake-up ends as a failure */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siblings_count_as_one_core),
        cmocka_unit_test(a_machine_that_says_nothing_has_a_core_for_each_processor),
        cmocka_unit_test(cores_stand_in_the_order_of_nodes),
        cmocka_unit_test(lists_that_make_no_sense_hold_what_they_say_before),
        cmocka_unit_test(the_tightest_quota_of_the_path_holds),
        cmocka_unit_test(a_container_s_own_root_may_state_the_quota),
        cmocka_unit_test(quotas_of_the_first_version_count_too),
        cmocka_unit_test(memory_is_what_the_tightest_group_leaves),
        cmocka_unit_test(a_node_takes_its_share_of_every_part_first),
        cmocka_unit_test(every_task_runs_once_whatever_the_nodes),
        cmocka_unit_test(threads_on_one_node_are_the_system_s_to_place),
        cmocka_unit_test(decoding_waits_four_or_five_times_a_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
