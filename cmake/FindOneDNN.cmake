# Finds oneDNN 3.x and makes the imported target OneDNN::dnnl.
#
# The headers and the library are looked for directly: the package files that
# come with oneDNN 3.2 ask for semantics of CMake 2.6, which CMake 4 refuses.
# The machine is searched first, then third_party/onednn, where scripts/setup
# puts it. An older oneDNN (Debian's libdnnl-dev is 2.6) is passed over.
#
# Sets OneDNN_FOUND, OneDNN_VERSION, OneDNN_LIBRARY, OneDNN_INCLUDE_DIR and
# OneDNN_BUNDLED (it came from third_party, so that an install must bring it
# along). Set OneDNN_ROOT to search one place more, before the others.

set(_onednn_third_party "${CMAKE_CURRENT_LIST_DIR}/../third_party/onednn")
cmake_path(NORMAL_PATH _onednn_third_party)

# The version that the headers in `dir` state; empty where there is none.
function(_onednn_header_version dir out)
    set(version "")
    foreach(header oneapi/dnnl/dnnl_version.h dnnl_version.h)
        if(EXISTS "${dir}/${header}")
            file(STRINGS "${dir}/${header}" lines
                REGEX "define[ \t]+DNNL_VERSION_(MAJOR|MINOR|PATCH)[ \t]+[0-9]+")
            if(lines)
                list(TRANSFORM lines REPLACE ".*[ \t]([0-9]+).*" "\\1")
                list(JOIN lines "." version)
                break()
            endif()
        endif()
    endforeach()
    set(${out} "${version}" PARENT_SCOPE)
endfunction()

if(NOT (OneDNN_INCLUDE_DIR AND OneDNN_LIBRARY))
    unset(OneDNN_INCLUDE_DIR CACHE)
    unset(OneDNN_LIBRARY CACHE)
    foreach(_onednn_place machine third_party)
        if(_onednn_place STREQUAL machine)
            set(_onednn_where "")
        else()
            set(_onednn_where PATHS "${_onednn_third_party}" NO_DEFAULT_PATH)
        endif()
        find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp ${_onednn_where}
            PATH_SUFFIXES include)
        find_library(OneDNN_LIBRARY dnnl ${_onednn_where}
            PATH_SUFFIXES lib lib64)
        if(OneDNN_INCLUDE_DIR AND OneDNN_LIBRARY)
            _onednn_header_version("${OneDNN_INCLUDE_DIR}" _onednn_version)
            if(_onednn_version VERSION_GREATER_EQUAL 3
                    AND _onednn_version VERSION_LESS 4)
                break()
            endif()
            if(NOT OneDNN_FIND_QUIETLY)
                message(STATUS "Passing over oneDNN ${_onednn_version} in "
                    "${OneDNN_INCLUDE_DIR}: gradnn takes 3.x")
            endif()
        endif()
        unset(OneDNN_INCLUDE_DIR CACHE)
        unset(OneDNN_LIBRARY CACHE)
    endforeach()
endif()

if(OneDNN_INCLUDE_DIR)
    _onednn_header_version("${OneDNN_INCLUDE_DIR}" OneDNN_VERSION)
endif()
string(FIND "${OneDNN_LIBRARY}" "${_onednn_third_party}/" _onednn_at)
if(_onednn_at EQUAL 0)
    set(OneDNN_BUNDLED TRUE)
else()
    set(OneDNN_BUNDLED FALSE)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN
    REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR
    VERSION_VAR OneDNN_VERSION
    REASON_FAILURE_MESSAGE "scripts/setup installs it")
mark_as_advanced(OneDNN_LIBRARY OneDNN_INCLUDE_DIR)

if(OneDNN_FOUND AND NOT TARGET OneDNN::dnnl)
    add_library(OneDNN::dnnl UNKNOWN IMPORTED)
    set_target_properties(OneDNN::dnnl PROPERTIES
        IMPORTED_LOCATION "${OneDNN_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${OneDNN_INCLUDE_DIR}")
endif()
