# Libraries: the system's packages first, a pinned download where there is a network and no package.
include(FetchContent)

macro(gpuplan_dependency package url hash)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(STATUS "${package}: no system package, fetching ${url}")
    FetchContent_Declare(${package} URL ${url} URL_HASH SHA256=${hash})
    FetchContent_MakeAvailable(${package})
  endif()
endmacro()
