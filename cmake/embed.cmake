# Turns shader files into a C table {name, text}: run with -P, FILES (a list) and OUT set. A text is a list of character
# codes' strings, one C string a line, so that compilers' limits on literals do not matter.
set(text "/* Made by cmake/embed.cmake. */\n#include \"backend/webgpu/gpu_shader.h\"\n\n")
set(table "const af_gpu_shader_file af_gpu_shader_files[] = {\n")
foreach(path IN LISTS FILES)
    get_filename_component(name ${path} NAME)
    string(MAKE_C_IDENTIFIER ${name} id)
    file(READ ${path} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND text "static const unsigned char ${id}[] = {${bytes}0};\n")
    string(APPEND table "    {\"${name}\", (const char *)${id}, sizeof ${id} - 1},\n")
endforeach()
file(WRITE ${OUT} "${text}${table}    {0, 0, 0},\n};\n")
