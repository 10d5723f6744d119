# The libraries linked into the executable, each from its static archive, so that the program needs only the C library.
function(static_library target package)
    pkg_check_modules(${target} REQUIRED ${package})
    set(archives)
    foreach(name IN LISTS ${target}_LIBRARIES ARGN)
        find_library(${target}_${name}_archive NAMES lib${name}.a HINTS ${${target}_LIBRARY_DIRS} REQUIRED)
        list(APPEND archives ${${target}_${name}_archive})
    endforeach()
    list(REMOVE_DUPLICATES archives)
    add_library(${target} INTERFACE)
    target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIRS})
    target_link_libraries(${target} INTERFACE ${archives})
endfunction()

static_library(jansson_static jansson)
static_library(pcre2_static libpcre2-8)
static_library(utf8proc_static libutf8proc)
target_compile_definitions(utf8proc_static INTERFACE UTF8PROC_STATIC)

static_library(openssl_static openssl)

# libevent's parts that are used: the loop, its locks, and TLS.
pkg_check_modules(libevent REQUIRED libevent)
find_library(event_core_archive NAMES libevent_core.a HINTS ${libevent_LIBRARY_DIRS} REQUIRED)
find_library(event_openssl_archive NAMES libevent_openssl.a HINTS ${libevent_LIBRARY_DIRS} REQUIRED)
find_library(event_pthreads_archive NAMES libevent_pthreads.a HINTS ${libevent_LIBRARY_DIRS} REQUIRED)
add_library(libevent_static INTERFACE)
target_include_directories(libevent_static SYSTEM INTERFACE ${libevent_INCLUDE_DIRS})
target_link_libraries(libevent_static INTERFACE ${event_openssl_archive} ${event_core_archive} ${event_pthreads_archive}
    openssl_static ${CMAKE_DL_LIBS})
