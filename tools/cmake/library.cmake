# The library gpuplan::gpuplan, with the headers of include/gpuplan: of this build (add_subdirectory, FetchContent), and
# installed as one archive with all that is ours inside, for find_package(gpuplan).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
configure_file(${PROJECT_SOURCE_DIR}/include/gpuplan/version.h.in ${PROJECT_BINARY_DIR}/include/gpuplan/version.h @ONLY)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/library/*.cpp)
add_library(gpuplan_library STATIC EXCLUDE_FROM_ALL ${sources})
add_library(gpuplan::gpuplan ALIAS gpuplan_library)
set_target_properties(gpuplan_library PROPERTIES OUTPUT_NAME gpuplan ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_compile_features(gpuplan_library PUBLIC cxx_std_20)
target_include_directories(gpuplan_library PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_link_libraries(gpuplan_library PRIVATE gpuplan_options gpuplan_once_a_process gpuplan_tools CLI11::CLI11
                                              nlohmann_json::nlohmann_json)

# Every static library of ours that the command line is linked of.
set(parts "")
set(GPUPLAN_LIBRARY_NEEDS "yaml-cpp::yaml-cpp;ZLIB::ZLIB;${CMAKE_DL_LIBS}")
set(GPUPLAN_LIBRARY_READS_ONNX OFF)
foreach(target IN ITEMS tools validate calibration executor shadow_session shadow_host importers onnx onnx_schema git subprocess files configs
                        layers estimator estimator_once allocator)
  if(TARGET gpuplan_${target})
    list(APPEND parts $<TARGET_OBJECTS:gpuplan_${target}>)
  endif()
endforeach()
if(TARGET gpuplan_onnx)
  set(GPUPLAN_LIBRARY_READS_ONNX ON)
  list(APPEND GPUPLAN_LIBRARY_NEEDS protobuf::libprotobuf-lite)
endif()
target_sources(gpuplan_library PRIVATE ${parts})

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/tools/cmake/gpuplanConfig.cmake.in ${PROJECT_BINARY_DIR}/gpuplanConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpuplan PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpuplanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS gpuplan_library ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/gpuplanConfig.cmake ${PROJECT_BINARY_DIR}/gpuplanConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpuplan COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gpuplan ${PROJECT_BINARY_DIR}/include/gpuplan
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library FILES_MATCHING PATTERN "*.h")
