# `cmake --install`: headers, library, program, CMake package, pkg-config file.

include(CMakePackageConfigHelpers)

# Parts that the machine does not have, such as the oneDNN of third_party, go
# into a folder of gradnn's own, where libgradnn.so finds them by its RUNPATH
# and no other program sees them.
set(private_libdir "${CMAKE_INSTALL_LIBDIR}/gradnn")
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gradnn")

install(TARGETS gradnn EXPORT gradnn-targets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/gradnn"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
    DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(TARGET gradnn_driver)
    install(TARGETS gradnn_driver
        RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(gradnn_onednn_file "")
if(GRADNN_WITH_ONEDNN AND OneDNN_BUNDLED)
    file(REAL_PATH "${OneDNN_LIBRARY}" onednn_file)
    cmake_path(GET onednn_file FILENAME gradnn_onednn_file)
    install(FILES "${onednn_file}" DESTINATION "${private_libdir}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/third_party/onednn/share/doc/onednn"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endif()

# Parts of CUTLASS are compiled in, and its licence goes with them.
set(cutlass_licence "${PROJECT_SOURCE_DIR}/third_party/cutlass/LICENSE.txt")
if(GRADNN_WITH_CUDA AND EXISTS "${cutlass_licence}")
    install(FILES "${cutlass_licence}"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME LICENSE.cutlass)
endif()

if(GRADNN_STATIC)
    install(FILES "${CMAKE_CURRENT_LIST_DIR}/FindHighway.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/FindOneDNN.cmake"
        DESTINATION "${package_dir}")
endif()
install(EXPORT gradnn-targets NAMESPACE gradnn:: DESTINATION "${package_dir}")
configure_package_config_file(
    "${CMAKE_CURRENT_LIST_DIR}/gradnn-config.cmake.in"
    "${PROJECT_BINARY_DIR}/cmake/gradnn-config.cmake"
    INSTALL_DESTINATION "${package_dir}"
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(
    "${PROJECT_BINARY_DIR}/cmake/gradnn-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/cmake/gradnn-config.cmake"
    "${PROJECT_BINARY_DIR}/cmake/gradnn-config-version.cmake"
    DESTINATION "${package_dir}")

# Relative to the file itself, so that an installed tree can be moved.
cmake_path(SET pc_dir "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${pc_dir}"
    OUTPUT_VARIABLE pc_prefix)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR
    BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE pc_libdir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR
    BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE pc_includedir)
# What a static library takes along: pkg-config --static.
set(pc_private "")
if(GRADNN_STATIC)
    set(pc_private "-lhwy -fopenmp -lpthread -ldl -lstdc++ -lm")
    if(gradnn_onednn_file)
        string(APPEND pc_private " \${libdir}/gradnn/${gradnn_onednn_file}"
            " -Wl,-rpath,\${libdir}/gradnn")
    elseif(GRADNN_WITH_ONEDNN)
        string(APPEND pc_private " ${OneDNN_LIBRARY}")
    endif()
    if(GRADNN_WITH_CUDA)
        string(APPEND pc_private
            " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
    endif()
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/gradnn.pc.in"
    "${PROJECT_BINARY_DIR}/cmake/gradnn.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/cmake/gradnn.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
