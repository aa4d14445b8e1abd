# How gradnn's own code is compiled. Nothing here reaches a project that links
# against gradnn.

if(PROJECT_IS_TOP_LEVEL)
    if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
        set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
    endif()
    set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
    set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
    find_program(GRADNN_CCACHE ccache)
    mark_as_advanced(GRADNN_CCACHE)
    if(GRADNN_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER
            AND NOT DEFINED ENV{CCACHE_DISABLE})
        set(CMAKE_CXX_COMPILER_LAUNCHER "${GRADNN_CCACHE}")
        set(CMAKE_CUDA_COMPILER_LAUNCHER "${GRADNN_CCACHE}")
    endif()
endif()

# All of gradnn's own targets link this.
add_library(gradnn_options INTERFACE)
target_compile_features(gradnn_options INTERFACE cxx_std_20)
target_compile_options(gradnn_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>"
    # A product and a sum are fused where the code says so and nowhere else:
    # the same bits from every compiler and for every position in a loop.
    "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>"
    # GCC 12 sees overlapping copies in std::string where there are none
    # (GCC bug 105651).
    "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-restrict>")
# Said here because CMake 3.25 does not know the standards of nvcc 13.
target_compile_options(gradnn_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-Xcompiler=-Wall,-Wextra>")
if(GRADNN_WERROR)
    target_compile_options(gradnn_options INTERFACE
        "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
        "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()

# Options of the folder, which those of a target or of a folder below can take back.
if(GRADNN_SANITIZE)
    add_compile_options(
        "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GRADNN_SANITIZE}>"
        "$<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>"
        "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>"
        # A test before every use of memory, each of which AddressSanitizer has
        # too; they take a third of the time to compile.
        "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,object-size>")
    add_link_options(-fsanitize=${GRADNN_SANITIZE})
endif()

# Headers that most sources of a target include, compiled once: a quarter of a source's
# time, a sixth of a test's. A build with ccache is without, since ccache passes over sources
# that have them.
if(GRADNN_PRECOMPILE STREQUAL "AUTO")
    set(precompile ON)
    if(CMAKE_CXX_COMPILER_LAUNCHER)
        set(precompile OFF)
    endif()
else()
    set(precompile ${GRADNN_PRECOMPILE})
endif()
function(gradnn_precompile target)
    if(precompile)
        target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic>
            <chrono> <cmath> <functional> <map> <memory> <mutex> <optional>
            <span> <sstream> <string> <string_view> <vector> ${ARGN})
    endif()
endfunction()

# gradnn_unite(<target> <source>...): sources of the current folder, which are compiled a
# dozen at a time. It takes a third of the time of one by one where most of that is the
# headers'. Not device code, nor what Highway includes once for each instruction set.
function(gradnn_unite target)
    if(NOT GRADNN_UNITE)
        return()
    endif()
    set_target_properties(${target} PROPERTIES
        UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    # What a source has outside its functions is outside those of the next one.
    target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>")
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    set(count 0)
    foreach(source IN LISTS ARGN)
        file(STRINGS "${source}" alone LIMIT_COUNT 1 REGEX "foreach_target[.]h")
        if(NOT alone AND source MATCHES "[.]cpp$")
            math(EXPR number "${count} / 12 + 1")
            math(EXPR count "${count} + 1")
            set_source_files_properties("${source}" TARGET_DIRECTORY ${target}
                PROPERTIES UNITY_GROUP "${folder}_${number}")
        endif()
    endforeach()
endfunction()

# gradnn_unite_device_code(<target> <unit>...): device code is compiled as the units that
# gradnn_sources has put it into, as nvcc takes six seconds for headers of each source.
# Not with ccache, where changes are to be compiled soon.
set(unite_device_code OFF)
if(GRADNN_UNITE AND precompile)
    set(unite_device_code ON)
endif()
function(gradnn_unite_device_code target)
    foreach(unit IN LISTS ARGN)
        get_property(sources GLOBAL PROPERTY GRADNN_UNIT_${unit})
        if(sources)
            set(file "${CMAKE_CURRENT_BINARY_DIR}/${unit}_unit.cu")
            list(JOIN sources "\"\n#include \"" text)
            file(CONFIGURE OUTPUT "${file}" CONTENT "#include \"${text}\"\n" @ONLY)
            target_sources(${target} PRIVATE "${file}")
        endif()
    endforeach()
endfunction()

# The objects of a target, without its precompiled headers, which CMake counts as one.
function(gradnn_objects_of target result)
    set(${result} "$<FILTER:$<TARGET_OBJECTS:${target}>,EXCLUDE,[.]gch$>" PARENT_SCOPE)
endfunction()

# What runs once, or waits for the library, is compiled in less time than it would take
# optimized; with a sanitizer, all that is optimized takes half as long again, and tests
# of addresses and of virtual tables, which are left to the library, a third. But for
# sources that have loops over elements: gradnn_loops(<source>...).
if(GRADNN_SANITIZE)
    set(cxx $<COMPILE_LANGUAGE:CXX>)
    set(gradnn_little_optimized $<${cxx}:-O0> $<${cxx}:-fno-sanitize=alignment,vptr>)
    set(gradnn_much_optimized $<${cxx}:-O2>)
else()
    set(cxx $<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>)
    set(gradnn_little_optimized $<${cxx}:-O1>)
    set(gradnn_much_optimized $<${cxx}:-O3>)
endif()
function(gradnn_loops)
    set_source_files_properties(${ARGN} PROPERTIES
        COMPILE_OPTIONS ${gradnn_much_optimized} SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# Standard C++ and position independence for every target below.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
