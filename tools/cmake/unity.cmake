# gpuplan_unity(TARGET): compiles the files of one folder together, ten at a time (GPUPLAN_UNITY): most of a file's time
# goes into the headers that its neighbours include too. Names in unnamed namespaces are therefore distinct within a
# folder; in layers/ each file has a namespace of its own.
option(GPUPLAN_UNITY "Compile neighbouring files together" OFF)

function(gpuplan_unity target)
  if(NOT GPUPLAN_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR count_${folder} "0${count_${folder}} + 1")
    math(EXPR part "(${count_${folder}} - 1) / 10")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${part}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
