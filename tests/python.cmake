# The python tests: one ctest entry for each *_test.py, run by the virtual environment that tools/check.sh makes.
# Where ../shared lies beside the checkout, conftest.py turns a skip into a failure.
set(python ${CMAKE_SOURCE_DIR}/build/venv/bin/python)
set(runtime ${CMAKE_BINARY_DIR}/runtime) # Vulkan's software driver and the tests' sockets want one
file(MAKE_DIRECTORY ${runtime})
file(CHMOD ${runtime} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
set(python_environment SHIMMY_EXE=$<TARGET_FILE:shimmy> SHIMMY_BUILD=${CMAKE_BINARY_DIR}
    SHIMMY_MODELS=${CMAKE_SOURCE_DIR}/build/models XDG_RUNTIME_DIR=${runtime} PYTHONDONTWRITEBYTECODE=1)
if(SHIMMY_SANITIZE)
    list(APPEND python_environment SHIMMY_SANITIZED=${SHIMMY_SANITIZE})
endif()

# What says nothing more, or nothing true, about a sanitized program: long runs, resources, what is installed.
set(release_only gpu_batch_test gpu_neighbours_test gpu_test gpu_verify_test install_test layout_test real_test resources_test
    twin_test)

file(GLOB python_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.py)
if(CMAKE_CROSSCOMPILING)
    set(python_tests) # qemu.cmake has those that such a build runs
endif()
foreach(path IN LISTS python_tests)
    get_filename_component(name ${path} NAME_WE)
    if(SHIMMY_SANITIZE AND name IN_LIST release_only)
        continue()
    endif()
    add_test(NAME ${name} COMMAND ${python} -m pytest -q -rs -p no:cacheprovider ${path} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${python_environment}" TIMEOUT 900 LABELS python)
endforeach()

# What computes on both cores, or measures.
foreach(name IN ITEMS promises_test real_test resources_test twin_test)
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
    endif()
endforeach()

# Every small model, and every variation of a GPU in software.
foreach(name IN ITEMS gpu_batch_test gpu_neighbours_test gpu_verify_test)
    if(TEST ${name})
        set_property(TEST ${name} APPEND PROPERTY LABELS slow)
    endif()
endforeach()
if(TEST gpu_verify_test)
    set_tests_properties(gpu_verify_test PROPERTIES TIMEOUT 2400) # a quarter of an hour on two quiet cores
endif()
