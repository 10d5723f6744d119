# What needs the WebGPU backend in the build. On a machine without lavapipe (tools/setup.sh installs it) those that need
# a device skip.
c_test(gpu_pack_test ${BACKEND})
c_test(gpu_store_test ${BACKEND})
c_test(gpu_upload_test ${BACKEND})
target_include_directories(gpu_upload_test SYSTEM PRIVATE ${WGPU_DIR})
c_test(gpu_plan_test airframe)
target_sources(gpu_plan_test PRIVATE backend_test_model.c backend_test_recur.c backend_test_reference.c)
c_test(gpu_draw_test airframe)
target_sources(gpu_draw_test PRIVATE backend_test_model.c backend_test_recur.c backend_test_reference.c)
c_test(gpu_decode_test airframe)
target_sources(gpu_decode_test PRIVATE backend_test_model.c backend_test_recur.c backend_test_reference.c)
set_tests_properties(gpu_plan_test gpu_draw_test gpu_decode_test gpu_upload_test PROPERTIES ENVIRONMENT XDG_RUNTIME_DIR=${CMAKE_BINARY_DIR}/runtime) # lavapipe asks

# A Vulkan driver without a device, which server_sandbox_test.py puts into a sandbox.
add_library(fake_driver MODULE fake_driver.c)
target_link_libraries(fake_driver PRIVATE Threads::Threads)

# shimmy with a shader that is wrong on purpose: gpu_test.py sees `shimmy verify` find it. The table of shaders defined here
# stands in for the library's.
set(broken ${CMAKE_BINARY_DIR}/broken_shaders)
file(MAKE_DIRECTORY ${broken})
file(GLOB shaders CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/webgpu/shaders/*.wgsl)
set(broken_files)
foreach(path IN LISTS shaders)
    get_filename_component(file ${path} NAME)
    add_custom_command(OUTPUT ${broken}/${file} DEPENDS ${path} ${CMAKE_CURRENT_SOURCE_DIR}/break_shader.cmake VERBATIM
        COMMAND ${CMAKE_COMMAND} -DFROM=${path} -DTO=${broken}/${file} -P ${CMAKE_CURRENT_SOURCE_DIR}/break_shader.cmake)
    list(APPEND broken_files ${broken}/${file})
endforeach()
add_custom_command(OUTPUT ${broken}/table.c DEPENDS ${broken_files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DFILES=${broken_files}" -DOUT=${broken}/table.c -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
add_executable(shimmy_broken ${CMAKE_SOURCE_DIR}/shimmy/main.c ${broken}/table.c)
target_link_libraries(shimmy_broken PRIVATE shimmy_parts)
