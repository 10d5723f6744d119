# The warnings both compilers are held to, named here and nowhere else.
set(SHIMMY_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    -Wvla -Wwrite-strings -Wno-sign-conversion)
# -Wno-sign-conversion: gcc leaves it out of -Wconversion for C anyway in clang's sense; indexes are checked by sanitizers.
if(SHIMMY_WERROR)
    list(APPEND SHIMMY_WARNINGS -Werror)
endif()
