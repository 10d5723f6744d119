/* The prebuilt wgpu-native, carried in the executable (AF_WGPU_LIBRARY is its path, set by CMake). */
    .section .rodata
    .balign 64
    .global af_gpu_embedded
    .global af_gpu_embedded_end
af_gpu_embedded:
    .incbin AF_WGPU_LIBRARY
af_gpu_embedded_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits
