# Device code that the library carries as text, to be compiled at run time
# (src/gpu/jit). As a script (cmake -P) it writes the source that has the texts.

if(CMAKE_SCRIPT_MODE_FILE)
    # OUTPUT, ROOT and a file LIST of paths below ROOT.
    file(STRINGS "${LIST}" paths)
    set(entries "")
    foreach(path IN LISTS paths)
        file(READ "${ROOT}/${path}" text)
        string(APPEND entries "    {\"${path}\",\n")
        # Pieces: compilers limit the length of a literal.
        string(LENGTH "${text}" length)
        set(begin 0)
        while(begin LESS length)
            string(SUBSTRING "${text}" ${begin} 8000 piece)
            string(APPEND entries "R\"source(${piece})source\"\n")
            math(EXPR begin "${begin} + 8000")
        endwhile()
        string(APPEND entries "    },\n")
    endforeach()
    string(SHA256 digest "${entries}")
    file(WRITE "${OUTPUT}" "// Written by cmake/embed.cmake.
#include \"gpu/jit/load.hpp\"

namespace gradnn::gpu::jit {

std::span<const source_file> embedded_sources() {
    static const source_file files[] = {
${entries}    };
    return files;
}

const char *const digest_of_sources = \"${digest}\";

} // namespace gradnn::gpu::jit
")
    return()
endif()

# gradnn_embed(<source>...): sources of the current folder that are compiled at
# run time, and headers that these include.
function(gradnn_embed)
    foreach(source IN LISTS ARGN)
        file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/src"
            "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
        set_property(GLOBAL APPEND PROPERTY GRADNN_EMBEDDED "${path}")
    endforeach()
endfunction()

# gradnn_embedded_sources(<target>): the target has all of them. To be called in
# the folder that makes the target, after those that embed.
function(gradnn_embedded_sources target)
    get_property(paths GLOBAL PROPERTY GRADNN_EMBEDDED)
    list(SORT paths)
    set(root "${PROJECT_SOURCE_DIR}/src")
    set(list "${CMAKE_CURRENT_BINARY_DIR}/embedded_sources.txt")
    set(output "${CMAKE_CURRENT_BINARY_DIR}/embedded_sources.cpp")
    list(JOIN paths "\n" lines)
    file(CONFIGURE OUTPUT "${list}" CONTENT "${lines}\n" @ONLY)
    list(TRANSFORM paths PREPEND "${root}/" OUTPUT_VARIABLE files)
    set(script "${PROJECT_SOURCE_DIR}/cmake/embed.cmake")
    add_custom_command(OUTPUT "${output}"
        COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DROOT=${root}"
            "-DLIST=${list}" -P "${script}"
        DEPENDS ${files} "${list}" "${script}" VERBATIM)
    target_sources(${target} PRIVATE "${output}")
endfunction()
