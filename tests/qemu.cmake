# The tests of a cross build (preset aarch64), run by qemu's user mode: label qemu is what `make check-all` runs. Python
# tests drive a script that runs the program in it; the others belong to the machine that builds.
set(emulator ${CMAKE_CROSSCOMPILING_EMULATOR})
list(JOIN emulator " " emulator)
set(shimmy_script ${CMAKE_BINARY_DIR}/shimmy-qemu)
file(GENERATE OUTPUT ${shimmy_script} CONTENT "#!/bin/sh\nexec ${emulator} $<TARGET_FILE:shimmy> \"$@\"\n"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)

# A small model of every weight format, whole.
add_test(NAME logits_test COMMAND ${CMAKE_SOURCE_DIR}/build/venv/bin/python -m pytest -q -rs -p no:cacheprovider
    ${CMAKE_CURRENT_SOURCE_DIR}/logits_test.py -k "nano-llama" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(logits_test PROPERTIES TIMEOUT 900 ENVIRONMENT
    "SHIMMY_EXE=${shimmy_script};SHIMMY_MODELS=${CMAKE_SOURCE_DIR}/build/models;PYTHONDONTWRITEBYTECODE=1")

# The kernel check on processors of each kind: their instruction sets are found, and nothing beyond them is executed.
# qemu's own (`max`) has all.
function(kernel_check_on processor isa)
    add_test(NAME kernel_check_${isa} COMMAND kernel_check WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(kernel_check_${isa} PROPERTIES LABELS qemu TIMEOUT 600
        ENVIRONMENT "QEMU_CPU=${processor};KERNEL_CHECK_ISA=${isa}")
endfunction()
kernel_check_on(cortex-a53 neon)
kernel_check_on(neoverse-n1 dotprod)
set_tests_properties(kernel_check PROPERTIES ENVIRONMENT KERNEL_CHECK_ISA=i8mm)

set_property(TEST base_test pool_test quant_test gguf_test plan_test model_test kernel_check route_test
    engine_test engine_cache_test logits_test APPEND PROPERTY LABELS qemu)
set_tests_properties(split_test PROPERTIES DISABLED ON) # asks for a GPU
