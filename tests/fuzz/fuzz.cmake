# Each target of tests/fuzz, replayed over its seeds. Where SHIMMY_FUZZ is on (clang, and a build whose SHIMMY_SANITIZE
# has fuzzer-no-link: the preset "fuzz") it is fuzzed for a minute instead. The fuzzer's finds go to the build's folder:
# move those worth keeping to tests/fuzz/corpus.
option(SHIMMY_FUZZ "Build the libFuzzer targets" OFF)
set(SHIMMY_FUZZ_SECONDS 60 CACHE STRING "How long ctest runs each fuzzer")
add_custom_target(fuzzers)

function(fuzz_target name)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${name}_fuzz.c)
    set(seeds ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})
    if(NOT SHIMMY_FUZZ)
        add_executable(${name}_replay ${source} fuzz/replay.c)
        add_test(NAME ${name}_replay COMMAND ${name}_replay ${seeds})
        set_tests_properties(${name}_replay PROPERTIES LABELS unit)
        set(programs ${name}_replay)
    else()
        set(found ${CMAKE_CURRENT_BINARY_DIR}/found/${name})
        file(MAKE_DIRECTORY ${found})
        add_executable(${name}_fuzz ${source})
        add_dependencies(fuzzers ${name}_fuzz)
        target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
        add_test(NAME ${name}_fuzz COMMAND ${name}_fuzz -max_total_time=${SHIMMY_FUZZ_SECONDS} -timeout=10 -max_len=4096
            -print_final_stats=1 ${found} ${seeds} WORKING_DIRECTORY ${found})
        set_tests_properties(${name}_fuzz PROPERTIES LABELS slow)
        set(programs ${name}_fuzz)
    endif()
    target_include_directories(${programs} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${programs} PRIVATE ${ARGN} Threads::Threads m)
endfunction()

fuzz_target(gguf ${GGUF})
fuzz_target(tokenizer ${TEXT})
fuzz_target(jinja ${TEXT})
