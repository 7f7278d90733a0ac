# cmake --install: programs, libraries, headers, and what find_package(Soma) needs. Everything is
# found relative to where it lies, so the tree may be moved.
include(CMakePackageConfigHelpers)

install(TARGETS soma nccom-test neff RUNTIME DESTINATION bin)
install(TARGETS neuron-ls neuron-monitor neuron-top RUNTIME DESTINATION bin)
install(PROGRAMS tools/neuron-monitor/neuron-monitor-prometheus.py DESTINATION bin)
install(TARGETS nrt ndl shim soma_kernel soma_machine LIBRARY DESTINATION lib NAMELINK_SKIP)
install(TARGETS nrt ndl LIBRARY DESTINATION lib NAMELINK_ONLY)
install(TARGETS nrt3 LIBRARY DESTINATION lib/nrta3)
install(DIRECTORY ${CMAKE_BINARY_DIR}/libexec/soma DESTINATION libexec USE_SOURCE_PERMISSIONS)

install(DIRECTORY sdk/soma DESTINATION include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${CMAKE_BINARY_DIR}/kernel_headers/soma DESTINATION include)
install(DIRECTORY runtime/include/nrt runtime/include/nrta3 DESTINATION include)
install(FILES driver/ndl/ndl.h driver/ndl/neuron_driver_shared.h
              driver/ndl/neuron_driver_shared_tensor_batch_op.h DESTINATION include/ndl)
install(DIRECTORY driver/ndl/nrt/nds DESTINATION include/nrt)

install(FILES cmake/SomaConfig.cmake DESTINATION lib/cmake/Soma)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/SomaConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/SomaConfigVersion.cmake DESTINATION lib/cmake/Soma)
