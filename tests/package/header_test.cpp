// Links with one object a public header. Prints the version so that a failure
// to load the library shows here.
#include <cstdio>

#include <gradnn/gradnn.hpp>

int main() {
    std::printf("gradnn %d.%d.%d, %s\n", gradnn::version_major,
            gradnn::version_minor, gradnn::version_patch,
            gradnn::to_string(gradnn::status::success));
    return 0;
}
