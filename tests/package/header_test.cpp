// Links with one object a public header, and compares the version of the headers
// with that of the library.
#include <cstdio>

#include <gradnn/gradnn.hpp>

int main() {
    const gradnn::version_info library = gradnn::version();
    std::printf("gradnn %d.%d.%d, headers %d.%d.%d, %s\n", library.major,
            library.minor, library.patch, gradnn::version_major,
            gradnn::version_minor, gradnn::version_patch,
            gradnn::to_string(gradnn::status::success));
    return gradnn::version_agrees() ? 0 : 1;
}
