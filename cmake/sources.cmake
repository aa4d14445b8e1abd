# Lists of sources. A source that no list names would be left out without a
# word: it is warned of, and the test package.sources fails.

# gradnn_report_unlisted(<source>...): these are in no list.
function(gradnn_report_unlisted)
    if(ARGN)
        message(WARNING
            "${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt does not list ${ARGN}")
        set_property(GLOBAL APPEND PROPERTY GRADNN_UNLISTED ${ARGN})
    endif()
endfunction()

# gradnn_find_unlisted(<source>...): reports the sources of the current folder
# and of the folders below it that are not among these.
function(gradnn_find_unlisted)
    file(GLOB_RECURSE found RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}"
        CONFIGURE_DEPENDS *.cpp *.cu)
    list(REMOVE_ITEM found ${ARGN})
    gradnn_report_unlisted(${found})
endfunction()

# gradnn_sources(<target> [UNIT <name>] <source>... [LEFT_OUT <source>...]): compiles
# the sources of the current folder into a target. LEFT_OUT names those that this
# build does without. Device code with a UNIT is compiled together with that of the
# same name (gradnn_unite_device_code). Folders below have lists of their own.
function(gradnn_sources target)
    cmake_parse_arguments(PARSE_ARGV 1 given "" "UNIT" "LEFT_OUT")
    set(sources ${given_UNPARSED_ARGUMENTS})
    if(given_UNIT AND unite_device_code)
        set(device_code ${sources})
        list(FILTER device_code INCLUDE REGEX "[.]cu$")
        list(REMOVE_ITEM sources ${device_code})
        list(TRANSFORM device_code PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
        set_property(GLOBAL APPEND PROPERTY GRADNN_UNIT_${given_UNIT} ${device_code})
    endif()
    target_sources(${target} PRIVATE ${sources})
    gradnn_unite(${target} ${sources})
    file(GLOB found RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}"
        CONFIGURE_DEPENDS *.cpp *.cu)
    list(REMOVE_ITEM found ${given_UNPARSED_ARGUMENTS} ${given_LEFT_OUT})
    # A folder with sources and without a list.
    file(GLOB below RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}"
        CONFIGURE_DEPENDS */*.cpp */*.cu)
    foreach(source IN LISTS below)
        get_filename_component(folder "${source}" DIRECTORY)
        if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
            list(APPEND found "${source}")
        endif()
    endforeach()
    gradnn_report_unlisted(${found})
endfunction()
