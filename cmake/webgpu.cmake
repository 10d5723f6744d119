# wgpu-native: fetched once into build/deps (tools/fetch_wgpu.py), its headers compiled against, its library embedded in
# the executable and loaded from memory. Without a network the build goes on without a GPU and says so.
set(WGPU_DIR ${CMAKE_SOURCE_DIR}/build/deps/wgpu)
option(SHIMMY_GPU "Build the WebGPU backend" ON)
set(SHIMMY_HAS_GPU OFF)
if(SHIMMY_GPU AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    find_package(Python3 COMPONENTS Interpreter)
    if(Python3_FOUND AND NOT EXISTS ${WGPU_DIR}/webgpu.h)
        execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/fetch_wgpu.py ${WGPU_DIR})
    endif()
    if(EXISTS ${WGPU_DIR}/webgpu.h AND EXISTS ${WGPU_DIR}/libwgpu_native.so)
        set(SHIMMY_HAS_GPU ON)
    endif()
endif()
if(NOT SHIMMY_HAS_GPU)
    message(WARNING "building without a GPU: wgpu-native is not there (tools/fetch_wgpu.py fetches it)")
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
