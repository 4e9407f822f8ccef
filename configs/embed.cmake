# Writes the C++ source of one folder's embedded files. Run by the build:
#   cmake -Dfolder=models -Dlist=FILE_WITH_PATHS -Doutput=embedded_models.cpp -P embed.cmake
# Bytes are written as hexadecimal escapes, 32 a line: no limit on a file's content, and no dependence on the
# compiler's source encoding.
file(READ ${list} files)
list(LENGTH files count)
set(rows "")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WLE)
  get_filename_component(file_name ${file} NAME)
  file(SIZE ${file} size)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  string(REPEAT "." 128 line)
  string(REGEX REPLACE "(${line})" "\\1\"\n     \"" bytes "${bytes}")
  string(APPEND rows "    {\"${name}\", \"configs/${folder}/${file_name}\",\n     {\"${bytes}\", ${size}}},\n")
endforeach()
file(
  WRITE ${output}
  "// Generated from configs/${folder} by configs/embed.cmake.
#include <array>

#include \"configs/embedded.h\"

namespace gpuplan {
namespace {
constexpr std::array<EmbeddedFile, ${count}> kFiles{{
${rows}}};
}  // namespace

std::span<const EmbeddedFile> embedded_${folder}() { return kFiles; }

}  // namespace gpuplan
")
