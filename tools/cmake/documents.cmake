# The manual page and the completions of bash, zsh and fish: gpuplan writes them of its own flags. They are installed
# where distributions look for them; a wheel has them in its environment's share/.
include(GNUInstallDirs)
set(folder ${PROJECT_BINARY_DIR}/documents)
set(shared ${CMAKE_INSTALL_DATADIR})
if(SKBUILD)
  set(shared ${SKBUILD_DATA_DIR}/share)
endif()
file(MAKE_DIRECTORY ${folder})
set(documents "")
function(gpuplan_document file destination)
  add_custom_command(
    OUTPUT ${folder}/${file}
    COMMAND gpuplan ${ARGN} > ${folder}/${file}
    DEPENDS gpuplan
    COMMENT "Writing ${file}"
    VERBATIM)
  install(FILES ${folder}/${file} DESTINATION ${shared}/${destination} COMPONENT program OPTIONAL)
  set(documents ${documents} ${folder}/${file} PARENT_SCOPE)
endfunction()
gpuplan_document(gpuplan.1 man/man1 man)
gpuplan_document(gpuplan bash-completion/completions completion bash)
gpuplan_document(_gpuplan zsh/site-functions completion zsh)
gpuplan_document(gpuplan.fish fish/vendor_completions.d completion fish)
add_custom_target(gpuplan_documents DEPENDS ${documents})
