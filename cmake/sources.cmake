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

# gradnn_sources(<target> <source>... [LEFT_OUT <source>...]): compiles the
# sources of the current folder into a target. LEFT_OUT names those that this
# build does without. Folders below have lists of their own.
function(gradnn_sources target)
    cmake_parse_arguments(PARSE_ARGV 1 given "" "" "LEFT_OUT")
    target_sources(${target} PRIVATE ${given_UNPARSED_ARGUMENTS})
    gradnn_unite(${target} ${given_UNPARSED_ARGUMENTS})
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
