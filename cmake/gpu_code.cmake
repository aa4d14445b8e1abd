# For which GPUs the kernels are compiled that come with the library: what
# CMAKE_CUDA_ARCHITECTURES lists, and GRADNN_CUDA_ASSEMBLED, pairs as 90:100, machine code
# for 10.0 that is assembled from the PTX of 9.0.

if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8) # It knows none after 9.0.
    list(FILTER GRADNN_CUDA_ASSEMBLED EXCLUDE REGEX ":1[0-9][0-9]$")
endif()
set(machine_code ${CMAKE_CUDA_ARCHITECTURES})
list(FILTER machine_code EXCLUDE REGEX "-virtual$")
set(ptx ${CMAKE_CUDA_ARCHITECTURES})
list(FILTER ptx EXCLUDE REGEX "-real$")
foreach(pair IN LISTS GRADNN_CUDA_ASSEMBLED)
    if(NOT pair MATCHES "^([0-9]+):([0-9]+)$")
        message(FATAL_ERROR "GRADNN_CUDA_ASSEMBLED has \"${pair}\"; it takes "
            "pairs such as 90:100, machine code for 10.0 of PTX of 9.0")
    endif()
    list(APPEND machine_code ${CMAKE_MATCH_2})
    target_compile_options(gradnn_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:\
--generate-code=arch=compute_${CMAKE_MATCH_1},code=sm_${CMAKE_MATCH_2}>")
endforeach()

# In words, for `gradnn info` and for those whose GPU runs none of it.
set(GRADNN_CUDA_CODE)
foreach(kind IN ITEMS "machine code" PTX)
    string(TOLOWER "${kind}" list)
    string(REPLACE " " "_" list "${list}")
    list(TRANSFORM ${list} REPLACE "^([0-9]+)([0-9])[a-z]?(-.*)?$" "\\1.\\2")
    if(${list})
        list(JOIN ${list} ", " numbers)
        list(APPEND GRADNN_CUDA_CODE "${kind} for ${numbers}")
    endif()
endforeach()
list(JOIN GRADNN_CUDA_CODE ", " GRADNN_CUDA_CODE)
message(STATUS "GPU code: ${GRADNN_CUDA_CODE}")

# nvcc leaves machine code as it is, or (13) nearly so. A library for one machine gains
# nothing by less.
list(LENGTH machine_code generations)
if(generations GREATER 1)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
        set(compress -Xfatbin=-compress-all)
    else()
        set(compress --compress-mode=size)
    endif()
    target_compile_options(gradnn_options INTERFACE
        "$<$<COMPILE_LANGUAGE:CUDA>:${compress}>")
endif()
