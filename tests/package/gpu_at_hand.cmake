# cmake -D WORK=FOLDER -P gpu_at_hand.cmake: cmake/gpu_at_hand.cmake takes the generations
# of the GPUs that an nvidia-smi, made in FOLDER, names.
cmake_minimum_required(VERSION 3.22)
file(MAKE_DIRECTORY "${WORK}")
set(ENV{PATH} "${WORK}:$ENV{PATH}")

# expect(<what nvidia-smi does> <CMAKE_CUDA_ARCHITECTURES> <GRADNN_CUDA_ASSEMBLED>)
function(expect command wanted wanted_assembled)
    file(WRITE "${WORK}/nvidia-smi" "#!/bin/sh\n${command}\n")
    file(CHMOD "${WORK}/nvidia-smi" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
    set(CMAKE_CUDA_ARCHITECTURES all)
    set(GRADNN_CUDA_ASSEMBLED all)
    include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/gpu_at_hand.cmake")
    if(NOT "${CMAKE_CUDA_ARCHITECTURES}/${GRADNN_CUDA_ASSEMBLED}" STREQUAL
            "${wanted}/${wanted_assembled}")
        message(SEND_ERROR "${command}: ${CMAKE_CUDA_ARCHITECTURES} and "
            "(${GRADNN_CUDA_ASSEMBLED}), not ${wanted} and (${wanted_assembled})")
    endif()
endfunction()

expect("echo 9.0" "90" "")
expect("echo 8.9; echo 8.6" "80" "")
expect("echo 12.1; echo 8.6" "90-virtual;80" "90:120")
expect("echo 10.3; echo 9.0" "90" "90:100")
expect("echo 11.0" "90-virtual" "")
expect("echo 13.0" "90-virtual" "")
expect("echo 7.5" "all" "all")
expect("echo 9.0; exit 9" "all" "all")
expect("echo 'NVIDIA-SMI has failed'" "all" "all")
