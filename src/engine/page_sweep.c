/* page_sweep.c - see page_sweep.h. */
#include "engine/page_sweep.h"

#include "engine/page_file.h"

#include <stdlib.h>
#include <string.h>

typedef struct aged {
    char name[AF_PAGE_NAME];
    uint64_t size;
    int64_t modified;
} aged;

typedef struct aged_list {
    aged *p;
    size_t count, room;
    uint64_t bytes;
} aged_list;

static void note_age(void *user, const af_folder_entry *entry) {
    aged_list *list = user;
    uint64_t half[2];
    uint32_t groups;
    if (!af_page_file_read_name(entry->name, half, &groups)) return;
    if (list->count == list->room) {
        const size_t room = list->room ? 2 * list->room : 1024;
        aged *more = realloc(list->p, room * sizeof *more);
        if (!more) return;
        list->p = more;
        list->room = room;
    }
    aged *a = &list->p[list->count++];
    *a = (aged){.size = entry->size, .modified = entry->modified};
    strcpy(a->name, entry->name); /* read_name bounds it */
    list->bytes += entry->size;
}

static int by_age(const void *a, const void *b) {
    const int64_t x = ((const aged *)a)->modified, y = ((const aged *)b)->modified;
    return (x > y) - (x < y);
}

uint64_t af_page_sweep(af_folder *folder, uint64_t limit, void (*removed)(void *user, const char *name), void *user) {
    aged_list list = {0};
    af_folder_list(folder, note_age, &list, NULL);
    if (list.count) qsort(list.p, list.count, sizeof *list.p, by_age);
    const uint64_t goal = list.bytes > limit ? limit / 8 * 7 : limit;
    for (size_t i = 0; i < list.count && list.bytes > goal; i++) {
        af_folder_remove(folder, list.p[i].name);
        removed(user, list.p[i].name);
        list.bytes -= list.p[i].size;
    }
    free(list.p);
    return list.bytes;
}
