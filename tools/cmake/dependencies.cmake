# Libraries: the system's packages first; where a package is missing, a release pinned by its commit.
#
# Each call names the find_package package, the target that we link, the repository and the release's
# commit. A fetched library is built without its own tests and installs nothing.
include(FetchContent)
set(FETCHCONTENT_QUIET OFF)

macro(gpuplan_dependency package target repository tag commit)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(STATUS "${package}: no system package, fetching ${tag} from ${repository}")
    # The name of a content is not the package's, so that a second find_package does not meet it.
    FetchContent_Declare(gpuplan_${package} GIT_REPOSITORY ${repository} GIT_TAG ${commit})
    FetchContent_GetProperties(gpuplan_${package})
    if(NOT gpuplan_${package}_POPULATED)
      FetchContent_MakeAvailable(gpuplan_${package})
    endif()
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${package} was found but does not define the target ${target}")
  endif()
endmacro()

# A static library in place of a package's shared one, which the package's own target names.
function(gpuplan_static target library)
  find_library(GPUPLAN_STATIC_${library} lib${library}.a)
  mark_as_advanced(GPUPLAN_STATIC_${library})
  if(NOT GPUPLAN_STATIC_${library})
    message(WARNING "no lib${library}.a: gpuplan needs the shared library where it runs")
    return()
  endif()
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${GPUPLAN_STATIC_${library}})
endfunction()
if(GPUPLAN_SELF_CONTAINED)
  find_package(yaml-cpp QUIET)
  if(yaml-cpp_FOUND AND NOT TARGET yaml-cpp::yaml-cpp)
    gpuplan_static(yaml-cpp::yaml-cpp yaml-cpp)
  endif()
  gpuplan_static(ZLIB::ZLIB z)
endif()

# Read by the fetched libraries' own scripts.
set(BUILD_SHARED_LIBS OFF)
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # option() leaves the variables below alone
set(CMAKE_POLICY_VERSION_MINIMUM 3.5)  # CMake 4 refuses doctest's and zlib's older minimum otherwise
set(CLI11_BUILD_TESTS OFF)
set(CLI11_BUILD_EXAMPLES OFF)
set(YAML_CPP_BUILD_TESTS OFF)
set(YAML_CPP_BUILD_TOOLS OFF)
set(DOCTEST_WITH_TESTS OFF)
set(BENCHMARK_ENABLE_TESTING OFF)
set(BENCHMARK_ENABLE_GTEST_TESTS OFF)
set(BENCHMARK_ENABLE_WERROR OFF)
set(JSON_BuildTests OFF)

# yaml-cpp 0.7 calls its target yaml-cpp, 0.8 yaml-cpp::yaml-cpp; the alias lets us write the newer name.
find_package(yaml-cpp QUIET)
if(yaml-cpp_FOUND AND NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
  target_link_libraries(yaml-cpp::yaml-cpp INTERFACE yaml-cpp)
endif()

gpuplan_dependency(yaml-cpp yaml-cpp::yaml-cpp https://github.com/jbeder/yaml-cpp.git 0.8.0
                   f7320141120f720aecc4c32be25586e7da9eb978)
gpuplan_dependency(CLI11 CLI11::CLI11 https://github.com/CLIUtils/CLI11.git v2.3.2
                   291c58789c031208f08f4f261a858b5b7083e8e2)
gpuplan_dependency(nlohmann_json nlohmann_json::nlohmann_json https://github.com/nlohmann/json.git v3.11.2
                   bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d)
# zlib's own script names no ZLIB::ZLIB; recorded traces are gzip files.
find_package(ZLIB QUIET)
if(NOT ZLIB_FOUND)
  FetchContent_Declare(gpuplan_zlib GIT_REPOSITORY https://github.com/madler/zlib.git
                       GIT_TAG 04f42ceca40f73e2978b50e93806c2a18c1281fc)  # v1.2.13
  FetchContent_MakeAvailable(gpuplan_zlib)
  add_library(ZLIB::ZLIB INTERFACE IMPORTED)
  target_link_libraries(ZLIB::ZLIB INTERFACE zlibstatic)
  target_include_directories(ZLIB::ZLIB INTERFACE ${gpuplan_zlib_SOURCE_DIR} ${gpuplan_zlib_BINARY_DIR})
endif()
if(GPUPLAN_TESTS)
  gpuplan_dependency(doctest doctest::doctest https://github.com/doctest/doctest.git v2.4.11
                     ae7a13539fb71f270b87eb2e874fbac80bc8dda2)
endif()
if(GPUPLAN_BENCHMARKS)
  gpuplan_dependency(benchmark benchmark::benchmark https://github.com/google/benchmark.git v1.7.1
                     d572f4777349d43653b21d6c2fc63020ab326db2)
endif()

# CUDA: validate/cuda is compiled with it; `gpuplan version` says what was found.
set(GPUPLAN_CUDA_VERSION "")
if(NOT GPUPLAN_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "GPUPLAN_CUDA is AUTO, ON or OFF, not '${GPUPLAN_CUDA}'")
endif()
if(NOT GPUPLAN_CUDA STREQUAL "OFF")
  find_program(GPUPLAN_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(GPUPLAN_NVCC)
  if(GPUPLAN_NVCC)
    execute_process(COMMAND ${GPUPLAN_NVCC} --version OUTPUT_VARIABLE nvcc_says)
    string(REGEX MATCH "release ([0-9.]+)" nvcc_says "${nvcc_says}")
    set(GPUPLAN_CUDA_VERSION "${CMAKE_MATCH_1}")
  endif()
  if(GPUPLAN_CUDA STREQUAL "ON" AND NOT GPUPLAN_CUDA_VERSION)
    message(FATAL_ERROR "GPUPLAN_CUDA=ON, but no working nvcc was found. Install the CUDA toolkit, put nvcc on PATH or "
                        "set CUDA_PATH; or configure with -DGPUPLAN_CUDA=OFF, which gives every estimate but no "
                        "measurement.")
  endif()
endif()
