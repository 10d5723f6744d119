# wgpu-native: fetched once into build/deps (tools/fetch_wgpu.py), its headers compiled against, its library embedded in
# the executable and loaded from memory. Without a network the build goes on without a GPU and says so in one line.
set(WGPU_DIR ${CMAKE_SOURCE_DIR}/build/deps/wgpu)
option(SHIMMY_GPU "Build the WebGPU backend" ON)
set(SHIMMY_HAS_GPU OFF)
set(SHIMMY_NO_GPU "SHIMMY_GPU is off, or this is no x86-64 machine")
if(SHIMMY_GPU AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    if(NOT EXISTS ${WGPU_DIR}/libwgpu_native.so OR NOT EXISTS ${WGPU_DIR}/webgpu.h)
        execute_process(COMMAND python3 ${CMAKE_SOURCE_DIR}/tools/fetch_wgpu.py ${WGPU_DIR}
            ERROR_VARIABLE SHIMMY_NO_GPU ERROR_STRIP_TRAILING_WHITESPACE)
    endif()
    if(EXISTS ${WGPU_DIR}/webgpu.h AND EXISTS ${WGPU_DIR}/libwgpu_native.so)
        set(SHIMMY_HAS_GPU ON)
    endif()
endif()
if(NOT SHIMMY_HAS_GPU)
    message(NOTICE "shimmy: building without a GPU: ${SHIMMY_NO_GPU}") # to stderr, which the Makefile lets through
endif()

# Adds what is made at build (the shaders as a C table, the library as data) to a target that holds src/backend/webgpu.
function(webgpu_sources target)
    file(GLOB shaders CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/webgpu/shaders/*.wgsl)
    set(made ${CMAKE_BINARY_DIR}/gpu_shader_files.c)
    add_custom_command(OUTPUT ${made} DEPENDS ${shaders} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM
        COMMAND ${CMAKE_COMMAND} "-DFILES=${shaders}" -DOUT=${made} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
    target_sources(${target} PRIVATE ${made} ${CMAKE_SOURCE_DIR}/src/backend/webgpu/gpu_embed.S)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/backend/webgpu/gpu_embed.S PROPERTIES
        COMPILE_DEFINITIONS AF_WGPU_LIBRARY="${WGPU_DIR}/libwgpu_native.so" OBJECT_DEPENDS ${WGPU_DIR}/libwgpu_native.so)
    target_include_directories(${target} SYSTEM PRIVATE ${WGPU_DIR})
    target_compile_definitions(${target} PRIVATE AF_WEBGPU)
endfunction()
