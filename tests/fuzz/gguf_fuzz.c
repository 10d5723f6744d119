/* gguf_fuzz.c - the input is a GGUF file. Whatever it holds it is refused or opened, and what is opened can be read:
 * every entry, every element of an array, the first and the last byte of every tensor.
 */
#include "base/log.h"
#include "fuzz/fuzz.h"
#include "gguf/gguf.h"
#include "temp_file.h"

static void read_array(const af_gguf_array *array) {
    for (size_t i = 0; i < af_gguf_array_count(array); i++) {
        af_slice text;
        int64_t whole;
        double number;
        const bool string = af_gguf_array_string(array, i, &text);
        HOLDS(string == (af_gguf_array_type(array) == AF_GGUF_STRING));
        HOLDS(!string || !af_gguf_array_i64(array, i, &whole));
        af_gguf_array_f64(array, i, &number);
    }
}

static void read_entries(const af_gguf *file) {
    for (size_t i = 0; i < af_gguf_kv_count(file); i++) {
        af_buf shown = {0};
        const af_slice key = af_gguf_key_at(file, i);
        char name[256] = {0};
        if (key.n < sizeof name) memcpy(name, key.p, key.n);
        if (af_gguf_get_array(file, name)) read_array(af_gguf_get_array(file, name));
        af_gguf_value_text(file, i, &shown);
        af_buf_clear(&shown);
    }
}

static unsigned read_tensors(const af_gguf *file) {
    unsigned sum = 0;
    for (size_t i = 0; i < af_gguf_tensor_count(file); i++) {
        const af_tensor *tensor = af_gguf_tensor_at(file, i);
        HOLDS(tensor->bytes > 0);
        sum += tensor->data[0] + tensor->data[tensor->bytes - 1];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static volatile unsigned sink;
    af_gguf *file = NULL;
    af_error error = {0};
    af_log_set_level(AF_LOG_ERROR);
    if (af_gguf_open(temp_write("fuzzed.gguf", bytes, n), &file, &error)) {
        HOLDS(!file && error.text[0]);
        return 0;
    }
    read_entries(file);
    sink += read_tensors(file);
    af_gguf_close(file);
    return 0;
}
