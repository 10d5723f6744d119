# `make install`: the program, the library's header and archive, a pkg-config file.
include(GNUInstallDirs)
install(TARGETS shimmy RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS airframe ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/airframe.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/airframe.pc.in airframe.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/airframe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
