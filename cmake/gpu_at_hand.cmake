# Of the generations that CMAKE_CUDA_ARCHITECTURES and GRADNN_CUDA_ASSEMBLED stand for by
# default, those of this machine's GPUs, as nvidia-smi names them, each with PTX for later
# ones: 8.0's code runs on 8.6 and 8.9, what comes after 9.x takes the PTX of 9.0. Where
# it finds no GPU, both stay as they are.

execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE at_hand RESULT_VARIABLE failed ERROR_QUIET TIMEOUT 30)
string(REGEX REPLACE "[\r\n]+" ";" at_hand "${at_hand}")
list(FILTER at_hand INCLUDE REGEX "^[0-9]+\\.[0-9]$")
set(generations)
set(assembled)
foreach(capability IN LISTS at_hand)
    if(capability VERSION_LESS 8)
        continue() # gradnn has no code for it
    elseif(capability VERSION_LESS 9)
        list(APPEND generations 80)
    elseif(capability VERSION_LESS 10)
        list(APPEND generations 90)
    else()
        list(APPEND generations 90-virtual)
        if(capability VERSION_LESS 11)
            list(APPEND assembled 90:100)
        elseif(capability VERSION_GREATER_EQUAL 12 AND capability VERSION_LESS 13)
            list(APPEND assembled 90:120)
        endif()
    endif()
endforeach()
if(NOT failed AND generations)
    list(REMOVE_DUPLICATES generations)
    list(REMOVE_DUPLICATES assembled)
    if(90 IN_LIST generations)
        list(REMOVE_ITEM generations 90-virtual)
    endif()
    set(CMAKE_CUDA_ARCHITECTURES ${generations})
    set(GRADNN_CUDA_ASSEMBLED ${assembled})
endif()
