# The python tests: one ctest entry for each *_test.py, run by the virtual environment that tools/check.sh makes.
#
# Where ../shared lies beside the checkout nothing may be skipped: conftest.py turns a skip into a failure.
# Labels: slow (only `make check-all`), threads (also run with ThreadSanitizer).
set(python ${CMAKE_SOURCE_DIR}/build/venv/bin/python)
set(python_environment SHIMMY_EXE=$<TARGET_FILE:shimmy> SHIMMY_BUILD=${CMAKE_BINARY_DIR}
    SHIMMY_MODELS=${CMAKE_SOURCE_DIR}/build/models PYTHONDONTWRITEBYTECODE=1)
if(SHIMMY_SANITIZE)
    list(APPEND python_environment SHIMMY_SANITIZED=${SHIMMY_SANITIZE})
endif()

# What a slow, sanitized program is not asked: values that the release build proves already.
set(release_only real_test layout_test)

file(GLOB python_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.py)
foreach(path IN LISTS python_tests)
    get_filename_component(name ${path} NAME_WE)
    if(SHIMMY_SANITIZE AND name IN_LIST release_only)
        continue()
    endif()
    add_test(NAME ${name} COMMAND ${python} -m pytest -q -p no:cacheprovider ${path} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${python_environment}" TIMEOUT 900)
endforeach()
