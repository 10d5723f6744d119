# The toolchain of the preset aarch64: Debian's cross compiler, the libraries that tools/fetch_aarch64.sh unpacks, and
# qemu's user mode for what is built. A machine with such a processor needs none of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu) # its C library: where the compiler's is

get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/deps/aarch64 ABSOLUTE)
if(NOT EXISTS ${root}/usr)
    execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../tools/fetch_aarch64.sh ${root} RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "no libraries to link in ${root}")
    endif()
endif()
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(CMAKE_C_STANDARD_INCLUDE_DIRECTORIES ${root}/usr/include/aarch64-linux-gnu) # headers that differ by processor
