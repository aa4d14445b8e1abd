# Finds Google Highway and makes the imported target Highway::hwy.
#
# Takes the target hwy::hwy or hwy of an embedding project, then Highway's own
# CMake package (Debian: libhwy-dev), then plain headers and library.

if(NOT TARGET hwy::hwy AND NOT TARGET hwy)
    find_package(hwy 1.0 CONFIG QUIET)
endif()

foreach(_highway_target hwy::hwy hwy)
    if(TARGET ${_highway_target} AND NOT Highway_TARGET)
        set(Highway_TARGET ${_highway_target})
    endif()
endforeach()

if(NOT Highway_TARGET)
    find_path(Highway_INCLUDE_DIR hwy/highway.h)
    find_library(Highway_LIBRARY hwy)
    mark_as_advanced(Highway_INCLUDE_DIR Highway_LIBRARY)
    if(Highway_INCLUDE_DIR AND Highway_LIBRARY)
        set(Highway_TARGET Highway::found)
        if(NOT TARGET Highway::found)
            add_library(Highway::found UNKNOWN IMPORTED)
            set_target_properties(Highway::found PROPERTIES
                IMPORTED_LOCATION "${Highway_LIBRARY}"
                INTERFACE_INCLUDE_DIRECTORIES "${Highway_INCLUDE_DIR}")
            # Highway's headers must know whether hwy is a shared library.
            if(Highway_LIBRARY MATCHES "\\.so")
                set_target_properties(Highway::found PROPERTIES
                    INTERFACE_COMPILE_DEFINITIONS HWY_SHARED_DEFINE)
            endif()
        endif()
    endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highway
    REQUIRED_VARS Highway_TARGET
    REASON_FAILURE_MESSAGE "scripts/setup installs it (Debian and Ubuntu: libhwy-dev)")

if(Highway_FOUND AND NOT TARGET Highway::hwy)
    add_library(Highway::hwy INTERFACE IMPORTED)
    target_link_libraries(Highway::hwy INTERFACE ${Highway_TARGET})
endif()
